#!/bin/bash
# The binding for Node: its tests, package, suite and bench. ../run.sh says how this is called.
set -euo pipefail
. ../lib.sh

# The oldest that is promised, the last of each line that was supported since, and the newest.
do_versions() {
	printf '%s\n' 18.17.1 20.20.2 22.23.3 24.21.0 25.9.0 26.12.1
}

node_and_npm() {
	need 'no Node of version 18.17 or later: apt-get install nodejs' \
		node -e 'process.exit(AbortSignal.any ? 0 : 1)'
	need 'no npm: apt-get install npm' npm --version
}

# The package in a copy of this tree, with what it depends on; the shell goes there.
environment() {
	node_and_npm
	mkdir -p "$SCRATCH/tree"
	cp -r . "$SCRATCH/tree"
	cd "$SCRATCH/tree"
	need 'npm cannot install koffi: set the registry, as in npm_config_registry' \
		npm install --no-audit --no-fund
	[ -z "${VERSION:-}" ] || of_version
}

# From here on `node` is that of VERSION, from the registry of npm.
of_version() {
	arch=$(machine) || skip "$arch"
	need "npm cannot install Node $VERSION: set the registry, as in npm_config_registry" \
		npm install --no-audit --no-fund --prefix "$SCRATCH/node" "node-linux-$arch@$VERSION"
	export PATH="$SCRATCH/node/node_modules/node-linux-$arch/bin:$PATH"
	[ "$(node --version)" = "v$VERSION" ]
}

do_test() {
	environment
	node --test test/*.test.js >"$SCRATCH/tap" || { cat "$SCRATCH/tap"; exit 1; }
	grep -o 'pass [0-9]*$' "$SCRATCH/tap"
}

# The package for npm with the library inside, installed into an empty directory and
# used there.
do_package() {
	alone
	node_and_npm
	arch=$(machine) || skip "$arch"
	cp -r . "$SCRATCH/tree"
	cp ../../LICENSE-* "$SCRATCH/tree"
	cd "$SCRATCH/tree"
	mkdir -p "prebuilds/linux-$arch"
	strip --strip-unneeded -o "prebuilds/linux-$arch/libhwheel.so.0" "$HWHEEL_PREFIX/lib/libhwheel.so.0"

	npm pack --dry-run 2>&1 | sed -n 's/^npm notice [0-9.]*k\?B //p' | sort >"$SCRATCH/list"
	diff "$SCRATCH/list" - <<END || { echo 'the package holds something else'; exit 1; }
LICENSE-APACHE
LICENSE-MIT
README.md
package.json
prebuilds/linux-$arch/libhwheel.so.0
src/constants.js
src/index.d.ts
src/index.js
src/native.js
src/signals.js
src/timers.js
src/wheel.js
END
	npm pack --silent --pack-destination "$SCRATCH/dist" >/dev/null

	cd "$SCRATCH/clean"
	echo '{ "private": true, "type": "module" }' >package.json
	need 'npm cannot install koffi and typescript: set the registry, as in npm_config_registry' \
		npm install --no-audit --no-fund "$SCRATCH"/dist/*.tgz typescript@5 @types/node
	cat >smallest.js <<'END'
import { Timers, version } from "hwheel";
const timers = new Timers();
console.log(await timers.sleep(10, `hello from ${version()}`));
END
	[ "$(node smallest.js)" = "hello from $HWHEEL_VERSION" ]
	cat >types.ts <<'END'
import { ABS, Timers, Wheel, type Options, type Timeout } from "hwheel";
const options: Options = { tickNs: 1000n, batch: 8 };
const wheel = new Wheel(options);
const timer: bigint = wheel.once(1, 2n, ABS);
const moved: boolean = wheel.mod(timer, 5);
const timers = new Timers({ virtual: true });
const timeout: Timeout = timers.setTimeout((a: number) => String(a + 1), 5, 7);
const again: boolean = timeout.refresh(5).unref().ref().hasRef() || timeout.cancel();
timers.setTimeout(function () { this.refresh(); });
const { setTimeout, clearTimeout } = timers;
clearTimeout(setTimeout((text: string) => text.length, 1, "text"));
timers.clearTimeout(timeout[Symbol.toPrimitive]());
const signal = timers.signal(5);
timers.clearInterval(signal);
const text: Promise<string> = timers.sleep(1, "text", { signal, ref: false });
const nothing: Promise<void> = timers.sleep(1);
export async function last(): Promise<number> {
  for await (const value of timers.interval(1, 7)) return value;
  return timers.now();
}
// @ts-expect-error: an unknown option
new Wheel({ tick: 1 });
// @ts-expect-error: not a time
wheel.once("1", 2);
// @ts-expect-error: not a function
timers.setTimeout("code", 1);
// @ts-expect-error: an unknown option of sleep
timers.sleep(1, 2, { singal: signal });
// @ts-expect-error: the event loop drives no manual clock
new Timers({ clock: 3 });
timers.unref().ref().close();
timers[Symbol.dispose]();
export { moved, again, text, nothing };
END
	cat >using.ts <<'END'
import { Timers } from "hwheel";
{ using all = new Timers(), interval = all.setInterval(() => {}, 5); }
export const signal: AbortSignal = AbortSignal.any([new Timers().signal(5)]);
END
	tsc="npx tsc --noEmit --strict --module nodenext --target es2022"
	$tsc --lib es2022 --typeRoots none types.ts
	$tsc --lib es2022 --types node types.ts
	$tsc --lib es2022,esnext.disposable,dom --typeRoots none types.ts using.ts
	cat >promised.ts <<'END'
import { promisify } from "node:util";
import { Timers } from "hwheel";
export const text: Promise<string> = promisify(new Timers().setTimeout)(1, "text");
END
	$tsc --lib es2022,esnext.disposable --types node types.ts using.ts promised.ts
	# The hostile calls, on what was installed.
	mkdir node_modules/hwheel/test
	cp "$SCRATCH/tree/test/hostile.test.js" node_modules/hwheel/test
	node --test node_modules/hwheel/test/*.test.js >"$SCRATCH/tap" || { cat "$SCRATCH/tap"; exit 1; }
	package=$(echo "$SCRATCH"/dist/*.tgz)
	packaged "$(basename "$package")" "$package"
}

# The tests of p-timeout, whose setTimeout is ours. P_TIMEOUT is a checkout.
p_timeout() {
	of=$(revision "$P_TIMEOUT")
	rm -rf "$SCRATCH/p-timeout"
	mkdir -p "$SCRATCH/p-timeout"
	cp "$P_TIMEOUT"/*.js "$SCRATCH/p-timeout"
	cd "$SCRATCH/p-timeout"
	echo '{ "private": true, "type": "module" }' >package.json
	need 'npm cannot install what p-timeout tests with: set the registry, as in npm_config_registry' \
		npm install --no-audit --no-fund ava@6.4.1 delay@6.0.0 in-range@3.0.0 p-cancelable@4.0.1 \
		time-span@5.1.0 sinon@21.0.0
	npx ava --no-worker-threads --tap >original.tap || :
	rm -f "$HWHEEL_SUITE_CALLS"
	NODE_OPTIONS="--require \"$adapter\"" npx ava --no-worker-threads --tap >ours.tap || :
	[ -s "$HWHEEL_SUITE_CALLS" ] || { echo 'p-timeout made no timeout of ours'; exit 1; }
	grep '^not ok' ours.tap || :
	echo "p-timeout | $of | $(grep -Ec '^(not )?ok' original.tap) | $(grep -c '^ok' ours.tap) | 0 | $(grep -c '^ok' original.tap)"
	cd "$SCRATCH/tree"
}

# The tests of timers that browsers share and Node can run. WPT is a checkout of the web
# platform tests, or the directory test/fixtures/wpt of one of Node.
wpt() {
	of=$(revision "$WPT")
	# What is not applicable, with the reason.
	listed='
type-long-setinterval.any.js: a delay above 2^31-1 ms is a delay here, there 0
type-long-settimeout.any.js: a delay above 2^31-1 ms is a delay here, there 0
'
	echo "$listed"
	rm -f "$SCRATCH"/wpt.* "$HWHEEL_SUITE_CALLS"
	# Prints a line for each test of a file: whether it passed, and its name.
	cat >"$SCRATCH/wpt.cjs" <<'END'
"use strict";
const { readFileSync } = require("fs");
const { runInThisContext } = require("vm");
const [harness, test] = process.argv.slice(2);

globalThis.self = globalThis;
runInThisContext(readFileSync(harness, "utf8"), { filename: harness });
add_completion_callback((tests, status) => {
  if (status.status !== status.OK) console.log(`failed the harness: ${status.message}`);
  for (const { name, status, message, PASS } of tests) {
    console.log(status === PASS ? `passed ${name}` : `failed ${name}: ${message}`);
  }
  process.exit();
});
runInThisContext(readFileSync(test, "utf8"), { filename: test });
END
	for file in "$WPT"/html/webappapis/timers/*.any.js; do
		for on in original ours; do
			[ $on = original ] || ! echo "$listed" | grep -q "^$(basename "$file"):" || continue
			preload=
			[ $on = original ] || preload="--require \"$adapter\""
			NODE_OPTIONS=$preload timeout 60 node "$SCRATCH/wpt.cjs" \
				"$WPT/resources/testharness.js" "$file" >"$SCRATCH/wpt" 2>&1 || :
			# A file that ends without a result is a test that fails.
			grep -E '^(passed|failed) ' "$SCRATCH/wpt" >>"$SCRATCH/wpt.$on" ||
				echo "failed $(basename "$file")" >>"$SCRATCH/wpt.$on"
		done
	done
	[ -s "$HWHEEL_SUITE_CALLS" ] || { echo 'the web platform tests made no timeout of ours'; exit 1; }
	grep ^failed "$SCRATCH"/wpt.* || :
	echo "WPT, timers | $of | $(wc -l <"$SCRATCH/wpt.original") | $(grep -c ^passed "$SCRATCH/wpt.ours") | $(echo "$listed" | grep -c .) | $(grep -c ^passed "$SCRATCH/wpt.original")"
}

# Runs a test of Node: on, file. On "ours" our functions stand for Node's.
node_test() {
	# The flags of the test, in words.
	flags=$(sed -n 's,^// Flags: ,,p' "$2")
	preload=
	[ "$1" = original ] || preload="--require \"$adapter\""
	(cd "$(dirname "$2")" && NODE_OPTIONS=$preload timeout 60 node $flags "$2")
}

# Node's tests of its timers on Timers, from a checkout: test/parallel/test-timers* and
# test/sequential/test-timers*. A file in which our functions make no timeout is no part of
# the suite: it tests setImmediate() or the inside of Node.
node_suite() {
	of=$(revision "$1")
	tests=0 passed=0 listed=0 others=0 original=0 failed=''
	for file in "$1"/test/parallel/test-timers*.js "$1"/test/sequential/test-timers*.js; do
		name=$(basename "$file")
		if grep -q "^$name:" "$SCRATCH/not_applicable"; then
			tests=$((tests + 1)) listed=$((listed + 1))
			! node_test original "$file" || original=$((original + 1))
			continue
		fi
		rm -f "$HWHEEL_SUITE_CALLS"
		code=0
		node_test ours "$file" || code=$?
		if [ ! -s "$HWHEEL_SUITE_CALLS" ] && [ $code -eq 0 ]; then
			others=$((others + 1))
			continue
		fi
		tests=$((tests + 1))
		! node_test original "$file" || original=$((original + 1))
		if [ $code -eq 0 ]; then
			passed=$((passed + 1))
		else
			failed="$failed $name"
		fi
	done
	echo "$others files make no timeout of ours"
	[ -z "$failed" ] || echo "failed:$failed"
	echo "Node test-timers* | $of | $tests | $passed | $listed | $original"
}

# NODE names checkouts of nodejs/node. The tests of a version run on that version, from npm,
# since another one tests another behaviour.
do_suite() {
	[ -n "${NODE:-}${P_TIMEOUT:-}${WPT:-}" ] || skip 'NODE, P_TIMEOUT and WPT name no checkout'
	# The adapter is CommonJS, as most of the tests are, and requires a module.
	need 'no Node of version 20.19 or later: apt-get install nodejs' \
		node -e 'process.exit(process.features.require_module ? 0 : 1)'
	adapter=$(cd ../suites && pwd)/adapter.cjs
	environment
	export HWHEEL_SUITE_INDEX=$PWD/src/index.js HWHEEL_SUITE_CALLS=$SCRATCH/calls

	# What is not applicable, with the reason.
	cat >"$SCRATCH/not_applicable" <<'END'
test-timers-active.js: reads the links between Node's timeouts
test-timers-max-duration-warning.js: a delay above 2^31-1 ms is a delay here, in Node 1 ms
test-timers-non-integer-delay.js: a fraction of a millisecond counts here, Node cuts it
test-timers.js: a delay above 2^31-1 ms is a delay here, in Node 1 ms
END
	[ -z "${P_TIMEOUT:-}" ] || p_timeout
	[ -z "${WPT:-}" ] || wpt
	before=$PATH
	for checkout in ${NODE:-}; do
		PATH=$before VERSION=$(revision "$checkout")
		case $VERSION in v[0-9]*.*.*) VERSION=${VERSION#v} ;; *) VERSION='' ;; esac
		# The adapter requires a module.
		case $VERSION in '' | 1?.* | 20.?.* | 20.1?.*) ;; *) of_version ;; esac
		node_suite "$checkout"
	done
}

do_bench() {
	environment
	node bench.js
	node bench_own.js
}

"do_$1"
