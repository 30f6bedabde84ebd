// Dialogs, and the buttons that open one.

import { told } from "./alerts.js";
import { $, h } from "./elements.js";
import { refresh } from "./panel.js";
import { plain } from "./words.js";

export function dialog(title, ...content) {
  const box = $("dialog");
  box.replaceChildren(h("h2", { id: "dialog-title" }, title), ...content);
  // A key that is held down has opened it, and must not answer it.
  box.onkeydown = (event) => { if (event.repeat && event.key === "Enter") event.preventDefault(); };
  box.showModal();
  return box;
}

/** Asks for a yes, and for what the fields hold. */
export function confirmOf({ title, text, fields = [], danger, word, act, back }) {
  const inputs = fields.map(({ name, value = "", hint = "" }) => h("input", { name, value, placeholder: hint, maxlength: 500, autocomplete: "off" }));
  const failed = h("p", { class: "failed", role: "alert" });
  const go = h("button", { class: danger ? "danger" : "main" }, word);
  const cancel = h("button", { type: "button", onclick: () => { $("dialog").close(); back?.(); } }, back ? "Back" : "Cancel");
  const submit = async (event) => {
    event.preventDefault();
    go.disabled = true;
    failed.textContent = "";
    try {
      told(await act(...inputs.map((input) => input.value)));
      $("dialog").close();
      refresh();
    } catch (problem) {
      failed.textContent = plain(problem.message);
      go.disabled = false;
    }
  };
  dialog(title, h("form", { onsubmit: submit },
    text && h("p", {}, text),
    fields.map(({ label }, place) => h("label", {}, label, inputs[place])),
    failed,
    h("div", { class: "row" }, cancel, go)));
  (inputs[0] ?? (danger ? cancel : go)).focus();
}

/** A button that asks for a yes before it acts. `id` tells it from others of its name. */
export function act(word, id, options, cls = "") {
  return h("button", { type: "button", class: `small ${cls}`, "data-id": `${word}-${id}`, onclick: () => confirmOf({ word, ...options }) }, word);
}
