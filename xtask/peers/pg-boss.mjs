// pg-boss, with results of a batch one by one.
import { PgBoss } from 'pg-boss';

const QUEUE = 'bench';

async function start({ url, pool, notify }) {
  const boss = new PgBoss({ connectionString: url, max: pool, useListenNotify: notify });
  boss.on('error', (error) => console.error(error));
  await boss.start();
  await boss.createQueue(QUEUE, { notify });
  return boss;
}

export async function open(settings) {
  const boss = await start(settings);
  return {
    add: (job) => boss.send(QUEUE, job),
    addMany: (jobs) => boss.insert(QUEUE, jobs.map(({ dueAt, ...data }) => ({ data, startAfter: new Date(dueAt) }))),
    close: () => boss.stop(),
  };
}

export async function work(settings, post) {
  const boss = await start(settings);
  const options = {
    batchSize: settings.batch,
    localConcurrency: settings.workers,
    perJobResults: true,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
    notifyPollingIntervalSeconds: 0.5,
  };
  const deliver = async (job) => {
    try {
      await post(job.data);
      return { id: job.id, status: 'completed' };
    } catch (error) {
      return { id: job.id, status: 'failed', output: { message: error.message } };
    }
  };
  await boss.work(QUEUE, options, (jobs) => Promise.all(jobs.map(deliver)));
  return () => boss.stop();
}
