// Runs the jobs of hwheel's queues in functions of this program. index.d.ts says what each
// call means.
import { inspect } from 'node:util';
import { Session, EXTEND } from './session.js';

export { Fail, Snooze, Stopped } from './session.js';

export class Worker {
  #options;
  #queues = [];
  #session = null;

  constructor(config = {}, { lease = 30, grace = 30, log = console.error } = {}) {
    if (!(lease >= 0.1 && lease <= 86400)) throw new RangeError('lease is from 0.1 s to a day');
    if (!(grace >= 0 && grace <= 86400)) throw new RangeError('grace is from 0 s to a day');
    const settings = typeof config === 'string' ? { connectionString: config } : config;
    this.#options = { config: settings, lease, grace, log };
  }

  queue(name, { concurrency = 1 }, run) {
    if (typeof run !== 'function') throw new TypeError(`${inspect(run)} is no function`);
    if (this.#queues.some((queue) => queue.name === name)) throw new Error(`the queue ${name} has a function already`);
    if (!(Number.isInteger(concurrency) && concurrency >= 1 && concurrency <= 10000)) {
      throw new RangeError('concurrency is from 1 to 10000');
    }
    this.#queues.push({ name, concurrency, run });
    return this;
  }

  async #during(use) {
    if (this.#session) throw new Error('the worker runs already');
    const session = new Session({ ...this.#options, queues: this.#queues });
    this.#session = session;
    try {
      return await use(session);
    } finally {
      session.close();
      this.#session = null;
    }
  }

  async run() {
    const stop = () => this.stop();
    for (const name of ['SIGTERM', 'SIGINT']) process.once(name, stop);
    try {
      // What does not end would keep the process.
      if (await this.serve()) process.exit(1);
    } finally {
      for (const name of ['SIGTERM', 'SIGINT']) process.off(name, stop);
    }
  }

  serve() {
    return this.#during(async (session) => {
      if (this.#queues.length === 0) throw new Error('no queue has a function');
      await session.begin();
      await session.call('SELECT hwheel._check_queue(name) FROM unnest($1::text[]) name', this.#queues.map(({ name }) => name));
      await session.call(EXTEND, [], [], session.lease); // A role without the rights ends here.
      session.repeat(() => session.listen(), () => session.isClosed);
      await session.repeat(() => session.turn(), () => session.isStopped && session.runs.size === 0);
      return session.left;
    });
  }

  drain({ limit = 1000 } = {}) {
    return this.#during(async (session) => {
      await session.begin();
      const results = [];
      while (results.length < limit) {
        let run;
        for (const queue of session.queues) {
          queue.hasMore = true;
          [run] = await session.take(queue, 1);
          if (run) break;
        }
        if (!run) break;
        await session.repeat(() => session.turn(false), () => run.outcome);
        const { job: { key, attempt }, outcome, value, error } = run;
        results.push({ key, attempt, outcome, value, error });
      }
      return results;
    });
  }

  quiet() {
    if (this.#session) this.#session.isQuiet = true;
  }

  stop() {
    this.#session?.stop();
  }
}
