// BullMQ: one queue; done jobs are removed, as they are in tenure-jobs.
import { Queue, Worker } from "bullmq";

const [what, jobs, slots] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4] ?? 16)];
const url = new URL(process.env.REDIS_URL);
const connection = { host: url.hostname, port: Number(url.port), maxRetriesPerRequest: null };
const payload = { text: "x".repeat(100) };

let done = 0;
let wake = () => {};
const until = async (count) => {
  while (done < count) await new Promise((resolve) => (wake = resolve));
};
const queue = new Queue("plain", { connection, defaultJobOptions: { removeOnComplete: true } });
const handle = async () => {
  done += 1;
  wake();
};
const worker = new Worker("plain", handle, { connection, concurrency: slots });
await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()]);

if (what === "throughput") {
  const began = performance.now();
  const add = async () => {
    for (let from = 0; from < jobs; from += 1000) {
      const many = Math.min(1000, jobs - from);
      await queue.addBulk(Array.from({ length: many }, () => ({ name: "job", data: payload })));
    }
  };
  await Promise.all([add(), until(jobs)]);
  console.log(JSON.stringify({ jobs, seconds: (performance.now() - began) / 1000 }));
} else {
  const times = [];
  for (let n = 1; n <= jobs; n += 1) {
    const began = performance.now();
    await queue.add("job", payload);
    await until(n);
    times.push(performance.now() - began);
  }
  times.sort((a, b) => a - b);
  const at = (part) => times[Math.min(Math.floor(part * times.length), times.length - 1)];
  console.log(JSON.stringify({ jobs, p50_ms: at(0.5), p99_ms: at(0.99) }));
}
await worker.close();
await queue.close();
process.exit(0);
