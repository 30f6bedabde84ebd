// The token that lets one look, or change something.

import { alertOf, told } from "./alerts.js";
import { dialog } from "./dialog.js";
import { $, h } from "./elements.js";
import { keepToken, state, tell } from "./state.js";
import { plain } from "./words.js";

/** The server wants a token, or another one than was sent. */
export function needToken({ problem, sent }) {
  if (sent && sent === state.token) {
    setToken("");
    alertOf("token", "The token is not known here any more.", "bad");
  } else if (!sent && !state.token && !$("dialog").open && !state.pool) {
    askToken(problem.detail);
  }
}

function askToken(why) {
  const input = h("input", { name: "token", type: "password", autocomplete: "off", required: true });
  dialog("Sign in", h("form", {
    onsubmit: (event) => {
      event.preventDefault();
      setToken(input.value.trim());
      $("dialog").close();
    },
  },
  h("p", {}, plain(why ?? "A token lets you change something.")),
  h("p", { class: "note" }, "tenure serve says at its start where a token is, unless it has a file of tokens. The token stays in this tab."),
  h("label", {}, "Token", input),
  h("div", { class: "row" }, h("button", { type: "button", onclick: () => $("dialog").close() }, "Cancel"), h("button", { class: "main" }, "Sign in"))));
}

/** A link has brought another token than the visitor's own. */
export function offerToken(given) {
  const take = h("button", { type: "button", class: "small", onclick: () => setToken(given) }, "Use the token of the link");
  alertOf("offer", "The link has another token than yours. Yours stays in use.", "", take);
}

function setToken(given) {
  keepToken(given);
  alertOf("token", null);
  alertOf("offer", null);
  tell("token");
}

/** Forgets the token, or asks for one. */
export function signInOrOut() {
  if (state.token) {
    setToken("");
    told("You look only, from now on.");
  } else {
    askToken();
  }
}
