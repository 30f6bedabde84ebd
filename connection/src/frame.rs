//! The length of a reply in the Redis protocol. The redis crate parses replies, but does not say how long they are.

/// The bytes are no reply of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The longest line. Most lines hold a number or a short text; a script's error may be longer.
const LONGEST_LINE: usize = 64 * 1024;
/// The longest string that Redis sends.
const LONGEST_STRING: u64 = 512 << 20;
/// The most values in one array.
const MOST_VALUES: u64 = 1 << 24;

/// The length of the first whole reply in `bytes`; `None` while it is incomplete.
pub(crate) fn length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let mut at = 0;
    let mut wanted = 1_u64;
    while wanted > 0 {
        let Some(rest) = bytes.get(at..) else { return Ok(None) };
        let Some(end) = rest.windows(2).take(LONGEST_LINE).position(|two| two == b"\r\n") else {
            return if rest.len() > LONGEST_LINE { Err(Malformed) } else { Ok(None) };
        };
        let (kind, text) = rest[..end].split_first().ok_or(Malformed)?;
        at += end + 2;
        wanted -= 1;
        match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {}
            b'$' | b'=' | b'!' => {
                if let Some(len) = count(text, LONGEST_STRING)? {
                    at += len as usize + 2;
                }
            }
            b'*' | b'~' | b'>' => wanted += count(text, MOST_VALUES)?.unwrap_or(0),
            b'%' => wanted += 2 * count(text, MOST_VALUES)?.unwrap_or(0),
            _ => return Err(Malformed),
        }
    }
    Ok((at <= bytes.len()).then_some(at))
}

/// A number of bytes or values; `None` for the `-1` of a null.
fn count(text: &[u8], most: u64) -> Result<Option<u64>, Malformed> {
    if text == b"-1" {
        return Ok(None);
    }
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok());
    number.filter(|number| *number <= most).map(Some).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_end_of_a_reply_is_exact_to_the_byte() {
        for whole in [
            &b"+OK\r\n"[..],
            b"-MOVED 1 h:1\r\n",
            b":-7\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"$0\r\n\r\n",
            b"$4\r\n\r\n\r\n\r\n",
            b"*3\r\n$8\r\nsmessage\r\n$1\r\na\r\n$2\r\n\xff\n\r\n",
            b"*2\r\n*2\r\n:1\r\n*0\r\n$1\r\nx\r\n",
            b">2\r\n+a\r\n_\r\n",
            b"%1\r\n+k\r\n=7\r\ntxt:abc\r\n",
        ] {
            for end in 0..whole.len() {
                assert_eq!(length(&whole[..end]), Ok(None), "{} of {}", end, whole.escape_ascii());
            }
            assert_eq!(length(whole), Ok(Some(whole.len())), "{}", whole.escape_ascii());
            let followed = [whole, b"+next\r\n"].concat();
            assert_eq!(length(&followed), Ok(Some(whole.len())));
            redis::parse_redis_value(whole).unwrap();
        }
    }

    #[test]
    fn any_bytes_are_safe_and_no_reply_is_longer_than_its_input() {
        let whole = b"*4\r\n$8\r\nsmessage\r\n:12\r\n%1\r\n+k\r\n-e\r\n$3\r\nabc\r\n";
        assert_eq!(length(whole), Ok(Some(whole.len())));
        for at in 0..whole.len() {
            for other in 0..=u8::MAX {
                let mut bytes = whole.to_vec();
                bytes[at] = other;
                if let Ok(Some(length)) = length(&bytes) {
                    assert!(length <= bytes.len());
                }
            }
        }
    }

    #[test]
    fn rubbish_and_unbounded_replies_are_refused() {
        for rubbish in ["\r\n", "HTTP/1.1 400\r\n", "$x\r\n", "$-2\r\n", "*9999999999\r\n", "$600000000\r\n"]
        {
            assert_eq!(length(rubbish.as_bytes()), Err(Malformed), "{rubbish:?}");
        }
        assert_eq!(length(&vec![b'+'; LONGEST_LINE + 2]), Err(Malformed));
    }
}
