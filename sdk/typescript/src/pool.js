// The pool, as a host uses it.

import { millis, put, take } from "./wire.js";

/** Requests to the pool. Each throws RequestError. */
export class Pool {
  #host;

  constructor(host) {
    this.#host = host;
  }

  /** Starts a job, and resolves when it runs. */
  async dispatch(key, payload = "", options = {}) {
    await this.#ask("dispatch", key, payload, options);
  }

  /** As dispatch, but a job that is there already is fine. Resolves to whether this call has started its job. */
  async ensure(key, payload = "", options = {}) {
    return (await this.#ask("ensure", key, payload, options)).started === true;
  }

  /** As dispatch, but resolves when the pool has accepted the job, with the id of the dispatch. */
  async submit(key, payload = "", options = {}) {
    return (await this.#ask("submit", key, payload, options)).id;
  }

  /** Stops a job, and waits for its end if `untilStopped`. */
  async stop(key, options = {}) {
    await this.#ask("stop", key, undefined, options);
  }

  /** Leaves a notification for a job. */
  async notify(key, body = "") {
    await this.#ask("notify", key, body, {});
  }

  /** Asks the owner of a job, and resolves with its answer. */
  async ask(key, body = "", options = {}) {
    return take(await this.#ask("ask", key, body, options), "body") ?? Buffer.alloc(0);
  }

  /** A job. Undefined if there is none. */
  async get(key) {
    return (await this.#ask("get", key, undefined, {})).job;
  }

  /** About so many jobs, and where the list continues. */
  async list({ limit = 100, next } = {}) {
    const answer = await this.#host._request({ op: "list", limit: millis(limit), ...(next === undefined ? {} : { next: String(next) }) });
    return { jobs: answer.jobs ?? [], next: answer.next };
  }

  #ask(op, key, body, { policy, id, withinMs, untilStopped, idempotent }) {
    let request = put({ op }, "key", key);
    if (body !== undefined) request = put(request, "body", body);
    if (policy !== undefined) request.policy = String(policy);
    if (id !== undefined) request.id = String(id);
    if (withinMs !== undefined) request.within_ms = millis(withinMs);
    if (untilStopped) request.until_stopped = true;
    if (idempotent) request.idempotent = true;
    return this.#host._request(request);
  }
}
