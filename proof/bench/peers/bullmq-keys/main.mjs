// One worker for each key, as services on Node make it: BullMQ hands a key's job to a process, and the job runs under a lock that
// renews itself, until the input of its process ends or the lock is lost. The first word names the lock: redlock, or own, which is
// the lock that BullMQ has on each active job.
//
//   LOCK throughput JOBS, LOCK latency JOBS    adds jobs and works on them
//   LOCK work LOG PAUSE_MS                     works; each job writes to the log while it runs
//   LOCK dispatch JOBS                         adds jobs
import { openSync, writeSync } from "node:fs";
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import Redlock from "redlock";

// As long as the lease of tenure-pool. The pause between two tries to get a lock, and all else, are the defaults of redlock.
const LOCK_MS = 10_000;
// No process is full: any of them can take all keys.
const SLOTS = 100_000;

const [lock, what, ...words] = process.argv.slice(2);
const url = new URL(process.env.REDIS_URL);
const connection = { host: url.hostname, port: Number(url.port), maxRetriesPerRequest: null };
const payload = "x".repeat(100);

// A job that does not get its lock is tried again, a second later.
const again = { attempts: 1_000, backoff: { type: "fixed", delay: 1000 } };
const queue = () => new Queue("keys", { connection, defaultJobOptions: { removeOnComplete: true, ...again } });
// The id of a job is its key, so a key has one job.
const add = async (to, jobs) => {
  for (let from = 0; from < jobs; from += 1000) {
    const numbers = Array.from({ length: Math.min(1000, jobs - from) }, (_, n) => from + n);
    await to.addBulk(numbers.map((n) => ({ name: "job", data: { payload }, opts: { jobId: `k${n}` } })));
  }
};

const inputEnds = new Promise((resolve) => process.stdin.on("end", resolve).resume());

const lost = () => new Error("the lock is lost");

// Each lock makes a function that BullMQ calls with a job: it calls `run` under the lock of the job's key. A signal tells that the
// lock is lost.
const locks = {
  redlock: (run) => {
    const redlock = new Redlock([new Redis(process.env.REDIS_URL)]);
    return (job) => redlock.using([`lock:${job.id}`], LOCK_MS, (signal) => run(job.id, signal));
  },
  // BullMQ makes a signal for a function with three arguments.
  own: (run) => (job, _, signal) => run(job.id, signal),
};

const works = async (run) => {
  const worker = new Worker("keys", locks[lock](run), { connection, concurrency: SLOTS });
  worker.on("error", (error) => console.error(error.message));
  worker.on("lockRenewalFailed", (ids) => ids.forEach((id) => worker.cancelJob(id)));
  await worker.waitUntilReady();
  return worker;
};

// Adds jobs to a worker in this process, whose jobs only run.
const measure = async (measured) => {
  let begun = 0;
  let ended = 0;
  let wake = () => {};
  const until = async (count) => {
    while (begun < count) await new Promise((resolve) => (wake = resolve));
  };
  const worker = await works(async (_, signal) => {
    begun += 1;
    wake();
    await Promise.race([inputEnds, new Promise((resolve) => signal.addEventListener("abort", resolve))]);
    if (!signal.aborted) return;
    ended += 1;
    throw lost();
  });
  const to = queue();
  await to.waitUntilReady();
  console.log(JSON.stringify(await measured(to, until)));
  await inputEnds;
  console.log(JSON.stringify({ ended }));
  await worker.close();
};

const throughput = (jobs) =>
  measure(async (to, until) => {
    const began = performance.now();
    await Promise.all([add(to, jobs), until(jobs)]);
    return { jobs, seconds: (performance.now() - began) / 1000 };
  });

const latency = (jobs) =>
  measure(async (to, until) => {
    const times = [];
    for (let n = 0; n < jobs; n += 1) {
      const began = performance.now();
      await to.add("job", { payload }, { jobId: `k${n}` });
      await until(n + 1);
      times.push(performance.now() - began);
    }
    times.sort((a, b) => a - b);
    const at = (part) => times[Math.min(Math.floor(part * times.length), times.length - 1)];
    return { jobs, p50_ms: at(0.5), p99_ms: at(0.99) };
  });

// A worker's process. Each of its jobs does a piece of work after each pause, unless its signal says that the lock is lost. A line
// of the log has µs since the machine was started, what, key; a lock has no token.
const work = async (path, pause) => {
  const log = openSync(path, "w");
  const line = (what, key) => writeSync(log, `${process.hrtime.bigint() / 1000n} ${what} ${key} -\n`);
  await works(
    (key, signal) =>
      new Promise((resolve, reject) => {
        line("begin", key);
        const end = () => {
          clearInterval(pieces);
          line("end", key);
          reject(lost());
        };
        const pieces = setInterval(() => signal.aborted || line("work", key), pause);
        signal.addEventListener("abort", end);
      }),
  );
  console.log(JSON.stringify({ ready: true }));
  await inputEnds;
};

const dispatch = async (jobs) => {
  await add(queue(), jobs);
  console.log(JSON.stringify({ jobs }));
};

const programs = {
  throughput: ([jobs]) => throughput(Number(jobs)),
  latency: ([jobs]) => latency(Number(jobs)),
  work: ([path, pause]) => work(path, Number(pause)),
  dispatch: ([jobs]) => dispatch(Number(jobs)),
};
await programs[what](words);
process.exit(0);
