// A new job.

import { ask } from "./ask.js";
import { confirmOf, dialog } from "./dialog.js";
import { $, h } from "./elements.js";
import { count, plain, query } from "./words.js";

const AGAIN = { never: "never", "on-failure": "after a failure", always: "always" };

/** Asks for a new job, and for a yes. */
export function dispatchForm({ key = "", payload = "", policy = "never" } = {}) {
  const name = h("input", { name: "key", value: key, required: true, maxlength: 512, autocomplete: "off", spellcheck: "false" });
  const bytes = h("textarea", { name: "payload", spellcheck: "false" }, payload);
  const again = h("select", { name: "policy" }, Object.entries(AGAIN).map(([word, text]) => h("option", { value: word, selected: word === policy }, text)));
  dialog("Dispatch a job", h("form", {
    onsubmit: (event) => {
      event.preventDefault();
      const given = { key: name.value, payload: bytes.value, policy: again.value };
      const size = new TextEncoder().encode(given.payload).length;
      $("dialog").close();
      // A second try, whose first one had no answer, dispatches no second job.
      const id = `page-${Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
      confirmOf({
        title: `Dispatch ${plain(given.key)}?`,
        text: `It starts with a payload of ${count(size)} bytes. It runs again: ${AGAIN[given.policy]}.`,
        word: "Dispatch",
        back: () => dispatchForm(given),
        act: async () => {
          await ask("job/dispatch", { body: { ...given, id } });
          location.hash = `#/job?${query({ key: given.key })}`;
          return `${plain(given.key)} has started.`;
        },
      });
    },
  },
  h("label", {}, "Key", name),
  h("label", {}, "Payload", bytes),
  h("label", {}, "Run it again", again),
  h("div", { class: "row" }, h("button", { type: "button", onclick: () => $("dialog").close() }, "Cancel"), h("button", { class: "main" }, "Go on"))));
  name.focus();
}
