// BullMQ: completed jobs are kept by the thousand, as its documentation advises for production.
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';

const QUEUE = 'bench';
const OPTIONS = { removeOnComplete: { count: 1000 } };

const connect = ({ url, autoPipelining }) =>
  new Redis(url, { maxRetriesPerRequest: null, enableAutoPipelining: autoPipelining });

export async function open(settings) {
  const connection = connect(settings);
  const queue = new Queue(QUEUE, { connection });
  await queue.waitUntilReady();
  return {
    add: (job) => queue.add('deliver', job, OPTIONS),
    addMany: (jobs) => {
      const timestamp = Date.now();
      const options = (dueAt) => ({ ...OPTIONS, timestamp, delay: Math.max(0, dueAt - timestamp) });
      return queue.addBulk(jobs.map(({ dueAt, ...data }) => ({ name: 'deliver', data, opts: options(dueAt) })));
    },
    close: async () => {
      await queue.close();
      connection.disconnect();
    },
  };
}

export async function work(settings, post) {
  const connection = connect(settings);
  const worker = new Worker(QUEUE, (job) => post(job.data), { connection, concurrency: settings.workers });
  worker.on('error', (error) => console.error(error));
  await worker.waitUntilReady();
  return async () => {
    await worker.close();
    connection.disconnect();
  };
}
