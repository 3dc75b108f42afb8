'use strict';
// Runs jobs that an application takes from hwheel. Copy this file; it needs pg 8.
// As a program: DATABASE_URL=... node take.js QUEUE
const { Client } = require('pg');

// Calls handle(client, job) for each job of the queue that is due. The statements of the
// handler and the end of the job are one transaction. An error rolls it back, and the job is
// tried again. A job has id, key, due, payload and attempt. All that are taken together have
// to end within their leases.
async function work(url, queue, handle, atMost = 10) {
  const take = new Client({ connectionString: url });
  const effect = new Client({ connectionString: url });
  let woken = false;
  let wake = () => {};
  take.on('notification', () => { woken = true; wake(); });
  await Promise.all([take.connect(), effect.connect()]);
  await take.query('SELECT hwheel.listen($1)', [queue]);
  for (;;) {
    woken = false;
    const { rows: jobs } = await take.query('SELECT * FROM hwheel.take($1, $2)', [queue, atMost]);
    for (const job of jobs) await run(effect, job, handle);
    if (jobs.length === 0 && !woken) {
      // Now and then it looks by itself: there may have been no node.
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, 5000);
        wake = () => { clearTimeout(timer); resolve(); };
      });
    }
  }
}

async function run(effect, job, handle) {
  try {
    await effect.query('BEGIN');
    await handle(effect, job);
    await effect.query('SELECT hwheel.done($1, $2)', [job.id, job.lease]);
    await effect.query('COMMIT');
  } catch (error) {
    console.error(`job ${job.key} has failed: ${error.message}`);
    await effect.query('ROLLBACK');
    const fail = 'SELECT hwheel.fail($1, $2, $3)';
    await effect.query(fail, [job.id, job.lease, error.message]).catch((stale) => {
      if (stale.code !== 'HW003') throw stale; // The lease has ended: the job is not ours any more.
    });
  }
}

module.exports = { work };
if (require.main === module) {
  work(process.env.DATABASE_URL, process.argv[2], async (client, job) => {
    if (job.payload === 'fail') throw new Error('it does not work');
    await client.query('INSERT INTO sent (key) VALUES ($1)', [job.key]);
  });
}
