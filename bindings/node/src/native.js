// The C functions, and the error of a negative result.
import koffi from "koffi";

const lib = koffi.load("libhwheel.so.0");
const libc = koffi.load("libc.so.6");

// Pointers are void *: a typed array is lent, and a wheel is its address.
export const create = lib.func("int hwheel_create(void *options, uint32_t flags, void *wheel)");
export const destroy = lib.func("int hwheel_destroy(void *wheel)");
export const now = lib.func("int hwheel_now(void *wheel, void *now)");
export const nextExpiry = lib.func("int hwheel_next_expiry(void *wheel, void *deadline)");
export const getStats = lib.func("int hwheel_get_stats(void *wheel, void *stats)");
export const setup = lib.func(
  "int hwheel_setup(void *wheel, void *fn, uint64_t cookie, uint32_t flags, void *timer)");
export const after = lib.func(
  "int hwheel_after(void *wheel, uint64_t delay, void *fn, uint64_t cookie, uint32_t flags, void *timer)");
export const at = lib.func(
  "int hwheel_at(void *wheel, uint64_t deadline, void *fn, uint64_t cookie, uint32_t flags, void *timer)");
export const every = lib.func(
  "int hwheel_every(void *wheel, uint64_t first, uint64_t period, void *fn, uint64_t cookie, uint32_t flags, void *timer)");
export const mod = lib.func("int hwheel_mod(void *wheel, uint64_t timer, uint64_t delay, uint32_t flags)");
export const modAt = lib.func("int hwheel_mod_at(void *wheel, uint64_t timer, uint64_t deadline, uint32_t flags)");
export const reduce = lib.func("int hwheel_reduce(void *wheel, uint64_t timer, uint64_t delay, uint32_t flags)");
export const modPending = lib.func(
  "int hwheel_mod_pending(void *wheel, uint64_t timer, uint64_t delay, uint32_t flags)");
export const cancel = lib.func("int hwheel_delete(void *wheel, uint64_t timer)");
export const shutdown = lib.func("int hwheel_shutdown(void *wheel, uint64_t timer)");
export const free = lib.func("int hwheel_free(void *wheel, uint64_t timer)");
export const pending = lib.func("int hwheel_pending(void *wheel, uint64_t timer)");
export const remaining = lib.func("int hwheel_remaining(void *wheel, uint64_t timer, void *ns)");
export const keySet = lib.func(
  "int hwheel_key_set(void *wheel, void *key, uint32_t length, uint64_t delay, void *fn, uint64_t cookie, uint32_t flags)");
export const keyMove = lib.func(
  "int hwheel_key_move(void *wheel, void *key, uint32_t length, uint64_t delay, uint32_t flags)");
export const keyDelete = lib.func("int hwheel_key_delete(void *wheel, void *key, uint32_t length)");
export const keyPending = lib.func("int hwheel_key_pending(void *wheel, void *key, uint32_t length)");
export const poll = lib.func("int hwheel_poll(void *wheel, void *events, uint32_t max)");
export const advance = lib.func("int hwheel_advance(void *wheel, uint64_t now, void *events, uint32_t max)");
export const drain = lib.func("int hwheel_drain(void *wheel, void *events, uint32_t max)");
export const fd = lib.func("int hwheel_fd(void *wheel)");
export const version = lib.func("const char *hwheel_version_string()");
export const pollDescriptors = libc.func("int poll(void *fds, unsigned long n, int timeout)");

// The members of struct hwheel_stats behind size and reserved, in their order:
// these, lateness, and dropped.
export const STATS = ["live", "fired", "missed", "unclaimed", "sweeps", "wakeups", "kicks",
  "pushes", "repeats", "slabBytes", "armed", "rearmed", "quiet", "cancelled", "drained",
  "pending", "entries", "dead", "queued"];
export const LATENESS = 40;

// Node's own table lacks ESTALE.
const NAMES = new Map(Object.entries(koffi.os.errno).map(([name, number]) => [-number, name]));

/** An error of the library: `code` is "ESTALE" and so on, `errno` negative. */
export class HwheelError extends Error {
  constructor(result) {
    const code = NAMES.get(result) ?? `error ${-result}`;
    super(`hwheel: ${code}`);
    this.name = "HwheelError";
    this.code = code;
    this.errno = result;
  }
}

/** A result of the library; throws if it is negative. */
export function check(result) {
  if (result < 0) throw new HwheelError(result);
  return result;
}

/** A key for C: the bytes of a string or an array, or of an integer's 64 bits. */
export function bytes(key) {
  if (typeof key === "string") return Buffer.from(key);
  return key instanceof Uint8Array ? key : Buffer.from(BigUint64Array.of(BigInt(u64(key))).buffer);
}

/** An unsigned integer for C, which would take any number somehow. */
export function u64(value) {
  const good = typeof value === "bigint"
    ? value >= 0n && value < 1n << 64n
    : Number.isSafeInteger(value) && value >= 0;
  if (!good) throw new RangeError(`not an integer from 0 to 2^64 - 1: ${value}`);
  return value;
}
