//! Answers that break the contract.

use std::fmt;

/// The longest part of an answer that an error quotes.
const QUOTED: usize = 200;

/// An answer that breaks the contract. The call was executed.
#[derive(Debug, PartialEq, Eq)]
pub struct Unexpected {
    call: &'static str,
    expected: &'static str,
    answer: String,
}

impl Unexpected {
    /// The script or the command of this name gave the answer where `expected` was expected.
    pub fn new(call: &'static str, expected: &'static str, answer: &impl fmt::Debug) -> Self {
        let mut answer = format!("{answer:?}");
        if let Some((end, _)) = answer.char_indices().nth(QUOTED) {
            answer.truncate(end);
            answer.push('…');
        }
        Self { call, expected, answer }
    }
}

impl fmt::Display for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answered {} where {} was expected", self.call, self.answer, self.expected)
    }
}

impl std::error::Error for Unexpected {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strange_answer_is_quoted_in_part() {
        let text = Unexpected::new("take", "a letter", &"é").to_string();
        assert_eq!(text, "take answered \"é\" where a letter was expected");
        let long = Unexpected::new("take", "a letter", &"é".repeat(5_000)).to_string();
        assert!(long.chars().count() < 250 && long.contains("é… where"), "{long}");
    }
}
