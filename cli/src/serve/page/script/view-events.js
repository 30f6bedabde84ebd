// The events, all or of one kind.

import { h } from "./elements.js";
import { eventsPanel } from "./event-list.js";
import { Panel } from "./panel.js";
import { query } from "./words.js";

export function viewEvents(main, params) {
  const kind = params.get("kind") ?? "";
  const select = h("select", { onchange: (event) => { location.hash = `#/events?${query({ kind: event.target.value })}`; } },
    ["", "failed", "parked", "paused", "moved", "lost", "fenced", "stuck", "joined", "left", "opening", "open", "reported", "damaged", "asked", "started", "ended"].map((word) => h("option", { value: word, selected: word === kind }, word || "all")));
  const panel = new Panel("Events", eventsPanel(300, (event) => !kind || event.kind === kind));
  panel.ofEvents = true;
  panel.element.insertBefore(h("p", { class: "row" }, h("label", {}, "Kind", select)), panel.body);
  main.append(panel.element);
}
