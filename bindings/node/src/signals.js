// A signal lives as long as somebody may see its abort: whoever holds it, its listeners, and
// what AbortSignal.any() has made of it. Node's signals refer to what was made of them only
// weakly, and to nothing that tells of it. So Node is asked once which property of a signal
// AbortSignal.any() looks at, and that property of these signals has a getter.
//
// Where no property tells, or not enough, a signal stays until its time:
//   "each"    any() leaves what it makes in the property: a signal is collected with the last
//   "mark"    the property only shows that any() was called: it then stays until its time,
//             as a signal of AbortSignal.timeout() does
//   "none"    nothing shows: each signal stays, and a warning says so
import { getEventListeners } from "node:events";

/** The property and what it tells. */
function look() {
  const source = new AbortController().signal, made = AbortSignal.any([source]);
  made.addEventListener("abort", () => {});
  const names = new Set([source, made, AbortSignal.timeout(1)].flatMap(Object.getOwnPropertySymbols));
  const { signal } = new AbortController();
  const own = new Set(Object.getOwnPropertySymbols(signal));
  const seen = new Set(), values = new Map();
  Object.setPrototypeOf(signal, Object.create(AbortSignal.prototype, Object.fromEntries(
    [...names].filter((name) => !own.has(name)).map((name) => [name, {
      get() {
        seen.add(name);
        return values.get(name);
      },
      set(value) { values.set(name, value); },
    }]))));
  void [signal.aborted, signal.reason, signal.onabort];
  const always = new Set(seen);
  seen.clear();
  const one = AbortSignal.any([signal]);
  const marks = [...seen].filter((name) => !always.has(name));
  const each = marks.find((name) => values.get(name)?.[Symbol.iterator] &&
    [...values.get(name)].some((reference) => reference.deref?.() === one));
  if (each) return { name: each, tells: "each" };
  return marks.length > 0 ? { name: marks[0], tells: "mark" } : { name: null, tells: "none" };
}

let found = null, prototype;
const states = new WeakMap(); // of each signal

// When what any() has made is gone.
const gone = new FinalizationRegistry((reference) => update(reference.deref()));

/** Holds a signal while somebody may see its abort, and not longer. */
function update(signal) {
  if (signal === undefined) return;
  const state = states.get(signal);
  const made = [...state.made ?? []].map((reference) => reference.deref()).filter(Boolean);
  for (const one of made.filter((other) => !state.watched.has(other))) {
    state.watched.add(one);
    gone.register(one, state.reference);
  }
  // Node leaves an empty listener where `onabort` was.
  const empty = state.handled && signal.onabort === null ? 1 : 0;
  const held = found.tells === "none" || state.marked || made.length > 0 ||
    getEventListeners(signal, "abort").length > empty;
  state.hold.signal = held && !signal.aborted ? signal : null;
}

function prepare() {
  found = look();
  if (found.tells === "none") process.emitWarning(
    `AbortSignal.any() of Node ${process.versions.node} tells nobody of what it makes: each ` +
    "signal of Timers.signal() stays until its time", "HwheelWarning");
  const { addEventListener, removeEventListener } = AbortSignal.prototype;
  const { get, set } = Object.getOwnPropertyDescriptor(AbortSignal.prototype, "onabort");
  // Node's own modules, too, add listeners by these.
  const changing = (call) => function (...args) {
    const state = states.get(this), { adds } = state;
    state.adds = true;
    try {
      return call.apply(this, args);
    } finally {
      state.adds = adds;
      update(this);
    }
  };
  const members = {
    addEventListener: { value: changing(addEventListener), writable: true, configurable: true },
    removeEventListener: { value: changing(removeEventListener), writable: true, configurable: true },
    onabort: {
      get,
      set: changing(function handle(value) {
        set.call(this, value);
        if (this.onabort !== null) states.get(this).handled = true;
      }),
      configurable: true,
    },
  };
  if (found.name !== null) members[found.name] = {
    get() {
      const state = states.get(this);
      if (!state.adds) {
        // What is made is in the set when any() has returned.
        state.hold.signal = this;
        if (found.tells === "mark") state.marked = true;
        else queueMicrotask(() => update(this));
      }
      return state.made;
    },
    set(value) { states.get(this).made = value; },
    configurable: true,
  };
  prototype = Object.create(AbortSignal.prototype, members);
}

/**
 * A signal of a timeout that `arm(call)` makes. The timeout calls `call`, which aborts. It is
 * cancelled when nobody can see the abort any more.
 */
export function timeoutSignal(arm) {
  if (found === null) prepare();
  const controller = new AbortController(), { signal } = controller;
  const reference = new WeakRef(signal), hold = { signal: null };
  const timeout = arm(() => {
    const aborting = reference.deref();
    hold.signal = null;
    if (aborting !== undefined) states.get(aborting).controller.abort(timedOut());
  });
  Object.setPrototypeOf(signal, prototype);
  states.set(signal, { controller, reference, hold, timeout,
    made: undefined, watched: new WeakSet(), marked: false, handled: false, adds: false });
  forgotten.register(signal, new WeakRef(timeout));
  if (found.tells === "none") hold.signal = signal;
  return signal;
}

// What is pending is held by its Timers.
const forgotten = new FinalizationRegistry((timeout) => timeout.deref()?.cancel());

/** The timeout of a signal. */
export function timeoutOf(signal) { return states.get(signal)?.timeout; }

/** The reason of a signal whose time has come. */
export const timedOut = () =>
  new DOMException("The operation was aborted due to timeout", "TimeoutError");
