// Nodes and their workers.

import { ask } from "./ask.js";
import { colours, hueOf } from "./colours.js";
import { act } from "./dialog.js";
import { cell, h, table } from "./elements.js";
import { may, state } from "./state.js";
import { brief, count, plain, query, short } from "./words.js";

const ROWS = 200;

function lease(worker) {
  if (worker.renewed_ms === null) return "not yet";
  const left = 100 - (100 * worker.renewed_ms) / state.pool.worker_ttl_ms;
  const tone = left > 60 ? "good" : left > 40 ? "warn" : "bad";
  return [h("span", { class: "meter short" }, h("i", { class: tone, "width%": left })), ` ${brief(worker.renewed_ms)} ago`];
}

function stateChip(worker) {
  const tone = { up: "good", standby: "warn", draining: "warn" }[worker.state] ?? "warn";
  return h("span", { class: `chip ${tone}` }, worker.state);
}

function nodeActs(node) {
  if (!may()) return "";
  const jobs = `${count(node.jobs)} jobs`;
  const cordon = node.cordoned
    ? act("Uncordon", node.node, { title: `Uncordon ${plain(node.node)}?`, text: "It gets new jobs again.", act: async () => {
      await ask("nodes/uncordon", { body: { node: node.node } });
      return `${plain(node.node)} is not cordoned any more.`;
    } })
    : act("Cordon", node.node, { title: `Cordon ${plain(node.node)}?`, text: `It keeps its ${jobs} and gets no other.`, act: async () => {
      await ask("nodes/cordon", { body: { node: node.node } });
      return `${plain(node.node)} is cordoned.`;
    } });
  const drain = act("Drain", node.node, { title: `Drain ${plain(node.node)}?`, danger: true, text: `Its ${node.workers} workers hand on ${jobs} and leave for good. This cannot be taken back.`, act: async () => {
    await ask("workers/drain", { body: { node: node.node } });
    return `${plain(node.node)} drains.`;
  } }, "danger");
  // One that leaves cannot be told to once more.
  return [cordon, node.draining < node.workers && drain];
}

export async function workersPanel(signal, panel) {
  const [workers, nodes] = await Promise.all([ask("workers", { signal }), ask("nodes", { signal })]);
  colours(workers.items);
  const up = workers.items.filter((worker) => worker.state === "up");
  const even = 100 / Math.max(1, up.length);
  const most = Math.max(even * 1.5, ...workers.items.map((worker) => worker.share_percent ?? 0), 1);
  panel.note.textContent = `${nodes.items.length} nodes, ${workers.items.length} workers; the mark is an even share`;
  // A capacity is for the jobs in all shards together.
  const alone = workers.items.every((worker) => worker.shard === 0);
  const of = (worker) => (alone && worker.capacity !== null ? ` of ${count(worker.capacity)}` : "");
  const rows = [];
  for (const node of nodes.items) {
    if (rows.length > ROWS) break;
    const facts = [node.host, node.pid && `pid ${node.pid}`, node.version && `v${node.version}`, node.up_ms !== null && `for ${brief(node.up_ms)}`].filter(Boolean).map(plain).join(" · ");
    rows.push(h("tr", { class: "node" }, h("th", { scope: "rowgroup", colspan: 5 }, plain(node.node), node.cordoned && [" ", h("span", { class: "chip warn" }, "cordoned")], h("span", { class: "note" }, " ", facts)), h("td", { class: "acts" }, nodeActs(node))));
    for (const worker of workers.items.filter((worker) => worker.node === node.node)) {
      const { hue, second } = hueOf(worker.shard, worker.worker);
      const id = `${worker.shard > 0 ? `${worker.shard}:` : ""}${worker.worker}`;
      rows.push(h("tr", {},
        cell("Worker", [h("span", { class: `swatch back${hue} ${second ? "second" : ""}` }), h("a", { href: `#/jobs?${query({ worker: id })}`, title: `worker ${id}`, "data-id": `worker-${id}` }, short(id))]),
        cell("State", stateChip(worker)),
        cell("Jobs", worker.jobs === null ? "–" : count(worker.jobs) + of(worker), { class: "number" }),
        cell("Share", worker.share_percent !== null && [h("span", { class: "meter" }, h("i", { class: `back${hue}`, "width%": (100 * worker.share_percent) / most }), h("b", { "left%": (100 * even) / most })), ` ${worker.share_percent} %`]),
        cell("Lease", lease(worker)),
        cell("Trouble", worker.trouble && h("span", { class: "bad" }, plain(worker.trouble)))));
    }
  }
  if (rows.length === 0) return h("p", { class: "note" }, "There is no worker. Start one: tenure work, tenure host, or a program with the library.");
  return [
    table(["Worker", "State", { name: "Jobs", number: true }, "Share", "Lease renewed", "Trouble"], rows),
    rows.length > ROWS && h("p", { class: "note" }, "The list ends here. tenure workers has all."),
  ];
}
