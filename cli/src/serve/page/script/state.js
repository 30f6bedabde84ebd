// All that the page knows, and word of its changes.

// Two pools may have one host.
const KEPT = `tenure-token ${location.pathname}`;

/** `pool` is the last answer about the pool, or null. */
export const state = { pool: null, token: sessionStorage.getItem(KEPT) };

/** Takes this token from now on, in this tab alone. */
export function keepToken(given) {
  state.token = given || null;
  if (state.token) sessionStorage.setItem(KEPT, state.token);
  else sessionStorage.removeItem(KEPT);
}

/** Whether the one who looks may change something. */
export const may = () => state.pool?.you.may_operate;

const changes = new EventTarget();
/** Gives word: a request was `refused` for want of a token, there is another `token`, there are more `events`, or all is `due`. */
export const tell = (name, detail) => changes.dispatchEvent(new CustomEvent(name, { detail }));
export const hear = (name, act) => changes.addEventListener(name, (event) => act(event.detail));
