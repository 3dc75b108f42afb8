// Takes jobs, runs their functions, and ends the jobs.
import { inspect } from 'node:util';
import pg from 'pg';

const LOST = 'the lease has ended';
const CANCELLED = 'the job is cancelled';
const TIMEOUT = 'the run took longer than the timeout of the job';
const ENDS = 'the worker ends';

// In milliseconds. A call that takes longer loses its connection.
const PATIENCE = 15000;
// The worker looks for jobs though nobody wakes it: there may have been no node.
const LOOK = 5000;
// After the signal is set, the worker waits for this time at its end.
const LAST = 5000;
// When a job is ended again that somebody has locked, or whose end the database refuses.
const AGAIN = 1000;

const SESSION = `SET search_path = pg_catalog, pg_temp; SET lock_timeout = '100 ms';
  SET statement_timeout = '10 s'; SET idle_session_timeout = 0; SET client_encoding = utf8;
  SET default_transaction_isolation = 'read committed'`;
const TAKE = `SELECT payload, timeout, id, lease, key,
  extract(epoch FROM due) * 1000, attempt, traceparent
  FROM hwheel._take_for_worker($1, $2, make_interval(secs => $3))`;
export const EXTEND = `SELECT id, outcome
  FROM hwheel.extend_many($1::bigint[], $2::bigint[], make_interval(secs => $3))`;
const DONE = 'SELECT id FROM hwheel.done_many($1::bigint[], $2::bigint[]) id';
const SNOOZE = 'SELECT hwheel.snooze($1, $2, make_interval(secs => $3))';
const FAIL = 'SELECT hwheel.fail($1, $2, $3, make_interval(secs => $4), $5)';
const PROCESS = 'SELECT pg_catalog.pg_backend_pid()';
const STALE = 'HW003';
const LOCKED = '55P03';
// A program may have changed the parsers of pg for all.
const types = { getTypeParser: () => (text) => text };

// Whether the database works, and refuses what the call wants for one of its jobs.
const isRefusal = ({ code, severity }) => severity && !/^(08|25|28|3D|53|57|58|XX)/.test(code);
const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
const end = (client) => client?.end().catch(() => {});

function seconds(value) {
  if (typeof value !== 'number' || !(value >= 0 && value <= 31536000)) {
    throw new RangeError(`${inspect(value)} is no number of seconds from 0 to a year`);
  }
  return value;
}

export class Snooze extends Error {
  name = 'Snooze';

  constructor(after) {
    super('run the job again later');
    this.seconds = seconds(after);
  }
}

export class Fail extends Error {
  name = 'Fail';

  constructor(message, { retryAfter = null, final = false, ...options } = {}) {
    super(message, options);
    this.retryAfter = retryAfter === null ? null : seconds(retryAfter);
    this.final = Boolean(final);
  }
}

export class Stopped extends Error {
  name = 'Stopped';
}

// What the database can store of whatever was thrown.
function textOf(thrown) {
  let text;
  try {
    if (thrown instanceof Fail) text = thrown.message;
    else text = thrown instanceof Error ? String(thrown) : inspect(thrown, { depth: 1 });
  } catch {
    text = 'an error without a text';
  }
  return String(text).slice(0, 10000).replaceAll('\0', '\\0');
}

const toAscii = (text) => text.replace(/[^ -~\t\n]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

// One attempt: the job that its function gets, and what the worker knows of it.
class Run {
  controller = new AbortController();
  report = null; // The call that ends the job, when its function is over.
  again = 0; // When that is made, if it was not possible before.
  hasCommitted = false;
  outcome = '';
  value = undefined;
  error = undefined;

  constructor(worker, queue, row, leaseEnd, began) {
    const [, timeout, id, lease, key, due, attempt, traceparent] = row;
    this.queue = queue;
    this.deadline = began + timeout * 1000;
    this.job = {
      id, lease, key, queue: queue.name, due: new Date(Number(due)), attempt: Number(attempt),
      traceparent, payload: null, signal: this.controller.signal,
      transaction: (use) => worker.transaction(this, use),
    };
    this.leaseUntil(leaseEnd);
  }

  get why() { return this.controller.signal.reason?.message; }

  leaseUntil(time) {
    clearTimeout(this.timer);
    const why = time < this.deadline ? LOST : TIMEOUT;
    const left = Math.min(time, this.deadline) - performance.now();
    this.timer = setTimeout(() => this.stop(why), Math.max(0, left));
  }

  stop(why) {
    if (!this.report && !this.hasCommitted) this.controller.abort(new Stopped(why));
  }
}

// Whether connections take turns in sessions. They may do so in any order, so one of them keeps its session
// for a while.
async function isShared(here, there) {
  const process = async (client) => (await client.query({ text: PROCESS, types, rowMode: 'array' })).rows[0][0];
  const mine = await process(here);
  const other = await process(there);
  let isOther = mine === other;
  for (let n = 0; n < 3 && !isOther; n += 1) {
    await here.query('BEGIN');
    isOther = await process(here) !== mine || await process(there) !== other;
    await here.query('COMMIT');
    isOther ||= await process(here) !== mine;
  }
  return isOther;
}

// The state of a worker from the beginning of run(), serve() or drain() to its end.
export class Session {
  runs = new Map(); // by the numbers of jobs
  unreported = [];
  kept = [];
  clients = new Set();
  control = null;
  isWoken = true;
  isQuiet = false;
  isStopped = false;
  isClosed = false;
  nextLook = 0;
  nextBeat = 0;
  resume = () => {};

  constructor({ config, lease, grace, log, queues }) {
    Object.assign(this, { config, lease, grace, log });
    this.queues = queues.map((queue) => ({ ...queue, running: 0, hasMore: true }));
  }

  wake() {
    this.isWoken = true;
    this.resume();
  }

  async connect(statement) {
    const client = new pg.Client({
      connectionTimeoutMillis: 10000, keepAlive: true, fallback_application_name: 'hwheel-worker', ...this.config,
    });
    client.on('error', () => {}); // The next call on it fails.
    client.once('end', () => this.clients.delete(client));
    this.clients.add(client);
    try {
      await client.connect();
      await client.query(statement);
    } catch (error) {
      this.clients.delete(client);
      end(client);
      throw error;
    }
    return client;
  }

  // Makes the connection for calls. A pooler in transaction mode lets clients take turns in its sessions, and a
  // setting of a worker would stay there for the next client. Two connections show this: without a pooler the
  // server has a process for each, which stays the same. The second one is not worth an error: it may be one
  // too many.
  async begin() {
    const made = await Promise.allSettled([this.connect(PROCESS), this.connect(PROCESS)]);
    const both = made.filter(({ status }) => status === 'fulfilled').map(({ value }) => value);
    if (both.length === 0) throw made[0].reason;
    const [here, there] = both;
    const timer = setTimeout(() => both.forEach(end), PATIENCE);
    try {
      if (there && await isShared(here, there)) {
        throw new Error('a pooler in transaction mode is before the database: a worker needs session mode, or none');
      }
      await here.query(SESSION);
      this.control = here;
    } finally {
      clearTimeout(timer);
      end(there);
    }
  }

  async call(text, ...values) {
    if (!this.clients.has(this.control)) this.control = await this.connect(SESSION);
    const client = this.control;
    const timer = setTimeout(end, PATIENCE, client);
    try {
      return (await client.query({ text, values, types, rowMode: 'array' })).rows;
    } catch (error) {
      if (error.code !== STALE && error.code !== LOCKED) {
        this.clients.delete(client); // Another server may be the right one.
        end(client);
      }
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  async repeat(work, isOver) {
    let delay = 100;
    while (!isOver()) {
      const began = performance.now();
      try {
        await work();
        delay = 100;
      } catch (error) {
        if (this.isClosed) return;
        this.log(`hwheel: ${textOf(error)}`);
        delay = performance.now() - began > LOOK ? 100 : Math.min(delay * 2, LOOK);
        await sleep(delay * (0.5 + Math.random()));
        this.wake();
      }
    }
  }

  async listen() {
    const client = await this.connect(SESSION);
    const ended = new Promise((resolve) => { client.once('end', resolve); });
    client.on('notification', ({ channel, payload }) => {
      const [word, id] = payload.split(' ');
      const queue = this.queues.find(({ name }) => channel === `hwheel:${name}`);
      if (word === 'cancel' ? !this.runs.has(id) : !queue) return;
      if (word === 'cancel') this.nextBeat = 0;
      else queue.hasMore = true;
      this.wake();
    });
    for (const { name } of this.queues) await client.query('SELECT hwheel.listen($1)', [name]);
    this.nextLook = 0;
    this.nextBeat = 0;
    this.wake();
    await ended;
    throw new Error('the connection that listens is lost');
  }

  // Waits for something to do, and does it.
  async turn(takes = true) {
    if (!this.isWoken) {
      await new Promise((resolve) => {
        const time = Math.max(0, Math.min(this.nextLook, this.nextBeat) - performance.now());
        const timer = setTimeout(resolve, time);
        this.resume = () => { clearTimeout(timer); resolve(); };
      });
    }
    this.isWoken = false;
    let isIdle = this.unreported.every((run) => run.again > performance.now());
    // First, so that no report delays it.
    if (performance.now() >= this.nextBeat) await this.beat();
    await this.report();
    if (performance.now() >= this.nextLook) {
      this.nextLook = performance.now() + LOOK;
      for (const queue of this.queues) queue.hasMore = true;
    }
    for (const queue of takes ? this.queues : []) {
      const runs = await this.take(queue, queue.concurrency - queue.running);
      isIdle &&= runs.length === 0;
    }
    if (isIdle) await sleep(10); // Anybody may send notifications.
  }

  async take(queue, room) {
    if (!queue.hasMore || room < 1 || this.isQuiet) return [];
    const began = performance.now();
    queue.hasMore = false;
    let rows = null;
    try {
      rows = await this.call(TAKE, queue.name, room, this.lease);
    } finally {
      queue.hasMore ||= !rows || rows.length >= room;
    }
    return rows.map((row) => {
      const run = new Run(this, queue, row, began + this.lease * 1000, began);
      this.runs.get(run.job.id)?.stop(LOST);
      this.runs.set(run.job.id, run);
      queue.running += 1;
      this.start(run, row[0]);
      if (this.ends) run.stop(ENDS);
      return run;
    });
  }

  async start(run, payload) {
    try {
      run.job.payload = JSON.parse(payload);
      run.value = await run.queue.run(run.job);
      run.report = [DONE, [run.job.id], [run.job.lease]];
    } catch (error) {
      run.error = error;
      const { job, queue, why } = run;
      if (run.hasCommitted) run.report = [DONE, [job.id], [job.lease]];
      else if (error instanceof Snooze) run.report = [SNOOZE, job.id, job.lease, error.seconds];
      else if (why === ENDS) run.report = [SNOOZE, job.id, job.lease, 0];
      else {
        let text = textOf(error);
        if (why) text = error instanceof Stopped ? why : `${why}: ${text}`;
        const { retryAfter, final } = error instanceof Fail ? error : { retryAfter: null, final: false };
        run.report = [FAIL, job.id, job.lease, text, retryAfter, final];
      }
      if (run.hasCommitted || run.report[0] === FAIL) {
        this.log(`hwheel: ${queue.name}: attempt ${job.attempt} at ${job.key} failed: ${textOf(error)}`);
      }
    }
    clearTimeout(run.timer);
    this.unreported.push(run);
    this.wake();
  }

  async transaction(run, use) {
    let client;
    while (!client && this.kept.length > 0) {
      client = this.kept.pop(); // It may be lost meanwhile.
      await client.query('BEGIN').catch(() => { end(client); client = null; });
    }
    client ??= await this.connect('BEGIN');
    try {
      const value = await use(client);
      await client.query('SELECT hwheel.done($1, $2)', [run.job.id, run.job.lease]);
      await client.query('COMMIT');
      run.hasCommitted = true;
      this.kept.push(client);
      return value;
    } catch (error) {
      await client.query('ROLLBACK').then(() => this.kept.push(client), () => end(client));
      throw error;
    }
  }

  // Ends the jobs whose functions are over. One that somebody has locked, or whose end the database
  // refuses, has to wait.
  async report() {
    const batch = this.unreported.filter((run) => run.again <= performance.now());
    const done = batch.filter((run) => run.report[0] === DONE && !run.hasCommitted);
    if (done.length > 1) {
      const jobs = done.map(({ job }) => job);
      try {
        const rows = await this.call(DONE, jobs.map(({ id }) => id), jobs.map(({ lease }) => lease));
        const ended = new Set(rows.flat());
        for (const run of done) this.free(run, ended.has(run.job.id) ? 'done' : 'lost');
      } catch (error) {
        if (!isRefusal(error)) throw error; // One by one.
      }
    }
    for (const run of batch) if (!run.outcome) await this.reportOne(run);
  }

  async reportOne(run) {
    try {
      const rows = run.hasCommitted || await this.call(...run.report);
      if (run.report[0] !== DONE) this.free(run, rows[0][0]);
      else this.free(run, run.hasCommitted || rows.length > 0 ? 'done' : 'lost');
    } catch (error) {
      const isAscii = run.report[0] !== FAIL || run.report[3] === toAscii(run.report[3]);
      if (error.code === STALE) this.free(run, 'lost');
      else if (error.code?.startsWith('22') && !isAscii) {
        run.report[3] = toAscii(run.report[3]); // The database lacks a character.
        this.wake();
      } else if (isRefusal(error)) {
        if (error.code !== LOCKED) this.log(`hwheel: the end of ${run.job.key} is refused: ${textOf(error)}`);
        run.again = performance.now() + AGAIN;
        setTimeout(() => this.wake(), AGAIN + 1).unref();
      } else throw error;
    }
  }

  free(run, outcome) {
    // A function may have ended its job itself, by hwheel.done().
    if (outcome === 'lost' && (run.why || run.report[0] !== DONE)) this.log(`hwheel: ${run.queue.name}: ${run.job.key} has ended without this run`);
    run.outcome = outcome;
    this.unreported.splice(this.unreported.indexOf(run), 1);
    if (this.runs.get(run.job.id) === run) this.runs.delete(run.job.id);
    run.queue.running -= 1;
  }

  // Extends the leases, and finds out which have ended.
  async beat() {
    const began = performance.now();
    const runs = [...this.runs.values()].filter((run) => !run.report && !run.hasCommitted && !run.why);
    const rows = runs.length === 0 ? []
      : await this.call(EXTEND, runs.map(({ job }) => job.id), runs.map(({ job }) => job.lease), this.lease);
    this.nextBeat = began + (this.lease * 1000) / 3;
    const outcomes = new Map(rows);
    for (const run of runs) {
      const outcome = outcomes.get(run.job.id) ?? 'gone';
      if (outcome === 'gone' || outcome === 'cancelled') run.stop(outcome === 'gone' ? LOST : CANCELLED);
      else if (!run.report && !run.why) run.leaseUntil(began + this.lease * 1000);
    }
  }

  stop() {
    if (this.isStopped) return;
    this.isQuiet = true;
    this.isStopped = true;
    this.timers = [
      setTimeout(() => this.stopAll(), this.grace * 1000),
      setTimeout(() => this.giveUp(), this.grace * 1000 + LAST),
    ];
    this.wake();
  }

  stopAll() {
    this.ends = true; // Also for the jobs of a take that is under way.
    for (const run of this.runs.values()) run.stop(ENDS);
  }

  giveUp() {
    this.left = [...this.runs.values()].map(({ job }) => job.key);
    this.log(`hwheel: these jobs do not end: ${this.left.join(', ')}`);
    this.runs.clear();
    this.wake();
  }

  close() {
    this.isClosed = true;
    this.stopAll();
    for (const run of this.runs.values()) clearTimeout(run.timer);
    this.timers?.forEach(clearTimeout);
    for (const client of this.clients) {
      end(client);
      client.unref(); // Its server may not answer.
    }
  }
}
