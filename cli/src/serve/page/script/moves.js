// Jobs that left their workers in the last hour.

import { ask } from "./ask.js";
import { h, s } from "./elements.js";
import { WHY } from "./event-list.js";
import { clock, count, short } from "./words.js";

export async function movesPanel(signal, panel) {
  const moves = await ask("moves", { signal });
  panel.note.textContent = moves.noted_since ? `noted since ${clock(moves.noted_since)}` : "";
  if (moves.jobs === 0) return h("p", { class: "note" }, "No job has left its worker in the last hour.");
  const most = Math.max(...moves.minutes);
  const bars = moves.minutes.map((jobs, minute) => jobs > 0 && s("rect", { x: minute * 5 + 0.5, y: 60 - Math.max(2, (58 * jobs) / most), width: 4, height: Math.max(2, (58 * jobs) / most), rx: 1 }, s("title", {}, `${count(jobs)} jobs, ${59 - minute} minutes ago`)));
  return [
    h("p", {}, h("strong", {}, count(moves.jobs)), " jobs have left their workers: ", moves.why.map(({ why, jobs }) => `${WHY[why] ?? why.replaceAll("_", " ")} (${count(jobs)})`).join(", "), "."),
    s("svg", { class: "bars", viewBox: "0 0 300 76", role: "img", "aria-label": `Jobs that moved in each of the last 60 minutes; at most ${most} in one` }, bars, s("line", { x1: 0, x2: 300, y1: 60.5, y2: 60.5 }),
      s("text", { x: 0, y: 73, class: "faint" }, "an hour ago"), s("text", { x: 300, y: 73, "text-anchor": "end", class: "faint" }, "now")),
    moves.from.length > 0 && h("p", { class: "note below" }, "From ", moves.from.slice(0, 6).map(({ worker, jobs }) => `worker ${short(worker)}: ${count(jobs)}`).join(", "), "."),
  ];
}
