// What `cargo xtask bench stores --peers` runs of a peer: `main.mjs PEER ROLE SETTINGS`, where the settings are
// JSON. Every role says `ready`, waits for a line, does its work, and says what came of it in one line of JSON.
//
//   produce   adds jobs one by one, `callers` at a time, as fast as they are taken
//   schedule  adds jobs in bulk, each due when `beginsAt` and `everyMillis` say
//   work      posts each job's body to the sink, until its input ends
import { createInterface } from 'node:readline';
import { Pool } from 'undici';

const BULK = 500;
const [peerName, role, text] = process.argv.slice(2);
const settings = JSON.parse(text);
const { open, work } = await import(`./${peerName}.mjs`);

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (line) => process.stdout.write(`${line}\n`);
const quantile = (sorted, share) => sorted[Math.round((sorted.length - 1) * share)];

// 512 bytes, as the service's tasks have them.
const filling = 'abcdefghijklmnopqrstuvwxyz012345'.repeat(16);
const body = `{"type":"order.paid","data":"${filling}`.slice(0, 510) + '"}';
const job = (number) => ({ path: `/${String(number).padStart(10, '0')}`, body });

async function produce(add) {
  const { callers, first, tasks } = settings;
  const [acks, end] = [[], first + tasks];
  let next = first;
  const call = async () => {
    while (next < end) {
      const number = next++;
      const sentAt = performance.now();
      await add(job(number));
      acks.push(performance.now() - sentAt);
    }
  };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: callers }, call));
  const seconds = (performance.now() - startedAt) / 1e3;
  acks.sort((one, other) => one - other);
  return { seconds, ackP50: quantile(acks, 0.5), ackP99: quantile(acks, 0.99) };
}

async function schedule(addMany) {
  const { beginsAt, everyMillis, first, tasks } = settings;
  const startedAt = performance.now();
  for (let at = 0; at < tasks; at += BULK) {
    const length = Math.min(BULK, tasks - at);
    const jobs = Array.from({ length }, (_, index) => ({
      ...job(first + at + index),
      dueAt: beginsAt + (at + index) * everyMillis,
    }));
    await addMany(jobs);
  }
  return { seconds: (performance.now() - startedAt) / 1e3 };
}

if (role === 'work') {
  const sink = new Pool(settings.sink, { connections: settings.posts, pipelining: 1 });
  const post = async ({ path, body }) => {
    const headers = { 'content-type': 'application/json' };
    const answer = await sink.request({ method: 'POST', path, body, headers });
    await answer.body.dump();
    if (answer.statusCode !== 200) throw new Error(`the sink answered ${answer.statusCode}`);
  };
  const close = await work(settings, post);
  say('ready');
  while (!(await lines.next()).done);
  await close();
  await sink.close();
} else {
  const { add, addMany, close } = await open(settings);
  say('ready');
  await lines.next();
  const came = role === 'produce' ? await produce(add) : await schedule(addMany);
  say(JSON.stringify(came));
  await close();
}
process.exit(0);
