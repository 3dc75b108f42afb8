// The worker of the tests, in JavaScript. See program.py.
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Fail, Snooze, Worker } from 'hwheel-worker';

const worker = new Worker(process.env.DATABASE_URL, {
  lease: Number(process.env.LEASE ?? 30), grace: Number(process.env.GRACE ?? 30),
});
const say = (what, job, more = '') => fs.writeSync(1, `${what} ${job.key} ${job.attempt} ${more}\n`);

worker.queue(process.argv[2], { concurrency: 10 }, async (job) => {
  if (job.payload === 'fail') throw new Error('it does not work');
  await job.transaction((client) => client.query('INSERT INTO sent (key) VALUES ($1)', [job.key]));
  return 'sent';
});

worker.queue('plain', { concurrency: 5 }, async (job) => {
  if (job.payload === 'quiet') worker.quiet();
  say('begin', job);
  await sleep(20);
});

worker.queue('slow', { concurrency: 5 }, async (job) => {
  say('begin', job);
  await sleep(job.payload * 1000, null, { signal: job.signal }).catch(() => {
    say('stop', job, job.signal.reason.message);
    job.signal.throwIfAborted();
  });
  say('end', job);
});

worker.queue('killed', {}, (job) => job.transaction(async (client) => {
  await client.query('INSERT INTO sent (key) VALUES ($1)', [job.key]);
  if (job.attempt > 1) return;
  await client.query('SELECT pg_terminate_backend(pg_backend_pid())').catch(() => {});
}));

worker.queue('deaf', {}, (job) => {
  say('begin', job);
  setInterval(() => {}, 1000); // It keeps the process.
  return new Promise(() => {});
});

worker.queue('snooze', {}, (job) => {
  say('begin', job);
  if (fs.existsSync(job.payload)) return;
  fs.writeFileSync(job.payload, '');
  throw new Snooze(0.2);
});

const raise = (thrown) => () => { throw thrown; };
const oddEnds = [
  raise(null),
  raise(undefined),
  raise(0),
  raise(Symbol('odd')),
  raise(() => {}),
  raise(Object.create(null)),
  raise({ toString() { throw new Error('no text'); } }),
  raise(new Proxy({}, { get() { throw new Error('no text'); } })),
  raise(Object.assign(new Error(), { toString() { throw new Error('no text'); } })),
  raise(new Error(`\0 \ud800 \u{1f600}${'x'.repeat(20000)}`)),
  raise(Object.assign(new Error('a code'), { code: 'HW003', message: null })),
  () => Promise.reject(),
  () => ({ then() { throw new TypeError('a bad promise'); } }),
  () => { throw new Snooze(-1); },
  () => { throw new Snooze(NaN); },
  () => { throw new Fail('no more', { final: true }); },
  () => { throw new Fail(null, { retryAfter: 'soon' }); },
  () => { const f = () => f(); f(); },
  async () => { await null; throw new AggregateError([new Error('one')]); },
];
worker.queue('odd', { concurrency: 20 }, (job) => oddEnds[job.payload]());

if (process.argv[3] === 'odd') {
  console.log(oddEnds.length);
} else if (process.argv[3] === 'drain') {
  for (const { key, attempt, outcome, value, error } of await worker.drain()) {
    console.log(key, attempt, outcome, value ?? error);
  }
} else {
  await worker.run();
}
