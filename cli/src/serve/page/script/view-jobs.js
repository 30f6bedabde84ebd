// Jobs that are searched for.

import { ask } from "./ask.js";
import { dispatchForm } from "./dispatch.js";
import { cell, h } from "./elements.js";
import { STATES, linkTo, stateOf } from "./shown.js";
import { may } from "./state.js";
import { ago, count, nameOf, plain, query, short } from "./words.js";

function jobRow(job) {
  return h("tr", {},
    h("th", { scope: "row" }, linkTo(job)),
    cell("State", stateOf(job.state)),
    cell("Worker", job.worker === null ? null : `${short(job.worker)} on ${plain(job.node ?? "?")}`),
    cell("Token", String(job.token), { class: "number" }),
    cell("Attempts", job.attempts > 1 || job.error ? String(job.attempts) : null, { class: "number" }),
    cell("Since", ago(job.since)),
    cell("Why", job.error && h("span", { class: "bad clamp" }, plain(job.error))));
}

export function viewJobs(main, params, signal) {
  const field = (name, label, props) => h("label", {}, label, h("input", { name, value: params.get(name) ?? "", ...props }));
  const state = h("select", { name: "state" }, ["", ...Object.keys(STATES)].map((word) => h("option", { value: word, selected: word === (params.get("state") ?? "") }, word || "any")));
  const form = h("form", { class: "row", onsubmit: (event) => {
    event.preventDefault();
    location.hash = `#/jobs?${query(Object.fromEntries(new FormData(form)))}`;
  } },
  field("match", "Key", { type: "search", placeholder: "a part, or a pattern" }),
  h("label", {}, "State", state),
  field("worker", "Worker", { size: 6 }),
  field("node", "Node", { size: 12 }),
  h("label", { class: "check" }, h("input", { type: "checkbox", name: "failing", value: "true", checked: params.get("failing") === "true" }), "failing only"),
  h("button", { class: "main" }, "Search"));
  const results = h("tbody");
  const said = h("p", { class: "note", role: "status" });
  const more = h("button", { type: "button", hidden: true, onclick: () => go() }, "Search on");
  const begin = h("button", { type: "button", "data-id": "dispatch", hidden: true, onclick: () => dispatchForm() }, "Dispatch a job");
  form.append(begin);
  main.append(h("section", { class: "panel" }, h("h2", {}, "Jobs"), form), h("section", { class: "panel" },
    h("table", {}, h("thead", {}, h("tr", {}, ["Key", "State", "Worker", "Token", "Attempts", "Since", "Why"].map((head) => h("th", { scope: "col", class: head === "Token" || head === "Attempts" ? "number" : "" }, head)))), results), said, more));
  const text = params.get("match") ?? "";
  // Without a sign of a pattern, a part of the key is meant.
  const match = !text || /[*?[\]{}\\]/.test(text) ? text : `*${text}*`;
  const wanted = { state: params.get("state"), worker: params.get("worker"), node: params.get("node"), failing: params.get("failing"), match };
  const found = new Map();
  let [cursor, scanned] = [null, 0];
  const add = (job) => {
    const id = nameOf(job);
    if (!found.has(id)) {
      found.set(id, job);
      results.append(jobRow(job));
    }
  };
  async function go() {
    more.hidden = true;
    const until = found.size + 100;
    try {
      if (text && scanned === 0 && found.size === 0) await ask(`job?${query({ key: text })}`, { signal }).then(add).catch(() => {});
      do {
        said.textContent = `Looked at ${count(scanned)} jobs…`;
        const part = await ask(`jobs?${query({ ...wanted, limit: 100, cursor })}`, { signal });
        part.items.forEach(add);
        [cursor, scanned] = [part.next, scanned + part.scanned];
      } while (cursor && found.size < until && !signal.aborted);
      said.textContent = `${count(found.size)} found, ${count(scanned)} looked at${cursor ? ", and there are more" : ""}.`;
    } catch (problem) {
      if (!signal.aborted) said.textContent = `Not all was looked at: ${plain(problem.message)}`;
    }
    more.hidden = !cursor;
  }
  go();
  return { tick: () => { begin.hidden = !may(); } };
}
