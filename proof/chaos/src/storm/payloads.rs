//! The payloads of jobs: once the pool has taken one, nobody begins with an earlier one, and nobody goes back.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_testing::history::{Entry, Event};

use super::asks::by_id;
use super::excuse::Losses;
use crate::manner::Words;

/// A payload that a job must have from one moment until another: that of the next stop.
#[derive(Clone, Copy, Debug)]
struct Claim {
    number: u64,
    generation: u64,
    asked: u64,
    at: u64,
    until: u64,
}

/// A run of a key.
#[derive(Debug, Default)]
struct Run {
    begun: u64,
    /// The payloads that it was given, and when.
    given: Vec<(u64, u64)>,
}

/// All that is known of a key.
#[derive(Default)]
struct Key<'a> {
    claims: Vec<Claim>,
    runs: BTreeMap<u64, Run>,
    /// The payloads given in each dispatch: token, moment, number.
    dispatches: BTreeMap<&'a str, Vec<(u64, u64, u64)>>,
}

impl Key<'_> {
    fn stop(&mut self, at: u64) {
        for claim in self.claims.iter_mut().rev().take_while(|claim| claim.until == u64::MAX) {
            claim.until = at;
        }
    }

    /// The newest payload that it must have had in all this time.
    fn claim(&self, from: u64, to: u64, losses: &Losses) -> Option<Claim> {
        let holds =
            |claim: &&Claim| claim.at <= from && to < claim.until && !losses.lie_between(claim.asked, to);
        self.claims.iter().rev().find(holds).copied()
    }
}

fn by_key(entries: &[Entry]) -> BTreeMap<&str, Key<'_>> {
    let mut keys: BTreeMap<&str, Key<'_>> = BTreeMap::new();
    for Entry { at, event, .. } in entries {
        match event {
            Event::PayloadAccepted { key, number, asked, generation } => {
                let key = keys.entry(key).or_default();
                // A new job is another life.
                if generation.is_none() {
                    key.stop(*asked);
                }
                let generation = generation.unwrap_or_default();
                key.claims.push(Claim {
                    number: *number,
                    generation,
                    asked: *asked,
                    at: *at,
                    until: u64::MAX,
                });
            }
            Event::StopRequested { key } => keys.entry(key).or_default().stop(*at),
            Event::Begun { key, token, executed } => {
                keys.entry(key).or_default().runs.entry(*token).or_default().begun = *executed;
            }
            Event::PayloadGiven { key, dispatch, token, number } => {
                let key = keys.entry(key).or_default();
                key.runs.entry(*token).or_default().given.push((*at, *number));
                key.dispatches.entry(dispatch).or_default().push((*token, *at, *number));
            }
            _ => {}
        }
    }
    keys
}

/// The former payloads that a run or an answer had, in words. `settle`: the time after which a running job has its
/// last payload when the pool is at rest.
pub(super) fn former(entries: &[Entry], losses: &Losses, settle: Duration) -> Vec<String> {
    let keys = by_key(entries);
    let settle = u64::try_from(settle.as_nanos()).unwrap_or(u64::MAX);
    let rests = entries.iter().filter(|entry| entry.event == Event::Settled);
    let rests: Vec<u64> = rests.map(|entry| entry.at).collect();
    let mut found = Vec::new();
    for (name, key) in &keys {
        let of_key = begun_with(key, losses)
            .chain(went_back(key, losses))
            .chain(generations(key, losses))
            .chain(rests.iter().filter_map(|&at| rested_with(key, at, settle, losses)));
        found.extend(of_key.map(|what| format!("{name}: {what}")));
    }
    found.extend(answered_with(entries, &keys, losses));
    found
}

fn begun_with<'a>(key: &'a Key<'_>, losses: &'a Losses) -> impl Iterator<Item = String> + 'a {
    key.runs.iter().filter_map(|(token, run)| {
        let &(_, first) = run.given.first()?;
        let claim = key.claim(run.begun, run.begun, losses)?;
        let number = claim.number;
        (first < number).then(|| format!("{token} began with payload {first}, after {number} was accepted"))
    })
}

fn went_back<'a>(key: &'a Key<'_>, losses: &'a Losses) -> impl Iterator<Item = String> + 'a {
    key.dispatches.iter().filter_map(|(dispatch, given)| {
        let mut given = given.clone();
        given.sort_unstable();
        let back = given.windows(2).find(|pair| {
            let (from, to) = (pair[0].1.min(pair[1].1), pair[0].1.max(pair[1].1));
            pair[1].2 < pair[0].2 && !losses.lie_between(from, to)
        })?;
        let [(former, _, more), (token, _, less)] = back else { return None };
        Some(format!("{dispatch} had payload {more} under {former}, and then {less} under {token}"))
    })
}

fn generations<'a>(key: &'a Key<'_>, losses: &'a Losses) -> impl Iterator<Item = String> + 'a {
    key.claims.windows(2).filter_map(|pair| {
        let [before, after] = pair else { return None };
        let of_one_life = after.at < before.until;
        let back = of_one_life
            && after.generation <= before.generation
            && !losses.lie_between(before.asked, after.at);
        back.then(|| {
            let (number, now, then) = (after.number, after.generation, before.generation);
            format!("payload {number} made generation {now}, after generation {then}")
        })
    })
}

fn rested_with(key: &Key<'_>, at: u64, settle: u64, losses: &Losses) -> Option<String> {
    let claim = key.claim(at.saturating_sub(settle), at, losses)?;
    let given =
        |run: &Run| run.given.iter().filter(|&&(when, _)| when <= at).map(|&(_, number)| number).max();
    let (token, has) = key.runs.iter().rev().find_map(|(token, run)| Some((token, given(run)?)))?;
    let number = claim.number;
    (has < number)
        .then(|| format!("{token} had payload {has} at rest, and {number} was accepted long before"))
}

/// An ask comes after each update that was made before it.
fn answered_with(entries: &[Entry], keys: &BTreeMap<&str, Key<'_>>, losses: &Losses) -> Vec<String> {
    let asks = by_id(entries);
    let found = asks.iter().filter_map(|(id, ask)| {
        let Words { token, payload, .. } = ask.heard()?.parse().ok()?;
        let ended = ask.ended?.0;
        // It holds when the ask was made, and when it ended.
        let claim = keys.get(ask.key)?.claim(ask.made, ended, losses)?;
        let number = claim.number;
        let former = payload < number;
        former.then(|| {
            format!("{}: ask {id} met payload {payload} of {token}, after {number} was accepted", ask.key)
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use tenure_testing::history::{AskEnd, History};

    use super::*;

    fn key() -> String {
        "k".into()
    }

    fn accepted(number: u64, asked: u64, generation: Option<u64>) -> Event {
        Event::PayloadAccepted { key: key(), number, asked, generation }
    }

    fn begun(token: u64, executed: u64) -> Event {
        Event::Begun { key: key(), token, executed }
    }

    fn given(token: u64, number: u64) -> Event {
        Event::PayloadGiven { key: key(), dispatch: "n.1".into(), token, number }
    }

    fn lost(lost: u64) -> Event {
        Event::DataLost { lost, since: lost, back: lost, wiped: false }
    }

    /// The findings in events at these moments, in nanoseconds; the settle time is 10 ns.
    fn found(events: &[(u64, Event)]) -> Vec<String> {
        let history = History::new();
        for (at, event) in events {
            history.record_at(*at, event.clone());
        }
        let entries = history.entries();
        former(&entries, &Losses::of(&entries), Duration::from_nanos(10))
    }

    #[test]
    fn a_run_begins_with_the_last_accepted_payload() {
        let of = |executed, number, last: Event| {
            found(&[
                (1, accepted(1, 0, None)),
                (5, accepted(2, 4, Some(1))),
                (7, begun(9, executed)),
                (8, given(9, number)),
                (30, last),
            ])
        };
        assert_eq!(of(6, 1, Event::Held), ["k: 9 began with payload 1, after 2 was accepted"]);
        assert_eq!(of(6, 2, Event::Held), [""; 0]);
        assert_eq!(of(6, 3, Event::Held), [""; 0]);
        assert_eq!(of(4, 1, Event::Held), [""; 0]);
        assert_eq!(of(6, 1, lost(5)), [""; 0]);
    }

    #[test]
    fn a_stop_ends_what_was_accepted_before() {
        let stop = Event::StopRequested { key: key() };
        assert_eq!(
            found(&[(5, accepted(2, 4, None)), (6, stop), (8, begun(9, 7)), (9, given(9, 1))]),
            [""; 0]
        );
    }

    #[test]
    fn a_dispatch_never_has_an_earlier_payload_again() {
        let back = ["k: n.1 had payload 2 under 3, and then 1 under 4"];
        assert_eq!(found(&[(1, given(3, 2)), (2, given(4, 1))]), back);
        // A former owner records it late.
        assert_eq!(found(&[(1, given(4, 1)), (2, given(3, 2))]), back);
        assert_eq!(found(&[(1, given(3, 1)), (2, given(4, 2))]), [""; 0]);
        assert_eq!(found(&[(1, given(3, 2)), (2, lost(2)), (3, given(4, 1))]), [""; 0]);
    }

    #[test]
    fn generations_rise_within_a_life() {
        let (one, two) = ((2, accepted(2, 1, Some(2))), |generation| (4, accepted(3, 3, generation)));
        assert_eq!(
            found(&[one.clone(), two(Some(2))]),
            ["k: payload 3 made generation 2, after generation 2"]
        );
        assert_eq!(found(&[one.clone(), two(Some(3))]), [""; 0]);
        assert_eq!(found(&[one.clone(), two(None)]), [""; 0]);
        assert_eq!(found(&[one, (2, lost(2)), two(Some(1))]), [""; 0]);
    }

    #[test]
    fn a_job_at_rest_has_its_last_payload() {
        let of = |settled| {
            found(&[
                (1, begun(9, 1)),
                (1, given(9, 1)),
                (5, accepted(2, 4, Some(1))),
                (settled, Event::Settled),
            ])
        };
        assert_eq!(of(15), ["k: 9 had payload 1 at rest, and 2 was accepted long before"]);
        assert_eq!(of(14), [""; 0]);
    }

    #[test]
    fn an_ask_meets_no_payload_before_the_last_one() {
        let of = |made, payload| {
            let end = AskEnd::Answered(Words { id: "a".into(), token: 9, payload }.to_string());
            let events = [
                (5, accepted(2, 4, Some(1))),
                (made, Event::AskMade { key: key(), id: "a".into(), idempotent: false }),
                (8, Event::AskEnded { key: key(), id: "a".into(), end }),
            ];
            found(&events)
        };
        assert_eq!(of(6, 1), ["k: ask a met payload 1 of 9, after 2 was accepted"]);
        assert_eq!(of(6, 2), [""; 0]);
        assert_eq!(of(4, 1), [""; 0]);
    }
}
