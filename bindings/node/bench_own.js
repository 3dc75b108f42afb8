// Pairs of cancelling and arming a second, with 10,000 timers pending: the oldest is
// cancelled and another armed, a hundred in a turn of the event loop. Node's own
// setTimeout, that of Timers, the wheel one by one, and the wheel with a call for a
// thousand, while the event loop drives it. It counts the processor time of the whole
// process, the collector's included: the best of ten rounds.
import { setImmediate as turn } from "node:timers/promises";
import { Timers, Wheel } from "./src/index.js";

const PENDING = 10_000, PAIRS = 100_000, MANY = 1000, TURN = 100;
const nothing = () => {};

// One to two hours in milliseconds, and another for each timer.
const delay = (i) => 3_600_000 + ((i * 7919) % PENDING) * 360;

function spent() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

async function ring(name, pair) {
  for (let i = 0; i < PENDING; i++) pair(i);
  let best = 0;
  for (let round = 0; round < 10; round++) {
    const begin = spent();
    for (let i = 0; i < PAIRS; i++) {
      pair(i % PENDING);
      if (i % TURN === 0) await turn();
    }
    best = Math.max(best, (PAIRS * 1e6) / (spent() - begin));
  }
  console.log(name, Math.round(best));
}

const own = Array(PENDING);
await ring("own", (i) => {
  clearTimeout(own[i]);
  own[i] = setTimeout(nothing, delay(i));
});
own.forEach(clearTimeout);

const timers = new Timers();
const formed = Array(PENDING);
await ring("form", (i) => {
  formed[i]?.cancel();
  formed[i] = timers.setTimeout(nothing, delay(i));
});
timers.close();

const wheel = new Wheel();
wheel.drive(nothing);
const handles = Array(PENDING);
await ring("one", (i) => {
  if (handles[i] !== undefined) wheel.delete(handles[i]);
  handles[i] = wheel.once(delay(i) * 1e6, i);
});
const many = BigUint64Array.from({ length: MANY }, () => wheel.setup(0));
const times = BigUint64Array.from({ length: MANY }, (_, i) => BigInt(delay(i)) * 1_000_000n);
await ring("many", (i) => {
  if (i % MANY !== 0) return;
  wheel.deleteMany(many);
  wheel.modMany(many, times);
});
wheel.close();
