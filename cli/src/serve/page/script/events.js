// The events: a stream of them while the page is seen, and the last ones kept.

import { ask } from "./ask.js";
import { state, tell } from "./state.js";

const KEPT = 1_000;
/** The last of them, by time, and how far back they go. */
export const noted = { events: [], reach: null };
const seen = new Set();

function addEvents(found) {
  for (const event of found) {
    const mark = JSON.stringify(event);
    if (!seen.has(mark)) {
      seen.add(mark);
      noted.events.push(event);
    }
  }
  noted.events.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  for (const event of noted.events.splice(0, Math.max(0, noted.events.length - KEPT))) seen.delete(JSON.stringify(event));
  tell("events");
}

export function forgetEvents() {
  [noted.events, noted.reach] = [[], null];
  seen.clear();
}

async function loadEvents() {
  const found = await ask("events?limit=500");
  noted.reach = found;
  addEvents(found.items);
}

export const stream = {
  abort: null,
  last: null,
  state: "off",
  start() {
    if (this.abort || document.hidden) return;
    this.abort = new AbortController();
    this.read(this.abort.signal);
  },
  stop() {
    this.abort?.abort();
    this.abort = null;
    this.state = "off";
  },
  async read(signal) {
    for (let pause = 1_000; !signal.aborted; pause = Math.min(30_000, pause * 2)) {
      try {
        const headers = state.token ? { authorization: `Bearer ${state.token}` } : {};
        if (this.last) headers["last-event-id"] = this.last;
        const answer = await fetch("v1/events/stream", { headers, signal, credentials: "omit" });
        if (!answer.ok) throw new Error(String(answer.status));
        this.state = "live";
        let text = "";
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
          pause = 1_000;
          const blocks = (text + piece.value).split("\n\n");
          text = blocks.pop();
          for (const block of blocks) this.take(block);
        }
      } catch {
        this.state = "off";
        if (!signal.aborted) loadEvents().catch(() => {});
      }
      await new Promise((done) => setTimeout(done, pause));
    }
  },
  take(block) {
    const field = (name) => block.split("\n").find((line) => line.startsWith(`${name}: `) || line.startsWith(`${name}:`))?.replace(/^\w+: ?/, "");
    const id = field("id");
    if (id) this.last = id;
    const kind = field("event");
    if (kind === "ready" || kind === "resync") loadEvents().catch(() => {});
    if (kind === "event") addEvents([JSON.parse(field("data"))]);
  },
};
