// The queues of the sets that are watched.

import { ask } from "./ask.js";
import { cell, h, table } from "./elements.js";
import { Panel, refresh } from "./panel.js";
import { state } from "./state.js";
import { count, plain, query } from "./words.js";

export function viewQueues(main) {
  let sets = [];
  const none = h("section", { class: "panel" }, h("p", { class: "note" }, "No set of queues is watched: tenure serve --queues SET shows one."));
  main.append(none);
  return { tick: () => {
    if (!state.pool || sets.join() === state.pool.queues.join()) return;
    sets = state.pool.queues;
    none.remove();
    for (const set of sets) {
      const panel = new Panel(`Queues of ${set}`, async (signal) => {
        const { items } = await ask(`queues?${query({ set })}`, { signal });
        if (items.length === 0) return h("p", { class: "note" }, "No queue was declared.");
        const heads = ["Ready", "Running", "Delayed", "Waiting", "Dead", "Done", "Failed"];
        return table(["Queue", ...heads.map((name) => ({ name, number: true }))], items.map((queue) => h("tr", {},
          h("th", { scope: "row" }, plain(queue.queue), queue.paused && [" ", h("span", { class: "chip warn" }, "paused")]),
          heads.map((head) => cell(head, h("span", { class: (head === "Dead" || head === "Failed") && queue[head.toLowerCase()] > 0 ? "bad" : "" }, count(queue[head.toLowerCase()])), { class: "number" })))));
      });
      main.append(panel.element);
    }
    refresh();
  } };
}
