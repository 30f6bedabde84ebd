//! The cluster slot of a key, of 16,384, and keys that share a slot.

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a key or of a sharded channel in a Redis Cluster.
///
/// ```
/// use tenure_connection::slot;
///
/// assert_eq!(slot("orders"), 105);
/// assert_eq!(slot("{orders}:meta"), slot("orders"));
/// ```
pub fn slot(key: impl AsRef<[u8]>) -> u16 {
    let key = key.as_ref();
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS
}

/// A sibling of `name`, with `suffix` at its end, in the same slot.
///
/// A name with a hash tag keeps it, followed by the suffix; another name becomes the hash tag. The result is `None` for
/// a name without a hash tag that is empty, or has a `}` that would end the tag too early. No key of a set of siblings
/// should have such a name.
///
/// ```
/// use tenure_connection::{same_slot, slot};
///
/// let once = same_slot("orders", ":once").unwrap();
/// assert_eq!(once, "{orders}:once");
/// assert_eq!(slot(&once), slot("orders"));
/// assert_eq!(same_slot("shop:{eu}:orders", ":once").as_deref(), Some("shop:{eu}:orders:once"));
/// ```
pub fn same_slot(name: &str, suffix: &str) -> Option<String> {
    if hash_tag(name.as_bytes()).is_some() {
        return Some(format!("{name}{suffix}"));
    }
    (!name.is_empty() && !name.contains('}')).then(|| format!("{{{name}}}{suffix}"))
}

/// The bytes between the first `{` and the first `}` after it, if there are any.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let start = key.iter().position(|&byte| byte == b'{')? + 1;
    let len = key.get(start..)?.iter().position(|&byte| byte == b'}')?;
    key.get(start..start + len).filter(|tag| !tag.is_empty())
}

/// The CRC-16 of XMODEM: polynomial 0x1021, starting at 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // The check value of the algorithm, then answers of Redis 7.0.15 to CLUSTER KEYSLOT.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, expected) in GOLDEN {
            assert_eq!(slot(key), *expected, "{}", key.escape_ascii());
        }
    }

    const GOLDEN: &[(&[u8], u16)] = &[
        (b"", 0),
        (b"orders", 105),
        (b"foo", 12_182),
        (b"{foo}", 12_182),
        (b"{foo}bar", 12_182),
        (b"foo{}{bar}", 8_363),
        (b"foo{{bar}}zap", 4_015),
        (b"foo{bar}{zap}", 5_061),
        (b"tenure:{p}:changes", 16_023),
        (b"}{", 12_793),
        (b"{a", 10_276),
        (b"\xc3\xa9", 10_180),
        (b"a b", 9_817),
        (b"x\xff\0y", 10_091),
    ];

    #[test]
    fn siblings_share_a_slot_whatever_the_name() {
        for name in ["a", "a:b", "{a}", "x{a}y{b}", "{", "{x", "a{b", "é", "{}{a}x{b}"] {
            for suffix in ["", ":x", "}", "{y}"] {
                if let Some(sibling) = same_slot(name, suffix) {
                    assert_eq!(slot(&sibling), slot(name), "{name} {suffix} {sibling}");
                }
            }
        }
        for name in ["", "}", "{}", "a}b", "{}a"] {
            assert_eq!(same_slot(name, ":x"), None, "{name}");
        }
    }
}
