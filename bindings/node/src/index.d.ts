// For ES2022 alone. What a newer library or another package declares merges with it.
declare global {
  interface SymbolConstructor { readonly dispose: unique symbol }
  interface Disposable { [Symbol.dispose](): void }
  interface AbortSignal {}
}

/** A number of nanoseconds, or any 64 bits: a BigInt or a safe integer, not negative. */
export type Uint64 = bigint | number;
/** 1 to 255 bytes, as text or as bytes, or an integer. */
export type Key = string | Uint8Array | Uint64;

export const Clock: Readonly<{ MONOTONIC: 0; BOOTTIME: 1; REALTIME: 2; MANUAL: 3 }>;
export const ABS: number;
export const REDUCE: number;
export const IF_PENDING: number;
export const MISSED_BURST: number;
export const MISSED_DELAY: number;
export const DRAINED: number;
export const LISTED: number;
export const USEC: number;
export const MSEC: number;
export const SEC: number;
export const NEVER: bigint;

/** The version of the library. */
export function version(): string;

/** An error in the library's words; `code` is "ESTALE" and so on, `errno` negative. */
export class HwheelError extends Error {
  readonly code: string;
  readonly errno: number;
}

/** The error of every call of a closed wheel. */
export class ClosedError extends Error {
  readonly code: "ERR_HWHEEL_CLOSED";
}

export interface Options {
  clock?: 0 | 1 | 2 | 3;
  tickNs?: Uint64;
  levels?: number;
  slots?: number;
  maxTimers?: number;
  /** The first time of a manual clock. */
  startNs?: Uint64;
  /** Room for events. */
  batch?: number;
}

export type Stats = Record<
  "live" | "fired" | "missed" | "unclaimed" | "sweeps" | "wakeups" | "kicks" | "notes" |
  "slabBytes" | "armed" | "rearmed" | "cancelled" | "drained" | "pending" | "entries" |
  "queued" | "dropped" | "noteBytes", bigint
> & { lateness: BigUint64Array };

export class Wheel implements Disposable {
  constructor(options?: Options);
  readonly events: BigUint64Array;
  readonly closed: boolean;
  close(): void;
  [Symbol.dispose](): void;
  ref(): this;
  unref(): this;
  now(): bigint;
  nextExpiry(): bigint | null;
  stats(): Stats;
  once(timeNs: Uint64, cookie: Uint64, flags?: number): bigint;
  every(firstNs: Uint64, periodNs: Uint64, cookie: Uint64, flags?: number, slackNs?: Uint64): bigint;
  setup(cookie: Uint64): bigint;
  mod(timer: Uint64, timeNs: Uint64, flags?: number): boolean;
  modRange(timer: Uint64, timeNs: Uint64, slackNs: Uint64, flags?: number): boolean;
  modMany(timers: BigUint64Array, timesNs: BigUint64Array, flags?: number): Int32Array;
  deleteMany(timers: BigUint64Array): Int32Array;
  setPeriod(timer: Uint64, periodNs: Uint64): void;
  delete(timer: Uint64): boolean;
  shutdown(timer: Uint64): boolean;
  free(timer: Uint64): boolean;
  pending(timer: Uint64): boolean;
  remaining(timer: Uint64): bigint | null;
  keySet(key: Key, timeNs: Uint64, cookie: Uint64, flags?: number): boolean;
  keyMod(key: Key, timeNs: Uint64, flags?: number): boolean;
  keyDelete(key: Key): boolean;
  keyPending(key: Key): boolean;
  poll(): number;
  advance(nowNs: Uint64): number;
  drain(): number;
  list(cursor: BigUint64Array): number;
  timer(i: number): bigint;
  cookie(i: number): bigint;
  deadline(i: number): bigint;
  missed(i: number): number;
  flags(i: number): number;
  drive(handler: (n: number, wheel: Wheel) => void): void;
  readable(timeoutMs?: number): Promise<boolean>;
}

/** A function and when to call it; made by Timers. */
export interface Timeout extends Disposable {
  readonly pending: boolean;
  cancel(): boolean;
  close(): this;
  refresh(ms?: number): this;
  ref(): this;
  unref(): this;
  hasRef(): boolean;
  [Symbol.toPrimitive](): number;
}

export interface TimersOptions extends Omit<Options, "clock"> {
  clock?: 0 | 1 | 2;
  /** A clock for tests that moves to the next expiry when everything waits. */
  virtual?: boolean;
}

export interface WaitOptions {
  signal?: AbortSignal;
  /** Whether it keeps the process alive. */
  ref?: boolean;
}

export class Timers implements Disposable {
  constructor(options?: TimersOptions);
  readonly closed: boolean;
  stats(): Stats;
  now(): number;
  readonly setTimeout: {
    <A extends unknown[]>(call: (this: Timeout, ...args: A) => void, ms?: number, ...args: A): Timeout;
    /** promisify() gives sleep(). */
    __promisify__<T = void>(ms?: number, value?: T, options?: WaitOptions): Promise<T>;
  };
  setInterval<A extends unknown[]>(call: (this: Timeout, ...args: A) => void, ms?: number, ...args: A): Timeout;
  clearTimeout(timeout: Timeout | AbortSignal | number | string | null | undefined): void;
  clearInterval(timeout: Timeout | AbortSignal | number | string | null | undefined): void;
  sleep(ms?: number): Promise<void>;
  sleep<T>(ms: number | undefined, value: T, options?: WaitOptions): Promise<T>;
  interval(ms?: number): AsyncGenerator<undefined, never, void>;
  interval<T>(ms: number | undefined, value: T, options?: WaitOptions): AsyncGenerator<T, never, void>;
  signal(ms: number): AbortSignal;
  ref(): this;
  unref(): this;
  close(): void;
  [Symbol.dispose](): void;
}
