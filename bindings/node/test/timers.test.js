import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { Timers, Wheel } from "../src/index.js";

const turn = () => new Promise(setImmediate);

/** Runs a test with timers. */
function timed(name, test, options) {
  it(name, async () => {
    const timers = new Timers(options);
    try {
      await test(timers);
    } finally {
      timers.close();
    }
  });
}

timed("functions are called once, in time, with their arguments", async (timers) => {
  const log = [];
  const begin = performance.now();
  for (let i = 0; i < 2000; i++) {
    const ms = (i % 40) / 2, armed = performance.now();
    timers.setTimeout((n) => {
      assert.ok(performance.now() - armed >= ms, "early");
      log.push(n);
    }, ms, i);
  }
  while (log.length < 2000) await timers.sleep(1);
  await timers.sleep(25);
  assert.deepEqual(log.sort((a, b) => a - b), [...Array(2000).keys()]);
  assert.ok(performance.now() - begin >= 19.5);
});

timed("what is cancelled in its turn never crosses into C", async (timers) => {
  for (let i = 0; i < 500; i++) assert.equal(timers.setTimeout(() => {}, 1000).cancel(), true);
  await turn();
  const { armed, live } = timers.stats();
  assert.deepEqual([armed, live], [0n, 1n]);
});

timed("a slot that is used again in a batch does not call its next owner early", async (timers) => {
  const log = [];
  let others = [];
  const begin = performance.now();
  timers.setTimeout(() => {
    for (const other of others) other.cancel();
    others = Array.from({ length: 3000 }, () =>
      timers.setTimeout(() => log.push(performance.now() - begin), 60));
  }, 5);
  others = Array.from({ length: 100 }, () => timers.setTimeout(() => log.push(-1), 5));
  while (performance.now() - begin < 20) { /* All are due in one batch. */ }
  while (log.length < 3000) await timers.sleep(5);
  assert.ok(log.every((at) => at >= 60 || at === -1), `${Math.min(...log)}`);
});

timed("refresh moves", async (timers) => {
  const begin = performance.now();
  const at = await new Promise((resolve) => {
    const timeout = timers.setTimeout(() => resolve(performance.now() - begin), 300);
    timers.setTimeout(() => timeout.refresh(400), 5);
  });
  assert.ok(at >= 405, `${at}`);
});

timed("an interval goes on until it is cancelled", async (timers) => {
  let calls = 0;
  await new Promise((resolve) => {
    const interval = timers.setInterval((by) => {
      calls += by;
      if (calls === 5) {
        assert.equal(interval.cancel(), true);
        resolve();
      }
    }, 2, 1);
  });
  await timers.sleep(20);
  assert.equal(calls, 5);
});

timed("promises and signals", async (timers) => {
  assert.equal(await timers.sleep(1, "value"), "value");
  const signal = timers.signal(5);
  await assert.rejects(timers.sleep(100_000, null, { signal }), { name: "TimeoutError" });
  await assert.rejects(timers.sleep(1, null, { signal }), { name: "TimeoutError" });
});

/** Calls `act` with next to no stack left, and again with more, until it succeeded 40 times. */
function deep(padding, act) {
  let done = 0;
  const fall = () => {
    try { fall(); } catch { /* full */ }
    if (done < 40) try { act(); done++; } catch { /* refused */ }
  };
  const begin = (n) => n > 0 ? begin(n - 1) : fall();
  begin(padding);
}

timed("a full stack refuses a timeout or calls it", async (timers) => {
  for (let padding = 0; padding < 12; padding++) {
    let armed = 0, called = 0, after = false;
    const arm = () => {
      timers.setTimeout(() => called++, 1);
      armed++;
    };
    await turn();
    deep(padding, arm);
    timers.setTimeout(() => { after = true; }, 2);
    for (let i = 0; i < 500 && !(after && called >= armed); i++)
      await new Promise((resolve) => setTimeout(resolve, 2));
    assert.deepEqual([called, after], [armed, true]);
  }
});

it("a full stack does not stop a wheel that is driven", async () => {
  const wheel = new Wheel();
  let called = 0;
  wheel.drive((n) => { called += n; });
  for (let padding = 0; padding < 12; padding++) {
    await turn();
    deep(padding, () => wheel.once(0, 1));
    const armed = Number(wheel.stats().armed);
    for (let i = 0; i < 500 && called < armed; i++)
      await new Promise((resolve) => setTimeout(resolve, 2));
    assert.equal(called, armed);
  }
  wheel.close();
});

timed("what finds no memory is armed in a later turn", async (timers) => {
  const { modMany } = Wheel.prototype;
  const called = timers.sleep(1, "called");
  Wheel.prototype.modMany = (handles) => {
    Wheel.prototype.modMany = modMany;
    return new Int32Array(handles.length).fill(-12);
  };
  assert.equal(await called, "called");
});

timed("nobody else reaches the wheel", async (timers) => {
  timers.setTimeout(() => {}, 1000);
  await turn();
  assert.equal(timers.stats().pending, 1n);
  assert.deepEqual([timers.wheel, timers.closed], [undefined, false]);
});

timed("bad arguments", async (timers) => {
  for (const bad of [-1, NaN, "1", undefined, null, 1n]) {
    assert.throws(() => timers.setTimeout(() => {}, bad), /not a time/);
    assert.throws(() => timers.setInterval(() => {}, bad), RangeError);
    assert.throws(() => timers.signal(bad), RangeError);
    await assert.rejects(timers.sleep(bad), RangeError);
  }
  await assert.rejects(timers.sleep(1, null, null), TypeError);
  assert.throws(() => timers.setTimeout(null, 1), TypeError);
  const timeout = timers.setTimeout(() => {}, Infinity);
  assert.throws(() => timeout.refresh(-1), RangeError);
  assert.equal(timeout.pending, true);
  assert.throws(() => new Timers({ tick: 1 }), /unknown option: tick/);
  assert.throws(() => timeout.refresh.call({}, 1), TypeError);
});

timed("a limit", async (timers) => {
  const first = timers.setTimeout(() => {}, 1000);
  assert.throws(() => timers.setTimeout(() => {}, 1000), { code: "ENOSPC" });
  first.cancel();
  timers.setTimeout(() => {}, 1000);
}, { maxTimers: 1 });

it("Symbol.dispose cancels a timeout and closes timers", { skip: !Symbol.dispose }, async () => {
  const timers = new Timers();
  const timeout = timers.setTimeout(() => assert.fail("called"), 1);
  timeout[Symbol.dispose]();
  assert.equal(timeout.pending, false);
  timers[Symbol.dispose]();
  assert.equal(timers.closed, true);
});

// Each program ends by itself; what its timers keep alive is still called.
const index = new URL("../src/index.js", import.meta.url);
for (const [name, program, output] of [
  ["a pending timeout keeps the process alive", "timers.setTimeout(() => console.log('called'), 5)", "called\n"],
  ["after unref it does not", "timers.unref().setTimeout(() => console.log('called'), 60_000)", ""],
  ["after ref it does again", "timers.unref().ref().setTimeout(() => console.log('called'), 5)", "called\n"],
  ["nor does a cancelled one", "const t = timers.setTimeout(() => {}, 60_000); setTimeout(() => t.cancel(), 5)", ""],
]) {
  it(name, () => {
    const run = spawnSync(process.execPath, ["--input-type=module", "--eval",
      `import { Timers } from ${JSON.stringify(fileURLToPath(index))};
       const timers = new Timers(); ${program};`], { encoding: "utf8", timeout: 30_000 });
    assert.deepEqual([run.status, run.stdout, run.stderr], [0, output, ""]);
  });
}
