// The SDK beside a Tenure that is played by the test. `tenure host --check` has all rules of the protocol.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs/promises";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { test as unbounded } from "node:test";

import { Fenced, Host, LeaseLost, Moved, Park, Refuse, Restart } from "../src/index.js";
import { Pauses, TIMES } from "../src/attach.js";
import { teller } from "../src/tell.js";
import { LINE_MAX, millis, monotonic, pack, put, take } from "../src/wire.js";

/** A test that hangs fails. */
const test = (name, body) => unbounded(name, { timeout: 60_000 }, body);

/** The other side of a host's connection. */
class Tenure {
  constructor(socket) {
    this.socket = socket;
    this.lines = createInterface({ input: socket })[Symbol.asyncIterator]();
  }

  say(message) {
    this.socket.write(pack(message));
  }

  async hear(op) {
    const message = JSON.parse((await this.lines.next()).value);
    assert.equal(message.op, op, JSON.stringify(message));
    return message;
  }

  lease(lease = 1, left_ms = 60_000) {
    this.say({ op: "lease", lease, left_ms, until_ms: monotonic() + left_ms });
  }

  start({ job = 1, key = "acme", lease = 1, body = "", ...more } = {}) {
    const id = "n.1";
    this.say({ op: "start", job, key, token: 7, lease, id, attempt: 1, within_ms: 30_000, body, ...more });
  }
}

/** Plays with a host that has said hello, and ends with this status. */
async function connected(host, play, status = 0) {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "tenure-"));
  const server = net.createServer().listen(path.join(folder, "socket"));
  try {
    const serving = host.serve(path.join(folder, "socket"));
    const [socket] = await once(server, "connection");
    const tenure = new Tenure(socket);
    tenure.greeting = await tenure.hear("hello");
    tenure.say({ op: "hello", v: 1, pool: "p", node: "n", worker: 0, ttl_ms: 10_000, features: [], tenure: "0" });
    tenure.lease();
    await play(tenure);
    if (status === 0) tenure.say({ op: "bye" });
    assert.equal(await serving, status);
    socket.destroy();
  } finally {
    server.close();
    await fs.rm(folder, { recursive: true });
  }
}

test("bytes come back as they were", () => {
  for (const data of [[], [0xff, 0], [0x61, 0, 0x0a], [0xef, 0xbb, 0xbf, 0x61]]) {
    const bytes = Buffer.from(data);
    assert.deepEqual(take(JSON.parse(pack(put({}, "body", bytes))), "body"), bytes);
  }
  assert.equal(take({}, "body"), undefined);
  assert.throws(() => pack({ text: "x".repeat(LINE_MAX) }), RangeError);
});

test("hello has what the host can do", async () => {
  const host = new Host({ name: "feeds", maxJobs: 5 }).job(async () => {});
  await connected(host, ({ greeting }) => {
    assert.deepEqual(greeting.v, [1]);
    assert.deepEqual([greeting.name, greeting.max_jobs], ["feeds", 5]);
    assert.deepEqual(greeting.features, ["checkpoint", "client"]);
  });
});

test("a job is aborted and then stopped", async () => {
  const seen = [];
  const host = new Host().job(async (job) => {
    seen.push(job.key, job.token, job.payload.toString(), job.checkpointIn.toString());
    await job.cancelled();
    seen.push(job.stopReason, job.isCancelled);
    job.leave(Buffer.from([0xff]));
  });
  await connected(host, async (tenure) => {
    tenure.start({ body: "gold", checkpoint: "41" });
    await tenure.hear("started");
    tenure.say({ op: "stop", job: 1, why: "moved", within_ms: 1000 });
    assert.equal((await tenure.hear("stopped")).checkpoint64, "/w==");
    // It has ended: a second stop is passed over.
    tenure.say({ op: "stop", job: 1, why: "moved", within_ms: 1000 });
    tenure.say({ op: "ping", n: 1 });
    await tenure.hear("pong");
  });
  assert.deepEqual(seen, ["acme", 7, "gold", "41", "moved", true]);
});

test("a state that is too long is refused with its length", async () => {
  const refused = [];
  const host = new Host().job(async (job) => {
    await job.cancelled();
    job.leave("1234");
    // Bytes count, not characters.
    for (const state of ["12345", Buffer.from("12345"), "\u00e4\u00e4\u00e4"]) {
      assert.throws(() => job.leave(state), /pool keeps 4 at most/);
      await job.checkpoint(state).catch((error) => refused.push(error.code));
    }
  });
  await connected(host, async (tenure) => {
    tenure.say({ op: "bounds", checkpoint_max: 4 });
    tenure.start();
    await tenure.hear("started");
    tenure.say({ op: "stop", job: 1, why: "moved", within_ms: 1000 });
    assert.equal((await tenure.hear("stopped")).checkpoint, "1234");
  });
  assert.deepEqual(refused, ["too_long", "too_long", "too_long"]);
});

test("a state that is refused at the end of its job is logged", async (t) => {
  const logged = t.mock.method(console, "error", () => {});
  const host = new Host().job(async (job) => {
    await job.cancelled();
    job.leave("12345");
  });
  await connected(host, async (tenure) => {
    tenure.say({ op: "bounds", checkpoint_max: 4 });
    tenure.start();
    await tenure.hear("started");
    tenure.say({ op: "stop", job: 1, why: "moved", within_ms: 1000 });
    assert.equal((await tenure.hear("stopped")).checkpoint, undefined);
  });
  assert.equal(logged.mock.calls[0].arguments[0].code, "too_long");
});

test("a last state that is not kept is logged", async (t) => {
  const logged = t.mock.method(console, "error", () => {});
  const host = new Host().job(async () => {});
  await connected(host, async (tenure) => {
    tenure.say({ op: "unsaved", job: 1, key: "acme", code: "refused", text: "redis is full" });
    tenure.say({ op: "ping", n: 1 });
    await tenure.hear("pong");
  });
  assert.match(logged.mock.calls[0].arguments[0], /"acme" may not be kept: redis is full/);
});

test("a wait ends with its job", async () => {
  const host = new Host().job((job) => job.sleep(1_000_000));
  await connected(host, async (tenure) => {
    tenure.start();
    await tenure.hear("started");
    tenure.say({ op: "stop", job: 1, why: "stopped", within_ms: 1000 });
    await tenure.hear("stopped");
  });
});

test("errors become last words", async () => {
  const ends = { ends: null, fails: new RangeError("boom"), parks: new Park("shut"), late: new Refuse("no") };
  const host = new Host().job((job) => {
    if (ends[job.key]) throw ends[job.key];
  });
  await connected(host, async (tenure) => {
    const words = [];
    for (const [at, key] of Object.keys(ends).entries()) {
      tenure.start({ job: at + 1, key });
      await tenure.hear("started");
      const { error, park } = await tenure.hear("ended");
      words.push([error, park]);
    }
    const none = undefined;
    assert.deepEqual(words, [[none, none], ["RangeError: boom", none], ["shut", true], ["no", none]]);
  });
});

test("a job that is not ready fails or is refused", async () => {
  const ends = { fails: new Error("boom"), refused: new Refuse("", { retryAfterMs: 500, elsewhere: true }) };
  const host = new Host().job((job) => Promise.reject(ends[job.key]), { ready: false });
  await connected(host, async (tenure) => {
    tenure.start({ job: 1, key: "fails" });
    assert.equal((await tenure.hear("failed")).error, "Error: boom");
    tenure.start({ job: 2, key: "refused" });
    const refused = await tenure.hear("refused");
    assert.deepEqual([refused.retry_ms, refused.elsewhere], [500, true]);
  });
});

test("a lease that ends cancels its jobs", async () => {
  const checks = [];
  const host = new Host().job(async (job) => {
    job.lease.check();
    await job.cancelled();
    assert.throws(() => job.lease.check(), LeaseLost);
    checks.push(job.key);
  });
  await connected(host, async (tenure) => {
    tenure.lease(2, 2000);
    tenure.start({ job: 1, key: "long" });
    tenure.start({ job: 2, key: "short", lease: 2 });
    await tenure.hear("started");
    await tenure.hear("started");
    const { job, lost } = await tenure.hear("ended");
    assert.deepEqual([job, lost, checks], [2, true, ["short"]]);
  });
});

test("a notification is done when the next is asked for", async () => {
  let go;
  const gone = new Promise((resolve) => (go = resolve));
  const host = new Host().job(async (job) => {
    for await (const note of job.notifications()) {
      if (note.body.toString() === "refuse") note.refuse(2000, "busy");
      await gone;
    }
  });
  await connected(host, async (tenure) => {
    tenure.start();
    await tenure.hear("started");
    tenure.say({ op: "notify", job: 1, n: 1, body: "a" });
    tenure.say({ op: "ping", n: 1 });
    await tenure.hear("pong");
    go();
    assert.equal((await tenure.hear("ack")).n, 1);
    tenure.say({ op: "notify", job: 1, n: 2, body: "refuse" });
    assert.equal((await tenure.hear("ack")).retry_ms, 2000);
  });
});

test("asks and updates have their answers", async () => {
  const host = new Host().job((job) => job.cancelled());
  host.ask((job, body) => {
    if (body.toString() === "no") throw new Refuse("never");
    if (body.toString() === "moved") throw new Moved();
    return Buffer.concat([job.payload, body]);
  });
  host.update((job, payload) => {
    if (payload.toString() === "other") throw new Restart();
  });
  await connected(host, async (tenure) => {
    assert.deepEqual(tenure.greeting.features, ["checkpoint", "client", "ask", "update"]);
    tenure.start({ body: "gold" });
    await tenure.hear("started");
    tenure.say({ op: "update", job: 1, n: 1, body: "silver" });
    assert.equal((await tenure.hear("updated")).restart, undefined);
    tenure.say({ op: "ask", job: 1, n: 1, id: "a", asker: "n", within_ms: 1000, body: "?" });
    assert.equal((await tenure.hear("answer")).body, "silver?");
    tenure.say({ op: "ask", job: 1, n: 2, id: "a", asker: "n", within_ms: 1000, body: "no" });
    assert.equal((await tenure.hear("answer")).error, "never");
    tenure.say({ op: "ask", job: 1, n: 3, id: "a", asker: "n", within_ms: 1000, body: "moved" });
    assert.deepEqual(await tenure.hear("answer"), { op: "answer", job: 1, n: 3, moved: true });
    tenure.say({ op: "update", job: 1, n: 2, body: "other" });
    assert.equal((await tenure.hear("updated")).restart, true);
  });
});

test("the last word waits for asks and updates", async () => {
  const ends = [];
  const host = new Host().job((job) => job.cancelled());
  const slow = async (job, body) => {
    await job.cancelled();
    for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    ends.push(body.toString());
    return "";
  };
  host.ask(slow).update(slow);
  await connected(host, async (tenure) => {
    tenure.start();
    await tenure.hear("started");
    tenure.say({ op: "ask", job: 1, n: 1, id: "a", asker: "n", within_ms: 1000, body: "ask" });
    tenure.say({ op: "update", job: 1, n: 1, body: "update" });
    tenure.say({ op: "stop", job: 1, why: "stopped", within_ms: 1000 });
    await tenure.hear("answer");
    await tenure.hear("updated");
    await tenure.hear("stopped");
    assert.deepEqual(ends.sort(), ["ask", "update"]);
  });
});

test("a job that ends by itself ends its asks", async () => {
  let end;
  const host = new Host().job(() => new Promise((resolve) => (end = resolve)));
  host.ask((job) => job.sleep(1_000_000));
  await connected(host, async (tenure) => {
    tenure.start();
    await tenure.hear("started");
    tenure.say({ op: "ask", job: 1, n: 1, id: "a", asker: "n", within_ms: 1000, body: "ask" });
    tenure.say({ op: "ping", n: 1 });
    await tenure.hear("pong");
    end();
    assert.equal((await tenure.hear("ended")).error, undefined);
  });
});

test("a job of a lease that is over does not run", async () => {
  let runs = 0;
  const host = new Host().job(() => (runs += 1));
  await connected(host, async (tenure) => {
    tenure.start({ lease: 9 });
    assert.equal((await tenure.hear("ended")).lost, true);
  });
  assert.equal(runs, 0);
});

test("values that do not fit hurt their caller only", async () => {
  const host = new Host().job(async (job) => {
    job.status(42);
    job.status("lone \ud800");
    assert.throws(() => job.leave(42), TypeError);
    await assert.rejects(job.checkpoint(42), TypeError);
    await host.pool.dispatch("b", "", { withinMs: -1.5, policy: 3 });
  });
  await connected(host, async (tenure) => {
    tenure.start();
    await tenure.hear("started");
    assert.equal((await tenure.hear("status")).text, "42");
    assert.equal((await tenure.hear("status")).text, "lone \ufffd");
    const { rid, within_ms, policy } = await tenure.hear("dispatch");
    assert.deepEqual([within_ms, policy], [0, "3"]);
    tenure.say({ op: "ok", rid });
    assert.equal((await tenure.hear("ended")).error, undefined);
  });
  assert.deepEqual([1.5, -1, NaN, Infinity].map(millis), [2, 0, 0, Number.MAX_SAFE_INTEGER]);
});

test("a promise that fails after its job is passed over", async () => {
  const host = new Host().job(async (job) => {
    await job.cancelled();
    await job.until(Promise.reject(new Error("late"))).catch(() => {});
  });
  await connected(host, async (tenure) => {
    tenure.start();
    await tenure.hear("started");
    tenure.say({ op: "stop", job: 1, why: "stopped", within_ms: 1000 });
    await tenure.hear("stopped");
  });
});

test("requests wait for a place", async () => {
  const host = new Host().job(() => Promise.all(Array.from({ length: 300 }, (_, n) => host.pool.get(`key-${n}`))));
  await connected(host, async (tenure) => {
    tenure.start();
    await tenure.hear("started");
    const rids = [];
    for (let n = 0; n < 256; n += 1) rids.push((await tenure.hear("get")).rid);
    tenure.say({ op: "ping", n: 1 });
    await tenure.hear("pong");
    for (let n = 256; n < 300; n += 1) {
      tenure.say({ op: "ok", rid: rids.shift() });
      rids.push((await tenure.hear("get")).rid);
    }
    for (const rid of rids) tenure.say({ op: "ok", rid });
    assert.equal((await tenure.hear("ended")).error, undefined);
  });
});

test("requests and checkpoints have their answers", async () => {
  const results = [];
  const host = new Host().job(async (job) => {
    results.push((await host.pool.get("b")).key);
    for (const call of [() => job.checkpoint("42"), () => host.pool.dispatch("b", "", { withinMs: 1500 })]) {
      await call().catch((error) => results.push(error.code, error instanceof Fenced));
    }
    results.push(await host.pool.ensure("b"), await host.pool.ensure("c"));
  });
  await connected(host, async (tenure) => {
    tenure.start();
    await tenure.hear("started");
    tenure.say({ op: "ok", rid: (await tenure.hear("get")).rid, job: { key: "b" } });
    tenure.say({ op: "error", rid: (await tenure.hear("checkpoint")).rid, code: "fenced", text: "gone" });
    const { rid, within_ms } = await tenure.hear("dispatch");
    assert.equal(within_ms, 1500);
    tenure.say({ op: "error", rid, code: "exists", text: "it is there" });
    tenure.say({ op: "ok", rid: (await tenure.hear("ensure")).rid, started: false });
    tenure.say({ op: "ok", rid: (await tenure.hear("ensure")).rid, started: true });
    await tenure.hear("ended");
  });
  assert.deepEqual(results, ["b", "fenced", true, "exists", false, false, true]);
});

test("a refused host ends with 78, and a lone one with 1", async () => {
  const refused = new Host().job(() => {});
  await connected(refused, (tenure) => tenure.say({ op: "refused", why: "a test", ours: [2], theirs: [1] }), 78);
  const lone = new Host().job((job) => job.cancelled());
  await connected(lone, (tenure) => tenure.socket.destroy(), 1);
});

/** Plays with a host that attaches. `listen` makes the socket, and resolves with a function that waits for the next connection. */
async function attached(host, play, status = 0) {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "tenure-"));
  const place = path.join(folder, "socket");
  const server = net.createServer();
  const come = [];
  let wake = () => {};
  server.on("connection", (socket) => {
    come.push(new Tenure(socket));
    wake();
  });
  const next = async () => {
    while (come.length === 0) await new Promise((resolve) => (wake = resolve));
    const tenure = come.shift();
    await tenure.hear("hello");
    return tenure;
  };
  const welcome = async (ttl_ms = 10_000) => {
    const tenure = await next();
    tenure.say({ op: "hello", v: 1, pool: "p", node: "n", worker: 0, ttl_ms, features: [], tenure: "0" });
    return tenure;
  };
  try {
    const serving = host.attach(place);
    await play({ listen: () => once(server.listen(place), "listening"), next, welcome });
    assert.equal(await serving, status);
    assert.equal(come.length, 0, "it has not attached again");
  } finally {
    server.close();
    await fs.rm(folder, { recursive: true });
  }
}

test("a host that attaches waits for the socket, and attaches again when its jobs have ended", async () => {
  const running = new Set();
  const host = new Host().job(async (job) => {
    running.add(job.key);
    await job.cancelled();
    await new Promise((resolve) => setTimeout(resolve, 300));
    running.delete(job.key);
  });
  await attached(host, async ({ listen, welcome }) => {
    await listen();
    let tenure;
    for (let number = 0; number < 3; number += 1) {
      tenure = await welcome();
      assert.deepEqual([...running], []);
      tenure.lease();
      tenure.start({ key: `key-${number}` });
      await tenure.hear("started");
      if (number === 0) tenure.socket.destroy();
      if (number === 1) tenure.say({ op: "bye" });
    }
    host.bye();
    await tenure.hear("bye");
    tenure.say({ op: "stop", job: 1, why: "draining", within_ms: 1000 });
    await tenure.hear("stopped");
    tenure.say({ op: "bye" });
  });
});

test("a host that attaches comes again when no worker is free, and ends at another version", async () => {
  const host = new Host().job(() => {});
  await attached(
    host,
    async ({ listen, next, welcome }) => {
      await listen();
      for (let number = 0; number < 2; number += 1) (await next()).say({ op: "refused", why: "each worker has a host" });
      const tenure = await welcome();
      tenure.lease();
      tenure.start();
      await tenure.hear("started");
      await tenure.hear("ended");
      tenure.socket.destroy();
      (await next()).say({ op: "refused", why: "another version", ours: [2], theirs: [1] });
    },
    78,
  );
});

test("a host that attaches ends if a job outlives its lease", async () => {
  let free;
  const host = new Host().job(() => new Promise((resolve) => (free = resolve)));
  await attached(
    host,
    async ({ listen, welcome }) => {
      await listen();
      const tenure = await welcome(100);
      tenure.lease(1, 300);
      tenure.start();
      await tenure.hear("started");
      tenure.socket.destroy();
    },
    1,
  );
  free();
});

/** A host whose jobs end when `free` is called, and take no notice of their end. */
function stubborn() {
  let free;
  const freed = new Promise((resolve) => (free = resolve));
  return { host: new Host().job(() => freed), free };
}

/** Does this with other times. */
async function timed(times, body) {
  const before = { ...TIMES };
  Object.assign(TIMES, times);
  try {
    await body();
  } finally {
    Object.assign(TIMES, before);
  }
}

test("a host ends if a job outlives its lease on an open connection", async () => {
  const { host, free } = stubborn();
  const play = async ({ listen, welcome }) => {
    await listen();
    const tenure = await welcome(100);
    tenure.lease(1, 300);
    tenure.start();
    await tenure.hear("started");
  };
  await attached(host, play, 1);
  free();
});

test("a host ends by the earliest lease of its jobs", async () => {
  const { host, free } = stubborn();
  const play = async ({ listen, welcome }) => {
    await listen();
    const tenure = await welcome(100);
    tenure.lease(1, 300);
    tenure.lease(2, 60_000);
    tenure.start({ job: 1 });
    tenure.start({ job: 2, lease: 2 });
    await tenure.hear("started");
    await tenure.hear("started");
    tenure.socket.destroy();
  };
  await attached(host, play, 1);
  free();
});

test("a job ends with its lease though the node reads nothing", async () => {
  let ended;
  const ends = new Promise((resolve) => (ended = resolve));
  const host = new Host().job(async (job) => {
    while (!job.isCancelled) {
      job.status("x".repeat(10_000));
      await new Promise((resolve) => setImmediate(resolve));
    }
    ended(job.stopReason);
  });
  await attached(host, async ({ listen, welcome }) => {
    await listen();
    const tenure = await welcome();
    tenure.socket.pause();
    tenure.lease(1, 200);
    tenure.start();
    assert.equal(await ends, "lease_lost");
    host.bye();
    tenure.say({ op: "bye" });
  });
});

test("a node that reads nothing is left", async () => {
  const host = new Host().job(async (job) => {
    while (!job.isCancelled) {
      job.status("x".repeat(1_000_000));
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
  await attached(host, async ({ listen, welcome }) => {
    await listen();
    let tenure = await welcome();
    tenure.socket.pause();
    tenure.lease();
    tenure.start();
    tenure = await welcome();
    host.bye();
    tenure.say({ op: "bye" });
  });
});

test("a job of the last connection has no checkpoint on this one", async () => {
  const jobs = [];
  const host = new Host().job((job) => {
    jobs.push(job);
    return job.cancelled();
  });
  await attached(host, async ({ listen, welcome }) => {
    await listen();
    let tenure;
    for (let number = 0; number < 2; number += 1) {
      tenure = await welcome();
      tenure.lease();
      tenure.start();
      await tenure.hear("started");
      if (number === 0) tenure.socket.destroy();
    }
    await assert.rejects(jobs[0].checkpoint("stale"), Fenced);
    jobs[0].progress();
    jobs[0].status("stale");
    tenure.say({ op: "ping", n: 1 });
    await tenure.hear("pong");
    host.bye();
    await tenure.hear("bye");
    tenure.say({ op: "bye" });
  });
});

test("a job that waits for a place is fenced when it is over", async () => {
  const calls = [];
  const host = new Host().job((job) => {
    for (let n = 0; n < 257; n += 1) calls.push(job.checkpoint("late"));
    for (const call of calls) call.catch(() => {});
  });
  await connected(host, async (tenure) => {
    tenure.start();
    await tenure.hear("started");
    const rids = [];
    for (let n = 0; n < 256; n += 1) rids.push((await tenure.hear("checkpoint")).rid);
    await tenure.hear("ended");
    tenure.say({ op: "ok", rid: rids[0] });
    await assert.rejects(calls[256], Fenced);
    tenure.say({ op: "ping", n: 1 });
    await tenure.hear("pong");
  });
});

test("pauses grow until a connection lasts", () => {
  const pauses = new Pauses();
  const grown = Array.from({ length: 7 }, () => pauses.after(1000));
  assert.deepEqual(grown, [100, 200, 400, 800, 1600, 2000, 2000]);
  assert.equal(pauses.after(5001), 100);
  assert.equal(pauses.after(1000), 200);
});

test("a node that does not welcome the host is left", async () => {
  const host = new Host().job(() => {});
  await timed({ welcome: 50 }, () =>
    attached(host, async ({ listen, next }) => {
      await listen();
      await next();
      await next();
      host.bye();
    }),
  );
});

test("a host without jobs ends though nobody answers its bye", async () => {
  const host = new Host().job(() => {});
  await timed({ lookAfter: 50 }, () =>
    attached(host, async ({ listen, welcome }) => {
      await listen();
      const tenure = await welcome();
      host.bye();
      await tenure.hear("bye");
    }),
  );
});

test("a host attaches only where the clock is the node's", async () => {
  const { value } = Object.getOwnPropertyDescriptor(process, "platform");
  Object.defineProperty(process, "platform", { value: "darwin" });
  try {
    await assert.rejects(new Host().job(() => {}).attach("/none"), /only on Linux/);
  } finally {
    Object.defineProperty(process, "platform", { value });
  }
});

/** Plays with a host in a process of its own, whose job takes no notice of its end. Resolves with how it has ended. */
async function child(ttl_ms, left_ms, play = () => {}, job = "() => new Promise(() => {})", stdio = "ignore") {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "tenure-"));
  const place = path.join(folder, "socket");
  const server = net.createServer().listen(place);
  const source = `import { Host } from ${JSON.stringify(new URL("../src/index.js", import.meta.url).href)};
    await new Host().job(${job}).run();`;
  const process = spawn(globalThis.process.execPath, ["--input-type=module", "-e", source], {
    env: { TENURE_ATTACH: place },
    stdio,
  });
  try {
    const [socket] = await once(server, "connection");
    const tenure = new Tenure(socket);
    await tenure.hear("hello");
    tenure.say({ op: "hello", v: 1, pool: "p", node: "n", worker: 0, ttl_ms, features: [], tenure: "0" });
    tenure.lease(1, left_ms);
    tenure.start();
    await tenure.hear("started");
    const ended = once(process, "exit");
    await play(tenure, process);
    const how = await ended;
    socket.destroy();
    return how;
  } finally {
    process.kill("SIGKILL");
    server.close();
    await fs.rm(folder, { recursive: true });
  }
}

test("the process ends with a job that outlives its lease", async () => {
  assert.deepEqual(await child(100, 300), [1, null]);
});

test("jobs end in order though nobody takes what the process prints", async () => {
  const full = await fs.open("/dev/full", "w");
  const fails = "(job) => { console.log(job.key); throw new Error('boom'); }";
  const play = async (tenure, process) => {
    assert.equal((await tenure.hear("ended")).error, "Error: boom");
    tenure.start({ job: 2 });
    await tenure.hear("started");
    assert.equal((await tenure.hear("ended")).error, "Error: boom");
    process.kill("SIGTERM");
    await tenure.hear("bye");
    tenure.say({ op: "bye" });
  };
  assert.deepEqual(await child(60_000, 60_000, play, fails, ["ignore", full.fd, full.fd]), [0, null]);
  await full.close();
});

test("texts without room are dropped, counted and told", async () => {
  const [written, taken] = [[], []];
  const reader = new Writable({
    decodeStrings: false,
    write(text, _, done) {
      written.push(text);
      taken.push(done);
    },
  });
  const tell = teller(reader, (text) => reader.write(`${text}\n`));
  const text = "x".repeat(1_023);
  for (let n = 0; n < 1_024 + 7; n += 1) tell(text);
  assert.ok(reader.writableLength <= 1 << 20, `${reader.writableLength} bytes wait`);
  tell("short");
  const drained = once(reader, "drain");
  while (taken.length > 0) {
    taken.shift()();
    await new Promise(setImmediate);
  }
  await drained;
  tell("after");
  while (taken.length > 0) {
    taken.shift()();
    await new Promise(setImmediate);
  }
  assert.deepEqual(written.slice(1_024), ["tenure: 8 texts are missing here, nobody took them\n", "after\n"]);
});

test("a second signal ends the process", async () => {
  const how = await child(60_000, 60_000, async (tenure, process) => {
    process.kill("SIGINT");
    await tenure.hear("bye");
    process.kill("SIGTERM");
  });
  assert.deepEqual(how, [null, "SIGTERM"]);
});
