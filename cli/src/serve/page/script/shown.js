// Parts that many views have.

import { h } from "./elements.js";
import { clock, keyed, nameOf, query } from "./words.js";

export const linkTo = (job) => h("a", { class: "key", href: `#/job?${query(keyed(job))}`, "data-id": `key-${nameOf(job)}` }, nameOf(job));
export const timeOf = (time) => h("time", { datetime: time, title: time }, clock(time));

export const STATES = { queued: "warn", assigned: "warn", running: "good", stopping: "warn", parked: "bad", paused: "warn" };
export const stateOf = (state) => h("span", { class: `chip ${STATES[state] ?? ""}` }, state);
