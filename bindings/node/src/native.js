// The C functions, the error of a negative result, and Node's timer functions.
import { existsSync } from "node:fs";
import { performance } from "node:perf_hooks";
import timers from "node:timers";
import { fileURLToPath } from "node:url";
import koffi from "koffi";

// Node's functions as they are when this package is loaded. Fake timers replace the global
// ones and those of node:timers later on, and must not stop a wheel.
export const { clearImmediate, clearTimeout, setImmediate, setTimeout } = timers;
export const { queueMicrotask } = globalThis;
/** Milliseconds, with fractions. */
export const clock = performance.now.bind(performance);

const PREBUILT = fileURLToPath(
  new URL(`../prebuilds/${process.platform}-${process.arch}/libhwheel.so.0`, import.meta.url));
const LIBRARY = process.env.HWHEEL_LIBRARY || (existsSync(PREBUILT) ? PREBUILT : "libhwheel.so.0");

function load() {
  try {
    return koffi.load(LIBRARY);
  } catch (error) {
    throw new Error(`hwheel: cannot load the library ${LIBRARY} on ${process.platform}-` +
      `${process.arch}: ${error.message}; install it, or set HWHEEL_LIBRARY to its path`,
      { cause: error });
  }
}

const loaded = load();
// Each function is looked up at once, and a library of another version may lack one.
const lib = {
  func(prototype) {
    try {
      return loaded.func(prototype);
    } catch (error) {
      throw new Error(`hwheel: the library ${LIBRARY} is not of this version: ${error.message}`,
        { cause: error });
    }
  },
};
const libc = koffi.load("libc.so.6");

// Pointers are void *: a typed array for the length of a call, or a wheel's address.
export const create = lib.func("int hwheel_create(void *options, void *wheel)");
export const destroy = lib.func("int hwheel_destroy(void *wheel)");
export const now = lib.func("int hwheel_now(void *wheel, void *now)");
export const nextExpiry = lib.func("int hwheel_next_expiry(void *wheel, void *time)");
export const getStats = lib.func("int hwheel_get_stats(void *wheel, void *stats)");
export const list = lib.func("int hwheel_list(void *wheel, void *cursor, void *events, uint32_t max)");
export const once = lib.func(
  "int hwheel_once(void *wheel, uint64_t time, void *fn, uint64_t cookie, uint32_t flags, void *timer)");
export const every = lib.func(
  "int hwheel_every(void *wheel, uint64_t first, uint64_t period, uint64_t slack, void *fn, uint64_t cookie, uint32_t flags, void *timer)");
export const setup = lib.func("int hwheel_timer_setup(void *wheel, void *fn, uint64_t cookie, void *timer)");
export const mod = lib.func("int hwheel_timer_mod(void *wheel, uint64_t timer, uint64_t time, uint32_t flags)");
export const modRange = lib.func(
  "int hwheel_timer_mod_range(void *wheel, uint64_t timer, uint64_t time, uint64_t slack, uint32_t flags)");
export const setPeriod = lib.func("int hwheel_timer_set_period(void *wheel, uint64_t timer, uint64_t period)");
export const modMany = lib.func(
  "int hwheel_timer_mod_many(void *wheel, void *timers, void *times, uint32_t n, uint32_t flags, void *results)");
export const deleteMany = lib.func(
  "int hwheel_timer_delete_many(void *wheel, void *timers, uint32_t n, void *results)");
export const cancel = lib.func("int hwheel_timer_delete(void *wheel, uint64_t timer)");
export const shutdown = lib.func("int hwheel_timer_shutdown(void *wheel, uint64_t timer)");
export const free = lib.func("int hwheel_timer_free(void *wheel, uint64_t timer)");
export const pending = lib.func("int hwheel_timer_pending(void *wheel, uint64_t timer)");
export const remaining = lib.func("int hwheel_timer_remaining(void *wheel, uint64_t timer, void *ns)");
export const keySet = lib.func(
  "int hwheel_key_set(void *wheel, void *key, uint32_t length, uint64_t time, void *fn, uint64_t cookie, uint32_t flags)");
export const keyMod = lib.func(
  "int hwheel_key_mod(void *wheel, void *key, uint32_t length, uint64_t time, uint32_t flags)");
export const keyDelete = lib.func("int hwheel_key_delete(void *wheel, void *key, uint32_t length)");
export const keyPending = lib.func("int hwheel_key_pending(void *wheel, void *key, uint32_t length)");
export const poll = lib.func("int hwheel_poll(void *wheel, void *events, uint32_t max, void *run)");
export const advance = lib.func(
  "int hwheel_advance(void *wheel, uint64_t now, void *events, uint32_t max, void *run)");
export const drain = lib.func("int hwheel_drain(void *wheel, void *events, uint32_t max)");
export const fd = lib.func("int hwheel_fd(void *wheel)");
const strerror = lib.func("const char *hwheel_strerror(int error)");
export const version = lib.func("const char *hwheel_version_string()");
export const eventfd = libc.func("int eventfd(unsigned int value, int flags)");
export const write = libc.func("long write(int fd, void *bytes, unsigned long n)");
export const closeDescriptor = libc.func("int close(int fd)");
export const pollDescriptors = libc.func("int poll(void *fds, unsigned long n, int timeout)");

// The members of struct hwheel_stats after size and reserved, in their order: these,
// lateness, dropped and the bytes of notes.
export const STATS = ["live", "fired", "missed", "unclaimed", "sweeps", "wakeups", "kicks",
  "notes", "slabBytes", "armed", "rearmed", "cancelled", "drained", "pending", "entries",
  "queued"];
export const LATENESS = 40;

// Node's own table lacks ESTALE.
const NAMES = new Map(Object.entries(koffi.os.errno).map(([name, number]) => [-number, name]));

/** An error in the library's words; `code` is "ESTALE" and so on, `errno` negative. */
export class HwheelError extends Error {
  constructor(result) {
    const code = NAMES.get(result) ?? `error ${-result}`;
    super(`hwheel: ${strerror(result)} (${code})`);
    this.name = "HwheelError";
    this.code = code;
    this.errno = result;
  }
}

/** Every call of a closed wheel. */
export class ClosedError extends Error {
  constructor() {
    super("hwheel: the wheel is closed");
    this.name = "ClosedError";
    this.code = "ERR_HWHEEL_CLOSED";
  }
}

/** A result of the library; throws if it is negative. */
export function check(result) {
  if (result < 0) throw new HwheelError(result);
  return result;
}

/** A key for C: the bytes of a string or an array, or of an integer's 64 bits. */
export function bytes(key) {
  if (typeof key === "string") {
    // They would all become the same character.
    if (/\p{Surrogate}/u.test(key)) throw new RangeError("a key with half a surrogate pair");
    key = Buffer.from(key);
  } else if (key instanceof Uint8Array) {
    key = new Uint8Array(key); // has the length that it says
  } else {
    key = new Uint8Array(BigUint64Array.of(BigInt(u64(key))).buffer);
  }
  return key.subarray(0, 256); // One byte too many is as bad as 4 GiB.
}

/** Words for C, in memory that has the length that it says. */
export function words(array) {
  if (!(array instanceof BigUint64Array)) throw new TypeError("not a BigUint64Array");
  return new BigUint64Array(array);
}

/** An unsigned integer of 32 bits for C. koffi would cut any number. */
export function u32(value) {
  if (!(Number.isInteger(value) && value >= 0 && value < 2 ** 32))
    throw new RangeError(`not an integer from 0 to 2^32 - 1: ${value}`);
  return value;
}

/** An unsigned integer for C. koffi would convert any number. */
export function u64(value) {
  const good = typeof value === "bigint"
    ? value >= 0n && value < 1n << 64n
    : Number.isSafeInteger(value) && value >= 0;
  if (!good) throw new RangeError(`not an integer from 0 to 2^64 - 1: ${value}`);
  return value;
}
