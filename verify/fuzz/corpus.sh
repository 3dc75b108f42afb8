#!/bin/sh
# A corpus as one file, with an input in hexadecimal digits on each line, and as the
# directory that a fuzzer reads:
#
#	corpus.sh unpack FILE DIRECTORY		the directory is made anew
#	corpus.sh pack DIRECTORY FILE
set -eu
case $1 in
unpack)
	rm -rf "$3"
	mkdir -p "$3"
	perl -e 'my ($file, $to) = @ARGV; open my $in, "<", $file or die "$file: $!\n";
		while (<$in>) { /^([0-9a-f]{2})*$/ or die "$file:$.: no hexadecimal digits\n";
			chomp; open my $out, ">:raw", "$to/$." or die "$to/$.: $!\n";
			print $out pack "H*", $_ }' "$2" "$3"
	;;
pack)
	for input in "$2"/*; do
		od -An -v -tx1 "$input" | tr -d ' \n'
		echo
	done | awk '{ print length, $0 }' | LC_ALL=C sort -k 1,1n -k 2 | cut -d ' ' -f 2 >"$3.new"
	[ -s "$3.new" ] && mv "$3.new" "$3"
	;;
*) exit 2 ;;
esac
