//! The arguments and answers of the steps that concern checkpoints.

use bytes::Bytes;
use tenure_steps::letters;

use super::performing::{read, step};
use crate::model::id::{JobKey, Token, WorkerId};

/// The state that a job's owner has left with its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The token under which it was given.
    pub token: Token,
    /// Its number among those that were given under this token, from 1.
    pub number: u64,
    /// The server's clock when the pool kept it, ms.
    pub at: u64,
    /// The bytes as they were given.
    pub bytes: Bytes,
}

impl Checkpoint {
    /// Its header in the store.
    #[cfg(any(test, feature = "proof"))]
    pub fn header(&self) -> String {
        format!("1|{}|{}|{}", self.token, self.number, self.at)
    }

    /// Reads a checkpoint as stored. `None` for a header that the pool cannot have written, or one of a newer version.
    pub fn parse(header: &[u8], bytes: Bytes) -> Option<Self> {
        let mut fields = std::str::from_utf8(header).ok()?.split('|');
        let mut next = || fields.next();
        let ("1", token, number, at) = (next()?, next()?, next()?, next()?) else { return None };
        let rest = next();
        let count =
            |text: &str, digits| text.parse().ok().filter(|_| !text.starts_with('+') && text.len() <= digits);
        let is_written = rest.is_none() && !number.starts_with('0');
        let (token, number, at) = (count(token, 16)?, count(number, 15)?, count(at, 15)?);
        is_written.then_some(Self { token: Token(token), number, at, bytes })
    }
}

/// A checkpoint to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveItem {
    /// The job's key.
    pub key: JobKey,
    /// The worker's token.
    pub token: Token,
    /// The token under which the checkpoint was given: the worker's own, or that of a former owner.
    pub given: Token,
    /// Its number among those that were given under that token, from 1.
    pub number: u64,
    /// The bytes.
    pub bytes: Bytes,
}

letters! {
    /// save's answer for one job.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SaveReply {
        /// It is kept, or a newer one is.
        b'K': Kept,
        /// The worker does not own the job under this token.
        b'S': Stale,
        /// The pool is recovering, and there is no record yet. Ask again.
        b'R': Recovering,
        /// It is longer than `checkpoint_max`.
        b'L': TooLong,
        /// `checkpoints` is of another type. Nothing is kept until that is put right.
        b'X': Unusable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_as_it_was_written() {
        let kept = Checkpoint { token: Token(7), number: 3, at: 12, bytes: "state".into() };
        assert_eq!(Checkpoint::parse(b"1|7|3|12", "state".into()), Some(kept));
        for header in [
            "",
            "1|7|3",
            "2|7|3|12",
            "1|7|3|12|",
            "1|x|3|12",
            "1|7|3|12|9",
            "1|+7|3|12",
            "1|7|0|12",
            "1|7|03|12",
        ] {
            assert_eq!(Checkpoint::parse(header.as_bytes(), Bytes::new()), None, "{header}");
        }
    }
}

/// Keeps checkpoints of a worker's jobs, in place of earlier checkpoints.
#[derive(Clone, Debug)]
pub struct Save {
    /// The owner.
    pub worker: WorkerId,
    /// The checkpoints.
    pub items: Vec<SaveItem>,
}

step!(Save: "save" -> Vec<SaveReply>, |step| step.items.len());

/// A job's checkpoint.
#[derive(Clone, Debug)]
pub struct ReadCheckpoint {
    /// The key.
    pub key: JobKey,
}

read!(ReadCheckpoint: "checkpoint" -> Option<Checkpoint>);
