import { Clock } from "./constants.js";
import * as c from "./native.js";
import { bytes, check, u64 } from "./native.js";

const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * A timing wheel. It belongs to one thread of JavaScript.
 *
 * When poll(), advance(), drain() or list() returns n, `events` holds n events of four
 * words each: timer, cookie, deadline, and missed with flags, which missed(i) and
 * flags(i) take apart.
 */
export class Wheel {
  #wheel;
  #out = new BigUint64Array(1);
  #batch;
  #halves;
  #handler = null;
  #timeout = null;
  #planning = false;

  /** Room for a batch of events. */
  events;

  /** An option that is left out has the library's default. */
  constructor({
    clock = Clock.MONOTONIC, tickNs = 0, levels = 0, slots = 0, maxTimers = 0, startNs = 0,
    batch = 1024, ...unknown
  } = {}) {
    for (const name of Object.keys(unknown)) throw new TypeError(`unknown option: ${name}`);
    if (!Number.isInteger(batch) || batch < 1) throw new RangeError("batch must be at least 1");
    // struct hwheel_options
    const options = new DataView(new ArrayBuffer(40));
    [options.byteLength, clock].forEach((x, i) => options.setUint32(4 * i, x, true));
    options.setBigUint64(8, BigInt(u64(tickNs)), true);
    [levels, slots, maxTimers].forEach((x, i) => options.setUint32(16 + 4 * i, x, true));
    options.setBigUint64(32, BigInt(u64(startNs)), true);
    check(c.create(options.buffer, this.#out));
    this.#wheel = this.#out[0];
    this.#batch = batch;
    this.events = new BigUint64Array(4 * batch);
    this.#halves = new Uint32Array(this.events.buffer);
  }

  /** Frees the wheel; pending timers do not fire. */
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

  /** The time at which to drive the wheel next, null if no timer is pending. */
  nextExpiry() {
    return check(c.nextExpiry(this.#wheel, this.#out)) ? this.#out[0] : null;
  }

  /**
   * The counts of the wheel: BigInts, and `lateness`, an array of them: the number of
   * timers by lateness, [i] for 2^(i-1) ns to below 2^i ns.
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

  /** Fires once. Flags: ABS. Returns the timer. */
  once(timeNs, cookie, flags = 0) {
    return this.#made(c.once(this.#wheel, u64(timeNs), null, u64(cookie), flags, this.#out));
  }

  /**
   * Fires again and again, each time up to slackNs late, which shares wake-ups. Flags:
   * ABS, and MISSED_BURST or MISSED_DELAY. Returns the timer.
   */
  every(firstNs, periodNs, cookie, flags = 0, slackNs = 0) {
    return this.#made(c.every(
      this.#wheel, u64(firstNs), u64(periodNs), u64(slackNs), null, u64(cookie), flags, this.#out));
  }

  // Timers to arm again and again.

  /** Makes a timer that is not pending and lives until free(). */
  setup(cookie) {
    return this.#made(c.setup(this.#wheel, null, u64(cookie), this.#out));
  }

  /** Arms a timer, or moves it. True if it was pending. Flags: ABS, REDUCE or IF_PENDING. */
  mod(timer, timeNs, flags = 0) {
    return this.#armed(c.mod(this.#wheel, timer, u64(timeNs), flags));
  }

  /** As mod(), to any time up to slackNs later, which shares wake-ups. Flags: ABS. */
  modRange(timer, timeNs, slackNs, flags = 0) {
    return this.#armed(c.modRange(this.#wheel, timer, u64(timeNs), u64(slackNs), flags));
  }

  /** Cancels a timer. True if it was pending and will not fire. */
  delete(timer) {
    return check(c.cancel(this.#wheel, timer)) === 1;
  }

  /** As delete(), and arming the timer again is ESHUTDOWN. */
  shutdown(timer) {
    return check(c.shutdown(this.#wheel, timer)) === 1;
  }

  /** As delete(), and frees the timer. */
  free(timer) {
    return check(c.free(this.#wheel, timer)) === 1;
  }

  /** Whether a timer is pending. */
  pending(timer) {
    return check(c.pending(this.#wheel, timer)) === 1;
  }

  /** Nanoseconds until a timer fires, null if it is not pending. */
  remaining(timer) {
    return check(c.remaining(this.#wheel, timer, this.#out)) ? this.#out[0] : null;
  }

  // Timers by key: a string or Uint8Array of 1 to 255 bytes, or an integer. They fire
  // once, and the timer of their event is 0.

  /** Gives a key a timer. True if it replaced a pending timer. Flags: ABS. */
  keySet(key, timeNs, cookie, flags = 0) {
    const b = bytes(key);
    return this.#armed(
      c.keySet(this.#wheel, b, b.length, u64(timeNs), null, u64(cookie), flags));
  }

  /** Moves the pending timer of a key, which keeps its cookie. False without one. Flags: ABS. */
  keyMod(key, timeNs, flags = 0) {
    const b = bytes(key);
    return this.#armed(c.keyMod(this.#wheel, b, b.length, u64(timeNs), flags));
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

  /** Fetches the events that are due. A full batch means that there may be more. */
  poll() {
    return check(c.poll(this.#wheel, this.events, this.#batch, null));
  }

  /** As poll(), for a manual clock that moves to nowNs. */
  advance(nowNs) {
    return check(c.advance(this.#wheel, u64(nowNs), this.events, this.#batch, null));
  }

  /** Shuts the wheel down and fetches its pending timers. */
  drain() {
    return check(c.drain(this.#wheel, this.events, this.#batch));
  }

  /**
   * Fetches pending timers, which stay pending. The cursor is a BigUint64Array of one 0
   * before the first call. Less than a full batch means the end.
   */
  list(cursor) {
    if (!(cursor instanceof BigUint64Array) || cursor.length < 1)
      throw new TypeError("the cursor is no BigUint64Array of one");
    return check(c.list(this.#wheel, cursor, this.events, this.#batch));
  }

  timer(i) { return this.events[4 * i]; }
  cookie(i) { return this.events[4 * i + 1]; }
  deadline(i) { return this.events[4 * i + 2]; }
  missed(i) { return this.#halves[8 * i + 6]; }
  flags(i) { return this.#halves[8 * i + 7]; }

  // Driving by Node's event loop.

  /**
   * Lets the event loop drive the wheel, which calls handler(n, wheel) with each batch.
   * It sets one timeout of Node's, to the next expiry. The timeout keeps the process
   * alive while a timer is pending that is not due never.
   */
  drive(handler) {
    this.#handler = handler;
    this.#planSoon();
  }

  /**
   * A promise that tells whether the descriptor becomes readable within timeoutMs; -1 is
   * no limit. It waits in poll(2) and occupies one of libuv's threads; so keep the time
   * short, and await the promise before close().
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

  // At the end of a turn, once for all that it has armed.
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
