//! The wishes of operators: holds, cordons, drains. And hung handlers, which the pool replaces by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tenure_testing::history::{Entry, Event};

/// The time after which all nodes go by a hold or a cordon. A job that was assigned before is begun by then, or in the
/// queue again.
pub(super) const HEARD: Duration = Duration::from_secs(4);
/// The progress timeout of the jobs that have one.
pub(crate) const PROGRESS: Duration = Duration::from_secs(2);
/// The time for which a handler may go on once it was told to end.
pub(crate) const STOPS: Duration = Duration::from_secs(2);
/// The time within which a job with a failed attempt is routed after a hold.
const ROUTED: Duration = Duration::from_secs(30);
/// How much earlier than it was a begin may seem: the server counts in ms, and a busy machine reads its clocks one after
/// the other.
const EARLY: Duration = Duration::from_millis(100);
/// How much later a hung handler may have ended, on a busy machine.
const MARGIN: Duration = Duration::from_secs(4);

/// Two reasons for a job to end.
const STALLED: &str = "Stalled";
const MOVED: &str = "Moved";

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The times from each of these moments to the next one of the other kind; the last one may last for ever.
fn times(entries: &[Entry], is: impl Fn(&Event) -> Option<bool>) -> Vec<(u64, u64)> {
    let mut times: Vec<(u64, u64)> = Vec::new();
    for entry in entries {
        match is(&entry.event) {
            Some(true) => times.push((entry.at.saturating_add(nanos(HEARD)), u64::MAX)),
            Some(false) => {
                let until = entry.at.saturating_sub(nanos(EARLY));
                times.last_mut().into_iter().for_each(|last| last.1 = last.1.min(until));
            }
            None => {}
        }
    }
    times
}

fn within(times: &[(u64, u64)], at: u64) -> bool {
    times.iter().any(|&(from, to)| from <= at && at < to)
}

/// Whether a hold explains that nobody ran a key for longer than this: a job that waits under it may wait for a while
/// after it, too.
pub(super) fn is_excused((from, to): (u64, u64), longest: Duration, entries: &[Entry]) -> bool {
    let held = |since: u64, until: u64| since <= to && from <= until;
    let mut since = None;
    let waited = entries.iter().any(|entry| match entry.event {
        Event::Held => {
            since = Some(entry.at);
            false
        }
        Event::HoldLifted => since.take().is_some_and(|since| held(since, entry.at)),
        _ => false,
    });
    (waited || since.is_some_and(|since| held(since, u64::MAX))) && to - from <= nanos(longest + ROUTED)
}

/// The starts that no operator wants, and the handlers that hang for too long, in words.
pub(super) fn unwanted(entries: &[Entry]) -> Vec<String> {
    let held = times(entries, |event| match event {
        Event::Held => Some(true),
        Event::HoldLifted => Some(false),
        _ => None,
    });
    let mut nodes: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    let mut begun: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    let mut drained: BTreeMap<&str, u64> = BTreeMap::new();
    for Entry { at, event, .. } in entries {
        match event {
            Event::Cordoned { node } => {
                nodes.entry(node).or_insert_with(|| {
                    times(entries, |event| match event {
                        Event::Cordoned { node: this } if this == node => Some(true),
                        Event::CordonLifted { node: this } if this == node => Some(false),
                        _ => None,
                    })
                });
            }
            Event::Begun { key, token, executed } => {
                begun.insert((key, *token), *executed);
            }
            Event::Drained { worker } => {
                drained.insert(worker, *at);
            }
            _ => {}
        }
    }
    let cordoned = |worker: &str, at| {
        let node = worker.split_once('/').map_or(worker, |(node, _)| node);
        nodes.get(node).is_some_and(|times| within(times, at))
    };
    let found = entries.iter().filter_map(|Entry { at, event, .. }| match event {
        Event::Started { key, token, worker } => {
            let begun = begun.get(&(&**key, *token)).copied().unwrap_or(*at);
            let why = if within(&held, begun) {
                "while the pool was on hold"
            } else if cordoned(worker, begun) {
                "on a node that was cordoned"
            } else if drained.get(&**worker).is_some_and(|drained| drained < at) {
                "by a worker that was drained, and gone"
            } else {
                return None;
            };
            Some(format!("{key}: {worker} began it under {token} {why}"))
        }
        Event::ToldToEnd { key, token, worker, why } if why == MOVED && cordoned(worker, *at) => {
            Some(format!("{key}: {token} was moved from {worker}, whose node was cordoned"))
        }
        _ => None,
    });
    found.chain(hung(entries)).collect()
}

/// The handlers that hang and go on, and those that are taken for hung and are not.
fn hung(entries: &[Entry]) -> Vec<String> {
    let mut hangs: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    let mut ever: BTreeSet<(&str, u64)> = BTreeSet::new();
    let mut workers: BTreeMap<(&str, u64), &str> = BTreeMap::new();
    let mut found = Vec::new();
    for Entry { at, event, .. } in entries {
        match event {
            Event::Started { key, token, worker } => {
                workers.insert((key, *token), worker);
            }
            Event::Hangs { key, token } => {
                hangs.insert((key, *token), *at);
                ever.insert((key, *token));
            }
            Event::Stopped { key, token, .. } => {
                let since = hangs.remove(&(&**key, *token));
                found.extend(since.and_then(|since| ran_on(key, *token, since, *at)));
            }
            Event::ToldToEnd { key, token, why, .. }
                if why == STALLED && !ever.contains(&(&**key, *token)) =>
            {
                found.push(format!("{key}: {token} was taken for hung, and made progress"));
            }
            // A process that stands still gives its jobs as much time again.
            Event::Paused { worker } | Event::WorkerDead { worker } => {
                hangs.retain(|run, _| workers.get(run) != Some(&&**worker));
            }
            _ => {}
        }
    }
    let last = entries.last().map_or(0, |entry| entry.at);
    let still = hangs.iter().filter_map(|(&(key, token), &since)| ran_on(key, token, since, last));
    found.extend(still);
    found
}

fn ran_on(key: &str, token: u64, since: u64, until: u64) -> Option<String> {
    let hung = Duration::from_nanos(until.saturating_sub(since));
    let seconds = hung.as_secs_f64();
    (hung > PROGRESS + STOPS + MARGIN)
        .then(|| format!("{key}: {token} made no progress for {seconds:.1} s, and ran on"))
}

#[cfg(test)]
mod tests {
    use tenure_testing::history::History;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn key() -> String {
        "k".into()
    }

    fn worker() -> String {
        "n1-1/0".into()
    }

    fn begun(executed: u64) -> [Event; 2] {
        let begun = Event::Begun { key: key(), token: 9, executed: executed * SECOND };
        [begun, Event::Started { key: key(), token: 9, worker: worker() }]
    }

    fn found(events: &[(u64, Event)]) -> Vec<String> {
        let history = History::new();
        for (at, event) in events {
            history.record_at(at * SECOND, event.clone());
        }
        unwanted(&history.entries())
    }

    /// The findings when a job begins at this moment: the first event is at 10 s, and the second one at 20 s.
    fn begins(first: &Event, second: &Event, at: u64) -> Vec<String> {
        let [begun, started] = begun(at);
        found(&[(10, first.clone()), (20, second.clone()), (25, begun), (25, started)])
    }

    #[test]
    fn a_job_that_begins_under_a_hold_is_found() {
        let of = |at| begins(&Event::Held, &Event::HoldLifted, at);
        assert_eq!(of(15), ["k: n1-1/0 began it under 9 while the pool was on hold"]);
        assert_eq!((of(13), of(20)), (vec![], vec![]));
    }

    #[test]
    fn a_hold_explains_half_a_minute_more_without_a_handler() {
        let history = History::new();
        history.record_at(10 * SECOND, Event::Held);
        history.record_at(20 * SECOND, Event::HoldLifted);
        let excused = |from: u64, to: u64| {
            let gap = (from * SECOND, to * SECOND);
            is_excused(gap, Duration::from_secs(5), &history.entries())
        };
        assert!(excused(8, 43) && excused(19, 40));
        assert!(!excused(8, 44) && !excused(21, 40) && !excused(1, 9));
    }

    #[test]
    fn a_job_that_begins_on_a_cordoned_node_is_found() {
        let of = |node: &str, at| {
            let node = node.to_owned();
            begins(&Event::Cordoned { node: node.clone() }, &Event::CordonLifted { node }, at)
        };
        assert_eq!(of("n1-1", 15), ["k: n1-1/0 began it under 9 on a node that was cordoned"]);
        assert_eq!((of("n1-1", 13), of("n1-1", 20), of("n1-2", 15)), (vec![], vec![], vec![]));
    }

    #[test]
    fn a_job_that_leaves_a_cordoned_node_is_found() {
        let told = |why: &str| {
            let told = Event::ToldToEnd { key: key(), token: 9, worker: worker(), why: why.into() };
            found(&[(10, Event::Cordoned { node: "n1-1".into() }), (15, told)])
        };
        assert_eq!(told(MOVED), ["k: 9 was moved from n1-1/0, whose node was cordoned"]);
        assert_eq!(told("Stopped"), [""; 0]);
    }

    #[test]
    fn a_job_of_a_worker_that_was_drained_is_found() {
        let [begun, started] = begun(11);
        let drained = Event::Drained { worker: worker() };
        let after = [(10, drained.clone()), (12, begun), (12, started.clone())];
        assert_eq!(found(&after), ["k: n1-1/0 began it under 9 by a worker that was drained, and gone"]);
        assert_eq!(found(&[(9, started), (10, drained)]), [""; 0]);
    }

    #[test]
    fn a_handler_that_hangs_for_too_long_is_found() {
        let [_, started] = begun(1);
        let stopped = Event::Stopped { key: key(), token: 9, worker: worker() };
        let hangs = |until: (u64, Event)| {
            found(&[(1, started.clone()), (2, Event::Hangs { key: key(), token: 9 }), until])
        };
        assert_eq!(hangs((11, stopped.clone())), ["k: 9 made no progress for 9.0 s, and ran on"]);
        assert_eq!(hangs((11, Event::Settled)).len(), 1);
        assert_eq!(hangs((9, stopped)), [""; 0]);
        assert_eq!(hangs((11, Event::WorkerDead { worker: worker() })), [""; 0]);
    }

    #[test]
    fn only_a_handler_that_hangs_is_taken_for_hung() {
        let told = || Event::ToldToEnd { key: key(), token: 9, worker: worker(), why: STALLED.into() };
        assert_eq!(found(&[(2, told())]), ["k: 9 was taken for hung, and made progress"]);
        let hangs = Event::Hangs { key: key(), token: 9 };
        assert_eq!(found(&[(1, hangs.clone()), (2, told())]), [""; 0]);
        let [_, started] = begun(0);
        let paused = Event::Paused { worker: worker() };
        assert_eq!(found(&[(0, started), (1, hangs), (2, paused), (3, told())]), [""; 0]);
    }
}
