/**
 * Timers by the million: a lock-free timing wheel, in batches.
 *
 * Times are nanoseconds and cookies are 64-bit integers, each a BigInt or a safe
 * integer. Handles of timers are BigInts. A negative time is a RangeError.
 */
export { Timers } from "./timers.js";
export { Wheel } from "./wheel.js";
export { ClosedError, HwheelError } from "./native.js";
export * from "./constants.js";
export { version } from "./native.js";
