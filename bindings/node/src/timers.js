import { IF_PENDING } from "./constants.js";
import { Wheel } from "./wheel.js";

const FOREVER = 2 ** 53;

/** Nanoseconds of a number of milliseconds, rounded up. */
function nanoseconds(ms) {
  if (!(typeof ms === "number" && ms >= 0)) throw new RangeError(`not a time: ${ms}`);
  const ns = Math.ceil(ms * 1e6);
  return ns < FOREVER ? ns : BigInt(Math.min(ns, 2 ** 62));
}

/** A function and when to call it; made by Timers. */
export class Timeout {
  #timers;
  #call;

  constructor(timers, call) {
    this.#timers = timers;
    this.#call = call;
  }

  /** Whether it is still to come. */
  get pending() { return this.#timers.has(this); }

  /** True if it was pending; it is not called then. */
  cancel() { return this.#timers.cancel(this); }

  /** Calls after `ms` milliseconds from now instead, also if it was called before. */
  refresh(ms) {
    this.#timers.arm(this, ms);
    return this;
  }

  /** For Timers. */
  fire() { this.#call(); }
}

/**
 * Functions and promises over a wheel, with times in milliseconds as in setTimeout().
 * Node's event loop drives it.
 */
export class Timers {
  #wheel;
  #armed = new Map(); // cookies of pending timeouts
  #places = new Map(); // timeouts to { cookie, timer }
  #cookies = 0;

  /** Options are those of Wheel, without a manual clock. */
  constructor(options) {
    this.#wheel = new Wheel(options);
    this.#wheel.drive((n, wheel) => this.#due(n, wheel));
  }

  /** The wheel; it has the counts. */
  get wheel() { return this.#wheel; }

  /** Calls a function once, in `ms` milliseconds. */
  setTimeout(call, ms, ...args) {
    if (typeof call !== "function") throw new TypeError("not a function");
    const timeout = new Timeout(this.#inside, () => call(...args));
    this.#arm(timeout, ms);
    return timeout;
  }

  /** A promise that is fulfilled with `value` after `ms` milliseconds. */
  sleep(ms, value, { signal, ...unknown } = {}) {
    return new Promise((resolve, reject) => {
      for (const name of Object.keys(unknown)) throw new TypeError(`unknown option: ${name}`);
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
    this.#armed.clear();
    this.#places.clear();
    this.#wheel.close();
  }

  // The operations that a Timeout needs.
  #inside = {
    has: (timeout) => this.#places.has(timeout),
    cancel: (timeout) => this.#cancel(timeout),
    arm: (timeout, ms) => this.#arm(timeout, ms),
  };

  #arm(timeout, ms) {
    const ns = nanoseconds(ms);
    const place = this.#places.get(timeout);
    if (place !== undefined && this.#mod(place.timer, ns)) return;
    this.#cancel(timeout);
    // A cookie of its own for each arming: what a batch still holds finds nobody.
    const cookie = ++this.#cookies;
    const timer = this.#wheel.once(ns, cookie);
    this.#armed.set(cookie, timeout);
    this.#places.set(timeout, { cookie, timer });
  }

  #mod(timer, ns) {
    try {
      return this.#wheel.mod(timer, ns, IF_PENDING);
    } catch (error) {
      if (error.code === "ESTALE") return false; // in a batch already
      throw error;
    }
  }

  #cancel(timeout) {
    const place = this.#places.get(timeout);
    if (place === undefined) return false;
    this.#places.delete(timeout);
    this.#armed.delete(place.cookie);
    try {
      this.#wheel.delete(place.timer);
    } catch (error) {
      if (error.code !== "ESTALE") throw error; // in a batch already
    }
    return true;
  }

  #due(n, wheel) {
    // A function may close the wheel or throw: the cookies are copied before.
    const cookies = Array.from({ length: n }, (_, i) => Number(wheel.cookie(i)));
    for (const cookie of cookies) {
      const timeout = this.#armed.get(cookie);
      if (timeout === undefined) continue; // cancelled or moved since
      this.#armed.delete(cookie);
      this.#places.delete(timeout);
      try {
        timeout.fire();
      } catch (error) {
        // As an exception of setTimeout()'s; the others are called.
        queueMicrotask(() => { throw error; });
      }
    }
  }
}

if (Symbol.dispose) Timers.prototype[Symbol.dispose] = Timers.prototype.close;
