// Node's functions as they are when this package is loaded. Fake timers replace the global
// ones and those of node:timers later on, and must not stop a wheel.
import { performance } from "node:perf_hooks";
import timers from "node:timers";

export const { clearImmediate, clearTimeout, setImmediate, setTimeout } = timers;
export const { queueMicrotask } = globalThis;
/** Milliseconds, with fractions. */
export const clock = performance.now.bind(performance);
