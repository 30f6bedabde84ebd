//! A kind of events on the command line.

use std::str::FromStr;

use tenure_pool::event::EventKind;

/// A kind, by its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KindArg(pub(crate) EventKind);

impl FromStr for KindArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = EventKind::ALL.into_iter().find(|kind| kind.word() == text);
        kind.map(Self).ok_or_else(|| {
            let words: Vec<_> = EventKind::ALL.into_iter().map(EventKind::word).collect();
            format!("the kinds are {}", words.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_named_by_its_word() {
        assert_eq!("moved".parse(), Ok(KindArg(EventKind::Moved)));
        assert!("moves".parse::<KindArg>().is_err_and(|error| error.contains("moved, lost")));
    }
}
