// No call, in any order, ends the process.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { ClosedError, Clock, HwheelError, Timers, Wheel } from "../src/index.js";

/** Every call of a wheel. */
function everyCall(wheel, timer) {
  return [
    () => wheel.once(1, 1), () => wheel.every(0, 1000, 2), () => wheel.setup(3),
    () => wheel.mod(timer, 1), () => wheel.modRange(timer, 0, 1),
    () => wheel.modMany(BigUint64Array.of(timer), BigUint64Array.of(5n)),
    () => wheel.deleteMany(BigUint64Array.of(timer)), () => wheel.setPeriod(timer, 0),
    () => wheel.pending(timer), () => wheel.remaining(timer), () => wheel.delete(timer),
    () => wheel.shutdown(timer), () => wheel.free(timer), () => wheel.keySet(7, 0, 4),
    () => wheel.keyMod(7, 0), () => wheel.keyPending(7), () => wheel.keyDelete(7),
    () => wheel.now(), () => wheel.nextExpiry(), () => wheel.stats(), () => wheel.poll(),
    () => wheel.advance(1), () => wheel.drain(), () => wheel.list(new BigUint64Array(1)),
    () => wheel.drive(() => {}),
  ];
}

it("use after close", async () => {
  const wheel = new Wheel();
  const timer = wheel.setup(1);
  wheel.close();
  wheel.close();
  assert.equal(wheel.closed, true);
  for (const call of everyCall(wheel, timer)) assert.throws(call, ClosedError);
  await assert.rejects(wheel.readable(0), ClosedError);
});

it("close wakes who waits for the descriptor", async () => {
  for (let round = 0; round < 20; round++) {
    const wheel = new Wheel();
    wheel.readable(0).catch(() => {});
    if (round % 2) wheel.drain();
    const wait = async () => { for (;;) await wheel.readable(); };
    const waiting = [wait(), wait(), wait()];
    await sleep(round % 5);
    wheel.close();
    for (const result of await Promise.allSettled(waiting))
      assert.ok(result.reason instanceof ClosedError, result.reason);
  }
});

it("a handler may close its wheel", async () => {
  const wheel = new Wheel();
  await new Promise((resolve) => {
    wheel.drive(() => {
      wheel.close();
      resolve();
    });
    wheel.once(0, 1);
  });
  assert.throws(() => wheel.once(0, 1), ClosedError);
});

it("workers use wheels of their own and end in the middle", async () => {
  const index = fileURLToPath(new URL("../src/index.js", import.meta.url));
  const source = `import(${JSON.stringify(index)}).then(({ Wheel }) => {
    const wheel = new Wheel();
    wheel.drive(() => {});
    wheel.every(0, 1000, 1);
    wheel.readable().catch(() => {});
    wheel.readable(20);
    require("node:worker_threads").parentPort.postMessage("loaded");
  });`;
  const workers = Array.from({ length: 4 }, () => new Worker(source, { eval: true }));
  // koffi ends the process if a worker is terminated while it loads koffi.
  await Promise.all(workers.map((worker) => once(worker, "message")));
  await sleep(100);
  await Promise.all(workers.map((worker) => worker.terminate()));
});

for (const [how, program] of [
  ["the process exits", "process.exit(0)"],
  ["the process throws", "process.on('exit', () => { process.exitCode = 0; }); throw new Error()"],
  ["a worker is terminated", `const worker = new Worker(
    "import(" + JSON.stringify(index) + ").then(async ({ Wheel }) => { const wheel = new Wheel();" +
    "(await import('node:worker_threads')).parentPort.postMessage('loaded');" +
    "for (;;) { await wheel.readable(); wheel.poll(); } })", { eval: true });
    const end = () => worker.terminate().then(() => process.exit(0));
    worker.once("message", () => setTimeout(end, 50))`],
]) {
  it(`a wait does not delay the end: ${how}`, () => {
    const index = fileURLToPath(new URL("../src/index.js", import.meta.url));
    const run = spawnSync(process.execPath, ["--input-type=module", "--eval",
      `import { Worker } from "node:worker_threads";
       const index = ${JSON.stringify(index)}, { Wheel } = await import(index);
       const wheel = new Wheel();
       await wheel.readable();
       wheel.poll();
       wheel.readable().catch(() => {});
       setTimeout(() => { ${program}; }, 20);`], { timeout: 20_000 });
    assert.equal(run.signal, null);
    assert.equal(run.status, 0, String(run.stderr));
  });
}

it("the collector closes a forgotten wheel", async () => {
  const { setFlagsFromString } = await import("node:v8");
  setFlagsFromString("--expose-gc");
  const gc = (await import("node:vm")).runInNewContext("gc");
  const count = () => readdirSync("/proc/self/fd").length;
  const before = count();
  await (async () => {
    for (let i = 0; i < 50; i++) {
      const wheel = new Wheel({ batch: 1 });
      await wheel.readable(0);
      wheel.once(10 ** 12, 1);
    }
  })();
  for (let i = 0; i < 100 && count() > before + 10; i++) {
    gc();
    await sleep(10);
  }
  assert.ok(count() <= before + 10);
});

it("hostile arguments", async () => {
  const wheel = new Wheel({ clock: Clock.MANUAL, batch: 2 });
  for (const timer of [0, 1n, 12345, 2n ** 64n - 1n])
    for (const call of ["delete", "free", "shutdown", "pending", "remaining"])
      assert.throws(() => wheel[call](timer), { code: "ESTALE", message: /no longer exists/ });
  for (const bad of [-1, 1.5, NaN, 2n ** 64n, "1", null, undefined, {}]) {
    assert.throws(() => wheel.delete(bad), RangeError);
    assert.throws(() => wheel.once(bad, 1), RangeError);
    assert.throws(() => wheel.once(1, bad), RangeError);
  }
  assert.throws(() => wheel.keySet("", 0, 1), HwheelError);
  assert.throws(() => wheel.keySet("x".repeat(256), 0, 1), HwheelError);
  assert.throws(() => wheel.modMany([1n], [1n]), TypeError);
  assert.throws(() => wheel.modMany(new BigUint64Array(2), new BigUint64Array(1)), RangeError);
  assert.throws(() => wheel.list(new BigUint64Array(0)), TypeError);
  assert.throws(() => wheel.drive(), TypeError);
  for (const bad of [-2, 1.5, 2 ** 31, "1", 1n]) await assert.rejects(wheel.readable(bad), RangeError);
  assert.throws(() => { wheel.events = new BigUint64Array(1); }, TypeError);
  structuredClone(wheel.events, { transfer: [wheel.events.buffer] });
  assert.throws(() => wheel.advance(1), /detached/);
  wheel.close();
  assert.throws(() => new Wheel({ tick: 1 }), /unknown option: tick/);
  assert.throws(() => new Wheel({ tickNs: -1 }), RangeError);
  for (const bad of [5, "", true, null, () => {}]) {
    assert.throws(() => new Wheel(bad), TypeError);
    assert.throws(() => new Timers(bad), TypeError);
  }
});

it("arrays that lie about their length or their type", () => {
  const wheel = new Wheel({ clock: Clock.MANUAL });
  const lying = (array, length) => Object.defineProperty(array, "length", { value: length });
  const timer = wheel.setup(1);
  assert.equal(wheel.modMany(lying(BigUint64Array.of(timer), 1e7), BigUint64Array.of(5n)).length, 1);
  assert.deepEqual([...wheel.deleteMany(lying(BigUint64Array.of(timer), 1e7))], [1]);
  assert.throws(() => wheel.deleteMany(
    Object.setPrototypeOf(new Uint8Array(8), BigUint64Array.prototype)), TypeError);
  assert.equal(wheel.keySet(lying(Uint8Array.of(1), 256), 0, 1), false);
  assert.equal(wheel.keyDelete(Uint8Array.of(1)), true);
  const guarded = new BigUint64Array(2);
  wheel.once(1, 1);
  assert.throws(() => wheel.list(lying(guarded.subarray(1, 1), 1)), TypeError);
  assert.equal(guarded[1], 0n);
  wheel.close();
});

it("numbers and text that C would cut", () => {
  const wheel = new Wheel({ clock: Clock.MANUAL, startNs: 10 });
  const timer = wheel.setup(1);
  for (const bad of [2 ** 32, 2 ** 32 + 1, 1.5, NaN, -1, 1n, "1", null]) {
    for (const option of ["clock", "levels", "slots", "maxTimers", "batch"])
      assert.throws(() => new Wheel({ [option]: bad }), RangeError);
    for (const call of [
      () => wheel.once(1, 1, bad), () => wheel.every(1, 1, 1, bad), () => wheel.mod(timer, 1, bad),
      () => wheel.modRange(timer, 1, 1, bad), () => wheel.keySet(1, 1, 1, bad),
      () => wheel.keyMod(1, 1, bad),
      () => wheel.modMany(BigUint64Array.of(timer), BigUint64Array.of(1n), bad),
    ]) assert.throws(call, RangeError);
  }
  assert.equal(wheel.stats().pending, 0n);
  assert.throws(() => wheel.keySet("\ud800", 1, 1), RangeError);
  assert.equal(wheel.keySet("\ud83d\ude00", 1, 1), false);
  wheel.close();
});

it("the event loop drives no manual clock", () => {
  const wheel = new Wheel({ clock: Clock.MANUAL });
  assert.throws(() => wheel.drive(() => {}), /manual clock/);
  assert.throws(() => new Timers({ clock: Clock.MANUAL }), /manual clock/);
  wheel.once(0, 1);
  wheel.close();
});

/** Loads the package with a library. */
function load(library) {
  const index = fileURLToPath(new URL("../src/index.js", import.meta.url));
  return spawnSync(process.execPath, [index], {
    env: { ...process.env, HWHEEL_LIBRARY: library }, encoding: "utf8",
  });
}

it("a missing library is named", () => {
  const run = load("/nowhere/libhwheel.so.0");
  assert.equal(run.status, 1);
  assert.match(run.stderr, /cannot load the library \/nowhere\/libhwheel.so.0/);
});

it("a library that lacks functions is named", () => {
  const run = load("libc.so.6");
  assert.equal(run.status, 1);
  assert.match(run.stderr, /the library libc.so.6 is not of this version: .*hwheel_create/);
});

it("an empty name of a library is none", () => {
  const run = load("");
  assert.equal(run.status, 0, run.stderr);
});

it("functions may cancel, refresh, throw and close", async () => {
  const timers = new Timers();
  const log = [];
  const others = Array.from({ length: 10 }, (_, i) => timers.setTimeout(() => log.push(i), 100));
  timers.setTimeout(() => others[3].cancel(), 0);
  const again = timers.setTimeout(() => log.push("again"), 1);
  await timers.sleep(150);
  assert.deepEqual(log, ["again", 0, 1, 2, 4, 5, 6, 7, 8, 9]);
  assert.equal(again.pending, false);
  assert.equal(again.refresh(1).pending, true);
  assert.equal(await timers.sleep(10, "value"), "value");
  assert.equal(log.at(-1), "again");
  assert.equal(again.cancel(), false);

  const controller = new AbortController();
  const aborted = timers.sleep(10_000, null, { signal: controller.signal });
  controller.abort();
  await assert.rejects(aborted, { name: "AbortError" });
  await assert.rejects(timers.sleep(1, 0, { signal: controller.signal }), { name: "AbortError" });
  await assert.rejects(timers.sleep("1"), TypeError);
  await assert.rejects(timers.sleep(1, 0, { singal: 1 }), TypeError);
  const signal = timers.signal(1);
  await timers.sleep(10);
  assert.equal(signal.reason.name, "TimeoutError");
  timers.setTimeout(() => {}, 10 ** 9);
  timers.unref();
  timers.close();
  assert.throws(() => timers.setTimeout(() => {}, 1), ClosedError);
  assert.throws(() => again.refresh(1), ClosedError);
  assert.throws(() => timers.signal(0), ClosedError);
  await assert.rejects(timers.sleep(0), ClosedError);
  await assert.rejects(timers.interval(1).next(), ClosedError);
  timers.clearTimeout(signal);
  timers.ref();
  if (Symbol.dispose) assert.equal(typeof timers[Symbol.dispose], "function");
});

it("members of a timeout that are no times and no functions", async () => {
  const timers = new Timers();
  const thrown = [];
  const listeners = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", (error) => thrown.push(error.name));
  const bad = [NaN, "x", -1, {}, null, undefined, Infinity, 2 ** 70];
  for (const value of bad) {
    const timeout = timers.setTimeout(() => {}, 1), interval = timers.setInterval(() => {}, 1);
    interval.unref();
    timeout._idleTimeout = interval._repeat = timeout._slot = value;
    timeout.refresh().unref();
    interval.refresh();
  }
  const broken = timers.setTimeout(() => {}, 1);
  broken._onTimeout = "no function";
  broken._timerArgs = 5;
  const called = timers.sleep(5, "called");
  for (const call of ["cancel", "refresh", "hasRef"])
    assert.throws(() => broken[call].call({}), TypeError);
  for (const value of [...bad, Symbol(), timers, () => {}, { pending: true }])
    timers.clearTimeout(value);
  assert.equal(await called, "called");
  process.removeAllListeners("uncaughtException");
  listeners.forEach((listener) => process.on("uncaughtException", listener));
  assert.deepEqual(thrown, ["TypeError"]);
  timers.close();
});
