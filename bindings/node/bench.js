// Events per second, by batches and by one callback of the library for each
// timer. The best of thirty rounds, or of as many as five seconds hold; a round is a
// hundred thousand timers over a thousand ticks.
import assert from "node:assert/strict";
import koffi from "koffi";
import { ABS, Clock, Wheel } from "./src/index.js";
import * as c from "./src/native.js";

const TIMERS = 100_000;
const TICK = 1_000_000;
const END = 1000 * TICK;

function batch() {
  const wheel = new Wheel({ clock: Clock.MANUAL });
  for (let cookie = 0; cookie < TIMERS; cookie++) wheel.once((cookie % 1000) * TICK, cookie, ABS);
  const events = wheel.events;
  const begin = performance.now();
  let total = 0, n;
  do {
    n = wheel.advance(END);
    for (let i = 0; i < n; i++) total += Number(events[4 * i + 1]);
  } while (n === 1024);
  const seconds = (performance.now() - begin) / 1000;
  wheel.close();
  return [total, seconds];
}

const prototype = koffi.proto("void fired(void *wheel, void *event)");

function callback() {
  const options = new DataView(new ArrayBuffer(40));
  options.setUint32(0, 40, true);
  options.setUint32(4, Clock.MANUAL, true);
  const out = new BigUint64Array(1);
  c.check(c.create(options.buffer, out));
  const wheel = out[0];
  let total = 0;
  const fired = koffi.register((_, event) => {
    total += Number(koffi.decode(event, 8, "uint64_t"));
  }, koffi.pointer(prototype));
  for (let cookie = 0; cookie < TIMERS; cookie++)
    c.check(c.once(wheel, (cookie % 1000) * TICK, fired, cookie, ABS, null));
  const begin = performance.now();
  c.check(c.advance(wheel, END, null, 0, null));
  const seconds = (performance.now() - begin) / 1000;
  c.check(c.destroy(wheel));
  koffi.unregister(fired);
  return [total, seconds];
}

for (const way of [batch, callback]) {
  let best = 0;
  const begin = performance.now();
  for (let round = 0; round < 3 || (round < 30 && performance.now() - begin < 5000); round++) {
    const [total, seconds] = way();
    assert.equal(total, (TIMERS * (TIMERS - 1)) / 2);
    best = Math.max(best, TIMERS / seconds);
  }
  console.log(way.name, Math.round(best));
}
