// Events in words, and a panel of them.

import { h } from "./elements.js";
import { noted, stream } from "./events.js";
import { linkTo, timeOf } from "./shown.js";
import { clock, count, plain, short } from "./words.js";

/** Why a job has left its worker. */
export const WHY = { moved: "moved by the ring", drained: "their worker left", lost: "their worker was lost", failed: "failed", refused: "refused, or full", bounced: "bounced", updated: "updated" };
export const TONES = { paused: "warn", failed: "bad", parked: "bad", lost: "bad", fenced: "bad", damaged: "bad", stuck: "warn", opening: "warn", reported: "warn", joined: "good", open: "good" };

export function eventText(event) {
  const what = event.count > 1 || (event.count === 1 && !event.key && !event.key64) ? `${count(event.count)} jobs` : event.key || event.key64 ? linkTo(event) : null;
  const why = event.text ? plain(event.text) : event.why ? WHY[event.why] ?? event.why.replaceAll("_", " ") : "";
  const by = [event.worker !== null && `worker ${short(event.worker)}`, plain(event.node)].filter(Boolean).join(", ");
  return [what, what && why ? ", " : "", why, h("span", { class: "note" }, ` (${by})`)];
}

const eventItem = (event) => h("li", {}, timeOf(event.at), h("span", { class: TONES[event.kind] ?? "" }, event.kind), h("span", {}, eventText(event)));

export function eventsPanel(most, filter = () => true) {
  return async (_, panel) => {
    panel.note.textContent = `${stream.state === "live" ? "live" : "not live"}${noted.reach?.noted_since ? `, noted since ${clock(noted.reach.noted_since)}` : ""}${noted.reach?.dropped ? `, ${noted.reach.dropped} were dropped` : ""}`;
    const found = noted.events.filter(filter).slice(-most).reverse();
    return found.length > 0 ? h("ol", { class: "events" }, found.map(eventItem)) : h("p", { class: "note" }, noted.reach ? "Nothing is noted." : "Not read yet.");
  };
}
