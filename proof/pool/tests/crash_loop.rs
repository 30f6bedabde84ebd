//! Jobs that crash their process again and again, among many that do not. The store in memory has its own time, and
//! crashed processes restart at once. Only the culprits may be parked.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "store/backend.rs"]
#[expect(dead_code, reason = "the conformance suite uses the rest")]
mod backend;
#[path = "store/lab.rs"]
#[expect(dead_code, reason = "the conformance suite uses the rest")]
mod lab;
#[path = "store/single.rs"]
#[expect(dead_code, reason = "the conformance suite uses the rest")]
mod single;

use std::collections::{BTreeMap, BTreeSet};

use tenure_pool::store::{ListParked, LookUp, ReadHeartbeats, Reap, Route, Sweep};
use tenure_protocol::model::id::{JobKey, WorkerId};
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::settings::Settings;
use tenure_protocol::mutation::Mutation;

use self::lab::{Kind, Lab, key, ms, renew};
use self::single::Single as _;

/// The time between two acts, ms.
const TICK: u64 = 100;
/// The end of the run, whatever the state of the culprits, ms.
const HOURS: u64 = 3 * 3_600_000;

/// A pool in which some jobs crash their processes this long after they were begun, ms.
#[derive(Clone, Copy)]
struct Loop {
    culprits: usize,
    bystanders: usize,
    after: u64,
    ttl: u64,
    processes: usize,
}

#[derive(Debug)]
struct Verdict {
    crashes: usize,
    parked: BTreeSet<JobKey>,
    minutes: u64,
}

struct Process {
    worker: WorkerId,
    renewed: u64,
    crashes_at: Option<u64>,
}

/// A worker that is silent since.
struct Lost {
    worker: WorkerId,
    counter: u64,
    since: u64,
}

async fn run(what: Loop) -> Verdict {
    let settings = Settings { worker_ttl: ms(what.ttl), ..Settings::default() };
    let lab = Lab::with(Kind::Memory, settings).await;
    let culprits: BTreeSet<_> = (0..what.culprits).map(|n| key(&format!("culprit-{n}"))).collect();
    let bystanders = (0..what.bystanders).map(|n| format!("tenant-{n:04}"));
    let names: Vec<_> = culprits.iter().map(ToString::to_string).chain(bystanders).collect();
    for name in &names {
        lab.dispatch(name, &format!("node1.{name}")).await;
    }
    let mut processes = Vec::new();
    for _ in 0..what.processes {
        processes.push(start(&lab).await);
    }
    let (mut lost, mut parked) = (Vec::<Lost>::new(), BTreeSet::new());
    let (mut crashes, begin) = (0, lab.backend.now());
    while lab.backend.now() < begin + HOURS && !culprits.is_subset(&parked) {
        lab.backend.advance(TICK).await;
        let now = lab.backend.now();
        for process in &mut processes {
            if process.crashes_at.is_some_and(|at| at <= now) {
                crashes += 1;
                let counter = lab.read(&ReadHeartbeats { workers: None }).await.unwrap()[&process.worker];
                lost.push(Lost { worker: process.worker, counter, since: now });
                *process = start(&lab).await;
            } else if now >= process.renewed + what.ttl / 5 {
                process.renewed = now;
                lab.step(&renew(&[process.worker])).await.unwrap();
            }
        }
        for gone in lost.extract_if(.., |lost| now >= lost.since + what.ttl) {
            lab.store().expire_one(lab.inc, gone.worker, Some(gone.counter)).await.unwrap();
            while !lab.step(&Reap { worker: gone.worker, limit: 128 }).await.unwrap().done {}
        }
        lab.step(&Sweep { limit: 2_000, kick: None }).await.unwrap();
        place(&lab, &mut processes, &culprits, what.after).await;
        if now.is_multiple_of(5_000) {
            let page = lab.read(&ListParked { cursor: 0, limit: 4_096 }).await.unwrap();
            parked = page.jobs.into_iter().map(|parked| parked.key).collect();
        }
    }
    Verdict { crashes, parked, minutes: (lab.backend.now() - begin) / 60_000 }
}

async fn start(lab: &Lab) -> Process {
    Process { worker: lab.worker().await, renewed: lab.backend.now(), crashes_at: None }
}

/// Routes start events, each key to a random process, and begins the jobs.
async fn place(lab: &Lab, processes: &mut [Process], culprits: &BTreeSet<JobKey>, after: u64) {
    let events = lab.starts().await;
    if events.is_empty() {
        return;
    }
    let mut of: BTreeMap<usize, Vec<JobKey>> = BTreeMap::new();
    for key in events.iter().flat_map(|(_, jobs)| jobs).map(|(key, _)| key) {
        let sum: usize = key.as_bytes().iter().map(|byte| usize::from(*byte)).sum();
        of.entry(sum % processes.len()).or_default().push(key.clone());
    }
    let entries: Vec<_> = events.iter().map(|(entry, _)| *entry).collect();
    let jobs =
        of.iter().flat_map(|(at, keys)| keys.iter().map(|key| (key.clone(), Some(processes[*at].worker))));
    let jobs: Vec<_> = jobs.collect();
    for (at, jobs) in jobs.chunks(128).enumerate() {
        let entries = if at == 0 { &*entries } else { &[] };
        lab.step(&Route { ring: lab.revision().await, entries: entries.to_vec(), jobs: jobs.to_vec() })
            .await
            .unwrap();
    }
    for (at, keys) in of {
        let process = &mut processes[at];
        let asked: Vec<_> = keys.iter().map(|key| (key.clone(), None)).collect();
        let found = lab.read(&LookUp { items: asked.clone() }).await.unwrap();
        for (key, found) in keys.iter().zip(found) {
            let Some(record) = found.record else { continue };
            if record.state != JobState::Assigned {
                continue;
            }
            lab.store()
                .begin_one(lab.inc, process.worker, &[], &[(key.clone(), record.token)])
                .await
                .unwrap();
            if culprits.contains(key) {
                let at = lab.backend.now() + after;
                process.crashes_at = Some(process.crashes_at.map_or(at, |other| other.min(at)));
            }
        }
    }
}

async fn only_culprits_are_parked(what: Loop) {
    let verdict = run(what).await;
    let innocent: Vec<_> =
        verdict.parked.iter().filter(|key| !key.to_string().starts_with("culprit")).collect();
    println!("{} crashes, {} minutes", verdict.crashes, verdict.minutes);
    assert_eq!((innocent, verdict.parked.len()), (Vec::new(), what.culprits), "{} crashes", verdict.crashes);
}

const SOON: Loop = Loop { culprits: 1, bystanders: 40, after: 300, ttl: 2_000, processes: 1 };

#[tokio::test]
async fn one_among_forty_is_found_in_one_process() {
    only_culprits_are_parked(SOON).await;
}

#[tokio::test]
async fn one_among_forty_is_found_in_three_processes() {
    only_culprits_are_parked(Loop { processes: 3, ..SOON }).await;
    only_culprits_are_parked(Loop { processes: 3, ttl: 10_000, ..SOON }).await;
}

#[tokio::test]
async fn two_among_forty_are_found() {
    only_culprits_are_parked(Loop { culprits: 2, processes: 3, ..SOON }).await;
}

#[tokio::test]
async fn one_among_a_thousand_is_found() {
    only_culprits_are_parked(Loop { bystanders: 1_000, processes: 3, ..SOON }).await;
}

#[tokio::test]
async fn one_that_takes_half_a_minute_is_found() {
    only_culprits_are_parked(Loop { after: 30_000, processes: 3, ..SOON }).await;
    only_culprits_are_parked(Loop { after: 30_000, ttl: 10_000, ..SOON }).await;
}

#[tokio::test]
async fn without_pauses_bystanders_are_parked() {
    backend::BROKEN.set(Some(Mutation::SuspectsTogether));
    assert!(run(SOON).await.parked.len() > SOON.culprits);
}
