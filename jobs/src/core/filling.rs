//! The size of a call: its jobs are bounded in number and in bytes.

use crate::store::MOST;

/// A call ends with the job that fills this many bytes.
pub(crate) const FULL: usize = 1_048_576;

/// How many of the items with these sizes in bytes go in one call: 128 at most, and none after the one that fills 1 MiB.
pub(crate) fn one_call(sizes: impl IntoIterator<Item = usize>) -> usize {
    let (mut count, mut bytes) = (0, 0);
    for size in sizes.into_iter().take(MOST) {
        count += 1;
        bytes += size;
        if bytes >= FULL {
            break;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_bounded_in_number_and_in_bytes() {
        assert_eq!(one_call([]), 0);
        assert_eq!(one_call([1; 1_000]), MOST);
        assert_eq!(one_call([400_000; 8]), 3);
        assert_eq!(one_call([2 * FULL, 1]), 1, "one that is larger goes alone");
    }
}
