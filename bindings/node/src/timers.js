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

/** A function and when to call it; made by Timers. */
export class Timeout {
  #timers;
  #entry;

  constructor(timers, entry) {
    this.#timers = timers;
    this.#entry = entry;
  }

  /** Whether it is still to come. */
  get pending() { return this.#entry.slot >= 0; }

  /** True if it was pending; it is not called then. */
  cancel() { return this.#timers.cancel(this.#entry); }

  /** Calls after `ms` milliseconds from now instead, also if it was called before. */
  refresh(ms) {
    this.#timers.arm(this.#entry, milliseconds(ms));
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
 *
 * Where the stack is full, any call of a function throws. So what may throw comes first,
 * then nothing but assignments.
 */
export class Timers {
  #wheel;
  // A slot is a timer of C, which the entry of one timeout after the other owns.
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

  /** The counts of the wheel. */
  stats() { return this.#wheel.stats(); }

  /** Whether they are closed. */
  get closed() { return this.#wheel.closed; }

  /** Calls a function once, in `ms` milliseconds. */
  setTimeout(call, ms, ...args) {
    return this.#make(call, ms, args, -1);
  }

  /** Calls a function every `ms` milliseconds, until it is cancelled. */
  setInterval(call, ms, ...args) {
    return this.#make(call, ms, args, ms);
  }

  /** A promise that is fulfilled with `value` after `ms` milliseconds. */
  sleep(ms, value, options = {}) {
    return new Promise((resolve, reject) => {
      const { signal, ...unknown } = options;
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
    for (const entry of this.#owners) if (entry !== null) entry.slot = -1;
    this.#owners = [];
    this.#free = [];
    this.#changes = [];
    this.#wheel.close();
  }

  #make(call, ms, args, repeat) {
    if (typeof call !== "function") throw new TypeError("not a function");
    milliseconds(ms);
    const entry = { call: args.length === 0 ? call : () => call(...args), repeat, slot: -1 };
    const timeout = new Timeout(this.#inside, entry);
    this.#arm(entry, ms);
    return timeout;
  }

  // The operations that a Timeout needs.
  #inside = {
    cancel: (entry) => this.#cancel(entry),
    arm: (entry, ms) => this.#arm(entry, ms),
  };

  #arm(entry, ms) {
    if (this.#wheel.closed) throw new ClosedError();
    const deadline = performance.now() + ms;
    if (entry.slot < 0 && this.#free.length === 0) this.#fresh();
    const slot = entry.slot < 0 ? this.#free[this.#free.length - 1] : entry.slot;
    this.#change(slot);
    if (entry.slot < 0) {
      this.#free.pop();
      this.#owners[slot] = entry;
      entry.slot = slot;
    }
    this.#deadlines[slot] = deadline;
  }

  #fresh() {
    const slot = this.#owners.length;
    this.#handles[slot] = this.#wheel.setup(slot);
    this.#owners[slot] = null;
    this.#deadlines[slot] = 0;
    this.#changed[slot] = false;
    this.#free.push(slot);
  }

  #cancel(entry) {
    if (entry.slot < 0) return false;
    this.#change(entry.slot);
    this.#release(entry);
    return true;
  }

  #release(entry) {
    this.#owners[entry.slot] = null;
    this.#free.push(entry.slot);
    entry.slot = -1;
  }

  // Notes a slot that C does not know any more.
  #change(slot) {
    if (!this.#planned) {
      queueMicrotask(() => {
        this.#planned = false;
        this.#cross();
      });
      this.#planned = true;
    }
    if (this.#changed[slot]) return;
    // A batch that is being handled tells old from new by what has changed.
    if (this.#changes.length >= GATHER && !this.#handling) this.#cross();
    this.#changes.push(slot);
    this.#changed[slot] = true;
  }

  // Tells C what has changed. All stays noted until C knows it.
  #cross() {
    const changes = this.#changes;
    if (changes.length === 0 || this.#wheel.closed) return;
    const armed = new BigUint64Array(changes.length), cancelled = new BigUint64Array(changes.length);
    const halves = new Uint32Array(2 * changes.length); // of nanoseconds
    const slots = [];
    let cancels = 0;
    const now = performance.now();
    for (const slot of changes) {
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
    const results = slots.length === 0 ? [] : this.#wheel.modMany(
      armed.subarray(0, slots.length), new BigUint64Array(halves.buffer, 0, slots.length));
    // No memory for some: the next turn tries again.
    const failed = slots.filter((_, i) => results[i] < 0);
    if (failed.length > 0) setImmediate(() => this.#cross());
    for (const slot of changes) this.#changed[slot] = false;
    for (const slot of failed) this.#changed[slot] = true;
    this.#changes = failed;
  }

  #due(n, wheel) {
    // A function may close the wheel or throw: the slots are copied before.
    const slots = Array.from({ length: n }, (_, i) => Number(wheel.cookie(i)));
    this.#handling = true;
    for (const slot of slots) {
      const entry = this.#owners[slot] ?? null;
      if (entry === null || this.#changed[slot]) continue; // cancelled or moved since
      this.#release(entry);
      const { call } = entry;
      try {
        if (entry.repeat >= 0) this.#arm(entry, entry.repeat);
        call();
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
