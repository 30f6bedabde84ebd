//! The words between askers and handlers under faults: a [`Manner`] is wanted, and [`Words`] are said.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;

/// The wish of an asker, for its handler: the body of the ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Manner {
    /// Answer at once.
    Answer,
    /// Answer later, from a task of its own.
    Late,
    /// Refuse it.
    Refuse,
    /// Drop it, or answer.
    Drop,
    /// Send it to the next owner, or answer.
    SendOn,
}

impl Manner {
    /// The body that makes a job hang which has a progress timeout. It is not in the book.
    pub(crate) const HANG: &str = "hang";
    /// The body that asks who owns the job. It is not in the book.
    pub(crate) const WHO: &str = "who";
}

/// The words of a handler to an ask: to which one, from which run, and with which payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) id: String,
    pub(crate) token: u64,
    pub(crate) payload: u64,
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.id, self.token, self.payload)
    }
}

impl FromStr for Words {
    type Err = ();

    fn from_str(said: &str) -> Result<Self, ()> {
        let mut words = said.split(' ');
        let mut next = || words.next().ok_or(());
        let id = next()?.to_owned();
        let (token, payload) = (next()?.parse(), next()?.parse());
        let words = Self { id, token: token.map_err(drop)?, payload: payload.map_err(drop)? };
        next().err().map(|()| words).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::named;

    #[test]
    fn manners_and_words_are_read_as_they_were_said() {
        for manner in Manner::value_variants() {
            assert_eq!(Manner::from_str(&named(manner), false), Ok(*manner));
        }
        for body in [Manner::HANG, Manner::WHO] {
            assert!(Manner::from_str(body, false).is_err(), "{body}");
        }
        let words = Words { id: "key-1:2".into(), token: 3, payload: 4 };
        assert_eq!(words.to_string().parse(), Ok(words));
        for wrong in ["", "a 3", "a b 4", "a 3 4 5"] {
            assert_eq!(wrong.parse::<Words>(), Err(()), "{wrong}");
        }
    }
}
