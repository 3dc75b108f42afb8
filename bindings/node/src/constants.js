/** What a wheel counts. */
export const Clock = Object.freeze({ MONOTONIC: 0, BOOTTIME: 1, REALTIME: 2, MANUAL: 3 });

/** Arm flag: the time is a deadline, not a delay. */
export const ABSTIME = 1;
/** Periodic flag: missed periods are fired one by one until caught up. */
export const MISSED_BURST = 2;
/** Periodic flag: after a miss the next period is counted from now. */
export const MISSED_DELAY = 4;
/** Event flag: handed back by drain(), not fired. */
export const DRAINED = 1;
/** A delay or deadline that never comes. */
export const NEVER = (1n << 64n) - 1n;
