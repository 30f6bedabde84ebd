// One connection: its lines, and its open requests.

import net from "node:net";

import { Fenced, RequestError } from "./errors.js";
import { pack } from "./wire.js";

/** How many requests may be open. */
const REQUESTS = 256;
/** How many bytes may wait for a node that does not read. More end the connection. */
const UNSENT_MAX = 64 * 2 ** 20;

/** One connection of a host. */
export class Link {
  #socket;
  #requests = new Map();
  #rid = 0;
  #free = REQUESTS;
  #waiting = [];
  /** The longest state of a job, bytes. Undefined: the node does not say. */
  checkpointMax;

  /**
   * Connects. `connected` is called when it has, `heard` with each message, and `ended` at its end; `failed` with an error if it
   * cannot connect.
   */
  constructor(path, { connected, heard, failed, ended }) {
    const socket = net.createConnection(path, connected);
    this.#socket = socket;
    socket.setEncoding("utf8");
    let rest = "";
    socket.on("data", (text) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      for (const line of lines) if (!socket.destroyed) heard(JSON.parse(line));
    });
    socket.on("error", (error) => {
      if (socket.pending) failed(error);
    });
    socket.on("close", () => {
      for (const { reject } of [...this.#requests.values(), ...this.#waiting]) reject(lost());
      this.#requests.clear();
      this.#waiting = [];
      ended();
    });
  }

  get isConnected() {
    return !this.#socket.connecting;
  }

  /** Says this. It waits for nobody, and after the end of the connection nobody hears it. */
  send(message) {
    const line = pack(message);
    if (this.#socket.destroyed) return;
    this.#socket.write(line);
    if (this.#socket.writableLength > UNSENT_MAX) this.close();
  }

  /** Ends the connection. Words that the node has not read are lost. */
  close() {
    this.#socket.destroy();
  }

  /** Makes a request, and resolves with its answer. One of a job throws Fenced once the job is over. */
  async request(message, job) {
    still(job);
    if (this.#socket.destroyed) throw lost();
    if (this.#free > 0) this.#free -= 1;
    else await new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
    const rid = ++this.#rid;
    try {
      // It may have ended meanwhile.
      still(job);
      if (this.#socket.destroyed) throw lost();
      this.send({ ...message, rid });
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

  /** Gives a request its answer. */
  answered(message) {
    const request = this.#requests.get(message.rid);
    if (request === undefined) return;
    this.#requests.delete(message.rid);
    this.#leavePlace();
    if (message.op === "ok") return request.resolve(message);
    const kind = message.code === "fenced" ? Fenced : RequestError;
    request.reject(new kind(message.code, message.text));
  }
}

function still(job) {
  if (job?._over) throw new Fenced("fenced", "the job is over");
}

/** The error of a request that the end of the connection has overtaken. */
export function lost() {
  return new RequestError("failed", "the connection has ended");
}
