//! Filters by topic. Pure.

use std::fmt;

/// Chooses entries by their topic. Entries without a topic match no filter. For other choices use a closure, with
/// `futures::StreamExt::filter` or `try_filter` on the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Topic(String),
    Pattern(Vec<Part>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// This character.
    Char(char),
    /// Any one character.
    One,
    /// Any characters, or none.
    Any,
}

impl Filter {
    /// Entries with exactly this topic.
    pub fn topic(topic: impl Into<String>) -> Self {
        Self(Kind::Topic(topic.into()))
    }

    /// Entries whose whole topic matches the pattern. `*` stands for any characters or none, dots included; `?` stands
    /// for one character. A backslash takes the next character literally.
    pub fn pattern(pattern: &str) -> Self {
        let mut parts = Vec::new();
        let mut chars = pattern.chars();
        while let Some(char) = chars.next() {
            match char {
                '*' if parts.last() == Some(&Part::Any) => {}
                '*' => parts.push(Part::Any),
                '?' => parts.push(Part::One),
                '\\' => parts.push(Part::Char(chars.next().unwrap_or('\\'))),
                char => parts.push(Part::Char(char)),
            }
        }
        Self(Kind::Pattern(parts))
    }

    /// Whether an entry with this topic is wanted.
    pub fn matches(&self, topic: Option<&str>) -> bool {
        match (&self.0, topic) {
            (_, None) => false,
            (Kind::Topic(wanted), Some(topic)) => wanted == topic,
            (Kind::Pattern(parts), Some(topic)) => looks_like(parts, topic),
        }
    }
}

/// The filter on one line, as it was built: `topic "a.b"` or `pattern "a.*"`.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = match &self.0 {
            Kind::Topic(topic) => return write!(f, "topic {topic:?}"),
            Kind::Pattern(parts) => parts,
        };
        let mut pattern = String::new();
        for part in parts {
            match part {
                Part::Char(char @ ('*' | '?' | '\\')) => pattern.extend(['\\', *char]),
                Part::Char(char) => pattern.push(*char),
                Part::One => pattern.push('?'),
                Part::Any => pattern.push('*'),
            }
        }
        write!(f, "pattern {pattern:?}")
    }
}

/// Whether one of the filters wants the topic. An empty list wants everything.
pub(crate) fn wanted(filters: &[Filter], topic: Option<&str>) -> bool {
    filters.is_empty() || filters.iter().any(|filter| filter.matches(topic))
}

/// Widens only the last `*`: anything an earlier one could take, the last one can take as well. So the work is at most
/// the product of both lengths.
fn looks_like(parts: &[Part], topic: &str) -> bool {
    let (mut part, mut rest) = (0, topic.chars());
    let mut last_any = None;
    loop {
        let mut ahead = rest.clone();
        let next = ahead.next();
        match (parts.get(part), next) {
            (Some(Part::Any), _) => {
                part += 1;
                last_any = Some((part, rest.clone()));
            }
            (Some(Part::One), Some(_)) => {
                part += 1;
                rest = ahead;
            }
            (Some(Part::Char(wanted)), Some(found)) if *wanted == found => {
                part += 1;
                rest = ahead;
            }
            (None, None) => return true,
            _ => {
                let Some((behind, taken)) = &mut last_any else { return false };
                if taken.next().is_none() {
                    return false;
                }
                (part, rest) = (*behind, taken.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_topic_is_matched_as_a_whole_or_by_its_pattern() {
        assert!(Filter::topic("a.b").matches(Some("a.b")));
        assert!(!Filter::topic("a.*").matches(Some("a.b")), "no pattern");
        for (pattern, yes, no) in [
            ("orders.*", &["orders.", "orders.eu.new"][..], &["orders", "xorders.eu"][..]),
            ("*.new", &["a.new", ".new", "a.new.new"], &["a.new.", "new"]),
            ("a*b*c", &["abc", "a1b2b3c", "abbc"], &["ab", "acb", "abcd"]),
            ("?.?", &["a.b", "ä.ö"], &["a.", "ab.c"]),
            ("\\*\\?\\", &["*?\\"], &["ab\\", "*?"]),
            ("**", &["", "x"], &[]),
            ("", &[""], &["x"]),
        ] {
            for topic in yes {
                assert!(Filter::pattern(pattern).matches(Some(topic)), "{pattern} {topic}");
            }
            for topic in no {
                assert!(!Filter::pattern(pattern).matches(Some(topic)), "{pattern} {topic}");
            }
        }
        assert!(!Filter::pattern("*").matches(None), "no topic");
        assert!(wanted(&[], None) && wanted(&[Filter::topic("a"), Filter::topic("b")], Some("b")));
        assert!(!wanted(&[Filter::topic("a")], None));
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let pattern = Filter::pattern(&"*a".repeat(200));
        assert!(!pattern.matches(Some(&format!("{}b", "a".repeat(512)))));
    }

    fn by_definition(parts: &[Part], topic: &[char]) -> bool {
        match (parts.split_first(), topic.split_first()) {
            (None, None) => true,
            (Some((Part::Any, parts_left)), _) => {
                (0..=topic.len()).any(|taken| by_definition(parts_left, &topic[taken..]))
            }
            (Some((Part::One, parts_left)), Some((_, left))) => by_definition(parts_left, left),
            (Some((Part::Char(wanted), parts_left)), Some((found, left))) => {
                wanted == found && by_definition(parts_left, left)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_pattern_matches_what_it_means(pattern in "[ab*?\\\\]{0,8}", topic in "[ab]{0,10}") {
            let filter = Filter::pattern(&pattern);
            let Kind::Pattern(parts) = &filter.0 else { unreachable!() };
            let chars: Vec<char> = topic.chars().collect();
            let shown = filter.to_string();
            let again = shown.strip_prefix("pattern \"").and_then(|shown| shown.strip_suffix('"')).unwrap_or("");
            prop_assert_eq!(&Filter::pattern(&again.replace("\\\\", "\\")), &filter);
            prop_assert_eq!(filter.matches(Some(&topic)), by_definition(parts, &chars));
        }
    }
}
