// A host that attaches: it comes again, and nobody can end its process but itself.

import { tell } from "./tell.js";
import { monotonic } from "./wire.js";

/** How many keys an error names. */
const KEYS = 10;

/** Its times, in milliseconds. */
export const TIMES = {
  /** The pauses between attempts to attach, from the first to the longest. */
  first: 100,
  longest: 2000,
  /** How long a connection lasts after which the pauses begin anew. */
  lasting: 5000,
  /** How long a node may take to answer a hello. */
  welcome: 30_000,
  /** How often a host that has said bye looks whether it has a job. */
  lookAfter: 5000,
};

/** The pauses between attempts. They grow, so that a host that breaks off at once does not come at once. */
export class Pauses {
  #next = TIMES.first;

  /** The pause after a connection that has lasted so long, in milliseconds. */
  after(lasted) {
    const pause = lasted > TIMES.lasting ? TIMES.first : this.#next;
    this.#next = Math.min(2 * pause, TIMES.longest);
    return pause;
  }
}

/** What a host has while it attaches. */
export class Attachment {
  #host;
  #leaves = false;
  /** The keys of some jobs that have not ended with their lease. */
  #outlived;
  #wake = () => {};
  #looks;

  constructor(host) {
    this.#host = host;
  }

  /** The host wants to end. */
  leave() {
    if (this.#leaves) return;
    this.#leaves = true;
    let wasIdle = false;
    this.#looks = setInterval(() => {
      // It has no job, and still no answer to its bye.
      const isIdle = this.#host.running.size === 0;
      if (isIdle && wasIdle) this.#host.hangUp();
      wasIdle = isIdle;
    }, TIMES.lookAfter);
    this.#wake();
  }

  /** Serves one connection after the other. */
  async serve(path) {
    try {
      return await this.#serve(path);
    } finally {
      clearInterval(this.#looks);
    }
  }

  async #serve(path) {
    const pauses = new Pauses();
    let told;
    while (!this.#leaves) {
      const began = monotonic();
      const { status, why } = await this.#connection();
      if (!(await this.#emptied())) {
        tell(`tenure: jobs have not ended by their lease: ${this.#outlived.join(", ")}`);
        return 1;
      }
      if (status === 78) {
        tell(`tenure refuses this host: ${why}`);
        return status;
      }
      if (this.#leaves) break;
      if (status !== 0 && why !== told) {
        told = why;
        tell(`tenure: ${why}, it attaches to ${path} when it can`);
      }
      await this.#soon(pauses.after(monotonic() - began));
    }
    return 0;
  }

  async #connection() {
    const welcome = setTimeout(() => {
      if (!this.#host.isWelcome()) this.#host.hangUp();
    }, TIMES.welcome);
    try {
      const status = await this.#host.connection();
      return { status, why: this.#host.refusal() ?? "the connection has ended" };
    } catch (error) {
      if (error instanceof TypeError) throw error;
      return { status: 1, why: error.message };
    } finally {
      clearTimeout(welcome);
    }
  }

  /** Waits for the end of all jobs of the last connection. False: one has not ended with its lease. */
  async #emptied() {
    while (this.#host.running.size > 0 && this.#outlived === undefined) {
      // The timers of leases keep no process, so this one does.
      await this.#soon(TIMES.longest, Promise.allSettled([...this.#host.running]));
    }
    return this.#outlived === undefined;
  }

  /** Waits so long, or until it is woken, or for the promise. */
  async #soon(ms, promise) {
    let timer;
    await new Promise((resolve) => {
      timer = setTimeout(resolve, ms);
      this.#wake = resolve;
      promise?.then(resolve);
    });
    clearTimeout(timer);
  }

  /** Ends the host if jobs of a lease that is over have not ended soon. The node frees them 0.2 of the TTL after it. */
  watch(lease) {
    const late = lease._until + 0.15 * this.#host.ttlMs();
    setTimeout(() => this.#look(lease), Math.max(0, late - monotonic())).unref();
  }

  #look(lease) {
    if (lease.jobs.size === 0 || this.#outlived !== undefined) return;
    this.#outlived = [...lease.jobs].slice(0, KEYS).map((job) => JSON.stringify(job.key));
    this.#host.hangUp();
    this.#wake();
  }
}
