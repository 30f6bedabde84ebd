//! The settings that all sinks of a group share, and their form in Redis. Pure.

use std::sync::Arc;
use std::time::Duration;

use crate::entry::at_most;
use crate::start::milliseconds;
use crate::{Error, Filter, Start};

/// The prefix of names that represent something else than a sink.
pub(super) const RESERVED: &str = "tenure:";
/// The prefix of names that represent settings.
pub(super) const PREFIX: &str = "tenure:settings\n";
/// The most bytes of a sink's filters in their written form.
const MAX_FILTERS: usize = 16 << 10;

/// One line for each setting: its name, ` = ` and its value. The whole text is the name of the consumer that represents
/// the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Terms(Arc<str>);

impl Terms {
    /// # Errors
    /// [`Error::TooLarge`] for filters whose written form is too long.
    pub(super) fn new(
        filters: &[Filter],
        no_ack: bool,
        grace: Duration,
        start: Start,
        recreate_at: Start,
    ) -> Result<Self, Error> {
        let mut filters: Vec<_> = filters.iter().map(Filter::to_string).collect();
        filters.sort();
        filters.dedup();
        let filters = if filters.is_empty() { "none".to_owned() } else { filters.join(", ") };
        at_most("bytes of filters", filters.len(), MAX_FILTERS)?;
        let (grace, start, recreate_at) = (milliseconds(grace), kind(start), kind(recreate_at));
        let lines = format!(
            "filter = {filters}\nno_ack = {no_ack}\nack_grace = {grace} ms\nstart = {start}\nrecreate_at = {recreate_at}"
        );
        Ok(Self(format!("{PREFIX}{lines}").into()))
    }

    /// The name of the consumer that represents them.
    pub(super) fn consumer(&self) -> &str {
        &self.0
    }

    /// The error for the first setting that differs from the group's, which the consumer `theirs` represents.
    pub(super) fn mismatch(&self, stream: &str, group: &Arc<str>, theirs: &str) -> Error {
        let lines = |terms: &str| -> Vec<(String, String)> {
            let lines = terms.strip_prefix(PREFIX).unwrap_or(terms).lines();
            lines.filter_map(|line| line.split_once(" = ")).map(|(a, b)| (a.into(), b.into())).collect()
        };
        let (theirs, ours) = (lines(theirs), lines(&self.0));
        let of = |lines: &[(String, String)], name: &str| {
            let found = lines.iter().find(|(known, _)| known == name);
            found.map_or_else(|| "nothing".to_owned(), |(_, value)| value.clone())
        };
        let names = ours.iter().chain(&theirs).map(|(name, _)| name);
        let name = names.into_iter().find(|name| of(&theirs, name) != of(&ours, name));
        let name = name.map_or("settings", String::as_str);
        Error::SettingMismatch {
            stream: stream.into(),
            group: group.clone(),
            name: name.to_owned(),
            theirs: of(&theirs, name),
            ours: of(&ours, name),
        }
    }
}

/// The kind of start. Each process may compute an id or a time anew, and only the first one counts.
fn kind(start: Start) -> &'static str {
    match start {
        Start::Oldest => "oldest",
        Start::Newest => "newest",
        Start::After(_) => "after an entry",
        Start::At(_) => "at a time",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::SystemTime;

    use super::*;
    use crate::EntryId;

    const GRACE: Duration = Duration::from_secs(30);

    fn terms(filters: &[Filter]) -> Terms {
        Terms::new(filters, false, GRACE, Start::Oldest, Start::Oldest).unwrap()
    }

    #[test]
    fn equal_settings_are_written_alike_and_others_are_not() {
        let (a, b) = (Filter::topic("a"), Filter::pattern("b.*"));
        assert_eq!(terms(&[a.clone(), b.clone()]), terms(&[b.clone(), a.clone(), a.clone()]));
        let at = |time| Terms::new(&[], false, GRACE, Start::At(time), Start::Oldest).unwrap();
        assert_eq!(at(SystemTime::UNIX_EPOCH), at(SystemTime::now()));
        let after = |ms| Start::After(EntryId::new(ms, 0));
        let all = [
            terms(&[]),
            terms(&[Filter::topic("none")]),
            terms(&[a]),
            terms(&[b]),
            terms(&[Filter::topic("a\", topic \"b")]),
            terms(&[Filter::topic("a"), Filter::topic("b")]),
            terms(&[Filter::pattern("\\*")]),
            terms(&[Filter::pattern("*")]),
            Terms::new(&[], true, GRACE, Start::Oldest, Start::Oldest).unwrap(),
            Terms::new(&[], false, GRACE * 2, Start::Oldest, Start::Oldest).unwrap(),
            Terms::new(&[], false, GRACE, Start::Newest, Start::Oldest).unwrap(),
            Terms::new(&[], false, GRACE, after(1), Start::Oldest).unwrap(),
            Terms::new(&[], false, GRACE, Start::Oldest, Start::Newest).unwrap(),
            at(SystemTime::now()),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| one != other), "{one:?}");
        }
        let long = Filter::topic("x".repeat(MAX_FILTERS));
        let refused = Terms::new(&[long], false, GRACE, Start::Oldest, Start::Oldest);
        assert!(matches!(refused, Err(Error::TooLarge { what: "bytes of filters", .. })));
    }

    #[test]
    fn a_mismatch_names_the_setting_and_both_values() {
        let ours = terms(&[Filter::topic("a\nno_ack = true")]);
        let theirs = Terms::new(&[], true, GRACE, Start::Oldest, Start::Oldest).unwrap();
        assert_eq!(
            ours.mismatch("s", &"g".into(), theirs.consumer()).to_string(),
            "the group g of s runs with filter = none, this sink was given topic \"a\\nno_ack = true\"; \
             nothing was written"
        );
        let of = |theirs: &str| match terms(&[]).mismatch("s", &"g".into(), theirs) {
            Error::SettingMismatch { name, theirs, ours, .. } => [name, theirs, ours],
            other => panic!("{other:?}"),
        };
        assert_eq!(of(theirs.consumer()), ["no_ack", "true", "false"]);
        let newer = format!("{}\nretries = 3", terms(&[]).consumer());
        assert_eq!(of(&newer), ["retries", "3", "nothing"]);
        assert_eq!(of("tenure:settings\n"), ["filter", "nothing", "none"]);
    }
}
