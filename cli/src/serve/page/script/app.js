// The page of `tenure serve`: its views, and its clock.

import { alertOf } from "./alerts.js";
import { $ } from "./elements.js";
import { forgetEvents, stream } from "./events.js";
import { loadPool } from "./head.js";
import { REFRESH, panels, refresh } from "./panel.js";
import { needToken, offerToken, signInOrOut } from "./sign-in.js";
import { hear, keepToken, state } from "./state.js";
import { viewEvents } from "./view-events.js";
import { viewJob } from "./view-job.js";
import { viewJobs } from "./view-jobs.js";
import { viewParked } from "./view-parked.js";
import { viewPool } from "./view-pool.js";
import { viewQueues } from "./view-queues.js";
import { plain, query } from "./words.js";

const VIEWS = { "/": viewPool, "/jobs": viewJobs, "/job": viewJob, "/parked": viewParked, "/events": viewEvents, "/queues": viewQueues };
/** What is shown now. It ends with its abort. */
let view = { abort: new AbortController() };
/** When the head of the page is read again. */
let due = 0;

/** Shows the view that the address names. */
function open() {
  if (location.hash.startsWith("#token=")) {
    const given = location.hash.slice(7);
    history.replaceState(null, "", location.pathname + location.search);
    // A link of somebody else must not make the visitor act under that name.
    if (state.token && state.token !== given) offerToken(given);
    else keepToken(given);
  }
  const [path, params] = (location.hash.slice(1) || "/").split("?");
  view.abort.abort();
  panels.clear();
  view = { abort: new AbortController() };
  const main = $("main");
  main.replaceChildren();
  const draw = VIEWS[path] ?? viewPool;
  view.extra = draw(main, new URLSearchParams(params ?? ""), view.abort.signal);
  for (const link of document.querySelectorAll("nav a")) {
    const own = link.getAttribute("href") === `#${path}` || (path === "/job" && link.getAttribute("href") === "#/jobs");
    if (own) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  $("what").value = "";
  view.extra?.tick?.();
  refresh();
}

/** Reads what is due, while somebody looks. */
async function beat() {
  if (document.hidden || $("dialog").open) return;
  stream.start();
  const [now, { signal }] = [Date.now(), view.abort];
  if (due <= now) {
    due = now + REFRESH;
    try {
      await loadPool(signal);
      alertOf("reach", null);
    } catch (problem) {
      if (signal.aborted) return;
      alertOf("reach", `Not up to date: ${plain(problem.message)}.`, "bad");
    }
    view.extra?.tick?.();
  }
  if (!state.pool) return;
  for (const panel of panels) if (panel.due <= now) panel.run(signal);
}

$("token").addEventListener("click", signInOrOut);
$("find").addEventListener("submit", (event) => {
  event.preventDefault();
  location.hash = `#/jobs?${query({ match: $("what").value.trim() })}`;
});
addEventListener("hashchange", () => {
  open();
  $("main").focus({ preventScroll: true });
  scrollTo(0, 0);
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) stream.stop();
  else refresh();
});
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea, dialog");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    $("what").focus();
  }
});

hear("refused", needToken);
hear("due", () => {
  due = 0;
  beat();
});
hear("token", () => {
  stream.stop();
  // Nobody sees what only the token's holder may.
  if (!state.token) {
    state.pool = null;
    forgetEvents();
    open();
  }
  refresh();
});
setInterval(beat, 500);
open();
