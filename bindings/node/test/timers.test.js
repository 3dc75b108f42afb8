import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { spawnSync } from "node:child_process";
import * as events from "node:events";
import { readFile } from "node:fs/promises";
import { it, mock } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Timers, Wheel } from "../src/index.js";

const { addAbortListener } = events;
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

timed("functions are called in the order of their deadlines, and of their arming", async (timers) => {
  let log, begin, made = [];
  do { // A pause of the machine may move the second deadlines behind the first.
    made.forEach((timeout) => timeout.cancel());
    [log, made, begin] = [[], [], performance.now()];
    for (let i = 0; i < 1500; i++) made.push(timers.setTimeout(() => log.push(1500 + i), 300));
    for (let i = 0; i < 1500; i++) made.push(timers.setTimeout(() => log.push(i), 100));
  } while (performance.now() - begin > 150);
  // All are due in one turn, and C does not know all of them before.
  while (performance.now() - begin < 500) { /* busy */ }
  await timers.sleep(1);
  assert.deepEqual(log, [...Array(3000).keys()]);
});

timed("a function is called in the asynchronous context that armed its timeout", async (timers) => {
  const storage = new AsyncLocalStorage();
  const seen = [];
  const see = (name) => seen.push(`${name} ${storage.getStore()}`);
  await Promise.all(["a", "b"].map((id) => storage.run(id, () => {
    let calls = 0;
    timers.sleep(2).then(() => see(`sleep ${id}`));
    return new Promise((resolve) => timers.setTimeout(() => {
      see(`timeout ${id}`);
      const interval = timers.setInterval(() => {
        see(`interval ${id}`);
        if (++calls === 2) resolve(interval.cancel());
      }, 10);
    }, 2));
  })));
  assert.deepEqual(seen.sort(), ["interval", "interval", "sleep", "timeout"].flatMap(
    (name) => ["a", "b"].map((id) => `${name} ${id} ${id}`)).sort());
});

it("a handler of drive() is called in the asynchronous context of drive()", async () => {
  const storage = new AsyncLocalStorage();
  const wheel = new Wheel();
  const store = await new Promise((resolve) => {
    storage.run("driver", () => wheel.drive(() => resolve(storage.getStore())));
    storage.run("request", () => wheel.once(1_000_000, 1));
  });
  assert.equal(store, "driver");
  wheel.close();
});

timed("between two functions run ticks and promises, as between two of Node's", async (timers) => {
  const ofNode = { setTimeout, sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)) };
  for (const throws of [false, true]) {
    const logs = [];
    for (const any of [ofNode, timers]) {
      const log = [], listeners = process.listeners("uncaughtException");
      process.removeAllListeners("uncaughtException");
      process.on("uncaughtException", (error) => log.push(error.message));
      for (let i = 0; i < 3; i++) any.setTimeout(() => {
        log.push(`timeout ${i}`);
        Promise.resolve().then(() => log.push(`promise ${i}`));
        process.nextTick(() => log.push(`tick ${i}`));
        if (throws) throw new Error(`error ${i}`);
      }, 2);
      await any.sleep(30);
      process.removeAllListeners("uncaughtException");
      listeners.forEach((listener) => process.on("uncaughtException", listener));
      logs.push(log);
    }
    assert.equal(logs[0].length, throws ? 12 : 9);
    // After an exception Node runs the ticks late. A tick may come earlier.
    if (throws) logs.forEach((log) => log.sort());
    assert.deepEqual(logs[1], logs[0]);
  }
});

it("fake timers do not stop a wheel", async () => {
  const timers = new Timers(), wheel = new Wheel();
  const real = { ...globalThis }, { performance } = globalThis;
  const called = timers.sleep(5, "called");
  try {
    mock.timers?.enable(); // Not in the oldest Node.
    Object.assign(globalThis, { setImmediate() {}, queueMicrotask() {}, setTimeout() {}, performance: { now: () => 0 } });
    assert.equal(globalThis.performance.now(), 0);
    assert.equal(await called, "called");
    assert.equal(await timers.sleep(5, "again"), "again");
    await new Promise((resolve) => {
      wheel.drive(resolve);
      wheel.once(1_000_000, 1);
    });
  } finally {
    const { setImmediate, queueMicrotask, setTimeout } = real;
    mock.timers?.reset();
    Object.assign(globalThis, { setImmediate, queueMicrotask, setTimeout, performance });
    timers.close();
    wheel.close();
  }
});

timed("an interval keeps its rhythm", async (timers) => {
  const { modMany } = Wheel.prototype, period = 5_000_000;
  const deadlines = [];
  Wheel.prototype.modMany = function spy(handles, times, flags) {
    deadlines.push(Number(times[0]));
    return modMany.call(this, handles, times, flags);
  };
  const interval = timers.setInterval(() => {}, period / 1e6);
  while (deadlines.length < 40) await turn();
  Wheel.prototype.modMany = modMany;
  interval.cancel();
  for (const deadline of deadlines)
    assert.ok((deadline - deadlines[0] + 10) % period < 20, `${deadline - deadlines[0]}`);
});

timed("periods that pass during a call are one call", async (timers) => {
  const at = [], begin = timers.now();
  await new Promise((resolve) => {
    const interval = timers.setInterval(() => {
      at.push(timers.now() - begin);
      if (at.length === 1) while (timers.now() - begin < 95) { /* nine periods */ }
      if (at.length === 3) resolve(interval.cancel());
    }, 10);
  });
  assert.ok(at[0] >= 10 && at[1] >= 95 && at[2] >= 100, `${at}`);
});

timed("periods that pass before the first call are one call", async (timers) => {
  const at = [], begin = timers.now();
  await new Promise((resolve) => {
    const interval = timers.setInterval(() => {
      at.push(timers.now() - begin);
      if (at.length === 2) resolve(interval.cancel());
    }, 50);
    while (timers.now() - begin < 130) { /* two periods */ }
  });
  assert.ok(at[0] >= 130 && at[1] >= 150, `${at}`);
});

timed("this, defaults and members are as in Node", async (timers) => {
  const log = [];
  const late = timers.setTimeout(() => log.push("late"), 50);
  for (const ms of [undefined, null, "", "x", NaN, -1, -Infinity, {}, [], false, 0, "1", true])
    timers.setTimeout(() => log.push("timeout"), ms);
  const timeout = timers.setTimeout(function call(...args) { log.push([this, ...args]); }, 2, 7, 8);
  const interval = timers.setInterval(function call() {
    this.close();
    log.push("interval");
  });
  assert.deepEqual([interval._repeat, interval._idleTimeout, interval._destroyed], [1, 1, false]);
  await timers.sleep(30);
  assert.deepEqual(log.filter((entry) => entry === "timeout").length, 13);
  assert.deepEqual(log.filter((entry) => typeof entry !== "string"), [[timeout, 7, 8]]);
  assert.equal(log.includes("late"), false);
  assert.equal(late.close(), late);
  assert.deepEqual([late._destroyed, late.refresh().pending, late.refresh(5).pending], [true, false, true]);
  assert.equal(timeout.refresh().pending, true);
});

timed("a timeout is cancelled by itself, its id or its signal", async (timers) => {
  const never = () => assert.fail("called");
  const timeout = timers.setTimeout(never, 60_000);
  assert.equal(+timeout, timeout[Symbol.toPrimitive]());
  assert.equal(`${timeout}`, String(+timeout));
  timers.clearTimeout(timers.setTimeout(never, 60_000));
  timers.clearInterval(+timers.setInterval(never, 60_000));
  timers.clearTimeout(`${timers.setTimeout(never, 60_000)}`);
  const signal = timers.signal(60_000);
  timers.clearTimeout(signal);
  const moved = timers.setTimeout(never, 1), id = +moved;
  await new Promise((resolve) => { moved._onTimeout = resolve; });
  moved._onTimeout = never;
  moved.refresh(60_000);
  timers.clearTimeout(id);
  for (const other of [undefined, null, {}, 12345, "x", new AbortController().signal])
    timers.clearTimeout(other);
  assert.equal(timeout.pending, true);
  timeout.cancel();
  await timers.sleep(2);
  assert.equal(signal.aborted, false);
  assert.equal(timers.stats().pending, 0n);
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

timed("an iterator yields at each period", async (timers) => {
  let turns = 0;
  for await (const value of timers.interval(2, "value")) {
    assert.equal(value, "value");
    if (++turns === 3) break;
  }
  const controller = new AbortController();
  const iterator = timers.interval(1000, 0, { signal: controller.signal });
  const next = iterator.next();
  controller.abort("reason");
  await assert.rejects(next, { name: "AbortError", code: "ABORT_ERR", cause: "reason" });
  await turn();
  assert.equal(timers.stats().pending, 0n);
});

timed("what is awaited is over at once after a time that has passed", async (timers) => {
  const log = [];
  timers.sleep(0).then(() => log.push("0"));
  timers.sleep(-5, 1).then(() => log.push("-5"));
  assert.equal(timers.signal(0).aborted, true);
  timers.setTimeout(() => log.push("timeout"), 0);
  assert.deepEqual(log, []);
  await turn().then(() => log.push("turn"));
  assert.deepEqual(log.slice(0, 2), ["0", "-5"]);
  await timers.sleep(5);
  assert.deepEqual(log.slice(2).sort(), ["timeout", "turn"]);
});

timed("promises and signals", async (timers) => {
  assert.equal(await timers.sleep(1, "value"), "value");
  const signal = timers.signal(5);
  const aborted = { name: "AbortError", code: "ABORT_ERR" };
  await assert.rejects(timers.sleep(100_000, null, { signal }), aborted);
  await assert.rejects(timers.sleep(1, null, { signal }), aborted);
  assert.equal(signal.reason.name, "TimeoutError");
  await assert.rejects(timers.sleep(1, null, { signal }), { cause: signal.reason });
});

/** What collects garbage, in a turn of its own. */
async function collector() {
  const { setFlagsFromString } = await import("node:v8");
  setFlagsFromString("--expose-gc");
  const gc = (await import("node:vm")).runInNewContext("gc");
  return async (times = 6) => {
    for (let i = 0; i < times; i++) {
      await new Promise((resolve) => setTimeout(resolve, 2));
      gc();
    }
  };
}

/** Collects until a condition holds. */
async function collected(condition) {
  const collect = await collector();
  for (let i = 0; i < 100 && !condition(); i++) await collect(1);
}

timed("a signal that nobody holds is collected, one with a listener aborts", async (timers) => {
  let aborted = 0;
  const count = () => aborted++;
  const make = () => {
    timers.signal(600_000);
    timers.signal(2000).addEventListener("abort", count);
    timers.signal(2000).onabort = count;
    const heard = timers.signal(600_000);
    heard.addEventListener("abort", count);
    heard.onabort = count;
    heard.removeEventListener("abort", count);
    heard.onabort = null;
  };
  for (let i = 0; i < 50; i++) make();
  await collected(() => timers.stats().pending <= 100n);
  assert.ok(aborted > 0 || timers.stats().pending === 100n, `${timers.stats().pending}`);
  for (let i = 0; i < 2000 && aborted < 100; i++) await timers.sleep(5);
  assert.deepEqual([aborted, timers.stats().pending], [100, 0n]);
});

// Node 18 to 22.12 loses the abort of its own signals here.
timed("what AbortSignal.any() makes of a signal aborts, however it is held", async (timers) => {
  let aborted = 0;
  const count = () => aborted++, any = (...signals) => AbortSignal.any(signals);
  const held = [], signal = () => timers.signal(2000);
  for (let i = 0; i < 20; i++) {
    any(signal()).addEventListener("abort", count);
    any(new AbortController().signal, signal()).onabort = count;
    held.push(any(signal()), any(any(signal())));
  }
  const late = any(signal()), begin = performance.now();
  const collect = await collector();
  await collect();
  late.addEventListener("abort", count);
  const heard = performance.now() - begin < 1900 ? 41 : 40;
  await collect();
  for (let i = 0; i < 2000 && aborted < heard; i++) await timers.sleep(5);
  assert.equal(aborted, heard);
  assert.ok(held.every((one) => one.aborted && one.reason.name === "TimeoutError"));
  await timers.sleep(1);
  assert.equal(timers.stats().pending, 0n);
});

// The last of Node 24 show what AbortSignal.any() makes only once that has a listener: there
// the signal stays until its time, as Node's own does.
timed("what AbortSignal.any() made of a signal is forgotten with it", async (timers) => {
  const source = new AbortController().signal, before = Object.getOwnPropertySymbols(source).length;
  AbortSignal.any([source]);
  const shows = Object.getOwnPropertySymbols(source).length > before;
  assert.ok(shows || process.versions.node.startsWith("24."), process.versions.node);
  const make = () => {
    AbortSignal.any([timers.signal(600_000)]);
    AbortSignal.any([AbortSignal.any([timers.signal(600_000)])]);
    const heard = AbortSignal.any([timers.signal(600_000)]), call = () => {};
    heard.addEventListener("abort", call);
    heard.removeEventListener("abort", call);
  };
  for (let i = 0; i < 50; i++) make();
  await collected(() => timers.stats().pending === 0n);
  assert.equal(timers.stats().pending, shows ? 0n : 150n);
});

timed("a sleep ends at the abort of its signal, whatever else", async (timers) => {
  const controller = new AbortController(), { signal } = controller;
  signal.addEventListener("abort", (event) => event.stopImmediatePropagation());
  const aborted = { name: "AbortError", code: "ABORT_ERR", cause: "reason" };
  // Node 18.17 has no listener that resists.
  const resists = addAbortListener !== undefined;
  const slept = resists ? timers.sleep(50_000, 0, { signal }) : null;
  const other = new AbortController(), closed = new Timers();
  const pending = closed.sleep(50_000, 0, { signal: other.signal });
  await turn();
  closed.close();
  controller.abort("reason");
  other.abort("reason");
  if (resists) await assert.rejects(slept, aborted);
  await assert.rejects(pending, aborted);
  const none = { aborted: false };
  await assert.rejects(timers.sleep(50_000, 0, { signal: none }), TypeError);
  await assert.rejects(timers.interval(50_000, 0, { signal: none }).next(), TypeError);
  await turn();
  assert.equal(timers.stats().pending, 0n);
});

timed("functions may be taken out, and promisified", async (timers) => {
  const { setTimeout, setInterval, clearTimeout, clearInterval, sleep, interval, signal, now } = timers;
  clearTimeout(setTimeout(() => assert.fail("called"), 1));
  clearInterval(setInterval(() => assert.fail("called"), 1));
  assert.equal(await promisify(setTimeout)(1, "value"), "value");
  assert.equal(await promisify(timers.setTimeout)(1, "value"), "value");
  assert.equal(await sleep(1, "slept"), "slept");
  assert.equal((await interval(1, "tick").next()).value, "tick");
  assert.equal(signal(0).aborted, true);
  assert.ok(now() > 0);
  assert.deepEqual(Object.keys(timers), []);
});

timed("clearTimeout() of Node cancels", async (timers) => {
  const timeout = timers.setTimeout(() => assert.fail("called"), 5);
  const interval = timers.setInterval(() => assert.fail("called"), 5);
  clearTimeout(timeout);
  clearInterval(interval);
  assert.deepEqual([timeout.pending, interval.pending], [false, false]);
  await timers.sleep(10);
  assert.equal(timers.stats().pending, 0n);
});

const virtual = { virtual: true };
timed("a virtual clock moves to the next expiry when everything waits", async (timers) => {
  const begin = performance.now(), log = [];
  assert.equal(timers.now(), 0);
  const interval = timers.setInterval(() => log.push(timers.now()), 3_600_000);
  timers.setTimeout(() => log.push("never"), Infinity);
  for (const ms of [3, 1, 2, 2]) timers.setTimeout(() => log.push(ms), ms);
  await timers.sleep(7_200_001);
  interval.cancel();
  assert.deepEqual(log, [1, 2, 2, 3, 3_600_000, 7_200_000]);
  assert.equal(timers.now(), 7_200_001);
  await assert.rejects(timers.sleep(1e9, 0, { signal: timers.signal(1e6) }), { name: "AbortError" });
  assert.equal(timers.now(), 8_200_001);
  assert.ok(performance.now() - begin < 2000);
}, virtual);

timed("a virtual clock stands while nothing is pending", async (timers) => {
  const nap = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const cancelled = timers.setTimeout(() => {}, 3_600_000);
  timers.setTimeout(() => {}, Infinity);
  await timers.sleep(1000);
  cancelled.cancel();
  await nap(50);
  assert.equal(timers.now(), 1000);
  // Nor does anybody see the time of a cancelled one on the way.
  const seen = [];
  for (const hours of [1, 2, 3]) timers.setTimeout(() => {}, hours * 3_600_000).unref().cancel();
  timers.setTimeout(() => seen.push(timers.now()), 36_000_000);
  for (let i = 0; i < 1000 && seen.length === 0; i++) {
    assert.equal(timers.now(), 1000);
    await turn();
  }
  assert.deepEqual(seen, [36_001_000]);
}, virtual);

for (const startNs of [2n ** 62n - 86_400_000_000_000n, 2n ** 62n + 1n]) {
  timed(`a virtual clock begins at ${startNs}`, async (timers) => {
    const begin = timers.now(), early = [], resolution = 2 ** (Math.floor(Math.log2(begin)) - 52);
    for (const ms of [1, 50, 3_600_000, 200_000_000]) {
      const due = timers.now() + ms;
      timers.setTimeout(() => { if (timers.now() < due - resolution) early.push(ms); }, ms);
    }
    await timers.sleep(300_000_000);
    assert.deepEqual([early, timers.now() - begin >= 300_000_000 - resolution], [[], true]);
  }, { virtual: true, startNs });
}

timed("a virtual clock stands while something is done or read", async (timers) => {
  const timeout = timers.setTimeout(() => {}, 1000);
  for (let i = 0; i < 20; i++) {
    timers.setTimeout(() => {}, 10_000).cancel();
    await turn();
  }
  for (let i = 0; i < 20; i++) await readFile(new URL(import.meta.url));
  assert.equal(timers.now(), 0);
  assert.equal(timeout.pending, true);
  await timers.sleep(1000);
  assert.equal(timeout.pending, false);
}, virtual);

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
  const type = { name: "TypeError", code: "ERR_INVALID_ARG_TYPE" };
  for (const bad of [undefined, null, "code", {}, 1]) {
    assert.throws(() => timers.setTimeout(bad, 1), type);
    assert.throws(() => timers.setInterval(bad, 1), type);
  }
  for (const bad of ["1", null, {}, 1n]) {
    await assert.rejects(timers.sleep(bad), type);
    await assert.rejects(timers.interval(bad).next(), type);
  }
  for (const bad of ["1", null, undefined, 1n]) assert.throws(() => timers.signal(bad), type);
  for (const bad of [-1, NaN]) assert.throws(() => timers.signal(bad), { code: "ERR_OUT_OF_RANGE" });
  for (const bad of [null, 1, "", [], { signal: 1 }, { signal: {} }, { ref: 1 }]) {
    await assert.rejects(timers.sleep(1, null, bad), type);
    await assert.rejects(timers.interval(1, null, bad).next(), type);
  }
  assert.throws(() => timers.setTimeout(() => {}, 1n), TypeError);
  const timeout = timers.setTimeout(() => {}, Infinity);
  assert.equal(timeout.refresh(2 ** 40).pending, true);
  assert.throws(() => new Timers({ tick: 1 }), /unknown option: tick/);
  assert.throws(() => new Timers({ virtual: 1 }), type);
  assert.throws(() => new Timers({ virtual: true, clock: 0 }), TypeError);
  assert.throws(() => timeout.refresh.call({}, 1), TypeError);
  assert.equal(timers.stats().armed, 0n);
});

timed("a delay of more than 2^31 milliseconds is one", async (timers) => {
  const timeout = timers.setTimeout(() => assert.fail("called"), 2 ** 31);
  await timers.sleep(20);
  assert.equal(timeout.pending, true);
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
  ["a wheel does not once its timers are cancelled or never due", `const { Wheel, NEVER } = await
    import(${JSON.stringify(fileURLToPath(new URL("../src/index.js", import.meta.url)))});
    const wheel = new Wheel(); wheel.drive((n) => console.log("event", n));
    const hour = 3_600_000_000_000, kept = wheel.setup(1);
    wheel.mod(kept, hour); wheel.once(NEVER, 2); wheel.keySet("key", hour, 3);
    const timers2 = [wheel.once(hour, 4), wheel.every(hour, hour, 5)];
    wheel.delete(wheel.once(hour, 6)); wheel.once(1_000_000, 7);
    setTimeout(() => { wheel.mod(kept, NEVER); wheel.keyDelete("key");
      wheel.deleteMany(BigUint64Array.from(timers2)); }, 20)`, "event 1\n"],
  ["nor does a cancelled one", "const t = timers.setTimeout(() => {}, 60_000); setTimeout(() => t.cancel(), 5)", ""],
  ["nor do a timeout after its unref, a promise without a reference and a signal",
    "const t = timers.setTimeout(() => console.log('called'), 5000).unref(); console.log(t.hasRef());" +
    "timers.sleep(5000, 0, { ref: false }).then(() => console.log('slept')); timers.signal(60_000)", "false\n"],
  ["after its ref a timeout does again", "timers.setTimeout(() => console.log('called'), 5).unref().ref()", "called\n"],
  ["a timeout without a reference is called while another one keeps the process alive",
    "timers.setTimeout(() => console.log('called'), 1).unref(); timers.setTimeout(() => {}, 30)", "called\n"],
  ["a virtual clock lets the process end", "const v = new Timers({ virtual: true });" +
    "v.setTimeout(() => console.log('called'), 1e9); v.setTimeout(() => console.log('late'), 2e9).unref()", "called\n"],
]) {
  it(name, () => {
    const run = spawnSync(process.execPath, ["--input-type=module", "--eval",
      `import { Timers } from ${JSON.stringify(fileURLToPath(index))};
       const timers = new Timers(); ${program};`], { encoding: "utf8", timeout: 30_000 });
    assert.deepEqual([run.status, run.stdout, run.stderr], [0, output, ""]);
  });
}
