import { Wheel } from "./wheel.js";
import { ClosedError } from "./native.js";

const LONGEST = 2 ** 62; // nanoseconds
const GATHER = 1024; // changes that cross at once

/** A number of milliseconds. */
function milliseconds(ms) {
  if (!(typeof ms === "number" && ms >= 0)) throw new RangeError(`not a time: ${ms}`);
  return ms;
}

function onlyOf(unknown) {
  for (const name of Object.keys(unknown)) throw new TypeError(`unknown option: ${name}`);
}

// What Timers alone may do with a Timeout.
let slotOf, place, fire;

/** A function and when to call it; made by Timers. */
export class Timeout {
  #timers;
  #call;
  #repeat;
  #slot = -1;

  static {
    slotOf = (timeout) => timeout.#slot;
    place = (timeout, slot) => { timeout.#slot = slot; };
    fire = (timeout) => {
      if (timeout.#repeat >= 0) timeout.#timers.arm(timeout, timeout.#repeat);
      timeout.#call();
    };
  }

  constructor(timers, call, repeat) {
    this.#timers = timers;
    this.#call = call;
    this.#repeat = repeat;
  }

  /** Whether it is still to come. */
  get pending() { return this.#slot >= 0; }

  /** True if it was pending; it is not called then. */
  cancel() { return this.#timers.cancel(this); }

  /** Calls after `ms` milliseconds from now instead, also if it was called before. */
  refresh(ms) {
    this.#timers.arm(this, milliseconds(ms));
    return this;
  }
}

/**
 * Functions and promises over a wheel, with times in milliseconds as in setTimeout().
 * Node's event loop drives it.
 *
 * To arm and to cancel changes memory of JavaScript's. What has changed crosses into C at
 * the end of the turn, with one call for all. A timeout that is cancelled in the turn that
 * made it costs nothing in C.
 */
export class Timers {
  #wheel;
  // A slot is a timer of C, which one timeout after the other owns.
  #owners = [];
  #handles = [];
  #deadlines = []; // by performance.now()
  #changed = []; // whether C does not know it yet
  #free = []; // slots without an owner
  #changes = []; // slots
  #planned = false;
  #handling = false;

  /** Options are those of Wheel, without a manual clock. */
  constructor(options) {
    this.#wheel = new Wheel(options);
    this.#wheel.drive((n, wheel) => this.#due(n, wheel));
  }

  /** The wheel; it has the counts. */
  get wheel() { return this.#wheel; }

  /** Calls a function once, in `ms` milliseconds. */
  setTimeout(call, ms, ...args) {
    return this.#make(call, ms, args, -1);
  }

  /** Calls a function every `ms` milliseconds, until it is cancelled. */
  setInterval(call, ms, ...args) {
    return this.#make(call, ms, args, ms);
  }

  /** A promise that is fulfilled with `value` after `ms` milliseconds. */
  sleep(ms, value, { signal, ...unknown } = {}) {
    return new Promise((resolve, reject) => {
      onlyOf(unknown);
      signal?.throwIfAborted();
      const aborted = () => {
        timeout.cancel();
        reject(signal.reason);
      };
      const timeout = this.setTimeout(() => {
        signal?.removeEventListener("abort", aborted);
        resolve(value);
      }, ms);
      signal?.addEventListener("abort", aborted, { once: true });
    });
  }

  /** An AbortSignal that aborts with a TimeoutError after `ms` milliseconds. */
  signal(ms) {
    const controller = new AbortController();
    this.setTimeout(() => controller.abort(
      new DOMException("The operation was aborted due to timeout", "TimeoutError")), ms);
    return controller.signal;
  }

  /** Pending timers no longer keep the process alive. */
  unref() {
    this.#wheel.unref();
    return this;
  }

  /** They do again. */
  ref() {
    this.#wheel.ref();
    return this;
  }

  /** Frees the wheel. What is pending is not called, and no promise is settled. */
  close() {
    for (const timeout of this.#owners) if (timeout !== null) place(timeout, -1);
    this.#owners = [];
    this.#free = [];
    this.#changes = [];
    this.#wheel.close();
  }

  #make(call, ms, args, repeat) {
    if (typeof call !== "function") throw new TypeError("not a function");
    milliseconds(ms);
    const timeout = new Timeout(
      this.#inside, args.length === 0 ? call : () => call(...args), repeat);
    this.#arm(timeout, ms);
    return timeout;
  }

  // The operations that a Timeout needs.
  #inside = {
    cancel: (timeout) => this.#cancel(timeout),
    arm: (timeout, ms) => this.#arm(timeout, ms),
  };

  #arm(timeout, ms) {
    if (this.#wheel.closed) throw new ClosedError();
    let slot = slotOf(timeout);
    if (slot < 0) {
      slot = this.#free.length > 0 ? this.#free.pop() : this.#fresh();
      this.#owners[slot] = timeout;
      place(timeout, slot);
    }
    this.#deadlines[slot] = performance.now() + ms;
    this.#change(slot);
  }

  #fresh() {
    const slot = this.#owners.length;
    this.#handles.push(this.#wheel.setup(slot));
    this.#owners.push(null);
    this.#deadlines.push(0);
    this.#changed.push(false);
    return slot;
  }

  #cancel(timeout) {
    const slot = slotOf(timeout);
    if (slot < 0) return false;
    this.#release(timeout);
    this.#change(slot);
    return true;
  }

  #release(timeout) {
    this.#owners[slotOf(timeout)] = null;
    this.#free.push(slotOf(timeout));
    place(timeout, -1);
  }

  // Notes a slot that C does not know any more.
  #change(slot) {
    if (this.#changed[slot]) return;
    this.#changed[slot] = true;
    const n = this.#changes.push(slot);
    // A batch that is being handled tells old from new by what has changed.
    if (n >= GATHER && !this.#handling) this.#cross();
    else if (!this.#planned) {
      this.#planned = true;
      queueMicrotask(() => {
        this.#planned = false;
        this.#cross();
      });
    }
  }

  // Tells C what has changed.
  #cross() {
    const changes = this.#changes;
    if (changes.length === 0 || this.#wheel.closed) return;
    this.#changes = [];
    const armed = new BigUint64Array(changes.length), cancelled = new BigUint64Array(changes.length);
    const halves = new Uint32Array(2 * changes.length); // of nanoseconds
    const slots = [];
    let cancels = 0;
    const now = performance.now();
    for (const slot of changes) {
      this.#changed[slot] = false;
      if (this.#owners[slot] === null) {
        cancelled[cancels++] = this.#handles[slot];
        continue;
      }
      const ns = Math.min(Math.max(Math.ceil((this.#deadlines[slot] - now) * 1e6), 0), LONGEST);
      const at = slots.push(slot) - 1;
      armed[at] = this.#handles[slot];
      halves[2 * at] = ns % 2 ** 32;
      halves[2 * at + 1] = ns / 2 ** 32;
    }
    if (cancels > 0) this.#wheel.deleteMany(cancelled.subarray(0, cancels));
    if (slots.length === 0) return;
    const results = this.#wheel.modMany(
      armed.subarray(0, slots.length), new BigUint64Array(halves.buffer, 0, slots.length));
    for (let i = 0; i < slots.length; i++) {
      // No memory for now: the next turn tries again.
      if (results[i] < 0) setImmediate(() => this.#wheel.closed || this.#change(slots[i]));
    }
  }

  #due(n, wheel) {
    // A function may close the wheel or throw: the slots are copied before.
    const slots = Array.from({ length: n }, (_, i) => Number(wheel.cookie(i)));
    this.#handling = true;
    for (const slot of slots) {
      const timeout = this.#owners[slot] ?? null;
      if (timeout === null || this.#changed[slot]) continue; // cancelled or moved since
      this.#release(timeout);
      try {
        fire(timeout);
      } catch (error) {
        // As an exception of setTimeout()'s; the others are called.
        queueMicrotask(() => { throw error; });
      }
    }
    this.#handling = false;
  }
}

if (Symbol.dispose) {
  Timers.prototype[Symbol.dispose] = Timers.prototype.close;
  Timeout.prototype[Symbol.dispose] = Timeout.prototype.cancel;
}
