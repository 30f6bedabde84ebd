//! The moments of an expression in a time zone.

use croner::Cron as Pattern;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// An expression in a time zone. Moments are ms since the Unix epoch.
pub(crate) struct Times {
    pattern: Pattern,
    zone: TimeZone,
}

impl Times {
    /// Reads an expression, and finds its zone; says why it is none.
    pub(crate) fn parse(expression: &str, zone: &str) -> Result<Self, String> {
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let pattern = parser.parse(expression).map_err(|error| error.to_string())?;
        let zone = TimeZone::get(zone).map_err(|error| error.to_string())?;
        Ok(Self { pattern, zone })
    }

    fn at(&self, ms: u64) -> Option<Zoned> {
        let seconds = i64::try_from(ms / 1_000).ok()?;
        Some(Timestamp::from_second(seconds).ok()?.to_zoned(self.zone.clone()))
    }

    /// The first moment after this one.
    pub(crate) fn after(&self, ms: u64) -> Option<u64> {
        let found = self.pattern.find_next_occurrence(&self.at(ms)?, false).ok()?;
        u64::try_from(found.timestamp().as_millisecond()).ok().filter(|at| *at > ms)
    }

    /// The last moment before this one, or at it.
    fn until(&self, ms: u64) -> Option<u64> {
        let found = self.pattern.find_previous_occurrence(&self.at(ms)?, true).ok()?;
        u64::try_from(found.timestamp().as_millisecond()).ok().filter(|at| *at <= ms)
    }

    /// The first moments after one and up to another one, `most` of them.
    pub(crate) fn between(&self, after: u64, until: u64, most: usize) -> Vec<u64> {
        let later = |at: &u64| self.after(*at);
        std::iter::successors(self.after(after), later).take_while(|at| *at <= until).take(most).collect()
    }

    /// The last moments after one and up to another one, `most` of them.
    pub(crate) fn last(&self, after: u64, until: u64, most: usize) -> Vec<u64> {
        let earlier = |at: &u64| self.until(at.checked_sub(1)?);
        let back = std::iter::successors(self.until(until), earlier);
        let mut found: Vec<_> = back.take_while(|at| *at > after).take(most).collect();
        found.reverse();
        found
    }
}

/// A moment as text, such as `2026-11-22T21:00:00Z`.
pub(crate) fn text(ms: u64) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |moment| moment.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ms(text: &str) -> u64 {
        u64::try_from(text.parse::<Timestamp>().unwrap().as_millisecond()).unwrap()
    }

    fn between(expression: &str, zone: &str, after: &str, until: &str) -> Vec<String> {
        let times = Times::parse(expression, zone).unwrap();
        times.between(ms(after), ms(until), 100).into_iter().map(text).collect()
    }

    #[test]
    fn a_time_that_the_clock_skips_comes_when_it_goes_on() {
        // Clocks in Berlin went from 02:00 to 03:00.
        let found = between("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z");
        assert_eq!(found, ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    }

    #[test]
    fn a_time_that_the_clock_repeats_comes_once() {
        // Clocks in Berlin went from 03:00 back to 02:00.
        let found = between("30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00Z", "2026-10-27T00:00:00Z");
        assert_eq!(found, ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    }

    #[test]
    fn every_hour_is_every_hour_while_the_clock_changes() {
        for day in ["2026-03-29", "2026-10-25"] {
            let (from, to) = (format!("{day}T00:00:00Z"), format!("{day}T04:00:00Z"));
            let hours = (1..=4).map(|hour| format!("{day}T0{hour}:00:00Z")).collect::<Vec<_>>();
            assert_eq!(between("0 * * * *", "Europe/Berlin", &from, &to), hours);
        }
    }

    #[test]
    fn a_zone_has_its_own_midnight() {
        let found = between("@daily", "America/New_York", "2026-11-20T00:00:00Z", "2026-11-21T06:00:00Z");
        assert_eq!(found, ["2026-11-20T05:00:00Z", "2026-11-21T05:00:00Z"]);
        let found = between("*/20 * * * * *", "UTC", "2026-11-20T00:00:00Z", "2026-11-20T00:01:00Z");
        let seconds = ["2026-11-20T00:00:20Z", "2026-11-20T00:00:40Z", "2026-11-20T00:01:00Z"];
        assert_eq!(found, seconds);
    }

    #[test]
    fn the_last_moments_are_counted_from_the_end() {
        let times = Times::parse("* * * * * *", "UTC").unwrap();
        // A year of seconds is not walked.
        let (after, until) = (ms("2025-11-20T00:00:00Z"), ms("2026-11-20T00:00:00Z"));
        assert_eq!(times.last(after, until + 999, 2), [until - 1_000, until]);
        assert_eq!(times.last(until - 1_000, until, 9), [until]);
        assert_eq!(times.last(until, until, 9), Vec::<u64>::new());
        let yearly = Times::parse("0 0 29 2 *", "UTC").unwrap();
        assert_eq!(yearly.last(ms("2023-01-01T00:00:00Z"), until, 9), [ms("2024-02-29T00:00:00Z")]);
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for (expression, zone) in [
            ("", "UTC"),
            ("* * *", "UTC"),
            ("61 * * * *", "UTC"),
            ("* * * * * * 2026", "UTC"),
            ("at noon", "UTC"),
            ("* * * * *", "Europe/Atlantis"),
        ] {
            assert!(Times::parse(expression, zone).is_err(), "{expression:?} {zone:?}");
        }
        let never = Times::parse("0 0 30 2 *", "UTC");
        assert!(
            never.is_err_and(|error| !error.is_empty())
                || Times::parse("0 0 30 2 *", "UTC").unwrap().after(0).is_none()
        );
    }
}
