//! Keys and foreign texts, as they may be printed.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tenure_pool::JobKey;

/// Bytes in base 64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A text that somebody else wrote. Characters that would break its line, move the terminal or turn the text round are
/// escaped.
pub(crate) fn plain(text: &str) -> String {
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || turns(c) {
            // Writing to a String cannot fail.
            let _ = write!(shown, "{}", c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A key for people: as it is if it is text, else escaped.
pub(crate) fn key(key: &JobKey) -> String {
    key.as_str().map_or_else(|| key.to_string(), plain)
}

/// A key for programs: as text if it is, and else in base 64.
pub(crate) fn key_fields(key: &JobKey) -> (Option<String>, Option<String>) {
    match key.as_str() {
        Some(text) => (Some(text.to_owned()), None),
        None => (None, Some(base64(key.as_bytes()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_text_cannot_move_the_terminal() {
        assert_eq!(plain("a\x1b[2Jb\nc\u{202e}d é"), "a\\u{1b}[2Jb\\nc\\u{202e}d é");
    }

    #[test]
    fn a_key_of_other_bytes_is_escaped_for_people() {
        let other = JobKey::new(&b"a\xff\n"[..]).map(|other| (key(&other), key_fields(&other)));
        assert_eq!(other, Ok((r"a\xff\n".to_owned(), (None, Some("Yf8K".to_owned())))));
    }
}
