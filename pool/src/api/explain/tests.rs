//! Every verdict, with its text.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use super::*;
use crate::model::id::{NodeName, Nonce};
use crate::model::member::Member;
use crate::model::why::Cause;
use crate::store::{CheckpointSeen, Lookup, Pause};

const NOW: u64 = 2_000_000_000_000;
const S: u64 = 1_000;
const MIN: u64 = 60 * S;
const H: u64 = 60 * MIN;

/// A job with this state, owner and token; attempts; how far it has come; how long ago it was begun or became free; and
/// the strikes against its placement. It was accepted 3 h 13 min ago.
fn job(owner: &str, attempts: u32, begun: u32, ago: u64, strikes: u32) -> Evidence {
    let (since, created) = (NOW - ago, NOW - 3 * H - 13 * MIN);
    let text = format!("1|{owner}|{attempts}|{begun}|{since}|api-2.x|{created}||{strikes}|");
    let record = Record::parse(text.as_bytes());
    assert!(record.is_some(), "{text}");
    let heard = record.as_ref().and_then(|record| record.owner).map(|_| NOW - 1_300);
    let found = Lookup { record, ..Lookup::default() };
    Evidence { now: NOW, found, heard, freshest: Some(NOW - 700), ..Evidence::default() }
}

/// No worker has renewed its lease for so long, and the owner, if there is one, for a second more.
fn silent(seen: Evidence, ago: u64) -> Evidence {
    Evidence { heard: seen.heard.map(|_| NOW - ago - S), freshest: Some(NOW - ago), ..seen }
}

fn stopping(seen: Evidence) -> Evidence {
    Evidence { flag: Some(ShutdownFlag::Stopping { deadline_ms: None, by: "ops".to_owned() }), ..seen }
}

/// Asked for by `ops`: accepted jobs may begin for so long.
fn closing(seen: Evidence, left: u64) -> Evidence {
    Evidence { flag: Some(ShutdownFlag::Closing { deadline_ms: NOW + left, by: "ops".to_owned() }), ..seen }
}

/// In a pool that is being opened, in which these workers have reported.
fn recovering(seen: Evidence, reported: &[u64]) -> Evidence {
    let attested = reported.iter().copied().map(WorkerId).collect();
    Evidence { recovering: true, attested, ..seen }
}

fn due(seen: Evidence, within: u64, error: Option<&str>) -> Evidence {
    let pause = Pause { until: Some(NOW + within), error: error.map(str::to_owned) };
    Evidence { pause, ..seen }
}

fn member(state: MemberState, slot: Option<u32>, node: &str) -> Member {
    Member {
        state,
        slot,
        ttl: Duration::from_secs(10),
        nonce: Nonce::new("n").unwrap(),
        node: NodeName::new(node).unwrap(),
        meta: String::new(),
        level: 1,
        address: format!("http://{node}:8080"),
    }
}

fn members(entries: &[(u64, MemberState)]) -> Members {
    let up = |(slot, (id, state)): (usize, &(u64, MemberState))| {
        let slot = (*state != MemberState::Standby).then_some(slot as u32);
        (WorkerId(*id), member(*state, slot, &format!("feeds-{id}")))
    };
    let ring_size = entries.len() as u32;
    Members { ring_size, entries: entries.iter().enumerate().map(up).collect(), ..Members::default() }
}

/// The same, and the node of worker 41 is cordoned.
fn cordoned(members: Members) -> Members {
    Members { cordoned: [NodeName::new("feeds-41").unwrap()].into(), ..members }
}

/// The same, and worker 42 is up on the node of worker 41.
fn with_sibling(mut members: Members) -> Members {
    members.entries.insert(WorkerId(42), member(MemberState::Up, Some(7), "feeds-41"));
    members
}

fn one() -> Members {
    members(&[(41, MemberState::Up)])
}

/// The first worker of the chain of `acme` is 41.
fn two() -> Members {
    let both = members(&[(41, MemberState::Up), (12, MemberState::Up)]);
    let home = Ring::new(&both, &Settings::default()).home(b"acme");
    if home == Some(WorkerId(41)) { both } else { members(&[(12, MemberState::Up), (41, MemberState::Up)]) }
}

fn row(seen: Evidence, members: &Members, settings: &Settings, verdict: Verdict, text: &str) -> Verdict {
    let key = JobKey::new("acme").unwrap();
    let explained = explain(key, None, seen, members, settings);
    assert_eq!(explained.verdict, verdict, "{explained}");
    assert_eq!(explained.to_string(), text);
    let json = serde_json::to_value(&explained).unwrap();
    assert_eq!(json["key"], "acme");
    verdict
}

/// The job `acme` in a pool with one worker and the default settings.
fn explained(seen: Evidence) -> Explanation {
    explain(JobKey::new("acme").unwrap(), None, seen, &one(), &Settings::default())
}

/// One number for each verdict. A new one does not compile before it is named here, and fails before it has a row.
fn number(verdict: &Verdict) -> usize {
    match verdict {
        Verdict::Absent => 0,
        Verdict::Ended { .. } => 1,
        Verdict::NotReported => 2,
        Verdict::Unreadable { .. } => 3,
        Verdict::Dropped => 4,
        Verdict::Recovering => 5,
        Verdict::OnHold => 6,
        Verdict::NoWorker => 7,
        Verdict::Settling => 8,
        Verdict::BackOff => 9,
        Verdict::PassedOver { .. } => 10,
        Verdict::RanBefore { .. } => 11,
        Verdict::Unrouted { .. } => 12,
        Verdict::NotBegun => 13,
        Verdict::Starting => 14,
        Verdict::AtHome => 15,
        Verdict::PastHome { .. } => 16,
        Verdict::Moving { .. } => 17,
        Verdict::Leaving => 18,
        Verdict::OwnerSilent => 19,
        Verdict::OwnerLost => 20,
        Verdict::Stopping => 21,
        Verdict::Parked => 22,
        Verdict::NobodyLives { .. } => 23,
        Verdict::UnreadableDispatch { .. } => 24,
        Verdict::AllCordoned => 25,
        Verdict::Cordoned => 26,
        Verdict::NoRoom { .. } => 27,
        Verdict::Paused => 28,
        Verdict::AllLeaving { .. } => 29,
        Verdict::Granted => 30,
    }
}
const VERDICTS: usize = 31;

#[test]
fn each_verdict_has_its_text() {
    let defaults = Settings::default();
    let on_hold = Settings { hold: true, ..Settings::default() };
    let mut rows = absent_rows(&defaults);
    rows.extend(queued_rows(&defaults, &on_hold));
    rows.extend(owned_rows(&defaults, &on_hold));
    let seen: BTreeSet<_> = rows.iter().map(number).collect();
    assert_eq!(seen, (0..VERDICTS).collect());
}

fn absent_rows(defaults: &Settings) -> Vec<Verdict> {
    let none = || Evidence { now: NOW, ..Evidence::default() };
    let found = |found| Evidence { found, ..none() };
    let ended = Lookup { ended: true, ..Lookup::default() };
    let outcome = Some("e:no route".to_owned());
    let bad = |newer| Lookup { bad: true, newer, ..Lookup::default() };
    let row = |seen, verdict, text| row(seen, &one(), defaults, verdict, text);
    vec![
        row(none(), Verdict::Absent, "acme: there is no job with this key"),
        row(
            found(ended.clone()),
            Verdict::Ended { outcome: None },
            "acme: there is no job with this key; the dispatch has ended, and its outcome is not kept",
        ),
        row(
            found(Lookup { outcome: outcome.clone(), ..ended.clone() }),
            Verdict::Ended { outcome: outcome.clone() },
            "acme: there is no job with this key; the dispatch has ended: e:no route",
        ),
        row(
            found(Lookup { outcome: outcome.clone(), ..Lookup::default() }),
            Verdict::Ended { outcome: outcome.clone() },
            "acme: there is no job with this key; the dispatch has ended: e:no route",
        ),
        row(
            Evidence { recovering: true, ..found(Lookup { outcome: outcome.clone(), ..ended }) },
            Verdict::Ended { outcome },
            "acme: there is no job with this key; the dispatch has ended: e:no route\n  before the pool opens, it waits \
             for the report of worker 41 (node feeds-41)",
        ),
        row(
            Evidence {
                recovering: true,
                ..found(Lookup { outcome: Some("ok".to_owned()), ..Lookup::default() })
            },
            Verdict::NotReported,
            "acme: the pool is being opened, and no worker has reported this job so far\n  before the pool opens, it \
             waits for the report of worker 41 (node feeds-41)",
        ),
        row(
            recovering(none(), &[41]),
            Verdict::NotReported,
            "acme: the pool is being opened, and no worker has reported this job so far\n  every member has reported: \
             a full node opens the pool",
        ),
        row(
            closing(none(), 0),
            Verdict::Absent,
            "acme: there is no job with this key\n  node ops asked for the shutdown of the pool: the time in \
             which accepted jobs may begin is over",
        ),
        row(
            found(Lookup { bad_id: true, ..Lookup::default() }),
            Verdict::UnreadableDispatch { newer: None },
            "acme: there is no job with this key; what the pool knows of the dispatch cannot be read",
        ),
        row(
            found(Lookup { bad_id: true, newer_id: Some(2), ..Lookup::default() }),
            Verdict::UnreadableDispatch { newer: Some(2) },
            "acme: there is no job with this key; what the pool knows of the dispatch has version 2, this version of \
             tenure reads up to 1",
        ),
        row(
            found(bad(None)),
            Verdict::Unreadable { newer: None },
            "acme: its record cannot be read; it was left as it is",
        ),
        row(
            found(bad(Some(2))),
            Verdict::Unreadable { newer: Some(2) },
            "acme: its record has version 2, this version of tenure reads up to 1; it was left as it is",
        ),
    ]
}

fn queued_rows(defaults: &Settings, on_hold: &Settings) -> Vec<Verdict> {
    const FROM: &str = "\n  accepted 3 h 13 min ago from node api-2";
    let new = || job("Q||0", 0, 0, 8 * S, 0);
    let row_with = |seen, members: Members, settings, verdict, line: &str| {
        row(seen, &members, settings, verdict, &format!("acme: {line}{FROM}"))
    };
    let among = |members, seen, verdict, line: &str| row_with(seen, members, defaults, verdict, line);
    let row = |seen, verdict, line: &str| among(one(), seen, verdict, line);
    let standby = || members(&[(41, MemberState::Standby)]);
    let next = WorkerId(41);
    vec![
        row(
            stopping(new()),
            Verdict::Dropped,
            "queued for 8 s: the pool is being shut down, and drops it\n  node ops asked for the shutdown of the pool: every job ends",
        ),
        row(
            recovering(new(), &[]),
            Verdict::Recovering,
            "queued for 8 s: the pool is being opened\n  before the pool opens, it waits for the report of worker 41 (node feeds-41)",
        ),
        row(
            recovering(new(), &[41]),
            Verdict::Recovering,
            "queued for 8 s: the pool is being opened\n  every member has reported: a full node opens the pool",
        ),
        row(
            closing(new(), 25 * S),
            Verdict::Unrouted { next },
            "queued for 8 s: it is about to be assigned to worker 41\n  node ops asked for the shutdown of the pool: \
             accepted jobs may begin for 25 s more",
        ),
        among(
            members(&[(41, MemberState::Draining)]),
            new(),
            Verdict::AllLeaving { workers: 1 },
            "queued for 8 s: the only worker is leaving",
        ),
        among(
            members(&[(41, MemberState::Draining), (12, MemberState::Draining)]),
            new(),
            Verdict::AllLeaving { workers: 2 },
            "queued for 8 s: all 2 workers are leaving",
        ),
        row_with(new(), one(), on_hold, Verdict::OnHold, "queued for 8 s: the pool is on hold"),
        among(Members::default(), new(), Verdict::NoWorker, "queued for 8 s: no worker is up"),
        among(
            cordoned(one()),
            new(),
            Verdict::AllCordoned,
            "queued for 8 s: every node with a worker is cordoned",
        ),
        among(standby(), new(), Verdict::Settling, "queued for 8 s: workers are about to take their places"),
        row(
            silent(new(), 3 * H),
            Verdict::NobodyLives { renewed: Duration::from_secs(3 * 3_600) },
            "queued for 8 s\n  no worker lives: the last one renewed its lease 3 h 0 min ago",
        ),
        among(
            standby(),
            silent(new(), 11 * S),
            Verdict::NobodyLives { renewed: Duration::from_secs(11) },
            "queued for 8 s\n  no worker lives: the last one renewed its lease 11 s ago",
        ),
        row_with(
            silent(new(), 3 * H),
            one(),
            on_hold,
            Verdict::OnHold,
            "queued for 8 s: the pool is on hold",
        ),
        row(
            silent(new(), 10 * S),
            Verdict::Unrouted { next },
            "queued for 8 s: it is about to be assigned to worker 41",
        ),
        row(
            due(job("Q||17", 3, 1, 41 * S, 0), 12 * S, Some("connection refused")),
            Verdict::BackOff,
            "queued for 41 s, after attempt 3 of 20: tried again in 12 s (failed: connection refused)",
        ),
        row(
            unplaced(due(job("Q||17", 3, 1, 41 * S, 0), 12 * S, Some("connection refused"))),
            Verdict::RanBefore { next },
            "queued for 41 s: it has run before, worker 41 is next\n  its last attempt failed: connection refused\n  here \
             because no worker was up when it was to be assigned",
        ),
        row(
            due(job("Q||17", 3, 1, 41 * S, 2), 12 * S, Some("connection refused")),
            Verdict::BackOff,
            "queued for 41 s, after attempt 3 of 20: tried again in 12 s (failed: connection refused)\n  workers \
             passed it over 2 times",
        ),
        among(
            Members::default(),
            due(job("Q||17", 3, 1, 41 * S, 0), 12 * S, Some("connection refused")),
            Verdict::NoWorker,
            "queued for 41 s: no worker is up\n  its last attempt failed: connection refused",
        ),
        among(
            standby(),
            due(job("Q||17", 3, 1, 41 * S, 0), 12 * S, Some("connection refused")),
            Verdict::Settling,
            "queued for 41 s: workers are about to take their places\n  its last attempt failed: connection refused",
        ),
        row(
            due(job("Q||17", 0, 0, 850, 1), 5 * S, None),
            Verdict::PassedOver { times: 1, next },
            "queued for 850 ms: passed over once, worker 41 is next",
        ),
        row(
            job("Q||17", 0, 0, 8 * S, 2),
            Verdict::PassedOver { times: 2, next },
            "queued for 8 s: passed over 2 times, worker 41 is next",
        ),
        row(
            due(job("Q||17", 0, 0, 8 * S, 3), 22 * S, None),
            Verdict::NoRoom { workers: 1 },
            "queued for 8 s: the only worker that is up has no room for it, or refused it; tried again in 22 s",
        ),
        row(
            job("Q||17", 0, 2, 8 * S, 0),
            Verdict::RanBefore { next },
            "queued for 8 s: it has run before, worker 41 is next",
        ),
        row(new(), Verdict::Unrouted { next }, "queued for 8 s: it is about to be assigned to worker 41"),
        row(
            due(job("P||17", 20, 1, 50 * H, 0), 0, Some("no route")),
            Verdict::Parked,
            "parked for 2 d 2 h, after 20 of 20 attempts: no route\n  nothing tries it again before it is unparked",
        ),
        row(
            paused(Some("anna|ticket 7")),
            Verdict::Paused,
            "paused for 2 d 2 h, by anna: ticket 7\n  nobody runs it before it is resumed\n  here because an operator paused it",
        ),
        row(
            paused_until(paused(Some("anna|1|ticket 7")), NOW + 2 * H),
            Verdict::Paused,
            "paused for 2 d 2 h, by anna: ticket 7\n  it goes on by itself in 2 h 0 min, or when it is resumed\n  here because an operator paused it",
        ),
        row(
            paused(Some("anna|")),
            Verdict::Paused,
            "paused for 2 d 2 h, by anna\n  nobody runs it before it is resumed\n  here because an operator paused it",
        ),
        row(
            paused(None),
            Verdict::Paused,
            "paused for 2 d 2 h\n  nobody runs it before it is resumed\n  here because an operator paused it",
        ),
        row(
            stopping(paused(Some("anna|ticket 7"))),
            Verdict::Dropped,
            "paused for 2 d 2 h, by anna: ticket 7\n  the pool is being shut down, and drops it\n  node ops asked for the shutdown of the pool: every job ends\n  here because an operator paused it",
        ),
        row(
            stopping(due(job("P||17", 20, 1, 50 * H, 0), 0, Some("no route"))),
            Verdict::Dropped,
            "parked for 2 d 2 h, after 20 of 20 attempts: no route\n  the pool is being shut down, and drops it\n  node ops asked for the shutdown of the pool: every job ends",
        ),
    ]
}

/// A job that was paused, with this text kept beside its record.
fn paused(kept: Option<&str>) -> Evidence {
    let mut seen = due(job("P||17", 0, 1, 50 * H, 0), 0, kept);
    if let Some(record) = &mut seen.found.record {
        record.tail = "||z17".to_owned();
    }
    seen
}

/// A router has found no worker for it.
fn unplaced(mut seen: Evidence) -> Evidence {
    if let Some(record) = &mut seen.found.record {
        record.set_why(Cause::NoWorker);
    }
    seen
}

/// The same, until then.
fn paused_until(mut seen: Evidence, until: u64) -> Evidence {
    if let Some(record) = &mut seen.found.record {
        record.set_pause_end(until);
    }
    seen
}

fn owned_rows(defaults: &Settings, on_hold: &Settings) -> Vec<Verdict> {
    const FROM: &str = "\n  accepted 3 h 13 min ago from node api-2";
    const HERE: &str = "worker 41 (node feeds-41, http://feeds-41:8080) under token 8812";
    let runs = |strikes| job("R|41|8812", 1, 2, 3 * H + 12 * MIN, strikes);
    let row_with = |seen, members: Members, settings, verdict, line: &str| {
        let line = line.replace("{here}", HERE);
        row(seen, &members, settings, verdict, &format!("acme: {line}{FROM}"))
    };
    let among = |members, seen, verdict, line: &str| row_with(seen, members, defaults, verdict, line);
    let row = |seen, verdict, line: &str| among(two(), seen, verdict, line);
    let belongings = Evidence {
        notifications: 3,
        checkpoint: Some(CheckpointSeen { token: Token(8_812), at: NOW - 4 * S, len: 2_150 }),
        ..runs(0)
    };
    let plan = {
        let mut seen = runs(0);
        seen.found.record.as_mut().unwrap().plan = "nightly".to_owned();
        Evidence { notifications: 1, checkpoint: None, ..seen }
    };
    let draining = || members(&[(41, MemberState::Draining), (12, MemberState::Up)]);
    let home = WorkerId(41);
    let here = "worker 12 (node feeds-12, http://feeds-12:8080) under token 8812";
    let elsewhere = |strikes| job("R|12|8812", 1, 2, 3 * H + 12 * MIN, strikes);
    let lost = |seen| Evidence { heard: None, expired: true, ..seen };
    let at_home = "running on {here}, for 3 h 12 min, attempt 1\n  the ring gives this key to that worker";
    let mut rows = vec![
        row(runs(0), Verdict::AtHome, at_home),
        row_with(runs(0), two(), on_hold, Verdict::AtHome, at_home),
        among(
            cordoned(two()),
            runs(0),
            Verdict::Cordoned,
            "running on {here}, for 3 h 12 min, attempt 1\n  its node is cordoned: the job stays there, and the node \
             gets no other",
        ),
        row(
            elsewhere(3),
            Verdict::PastHome { home },
            &format!(
                "running on {here}, for 3 h 12 min, attempt 1\n  the ring gives this key to worker 41; it was passed \
                 over 3 times, and stays where it is until it is handed on"
            ),
        ),
        row(
            elsewhere(0),
            Verdict::Moving { to: Some(home), on_hold: false },
            &format!(
                "running on {here}, for 3 h 12 min, attempt 1\n  the ring gives this key to worker 41: it moves there \
                 when the ring has been stable for a while"
            ),
        ),
        row_with(
            elsewhere(0),
            two(),
            on_hold,
            Verdict::Moving { to: Some(home), on_hold: true },
            &format!(
                "running on {here}, for 3 h 12 min, attempt 1\n  the ring gives this key to worker 41: nothing moves \
                 while the pool is on hold"
            ),
        ),
        among(
            members(&[(41, MemberState::Standby)]),
            runs(0),
            Verdict::Moving { to: None, on_hold: false },
            "running on {here}, for 3 h 12 min, attempt 1\n  no worker is up: it stays where it is",
        ),
        among(
            draining(),
            runs(0),
            Verdict::Leaving,
            "running on {here}, for 3 h 12 min, attempt 1\n  all workers of its node are leaving: the job is handed on",
        ),
        among(
            with_sibling(draining()),
            runs(0),
            Verdict::Leaving,
            "running on {here}, for 3 h 12 min, attempt 1\n  that worker is leaving: the job is handed on",
        ),
        among(
            draining(),
            job("A|41|8812", 0, 0, 2 * S, 0),
            Verdict::Leaving,
            "assigned to {here}, begun by nobody for 2 s\n  all workers of its node are leaving: the job is handed on",
        ),
        row(
            recovering(runs(0), &[12]),
            Verdict::AtHome,
            &format!(
                "{at_home}\n  before the pool opens, it waits for the report of worker 41 (node feeds-41)"
            ),
        ),
        row(
            Evidence { heard: Some(NOW - 7 * S), ..runs(0) },
            Verdict::OwnerSilent,
            "running on {here}, for 3 h 12 min, attempt 1\n  that worker renewed its lease 7 s ago: unless it renews \
             it soon, it loses its jobs",
        ),
        row(
            Evidence { heard: Some(NOW - 7 * S), ..job("A|41|8812", 0, 0, 8 * S, 0) },
            Verdict::OwnerSilent,
            "assigned to {here}, begun by nobody for 8 s\n  that worker renewed its lease 7 s ago: unless it renews it soon, \
             it loses its jobs",
        ),
        row(
            Evidence { heard: Some(NOW - 7 * S), ..job("S|41|8812", 1, 2, H, 0) },
            Verdict::OwnerSilent,
            "stopping on {here}\n  that worker renewed its lease 7 s ago: unless it renews it soon, it loses its jobs",
        ),
        row(
            job("R|41|8812", 1, 0, 2 * S, 0),
            Verdict::Granted,
            "given to {here}, for 2 s, attempt 1\n  that worker has not said that it begins the job",
        ),
        row(
            job("R|41|8812", 2, 1, 4 * S, 0),
            Verdict::Starting,
            "starting on {here}, for 4 s, attempt 2\n  its start handler has not succeeded yet",
        ),
        row(
            due(job("A|41|8812", 0, 0, 2 * S, 0), 3 * S, None),
            Verdict::NotBegun,
            "assigned to {here}, begun by nobody for 2 s\n  if that worker does not begin it within 3 s, it is assigned anew",
        ),
        row(
            due(job("S|41|8812", 1, 2, H, 0), 3 * S, None),
            Verdict::Stopping,
            "stopping on {here}\n  its handler has not ended; the worker is told again in 3 s",
        ),
    ];
    for (seen, verdict, second) in [
        (
            stopping(job("A|41|8812", 0, 0, 2 * S, 0)),
            Verdict::Dropped,
            "the pool is being shut down, and drops it\n  node ops asked for the shutdown of the pool: every job ends",
        ),
        (
            recovering(job("A|41|8812", 0, 0, 2 * S, 0), &[41]),
            Verdict::Recovering,
            "the pool is being opened\n  before the pool opens, it waits for the report of worker 12 (node feeds-12)",
        ),
    ] {
        let line = format!("assigned to {{here}}, begun by nobody for 2 s\n  {second}");
        rows.push(row(seen, verdict, &line));
    }
    rows.push(row(
        stopping(elsewhere(0)),
        Verdict::Dropped,
        &format!(
            "running on {here}, for 3 h 12 min, attempt 1\n  the pool is being shut down: its handler is told to end\n  \
             node ops asked for the shutdown of the pool: every job ends"
        ),
    ));
    let unheard = || Evidence { heard: None, freshest: None, ..runs(0) };
    rows.push(row(unheard(), Verdict::AtHome, at_home));
    rows.push(among(
        members(&[(12, MemberState::Up)]),
        unheard(),
        Verdict::OwnerLost,
        "left behind by worker 41 under token 8812, which was lost\n  the pool takes the job from that worker soon",
    ));
    for (state, first) in [
        ("R", "running on {here}, for 1 h 0 min, attempt 1"),
        ("A", "assigned to {here}, begun by nobody for 1 h 0 min"),
        ("S", "stopping on {here}"),
    ] {
        rows.push(row(
            silent(job(&format!("{state}|41|8812"), 1, 2, H, 0), 2 * MIN),
            Verdict::NobodyLives { renewed: Duration::from_secs(120) },
            &format!("{first}\n  no worker lives: the last one renewed its lease 2 min 0 s ago"),
        ));
    }
    for state in ["R", "A", "S"] {
        rows.push(row(
            lost(job(&format!("{state}|7|8812"), 1, 2, H, 0)),
            Verdict::OwnerLost,
            "left behind by worker 7 under token 8812, which was lost\n  the pool takes the job from that worker soon",
        ));
    }
    for (seen, has) in [
        (belongings, "3 notifications wait; checkpoint of 2.0 KiB by token 8812, 4 s old; "),
        (plan.clone(), "1 notification waits; "),
    ] {
        let explained = explain(JobKey::new("acme").unwrap(), None, seen, &two(), defaults);
        assert!(explained.to_string().contains(&format!("\n  {has}accepted 3 h 13 min ago")), "{explained}");
    }
    let explained = explain(JobKey::new("acme").unwrap(), None, plan, &two(), defaults);
    assert!(explained.to_string().ends_with("from node api-2; wanted by the plan nightly"), "{explained}");
    rows
}

/// Whether a job in such a state can be so, whatever its pool is like.
fn fits(verdict: &Verdict, seen: &Evidence, members: &Members, settings: &Settings) -> bool {
    let Some(record) = &seen.found.record else { return false };
    let (state, owner) = (record.state, record.owner);
    let owned = matches!(state, JobState::Assigned | JobState::Running | JobState::Stopping);
    let queued = state == JobState::Queued;
    let runs = state == JobState::Running;
    let is_live = |id: WorkerId| members.entries.get(&id).is_some_and(|member| member.slot.is_some());
    let member = |id: Option<WorkerId>| members.entries.get(&id?);
    let state_of = |id| member(id).map(|member| member.state);
    let is_cordoned = |id| member(id).is_some_and(|member| members.cordoned.contains(&member.node));
    let home = Ring::new(members, &Settings { hold: false, ..settings.clone() }).home(b"acme");
    match verdict {
        Verdict::Dropped => state != JobState::Stopping && seen.flag.is_some(),
        Verdict::Recovering => (queued || state == JobState::Assigned) && seen.recovering,
        Verdict::Parked => state == JobState::Parked && !record.is_paused(),
        Verdict::Paused => state == JobState::Parked && record.is_paused(),
        Verdict::NobodyLives { renewed } => (queued || owned) && *renewed > settings.worker_ttl,
        Verdict::OwnerLost => {
            owned && (seen.expired || owner.is_some_and(|id| !members.entries.contains_key(&id)))
        }
        Verdict::OwnerSilent => owned && seen.heard.is_some_and(|at| NOW - at > 6 * S),
        Verdict::Stopping => state == JobState::Stopping,
        Verdict::NotBegun => state == JobState::Assigned,
        Verdict::OnHold => queued && settings.hold,
        Verdict::Settling | Verdict::NoWorker => queued && home.is_none_or(|home| !is_live(home)),
        Verdict::AllCordoned => {
            let mut live = members.entries.keys().filter(|id| is_live(**id)).peekable();
            queued && live.peek().is_some() && live.all(|id| is_cordoned(Some(*id)))
        }
        Verdict::NoRoom { workers } => queued && record.strikes >= *workers,
        Verdict::BackOff => queued && seen.pause.error.is_some(),
        Verdict::PassedOver { times, next } => {
            queued && *times == record.strikes && *times > 0 && is_live(*next)
        }
        Verdict::Unrouted { next } => queued && record.begun == Begun::Never && is_live(*next),
        Verdict::RanBefore { next } => queued && record.begun != Begun::Never && is_live(*next),
        Verdict::Leaving => {
            let is_there = runs || state == JobState::Assigned;
            is_there && state_of(owner) == Some(MemberState::Draining)
        }
        Verdict::AllLeaving { .. } => {
            queued && members.entries.values().all(|member| member.state == MemberState::Draining)
        }
        Verdict::Granted => runs && record.begun == Begun::Never,
        Verdict::Starting => runs && record.begun == Begun::Begun,
        Verdict::Cordoned => runs && is_cordoned(owner),
        Verdict::Moving { to, on_hold } => runs && *to != owner && *on_hold == settings.hold,
        Verdict::PastHome { home } => runs && Some(*home) != owner && record.strikes > 0,
        Verdict::AtHome => runs && owner.is_some_and(is_live) && (owner == home || is_cordoned(home)),
        _ => false,
    }
}

#[test]
fn no_verdict_contradicts_the_record_and_its_pool() {
    let pools = [
        members(&[]),
        members(&[(41, MemberState::Standby)]),
        members(&[(41, MemberState::Draining), (12, MemberState::Up)]),
        members(&[(41, MemberState::Draining)]),
        one(),
        cordoned(one()),
        two(),
        cordoned(two()),
    ];
    let mut met = BTreeSet::new();
    for bits in 0..1_u32 << 5 {
        let is = |bit: u32| bits >> bit & 1 == 1;
        let settings = Settings { hold: is(0), ..Settings::default() };
        for (owner, strikes) in
            ["Q|", "A|41", "R|41", "S|41", "R|12", "P|"].iter().flat_map(|it| [(it, 0), (it, 4)])
        {
            for begun in 0..3 {
                for ago in [S, 7 * S, 20 * S] {
                    let seen = job(&format!("{owner}|17"), 1, begun, 8 * S, strikes);
                    let seen = if is(1) { due(seen, S, Some("no route")) } else { seen };
                    let seen = if is(2) { stopping(seen) } else { seen };
                    let seen = Evidence { recovering: is(3), expired: is(4), ..seen };
                    let seen = if ago > S { silent(seen, ago - S) } else { seen };
                    for pool in &pools {
                        let verdict = verdict(&JobKey::new("acme").unwrap(), &seen, pool, &settings);
                        assert!(
                            fits(&verdict, &seen, pool, &settings),
                            "{verdict:?} of {seen:?} in {pool:?}"
                        );
                        met.insert(number(&verdict));
                    }
                }
            }
        }
    }
    let unmet: Vec<_> = (0..VERDICTS).filter(|number| !met.contains(number)).collect();
    // A job without a record, and a pause.
    assert_eq!(unmet, [0, 1, 2, 3, 24, 28]);
}

#[test]
fn a_pool_that_opens_names_those_it_waits_for() {
    let many: Vec<_> = (1..=8).map(|id| (id, MemberState::Up)).collect();
    let seen = recovering(job("Q||0", 0, 0, 8 * S, 0), &[2]);
    let explained = explain(JobKey::new("acme").unwrap(), None, seen, &members(&many), &Settings::default());
    let awaited: Vec<_> = explained.opening.iter().flat_map(|of| &of.awaited).map(|of| of.worker.0).collect();
    assert_eq!(awaited, [1, 3, 4, 5, 6, 7, 8]);
    let named = "worker 5 (node feeds-5), worker 6 (node feeds-6) and 2 more\n";
    assert!(explained.to_string().contains(named), "{explained}");
}

#[test]
fn a_shutdown_names_its_node_and_the_time_that_is_left() {
    let shutdown = |seen| explained(seen).shutdown.unwrap();
    let seen = job("R|41|8812", 1, 2, S, 0);
    let closing = shutdown(closing(seen.clone(), 25 * S));
    assert_eq!((&*closing.by, closing.left), ("ops", Some(Duration::from_secs(25))));
    let stopping = shutdown(stopping(seen));
    assert_eq!((&*stopping.by, stopping.left), ("ops", None));
    let flag = Some(ShutdownFlag::Stopping { deadline_ms: None, by: "n\u{1b}[31m1".to_owned() });
    assert!(
        shutdown(Evidence { flag, ..Evidence::default() })
            .to_string()
            .starts_with(r"node n\u{1b}[31m1 asked")
    );
}

#[test]
fn a_worker_that_has_not_renewed_yet_is_not_silent() {
    let seen = Evidence { heard: Some(1), ..job("R|41|8812", 1, 2, S, 0) };
    let explained = explained(seen);
    assert_eq!((explained.verdict, explained.owner.unwrap().renewed), (Verdict::AtHome, None));
}

#[test]
fn a_job_of_another_dispatch_is_told_apart() {
    let asked = |id: &str, found: Lookup, recovering| {
        let seen = job("R|41|8812", 1, 2, S, 0);
        let found = Lookup { record: seen.found.record.clone(), ..found };
        let seen = Evidence { recovering, found, ..seen };
        let id: DispatchId = id.parse().unwrap();
        let explained = explain(JobKey::new("acme").unwrap(), Some(&id), seen, &one(), &Settings::default());
        assert_eq!(explained.id.as_ref().map(DispatchId::as_str), Some("api-2.x"));
        let text = explained.to_string();
        let last = text.lines().last().unwrap().trim().to_owned();
        (explained.named.map(|named| (named.ended, named.outcome)), last)
    };
    let accepted = "accepted 3 h 13 min ago from node api-2";
    assert_eq!(asked("api-2.x", Lookup::default(), false), (None, accepted.to_owned()));
    let other = "the job is of another dispatch than api-2.y, which";
    let unknown = (Some((false, None)), format!("{other} was not accepted or has ended"));
    assert_eq!(asked("api-2.y", Lookup::default(), false), unknown);
    let ended = Lookup { ended: true, ..Lookup::default() };
    assert_eq!(asked("api-2.y", ended, false), (Some((true, None)), format!("{other} has ended")));
    let told = || Lookup { outcome: Some("ok".to_owned()), ..Lookup::default() };
    let ended = (Some((true, Some("ok".to_owned()))), format!("{other} has ended: ok"));
    assert_eq!(asked("api-2.y", told(), false), ended);
    // A job whose start has succeeded has that outcome while it runs.
    assert!(!asked("api-2.y", told(), true).0.unwrap().0);
}

#[test]
fn a_callers_own_id_is_the_same_from_every_node() {
    let mut seen = job("R|41|8812", 1, 2, S, 0);
    seen.found.record.as_mut().unwrap().id = "api-2.!order".parse().unwrap();
    let id: DispatchId = "api-7.!order".parse().unwrap();
    let explained = explain(JobKey::new("acme").unwrap(), Some(&id), seen, &one(), &Settings::default());
    assert_eq!(explained.named, None);
}

#[test]
fn a_handlers_text_breaks_no_line() {
    let error = "no \u{1b}[31mroute\r\nacme: running\u{202e} ü";
    let seen = due(job("Q||17", 3, 1, 41 * S, 0), 12 * S, Some(error));
    let text = explained(seen).to_string();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains(r"(failed: no \u{1b}[31mroute\r\nacme: running\u{202e} ü)"), "{text}");
}

#[test]
fn a_refusal_is_told_of_a_job_that_waits_and_is_no_failure() {
    let told = |owner: &str, strikes| {
        let mut seen = due(job(owner, 1, 1, 10 * S, strikes), 2 * S, Some("no program"));
        if let Some(record) = &mut seen.found.record {
            record.tail = "||r17+no\u{1b}program".to_owned();
        }
        explained(seen)
    };
    for (owner, strikes) in [("Q||3", 1), ("Q||3", 3), ("A|41|3", 1)] {
        let seen = told(owner, strikes);
        assert_eq!((seen.refusal.as_deref(), seen.error.as_deref()), (Some("no\u{1b}program"), None));
        let lines = seen.to_string();
        assert!(lines.contains("\n  here because worker 17 refused it: no\\u{1b}program\n"), "{lines}");
        assert!(!lines.contains("failed"), "{lines}");
    }
    for owner in ["R|41|3", "P||3"] {
        assert_eq!(told(owner, 1).refusal, None, "{owner}");
    }
}

#[test]
fn a_job_that_had_a_worker_before_says_why_it_is_here() {
    for (reason, text) in [
        ("m17", "the ring took its key from worker 17"),
        ("g17", "worker 17 left, and handed it on"),
        ("l17", "worker 17 was lost"),
        ("n17", "worker 17 did not have it after a loss of data"),
        ("f17", "it failed on worker 17"),
        ("r17", "worker 17 refused it, or was full"),
        ("t17", "worker 17 did not begin it in time"),
        ("u17", "it was unparked"),
        ("b17", "an operator took it from worker 17"),
        ("b", "an operator took it from its worker"),
        ("p17", "an operator parked it"),
        ("z17", "an operator paused it"),
        ("y17", "an operator resumed it"),
        ("w17", "its pause was over"),
        ("a17", "its worker reported it after a loss of data"),
        ("c17", "it was updated, and ended on worker 17"),
        ("e17", "it ended well on worker 17"),
        ("o17", "no worker was up when it was to be assigned"),
    ] {
        let mut seen = job("R|41|3", 1, 2, 10 * S, 0);
        if let Some(record) = &mut seen.found.record {
            record.tail = format!("||{reason}");
        }
        let explained = explained(seen);
        let lines = explained.to_string();
        assert!(lines.contains(&format!("\n  here because {text}\n")), "{lines}");
        assert!(serde_json::to_value(&explained).unwrap()["why"]["cause"].is_string());
    }
    let explained = explained(job("R|41|3", 1, 2, 10 * S, 0));
    assert!(!explained.to_string().contains("because"), "{explained}");
}

#[test]
fn a_job_that_waits_for_a_person_comes_with_a_remedy() {
    let seen = |record, attempts| {
        let key = JobKey::new("acme eu").unwrap();
        explain(key, None, job(record, attempts, 2, 10 * S, 0), &one(), &Settings::default())
    };
    let parked = seen("P||3", 2).remedy();
    let advice = "mend the cause, then `tenure retry 'acme eu'`; or `tenure stop 'acme eu'`";
    assert_eq!(parked.as_deref(), Some(advice));
    assert_eq!(seen("R|41|3", 1).remedy(), None);
}
