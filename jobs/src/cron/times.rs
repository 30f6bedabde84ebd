//! The moments of an expression in a time zone.

use croner::Cron as Pattern;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

/// An expression in a time zone. Moments are ms since the Unix epoch.
pub(crate) struct Times {
    pattern: Pattern,
    zone: TimeZone,
    /// Whether it names its hours: then it comes by the times of the wall clock, once each. Any other one comes by the time
    /// that passes.
    names_hours: bool,
}

impl Times {
    /// Reads an expression, and finds its zone; says why it is none.
    pub(crate) fn parse(expression: &str, zone: &str) -> Result<Self, String> {
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let pattern = parser.parse(expression).map_err(|error| error.to_string())?;
        let zone = TimeZone::get(zone).map_err(|error| error.to_string())?;
        let hours = &pattern.pattern.hours;
        let names_hours = !hours.from_wildcard && hours.step == 1;
        Ok(Self { pattern, zone, names_hours })
    }

    /// The first moment after this one.
    pub(crate) fn after(&self, ms: u64) -> Option<u64> {
        if !self.names_hours {
            let now = second(ms)?.to_zoned(self.zone.clone());
            let found = self.pattern.find_next_occurrence(&now, false).ok()?;
            return millis(found.timestamp()).filter(|at| *at > ms);
        }
        let mut wall = on_wall(self.zone.to_datetime(second(ms)?))?;
        loop {
            wall = self.pattern.find_next_occurrence(&wall, false).ok()?;
            // In an hour that is repeated, its times have come already.
            if let Some(at) = Some(self.moment(wall.datetime())?).filter(|at| *at > ms) {
                return Some(at);
            }
        }
    }

    /// The last moment before this one, or at it.
    fn until(&self, ms: u64) -> Option<u64> {
        let now = second(ms)?;
        if !self.names_hours {
            let found = self.pattern.find_previous_occurrence(&now.to_zoned(self.zone.clone()), true).ok()?;
            return millis(found.timestamp()).filter(|at| *at <= ms);
        }
        let mut wall = self.zone.to_datetime(now);
        // In an hour that is repeated, also its later times have come already.
        if let AmbiguousOffset::Fold { before, after } = self.zone.to_ambiguous_timestamp(wall).offset()
            && self.zone.to_offset(now) == after
        {
            let back = i64::from(before.seconds()) - i64::from(after.seconds());
            wall = wall.checked_add(SignedDuration::from_secs(back)).ok()?;
        }
        let mut found = self.pattern.find_previous_occurrence(&on_wall(wall)?, true).ok()?;
        loop {
            if let Some(at) = Some(self.moment(found.datetime())?).filter(|at| *at <= ms) {
                return Some(at);
            }
            found = self.pattern.find_previous_occurrence(&found, false).ok()?;
        }
    }

    /// The moment of a time of the wall clock. One that the clock skips comes when it goes on, one that it repeats comes the
    /// first time.
    fn moment(&self, wall: DateTime) -> Option<u64> {
        let found = self.zone.to_ambiguous_timestamp(wall);
        let skipped = matches!(found.offset(), AmbiguousOffset::Gap { .. });
        let earlier = found.earlier().ok()?;
        millis(if skipped { self.zone.following(earlier).next()?.timestamp() } else { earlier })
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

fn second(ms: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(ms / 1_000).ok()?).ok()
}

fn millis(moment: Timestamp) -> Option<u64> {
    u64::try_from(moment.as_millisecond()).ok()
}

/// A time of the wall clock where no clock is ever changed.
fn on_wall(wall: DateTime) -> Option<Zoned> {
    wall.to_zoned(TimeZone::UTC).ok()
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
    fn each_of_several_times_comes_once_while_the_clock_changes() {
        let (spring, autumn) = ("2026-03-28T22:00:00Z", "2026-10-24T22:00:00Z");
        for (expression, start, expected) in [
            ("30 2,14 * * *", spring, &["29T01:00", "29T12:30"][..]),
            ("30 2,14 * * *", autumn, &["25T00:30", "25T13:30"]),
            ("0,30 2 * * *", spring, &["29T01:00"]),
            ("0,30 2 * * *", autumn, &["25T00:00", "25T00:30"]),
            ("0 1-4 * * *", spring, &["29T00:00", "29T01:00", "29T02:00"]),
            ("0 1-4 * * *", autumn, &["24T23:00", "25T00:00", "25T02:00", "25T03:00"]),
            ("*/30 2 * * *", spring, &["29T01:00"]),
            ("*/30 2 * * *", autumn, &["25T00:00", "25T00:30"]),
        ] {
            let times = Times::parse(expression, "Europe/Berlin").unwrap();
            let start = ms(start);
            let found = times.between(start, start + 86_400_000, 100);
            let minutes: Vec<_> = found.iter().map(|at| text(*at)[8..16].to_owned()).collect();
            assert_eq!(minutes, expected, "{expression}");
            // Counted from any end they are the same.
            for until in (start..start + 86_400_000).step_by(300_000) {
                let back = times.last(start, until, 100);
                assert_eq!(back, times.between(start, until, 100), "{expression} until {}", text(until));
            }
        }
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
