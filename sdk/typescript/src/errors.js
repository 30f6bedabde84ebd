// What handlers throw, and what requests throw.

/** This host does not take it now. Throw it before a job is ready, or as the answer to an ask. */
export class Refuse extends Error {
  constructor(text = "", { retryAfterMs, elsewhere = false } = {}) {
    super(text);
    this.name = "Refuse";
    this.retryAfterMs = retryAfterMs === undefined ? undefined : Number(retryAfterMs);
    this.elsewhere = elsewhere;
  }
}

/** The job's next owner shall have this ask. Throw it as the answer to an ask that the job did nothing with. */
export class Moved extends Error {
  name = "Moved";
}

/** No further attempt can succeed: the job is parked, with this text. */
export class Park extends Error {
  name = "Park";
}

/** A running job cannot take another payload as it is: it starts again with it. */
export class Restart extends Error {
  name = "Restart";
}

/** The job must end. Waits of a job throw it. */
export class Cancelled extends Error {
  name = "Cancelled";
}

/** The lease of the job is over: another worker may have it. */
export class LeaseLost extends Error {
  name = "LeaseLost";
}

/** A request to the pool failed. `code` is for programs: `exists`, `not_found`, `refused`, `late` and so on. */
export class RequestError extends Error {
  constructor(code, text) {
    super(`${code}: ${text}`);
    this.name = "RequestError";
    this.code = code;
  }
}

/** The job is not this host's any more, so its checkpoint was not kept. */
export class Fenced extends RequestError {
  constructor(code, text) {
    super(code, text);
    this.name = "Fenced";
  }
}
