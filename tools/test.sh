#!/bin/bash
# Runs hwheel-latency in every drive and on every clock for a moment: no timer
# early, none lost, files that parse and add up; and every bad option refused.
# With a clock that is behind, every timer is early, and it must say so.
set -eu
bin=$(realpath "$1")
tool=$bin/hwheel-latency
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

die() { echo "hwheel-latency: $*"; exit 1; }

# check FILE: the JSON and the SVG that a run with --raw has written.
check() {
	python3 -m json.tool "$1.json" >/dev/null || die "bad JSON"
	python3 - "$1" <<'PY' || die "the files do not add up"
import json, math, re, sys, xml.dom.minidom
path = sys.argv[1]
report = json.load(open(path + ".json"))
for name in "wheel", "raw":
    r = report[name]
    assert r["fired"] > 0 and r["early"] == 0, r
    assert r["armed"] == r["fired"] + r["drained"], r
    assert sum(b["count"] for b in r["buckets"]) == r["fired"], r
    order = [r[k + "_ns"] for k in ("min", "p50", "p99", "p999", "max")]
    assert order == sorted(order), r
    assert r["min_ns"] <= r["average_ns"] <= r["max_ns"], r
    first, last = r["buckets"][0], r["buckets"][-1]
    assert first["from_ns"] <= r["min_ns"] <= first["to_ns"], r
    assert last["from_ns"] <= r["max_ns"] <= last["to_ns"], r
    for key, per_mille in ("p50", 500), ("p99", 990), ("p999", 999):
        at = r[key + "_ns"]
        below = sum(b["count"] for b in r["buckets"] if b["to_ns"] < at)
        upto = sum(b["count"] for b in r["buckets"] if b["from_ns"] <= at)
        assert below * 1000 < r["fired"] * per_mille <= upto * 1000, (key, r)
plot = xml.dom.minidom.parse(path + ".svg")
classes = [p.getAttribute("class") for p in plot.getElementsByTagName("path")]
assert {"wheel", "raw"} <= set(classes), classes
texts = {t.firstChild.data for t in plot.getElementsByTagName("text")}
assert {"lateness", "timers per µs of lateness"} <= texts, texts

# The height of a bar is the logarithm of a density, whatever its width.
def low(bucket):
    group, rest = divmod(bucket, 32)
    return (rest + 32) << (group - 1) if group else rest
def bucket_of(ns):
    high = ns.bit_length() - 1
    return ns if ns < 32 else ((high - 4) << 5) + ((ns >> (high - 5)) & 31)
counts = {}
for b in report["wheel"]["buckets"]:
    bar = bucket_of(b["from_ns"]) // 4
    counts[bar] = counts.get(bar, 0) + b["count"]
want = [math.log10(count / (low(4 * bar + 4) - low(4 * bar))) for bar, count in sorted(counts.items())]
path = next(p for p in plot.getElementsByTagName("path") if p.getAttribute("class") == "wheel")
got = [float(y) for y in re.findall(r"M[\d.]+ [\d.]+V([\d.]+)H", path.getAttribute("d"))]
assert len(got) == len(want) > 2, (len(got), len(want))
least, most = want.index(min(want)), want.index(max(want))
scale = (got[least] - got[most]) / (want[most] - want[least])
for y, density in zip(got, want):
    assert abs(got[most] + scale * (want[most] - density) - y) < 0.2, (y, density)
PY
}

python=yes
command -v python3 >/dev/null || {
	echo '    skipped: the files of hwheel-latency, python3 is not installed'
	python=
}
for drive in thread descriptor; do
	for clock in monotonic boottime realtime; do
		"$tool" --threads=2 --rate=2000 --delay=0s-20ms --tick=100us \
			--clock=$clock --drive=$drive --duration=1s --raw \
			--json="$dir/$drive.json" --svg="$dir/$drive.svg" \
			> "$dir/out" || die "--drive=$drive --clock=$clock failed"
		grep -q '^  all ' "$dir/out" || die "no last line"
		grep -q 'the wheel .*| .*a timerfd' "$dir/out" || die "no names above the columns"
		[ -z "$python" ] || check "$dir/$drive"
	done
done

# A line a second, and an interrupt ends it as the time would.
"$tool" --duration=0s > "$dir/out" &
for _ in $(seq 600); do
	! grep -q '^ *[0-9]' "$dir/out" || break
	sleep 0.1
done
kill -INT $!
wait $! || die "an interrupt is not a failure"
grep -q '^ *[0-9]' "$dir/out" || die "no line each second"
grep -q '^  all ' "$dir/out" || die "no last line after an interrupt"

status=0
"$bin/early-latency" --duration=1s > "$dir/out" 2> "$dir/err" || status=$?
[ $status -eq 1 ] && grep -q 'were early' "$dir/err" ||
	die "early timers go unnoticed"

# Nor do figures that nobody gets.
if "$tool" --duration=100ms > /dev/full 2> "$dir/err"; then
	die "a full disk goes unnoticed"
fi
grep -q 'cannot write' "$dir/err" || die "a full disk: the message is: $(cat "$dir/err")"

# The commands of the manual page.
sed -n '/^\.EX/,/^\.EE/p' man/hwheel-latency.1 | grep -v '^\.' |
	sed 's/\\-/-/g' > "$dir/commands"
[ -s "$dir/commands" ] || die "the manual page has no examples"
while read -r command; do
	if [[ $command == chrt* ]] && ! chrt -f 50 true 2>/dev/null; then
		echo "    skipped: $command, which is not permitted here"
		continue
	fi
	(cd "$dir" && PATH="$bin:$PATH" bash -c "$command --duration=1s" >/dev/null) ||
		die "failed: $command"
done < "$dir/commands"

"$tool" --help | grep -q '^Usage: hwheel-latency' || die "no help"
"$tool" --version | grep -Eqx 'hwheel-latency [0-9]+\.[0-9]+\.[0-9]+' || die "no version"

# refuse WORD OPTION...: status 2, and one message that names what is wrong.
refuse() {
	local word=$1 status=0
	shift
	"$tool" "$@" > "$dir/out" 2> "$dir/err" || status=$?
	[ $status -eq 2 ] || die "$*: status $status, not 2"
	[ ! -s "$dir/out" ] || die "$*: output in spite of the error"
	grep -q -e "$word" "$dir/err" || die "$*: the message is: $(cat "$dir/err")"
}
refuse --threads --threads=0
refuse --threads -t 1025
refuse --threads -t 1x
refuse --rate --rate=-1
refuse --rate --rate=10000001
refuse --delay --delay=5
refuse --delay --delay=5ms-1ms
refuse --delay --delay=1ms-
refuse --delay --delay=1ms-2ms-3ms
refuse --tick --tick=0s
refuse --tick --tick=999ns
refuse --tick --tick=3601s
refuse --tick --tick=1msx
refuse --tick --tick=99999999999999999999ns
refuse --clock --clock=manual
refuse --drive --drive=
refuse --duration --duration=forever
refuse --json --json="$dir/none/x.json"
refuse --svg --svg="$dir"
refuse 'holds 67000000' --rate=10000000 --delay=1s-1000s
refuse frequency --frequency=1
refuse tick --tick
refuse 'not an option' fast

# A bad option leaves the files of an earlier run.
echo kept > "$dir/kept"
refuse --tick --json="$dir/kept" --svg="$dir/kept" --tick=0s
refuse --svg --json="$dir/kept" --svg="$dir/none/x.svg"
refuse 'not an option' --svg="$dir/kept" fast
[ "$(cat "$dir/kept")" = kept ] || die "a bad option empties a file"
"$tool" --json="$dir/kept" --duration=100ms >/dev/null
! grep -q kept "$dir/kept" || die "an old file keeps its contents"
