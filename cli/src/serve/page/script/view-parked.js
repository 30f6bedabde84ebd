// Parked jobs, by their errors.

import { ask } from "./ask.js";
import { act } from "./dialog.js";
import { cell, h, table } from "./elements.js";
import { Panel } from "./panel.js";
import { linkTo } from "./shown.js";
import { may, state } from "./state.js";
import { ago, count, keyed, nameOf, plain, query } from "./words.js";

const escaped = (text) => text.replace(/[*?[\]{}\\!]/g, "\\$&");

export function viewParked(main) {
  const panel = new Panel("Parked jobs", async (signal, panel) => {
    let [items, next] = [[], ""];
    // Pages may be of paused jobs only.
    for (let page = 0; page < 8 && next !== null && items.length === 0; page += 1) {
      ({ items, next } = await ask(`parked?${query({ limit: 500, cursor: next })}`, { signal }));
    }
    panel.note.textContent = items.length === 0 ? "" : `${count(state.pool?.jobs.parked ?? items.length)}, grouped by their errors${next ? "; the first of them are shown" : ""}`;
    if (items.length === 0) return h("p", { class: "note" }, next ? "None of the first parked or paused jobs is parked." : "No job is parked.");
    const groups = new Map();
    for (const job of items) groups.set(job.error, [...(groups.get(job.error) ?? []), job]);
    return [...groups].sort(([, a], [, b]) => b.length - a.length).map(([error, jobs]) => h("div", { class: "group" },
      h("div", { class: "row" }, h("p", { class: "wrap" }, h("strong", {}, `${count(jobs.length)} × `), h("span", { class: "bad" }, plain(error))),
        may() && act("Retry all", error, { title: "Retry all with this error?", text: plain(error), act: async () => {
          let [retried, failed, body] = [0, 0, { error: escaped(error) }];
          while (body) {
            const done = await ask("parked/retry", { body });
            [retried, failed] = [retried + done.retried, failed + done.failed];
            // What fails again and again ends this, too.
            body = done.more && done.retried > 0 ? { error: escaped(error), ...(done.next && { cursor: done.next }) } : null;
          }
          return `${count(retried)} jobs are retried${failed ? `, ${count(failed)} could not be` : ""}.`;
        } })),
      table(["Key", "Parked for", "Attempts", ""], jobs.slice(0, 20).map((job) => h("tr", {}, h("th", { scope: "row" }, linkTo(job)), cell("Parked for", ago(job.since)), cell("Attempts", String(job.attempts)),
        h("td", { class: "acts" }, may() ? act("Retry", nameOf(job), { title: `Retry ${nameOf(job)}?`, text: "It begins now. Its attempts count from zero.", act: async () => {
          await ask("job/retry", { body: keyed(job) });
          return `${nameOf(job)} begins now.`;
        } }) : "")))),
      jobs.length > 20 && h("p", { class: "note" }, `and ${count(jobs.length - 20)} more`)));
  });
  main.append(panel.element);
}
