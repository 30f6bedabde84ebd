// Workers that hand on their jobs, and leave.

import { ask } from "./ask.js";
import { cell, h, table } from "./elements.js";
import { brief, clock, count, plain, short } from "./words.js";

export async function drainsPanel(signal) {
  const { items } = await ask("drains", { signal });
  if (items.length === 0) return h("p", { class: "note" }, "Nothing drains, and nothing has drained while somebody looked.");
  return table(["Worker", "Node", "Progress", "Left"], items.slice(0, 20).map((drain) => {
    const done = drain.jobs_first === 0 ? 100 : (100 * (drain.jobs_first - drain.jobs_left)) / drain.jobs_first;
    const left = drain.gone ? `gone at ${clock(drain.seen_last)}` : drain.left_ms === null ? `${count(drain.jobs_left)} jobs` : `${count(drain.jobs_left)} jobs, about ${brief(drain.left_ms)}`;
    return h("tr", {}, cell("Worker", short(drain.worker), { title: String(drain.worker) }), cell("Node", plain(drain.node)),
      cell("Progress", [h("span", { class: "meter", role: "img", "aria-label": `${Math.round(done)} percent` }, h("i", { class: drain.gone ? "good" : "warn", "width%": done })), ` ${count(drain.jobs_first - drain.jobs_left)} of ${count(drain.jobs_first)}`]),
      cell("Left", left));
  }));
}
