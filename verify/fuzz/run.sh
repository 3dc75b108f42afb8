#!/bin/sh
# Runs the fuzzer in several jobs that share what they find, with progress each
# minute, and prints their sums:
#
#	run.sh PROGRAM JOBS EXECUTIONS SECONDS CORPUS KEPT
#
# New inputs go to the directory CORPUS, the file KEPT is only read; 0 seconds is no limit. A finding
# is a failure: its input and what the job said of it are beside PROGRAM.
#
# A corpus is one file, with an input in hexadecimal digits on each line, and the directory that a
# fuzzer reads:
#
#	run.sh unpack FILE DIRECTORY		the directory is made anew
#	run.sh pack DIRECTORY FILE
unpack() {
	rm -rf "$2"
	mkdir -p "$2"
	perl -e 'my ($file, $to) = @ARGV; open my $in, "<", $file or die "$file: $!\n";
		while (<$in>) { /^([0-9a-f]{2})*$/ or die "$file:$.: no hexadecimal digits\n";
			chomp; open my $out, ">:raw", "$to/$." or die "$to/$.: $!\n";
			print $out pack "H*", $_ }' "$1" "$2"
}
pack() {
	for input in "$1"/*; do
		od -An -v -tx1 "$input" | tr -d ' \n'
		echo
	done | awk '{ print length, $0 }' | LC_ALL=C sort -k 1,1n -k 2 | cut -d ' ' -f 2 >"$2.new"
	[ -s "$2.new" ] && mv "$2.new" "$2"
}
case $1 in unpack | pack) "$@"; exit ;; esac

program=$1 jobs=$2 executions=$3 seconds=$4 corpus=$5 kept=$6
dir=$(dirname "$program")
begin=$(date +%s)
pids=
findings=0
# Under the C functions the clocks are the test's own, which has an alarm instead.
case $kept in
*threads.corpus) what='several threads' timeout=60 ;;
*) what='the C functions' timeout=0 ;;
esac

rm -f "$dir"/job-*.log "$dir"/finding-*
mkdir -p "$corpus"
unpack "$kept" "$dir/kept" || exit 1
for job in $(seq "$jobs"); do
	"$program" -runs=$(((executions + jobs - 1) / jobs)) \
		-max_total_time="$seconds" -max_len=600 -len_control=0 -timeout=$timeout \
		-report_slow_units=60 -reload=10 -print_final_stats=1 \
		-artifact_prefix="$dir/finding-" "$corpus" "$dir/kept" \
		> "$dir/job-$job.log" 2>&1 &
	pids="$pids $!"
done
while sleep 60 >/dev/null 2>&1; do
	for job in $(seq "$jobs"); do
		echo "    $job: $(tail -n 1 "$dir/job-$job.log")"
	done
done &
progress=$!
trap 'kill $pids $progress; exit 1' INT TERM

for pid in $pids; do
	wait "$pid" || findings=$((findings + 1))
done
kill $progress

awk -v what="$what" -v jobs="$jobs" -v seconds=$(($(date +%s) - begin)) -v findings=$findings '
	sub(/^stat::/, "") { sum[$1] += $2 }
	END {
		printf "    %s: %d executions in %d s by %d jobs, %d a second\n",
			what, sum["number_of_executed_units:"], seconds, jobs,
			sum["number_of_executed_units:"] / (seconds ? seconds : 1)
		if ("calls:" in sum)
			printf "    %d calls, ", sum["calls:"]
		printf "%d timers fired, %d findings\n", sum["fired:"], findings
	}' "$dir"/job-*.log
[ $findings -eq 0 ] && exit
for log in "$dir"/job-*.log; do
	grep -A 12 'ERROR: \|panicked at' "$log"
done
ls "$dir"/finding-*
exit 1
