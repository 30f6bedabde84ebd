// The host: its connection, its jobs, its requests.

import { Attachment } from "./attach.js";
import { Cancelled, Moved, Park, Refuse, Restart } from "./errors.js";
import { Job, Lease } from "./job.js";
import { Link, lost } from "./link.js";
import { Pool } from "./pool.js";
import { tell } from "./tell.js";
import { VERSION, millis, put, take } from "./wire.js";

const TEXT_MAX = 1000;
/** The exit status of a host for which no worker is free now. */
const BUSY = 75;
/** They have a host that attaches leave. */
const SIGNALS = ["SIGTERM", "SIGINT"];

/** A host of jobs. */
export class Host {
  #hello;
  #run;
  #readyAtOnce = true;
  #answer;
  #update;
  #jobs = new Map();
  #leases = new Map();
  #link;
  #end;
  /** The jobs that have not ended, and why the connection was refused. */
  #running = new Set();
  #refusal;
  /** It wants to end. */
  #leaves = false;
  #attachment;
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
    this.#attachment?.leave();
    // Another one says it after its hello.
    if (this.#link?.isConnected) this.#link.send({ op: "bye" });
  }

  /**
   * Serves until there is nothing more to do, and ends the process. With TENURE_ATTACH in place of TENURE_SOCKET it
   * attaches, and SIGTERM or SIGINT has its jobs handed on before it ends. A second one ends it at once.
   */
  async run() {
    // Without a listener, a line that nobody takes ends the process, and all jobs with it.
    for (const output of [process.stdout, process.stderr]) output.on("error", () => {});
    if (process.env.TENURE_SOCKET === undefined) {
      const signalled = () => {
        // Without a listener, the next one ends the process.
        for (const name of SIGNALS) process.removeListener(name, signalled);
        this.bye();
      };
      for (const name of SIGNALS) process.on(name, signalled);
    }
    process.exit(await this.serve());
  }

  /** Serves until there is nothing more to do, and resolves with the exit status. `path` is for tests. */
  async serve(path = process.env.TENURE_SOCKET) {
    if (path !== undefined) {
      const status = await this.#connection(path);
      if (this.#refusal !== undefined) tell(`tenure refuses this host: ${this.#refusal}`);
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
   * status: 0 after `bye`, 78 if the node speaks another version. 1: a job did not end with its lease. End the process at
   * once then, for another worker gets the job in a moment. Throws where there is no Linux: a lease needs the clock of the node.
   */
  async attach(path) {
    if (process.platform !== "linux") throw new Error("a host can attach only on Linux: a lease needs the clock of the node");
    const attachment = new Attachment({
      connection: () => this.#connection(path),
      refusal: () => this.#refusal,
      hangUp: () => this.#link?.close(),
      running: this.#running,
      ttlMs: () => this.welcome.ttl_ms ?? 0,
      isWelcome: () => this.welcome.v !== undefined,
    });
    this.#attachment = attachment;
    if (this.#leaves) attachment.leave();
    try {
      return await attachment.serve(path);
    } finally {
      this.#attachment = undefined;
    }
  }

  /** Serves one connection, and resolves with its exit status. All its jobs are cancelled then. */
  #connection(path) {
    if (this.#run === undefined) throw new TypeError("register a function with host.job first");
    this.welcome = {};
    this.#refusal = undefined;
    this.#leases = new Map();
    return new Promise((resolve, reject) => {
      const link = new Link(path, {
        connected: () => this.#connected(),
        heard: (message) => this.#hear(message),
        failed: reject,
        // That of an earlier connection may come late.
        ended: () => link === this.#link && this.#disconnected(),
      });
      this.#link = link;
      this.#end = (status) => {
        resolve(status);
        link.close();
      };
    });
  }

  #connected() {
    const features = ["checkpoint", "client"];
    if (this.#answer) features.push("ask");
    if (this.#update) features.push("update");
    this.#link.send({ op: "hello", v: [VERSION], sdk: "typescript/0.1.0", features, ...this.#hello });
    if (this.#leaves) this.#link.send({ op: "bye" });
  }

  #disconnected() {
    for (const job of this.#jobs.values()) job._cancel("lease_lost");
    this.#end(1);
  }

  async _request(message) {
    if (this.#link === undefined) throw lost();
    return this.#link.request(message);
  }

  #lease(number) {
    let lease = this.#leases.get(number);
    if (lease === undefined) {
      // Those of the next connection have the same numbers.
      const leases = this.#leases;
      lease = new Lease(number, (lease) => {
        leases.delete(number);
        // Nobody else ends the process of a host that attaches if its jobs do not end.
        this.#attachment?.watch(lease);
      });
      leases.set(number, lease);
    }
    return lease;
  }

  #hear(message) {
    const job = this.#jobs.get(message.job);
    switch (message.op) {
      case "hello":
        this.welcome = message;
        this.#link.checkpointMax = message.checkpoint_max;
        break;
      case "bounds":
        this.#link.checkpointMax = message.checkpoint_max;
        break;
      case "unsaved":
        tell(`the last state of the job ${JSON.stringify(String(take(message, "key")))} may not be kept: ${message.text}`);
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
        running.catch((error) => tell(error)).finally(() => this.#running.delete(running));
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
        this.#link.send({ op: "pong", n: message.n });
        break;
      case "ok":
      case "error":
        this.#link.answered(message);
        break;
      case "bye":
        this.#end(0);
        break;
      // Words of a later version are not for this host.
    }
  }

  async #start(message) {
    const lease = this.#lease(message.lease);
    const job = new Job(this.#link, message, lease);
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
      // Nobody else hears of a state that was refused at the end of a job.
      if (!expected || error.code === "too_long") tell(error);
      const op = job._ready ? "ended" : "failed";
      return { op, job: number, error: textOf(error), ...(park ? { park } : {}) };
    }
  }

  #lastWord(job, message) {
    try {
      job._say(message.op === "stopped" && job._state !== undefined ? put(message, "checkpoint", job._state) : message);
    } catch (error) {
      // Its last state does not fit into a line.
      tell(error);
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
      if (!(error instanceof Refuse)) tell(error);
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
        tell(error);
        answer.error = textOf(error);
      }
    }
    job._say(answer);
  }
}

function textOf(error) {
  const plain = error instanceof Refuse || error instanceof Park;
  try {
    return String(plain ? error.message : error).slice(0, TEXT_MAX);
  } catch {
    return "an error without a text";
  }
}
