import { AsyncResource, createHook } from "node:async_hooks";
import events from "node:events";
import { inspect, promisify } from "node:util";
import { ABS, Clock } from "./constants.js";
import {
  ClosedError, clearImmediate, clearTimeout, clock, queueMicrotask, setImmediate, setTimeout,
} from "./native.js";
import { timedOut, timeoutOf, timeoutSignal } from "./signals.js";
import { Wheel } from "./wheel.js";

const LONGEST = 2 ** 62; // nanoseconds: 146 years, which never end
const GATHER = 1024; // changes that cross at once
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1; // of Node's
const CALLS = 1024; // functions that are called in a turn
const NEVER_HALF = 2 ** 32 - 1;

class ArgumentError extends TypeError {
  code = "ERR_INVALID_ARG_TYPE";

  constructor(name, type, value) {
    super(`The "${name}" argument must be ${type}. Received ${inspect(value, { depth: 0 })}`);
  }

  toString() { return `${this.name} [${this.code}]: ${this.message}`; }
}

const warned = new Set();

/** Milliseconds as setTimeout() reads them; what is no time has passed. */
function milliseconds(ms) {
  const number = ms * 1;
  if (number > 0) return number;
  if (number !== 0 && ms !== undefined) warn(number);
  return 0;
}

// Once for each kind, as Node does.
function warn(number) {
  const [name, what] = number < 0 ? ["TimeoutNegativeWarning", "a negative"] : ["TimeoutNaNWarning", "not a"];
  if (warned.has(name)) return;
  warned.add(name);
  process.emitWarning(`${number} is ${what} number.\nThe delay was set to 0.`, name);
}

function callable(call) {
  if (typeof call !== "function") throw new ArgumentError("callback", "of type function", call);
  return call;
}

/** The time and the options of what is awaited; bad ones are errors. */
function awaited(ms, options) {
  if (ms !== undefined && typeof ms !== "number") throw new ArgumentError("delay", "of type number", ms);
  if (options === null || typeof options !== "object" || Array.isArray(options))
    throw new ArgumentError("options", "of type object", options);
  const { signal, ref = true, ...unknown } = options;
  for (const name of Object.keys(unknown)) throw new TypeError(`unknown option: ${name}`);
  if (signal !== undefined && !(signal !== null && typeof signal === "object" && "aborted" in signal))
    throw new ArgumentError("options.signal", "an instance of AbortSignal", signal);
  if (typeof ref !== "boolean") throw new ArgumentError("options.ref", "of type boolean", ref);
  return { signal, ref };
}

/** Calls at the abort of a signal, if there is one. Returns what ends that. */
function onAbort(signal, call) {
  if (signal === undefined) return () => {};
  // The listener of a program cannot stop it. The oldest Node lacks this, and its own
  // promises are stopped.
  if (events.addAbortListener) {
    const listener = events.addAbortListener(signal, call);
    return () => listener[Symbol.dispose]();
  }
  signal.addEventListener("abort", call, { once: true });
  return () => signal.removeEventListener("abort", call);
}

// Throws if the stack is nearly full. Where it ends within Node's setTimeout(), Node counts
// a timeout that does not exist, and the process never ends.
function headroom(frames) {
  return frames === 0 ? 0 : 1 + headroom(frames - 1);
}

class AbortError extends Error {
  code = "ABORT_ERR";

  constructor(signal) {
    super("The operation was aborted", { cause: signal.reason });
    this.name = "AbortError";
  }
}

// What a class lets this file do, and nobody else.
let run, slotOf, forget, isTimeout;

/**
 * A function and when to call it; made by Timers. It is an AsyncResource: the function is
 * called in the asynchronous context in which the timeout was made. The members that begin
 * with "_" are those of Node's timeouts.
 *
 * Where the stack is full, any call of a function throws. So what may throw comes first,
 * then nothing but assignments.
 */
export class Timeout extends AsyncResource {
  #core;
  #slot = -1;
  #ref;
  #known = false; // by its id

  constructor(core, call, ms, args, repeat, ref) {
    super("HwheelTimeout");
    this.#core = core;
    this.#ref = ref;
    this._onTimeout = call;
    this._timerArgs = args;
    this._idleTimeout = ms;
    this._repeat = repeat;
    this.#arm(core.now() + ms);
  }

  /** Whether it is still to come. */
  get pending() { return this.#slot >= 0; }

  get _destroyed() { return this.#slot < 0; }

  // Node's clearTimeout() sets it.
  set _destroyed(destroyed) { if (destroyed) this.cancel(); }

  /** True if it was pending; it is not called then. */
  cancel() {
    const pending = this.#slot >= 0;
    if (pending) this.#release(true);
    this._idleTimeout = -1;
    return pending;
  }

  /** As cancel(). */
  close() {
    this.cancel();
    return this;
  }

  /**
   * Calls after `ms` milliseconds from now instead, also if it was called before. Without
   * `ms`, after the time that it was made with, and not if it was cancelled.
   */
  refresh(ms) {
    if (ms === undefined && this._idleTimeout < 0) return this;
    ms = milliseconds(ms === undefined ? this._idleTimeout : ms);
    this.#arm(this.#core.now() + ms);
    this._idleTimeout = ms;
    return this;
  }

  /** Keeps the process alive while it is pending, as it does from the start. */
  ref() { return #core in this ? this.#refer(true) : this; }

  /** Does not keep the process alive. */
  unref() { return #core in this ? this.#refer(false) : this; }

  /** Whether it keeps the process alive while it is pending. */
  hasRef() { return this.#ref; }

  /** A number, for clearTimeout() of the Timers that made it. */
  [Symbol.toPrimitive]() {
    const id = this.asyncId();
    if (!this.#known) {
      if (this.#slot >= 0) this.#core.known.set(id, this);
      this.#known = true;
    }
    return id;
  }

  #refer(ref) {
    if (ref !== this.#ref) {
      const core = this.#core;
      core.plan();
      if (this.#slot >= 0) core.refs += ref ? 1 : -1;
      this.#ref = ref;
    }
    return this;
  }

  #arm(deadline) {
    const core = this.#core, made = this.#slot < 0;
    if (core.wheel.closed) throw new ClosedError();
    if (made && core.free.length === 0) core.fresh();
    if (this.#known) core.known.set(this.asyncId(), this);
    if (deadline < core.wake) {
      headroom(200);
      core.wakeIn(deadline - core.now());
    }
    const slot = made ? core.free[core.free.length - 1] : this.#slot;
    core.change(slot);
    if (made) {
      core.free.pop();
      core.owners[slot] = this;
      this.#slot = slot;
      if (this.#ref) core.refs++;
    }
    core.due[slot] = false;
    core.orders[slot] = core.order++;
    core.deadlines[slot] = deadline;
  }

  #release(armed) {
    const core = this.#core, slot = this.#slot;
    if (this.#known) core.known.delete(this.asyncId());
    if (armed) core.change(slot);
    core.owners[slot] = null;
    core.free.push(slot);
    this.#slot = -1;
    if (this.#ref) core.refs--;
  }

  // Calls the function. Its event has been fetched.
  #run() {
    const core = this.#core, slot = this.#slot;
    if (slot < 0 || !core.due[slot]) return; // cancelled or moved since
    core.due[slot] = false;
    const deadline = core.deadlines[slot], order = core.orders[slot], args = this._timerArgs;
    const once = !this._repeat || !this._onTimeout;
    const begin = once ? 0 : core.now();
    core.plan(); // not in a context that the function enters
    if (once) this.#release(false);
    if (!this._onTimeout) return;
    try {
      if (args === undefined) this.runInAsyncScope(this._onTimeout, this);
      else this.runInAsyncScope(this._onTimeout, this, ...args);
    } finally {
      // The function may have cancelled or moved it, or made an interval of a timeout.
      const own = once ? this.#slot < 0 : this.#slot === slot && core.orders[slot] === order;
      const again = this._repeat && this._onTimeout && this._idleTimeout !== -1;
      if (own && again && !core.wheel.closed) this.#again(deadline, begin);
      else if (own && this.#slot >= 0) this.#release(false);
    }
  }

  // The next period, by the deadline of the one whose call began at `begin`. That call was for
  // all that had passed by then.
  #again(deadline, begin) {
    const period = Math.max(milliseconds(this._repeat), 1);
    const passed = Math.max(Math.floor((begin - deadline) / period), 0);
    this.#arm(deadline + (passed + 1) * period);
    this._idleTimeout = period;
  }

  static {
    run = (timeout) => timeout.#run();
    slotOf = (timeout) => timeout.#slot;
    isTimeout = (value) => typeof value === "object" && value !== null && #core in value;
    forget = (owners) => {
      for (const timeout of owners) if (timeout !== null) timeout.#slot = -1;
    };
  }
}

/** The state that the timeouts of one Timers share. It drives their wheel. */
class Core {
  // A slot is a timer of C, which one timeout after the other owns.
  owners = [];
  handles = [];
  deadlines = []; // by now()
  orders = []; // in which they were armed
  due = []; // whether the event was fetched and the function is still to be called
  changed = []; // whether C does not know it yet
  free = []; // slots without an owner
  changes = []; // slots
  late = []; // timeouts that were due before C knew of them
  order = 0;
  planned = false;
  known = new Map(); // timeouts by id
  // Timeouts whose events were fetched, from `at` on, and how many immediates are to come.
  ready = [];
  at = 0;
  immediates = 0;
  // Node's timeout, its time by now(), and an immediate for what is overdue.
  timer = null;
  wake = Infinity;
  immediate = null;
  scope = new AsyncResource("HwheelTimers"); // in which Node calls
  refs = 0; // pending timeouts that keep the process alive
  ref = true; // whether such timeouts do
  alive = false; // whether Node's timeout does

  constructor(options = {}) {
    if (typeof options !== "object") throw new TypeError("the options are no object");
    const { virtual = false, ...others } = options;
    if (typeof virtual !== "boolean") throw new ArgumentError("options.virtual", "of type boolean", virtual);
    if (virtual ? others.clock !== undefined : others.clock === Clock.MANUAL)
      throw new TypeError("the event loop drives no manual clock");
    this.wheel = new Wheel(virtual ? { ...others, clock: Clock.MANUAL } : others);
    this.virtual = virtual ? new VirtualClock(this, others.startNs ?? 0) : null;
    this.now = virtual ? () => this.virtual.ms : clock;
    if (virtual) this.wake = -Infinity; // needs no timeout of Node
    // The wheel's monotonic clock and Node's never diverge, so that deadlines keep their order.
    this.fixed = virtual || (others.clock ?? Clock.MONOTONIC) === Clock.MONOTONIC;
    this.offset = virtual ? 0n : this.measure();
    for (let i = 0; i < 4 && !virtual; i++) {
      const offset = this.measure();
      if (offset < this.offset) this.offset = offset;
    }
  }

  // What lies between the two clocks, or more, by the time between the two calls.
  measure() {
    const ms = clock();
    return this.wheel.now() - BigInt(Math.floor(ms * 1e6));
  }

  fresh() {
    const slot = this.owners.length;
    this.handles[slot] = this.wheel.setup(slot);
    this.owners[slot] = null;
    this.deadlines[slot] = 0;
    this.orders[slot] = 0;
    this.due[slot] = false;
    this.changed[slot] = false;
    this.free.push(slot);
  }

  // At the end of the turn, once for all that it has changed.
  plan() {
    if (this.planned) return;
    queueMicrotask(this.settle);
    this.planned = true;
  }

  settle = () => {
    this.planned = false;
    this.cross();
    const alive = this.ref && this.refs > 0;
    if (alive !== this.alive) {
      this.alive = alive;
      if (alive) this.timer?.ref();
      else this.timer?.unref();
    }
    this.virtual?.watch();
  };

  // Whether a timeout is pending that ends.
  fires() {
    return this.owners.some((owner, slot) => owner !== null && this.deadlines[slot] < Infinity);
  }

  // Notes a slot that C does not know any more.
  change(slot) {
    this.plan();
    if (this.changed[slot]) return;
    if (this.changes.length >= GATHER) this.cross();
    this.changes.push(slot);
    this.changed[slot] = true;
  }

  // Tells C what has changed. All stays noted until C knows it.
  cross() {
    const changes = this.changes;
    if (changes.length === 0 || this.wheel.closed) return;
    const armed = new BigUint64Array(changes.length), cancelled = new BigUint64Array(changes.length);
    const halves = new Uint32Array(2 * changes.length); // of nanoseconds
    const offset = this.fixed ? this.offset : this.measure();
    const low = Number(BigInt.asUintN(32, offset)), high = Number(offset >> 32n);
    const longest = this.virtual ? 2 * LONGEST : LONGEST;
    const slots = [], now = this.now();
    let cancels = 0;
    for (const slot of changes) {
      const owner = this.owners[slot], deadline = this.deadlines[slot];
      if (owner === null || deadline <= now) {
        cancelled[cancels++] = this.handles[slot];
        this.due[slot] = owner !== null;
        if (owner !== null) this.late.push(owner);
        continue;
      }
      const ns = Math.ceil(deadline * 1e6);
      const at = slots.push(slot) - 1, sum = ns % 2 ** 32 + low, never = ns >= longest;
      armed[at] = this.handles[slot];
      halves[2 * at] = never ? NEVER_HALF : sum;
      halves[2 * at + 1] = never ? NEVER_HALF
        : Math.floor(ns / 2 ** 32) + high + (sum >= 2 ** 32 ? 1 : 0);
    }
    if (cancels > 0) this.wheel.deleteMany(cancelled.subarray(0, cancels));
    const results = slots.length === 0 ? [] : this.wheel.modMany(
      armed.subarray(0, slots.length), new BigUint64Array(halves.buffer, 0, slots.length), ABS);
    // No memory for some: the next turn tries again.
    const failed = slots.filter((_, i) => results[i] < 0);
    if (failed.length > 0) setImmediate(() => {
      this.settle();
      this.sleep();
    });
    for (const slot of changes) this.changed[slot] = false;
    for (const slot of failed) this.changed[slot] = true;
    this.changes = failed;
  }

  // Sets Node's timeout to what is next in C.
  sleep() {
    if (this.wheel.closed) return;
    const next = this.wheel.nextExpiry();
    if (next !== null) this.wakeIn(Number(next - this.wheel.now()) / 1e6);
  }

  // In the context of all Timers: not in that of whoever arms a timeout.
  wakeIn(ms) { this.scope.runInAsyncScope(this.set, this, ms); }

  set(ms) {
    this.clear();
    this.timer = setTimeout(this.turn, Math.max(Math.min(Math.ceil(ms), LONGEST_TIMEOUT_MS), 0));
    this.wake = clock() + ms;
    // A timeout takes at least a millisecond. An immediate without a reference would wait
    // for what else may wake the loop.
    if (!this.alive) this.timer.unref();
    else if (ms <= 0) this.immediate = setImmediate(this.turn);
  }

  clear() {
    clearTimeout(this.timer);
    clearImmediate(this.immediate);
    this.timer = this.immediate = null;
    this.wake = Infinity;
  }

  turn = () => {
    this.clear();
    this.fetch(() => this.wheel.poll());
    this.sleep();
    this.start();
  };

  // Notes the timeouts of all that is due, in the order of their deadlines and of their arming.
  fetch(poll) {
    const { wheel, owners, deadlines, orders } = this;
    const slots = this.late.map(slotOf).filter((slot) => slot >= 0 && this.due[slot]);
    const batch = wheel.events.length / 4;
    this.late = [];
    let n;
    do {
      n = poll();
      for (let i = 0; i < n; i++) {
        const slot = Number(wheel.cookie(i));
        // Else it was cancelled or moved since.
        if (owners[slot] !== null && !this.changed[slot]) slots.push(slot);
      }
    } while (n === batch);
    slots.sort((a, b) => deadlines[a] - deadlines[b] || orders[a] - orders[b]);
    for (const slot of slots) {
      this.due[slot] = true;
      this.ready.push(owners[slot]);
    }
  }

  // Node calls each function, but for the first, in an immediate of its own: between two of
  // them it runs what they have given to process.nextTick() and to promises, and an
  // exception ends only the one that has thrown it.
  start() {
    if (this.immediates > 0 || this.ready.length === 0) return;
    const first = this.take();
    this.callSoon();
    run(first);
  }

  take() {
    const timeout = this.ready[this.at];
    this.ready[this.at++] = undefined;
    return timeout;
  }

  callSoon() {
    const left = this.ready.length - this.at;
    if (left === 0) {
      this.ready = [];
      this.at = 0;
      return;
    }
    this.immediates = Math.min(left, CALLS);
    this.scope.runInAsyncScope(() => {
      for (let i = 0; i < this.immediates; i++) setImmediate(this.step);
    });
  }

  step = () => {
    const timeout = this.take();
    if (--this.immediates === 0) this.callSoon();
    run(timeout);
  };

  close() {
    forget(this.owners);
    this.owners = [];
    this.free = [];
    this.changes = [];
    this.late = [];
    this.due = [];
    this.known.clear();
    this.refs = 0;
    this.clear();
    this.wheel.close();
  }
}

/** The clock of tests: it moves to the next expiry when everything waits. */
class VirtualClock {
  #core;
  #watching = false;
  #changes = -1;

  constructor(core, startNs) {
    this.#core = core;
    this.ms = Number(startNs) / 1e6;
    if (parseInt(process.versions.node, 10) >= 26) seen.enable();
  }

  // Looks in the next turn of the event loop.
  watch() {
    const { wheel, scope } = this.#core;
    if (this.#watching || wheel.closed || this.#next() === null) return;
    this.#watching = true;
    scope.runInAsyncScope(this.#set, this);
  }

  #set() {
    const look = () => this.#look();
    if (this.#core.alive && !reading()) setImmediate(look);
    else if (this.#core.alive) setTimeout(look, 1);
    else setTimeout(look, 5).unref(); // The process ends before, if nothing else goes on.
  }

  #next() {
    const { late, wheel } = this.#core;
    if (late.length > 0) return wheel.now();
    return this.#core.fires() ? wheel.nextExpiry() : null;
  }

  #look() {
    const core = this.#core, { wheel } = core;
    this.#watching = false;
    if (wheel.closed) return;
    const quiet = this.#changes === core.order && core.ready.length === 0 && !reading();
    this.#changes = core.order;
    try {
      // Until something is due: the next expiry may be the time of a cancelled timer. In
      // between nobody reads the clock.
      for (let next; quiet && core.ready.length === 0 && (next = this.#next()) !== null;) {
        const time = next > wheel.now() ? next : wheel.now();
        this.ms = Number(time) / 1e6;
        this.#changes = -1; // What the functions do may take more than a turn.
        core.fetch(() => wheel.advance(time));
      }
      core.start();
    } finally {
      this.watch();
    }
  }
}

// Whether a file is read, a name is looked up or the like.
function reading() {
  return files.size > 0 ||
    process.getActiveResourcesInfo().some((name) => name.includes("Req"));
}

// Node 26 leaves what readFile() does out of this list. A hook sees it.
const files = new Set();
const seen = createHook({
  init(id, type) { if (type.startsWith("FSREQ")) files.add(id); },
  before(id) { files.delete(id); },
  destroy(id) { files.delete(id); },
});

// What a program may take out of its Timers and call by itself.
const FREE = ["setTimeout", "setInterval", "clearTimeout", "clearInterval", "sleep", "interval",
  "signal", "now"];

/**
 * Functions and promises over a wheel, with times in milliseconds as in setTimeout().
 * Node's event loop drives it.
 *
 * To arm and to cancel changes memory of JavaScript's. What has changed crosses into C at
 * the end of the turn, with one call for all. A timeout that is cancelled in the turn that
 * made it costs nothing in C.
 */
export class Timers {
  #core;

  /**
   * Options are those of Wheel, without a manual clock, and `virtual`: a clock for tests
   * that moves to the next expiry when everything waits.
   */
  constructor(options) {
    this.#core = new Core(options);
    for (const name of FREE) {
      const value = this[name].bind(this);
      Object.defineProperty(this, name, { value, writable: true, configurable: true });
    }
    Object.defineProperty(this.setTimeout, promisify.custom, { value: this.sleep });
  }

  /** The counts of the wheel. */
  stats() { return this.#core.wheel.stats(); }

  /** Whether they are closed. */
  get closed() { return this.#core.wheel.closed; }

  /** Milliseconds on their clock: performance.now(), or the virtual time. */
  now() { return this.#core.now(); }

  /** Calls a function once, in `ms` milliseconds. */
  setTimeout(call, ms, ...args) {
    return new Timeout(this.#core, callable(call), milliseconds(ms),
      args.length === 0 ? undefined : args, null, true);
  }

  /**
   * Calls a function every `ms` milliseconds, at least one, until it is cancelled. The
   * rhythm stays. After several periods have passed, it is called once for all of them.
   */
  setInterval(call, ms, ...args) {
    const period = Math.max(milliseconds(ms), 1);
    return new Timeout(this.#core, callable(call), period,
      args.length === 0 ? undefined : args, period, true);
  }

  /** Cancels a timeout, the timeout of an id, or a signal of signal(). Else does nothing. */
  clearTimeout(timeout) {
    if (typeof timeout === "number" || typeof timeout === "string")
      timeout = this.#core.known.get(Number(timeout));
    else if (!isTimeout(timeout))
      timeout = timeoutOf(timeout);
    timeout?.cancel();
  }

  /** As clearTimeout(). */
  clearInterval(timeout) { this.clearTimeout(timeout); }

  /**
   * A promise that is fulfilled with `value` after `ms` milliseconds; if that has passed, at
   * once. Options: `signal` rejects it with an AbortError, `ref: false` does not keep the
   * process alive.
   */
  async sleep(ms, value, options = {}) {
    const { signal, ref } = awaited(ms, options);
    if (this.closed) throw new ClosedError();
    if (signal?.aborted) throw new AbortError(signal);
    const delay = milliseconds(ms);
    if (ms <= 0) return value;
    return new Promise((resolve, reject) => {
      let stop;
      const timeout = new Timeout(this.#core, () => {
        stop();
        resolve(value);
      }, delay, undefined, null, ref);
      try {
        // Also after close(), which the timeout does not survive.
        stop = onAbort(signal, () => {
          timeout.cancel();
          reject(new AbortError(signal));
        });
      } catch (error) {
        timeout.cancel();
        throw error;
      }
    });
  }

  /** An iterator that yields `value` every `ms` milliseconds. Options are those of sleep(). */
  async *interval(ms, value, options = {}) {
    const { signal, ref } = awaited(ms, options);
    if (signal?.aborted) throw new AbortError(signal);
    const period = Math.max(milliseconds(ms), 1);
    let passed = 0, resolve = null;
    const wake = () => {
      resolve?.();
      resolve = null;
    };
    const timeout = new Timeout(this.#core, () => {
      passed++;
      wake();
    }, period, undefined, period, ref);
    let stop = () => {};
    try {
      stop = onAbort(signal, () => {
        timeout.cancel();
        wake();
      });
      while (!signal?.aborted) {
        if (passed === 0) await new Promise((wakes) => { resolve = wakes; });
        for (; passed > 0; passed--) yield value;
      }
      throw new AbortError(signal);
    } finally {
      timeout.cancel();
      stop();
    }
  }

  /**
   * An AbortSignal that aborts with a TimeoutError after `ms` milliseconds; if that has
   * passed, at once. It does not keep the process alive, and clearTimeout() cancels it.
   */
  signal(ms) {
    if (typeof ms !== "number") throw new ArgumentError("delay", "of type number", ms);
    if (!(ms >= 0)) throw Object.assign(
      new RangeError(`The value of "delay" is out of range. It must be >= 0. Received ${ms}`),
      { code: "ERR_OUT_OF_RANGE" });
    if (this.closed) throw new ClosedError();
    if (ms === 0) return AbortSignal.abort(timedOut());
    return timeoutSignal((call) => new Timeout(this.#core, call, ms, undefined, null, false));
  }

  /** Pending timeouts no longer keep the process alive. */
  unref() { return this.#refer(false); }

  /** They do again, but for those that unref() was called for. */
  ref() { return this.#refer(true); }

  #refer(ref) {
    this.#core.plan();
    this.#core.ref = ref;
    return this;
  }

  /** Frees the wheel. What is pending is not called, and no promise is settled. */
  close() { this.#core.close(); }
}

// Node 18 has no Symbol.dispose.
if (Symbol.dispose) {
  Timers.prototype[Symbol.dispose] = Timers.prototype.close;
  Timeout.prototype[Symbol.dispose] = Timeout.prototype.cancel;
}
