// The ring: its slots, and keys on their workers.

import { ask } from "./ask.js";
import { colours, hueOf } from "./colours.js";
import { h, s } from "./elements.js";
import { refresh } from "./panel.js";
import { count, keyed, nameOf, plain, query, short } from "./words.js";

/** A number from 0 to 1 that a text always has. */
function spot(text, salt) {
  let mixed = 2166136261 ^ salt;
  for (let at = 0; at < text.length; at += 1) mixed = Math.imul(mixed ^ text.charCodeAt(at), 16777619);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 2246822507);
  return ((mixed ^ (mixed >>> 13)) >>> 0) / 4294967296;
}
const at = (angle, radius) => [160 + radius * Math.sin(angle), 160 - radius * Math.cos(angle)].map((n) => n.toFixed(1));
function arc(from, to, inner, outer) {
  const large = to - from > Math.PI ? 1 : 0;
  const [a, b, c, d] = [at(from, outer), at(to, outer), at(to, inner), at(from, inner)];
  return `M${a}A${outer} ${outer} 0 ${large} 1 ${b}L${c}A${inner} ${inner} 0 ${large} 0 ${d}Z`;
}

let shard = 0;
export async function ringPanel(signal, panel) {
  const [ring, keys, workers] = await Promise.all([ask("ring", { signal }), ask("ring/keys", { signal }), ask("workers", { signal })]);
  colours(workers.items);
  const slots = ring.items.filter((place) => place.shard === shard);
  const turn = (2 * Math.PI) / Math.max(1, slots.length);
  const gap = slots.length > 1 ? Math.min(0.02, turn / 8) : 0.0001;
  const arcs = slots.map(({ place, worker, node }) => {
    const { hue, second } = hueOf(shard, worker);
    const cls = worker === null ? "hole" : `fill${hue} ${second ? "second" : ""}`;
    const title = worker === null ? `slot ${place}: a hole, its keys belong to the others` : `slot ${place}: worker ${worker} of ${plain(node)}`;
    const label = slots.length <= 32 && worker !== null;
    const [x, y] = at((place + 0.5) * turn, 144);
    const anchor = Math.abs(x - 160) < 12 ? "middle" : x < 160 ? "end" : "start";
    return [
      s("path", { class: cls, d: arc(place * turn + gap, (place + 1) * turn - gap, 116, 138) }, s("title", {}, title)),
      label && s("text", { x, y, "text-anchor": anchor, "dominant-baseline": "central", class: "faint" }, short(worker).replace("…", "")),
    ];
  });
  const slotOf = new Map(slots.filter((place) => place.worker !== null).map(({ place, worker }) => [worker, place]));
  const shown = keys.items.filter((key) => key.shard === shard);
  const dots = shown.map((key) => {
    const name = nameOf(key);
    const slot = slotOf.get(key.worker);
    const lost = slot === undefined;
    const angle = lost ? spot(name, 1) * 2 * Math.PI : (slot + 0.08 + 0.84 * spot(name, 1)) * turn;
    const radius = lost ? 26 * Math.sqrt(spot(name, 2)) : Math.sqrt(46 ** 2 + (107 ** 2 - 46 ** 2) * spot(name, 2));
    const [cx, cy] = at(angle, radius);
    const { hue, second } = hueOf(shard, key.worker);
    const cls = key.state === "parked" ? "parked" : key.state !== "running" ? "waits" : `fill${hue} ${second ? "second" : ""}`;
    const open = () => { location.hash = `#/job?${query(keyed(key))}`; };
    return s("circle", { class: `dot ${cls}`, cx, cy, r: shown.length > 250 ? 2.6 : 3.6, onclick: open }, s("title", {}, `${name}, ${key.state}${key.worker === null ? "" : `, worker ${key.worker}`}`));
  });
  const holes = slots.filter((place) => place.worker === null).length;
  panel.note.textContent = `${slots.length} slots${holes ? `, ${holes} of them holes` : ""}`;
  const shards = Math.max(...ring.items.map((place) => place.shard), 0) + 1;
  const nodes = [...new Map(workers.items.map((worker) => [worker.node, hueOf(worker.shard, worker.worker).hue]))];
  return [
    shards > 1 && h("label", { class: "note" }, "Shard ", h("select", { "data-id": "shard", onchange: (event) => { shard = Number(event.target.value); refresh(); } },
      Array.from({ length: shards }, (_, number) => h("option", { value: number, selected: number === shard }, number)))),
    s("svg", { viewBox: "-14 4 348 312", role: "img", "aria-label": `A ring of ${slots.length} slots with ${shown.length} keys on their workers. The list of workers has the figures.` }, arcs, dots),
    h("p", { class: "legend" }, nodes.slice(0, 12).map(([node, hue]) => h("span", {}, h("span", { class: `swatch back${hue}` }), plain(node)))),
    h("p", { class: "note" }, shown.length < keys.all ? `A sample of ${count(shown.length)} of ${count(keys.all)} keys. ` : `All ${count(keys.all)} keys. `, "In the middle are those without a worker in the ring."),
  ];
}
