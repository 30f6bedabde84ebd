// The colours of nodes and workers.

const HUES = 8;

const hues = new Map();
const ofNodes = new Map();
/** The colour of a worker: its node's, which the node keeps, and a lighter one for every other worker of it. */
export function colours(workers) {
  const nodes = [...new Set(workers.map((worker) => worker.node))].sort();
  for (const node of ofNodes.keys()) if (!nodes.includes(node)) ofNodes.delete(node);
  hues.clear();
  for (const [at, node] of nodes.entries()) {
    if (!ofNodes.has(node)) {
      const taken = new Set(ofNodes.values());
      ofNodes.set(node, Array.from({ length: HUES }, (_, hue) => hue).find((hue) => !taken.has(hue)) ?? at % HUES);
    }
    const own = workers.filter((worker) => worker.node === node);
    for (const [turn, worker] of own.entries()) hues.set(`${worker.shard}:${worker.worker}`, { hue: ofNodes.get(node), second: turn % 2 === 1 });
  }
}
export const hueOf = (shard, worker) => hues.get(`${shard}:${worker}`) ?? { hue: 0, second: true };
