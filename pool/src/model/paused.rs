//! The pause of a job: who has paused it, and why. It is one text, in the place of the error of a parked job.

use serde::Serialize;

use super::record::Record;
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
}

impl Paused {
    /// The pause of this job, if it is paused. `kept` is what is kept beside its record.
    pub(crate) fn of(record: &Record, kept: Option<&str>) -> Option<Self> {
        let (by, reason) = kept.and_then(|text| text.split_once('|')).unwrap_or_default();
        record.is_paused().then(|| Self { by: by.to_owned(), reason: reason.to_owned() })
    }

    /// The text that is kept.
    pub(crate) fn text(by: &str, reason: &str) -> String {
        format!("{by}|{reason}")
    }
}

/// Refuses a name of who pauses a job that cannot be kept.
pub(crate) fn check_by(by: &str) -> Result<(), InvalidSetting> {
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
        let kept = Paused::text("anna@desk", "ticket 7 | part 2");
        let paused = Paused::of(&record("z5"), Some(&kept));
        let told = Paused { by: "anna@desk".to_owned(), reason: "ticket 7 | part 2".to_owned() };
        assert_eq!(paused, Some(told));
        assert_eq!(Paused::of(&record("p5"), Some(&kept)), None, "it is parked");
    }

    #[test]
    fn a_pause_of_which_the_text_is_lost_is_one_all_the_same() {
        let nobody = Paused { by: String::new(), reason: String::new() };
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
