import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { Worker } from "node:worker_threads";
import {
  ABS, Clock, DRAINED, HwheelError, IF_PENDING, LISTED, MISSED_BURST, MSEC, NEVER, REDUCE,
  Wheel, version,
} from "../src/index.js";

const MS = MSEC;

/** Runs a test with a wheel on a manual clock. */
function manual(test, options = {}) {
  return () => {
    const wheel = new Wheel({ clock: Clock.MANUAL, ...options });
    try {
      test(wheel);
    } finally {
      wheel.close();
    }
  };
}

function fails(code, call) {
  assert.throws(call, (error) => error instanceof HwheelError && error.code === code);
}

describe("events", () => {
  it("tell timer, cookie and deadline", manual((wheel) => {
    const timer = wheel.once(5 * MS, NEVER);
    assert.equal(typeof timer, "bigint");
    assert.equal(wheel.advance(5 * MS - 1), 0);
    assert.equal(wheel.advance(5 * MS), 1);
    assert.deepEqual([...wheel.events.subarray(0, 3)], [timer, NEVER, BigInt(5 * MS)]);
    assert.deepEqual(
      [wheel.timer(0), wheel.cookie(0), wheel.deadline(0), wheel.missed(0), wheel.flags(0)],
      [timer, NEVER, BigInt(5 * MS), 0, 0]);
  }));

  it("come in batches, in the order of their ticks", manual((wheel) => {
    for (let cookie = 0; cookie < 10; cookie++) wheel.once(cookie * MS, cookie, ABS);
    const cookies = [];
    const sizes = [0, 0, 0, 0].map(() => {
      const n = wheel.advance(20 * MS);
      for (let i = 0; i < n; i++) cookies.push(Number(wheel.cookie(i)));
      return n;
    });
    assert.deepEqual(sizes, [4, 4, 2, 0]);
    assert.deepEqual(cookies, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  }, { batch: 4 }));

  it("count or repeat missed periods", manual((wheel) => {
    const timer = wheel.every(MS, MS, 1);
    assert.equal(wheel.advance(10 * MS), 1);
    assert.equal(wheel.missed(0), 9);
    assert.equal(wheel.delete(timer), true);
    wheel.every(11 * MS, MS, 2, ABS | MISSED_BURST);
    assert.equal(wheel.advance(20 * MS), 10);
  }));
});

describe("keys", () => {
  for (const key of ["session 7", new Uint8Array([7, 0]), 7]) {
    it(`that are set again move their timer: ${key}`, manual((wheel) => {
      assert.equal(wheel.keySet(key, MS, 1), false);
      assert.equal(wheel.keySet("other", MS, 2), false);
      assert.equal(wheel.keySet(key, 2 * MS, 3), true);
      assert.equal(wheel.keyMod("other", 3 * MS), true);
      assert.equal(wheel.keyPending(key), true);
      assert.equal(wheel.advance(2 * MS), 1);
      assert.deepEqual([wheel.timer(0), wheel.cookie(0)], [0n, 3n]);
      assert.equal(wheel.keyPending(key), false);
      assert.equal(wheel.keyMod(key, MS), false);
      assert.equal(wheel.keyDelete(key), false);
      assert.equal(wheel.keyDelete("other"), true);
    }));
  }

  it("have 1 to 255 bytes", manual((wheel) => {
    fails("EINVAL", () => wheel.keySet("", MS, 1));
    fails("EINVAL", () => wheel.keySet("x".repeat(256), MS, 1));
    assert.throws(() => wheel.keySet(-1, MS, 1), RangeError);
  }));
});

describe("timers", () => {
  it("are armed again and again", manual((wheel) => {
    const timer = wheel.setup(7);
    assert.equal(wheel.pending(timer), false);
    assert.equal(wheel.remaining(timer), null);
    assert.equal(wheel.mod(timer, MS, IF_PENDING), false);
    assert.equal(wheel.mod(timer, 10 * MS), false);
    assert.equal(wheel.mod(timer, 20 * MS, REDUCE), true);
    assert.equal(wheel.remaining(timer), BigInt(10 * MS));
    assert.equal(wheel.mod(timer, 3 * MS, ABS), true);
    assert.equal(wheel.advance(3 * MS), 1);
    assert.equal(wheel.cookie(0), 7n);
    assert.equal(wheel.mod(timer, NEVER), false);
    assert.equal(wheel.nextExpiry(), null);
    assert.equal(wheel.shutdown(timer), true);
    fails("ESHUTDOWN", () => wheel.mod(timer, MS));
    assert.equal(wheel.free(timer), false);
    fails("ESTALE", () => wheel.free(timer));
    const { live, armed, cancelled, lateness, dropped } = wheel.stats();
    assert.deepEqual([live, armed, cancelled, lateness[0], dropped], [0n, 2n, 1n, 1n, 0n]);
  }));

  it("are listed", manual((wheel) => {
    for (let cookie = 1; cookie <= 5; cookie++) wheel.once(MS, cookie);
    const cursor = new BigUint64Array(1);
    let sum = 0n, n;
    do {
      n = wheel.list(cursor);
      for (let i = 0; i < n; i++) {
        assert.equal(wheel.flags(i), LISTED);
        assert.equal(wheel.delete(wheel.timer(i)), true);
        sum += wheel.cookie(i);
      }
    } while (n === 2);
    assert.equal(sum, 15n);
  }, { batch: 2 }));

  it("share a wake-up in a range", manual((wheel) => {
    const timer = wheel.setup(1);
    assert.equal(wheel.modRange(timer, 100 * MS, 100 * MS), false);
    assert.equal(wheel.advance(99 * MS), 0);
    assert.equal(wheel.advance(200 * MS), 1);
  }));

  it("are drained", manual((wheel) => {
    const timer = wheel.once(NEVER, 9);
    assert.equal(wheel.drain(), 1);
    assert.deepEqual([wheel.timer(0), wheel.flags(0)], [timer, DRAINED]);
    fails("ESHUTDOWN", () => wheel.once(0, 1));
  }));
});

describe("errors", () => {
  it("have the system's names", manual((wheel) => {
    fails("ESTALE", () => wheel.delete(12345n));
    fails("EINVAL", () => wheel.every(MS, 0, 1));
    fails("EINVAL", () => wheel.poll()); // Its clock is manual.
    fails("EINVAL", () => new Wheel({ slots: 3 }));
    wheel.once(NEVER, 1);
    fails("ENOSPC", () => wheel.once(NEVER, 2));
  }, { maxTimers: 1 }));

  it("are in the library's words", manual((wheel) => {
    assert.throws(() => wheel.delete(12345n), { message: /the timer no longer exists/ });
  }));

  it("meet an unknown option", () => assert.throws(() => new Wheel({ tick: 1 }), TypeError));

  it("meet a time of 2^63 or above", manual((wheel) => {
    fails("EINVAL", () => wheel.once(1n << 63n, 1));
    fails("EINVAL", () => wheel.advance(NEVER));
    assert.throws(() => wheel.modRange(1n, 0, -1), RangeError);
  }));

  it("are range errors where C would take another number", manual((wheel) => {
    for (const bad of [-1, -1n, 0.5, NaN, Infinity, 1n << 64n, "1", undefined])
      assert.throws(() => wheel.once(bad, 1), RangeError);
    assert.equal(wheel.stats().live, 0n);
  }));
});

describe("the event loop", () => {
  it("drives a wheel, never early, and lets the process end", async () => {
    const wheel = new Wheel({ batch: 8 });
    const cookies = [];
    await new Promise((resolve) => {
      wheel.drive((n) => {
        const now = wheel.now();
        for (let i = 0; i < n; i++) {
          assert.ok(now >= wheel.deadline(i));
          cookies.push(Number(wheel.cookie(i)));
        }
        if (cookies.length === 100) resolve();
      });
      for (let cookie = 0; cookie < 100; cookie++) wheel.once((cookie % 10) * MS, cookie);
    });
    assert.deepEqual(cookies.sort((a, b) => a - b), [...Array(100).keys()]);
    wheel.close();
  });

  it("is planned anew for an earlier deadline, and in a handler", async () => {
    const wheel = new Wheel();
    const order = [];
    wheel.once(3_600_000 * MS, 0);
    await new Promise((resolve) => {
      wheel.drive(() => {
        order.push(wheel.cookie(0));
        if (order.length === 1) wheel.once(MS, 2);
        else resolve();
      });
      setTimeout(() => wheel.once(MS, 1), 10);
    });
    assert.deepEqual(order, [1n, 2n]);
    wheel.close();
  });

  it("goes on after a handler that throws", async () => {
    const wheel = new Wheel();
    const listeners = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    const thrown = once(process, "uncaughtException");
    const second = new Promise((resolve) => {
      wheel.drive(() => {
        if (wheel.cookie(0) === 2n) return resolve();
        wheel.once(MS, 2);
        throw new Error("of the handler");
      });
    });
    wheel.once(MS, 1);
    const [error] = await thrown;
    listeners.forEach((listener) => process.on("uncaughtException", listener));
    assert.equal(error.message, "of the handler");
    await second;
    wheel.close();
  });

  it("fetches a batch in each turn of the loop, while timers are due", async () => {
    const wheel = new Wheel({ batch: 1 });
    let left = 1000, turns = 0;
    wheel.drive(() => left--);
    for (let i = 0; i < 1000; i++) wheel.once(0, i);
    // A timeout of Node's for each batch would take a millisecond, which is many turns.
    for (; left > 0; turns++) await new Promise(setImmediate);
    assert.ok(turns < 5000, `${turns} turns`);
    wheel.close();
  });

  it("is closed at the end of a worker", async () => {
    const source = `
      import { Wheel } from ${JSON.stringify(new URL("../src/index.js", import.meta.url).href)};
      const wheel = new Wheel();
      await wheel.readable(0);
    `;
    const descriptors = () => readdirSync("/proc/self/fd").length;
    const worker = () => once(new Worker(new URL(`data:text/javascript,${encodeURIComponent(source)}`)), "exit");
    await worker();
    const before = descriptors();
    for (let i = 0; i < 10; i++) await worker();
    assert.ok(descriptors() < before + 10);
  });

  it("can wait for the descriptor instead", async () => {
    const wheel = new Wheel();
    wheel.once(20 * MS, 5);
    let n;
    while ((n = wheel.poll()) === 0) assert.equal(await wheel.readable(10_000), true);
    assert.equal(wheel.cookie(0), 5n);
    assert.equal(await wheel.readable(0), false);
    wheel.close();
  });
});

it("version", () => assert.match(version(), /^\d+\.\d+\.\d+$/));

describe("the programs of the README, run against this tree", () => {
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const programs = [...readme.matchAll(/```js\n(.*?)```/gs)].map((match) => match[1]);

  it("are there", () => assert.ok(programs.length >= 2));
  programs.forEach((program, i) => it(`program ${i + 1} runs and prints`, () => {
    const out = execFileSync(process.execPath, ["--input-type=module", "-e", program],
      { cwd: new URL("..", import.meta.url), timeout: 60_000 });
    assert.notEqual(out.length, 0);
  }));
});
