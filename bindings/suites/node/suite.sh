#!/bin/bash
# The tests of Node's timers on Timers: test/parallel/test-timers* and
# test/sequential/test-timers*. NODE is a checkout of nodejs/node, of the major version of
# the node that runs: another version tests another behaviour. A file in which our functions
# make no timeout is no part of the suite: it tests setImmediate() or the inside of Node.
set -eu
. ../../lib.sh
[ -n "${NODE:-}" ] || skip 'set NODE to a checkout of nodejs/node'
# The adapter is CommonJS, as most of the tests are, and requires a module.
need 'no Node of version 20.19 or later: apt-get install nodejs' \
	node -e 'process.exit(process.features.require_module ? 0 : 1)'
need 'no npm: apt-get install npm' npm --version
here=$PWD
mkdir -p "$SCRATCH/tree"
cp -r ../../node/src ../../node/package.json "$SCRATCH/tree"
(cd "$SCRATCH/tree" && npm install --no-audit --no-fund >/dev/null 2>&1) ||
	skip 'npm cannot install koffi: set the registry, as in npm_config_registry'
export HWHEEL_SUITE_INDEX=$SCRATCH/tree/src/index.js HWHEEL_SUITE_CALLS=$SCRATCH/calls

tests=0 passed=0 listed=0 others=0 failed=''
for file in "$NODE"/test/parallel/test-timers*.js "$NODE"/test/sequential/test-timers*.js; do
	name=$(basename "$file")
	if grep -q "^$name:" not_applicable; then
		tests=$((tests + 1)) listed=$((listed + 1))
		continue
	fi
	# The flags of the test, in words.
	flags=$(sed -n 's,^// Flags: ,,p' "$file")
	rm -f "$HWHEEL_SUITE_CALLS"
	code=0
	(cd "$(dirname "$file")" &&
		NODE_OPTIONS="--require \"$here/adapter.cjs\"" timeout 60 node $flags "$file") || code=$?
	if [ ! -s "$HWHEEL_SUITE_CALLS" ] && [ $code -eq 0 ]; then
		others=$((others + 1))
		continue
	fi
	tests=$((tests + 1))
	if [ $code -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed="$failed $name"
	fi
done
echo "$others files make no timeout of ours"
[ -z "$failed" ] || echo "failed:$failed"
echo "Node test-timers* | $(revision "$NODE") | $tests | $passed | $listed"
