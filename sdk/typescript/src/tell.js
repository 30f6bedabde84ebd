// All that the SDK tells on standard error.

/** How many bytes may wait for a reader before further texts are dropped and counted. */
const WAITING = 1 << 20;

/** Tells texts by `write`, which writes to `stream`. A note says how many were dropped, as soon as there is room. */
export function teller(stream, write) {
  let dropped = 0;
  const note = () => {
    write(`tenure: ${dropped} texts are missing here, nobody took them`);
    dropped = 0;
  };
  return (...values) => {
    // No short text overtakes a dropped one.
    if (dropped === 0 && stream.writableLength < WAITING) {
      write(...values);
    } else {
      if (dropped === 0) stream.once("drain", note);
      dropped += 1;
    }
  };
}

export const tell = teller(process.stderr, (...values) => console.error(...values));
