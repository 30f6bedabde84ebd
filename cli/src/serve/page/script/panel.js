// Panels: each loads by itself, fails alone, and keeps its picture where it fails.

import { h, replace } from "./elements.js";
import { hear, tell } from "./state.js";
import { plain } from "./words.js";

export const REFRESH = 2_000;

export const panels = new Set();
export class Panel {
  constructor(title, load, { every = REFRESH, cls = "" } = {}) {
    this.load = load;
    this.every = every;
    this.note = h("small");
    this.failed = h("p", { class: "failed", hidden: true });
    this.body = h("div", {}, h("p", { class: "note" }, "Loading…"));
    const id = `panel-${title.toLowerCase().replace(/\W+/g, "-")}`;
    this.element = h("section", { class: `panel ${cls}`, "aria-labelledby": id }, h("h2", { id }, title, this.note), this.failed, this.body);
    this.due = 0;
    panels.add(this);
  }

  async run(signal) {
    if (this.runs) return;
    this.runs = true;
    this.due = Infinity;
    try {
      const shown = await this.load(signal, this);
      if (signal.aborted) return;
      if (shown) replace(this.body, shown);
      this.failed.hidden = true;
    } catch (problem) {
      if (signal.aborted) return;
      this.failed.hidden = false;
      this.failed.textContent = `Not up to date: ${plain(problem.message)}`;
    } finally {
      this.runs = false;
    }
    if (this.due === Infinity) this.due = Date.now() + this.every;
  }
}

/** All is due now. */
export function refresh() {
  for (const panel of panels) panel.due = 0;
  tell("due");
}

hear("events", () => {
  for (const panel of panels) if (panel.ofEvents) panel.due = 0;
});
