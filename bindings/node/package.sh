#!/bin/bash
# The package for npm with the library inside, installed into an empty directory and
# used there.
set -euo pipefail
. ../lib.sh
alone
need 'no Node of version 18.17 or later: apt-get install nodejs' \
	node -e 'process.exit(AbortSignal.any ? 0 : 1)'
need 'no npm: apt-get install npm' npm --version
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
src/own.js
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
$tsc --lib es2022,esnext.disposable --types node types.ts using.ts
# The hostile calls, on what was installed.
mkdir node_modules/hwheel/test
cp "$SCRATCH/tree/test/hostile.test.js" node_modules/hwheel/test
node --test node_modules/hwheel/test/ >"$SCRATCH/tap" || { cat "$SCRATCH/tap"; exit 1; }
package=$(basename "$SCRATCH"/dist/*.tgz)
echo "$package, $(du -k "$SCRATCH/dist/$package" | cut -f 1) kB: installed, first timer fired," \
	"hostile calls passed"
