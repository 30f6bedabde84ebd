// A feed per key: it keeps its place in a checkpoint, and answers how far it is.
//
//     tenure host --pool feeds -- node sdk/typescript/examples/feeds.js
//     tenure dispatch acme gold
//     tenure ask acme where

import { Cancelled, Host, Refuse } from "../src/index.js";

const host = new Host({ name: "feeds", maxJobs: 5000 });
const places = new Map();

host.job(async (job) => {
  let place = Number(job.checkpointIn ?? 0);
  try {
    for (;;) {
      places.set(job.key, place);
      await job.sleep(1000); // throws Cancelled when the job must end
      job.lease.check(); // throws LeaseLost once the lease is over
      place += 1; // write to the world here, with job.token as the fence
      if (place % 10 === 0) await job.checkpoint(String(place));
    }
  } catch (error) {
    if (!(error instanceof Cancelled)) throw error;
  } finally {
    places.delete(job.key);
    job.leave(String(place));
  }
});

host.ask((job, body) => {
  if (body.toString() !== "where") throw new Refuse("ask where");
  return `${job.key} is at ${places.get(job.key)}`;
});

await host.run();
