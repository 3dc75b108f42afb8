/** The clock of a wheel. */
export const Clock = Object.freeze({ MONOTONIC: 0, BOOTTIME: 1, REALTIME: 2, MANUAL: 3 });

/** Flag: the time is a point on the wheel's clock, not a delay. */
export const ABS = 1 << 0;
/** Flag of mod(): only to an earlier time. */
export const REDUCE = 1 << 1;
/** Flag of mod(): only if the timer is pending. */
export const IF_PENDING = 1 << 2;
/** Flag of every(): fire each missed period, one after another, until caught up. */
export const MISSED_BURST = 1 << 4;
/** Flag of every(): after a miss, count the next period from now. */
export const MISSED_DELAY = 1 << 5;
/** Event flag: drain() has handed it back. */
export const DRAINED = 1 << 8;
/** Event flag: list() shows it. */
export const LISTED = 1 << 9;
/** Nanoseconds in a microsecond, a millisecond and a second. */
export const USEC = 1_000, MSEC = 1_000_000, SEC = 1_000_000_000;
/** A time that never comes. */
export const NEVER = (1n << 64n) - 1n;
