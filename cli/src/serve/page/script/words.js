// Words for values, and values of words.

/** A foreign text: characters that cannot be seen, or that turn the text round, are escaped. */
export function plain(text) {
  // eslint-disable-next-line no-control-regex
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (c) =>
    `\\u{${c.codePointAt(0).toString(16)}}`);
}
export const count = (number) => Number(number).toLocaleString("en");
export const nameOf = (job) => (job.key !== null && job.key !== undefined ? plain(job.key) : `base64:${job.key64}`);
export const query = (params) => new URLSearchParams(Object.entries(params).filter(([, value]) => value)).toString();
export const keyed = (job) => (job.key !== null && job.key !== undefined ? { key: job.key } : { key64: job.key64 });

/** The end of a number that is long: those of workers that joined together differ there. */
export const short = (worker) => (String(worker).length > 6 ? `…${String(worker).slice(-4)}` : String(worker));

/** A length of time in its two largest units. */
export function brief(ms) {
  const sec = Math.floor(ms / 1000);
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (sec < 60) return `${sec} s`;
  if (sec < 3600) return `${Math.floor(sec / 60)} min ${sec % 60} s`;
  if (sec < 86400) return `${Math.floor(sec / 3600)} h ${Math.floor(sec / 60) % 60} min`;
  return `${Math.floor(sec / 86400)} d ${Math.floor(sec / 3600) % 24} h`;
}
export const ago = (time) => brief(Date.now() - Date.parse(time));
export const clock = (time) => new Date(time).toLocaleTimeString("en-GB");

/** A length of time in ms, from words such as 30m or 1d 12h. None if there are no words. */
export function lengthOf(words) {
  if (!words?.trim()) return undefined;
  const units = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
  const isOne = /^\s*(\d+\s*[smhdw]\s*)+$/i.test(words);
  const parts = [...words.matchAll(/(\d+)\s*([smhdw])/gi)].map(([, number, unit]) => Number(number) * units[unit.toLowerCase()]);
  const ms = parts.reduce((all, part) => all + part, 0);
  if (!isOne || ms === 0 || !Number.isSafeInteger(ms)) throw new Error(`${words} is no length of time. Write 30m, 2h or 1d 12h.`);
  return ms;
}
