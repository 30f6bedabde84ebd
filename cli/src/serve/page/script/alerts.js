// Alerts: what concerns every view.

import { $, h } from "./elements.js";

const alerts = new Map();
export function alertOf(id, text, tone = "", act = null) {
  const before = alerts.get(id);
  // The same one stays, with what has the focus in it.
  if ((before?.text === text && !before?.act === !act) || (!before && !text)) return;
  if (text) alerts.set(id, { text, tone, act });
  else alerts.delete(id);
  $("alerts").replaceChildren(...[...alerts.values()].map(({ text, tone, act }) => h("p", { class: `alert ${tone}` }, text, " ", act)));
}
export function told(text, tone = "good") {
  alertOf("told", text, tone);
  clearTimeout(told.timer);
  told.timer = setTimeout(() => alertOf("told", null), 8_000);
}
