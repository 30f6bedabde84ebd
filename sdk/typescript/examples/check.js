// The host that `tenure host --check` plays with: docs/host-protocol.md lists what its jobs have to do.
//
//     tenure host --check -- node sdk/typescript/examples/check.js

import { setTimeout as sleep } from "node:timers/promises";

import { Host, Moved, Park, Refuse, RequestError, Restart } from "../src/index.js";

const host = new Host({ name: "check", version: "1" });

function what(job) {
  try {
    const does = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(job.payload));
    return typeof does === "object" && does !== null ? does : { do: "payload" };
  } catch {
    return { do: "payload" };
  }
}

host.job(
  async (job) => {
    const { do: act, text = "", ms = 0, ...call } = what(job);
    if (act === "refuse") throw new Refuse("", { retryAfterMs: ms });
    if (act === "elsewhere") throw new Refuse("", { elsewhere: true });
    if (act === "start_fail") throw new Error(text);
    if (act === "start_park") throw new Park(text);
    if (act === "slow_start") await job.sleep(ms);
    job.ready();
    if (act === "payload") job.status("payload " + job.payload.toString("base64"));
    if (act === "key") job.status("key " + job.keyBytes.toString("base64"));
    if (act === "facts") job.status(`token ${job.token} attempt ${job.attempt} id ${job.id}`);
    if (act === "state") job.status(job.checkpointIn === undefined ? "none" : `state ${job.checkpointIn}`);
    if (act === "end") return sleep(ms);
    if (act === "fail") throw new Error(text);
    if (act === "park") throw new Park(text);
    if (act === "progress") job.progress();
    if (act === "leave") leave(job, text);
    if (act === "bye") host.bye();
    if (act === "save") await save(job, text);
    if (act === "call") await request(job, call);
    for await (const note of job.notifications()) await take(job, note);
    if (act === "slow_stop") await sleep(ms);
  },
  { ready: false },
);

async function save(job, text) {
  try {
    await job.checkpoint(text);
    job.status("saved");
  } catch (error) {
    failed(job, error);
  }
}

function leave(job, text) {
  try {
    job.leave(text);
  } catch (error) {
    failed(job, error);
  }
}

function failed(job, error) {
  if (!(error instanceof RequestError)) throw error;
  job.status("error " + error.code);
}

async function request(job, { op, key, body }) {
  try {
    let answer = null;
    if (op === "get") answer = (await host.pool.get(key)) ?? null;
    else if (op === "ask") answer = (await host.pool.ask(key, body)).toString();
    else await host.pool.dispatch(key, body, { policy: "on-failure" });
    job.status("ok " + JSON.stringify(answer));
  } catch (error) {
    failed(job, error);
  }
}

async function take(job, note) {
  const text = note.body.toString();
  if (text === "refuse" && note.refusals === 0) return note.refuse(20, "not yet");
  if (text === "slow") await sleep(3000);
  if (text === "lease") job.status(job.lease.leftMs === 0 ? "lease over" : "lease holds");
  job.status("note " + text);
}

host.ask(async (job, body) => {
  const text = body.toString();
  if (text === "no") throw new Refuse("no");
  if (text === "moved") throw new Moved();
  if (text === "slow") await job.sleep(3000);
  return `${job.key}:${text}`;
});

host.update((job, payload) => {
  if (payload.toString().startsWith("restart")) throw new Restart();
  job.status("update " + payload);
});

await host.run();
