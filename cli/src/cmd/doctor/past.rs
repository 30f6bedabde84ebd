//! The last hour of a pool by its history: workers coming and going, and losses of data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use tenure_pool::event::{Event, EventKind};

use super::{Finding, Unit};
use crate::out::{shown, when};

/// How far back the history is read.
pub(super) const HOUR: Duration = Duration::from_secs(3_600);
/// How far back gone workers count.
const LATELY: Duration = Duration::from_secs(600);
/// A deploy makes the workers of a node leave less often.
const OFTEN: u64 = 3;
/// Workers report, or lose the lease, this soon before or after a pool is opened again.
const NEAR: Duration = Duration::from_secs(120);
/// How many nodes a finding names.
const NAMED: usize = 3;

/// The part of an event for these checks.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    at: SystemTime,
    kind: EventKind,
    /// The node with the news.
    node: String,
    count: u64,
    text: String,
}

impl From<Event> for Noted {
    fn from(Event { at, kind, node, count, text, .. }: Event) -> Self {
        Self { at, kind, node, count, text }
    }
}

/// The workers of a node, gone lately.
#[derive(Debug, Default)]
struct Gone {
    lost: u64,
    fenced: u64,
    left: u64,
}

impl Gone {
    fn is_odd(&self) -> bool {
        self.lost + self.fenced > 0 || self.left >= OFTEN
    }

    fn told(&self, node: &str) -> String {
        let parts = [(self.lost, "lost"), (self.fenced, "fenced"), (self.left, "left")];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<_> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        format!("{} ({})", shown::plain(node), parts.join(", "))
    }
}

/// The age of an event. Zero for an event in the future.
fn age(event: &Noted, now: SystemTime) -> Duration {
    now.duration_since(event.at).unwrap_or_default()
}

/// The node of a lost worker. Another node has noted the loss.
fn lost_node(event: &Noted) -> Option<&str> {
    (event.kind == EventKind::Lost && !event.text.is_empty()).then_some(&*event.text)
}

/// Workers lost, fenced or gone lately, by node; and nodes lost in the last hour and still away.
pub(super) fn churn(events: &[Noted], nodes: &BTreeSet<&str>, now: SystemTime) -> Finding {
    const CHECK: &str = "pool.churn";
    let mut gone: BTreeMap<&str, Gone> = BTreeMap::new();
    let mut away: BTreeMap<&str, Duration> = BTreeMap::new();
    for event in events {
        if let Some(node) = lost_node(event)
            && !nodes.contains(node)
        {
            away.insert(node, age(event, now));
        }
        if age(event, now) > LATELY {
            continue;
        }
        match event.kind {
            EventKind::Fenced => gone.entry(&event.node).or_default().fenced += 1,
            EventKind::Left => gone.entry(&event.node).or_default().left += 1,
            _ => {
                if let Some(node) = lost_node(event) {
                    gone.entry(node).or_default().lost += 1;
                }
            }
        }
    }
    let count = gone.values().map(|of| of.lost + of.fenced + of.left).sum();
    gone.retain(|_, of| of.is_odd());
    let within = when::brief(LATELY);
    let finding = match (away.is_empty(), gone.is_empty()) {
        (true, true) => Finding::ok(CHECK, format!("no node has lost a worker within {within}")),
        (false, _) => {
            let told =
                away.iter().map(|(node, age)| format!("{} {} ago", shown::plain(node), when::brief(*age)));
            let text = format!("nodes were lost and are not back: {}", some(told, away.len()));
            Finding::warn(CHECK, text, "look at that process: it is dead, hangs, or is cut off")
        }
        (true, false) => {
            let told = gone.iter().map(|(node, of)| of.told(node));
            let text = format!("workers have gone within {within}: {}", some(told, gone.len()));
            let remedy =
                "read the last words of that process, or of its hosts: a job may end it again and again";
            Finding::warn(CHECK, text, remedy)
        }
    };
    finding.count(count, Unit::Workers)
}

/// Losses of data in the last hour, and the jobs known to be lost.
pub(super) fn losses(events: &[Noted], now: SystemTime) -> Finding {
    const CHECK: &str = "pool.losses";
    let of = |kind| events.iter().filter(move |event| event.kind == kind);
    let damaged: Vec<_> = of(EventKind::Damaged).collect();
    let reported: u64 = of(EventKind::Reported).map(|event| event.count).sum();
    let gone: u64 = of(EventKind::Reported).map(|event| told(&event.text, "gone")).sum();
    // A new pool is opened, too, but no worker of a new pool reports, or loses the lease.
    let is_old = |opening: &Noted| {
        let near = |event: &Noted| age(event, opening.at).max(age(opening, event.at)) < NEAR;
        of(EventKind::Reported).chain(of(EventKind::Fenced)).any(near)
    };
    let opened = of(EventKind::Opening).filter(|opening| is_old(opening));
    let last = opened.chain(damaged.iter().copied()).map(|event| event.at).max();
    let Some(last) = last else {
        return Finding::ok(CHECK, "no loss of data is noted").count(0, Unit::Jobs);
    };
    let ago = when::brief(now.duration_since(last).unwrap_or_default());
    let what = match damaged.last().map(|event| shown::plain(&event.text)) {
        Some(what) if !what.is_empty() => format!(": {what}"),
        _ => String::new(),
    };
    let text = format!(
        "data were lost, or may have been, {ago} ago{what}; workers reported {reported} jobs that they run, and {gone} are known to be lost"
    );
    let remedy = "dispatch again what must run, with ensure: queued, parked and paused jobs, cordons and schedules may be gone";
    Finding::warn(CHECK, text, remedy).count(gone, Unit::Jobs)
}

/// The number before this word in a list like "3 stopped, 2 gone".
fn told(text: &str, what: &str) -> u64 {
    let mut parts = text.split(", ").filter_map(|part| part.split_once(' '));
    parts.find(|(_, word)| *word == what).and_then(|(count, _)| count.parse().ok()).unwrap_or(0)
}

/// The first names, and the number of further ones.
fn some(told: impl Iterator<Item = String>, all: usize) -> String {
    let named: Vec<_> = told.take(NAMED).collect();
    let more = all.saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + NOW
    }

    fn noted(ago: u64, kind: EventKind, node: &str, count: u64, text: &str) -> Noted {
        let (node, text) = (node.to_owned(), text.to_owned());
        Noted { at: now() - Duration::from_secs(ago), kind, node, count, text }
    }

    fn seen(events: &[Noted]) -> Finding {
        churn(events, &BTreeSet::from(["a", "b"]), now())
    }

    #[test]
    fn a_node_that_was_lost_is_named_until_it_is_back() {
        let lost = |node| noted(700, EventKind::Lost, "a", 53, node);
        let found = seen(&[lost("c")]);
        assert_eq!(found.severity, Severity::Warn);
        assert!(found.text.contains("are not back: c 11m40s ago"), "{}", found.text);
        // The node is back, and the loss long ago.
        assert_eq!(seen(&[lost("b")]).severity, Severity::Ok);
        // An event of jobs taken from a worker names no node.
        assert_eq!(seen(&[lost("")]).severity, Severity::Ok);
    }

    #[test]
    fn workers_that_come_and_go_are_named_by_their_node() {
        let left = |ago, node| noted(ago, EventKind::Left, node, 0, "");
        // A deploy: every node leaves once.
        assert_eq!(
            seen(&[left(1, "a"), left(2, "b"), left(900, "a"), left(901, "a")]).severity,
            Severity::Ok
        );
        let found = seen(&[left(1, "a"), left(2, "b"), left(60, "b"), left(120, "b")]);
        assert_eq!(found.severity, Severity::Warn);
        assert!(found.text.ends_with(": b (3 left)"), "{}", found.text);
        let fenced = [noted(5, EventKind::Fenced, "b", 7, ""), noted(6, EventKind::Lost, "a", 2, "b")];
        assert!(seen(&fenced).text.ends_with(": b (1 lost, 1 fenced)"), "{}", seen(&fenced).text);
        let many: Vec<_> =
            ["a", "b", "c", "d", "e"].map(|node| noted(1, EventKind::Fenced, node, 1, "")).into();
        assert!(seen(&many).text.ends_with("c (1 fenced) and 2 more"), "{}", seen(&many).text);
    }

    #[test]
    fn a_loss_of_data_is_told_with_what_is_known_of_it() {
        let opening = noted(30, EventKind::Opening, "a", 0, "");
        assert_eq!(losses(std::slice::from_ref(&opening), now()).severity, Severity::Ok, "a new pool");
        let reported = |text| noted(28, EventKind::Reported, "a", 20, text);
        let found = losses(&[opening.clone(), reported("1 stopped, 3 gone"), reported("")], now());
        assert_eq!(found.severity, Severity::Warn);
        for part in ["30s ago", "reported 40 jobs", "3 are known"] {
            assert!(found.text.contains(part), "{}", found.text);
        }
        // All workers have lost the lease, and have nothing to report.
        let fenced = |ago| noted(ago, EventKind::Fenced, "a", 44, "");
        assert_eq!(losses(&[opening.clone(), fenced(31)], now()).severity, Severity::Warn);
        // An older trouble.
        assert_eq!(losses(&[fenced(400), opening], now()).severity, Severity::Ok);
        assert_eq!(losses(&[reported("")], now()).severity, Severity::Ok, "nothing was lost");
        let damaged = noted(3, EventKind::Damaged, "a", 0, "the jobs");
        assert!(losses(&[damaged], now()).text.contains("3s ago: the jobs;"));
    }
}
