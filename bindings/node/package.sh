#!/bin/bash
# The package for npm with the library inside, installed into an empty directory and
# used there.
set -euo pipefail
. ../lib.sh
alone
need 'no Node of version 18 or later: apt-get install nodejs' \
	node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)'
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
const timers = new Timers();
const timeout: Timeout = timers.setTimeout((a: number) => console.log(a + 1), 5, 7);
const again: boolean = timeout.refresh(5).pending || timeout.cancel();
{ using interval: Timeout = timers.setInterval(() => {}, 5), all = new Timers(); }
const text: Promise<string> = timers.sleep(1, "text", { signal: timers.signal(5) });
// @ts-expect-error: an unknown option
new Wheel({ tick: 1 });
// @ts-expect-error: not a time
wheel.once("1", 2);
// @ts-expect-error: not a function
timers.setTimeout("code", 1);
// @ts-expect-error: an unknown option of sleep
timers.sleep(1, 2, { singal: timers.signal(1) });
timers.unref().ref().close();
export { moved, again, timeout, text };
END
npx tsc --noEmit --strict --target es2022 --lib es2022,esnext.disposable,dom --module nodenext types.ts
# The hostile calls, on what was installed.
mkdir node_modules/hwheel/test
cp "$SCRATCH/tree/test/hostile.test.js" node_modules/hwheel/test
node --test node_modules/hwheel/test/ >"$SCRATCH/tap" || { cat "$SCRATCH/tap"; exit 1; }
package=$(basename "$SCRATCH"/dist/*.tgz)
echo "$package, $(du -k "$SCRATCH/dist/$package" | cut -f 1) kB: installed, first timer fired," \
	"hostile calls passed"
