// The host: its connection, its jobs, its requests.

import net from "node:net";

import { Cancelled, Fenced, Moved, Park, Refuse, RequestError, Restart } from "./errors.js";
import { Job, Lease } from "./job.js";
import { Pool } from "./pool.js";
import { VERSION, millis, monotonic, pack, put, take } from "./wire.js";

const TEXT_MAX = 1000;
/** How many requests may be open. */
const REQUESTS = 256;
/** The pauses between attempts to attach, from the first to the longest, in milliseconds. */
const PAUSES = [100, 2000];
/** The exit status of a host for which no worker is free now. */
const BUSY = 75;

/** A host of jobs. */
export class Host {
  #hello;
  #run;
  #readyAtOnce = true;
  #answer;
  #update;
  #jobs = new Map();
  #leases = new Map();
  #requests = new Map();
  #rid = 0;
  #free = REQUESTS;
  #waiting = [];
  #socket;
  #end;
  /** The jobs that have not ended, and why the connection was refused. */
  #running = new Set();
  #refusal;
  /** It wants to end. */
  #leaves = false;
  #wake = () => {};
  /** The pool, to dispatch, ask and look. */
  pool = new Pool(this);
  /** What Tenure has said in its hello. */
  welcome = {};

  constructor({ name, version, maxJobs, maxStarting } = {}) {
    this.#hello = { name, version, max_jobs: maxJobs, max_starting: maxStarting };
  }

  /**
   * Registers the function that runs a job, from its start to its end. It must return when `job.signal` aborts. With
   * `ready: false` the job counts as started only when the function calls `job.ready()`.
   */
  job(handler, { ready = true } = {}) {
    this.#run = handler;
    this.#readyAtOnce = ready;
    return this;
  }

  /** Registers the function that answers an ask: `(job, body) => bytes or text`. `Refuse` refuses, and `Moved` sends it to the job's next owner. */
  ask(handler) {
    this.#answer = handler;
    return this;
  }

  /** Registers the function that takes another payload: `(job, payload)`. `Restart` restarts the job. */
  update(handler) {
    this.#update = handler;
    return this;
  }

  /** Asks Tenure to hand all jobs on. This process ends then. `tenure host -- COMMAND` starts a new one in its place. */
  bye() {
    this.#leaves = true;
    this.#wake();
    // Another one says it after its hello.
    if (this.#socket && !this.#socket.connecting) this._send({ op: "bye" });
  }

  /**
   * Serves until there is nothing more to do, and ends the process. With TENURE_ATTACH in place of TENURE_SOCKET it
   * attaches, and SIGTERM has its jobs handed on before it ends.
   */
  async run() {
    if (process.env.TENURE_SOCKET === undefined) process.once("SIGTERM", () => this.bye());
    process.exit(await this.serve());
  }

  /** Serves until there is nothing more to do, and resolves with the exit status. `path` is for tests. */
  async serve(path = process.env.TENURE_SOCKET) {
    if (path !== undefined) {
      const status = await this.#connection(path);
      if (this.#refusal !== undefined) console.error(`tenure refuses this host: ${this.#refusal}`);
      return status;
    }
    if (process.env.TENURE_ATTACH === undefined) {
      throw new Error("there is no TENURE_SOCKET and no TENURE_ATTACH: start this program by `tenure host -- COMMAND`");
    }
    return this.attach(process.env.TENURE_ATTACH);
  }

  /**
   * Attaches to the socket of `tenure host --attach`, and again whenever the connection has ended. It waits for the socket,
   * and for a free worker. It attaches again only when all jobs of the last connection have ended. Resolves with the exit
   * status: 0 after `bye`, 78 if the node speaks another version. 1: a job did not end with its lease. End the process then,
   * for another worker gets the job in a moment.
   */
  async attach(path) {
    let [pause] = PAUSES;
    let told;
    while (!this.#leaves) {
      let status = BUSY;
      let why;
      try {
        status = await this.#connection(path);
        why = this.#refusal ?? "the connection has ended";
      } catch (error) {
        if (error instanceof TypeError) throw error;
        why = error.message;
      }
      if (!(await this.#emptied())) {
        const keys = [...this.#jobs.values()].slice(0, 10).map((job) => JSON.stringify(job.key));
        console.error(`tenure: jobs have not ended by their lease: ${keys.join(", ")}`);
        return 1;
      }
      if (status === 78) {
        console.error(`tenure refuses this host: ${why}`);
        return status;
      }
      if (this.welcome.v !== undefined) [pause] = PAUSES;
      if (status !== 0 && why !== told && !this.#leaves) {
        told = why;
        console.error(`tenure: ${why}, it attaches to ${path} when it can`);
      }
      if (this.#leaves) break;
      await soon(pause, (wake) => (this.#wake = wake));
      pause = Math.min(2 * pause, PAUSES[1]);
    }
    return 0;
  }

  /** Serves one connection, and resolves with its exit status. All its jobs are cancelled then. */
  #connection(path) {
    if (this.#run === undefined) throw new TypeError("register a function with host.job first");
    this.welcome = {};
    this.#refusal = undefined;
    this.#leases = new Map();
    this.#free = REQUESTS;
    return new Promise((resolve, reject) => {
      const socket = net.createConnection(path, () => this.#connected());
      this.#socket = socket;
      this.#end = (status) => {
        resolve(status);
        socket.destroy();
      };
      socket.setEncoding("utf8");
      let rest = "";
      socket.on("data", (text) => {
        const lines = (rest + text).split("\n");
        rest = lines.pop();
        for (const line of lines) if (!socket.destroyed) this.#hear(JSON.parse(line));
      });
      socket.on("error", (error) => {
        if (socket.pending) reject(error);
      });
      // That of an earlier connection may come late.
      socket.on("close", () => socket === this.#socket && this.#disconnected());
    });
  }

  /** Waits for the end of all jobs. Tenure frees them 0.2 of the worker TTL after their lease. False: some are left. */
  async #emptied() {
    if (this.#running.size === 0) return true;
    const ttl = this.welcome.ttl_ms ?? 0;
    const over = Math.max(0, ...[...this.#jobs.values()].map((job) => job.lease._until));
    const until = Math.max(over + 0.15 * ttl, monotonic() + 0.05 * ttl);
    while (this.#running.size > 0 && monotonic() < until) {
      const ended = Promise.allSettled([...this.#running]);
      await soon(until - monotonic(), (wake) => void ended.then(wake));
    }
    return this.#running.size === 0;
  }

  #connected() {
    const features = ["checkpoint", "client"];
    if (this.#answer) features.push("ask");
    if (this.#update) features.push("update");
    this._send({ op: "hello", v: [VERSION], sdk: "typescript/0.1.0", features, ...this.#hello });
    if (this.#leaves) this._send({ op: "bye" });
  }

  #disconnected() {
    for (const job of this.#jobs.values()) job._cancel("lease_lost");
    for (const { reject } of [...this.#requests.values(), ...this.#waiting]) reject(lost());
    this.#requests.clear();
    this.#waiting = [];
    this.#end(1);
  }

  _send(message) {
    const line = pack(message);
    if (!this.#socket.destroyed) this.#socket.write(line);
  }

  async _request(message) {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
    const rid = ++this.#rid;
    try {
      if (this.#socket.destroyed) throw lost();
      this._send({ ...message, rid });
    } catch (error) {
      this.#leavePlace();
      throw error;
    }
    return new Promise((resolve, reject) => this.#requests.set(rid, { resolve, reject }));
  }

  #leavePlace() {
    const next = this.#waiting.shift();
    if (next) next.resolve();
    else this.#free += 1;
  }

  /** The request that this message answers. */
  #requestOf({ rid }) {
    const request = this.#requests.get(rid);
    if (this.#requests.delete(rid)) this.#leavePlace();
    return request;
  }

  #lease(number) {
    let lease = this.#leases.get(number);
    if (lease === undefined) {
      // Those of the next connection have the same numbers.
      const leases = this.#leases;
      lease = new Lease(number, () => leases.delete(number));
      leases.set(number, lease);
    }
    return lease;
  }

  #hear(message) {
    const job = this.#jobs.get(message.job);
    switch (message.op) {
      case "hello":
        this.welcome = message;
        break;
      case "refused":
        this.#refusal = String(message.why);
        // It speaks no version of ours, or no worker is free now.
        this.#end(message.ours === undefined ? BUSY : 78);
        break;
      case "lease":
        this.#lease(message.lease)._renew(message);
        break;
      case "start": {
        const running = this.#start(message);
        this.#running.add(running);
        running.finally(() => this.#running.delete(running));
        break;
      }
      case "stop":
        // It may have ended before.
        if (job) {
          job._stops = true;
          job._cancel(message.why);
        }
        break;
      case "notify":
        job?._note(message);
        break;
      case "ask":
        if (job && this.#answer) job._serve(() => this.#answered(job, message));
        break;
      case "update":
        if (job && this.#update) job._serve(() => this.#updated(job, message));
        break;
      case "ping":
        this._send({ op: "pong", n: message.n });
        break;
      case "ok":
        this.#requestOf(message)?.resolve(message);
        break;
      case "error": {
        const kind = message.code === "fenced" ? Fenced : RequestError;
        this.#requestOf(message)?.reject(new kind(message.code, message.text));
        break;
      }
      case "bye":
        this.#end(0);
        break;
      // Words of a later version are not for this host.
    }
  }

  async #start(message) {
    const lease = this.#lease(message.lease);
    const job = new Job(this, message, lease);
    this.#jobs.set(job._number, job);
    lease.jobs.add(job);
    if (lease.leftMs === 0) job._cancel("lease_lost");
    const last = this.#lastOf(job, job.isCancelled ? undefined : await this.#lived(job));
    await job._ended();
    this.#lastWord(job, last);
  }

  /** The last word on a job whose function has come to this. */
  #lastOf(job, lived) {
    if (job._stops) return { op: "stopped", job: job._number };
    // Nobody has told it to end but its lease.
    if (job.stopReason !== undefined) return { op: "ended", job: job._number, error: "the lease was over", lost: true };
    return lived;
  }

  async #lived(job) {
    const number = job._number;
    try {
      if (this.#readyAtOnce) job.ready();
      await this.#run(job);
      return { op: "ended", job: number };
    } catch (error) {
      if (error instanceof Refuse && !job._ready) {
        const { retryAfterMs, elsewhere } = error;
        const retry = retryAfterMs === undefined ? {} : { retry_ms: millis(retryAfterMs) };
        return { op: "refused", job: number, ...retry, ...(elsewhere ? { elsewhere: true } : {}) };
      }
      const park = error instanceof Park;
      const expected = park || error instanceof Refuse || job.stopReason !== undefined;
      if (!expected) console.error(error);
      const op = job._ready ? "ended" : "failed";
      return { op, job: number, error: textOf(error), ...(park ? { park } : {}) };
    }
  }

  #lastWord(job, message) {
    try {
      job._say(message.op === "stopped" && job._state !== undefined ? put(message, "checkpoint", job._state) : message);
    } catch (error) {
      // Its last state does not fit into a line.
      console.error(error);
      job._say(message);
    }
    job._over = true;
    this.#jobs.delete(job._number);
    job.lease.jobs.delete(job);
  }

  async #answered(job, message) {
    const answer = { op: "answer", job: job._number, n: message.n };
    try {
      job._say(put(answer, "body", await this.#answer(job, take(message, "body") ?? Buffer.alloc(0))));
    } catch (error) {
      // The job ends, so nobody waits for it.
      if (error instanceof Cancelled && job.isCancelled) return;
      if (error instanceof Moved) return job._say({ ...answer, moved: true });
      if (!(error instanceof Refuse)) console.error(error);
      job._say({ ...answer, error: textOf(error) });
    }
  }

  async #updated(job, message) {
    const answer = { op: "updated", job: job._number, n: message.n };
    const payload = take(message, "body") ?? Buffer.alloc(0);
    try {
      await this.#update(job, payload);
      job.payload = payload;
      job.payloadType = message.type;
    } catch (error) {
      if (error instanceof Restart) {
        answer.restart = true;
      } else {
        if (error instanceof Cancelled && job.isCancelled) return;
        console.error(error);
        answer.error = textOf(error);
      }
    }
    job._say(answer);
  }
}

/** Waits so long, or until it is woken. */
async function soon(ms, wakes) {
  let timer;
  await new Promise((resolve) => {
    timer = setTimeout(resolve, ms);
    wakes(resolve);
  });
  clearTimeout(timer);
}

function textOf(error) {
  const plain = error instanceof Refuse || error instanceof Park;
  try {
    return String(plain ? error.message : error).slice(0, TEXT_MAX);
  } catch {
    return "an error without a text";
  }
}

function lost() {
  return new RequestError("failed", "the connection has ended");
}
