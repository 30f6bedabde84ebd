/** Host the jobs of a Tenure pool: thousands of keys in one process. */

type Bytes = string | Uint8Array;

export interface HostOptions {
  /** For people. */
  name?: string;
  version?: string;
  /** How many jobs it takes. */
  maxJobs?: number;
  /** How many it starts at once. */
  maxStarting?: number;
}

export class Host {
  constructor(options?: HostOptions);
  /** The pool, to dispatch, ask and look. */
  readonly pool: Pool;
  /** What Tenure has said in its hello. */
  readonly welcome: Record<string, unknown>;
  /** The function that runs a job, from its start to its end. It must return when `job.signal` aborts. */
  job(handler: (job: Job) => Promise<void> | void, options?: { ready?: boolean }): this;
  /** The function that answers an ask. `Refuse` refuses, and `Moved` sends it to the job's next owner. */
  ask(handler: (job: Job, body: Buffer) => Promise<Bytes> | Bytes): this;
  /** The function that takes another payload. `Restart` restarts the job. */
  update(handler: (job: Job, payload: Buffer) => Promise<void> | void): this;
  /** Asks Tenure to hand all jobs on. This process ends then. `tenure host -- COMMAND` starts a new one in its place. */
  bye(): void;
  /**
   * Serves until there is nothing more to do, and ends the process. With TENURE_ATTACH in place of TENURE_SOCKET it
   * attaches, and SIGTERM or SIGINT has its jobs handed on before it ends. A second one ends it at once.
   */
  run(): Promise<never>;
  /** Serves until there is nothing more to do, and resolves with the exit status. */
  serve(path?: string): Promise<number>;
  /**
   * Attaches to the socket of `tenure host --attach`, and again whenever the connection has ended and all its jobs have. Resolves
   * with the exit status: 0 after `bye`, 78 if the node speaks another version, 1 if a job outlived its lease. End the process
   * at once then. Throws where there is no Linux: a lease needs the clock of the node.
   */
  attach(path: string): Promise<number>;
}

export class Lease {
  /** How many milliseconds it lasts without another renewal. */
  readonly leftMs: number;
  /** Throws LeaseLost once it is over. */
  check(): void;
}

export class Notification {
  readonly body: Buffer;
  /** How often it was refused. */
  readonly refusals: number;
  /** It is done. */
  ack(): void;
  /** Not now: it comes again after so long, before any later one. */
  refuse(retryAfterMs: number, why?: string): void;
}

export class Job {
  readonly key: string;
  readonly keyBytes: Buffer;
  /** The fencing token. Give it to each resource that you write to: it must refuse a lower one than it has seen. */
  readonly token: number;
  readonly payload: Buffer;
  readonly payloadType: string | undefined;
  /** The state that the last run has left. */
  readonly checkpointIn: Buffer | undefined;
  /** The number of begins since the job was last healthy, this one included. */
  readonly attempt: number;
  /** The id of its dispatch. */
  readonly id: string;
  readonly trace: { parent: string; state: string } | undefined;
  readonly lease: Lease;
  /** Why it must end. Undefined while it need not. */
  readonly stopReason: string | undefined;
  /** Aborts when the job must end. */
  readonly signal: AbortSignal;
  readonly isCancelled: boolean;
  ready(): void;
  /** Leaves a small state with the job, for its next run. Resolves when it is kept. Throws Fenced or RequestError. */
  checkpoint(state: Bytes): Promise<void>;
  /** The state for the next run, if this one is told to stop. The last one counts. Throws RequestError if it is too long. */
  leave(state: Bytes): void;
  progress(): void;
  status(text: string): void;
  /** Waits for the promise. Throws Cancelled as soon as the job must end. */
  until<T>(promise: Promise<T>): Promise<T>;
  /** Waits so long. Throws Cancelled as soon as the job must end. */
  sleep(ms: number): Promise<void>;
  /** Waits until the job must end. */
  cancelled(): Promise<void>;
  /** The next notification. Throws Cancelled as soon as the job must end. */
  notified(): Promise<Notification>;
  /** Each is done when the loop asks for the next one. The loop ends when the job must end. */
  notifications(): AsyncGenerator<Notification, void, void>;
}

export interface DispatchOptions {
  policy?: "never" | "on-failure" | "always";
  id?: string;
  withinMs?: number;
}

export interface JobInfo {
  key?: string;
  key64?: string;
  state: string;
  token: number;
  worker: number | null;
  attempts: number;
}

/** Requests to the pool. Each throws RequestError. */
export class Pool {
  dispatch(key: Bytes, payload?: Bytes, options?: DispatchOptions): Promise<void>;
  /** Whether this call has started its job. Else the key had one. */
  ensure(key: Bytes, payload?: Bytes, options?: DispatchOptions): Promise<boolean>;
  submit(key: Bytes, payload?: Bytes, options?: DispatchOptions): Promise<string>;
  stop(key: Bytes, options?: { untilStopped?: boolean; withinMs?: number }): Promise<void>;
  notify(key: Bytes, body?: Bytes): Promise<void>;
  ask(key: Bytes, body?: Bytes, options?: { idempotent?: boolean; withinMs?: number }): Promise<Buffer>;
  get(key: Bytes): Promise<JobInfo | undefined>;
  list(options?: { limit?: number; next?: string }): Promise<{ jobs: JobInfo[]; next: string | undefined }>;
}

/** This host does not take it now. */
export class Refuse extends Error {
  constructor(text?: string, options?: { retryAfterMs?: number; elsewhere?: boolean });
}
/** The job's next owner shall have this ask, with which the job did nothing. */
export class Moved extends Error {}
/** No further attempt can succeed: the job is parked. */
export class Park extends Error {}
/** A running job cannot take another payload as it is. */
export class Restart extends Error {}
/** The job must end. */
export class Cancelled extends Error {}
/** The lease of the job is over. */
export class LeaseLost extends Error {}
/** A request to the pool failed. */
export class RequestError extends Error {
  readonly code: string;
}
/** The job is not this host's any more. */
export class Fenced extends RequestError {}
