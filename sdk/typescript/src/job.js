// A job in a handler's hands.

import { Cancelled, LeaseLost, RequestError } from "./errors.js";
import { tell } from "./tell.js";
import { millis, monotonic, put, take } from "./wire.js";

/** The longest time of a timer. */
const TIMER_MAX = 2 ** 31 - 1;

/** The lease under which jobs run, by this machine's monotonic clock. */
export class Lease {
  /** Its end by the monotonic clock. */
  _until = 0;
  #timer;
  #over;

  constructor(number, over) {
    this.number = number;
    this.jobs = new Set();
    this.#over = over;
  }

  /** How many milliseconds it lasts without another renewal. */
  get leftMs() {
    return Math.max(0, this._until - monotonic());
  }

  /** Throws LeaseLost once it is over. Call it before an effect on a resource that cannot check the token. */
  check() {
    if (this.leftMs === 0) throw new LeaseLost("the lease is over: another worker may have the job");
  }

  _renew(message) {
    // The message may have waited for a loop that was busy, so its end by the clock counts, too.
    this._until = Math.min(monotonic() + message.left_ms, message.until_ms);
    if (this.#timer === undefined) this.#look();
  }

  #look() {
    const left = this.leftMs;
    if (left > 0) {
      // A loop that was busy may have a renewal to read: it reads before it comes to what is immediate.
      this.#timer = setTimeout(() => setImmediate(() => this.#look()), Math.min(left, TIMER_MAX));
      this.#timer.unref();
      return;
    }
    this.#timer = undefined;
    for (const job of [...this.jobs]) job._cancel("lease_lost");
    this.#over(this);
  }
}

/** A notification of a job. It is done when the next one is asked for, or when `ack` is called. */
export class Notification {
  #job;
  #n;
  #open = true;

  constructor(job, message) {
    this.#job = job;
    this.#n = message.n;
    this.body = take(message, "body") ?? Buffer.alloc(0);
    /** How often it was refused. */
    this.refusals = message.refusals ?? 0;
  }

  /** It is done. */
  ack() {
    this.#say({});
  }

  /** Not now: it comes again after so long, before any later one. */
  refuse(retryAfterMs, why = "") {
    this.#say({ retry_ms: millis(retryAfterMs), error: String(why) });
  }

  #say(more) {
    if (!this.#open) return;
    this.#open = false;
    this.#job._say({ op: "ack", job: this.#job._number, n: this.#n, ...more });
  }
}

/** A job that this host runs. */
export class Job {
  /** Its connection. */
  #link;
  #abort = new AbortController();
  #notes = [];
  #wake;
  /** The asks and updates in hand. */
  #serving = new Set();
  #ends = false;

  constructor(link, message, lease) {
    this.#link = link;
    this._number = message.job;
    this._ready = false;
    this._stops = false;
    this._over = false;
    this._state = undefined;
    this.keyBytes = take(message, "key");
    this.token = message.token;
    this.payload = take(message, "body") ?? Buffer.alloc(0);
    this.payloadType = message.type;
    this.checkpointIn = take(message, "checkpoint");
    this.attempt = message.attempt;
    this.id = message.id;
    this.trace = message.trace;
    this.lease = lease;
    this.stopReason = undefined;
  }

  get key() {
    return this.keyBytes.toString();
  }

  /** Aborts when the job must end. */
  get signal() {
    return this.#abort.signal;
  }

  /** Whether the job must end. */
  get isCancelled() {
    return this.#abort.signal.aborted;
  }

  /** It runs: its dispatch returns. Only for a handler that was registered with `{ ready: false }`. */
  ready() {
    if (this._ready || this._over) return;
    this._ready = true;
    this._say({ op: "started", job: this._number });
  }

  /** Leaves a small state with the job, for its next run. Resolves when it is kept. */
  async checkpoint(state) {
    this.#fits(state);
    await this.#link.request(put({ op: "checkpoint", job: this._number }, "body", state), this);
  }

  /**
   * The state for the next run, if this one is told to stop. The last one counts. Throws RequestError if the state is too
   * long. The state before stays then.
   */
  leave(state) {
    this.#fits(state);
    this._state = typeof state === "string" ? state : Buffer.from(state);
  }

  #fits(state) {
    const length = Buffer.byteLength(state);
    const longest = this.#link.checkpointMax;
    if (longest === undefined || length <= longest) return;
    throw new RequestError("too_long", `the state has ${length} bytes, and the pool keeps ${longest} at most; it is not saved`);
  }

  /** It makes progress. A job with a progress timeout must call this more often than that. */
  progress() {
    this._say({ op: "progress", job: this._number });
  }

  /** A text for people. It counts as progress. */
  status(text) {
    this._say({ op: "status", job: this._number, text: String(text) });
  }

  /** Waits for the promise. Throws Cancelled as soon as the job must end. */
  until(promise) {
    return new Promise((resolve, reject) => {
      const cancel = () => reject(new Cancelled(`the job must end: ${this.stopReason}`));
      if (this.isCancelled) {
        // Nobody waits for it.
        Promise.resolve(promise).catch(() => {});
        return cancel();
      }
      this.signal.addEventListener("abort", cancel, { once: true });
      const done = () => this.signal.removeEventListener("abort", cancel);
      Promise.resolve(promise).then(resolve, reject).finally(done);
    });
  }

  /** Waits so long. Throws Cancelled as soon as the job must end. */
  async sleep(ms) {
    let timer;
    try {
      await this.until(new Promise((resolve) => (timer = setTimeout(resolve, ms))));
    } finally {
      clearTimeout(timer);
    }
  }

  /** Waits until the job must end. */
  async cancelled() {
    await this.until(new Promise(() => {})).catch(() => {});
  }

  /** The next notification. Throws Cancelled as soon as the job must end. */
  async notified() {
    while (this.#notes.length === 0) {
      await this.until(new Promise((resolve) => (this.#wake = resolve)));
    }
    return this.#notes.shift();
  }

  /**
   * The notifications, one after the other. Each is done when the loop asks for the next one. One that the loop leaves is
   * not done: it comes again, perhaps to the next owner. The loop ends when the job must end.
   */
  async *notifications() {
    while (!this.isCancelled) {
      let note;
      try {
        note = await this.notified();
      } catch (error) {
        if (error instanceof Cancelled) return;
        throw error;
      }
      yield note;
      note.ack();
    }
  }

  _say(message) {
    // After its last word there is nothing to say of a job.
    if (!this._over) this.#link.send(message);
  }

  /** Does this for the job, unless the job is over. The job's last word waits for its end. */
  _serve(work) {
    if (this.#ends) return;
    const serving = work();
    this.#serving.add(serving);
    serving.catch((error) => tell(error)).finally(() => this.#serving.delete(serving));
  }

  /** Its function has ended: all that it serves must end, too. */
  async _ended() {
    this.#ends = true;
    if (this.#serving.size === 0) return;
    this._cancel("ended");
    await Promise.allSettled([...this.#serving]);
  }

  _note(message) {
    this.#notes.push(new Notification(this, message));
    this.#wake?.();
  }

  _cancel(why) {
    if (this.stopReason !== undefined) return;
    this.stopReason = why;
    this.#abort.abort();
  }
}
