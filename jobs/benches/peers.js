'use strict';
// Runs jobs that do nothing with graphile-worker, pg-boss, or hwheel's take(), and prints how
// late they were and how long they took, as JSON. Each has up to ten connections.
// usage: node peers.js graphile|boss|take URL JOBS SECONDS
// The jobs are due evenly over the seconds, or all at once if that is 0.
const { Client } = require('pg');

const [system, url, jobs, seconds] = process.argv.slice(2).map((a, i) => (i < 2 ? a : Number(a)));
const clock = () => performance.timeOrigin + performance.now();
const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
const late = [];
const handle = (due) => { late.push(clock() - due); };

// Each: prepare, insert jobs with these due times, start, and the number that is left.
const systems = {
  async graphile(client) {
    const { run, runMigrations } = require('graphile-worker');
    const { Logger } = require('@graphile/logger');
    const options = { connectionString: url, logger: new Logger(() => () => {}) };
    await runMigrations(options);
    return {
      insert: (dues) => client.query(
        `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(SELECT ROW('note', json_build_object('due', d),
          NULL, to_timestamp(d / 1000), NULL, NULL, NULL, NULL)::graphile_worker.job_spec
          FROM unnest($1::float8[]) d))`, [dues]),
      start: () => run({
        ...options,
        // As its page on performance advises.
        preset: { worker: { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0, concurrentJobs: 24, maxPoolSize: 10, pollInterval: 100 } },
        noHandleSignals: true,
        taskList: { note: (payload) => handle(payload.due) },
      }),
      left: 'SELECT count(*) FROM graphile_worker._private_jobs',
    };
  },
  async boss() {
    const { PgBoss } = require('pg-boss');
    const boss = new PgBoss({ connectionString: url, max: 10 });
    boss.on('error', console.error);
    await boss.start();
    await boss.createQueue('note');
    return {
      insert: (dues) => boss.insert('note', dues.map((due) => ({ data: { due }, startAfter: new Date(due) }))),
      // The shortest interval that it admits.
      start: () => boss.work('note', { batchSize: 500, pollingIntervalSeconds: 0.5, localConcurrency: 4 },
        async (batch) => batch.forEach((job) => handle(job.data.due))),
      left: "SELECT count(*) FROM pgboss.job WHERE name = 'note' AND state < 'completed'",
    };
  },
  async take(client) {
    let number = 0;
    return {
      insert: (dues) => client.query(
        `SELECT hwheel.schedule_many(array_agg('k' || n + $2::int), array_agg(to_timestamp(d / 1000)), array_agg(to_jsonb(d)), queue => 'note')
          FROM unnest($1::float8[]) WITH ORDINALITY AS x (d, n)`, [dues, (number += 100000)]),
      start: () => { for (let i = 0; i < 4; i += 1) take(); },
      left: 'SELECT count(*) FROM hwheel.job',
    };
  },
};

async function take() {
  const client = new Client({ connectionString: url });
  let woken = false;
  let wake = () => {};
  client.on('notification', () => { woken = true; wake(); });
  await client.connect();
  await client.query("SELECT hwheel.listen('note')");
  for (;;) {
    woken = false;
    const { rows } = await client.query({ name: 'take', text: "SELECT id, lease, payload FROM hwheel.take('note', 500)" });
    for (const row of rows) handle(Number(row.payload));
    if (rows.length > 0) {
      await client.query({ name: 'done', text: 'SELECT count(*) FROM hwheel.done_many($1, $2)', values: [rows.map((r) => r.id), rows.map((r) => r.lease)] });
    } else if (!woken) {
      await new Promise((resolve) => { const timer = setTimeout(resolve, 5000); wake = () => { clearTimeout(timer); resolve(); }; });
    }
  }
}

(async () => {
  const client = new Client({ connectionString: url });
  await client.connect();
  const { insert, start, left } = await systems[system](client);
  const commits = async () => {
    await sleep(11000); // The server counts the calls of a session up to ten seconds later.
    return Number((await client.query('SELECT xact_commit + xact_rollback AS n FROM pg_stat_database WHERE datname = current_database()')).rows[0].n);
  };
  const first = clock() + (seconds > 0 ? 30000 : -1000);
  for (let from = 0; from < jobs; from += 5000) {
    const size = Math.min(5000, jobs - from);
    await insert(Array.from({ length: size }, (_, i) => first + ((from + i) * seconds * 1000) / jobs));
  }
  if (seconds > 0 && clock() > first - 13000) throw new Error('the machine is too slow');
  const before = seconds > 0 ? await commits() : 0;
  const began = clock();
  await start();
  let asked = 0;
  while (late.length < jobs || Number((await client.query(left)).rows[0].count) > 0) {
    await sleep(100);
    asked += 1;
    if (clock() - began > (seconds + 300) * 1000) throw new Error(`only ${late.length} of ${jobs}`);
  }
  const took = clock() - began;
  const queries = seconds > 0 ? (await commits()) - before - asked : 0;
  late.sort((a, b) => a - b);
  const at = (part) => late[Math.min(jobs - 1, Math.floor(part * jobs))];
  console.log(JSON.stringify({ done: late.length, p50: at(0.5), p99: at(0.99), worst: at(1), took, queries }));
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(1); });
