// Lines of the host protocol.

export const VERSION = 1;
export const LINE_MAX = 1 << 20;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The line of a message. Throws RangeError if it is too long. */
export function pack(message) {
  const line = Buffer.from(JSON.stringify(message, (_, value) => (typeof value === "string" ? wellFormed(value) : value)) + "\n");
  if (line.length > LINE_MAX) {
    throw new RangeError(`a message of ${line.length} bytes does not fit into a line of ${LINE_MAX}`);
  }
  return line;
}

/** Puts bytes or text into a message: as text if they are UTF-8, else in base 64. */
export function put(message, name, data) {
  if (typeof data === "string") return { ...message, [name]: data };
  const bytes = Buffer.from(data);
  try {
    return { ...message, [name]: utf8.decode(bytes) };
  } catch {
    return { ...message, [`${name}64`]: bytes.toString("base64") };
  }
}

/** The text, if it can be told. A lone surrogate is no text. */
function wellFormed(text) {
  return /\p{Surrogate}/u.test(text) ? Buffer.from(text).toString() : text;
}

/** Whole milliseconds: none for a time that is negative or no number. */
export function millis(time) {
  return Math.min(Math.max(0, Math.round(Number(time)) || 0), Number.MAX_SAFE_INTEGER);
}

/** Takes bytes out of a message. Undefined if there are none. */
export function take(message, name) {
  if (typeof message[name] === "string") return Buffer.from(message[name]);
  const coded = message[`${name}64`];
  return coded === undefined ? undefined : Buffer.from(coded, "base64");
}

/** Milliseconds by CLOCK_MONOTONIC. */
export function monotonic() {
  return Number(process.hrtime.bigint() / 1_000_000n);
}
