// The head of the page: the pool, its phase, and who looks.

import { alertOf } from "./alerts.js";
import { ask } from "./ask.js";
import { act } from "./dialog.js";
import { $ } from "./elements.js";
import { state } from "./state.js";
import { count, plain } from "./words.js";

export async function loadPool(signal) {
  const pool = await ask("pool", { signal });
  state.pool = pool;
  const { jobs, phase, you } = pool;
  document.title = `${pool.pool} · Tenure`;
  $("name").textContent = plain(pool.pool);
  const chip = $("phase");
  chip.hidden = false;
  chip.textContent = pool.on_hold ? "on hold" : phase;
  chip.className = `chip ${phase !== "open" ? "bad" : pool.on_hold ? "warn" : "good"}`;
  $("token").textContent = you.may_operate ? `${you.name ?? ""} may operate` : you.read_only ? "Read only" : you.name ? `${you.name}: view only` : "View only";
  $("token").disabled = you.read_only;
  $("parked-count").hidden = jobs.parked === 0;
  $("parked-count").textContent = count(jobs.parked);
  $("queues-tab").hidden = pool.queues.length === 0;
  $("about").textContent = `tenure ${pool.version}`;
  alertOf("phase", phase === "open" ? null : `The pool is ${phase}: nothing starts.`, "bad");
  const lift = you.may_operate && act("Lift the hold", "pool", { title: "Lift the hold?", text: "Jobs start again.", act: async () => {
    await ask("pool/unhold", { body: {} });
    return "The hold is lifted.";
  } });
  alertOf("hold", pool.on_hold ? "The pool is on hold: it accepts jobs and starts none." : null, "", lift || null);
}
