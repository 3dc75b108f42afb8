// Pairs of arming and cancelling a second, with 10,000 other timers pending: Node's own
// setTimeout, the wheel one by one, and the wheel with a call for a thousand. The best of
// ten rounds.
import { SEC, Wheel } from "./src/index.js";

const PENDING = 10_000, PAIRS = 100_000, MANY = 1000, HOUR = 3600;
const nothing = () => {};

function rate(name, way) {
  let best = 0;
  for (let round = 0; round < 10; round++) {
    const begin = performance.now();
    way();
    best = Math.max(best, (PAIRS * 1000) / (performance.now() - begin));
  }
  console.log(name, Math.round(best));
}

// Different lengths: each is a list of its own to Node.
const pending = Array.from({ length: PENDING }, (_, i) => setTimeout(nothing, HOUR * 1000 + i));
rate("own", () => {
  for (let i = 0; i < PAIRS; i++) clearTimeout(setTimeout(nothing, HOUR * 1000 + (i % PENDING)));
});
pending.forEach(clearTimeout);

const wheel = new Wheel();
const ns = HOUR * SEC;
for (let cookie = 0; cookie < PENDING; cookie++) wheel.once(ns, cookie);
rate("one", () => {
  for (let i = 0; i < PAIRS; i++) wheel.delete(wheel.once(ns, i));
});
const timers = BigUint64Array.from({ length: MANY }, () => wheel.setup(0));
const times = new BigUint64Array(MANY).fill(BigInt(ns));
rate("many", () => {
  for (let i = 0; i < PAIRS; i += MANY) {
    wheel.modMany(timers, times);
    wheel.deleteMany(timers);
  }
});
wheel.close();
