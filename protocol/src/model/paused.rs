//! The pause of a job: who has paused it, until when, and why. It is one text, in the place of the error of a parked job. The
//! record has the end, too.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::record::{Record, decimal};
use super::serial;
use super::settings::InvalidSetting;

/// The longest name of who pauses a job, in bytes.
const BY_MAX: usize = 64;

/// The pause of a job, as an operator has asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Paused {
    /// The one who has paused it: the name that was given, else that of a node.
    pub by: String,
    /// Why, as far as that was said.
    pub reason: String,
    /// When it is over and the job goes on by itself, by the store's clock. `None`: not before somebody resumes it. When
    /// serialized, milliseconds since 1970.
    #[serde(serialize_with = "serial::maybe_time")]
    pub until: Option<SystemTime>,
}

impl Paused {
    /// The pause of this job, if it is paused. `kept` is what is kept beside its record.
    #[doc(hidden)]
    pub fn of(record: &Record, kept: Option<&str>) -> Option<Self> {
        let (by, reason) = kept.map(Self::parts).unwrap_or_default();
        let until = record.paused_until().map(|ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms));
        record.is_paused().then(|| Self { by: by.to_owned(), reason: reason.to_owned(), until })
    }

    /// The text that is kept: `by|end|reason`. The end is a time of the store's, ms.
    #[doc(hidden)]
    pub fn text(by: &str, end: Option<u64>, reason: &str) -> String {
        let end = end.map(|end| end.to_string()).unwrap_or_default();
        format!("{by}|{end}|{reason}")
    }

    /// When a pause with this text is over, by the store's clock, ms.
    #[doc(hidden)]
    pub fn end_of(text: &str) -> Option<u64> {
        let (end, _) = text.split_once('|')?.1.split_once('|')?;
        decimal(end).filter(|_| end.len() < 16)
    }

    /// The author of a pause with this text, and the reason.
    #[doc(hidden)]
    pub fn parts(text: &str) -> (&str, &str) {
        let (by, rest) = text.split_once('|').unwrap_or_default();
        let end = rest.split_once('|').filter(|(end, _)| end.bytes().all(|byte| byte.is_ascii_digit()));
        (by, end.map_or(rest, |(_, reason)| reason))
    }
}

/// Refuses a name of who pauses a job that cannot be kept.
///
/// # Errors
/// The name cannot be kept.
pub fn check_by(by: &str) -> Result<(), InvalidSetting> {
    let is_sound =
        (1..=BY_MAX).contains(&by.len()) && by.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'|');
    if is_sound {
        return Ok(());
    }
    let why = format!("must be 1 to {BY_MAX} visible ASCII characters without |").into();
    Err(InvalidSetting { name: "by", value: by.chars().take(BY_MAX).collect(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(why: &str) -> Record {
        let text = format!("1|P||4|1|2|1|n.i|1||0|||{why}");
        Record::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn a_pause_says_who_and_why() {
        for (end, why) in [(None, "z5"), (Some(7_000), "z5+7000")] {
            let kept = Paused::text("anna@desk", end, "ticket 7 | part 2");
            let paused = Paused::of(&record(why), Some(&kept));
            let until = end.map(|ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms));
            let told = Paused { by: "anna@desk".to_owned(), reason: "ticket 7 | part 2".to_owned(), until };
            assert_eq!(paused, Some(told));
            assert_eq!(Paused::end_of(&kept), end);
        }
        let kept = Paused::text("anna@desk", None, "ticket");
        assert_eq!(Paused::of(&record("p5"), Some(&kept)), None, "it is parked");
    }

    #[test]
    fn a_pause_of_which_the_text_is_lost_is_one_all_the_same() {
        let nobody = Paused { by: String::new(), reason: String::new(), until: None };
        for kept in [None, Some(""), Some("no bar")] {
            assert_eq!(Paused::of(&record("z"), kept), Some(nobody.clone()), "{kept:?}");
        }
    }

    #[test]
    fn who_pauses_has_a_short_plain_name() {
        for by in ["anna", "anna@desk-7", "ci/deploy#17", &"x".repeat(64)] {
            assert!(check_by(by).is_ok(), "{by}");
        }
        for by in ["", "a b", "a|b", "é", "a\n", &"x".repeat(65)] {
            assert!(check_by(by).is_err(), "{by}");
        }
    }
}
