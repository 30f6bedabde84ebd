// The page of `tenure serve`. Whatever comes from the pool becomes text, never markup. Each panel loads and fails alone.

const REFRESH = 2_000;
const HUES = 8;
const ROWS = 200;
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

// ---- Elements.

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
const h = (name, props, ...children) => make(null, name, props, children);
const s = (name, props, ...children) => make(SVG, name, props, children);

/** A foreign text: characters that cannot be seen, or that turn the text round, are escaped. */
function plain(text) {
  // eslint-disable-next-line no-control-regex
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (c) =>
    `\\u{${c.codePointAt(0).toString(16)}}`);
}
const count = (number) => Number(number).toLocaleString("en");
const nameOf = (job) => (job.key !== null && job.key !== undefined ? plain(job.key) : `base64:${job.key64}`);
const query = (params) => new URLSearchParams(Object.entries(params).filter(([, value]) => value)).toString();
const keyed = (job) => (job.key !== null && job.key !== undefined ? { key: job.key } : { key64: job.key64 });
const linkTo = (job) => h("a", { class: "key", href: `#/job?${query(keyed(job))}`, "data-id": `key-${nameOf(job)}` }, nameOf(job));

/** The end of a number that is long: those of workers that joined together differ there. */
const short = (worker) => (String(worker).length > 6 ? `…${String(worker).slice(-4)}` : String(worker));

/** A length of time in its two largest units. */
function brief(ms) {
  const sec = Math.floor(ms / 1000);
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (sec < 60) return `${sec} s`;
  if (sec < 3600) return `${Math.floor(sec / 60)} min ${sec % 60} s`;
  if (sec < 86400) return `${Math.floor(sec / 3600)} h ${Math.floor(sec / 60) % 60} min`;
  return `${Math.floor(sec / 86400)} d ${Math.floor(sec / 3600) % 24} h`;
}
const ago = (time) => brief(Date.now() - Date.parse(time));
const clock = (time) => new Date(time).toLocaleTimeString("en-GB");
const timeOf = (time) => h("time", { datetime: time, title: time }, clock(time));

// ---- The interface.

// Two pools may have one host.
const KEPT = `tenure-token ${location.pathname}`;
let token = sessionStorage.getItem(KEPT);
let pool = null;

class Problem extends Error {
  constructor(problem) {
    super(problem.detail);
    this.name = problem.name;
    this.status = problem.status;
  }
}

async function ask(path, { body, signal } = {}) {
  const [headers, sent] = [{}, token];
  if (sent) headers.authorization = `Bearer ${sent}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const within = AbortSignal.timeout(65_000);
  let answer;
  try {
    answer = await fetch(`v1/${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, within]) : within,
      credentials: "omit",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem({ name: "unreachable", status: 0, detail: "the server does not answer" });
  }
  const said = await answer.json().catch(() => ({ name: "strange", detail: `status ${answer.status}` }));
  if (answer.ok) return said;
  if (answer.status === 401) needToken(said, sent);
  throw new Problem({ status: answer.status, ...said });
}

function needToken(problem, sent) {
  if (sent && sent === token) {
    setToken("");
    alertOf("token", "The token is not known here any more.", "bad");
  } else if (!sent && !token && !$("dialog").open && !pool) {
    askToken(problem.detail);
  }
}

// ---- Alerts: what concerns every view.

const alerts = new Map();
function alertOf(id, text, tone = "", act = null) {
  const before = alerts.get(id);
  // The same one stays, with what has the focus in it.
  if ((before?.text === text && !before?.act === !act) || (!before && !text)) return;
  if (text) alerts.set(id, { text, tone, act });
  else alerts.delete(id);
  $("alerts").replaceChildren(...[...alerts.values()].map(({ text, tone, act }) => h("p", { class: `alert ${tone}` }, text, " ", act)));
}
function told(text, tone = "good") {
  alertOf("told", text, tone);
  clearTimeout(told.timer);
  told.timer = setTimeout(() => alertOf("told", null), 8_000);
}

// ---- Dialogs.

function dialog(title, ...content) {
  const box = $("dialog");
  box.replaceChildren(h("h2", { id: "dialog-title" }, title), ...content);
  // A key that is held down has opened it, and must not answer it.
  box.onkeydown = (event) => { if (event.repeat && event.key === "Enter") event.preventDefault(); };
  box.showModal();
  return box;
}

/** A length of time in ms, from words such as 30m or 1d 12h. None if there are no words. */
function lengthOf(words) {
  if (!words?.trim()) return undefined;
  const units = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
  const isOne = /^\s*(\d+\s*[smhdw]\s*)+$/i.test(words);
  const parts = [...words.matchAll(/(\d+)\s*([smhdw])/gi)].map(([, number, unit]) => Number(number) * units[unit.toLowerCase()]);
  const ms = parts.reduce((all, part) => all + part, 0);
  if (!isOne || ms === 0 || !Number.isSafeInteger(ms)) throw new Error(`${words} is no length of time. Write 30m, 2h or 1d 12h.`);
  return ms;
}

/** Asks for a yes, and for what the fields hold. */
function confirmOf({ title, text, fields = [], danger, word, act, back }) {
  const inputs = fields.map(({ name, value = "", hint = "" }) => h("input", { name, value, placeholder: hint, maxlength: 500, autocomplete: "off" }));
  const failed = h("p", { class: "failed", role: "alert" });
  const go = h("button", { class: danger ? "danger" : "main" }, word);
  const cancel = h("button", { type: "button", onclick: () => { $("dialog").close(); back?.(); } }, back ? "Back" : "Cancel");
  const submit = async (event) => {
    event.preventDefault();
    go.disabled = true;
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
  h("p", { class: "note" }, "tenure serve prints one when it starts, unless it has a file of tokens. The token stays in this tab."),
  h("label", {}, "Token", input),
  h("div", { class: "row" }, h("button", { type: "button", onclick: () => $("dialog").close() }, "Cancel"), h("button", { class: "main" }, "Sign in"))));
}

function setToken(given) {
  token = given || null;
  if (token) sessionStorage.setItem(KEPT, token);
  else sessionStorage.removeItem(KEPT);
  alertOf("token", null);
  stream.stop();
  if (!token) forget();
  refresh();
}

/** Nobody sees what only the token's holder may. */
function forget() {
  [pool, reach, events] = [null, null, []];
  seen.clear();
  open();
}

// ---- Panels: each loads by itself, and keeps its picture where it fails.

const panels = new Set();
class Panel {
  constructor(title, load, { every = REFRESH, cls = "" } = {}) {
    this.load = load;
    this.every = every;
    this.note = h("small");
    this.failed = h("p", { class: "failed", hidden: true });
    this.body = h("div", {}, h("p", { class: "note" }, "Loading…"));
    const id = `panel-${title.toLowerCase().replace(/\W+/g, "-")}`;
    this.element = h("section", { class: `panel ${cls}`, "aria-labelledby": id }, h("h2", { id }, title, this.note), this.failed, this.body);
    this.due = 0;
    panels.add(this);
  }

  async run(signal) {
    if (this.runs) return;
    this.runs = true;
    this.due = Infinity;
    try {
      const shown = await this.load(signal, this);
      if (signal.aborted) return;
      if (shown) replace(this.body, shown);
      this.failed.hidden = true;
    } catch (problem) {
      if (signal.aborted) return;
      this.failed.hidden = false;
      this.failed.textContent = `Not up to date: ${plain(problem.message)}`;
    } finally {
      this.runs = false;
    }
    if (this.due === Infinity) this.due = Date.now() + this.every;
  }
}

/** Puts other content in its place. The focus stays on what has the same id. */
function replace(body, content) {
  const focused = body.contains(document.activeElement) ? document.activeElement.dataset.id : null;
  body.replaceChildren(...[content].flat(2).filter(Boolean));
  if (focused) body.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

function table(heads, rows) {
  const head = h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col", class: head.number && "number" }, head.name ?? head))));
  return h("table", {}, head, h("tbody", {}, rows));
}
const cell = (label, content, props = {}) => {
  const none = content === null || content === undefined || content === "";
  return h("td", { "data-label": label, ...props, class: `${props.class ?? ""}${none ? " none" : ""}` }, none ? "" : h("span", {}, content));
};

function act(word, id, options, cls = "") {
  return h("button", { type: "button", class: `small ${cls}`, "data-id": `${word}-${id}`, onclick: () => confirmOf({ word, ...options }) }, word);
}
const may = () => pool?.you.may_operate;

// ---- The pool.

const hues = new Map();
const ofNodes = new Map();
/** The colour of a worker: its node's, which the node keeps, and a lighter one for every other worker of it. */
function colours(workers) {
  const nodes = [...new Set(workers.map((worker) => worker.node))].sort();
  for (const node of ofNodes.keys()) if (!nodes.includes(node)) ofNodes.delete(node);
  hues.clear();
  for (const [at, node] of nodes.entries()) {
    if (!ofNodes.has(node)) {
      const taken = new Set(ofNodes.values());
      ofNodes.set(node, Array.from({ length: HUES }, (_, hue) => hue).find((hue) => !taken.has(hue)) ?? at % HUES);
    }
    const own = workers.filter((worker) => worker.node === node);
    for (const [turn, worker] of own.entries()) hues.set(`${worker.shard}:${worker.worker}`, { hue: ofNodes.get(node), second: turn % 2 === 1 });
  }
}
const hueOf = (shard, worker) => hues.get(`${shard}:${worker}`) ?? { hue: 0, second: true };

async function loadPool(signal) {
  pool = await ask("pool", { signal });
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

function tiles() {
  const { jobs, workers } = pool;
  const tile = (name, value, note, { href, tone } = {}) =>
    h(href ? "a" : "div", { class: "tile", href }, h("dl", {}, h("dt", {}, name), h("dd", { class: tone }, value, note && h("small", {}, note))));
  const rest = [workers.standby && `${workers.standby} standing by`, workers.draining && `${workers.draining} draining`].filter(Boolean);
  return [
    tile("Jobs", count(jobs.all), `${count(jobs.owned)} have a worker`, { href: "#/jobs" }),
    tile("Waiting", count(jobs.waiting), `${count(jobs.queued)} never begun`, { href: "#/jobs?state=queued", tone: jobs.waiting > 0 && "warn" }),
    tile("Oldest new job", jobs.oldest_queued_ms === null ? "–" : brief(jobs.oldest_queued_ms), "waits for its first start", { tone: jobs.oldest_queued_ms > 60_000 && "bad" }),
    tile("Parked or paused", count(jobs.parked), "wait for an operator", { href: "#/parked", tone: jobs.parked > 0 && "warn" }),
    tile("Workers", count(workers.up), rest.join(", ") || "in the ring", { tone: workers.up === 0 && "bad" }),
  ];
}

/** A number from 0 to 1 that a text always has. */
function spot(text, salt) {
  let mixed = 2166136261 ^ salt;
  for (let at = 0; at < text.length; at += 1) mixed = Math.imul(mixed ^ text.charCodeAt(at), 16777619);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 2246822507);
  return ((mixed ^ (mixed >>> 13)) >>> 0) / 4294967296;
}
const at = (angle, radius) => [160 + radius * Math.sin(angle), 160 - radius * Math.cos(angle)].map((n) => n.toFixed(1));
function arc(from, to, inner, outer) {
  const large = to - from > Math.PI ? 1 : 0;
  const [a, b, c, d] = [at(from, outer), at(to, outer), at(to, inner), at(from, inner)];
  return `M${a}A${outer} ${outer} 0 ${large} 1 ${b}L${c}A${inner} ${inner} 0 ${large} 0 ${d}Z`;
}

let shard = 0;
async function ringPanel(signal, panel) {
  const [ring, keys, workers] = await Promise.all([ask("ring", { signal }), ask("ring/keys", { signal }), ask("workers", { signal })]);
  colours(workers.items);
  const slots = ring.items.filter((place) => place.shard === shard);
  const turn = (2 * Math.PI) / Math.max(1, slots.length);
  const gap = slots.length > 1 ? Math.min(0.02, turn / 8) : 0.0001;
  const arcs = slots.map(({ place, worker, node }) => {
    const { hue, second } = hueOf(shard, worker);
    const cls = worker === null ? "hole" : `fill${hue} ${second ? "second" : ""}`;
    const title = worker === null ? `slot ${place}: a hole, its keys belong to the others` : `slot ${place}: worker ${worker} of ${plain(node)}`;
    const label = slots.length <= 32 && worker !== null;
    const [x, y] = at((place + 0.5) * turn, 144);
    const anchor = Math.abs(x - 160) < 12 ? "middle" : x < 160 ? "end" : "start";
    return [
      s("path", { class: cls, d: arc(place * turn + gap, (place + 1) * turn - gap, 116, 138) }, s("title", {}, title)),
      label && s("text", { x, y, "text-anchor": anchor, "dominant-baseline": "central", class: "faint" }, short(worker).replace("…", "")),
    ];
  });
  const slotOf = new Map(slots.filter((place) => place.worker !== null).map(({ place, worker }) => [worker, place]));
  const shown = keys.items.filter((key) => key.shard === shard);
  const dots = shown.map((key) => {
    const name = nameOf(key);
    const slot = slotOf.get(key.worker);
    const lost = slot === undefined;
    const angle = lost ? spot(name, 1) * 2 * Math.PI : (slot + 0.08 + 0.84 * spot(name, 1)) * turn;
    const radius = lost ? 26 * Math.sqrt(spot(name, 2)) : Math.sqrt(46 ** 2 + (107 ** 2 - 46 ** 2) * spot(name, 2));
    const [cx, cy] = at(angle, radius);
    const { hue, second } = hueOf(shard, key.worker);
    const cls = key.state === "parked" ? "parked" : key.state !== "running" ? "waits" : `fill${hue} ${second ? "second" : ""}`;
    const open = () => { location.hash = `#/job?${query(keyed(key))}`; };
    return s("circle", { class: `dot ${cls}`, cx, cy, r: shown.length > 250 ? 2.6 : 3.6, onclick: open }, s("title", {}, `${name}, ${key.state}${key.worker === null ? "" : `, worker ${key.worker}`}`));
  });
  const holes = slots.filter((place) => place.worker === null).length;
  panel.note.textContent = `${slots.length} slots${holes ? `, ${holes} of them holes` : ""}`;
  const shards = Math.max(...ring.items.map((place) => place.shard), 0) + 1;
  const nodes = [...new Map(workers.items.map((worker) => [worker.node, hueOf(worker.shard, worker.worker).hue]))];
  return [
    shards > 1 && h("label", { class: "note" }, "Shard ", h("select", { "data-id": "shard", onchange: (event) => { shard = Number(event.target.value); refresh(); } },
      Array.from({ length: shards }, (_, number) => h("option", { value: number, selected: number === shard }, number)))),
    s("svg", { viewBox: "-14 4 348 312", role: "img", "aria-label": `A ring of ${slots.length} slots with ${shown.length} keys on their workers. The list of workers has the figures.` }, arcs, dots),
    h("p", { class: "legend" }, nodes.slice(0, 12).map(([node, hue]) => h("span", {}, h("span", { class: `swatch back${hue}` }), plain(node)))),
    h("p", { class: "note" }, shown.length < keys.all ? `A sample of ${count(shown.length)} of ${count(keys.all)} keys. ` : `All ${count(keys.all)} keys. `, "In the middle are those without a worker in the ring."),
  ];
}

function lease(worker) {
  if (worker.renewed_ms === null) return "not yet";
  const left = 100 - (100 * worker.renewed_ms) / pool.worker_ttl_ms;
  const tone = left > 60 ? "good" : left > 40 ? "warn" : "bad";
  return [h("span", { class: "meter short" }, h("i", { class: tone, "width%": left })), ` ${brief(worker.renewed_ms)} ago`];
}

function stateChip(worker) {
  const tone = { up: "good", standby: "warn", draining: "warn" }[worker.state] ?? "warn";
  return h("span", { class: `chip ${tone}` }, worker.state);
}

function nodeActs(node) {
  if (!may()) return "";
  const jobs = `${count(node.jobs)} jobs`;
  const cordon = node.cordoned
    ? act("Uncordon", node.node, { title: `Uncordon ${plain(node.node)}?`, text: "It gets new jobs again.", act: async () => {
      await ask("nodes/uncordon", { body: { node: node.node } });
      return `${plain(node.node)} is not cordoned any more.`;
    } })
    : act("Cordon", node.node, { title: `Cordon ${plain(node.node)}?`, text: `It keeps its ${jobs} and gets no other.`, act: async () => {
      await ask("nodes/cordon", { body: { node: node.node } });
      return `${plain(node.node)} is cordoned.`;
    } });
  const drain = act("Drain", node.node, { title: `Drain ${plain(node.node)}?`, danger: true, text: `Its ${node.workers} workers hand on ${jobs} and leave for good. This cannot be taken back.`, act: async () => {
    await ask("workers/drain", { body: { node: node.node } });
    return `${plain(node.node)} drains.`;
  } }, "danger");
  return [cordon, drain];
}

async function workersPanel(signal, panel) {
  const [workers, nodes] = await Promise.all([ask("workers", { signal }), ask("nodes", { signal })]);
  colours(workers.items);
  const up = workers.items.filter((worker) => worker.state === "up");
  const even = 100 / Math.max(1, up.length);
  const most = Math.max(even * 1.5, ...workers.items.map((worker) => worker.share_percent ?? 0), 1);
  panel.note.textContent = `${nodes.items.length} nodes, ${workers.items.length} workers; the mark is an even share`;
  const rows = [];
  for (const node of nodes.items) {
    if (rows.length > ROWS) break;
    const facts = [node.host, node.pid && `pid ${node.pid}`, node.version && `v${node.version}`, node.up_ms !== null && `for ${brief(node.up_ms)}`].filter(Boolean).map(plain).join(" · ");
    rows.push(h("tr", { class: "node" }, h("th", { scope: "rowgroup", colspan: 5 }, plain(node.node), node.cordoned && [" ", h("span", { class: "chip warn" }, "cordoned")], h("span", { class: "note" }, " ", facts)), h("td", { class: "acts" }, nodeActs(node))));
    for (const worker of workers.items.filter((worker) => worker.node === node.node)) {
      const { hue, second } = hueOf(worker.shard, worker.worker);
      const id = `${worker.shard > 0 ? `${worker.shard}:` : ""}${worker.worker}`;
      rows.push(h("tr", {},
        cell("Worker", [h("span", { class: `swatch back${hue} ${second ? "second" : ""}` }), h("a", { href: `#/jobs?${query({ worker: id })}`, title: `worker ${id}`, "data-id": `worker-${id}` }, short(id))]),
        cell("State", stateChip(worker)),
        cell("Jobs", worker.jobs === null ? "–" : count(worker.jobs), { class: "number" }),
        cell("Share", worker.share_percent !== null && [h("span", { class: "meter" }, h("i", { class: `back${hue}`, "width%": (100 * worker.share_percent) / most }), h("b", { "left%": (100 * even) / most })), ` ${worker.share_percent} %`]),
        cell("Lease", lease(worker)),
        cell("Trouble", worker.trouble && h("span", { class: "bad" }, plain(worker.trouble)))));
    }
  }
  if (rows.length === 0) return h("p", { class: "note" }, "There is no worker. Start one: tenure work, tenure host, or a program with the library.");
  return [
    table(["Worker", "State", { name: "Jobs", number: true }, "Share", "Lease renewed", "Trouble"], rows),
    rows.length > ROWS && h("p", { class: "note" }, "The list ends here. tenure workers has all."),
  ];
}

async function drainsPanel(signal) {
  const { items } = await ask("drains", { signal });
  if (items.length === 0) return h("p", { class: "note" }, "Nothing drains, and nothing has drained while somebody looked.");
  return table(["Worker", "Node", "Progress", "Left"], items.slice(0, 20).map((drain) => {
    const done = drain.jobs_first === 0 ? 100 : (100 * (drain.jobs_first - drain.jobs_left)) / drain.jobs_first;
    const left = drain.gone ? `gone at ${clock(drain.seen_last)}` : drain.left_ms === null ? `${count(drain.jobs_left)} jobs` : `${count(drain.jobs_left)} jobs, about ${brief(drain.left_ms)}`;
    return h("tr", {}, cell("Worker", short(drain.worker), { title: String(drain.worker) }), cell("Node", plain(drain.node)),
      cell("Progress", [h("span", { class: "meter", role: "img", "aria-label": `${Math.round(done)} percent` }, h("i", { class: drain.gone ? "good" : "warn", "width%": done })), ` ${count(drain.jobs_first - drain.jobs_left)} of ${count(drain.jobs_first)}`]),
      cell("Left", left));
  }));
}

const WHY = { moved: "moved by the ring", drained: "their worker left", lost: "their worker was lost", failed: "failed", refused: "refused, or full", bounced: "bounced", updated: "updated" };
async function movesPanel(signal, panel) {
  const moves = await ask("moves", { signal });
  panel.note.textContent = moves.noted_since ? `noted since ${clock(moves.noted_since)}` : "";
  if (moves.jobs === 0) return h("p", { class: "note" }, "No job has left its worker in the last hour.");
  const most = Math.max(...moves.minutes);
  const bars = moves.minutes.map((jobs, minute) => jobs > 0 && s("rect", { x: minute * 5 + 0.5, y: 60 - Math.max(2, (58 * jobs) / most), width: 4, height: Math.max(2, (58 * jobs) / most), rx: 1 }, s("title", {}, `${count(jobs)} jobs, ${59 - minute} minutes ago`)));
  return [
    h("p", {}, h("strong", {}, count(moves.jobs)), " jobs have left their workers: ", moves.why.map(({ why, jobs }) => `${WHY[why] ?? why.replaceAll("_", " ")} (${count(jobs)})`).join(", "), "."),
    s("svg", { class: "bars", viewBox: "0 0 300 76", role: "img", "aria-label": `Jobs that moved in each of the last 60 minutes; at most ${most} in one` }, bars, s("line", { x1: 0, x2: 300, y1: 60.5, y2: 60.5 }),
      s("text", { x: 0, y: 73, class: "faint" }, "an hour ago"), s("text", { x: 300, y: 73, "text-anchor": "end", class: "faint" }, "now")),
    moves.from.length > 0 && h("p", { class: "note below" }, "From ", moves.from.slice(0, 6).map(({ worker, jobs }) => `worker ${short(worker)}: ${count(jobs)}`).join(", "), "."),
  ];
}

// ---- Events: a stream while the page is seen.

const TONES = { paused: "warn", failed: "bad", parked: "bad", lost: "bad", fenced: "bad", damaged: "bad", stuck: "warn", opening: "warn", reported: "warn", joined: "good", open: "good" };
let events = [];
let reach = null;
const seen = new Set();

function addEvents(found) {
  for (const event of found) {
    const mark = JSON.stringify(event);
    if (!seen.has(mark)) {
      seen.add(mark);
      events.push(event);
    }
  }
  events.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  for (const event of events.splice(0, Math.max(0, events.length - 1000))) seen.delete(JSON.stringify(event));
  for (const panel of panels) if (panel.ofEvents) panel.due = 0;
}

async function loadEvents() {
  const found = await ask("events?limit=500");
  reach = found;
  addEvents(found.items);
}

const stream = {
  abort: null,
  last: null,
  state: "off",
  start() {
    if (this.abort || document.hidden) return;
    this.abort = new AbortController();
    this.read(this.abort.signal);
  },
  stop() {
    this.abort?.abort();
    this.abort = null;
    this.state = "off";
  },
  async read(signal) {
    for (let pause = 1_000; !signal.aborted; pause = Math.min(30_000, pause * 2)) {
      try {
        const headers = token ? { authorization: `Bearer ${token}` } : {};
        if (this.last) headers["last-event-id"] = this.last;
        const answer = await fetch("v1/events/stream", { headers, signal, credentials: "omit" });
        if (!answer.ok) throw new Error(String(answer.status));
        this.state = "live";
        let text = "";
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
          pause = 1_000;
          const blocks = (text + piece.value).split("\n\n");
          text = blocks.pop();
          for (const block of blocks) this.take(block);
        }
      } catch {
        this.state = "off";
        if (!signal.aborted) loadEvents().catch(() => {});
      }
      await new Promise((done) => setTimeout(done, pause));
    }
  },
  take(block) {
    const field = (name) => block.split("\n").find((line) => line.startsWith(`${name}: `) || line.startsWith(`${name}:`))?.replace(/^\w+: ?/, "");
    const id = field("id");
    if (id) this.last = id;
    const kind = field("event");
    if (kind === "ready" || kind === "resync") loadEvents().catch(() => {});
    if (kind === "event") addEvents([JSON.parse(field("data"))]);
  },
};

function eventText(event) {
  const what = event.count > 1 || (event.count === 1 && !event.key && !event.key64) ? `${count(event.count)} jobs` : event.key || event.key64 ? linkTo(event) : null;
  const why = event.text ? plain(event.text) : event.why ? WHY[event.why] ?? event.why.replaceAll("_", " ") : "";
  const by = [event.worker !== null && `worker ${short(event.worker)}`, plain(event.node)].filter(Boolean).join(", ");
  return [what, what && why ? ", " : "", why, h("span", { class: "note" }, ` (${by})`)];
}

const eventItem = (event) => h("li", {}, timeOf(event.at), h("span", { class: TONES[event.kind] ?? "" }, event.kind), h("span", {}, eventText(event)));

function eventsPanel(most, filter = () => true) {
  return async (_, panel) => {
    panel.note.textContent = `${stream.state === "live" ? "live" : "not live"}${reach?.noted_since ? `, noted since ${clock(reach.noted_since)}` : ""}${reach?.dropped ? `, ${reach.dropped} were dropped` : ""}`;
    const found = events.filter(filter).slice(-most).reverse();
    return found.length > 0 ? h("ol", { class: "events" }, found.map(eventItem)) : h("p", { class: "note" }, reach ? "Nothing is noted." : "Not read yet.");
  };
}

function viewPool(main) {
  const counts = h("div", { class: "tiles" });
  const ring = new Panel("Ring", ringPanel, { cls: "ring", every: 4_000 });
  const workers = new Panel("Nodes and workers", workersPanel);
  const drains = new Panel("Drains", drainsPanel);
  const moves = new Panel("Moved in the last hour", movesPanel, { every: 4_000 });
  const last = new Panel("Events", eventsPanel(12));
  last.ofEvents = true;
  main.append(h("div", { class: "pool" }, counts,
    h("div", { class: "column" }, ring.element, moves.element),
    h("div", { class: "column" }, workers.element, drains.element, last.element)));
  return { tick: () => pool && replace(counts, tiles()) };
}

// ---- Jobs.

const STATES = { queued: "warn", assigned: "warn", running: "good", stopping: "warn", parked: "bad", paused: "warn" };
const stateOf = (state) => h("span", { class: `chip ${STATES[state] ?? ""}` }, state);

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

const AGAIN = { never: "never", "on-failure": "after a failure", always: "always" };

/** Asks for a new job, and for a yes. */
function dispatchForm({ key = "", payload = "", policy = "never" } = {}) {
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

function viewJobs(main, params) {
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
  let [cursor, scanned, signal] = [null, 0, view.signal];
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

// ---- One job.

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

function verdictPanel(key) {
  return async (signal, panel) => {
    const explain = await ask(`job/explain?${query(keyed(key))}`, { signal });
    panel.explain = explain;
    const [first, ...rest] = explain.text.split("\n").map((line) => plain(line.trim()));
    return [
      h("p", { class: "verdict" }, first),
      rest.map((line) => h("p", { class: "because" }, line)),
      explain.remedy && h("p", { class: "remedy" }, h("strong", {}, "To do: "), plain(explain.remedy)),
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

function viewJob(main, params) {
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
  return { tick: () => { payload.hidden = !(pool?.shows_payloads && may()); } };
}

// ---- Parked jobs.

const escaped = (text) => text.replace(/[*?[\]{}\\!]/g, "\\$&");

function viewParked(main) {
  const panel = new Panel("Parked jobs", async (signal, panel) => {
    let [items, next] = [[], ""];
    // Pages may be of paused jobs only.
    for (let page = 0; page < 8 && next !== null && items.length === 0; page += 1) {
      ({ items, next } = await ask(`parked?${query({ limit: 500, cursor: next })}`, { signal }));
    }
    panel.note.textContent = items.length === 0 ? "" : `${count(pool?.jobs.parked ?? items.length)}, grouped by their errors${next ? "; the first of them are shown" : ""}`;
    if (items.length === 0) return h("p", { class: "note" }, next ? "None of the first parked or paused jobs is parked." : "No job is parked.");
    const groups = new Map();
    for (const job of items) groups.set(job.error, [...(groups.get(job.error) ?? []), job]);
    return [...groups].sort(([, a], [, b]) => b.length - a.length).map(([error, jobs]) => h("div", { class: "group" },
      h("div", { class: "row" }, h("p", { class: "wrap" }, h("strong", {}, `${count(jobs.length)} × `), h("span", { class: "bad" }, plain(error))),
        may() && act("Retry all", error, { title: "Retry all with this error?", text: plain(error), act: async () => {
          let [retried, failed, body] = [0, 0, { error: escaped(error) }];
          while (body) {
            const done = await ask("parked/retry", { body });
            [retried, failed] = [retried + done.retried, failed + done.failed];
            // What fails again and again ends this, too.
            body = done.more && done.retried > 0 ? { error: escaped(error), ...(done.next && { cursor: done.next }) } : null;
          }
          return `${count(retried)} jobs are retried${failed ? `, ${count(failed)} could not be` : ""}.`;
        } })),
      table(["Key", "Parked for", "Attempts", ""], jobs.slice(0, 20).map((job) => h("tr", {}, h("th", { scope: "row" }, linkTo(job)), cell("Parked for", ago(job.since)), cell("Attempts", String(job.attempts)),
        h("td", { class: "acts" }, may() ? act("Retry", nameOf(job), { title: `Retry ${nameOf(job)}?`, text: "It begins now. Its attempts count from zero.", act: async () => {
          await ask("job/retry", { body: keyed(job) });
          return `${nameOf(job)} begins now.`;
        } }) : "")))),
      jobs.length > 20 && h("p", { class: "note" }, `and ${count(jobs.length - 20)} more`)));
  });
  main.append(panel.element);
}

// ---- Events and queues.

function viewEvents(main, params) {
  const kind = params.get("kind") ?? "";
  const select = h("select", { onchange: (event) => { location.hash = `#/events?${query({ kind: event.target.value })}`; } },
    ["", "failed", "parked", "paused", "moved", "lost", "fenced", "stuck", "joined", "left", "opening", "open", "reported", "damaged", "asked", "started", "ended"].map((word) => h("option", { value: word, selected: word === kind }, word || "all")));
  const panel = new Panel("Events", eventsPanel(300, (event) => !kind || event.kind === kind));
  panel.ofEvents = true;
  panel.element.insertBefore(h("p", { class: "row" }, h("label", {}, "Kind", select)), panel.body);
  main.append(panel.element);
}

function viewQueues(main) {
  let sets = [];
  const none = h("section", { class: "panel" }, h("p", { class: "note" }, "No set of queues is watched: tenure serve --queues SET shows one."));
  main.append(none);
  return { tick: () => {
    if (!pool || sets.join() === pool.queues.join()) return;
    sets = pool.queues;
    none.remove();
    for (const set of sets) {
      const panel = new Panel(`Queues of ${set}`, async (signal) => {
        const { items } = await ask(`queues?${query({ set })}`, { signal });
        if (items.length === 0) return h("p", { class: "note" }, "No queue was declared.");
        const heads = ["Ready", "Running", "Delayed", "Waiting", "Dead", "Done", "Failed"];
        return table(["Queue", ...heads.map((name) => ({ name, number: true }))], items.map((queue) => h("tr", {},
          h("th", { scope: "row" }, plain(queue.queue), queue.paused && [" ", h("span", { class: "chip warn" }, "paused")]),
          heads.map((head) => cell(head, h("span", { class: (head === "Dead" || head === "Failed") && queue[head.toLowerCase()] > 0 ? "bad" : "" }, count(queue[head.toLowerCase()])), { class: "number" })))));
      });
      main.append(panel.element);
    }
    refresh();
  } };
}

// ---- Views, and the clock of the page.

const VIEWS = { "/": viewPool, "/jobs": viewJobs, "/job": viewJob, "/parked": viewParked, "/events": viewEvents, "/queues": viewQueues };
let view = { abort: new AbortController(), signal: new AbortController().signal };
const headline = { due: 0 };

function open() {
  if (location.hash.startsWith("#token=")) {
    const given = location.hash.slice(7);
    history.replaceState(null, "", location.pathname + location.search);
    token = given;
    sessionStorage.setItem(KEPT, given);
  }
  const [path, params] = (location.hash.slice(1) || "/").split("?");
  view.abort.abort();
  panels.clear();
  const abort = new AbortController();
  view = { abort, signal: abort.signal };
  const main = $("main");
  main.replaceChildren();
  const draw = VIEWS[path] ?? viewPool;
  view.extra = draw(main, new URLSearchParams(params ?? ""));
  for (const link of document.querySelectorAll("nav a")) {
    const own = link.getAttribute("href") === `#${path}` || (path === "/job" && link.getAttribute("href") === "#/jobs");
    if (own) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  $("what").value = "";
  view.extra?.tick?.();
  refresh();
}

function refresh() {
  headline.due = 0;
  for (const panel of panels) panel.due = 0;
  beat();
}

async function beat() {
  if (document.hidden || $("dialog").open) return;
  stream.start();
  const [now, { signal }] = [Date.now(), view];
  if (headline.due <= now) {
    headline.due = now + REFRESH;
    try {
      await loadPool(signal);
      alertOf("reach", null);
    } catch (problem) {
      if (signal.aborted) return;
      alertOf("reach", `Not up to date: ${plain(problem.message)}.`, "bad");
    }
    view.extra?.tick?.();
  }
  if (!pool) return;
  for (const panel of panels) if (panel.due <= now) panel.run(signal);
}

$("token").addEventListener("click", () => {
  if (token) {
    setToken("");
    told("You look only, from now on.");
  } else {
    askToken();
  }
});
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
setInterval(beat, 500);
open();
