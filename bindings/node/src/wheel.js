import { AsyncResource } from "node:async_hooks";
import { isMainThread } from "node:worker_threads";
import { Clock, NEVER } from "./constants.js";
import * as c from "./native.js";
import {
  ClosedError, bytes, check, clearImmediate, clearTimeout, clock, queueMicrotask, setImmediate,
  setTimeout, u32, u64, words,
} from "./native.js";

const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;
const SLICE_MS = 100; // of a wait: it may delay the end of the process or a worker by that
const EFD_CLOEXEC = 0o2000000;
const SCAN = 16; // timers that are looked at with a call
const HELD = 1024; // events, at least: only by their memory does V8 know what a wheel costs
const scratch = {
  counts: new BigUint64Array(2 + c.STATS.indexOf("pending")), // struct hwheel_stats up to there
  events: new BigUint64Array(4 * SCAN),
};

/** A wheel of C, and those that wait for its descriptor: the last to end frees it. */
class Handle {
  #wheel;
  #bell = -1;
  #waiting = 0;
  #closed = false;

  constructor(wheel) {
    this.#wheel = wheel;
    open.add(this);
  }

  close() {
    if (this.#closed) return;
    this.#closed = true;
    open.delete(this);
    if (this.#waiting === 0) this.#free();
    else c.write(this.#bell, BigUint64Array.of(1n), 8);
  }

  get closed() {
    return this.#closed;
  }

  async readable(timeoutMs) {
    const fd = check(c.fd(this.#wheel));
    if (this.#bell < 0) {
      this.#bell = c.eventfd(0, EFD_CLOEXEC);
      if (this.#bell < 0) throw new Error("hwheel: no descriptor is left");
    }
    const both = new DataView(new ArrayBuffer(16)); // struct pollfd
    [fd, this.#bell].forEach((descriptor, i) => {
      both.setInt32(8 * i, descriptor, true);
      both.setInt16(8 * i + 4, 1, true);
    });
    const end = timeoutMs < 0 ? Infinity : clock() + timeoutMs;
    const ready = () => both.getInt16(6, true) !== 0;
    this.#waiting++;
    try {
      do {
        const ms = Math.min(Math.max(Math.ceil(end - clock()), 0), SLICE_MS);
        await new Promise((resolve, reject) => {
          c.pollDescriptors.async(both.buffer, 2, ms, (error) => error ? reject(error) : resolve());
        });
      } while (!this.#closed && !ready() && clock() < end);
    } finally {
      if (--this.#waiting === 0 && this.#closed) this.#free();
    }
    if (this.#closed) throw new ClosedError();
    return ready();
  }

  #free() {
    c.destroy(this.#wheel);
    if (this.#bell >= 0) c.closeDescriptor(this.#bell);
  }
}

// What is forgotten is not collected when a worker ends. A worker that is terminated calls
// nothing, and its wheels stay until the process ends.
const open = new Set();
if (!isMainThread) {
  process.once("exit", () => open.forEach((handle) => handle.close()));
}

const forgotten = new FinalizationRegistry((handle) => handle.close());

/**
 * A timing wheel. It belongs to one thread of JavaScript, which owns it: see `owned` in
 * hwheel.h.
 *
 * When poll(), advance(), drain() or list() returns n, `events` holds n events of four
 * words each: timer, cookie, deadline, and missed with flags, which missed(i) and
 * flags(i) take apart.
 */
export class Wheel {
  #wheel;
  #handle;
  #out = new BigUint64Array(1);
  #batch;
  #halves;
  #handler = null;
  #scope = null; // the asynchronous context of drive()
  #timer = null; // of Node
  #immediate = null; // of Node, for what is due
  #next = null; // the expiry that they are for
  #planning = false;
  #unref = false;
  #manual;
  #events;

  /** An option that is left out has the library's default. */
  constructor(options = {}) {
    if (typeof options !== "object") throw new TypeError("the options are no object");
    const {
      clock = Clock.MONOTONIC, tickNs = 0, levels = 0, slots = 0, maxTimers = 0, startNs = 0,
      batch = 1024, ...unknown
    } = options;
    for (const name of Object.keys(unknown)) throw new TypeError(`unknown option: ${name}`);
    if (u32(batch) < 1) throw new RangeError("batch must be at least 1");
    // struct hwheel_options
    const struct = new DataView(new ArrayBuffer(88));
    [struct.byteLength, clock].forEach((x, i) => struct.setUint32(4 * i, u32(x), true));
    struct.setBigUint64(8, BigInt(u64(tickNs)), true);
    [levels, slots, maxTimers].forEach((x, i) => struct.setUint32(16 + 4 * i, u32(x), true));
    struct.setBigUint64(32, BigInt(u64(startNs)), true);
    struct.setUint32(80, 1, true); // owned: no other thread has its address
    // Before the wheel, as this may fail.
    this.#events = new BigUint64Array(new ArrayBuffer(32 * Math.max(batch, HELD)), 0, 4 * batch);
    this.#halves = new Uint32Array(this.#events.buffer);
    this.#batch = batch;
    this.#manual = clock === Clock.MANUAL;
    check(c.create(struct.buffer, this.#out));
    this.#wheel = this.#out[0];
    this.#handle = new Handle(this.#wheel);
    forgotten.register(this, this.#handle, this);
  }

  /** Room for a batch of events. */
  get events() { return this.#events; }

  /**
   * Frees the wheel; pending timers do not fire. readable() rejects, and every later call
   * is a ClosedError. The second close does nothing.
   */
  close() {
    this.#handler = null;
    this.#clear();
    this.#wheel = null;
    forgotten.unregister(this);
    this.#handle.close();
  }

  /** Whether the wheel is closed. */
  get closed() { return this.#wheel === null; }

  /** The pending timers of drive() no longer keep the process alive. */
  unref() {
    this.#unref = true;
    this.#timer?.unref();
    return this;
  }

  /** They do again. */
  ref() {
    this.#unref = false;
    this.#timer?.ref();
    return this;
  }

  // The wheel of C.
  get #c() {
    if (this.#wheel === null) throw new ClosedError();
    return this.#wheel;
  }

  // The wheel of C, for a call that arms or cancels. What follows from that is planned
  // before: if the stack is full, nothing has changed.
  get #planned() {
    const wheel = this.#c;
    this.#planSoon();
    return wheel;
  }

  // The events, unless the program has given their memory away.
  #buffer() {
    if (this.#events.length === 0) throw new TypeError("the buffer of events is detached");
    return this.#events;
  }

  /** The time on the wheel's clock. */
  now() {
    check(c.now(this.#c, this.#out));
    return this.#out[0];
  }

  /**
   * The time at which to drive the wheel next; null: nothing to wait for. It is never late. It
   * may be early, or a time with nothing pending, after a timer was cancelled or moved.
   */
  nextExpiry() {
    return check(c.nextExpiry(this.#c, this.#out)) ? this.#out[0] : null;
  }

  /**
   * The counts of the wheel: BigInts, and `lateness`, an array of them: the number of
   * timers by lateness, [i] for 2^(i-1) ns to below 2^i ns.
   */
  stats() {
    const from = 1 + c.STATS.length, to = from + c.LATENESS;
    const words = new BigUint64Array(to + 2);
    new Uint32Array(words.buffer)[0] = words.byteLength;
    check(c.getStats(this.#c, words));
    const counts = c.STATS.map((name, i) => [name, words[1 + i]]);
    return { ...Object.fromEntries(counts), lateness: words.subarray(from, to),
      dropped: words[to], noteBytes: words[to + 1] };
  }

  // Timers that free themselves when they have fired for the last time.

  /** Fires once. Flags: ABS. Returns the timer. */
  once(timeNs, cookie, flags = 0) {
    return this.#made(c.once(this.#planned, u64(timeNs), null, u64(cookie), u32(flags), this.#out));
  }

  /**
   * Fires again and again, each time up to slackNs late, which shares wake-ups. Flags:
   * ABS, and MISSED_BURST or MISSED_DELAY. Returns the timer.
   */
  every(firstNs, periodNs, cookie, flags = 0, slackNs = 0) {
    return this.#made(c.every(
      this.#planned, u64(firstNs), u64(periodNs), u64(slackNs), null, u64(cookie), u32(flags),
      this.#out));
  }

  // Timers to arm again and again.

  /** Makes a timer that is not pending and lives until free(). */
  setup(cookie) {
    return this.#made(c.setup(this.#c, null, u64(cookie), this.#out));
  }

  /** Arms a timer, or moves it. True if it was pending. Flags: ABS, REDUCE or IF_PENDING. */
  mod(timer, timeNs, flags = 0) {
    return this.#moved(c.mod(this.#planned, u64(timer), u64(timeNs), u32(flags)));
  }

  /** As mod(), to any time up to slackNs later, which shares wake-ups. Flags: ABS. */
  modRange(timer, timeNs, slackNs, flags = 0) {
    return this.#moved(c.modRange(
      this.#planned, u64(timer), u64(timeNs), u64(slackNs), u32(flags)));
  }

  /** Makes a timer periodic from the next time that it fires; 0 ends that. */
  setPeriod(timer, periodNs) {
    check(c.setPeriod(this.#c, u64(timer), u64(periodNs)));
  }

  /**
   * Does what mod() does for each timer, with one call of C. Timers and times are
   * BigUint64Arrays of one length. Returns an Int32Array: 1, 0 or the negative errno of
   * each.
   */
  modMany(timers, timesNs, flags = 0) {
    const handles = words(timers), times = words(timesNs), n = handles.length;
    if (times.length !== n) throw new RangeError("not one time for each timer");
    const results = new Int32Array(n);
    check(c.modMany(this.#planned, handles, times, n, u32(flags), results));
    return results;
  }

  /** Does what delete() does for each timer, as modMany(). */
  deleteMany(timers) {
    const handles = words(timers);
    const results = new Int32Array(handles.length);
    check(c.deleteMany(this.#planned, handles, handles.length, results));
    return results;
  }

  /** Cancels a timer. True if it was pending and will not fire. */
  delete(timer) {
    return this.#moved(c.cancel(this.#planned, u64(timer)));
  }

  /** As delete(), and arming the timer again is ESHUTDOWN. */
  shutdown(timer) {
    return this.#moved(c.shutdown(this.#planned, u64(timer)));
  }

  /** As delete(), and frees the timer. */
  free(timer) {
    return this.#moved(c.free(this.#planned, u64(timer)));
  }

  /** Whether a timer is pending. */
  pending(timer) {
    return check(c.pending(this.#c, u64(timer))) === 1;
  }

  /** Nanoseconds until a timer fires, null if it is not pending. */
  remaining(timer) {
    return check(c.remaining(this.#c, u64(timer), this.#out)) ? this.#out[0] : null;
  }

  // Timers by key: a string or Uint8Array of 1 to 255 bytes, or an integer. They fire
  // once, and the timer of their event is 0.

  /** Gives a key a timer. True if it replaced a pending timer. Flags: ABS. */
  keySet(key, timeNs, cookie, flags = 0) {
    const b = bytes(key);
    return this.#moved(
      c.keySet(this.#planned, b, b.length, u64(timeNs), null, u64(cookie), u32(flags)));
  }

  /** Moves the pending timer of a key, which keeps its cookie. False without one. Flags: ABS. */
  keyMod(key, timeNs, flags = 0) {
    const b = bytes(key);
    return this.#moved(c.keyMod(this.#planned, b, b.length, u64(timeNs), u32(flags)));
  }

  /** Cancels the pending timer of a key. False without one. */
  keyDelete(key) {
    const b = bytes(key);
    return this.#moved(c.keyDelete(this.#planned, b, b.length));
  }

  /** Whether a key has a pending timer. */
  keyPending(key) {
    const b = bytes(key);
    return check(c.keyPending(this.#c, b, b.length)) === 1;
  }

  // Driving by hand.

  /** Fetches the events that are due. A full batch means that there may be more. */
  poll() {
    return check(c.poll(this.#c, this.#buffer(), this.#batch, null));
  }

  /** As poll(), for a manual clock that moves to nowNs. */
  advance(nowNs) {
    return check(c.advance(this.#c, u64(nowNs), this.#buffer(), this.#batch, null));
  }

  /** Shuts the wheel down and fetches its pending timers. */
  drain() {
    return check(c.drain(this.#c, this.#buffer(), this.#batch));
  }

  /**
   * Fetches pending timers, which stay pending. The cursor is a BigUint64Array of one 0
   * before the first call. Less than a full batch means the end.
   */
  list(cursor) {
    if (!(cursor instanceof BigUint64Array) || cursor.length < 1)
      throw new TypeError("the cursor is no BigUint64Array of one");
    this.#out[0] = cursor[0];
    const n = check(c.list(this.#c, this.#out, this.#buffer(), this.#batch));
    cursor[0] = this.#out[0];
    return n;
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
    if (typeof handler !== "function") throw new TypeError("the handler is no function");
    this.#c;
    if (this.#manual) throw new TypeError("the event loop drives no manual clock");
    this.#handler = handler;
    this.#scope = new AsyncResource("HwheelWheel");
    this.#planSoon();
  }

  /**
   * A promise that tells whether the descriptor becomes readable within timeoutMs; -1 is
   * no limit. It waits in poll(2) and occupies one of libuv's threads, for a tenth of a
   * second at a time. It rejects when the wheel is closed.
   */
  async readable(timeoutMs = -1) {
    this.#c;
    if (!Number.isInteger(timeoutMs) || timeoutMs < -1 || timeoutMs > LONGEST_TIMEOUT_MS)
      throw new RangeError(`not a number of milliseconds: ${timeoutMs}`);
    return this.#handle.readable(timeoutMs).finally(() => this); // reachable until then
  }

  #made(result) {
    check(result);
    return this.#out[0];
  }

  #moved(result) {
    return check(result) === 1;
  }

  // At the end of a turn, once for all that it has armed and cancelled: nothing pending
  // lets the process end.
  #planSoon() {
    if (this.#handler === null || this.#planning) return;
    queueMicrotask(() => {
      this.#planning = false;
      if (this.#handler !== null) this.#plan();
    });
    this.#planning = true;
  }

  // The time of a cancelled timer may stand for the next expiry until the wheel is driven.
  // It does not count unless there is a timer that fires.
  #plan() {
    const next = this.#fires() ? this.nextExpiry() : null;
    if (this.#timer !== null && next === this.#next) return;
    this.#clear();
    this.#next = next;
    if (next !== null) this.#scope.runInAsyncScope(this.#set, this, next - this.now());
  }

  // Whether a timer is pending that is not due never.
  #fires() {
    const { counts, events } = scratch;
    counts[0] = BigInt(counts.byteLength);
    check(c.getStats(this.#c, counts));
    if (counts[counts.length - 1] === 0n) return false;
    this.#out[0] = 0n;
    for (let n = SCAN; n === SCAN;) {
      n = check(c.list(this.#wheel, this.#out, events, SCAN));
      for (let i = 0; i < n; i++) if (events[4 * i + 2] !== NEVER) return true;
    }
    return false;
  }

  // In the context of drive(): not in that of whoever has armed a timer.
  #set(ns) {
    const ms = Math.max(Math.min(Number((ns + 999_999n) / 1_000_000n), LONGEST_TIMEOUT_MS), 0);
    const turn = () => this.#turn();
    this.#timer = setTimeout(turn, ms);
    // A timeout takes at least a millisecond. An immediate without a reference would wait
    // for what else may wake the loop.
    if (this.#unref) this.#timer.unref();
    else if (ms <= 0) this.#immediate = setImmediate(turn);
  }

  #clear() {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
    this.#timer = this.#immediate = null;
  }

  #turn() {
    this.#clear();
    // First, as the handler may throw, or enter a context of its own.
    this.#planSoon();
    const n = this.poll();
    if (n > 0) this.#handler(n, this);
  }
}

// Node 18 has no Symbol.dispose.
if (Symbol.dispose) Wheel.prototype[Symbol.dispose] = Wheel.prototype.close;
