import { Clock } from "./constants.js";
import * as c from "./native.js";
import { bytes, check, u64 } from "./native.js";

const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * A timing wheel. It belongs to one thread of JavaScript.
 *
 * After poll(), advance() or drain() have returned n, the events are those
 * from 0 to n - 1 in `events`, four words each: timer, cookie, deadline, and
 * missed and flags, which missed(i) and flags(i) take apart.
 */
export class Wheel {
  #wheel;
  #out = new BigUint64Array(1);
  #batch;
  #halves;
  #handler = null;
  #timeout = null;
  #planning = false;

  /** Room for a batch, written by poll(), advance() and drain(). */
  events;

  /** What is left out takes the library's default. */
  constructor({
    clock = Clock.MONOTONIC, tickNs = 0, levels = 0, slots = 0, maxTimers = 0, startNs = 0,
    batch = 1024,
  } = {}) {
    if (!Number.isInteger(batch) || batch < 1) throw new RangeError("batch must be at least 1");
    // struct hwheel_options
    const options = new DataView(new ArrayBuffer(40));
    [options.byteLength, clock].forEach((x, i) => options.setUint32(4 * i, x, true));
    options.setBigUint64(8, BigInt(u64(tickNs)), true);
    [levels, slots, maxTimers].forEach((x, i) => options.setUint32(16 + 4 * i, x, true));
    options.setBigUint64(32, BigInt(u64(startNs)), true);
    check(c.create(options.buffer, 0, this.#out));
    this.#wheel = this.#out[0];
    this.#batch = batch;
    this.events = new BigUint64Array(4 * batch);
    this.#halves = new Uint32Array(this.events.buffer);
  }

  /** Frees the wheel; what is armed does not fire. */
  close() {
    this.#handler = null;
    clearTimeout(this.#timeout);
    check(c.destroy(this.#wheel));
    this.#wheel = null;
  }

  /** The time on the wheel's clock. */
  now() {
    check(c.now(this.#wheel, this.#out));
    return this.#out[0];
  }

  /** When the wheel wants to be driven next, null if nothing is armed. */
  nextExpiry() {
    return check(c.nextExpiry(this.#wheel, this.#out)) ? this.#out[0] : null;
  }

  /**
   * What the wheel has done so far: BigInts, and `lateness`, an array of them: how
   * many timers fired how late, [i] from 2^(i-1) ns to below 2^i ns.
   */
  stats() {
    const from = 1 + c.STATS.length, to = from + c.LATENESS;
    const words = new BigUint64Array(to + 1);
    new Uint32Array(words.buffer)[0] = words.byteLength;
    check(c.getStats(this.#wheel, words));
    const counts = c.STATS.map((name, i) => [name, words[1 + i]]);
    return { ...Object.fromEntries(counts), lateness: words.subarray(from, to), dropped: words[to] };
  }

  // Timers that free themselves when they have fired for the last time.

  /** Fires once after a delay. Returns the timer. */
  after(delayNs, cookie) {
    return this.#made(c.after(this.#wheel, u64(delayNs), null, u64(cookie), 0, this.#out));
  }

  /** Fires once at a deadline on the wheel's clock. Returns the timer. */
  at(deadlineNs, cookie) {
    return this.#made(c.at(this.#wheel, u64(deadlineNs), null, u64(cookie), 0, this.#out));
  }

  /** Fires again and again. Flags: ABSTIME, MISSED_BURST, MISSED_DELAY. */
  every(firstNs, periodNs, cookie, flags = 0) {
    return this.#made(
      c.every(this.#wheel, u64(firstNs), u64(periodNs), null, u64(cookie), flags, this.#out));
  }

  // Timers to arm again and again.

  /** A timer that is not armed and lives until free(). */
  setup(cookie) {
    return this.#made(c.setup(this.#wheel, null, u64(cookie), 0, this.#out));
  }

  /** Arms a timer, or moves it. True if it was armed. Flags: ABSTIME. */
  mod(timer, timeNs, flags = 0) {
    return this.#armed(c.mod(this.#wheel, timer, u64(timeNs), flags));
  }

  /** As mod(), to a deadline; the clock is not read. */
  modAt(timer, deadlineNs) {
    return this.#armed(c.modAt(this.#wheel, timer, u64(deadlineNs), 0));
  }

  /** As mod(), but only to an earlier deadline. */
  reduce(timer, timeNs, flags = 0) {
    return this.#armed(c.reduce(this.#wheel, timer, u64(timeNs), flags));
  }

  /** As mod(), but only if the timer is armed. */
  modPending(timer, timeNs, flags = 0) {
    return this.#armed(c.modPending(this.#wheel, timer, u64(timeNs), flags));
  }

  /** Cancels a timer. True if it was armed and will not fire. */
  delete(timer) {
    return check(c.cancel(this.#wheel, timer)) === 1;
  }

  /** As delete(), and arming it again is ESHUTDOWN. */
  shutdown(timer) {
    return check(c.shutdown(this.#wheel, timer)) === 1;
  }

  /** As delete(), and the timer is no more. */
  free(timer) {
    return check(c.free(this.#wheel, timer)) === 1;
  }

  /** Whether a timer is armed. */
  pending(timer) {
    return check(c.pending(this.#wheel, timer)) === 1;
  }

  /** Nanoseconds to a timer's deadline, null if it is not armed. */
  remaining(timer) {
    return check(c.remaining(this.#wheel, timer, this.#out)) ? this.#out[0] : null;
  }

  // Timers by name: a string or Uint8Array of 1 to 255 bytes, or an integer.
  // They fire once, and the timer of their event is 0.

  /** Gives a key a timer. True if its pending timer was replaced. */
  keySet(key, delayNs, cookie) {
    const b = bytes(key);
    return check(
      c.keySet(this.#wheel, b, b.length, u64(delayNs), null, u64(cookie), 0)) === 1;
  }

  /** Moves the pending timer of a key, which keeps its cookie. False without one. */
  keyMove(key, delayNs) {
    const b = bytes(key);
    return check(c.keyMove(this.#wheel, b, b.length, u64(delayNs), 0)) === 1;
  }

  /** Cancels the pending timer of a key. False without one. */
  keyDelete(key) {
    const b = bytes(key);
    return check(c.keyDelete(this.#wheel, b, b.length)) === 1;
  }

  /** Whether a key has a pending timer. */
  keyPending(key) {
    const b = bytes(key);
    return check(c.keyPending(this.#wheel, b, b.length)) === 1;
  }

  // Driving by hand.

  /** Fetches what is due. A full batch means that there may be more. */
  poll() {
    return check(c.poll(this.#wheel, this.events, this.#batch));
  }

  /** As poll(), for a manual clock that is moved to a time. */
  advance(nowNs) {
    return check(c.advance(this.#wheel, u64(nowNs), this.events, this.#batch));
  }

  /** Shuts the wheel down and fetches the timers that were armed. */
  drain() {
    return check(c.drain(this.#wheel, this.events, this.#batch));
  }

  timer(i) { return this.events[4 * i]; }
  cookie(i) { return this.events[4 * i + 1]; }
  deadline(i) { return this.events[4 * i + 2]; }
  missed(i) { return this.#halves[8 * i + 6]; }
  flags(i) { return this.#halves[8 * i + 7]; }

  // Driving by Node's event loop.

  /**
   * Lets the event loop drive the wheel: handler(n, wheel) is called with
   * each batch. One timeout of Node's is set, to the next expiry; it keeps the
   * process alive while anything is armed that comes at all.
   */
  drive(handler) {
    this.#handler = handler;
    this.#planSoon();
  }

  /**
   * A promise of whether the descriptor has become readable within a time; -1
   * is no limit. It waits in poll(2) on one of libuv's threads, which it
   * keeps; so keep that time short, and await it before close().
   */
  readable(timeoutMs = -1) {
    const descriptor = new DataView(new ArrayBuffer(8)); // struct pollfd
    descriptor.setInt32(0, check(c.fd(this.#wheel)), true);
    descriptor.setInt16(4, 1, true);
    return new Promise((resolve, reject) => {
      c.pollDescriptors.async(descriptor.buffer, 1, timeoutMs, (error, n) => {
        if (error) reject(error);
        else resolve(n > 0 && descriptor.getInt16(6, true) !== 0);
      });
    });
  }

  #made(result) {
    check(result);
    this.#planSoon();
    return this.#out[0];
  }

  #armed(result) {
    check(result);
    this.#planSoon();
    return result === 1;
  }

  // However much is armed in one turn, it is planned for once, at its end.
  #planSoon() {
    if (this.#handler === null || this.#planning) return;
    this.#planning = true;
    queueMicrotask(() => {
      this.#planning = false;
      if (this.#handler !== null) this.#plan();
    });
  }

  #plan() {
    clearTimeout(this.#timeout);
    const next = this.nextExpiry();
    if (next === null) return;
    const left = (next - this.now() + 999_999n) / 1_000_000n;
    this.#timeout = setTimeout(() => this.#turn(), Math.min(Number(left), LONGEST_TIMEOUT_MS));
  }

  #turn() {
    try {
      const n = this.poll();
      if (n > 0) this.#handler(n, this);
    } finally {
      this.#planSoon();
    }
  }
}
