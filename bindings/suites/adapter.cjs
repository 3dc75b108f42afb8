// Puts a Timers of hwheel in the place of Node's timeouts and intervals, for Node's own
// tests. Preloaded into each of their processes. At its end a process notes in the file
// HWHEEL_SUITE_CALLS whether it has made a timeout.
"use strict";
const timers = require("timers"), promises = require("timers/promises");
const { appendFileSync } = require("fs");
const { promisify } = require("util");
const { Timers } = require(process.env.HWHEEL_SUITE_INDEX);
// Some tests depend on less than a millisecond, the default tick.
const all = new Timers({ tickNs: 1000 });
let calls = 0;

const counted = (call) => function (...args) {
  calls++;
  return call(...args);
};

const setTimeout = counted((...args) => all.setTimeout(...args));
Object.defineProperty(setTimeout, promisify.custom, { get: () => promises.setTimeout });
const functions = {
  setTimeout,
  setInterval: counted((...args) => all.setInterval(...args)),
  clearTimeout: (timeout) => all.clearTimeout(timeout),
  clearInterval: (timeout) => all.clearInterval(timeout),
};
Object.assign(globalThis, functions);
Object.assign(timers, functions);
promises.setTimeout = counted((...args) => all.sleep(...args));
promises.setInterval = counted((...args) => all.interval(...args));
promises.scheduler.wait = (ms, options) => promises.setTimeout(ms, undefined, options);

// Deprecated: any object as a timeout, which calls its _onTimeout. Node's enroll() checks
// the arguments; it is no longer there in Node 25.
const enroll = timers.enroll, timeouts = new WeakMap();
function active(item, ref) {
  timeouts.get(item)?.cancel();
  if (!(item._idleTimeout >= 0)) return;
  const timeout = setTimeout(() => item._onTimeout?.(), item._idleTimeout);
  timeouts.set(item, ref ? timeout : timeout.unref());
}
if (enroll) Object.assign(timers, {
  enroll(item, ms) {
    timers.unenroll(item);
    enroll(item, ms);
  },
  unenroll(item) {
    (typeof item.cancel === "function" ? item : timeouts.get(item))?.cancel();
    item._idleTimeout = -1;
  },
  active: (item) => active(item, true),
  _unrefActive: (item) => active(item, false),
});

// What Node's own modules use, for tests with --expose-internals.
try {
  const internal = require("internal/timers");
  internal.setUnrefTimeout = (call, ms) => setTimeout(call, ms).unref();
} catch { /* no such flag */ }

process.on("exit", () => {
  if (calls > 0) appendFileSync(process.env.HWHEEL_SUITE_CALLS, "x");
});
