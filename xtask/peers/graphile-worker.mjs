// Graphile Worker, with the local queue and the joined completions that its page on performance describes.
import { Logger, makeWorkerUtils, run } from 'graphile-worker';

const TASK = 'deliver';
const logger = new Logger(() => (level, message) => {
  if (level === 'error' || level === 'warning') console.error(message);
});

export async function open({ url, pool }) {
  const preset = { worker: { connectionString: url, maxPoolSize: pool, logger } };
  const utils = await makeWorkerUtils({ preset });
  await utils.migrate();
  return {
    add: (job) => utils.addJob(TASK, job),
    addMany: (jobs) =>
      utils.addJobs(jobs.map(({ dueAt, ...payload }) => ({ identifier: TASK, payload, runAt: new Date(dueAt) }))),
    close: () => utils.release(),
  };
}

export async function work(settings, post) {
  const runner = await run({
    preset: {
      worker: {
        connectionString: settings.url,
        maxPoolSize: settings.pool,
        concurrentJobs: settings.workers,
        pollInterval: 100,
        localQueue: { size: settings.batch, refetchDelay: { durationMs: settings.refetchMillis } },
        completeJobBatchDelay: settings.completeMillis,
        failJobBatchDelay: settings.completeMillis,
        logger,
      },
    },
    taskList: { [TASK]: post },
    noHandleSignals: true,
  });
  return () => runner.stop();
}
