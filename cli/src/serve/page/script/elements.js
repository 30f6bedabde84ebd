// Elements of the page. A text in them stays a text, whatever it says.

const SVG = "http://www.w3.org/2000/svg";
export const $ = (id) => document.getElementById(id);

function make(space, name, props, children) {
  const made = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "width%") made.style.width = `${Math.min(100, Math.max(0, value))}%`;
    else if (key === "left%") made.style.left = `${Math.min(100, Math.max(0, value))}%`;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}
export const h = (name, props, ...children) => make(null, name, props, children);
export const s = (name, props, ...children) => make(SVG, name, props, children);

/** Puts other content in its place. The focus stays on what has the same id. */
export function replace(body, content) {
  const focused = body.contains(document.activeElement) ? document.activeElement.dataset.id : null;
  body.replaceChildren(...[content].flat(2).filter(Boolean));
  if (focused) body.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

export function table(heads, rows) {
  const head = h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col", class: head.number && "number" }, head.name ?? head))));
  return h("table", {}, head, h("tbody", {}, rows));
}
export const cell = (label, content, props = {}) => {
  const none = content === null || content === undefined || content === "";
  return h("td", { "data-label": label, ...props, class: `${props.class ?? ""}${none ? " none" : ""}` }, none ? "" : h("span", {}, content));
};
