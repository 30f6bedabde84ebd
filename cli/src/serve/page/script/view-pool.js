// The pool: its figures, its ring, its workers, and what moves.

import { drainsPanel } from "./drains.js";
import { h, replace } from "./elements.js";
import { eventsPanel } from "./event-list.js";
import { movesPanel } from "./moves.js";
import { Panel } from "./panel.js";
import { ringPanel } from "./ring.js";
import { state } from "./state.js";
import { brief, count } from "./words.js";
import { workersPanel } from "./workers.js";

function tiles() {
  const { jobs, workers } = state.pool;
  const tile = (name, value, note, { href, tone } = {}) =>
    h(href ? "a" : "div", { class: "tile", href }, h("dl", {}, h("dt", {}, name), h("dd", { class: tone }, value, note && h("small", {}, note))));
  const rest = [workers.standby && `${workers.standby} standing by`, workers.draining && `${workers.draining} draining`].filter(Boolean);
  return [
    tile("Jobs", count(jobs.all), `${count(jobs.owned)} have a worker`, { href: "#/jobs" }),
    tile("Waiting", count(jobs.waiting), `${count(jobs.queued)} not started yet`, { href: "#/jobs?state=queued", tone: jobs.waiting > 0 && "warn" }),
    tile("Oldest new job", jobs.oldest_queued_ms === null ? "–" : brief(jobs.oldest_queued_ms), "waits for its first start", { tone: jobs.oldest_queued_ms > 60_000 && "bad" }),
    tile("Parked or paused", count(jobs.parked), "wait for an operator", { href: "#/parked", tone: jobs.parked > 0 && "warn" }),
    tile("Workers", count(workers.up), rest.join(", ") || "in the ring", { tone: workers.up === 0 && "bad" }),
  ];
}

export function viewPool(main) {
  const counts = h("div", { class: "tiles" });
  const ring = new Panel("Ring", ringPanel, { cls: "ring", every: 4_000 });
  const workers = new Panel("Nodes and workers", workersPanel);
  const drains = new Panel("Drains", drainsPanel);
  const moves = new Panel("Moved in the last hour", movesPanel, { every: 4_000 });
  const last = new Panel("Events", eventsPanel(12));
  last.ofEvents = true;
  main.append(h("div", { class: "pool" }, counts,
    h("div", { class: "column" }, ring.element, moves.element),
    h("div", { class: "column" }, workers.element, drains.element, last.element)));
  return { tick: () => state.pool && replace(counts, tiles()) };
}
