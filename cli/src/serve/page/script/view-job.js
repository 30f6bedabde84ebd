// One job: why it is where it is, its life, and what may be done with it.

import { told } from "./alerts.js";
import { ask } from "./ask.js";
import { act } from "./dialog.js";
import { h } from "./elements.js";
import { TONES, eventText } from "./event-list.js";
import { Panel } from "./panel.js";
import { STATES, stateOf } from "./shown.js";
import { may, state } from "./state.js";
import { ago, brief, clock, keyed, lengthOf, nameOf, plain, query, short } from "./words.js";

function jobActs(key, name, explain) {
  const body = keyed(key);
  const steer = (path, word, done, options) => act(word, "job", { ...options, act: async (reason, lasting) => {
    // What is undefined is not sent.
    await ask(`job/${path}`, { body: { ...body, reason, for_ms: lengthOf(lasting) } });
    return `${name} ${done}.`;
  } }, options.danger ? "danger" : "");
  if (!explain.state) return [];
  const waits = explain.state === "queued" || explain.state === "parked";
  const stop = steer("stop", "Stop", "ends", { title: `Stop ${name}?`, danger: true, text: "It ends, and is gone." });
  if (explain.state === "paused") return [steer("resume", "Resume", "begins", { title: `Resume ${name}?`, text: "It begins as soon as there is a worker." }), stop];
  return [
    waits && steer("retry", "Retry now", "begins now", { title: `Retry ${name}?`, text: "It begins now, and does not wait." }),
    !waits && steer("bounce", "Bounce", "runs elsewhere", { title: `Bounce ${name}?`, text: "It ends here, and the next worker of its chain begins it." }),
    !waits && steer("restart", "Restart", "begins anew", { title: `Restart ${name}?`, text: "It ends, and begins anew at home." }),
    explain.state !== "parked" && steer("park", "Park", "is parked", { title: `Park ${name}?`, danger: true, text: "It ends, and nobody runs it before a retry.", fields: [{ name: "reason", label: "Reason", value: "parked by hand" }] }),
    steer("pause", "Pause", "is paused", { title: `Pause ${name}?`, danger: true, text: "It ends, and nobody runs it before a resume, or before its time is over.", fields: [{ name: "reason", label: "Reason" }, { name: "for", label: "For", hint: "30m, 2h, 1d 12h; empty: until a resume" }] }),
    stop,
  ];
}

/** A text whose commands stand between backticks. */
const commands = (text) => text.split("`").map((part, at) => (at % 2 === 1 ? h("code", {}, part) : part));

function verdictPanel(key) {
  return async (signal, panel) => {
    const explain = await ask(`job/explain?${query(keyed(key))}`, { signal });
    panel.explain = explain;
    const [first, ...rest] = explain.text.split("\n").map((line) => plain(line.trim()));
    return [
      h("p", { class: "verdict" }, first),
      rest.map((line) => h("p", { class: "because" }, line)),
      explain.remedy && h("p", { class: "remedy" }, h("strong", {}, "To do: "), commands(plain(explain.remedy))),
      may() && h("p", { class: "row acting" }, jobActs(key, nameOf(key), explain)),
    ];
  };
}

function timelinePanel(key) {
  return async (signal) => {
    const history = await ask(`job/history?${query(keyed(key))}`, { signal });
    const { explain } = history;
    const item = (tone, word, time, more) => h("li", { class: tone }, h("strong", {}, word), time && h("time", { datetime: time, title: time }, `${clock(time)}, ${ago(time)} ago`), more && h("p", { class: "wrap" }, more));
    const items = [
      explain.accepted && { at: explain.accepted, item: item("good", "accepted", explain.accepted, `from ${plain(explain.dispatched_by ?? "?")}${explain.plan ? `, wanted by the plan ${plain(explain.plan)}` : ""}`) },
      ...history.events.map((event) => ({ at: event.at, item: item(TONES[event.kind] ?? "warn", event.kind, event.at, eventText({ ...event, key: null, key64: null, count: event.count > 1 ? event.count : 0 })) })),
    ].filter(Boolean).sort((a, b) => (a.at < b.at ? -1 : 1));
    const tone = explain.state === null ? "" : STATES[explain.state];
    const lasting = explain.lasting_ms === null ? "" : `for ${brief(explain.lasting_ms)}`;
    items.push({ item: item(tone, explain.state ?? "no such job now", null, [lasting, explain.owner && ` on worker ${explain.owner.worker} of ${plain(explain.owner.node ?? "?")}, with token ${explain.owner.token}`]) });
    return [h("ol", { class: "timeline" }, items.map(({ item }) => item)),
      h("p", { class: "note acting" }, "Events of many jobs name only 8 of them.", history.noted_since ? ` Noted since ${clock(history.noted_since)}.` : "")];
  };
}

function factsPanel(key) {
  return async (signal) => {
    const [job, chain] = await Promise.all([
      ask(`job?${query(keyed(key))}`, { signal }).catch((problem) => { if (problem.status === 404) return null; throw problem; }),
      ask(`ring?${query(keyed(key))}`, { signal }),
    ]);
    const places = chain.items.slice(0, 6).map((place) => `${short(place.worker)} (${plain(place.node ?? "?")})`).join(", then ");
    const rows = job === null ? [] : [
      ["State", stateOf(job.state)],
      ["Worker", job.worker === null ? "none" : `${job.worker} on ${plain(job.node ?? "?")}`],
      ["Token", String(job.token)],
      ["Attempts", String(job.attempts)],
      ["Error", job.error && h("span", { class: "bad" }, plain(job.error))],
      ["Next try", job.next_try && `in ${brief(Date.parse(job.next_try) - Date.now())}`],
      ["Payload", `generation ${job.generation}`],
      ["Plan", job.plan && plain(job.plan)],
      ["Dispatch", h("span", { class: "key" }, plain(job.id))],
      ["Accepted", `${ago(job.created)} ago`],
    ];
    rows.push(["Its chain", places || "no worker is up"]);
    return h("dl", { class: "facts" }, rows.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
  };
}

export function viewJob(main, params) {
  const key = { key: params.get("key"), key64: params.get("key64") };
  if (key.key === null && key.key64 === null) return;
  const verdict = new Panel("Verdict", verdictPanel(key), { cls: "whole" });
  const facts = new Panel("Now", factsPanel(key));
  const life = new Panel("Its life", timelinePanel(key));
  const payload = h("section", { class: "panel whole", hidden: true }, h("h2", {}, "Payload"));
  const show = h("button", { type: "button", onclick: async () => {
    try {
      const { payload: found } = await ask(`job/payload?${query(keyed(key))}`);
      const text = found.text ?? found.base64 ?? JSON.stringify(found.json, null, 2);
      show.replaceWith(h("pre", { tabindex: 0 }, text.split("\n").map(plain).join("\n")));
    } catch (problem) {
      told(plain(problem.message), "bad");
    }
  } }, "Show the payload");
  payload.append(show);
  main.append(h("h2", { class: "wrap" }, "Job ", h("span", { class: "key" }, nameOf(key))), h("div", { class: "job" }, verdict.element, life.element, facts.element, payload));
  return { tick: () => { payload.hidden = !(state.pool?.shows_payloads && may()); } };
}
