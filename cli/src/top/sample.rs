//! A pool for the tests of the screens.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, SystemTime};

use tenure_pool::event::EventKind;
use tenure_pool::inspect::{MemberState, PoolPhase};
use tenure_pool::{JobKey, JobState};

use super::model::{Called, Effect, Model, Msg};
use super::picture::{
    Chain, Counts, Explained, Found, Happening, Job, Picture, Said, Simulated, Supposed, Worker,
};
use crate::out::Tone;
use crate::view::moves::{Forecast, Share};
use crossterm::event::KeyCode;

/// 2026-11-26 14:58:41 UTC.
pub(super) fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_705_121)
}

pub(super) fn key(text: &str) -> JobKey {
    JobKey::new(text.to_owned()).unwrap()
}

fn worker(id: u64, node: &str, state: MemberState, jobs: u64, up: u64) -> Worker {
    let said = Said {
        host: format!("{node}.rack-2"),
        pid: 4_211,
        version: "0.1.0".to_owned(),
        up: Duration::from_secs(up),
        to_start: id % 5,
        to_move: if state == MemberState::Draining { jobs } else { 0 },
        stuck: u64::from(state == MemberState::Draining),
    };
    Worker {
        shard: 0,
        id,
        node: node.to_owned(),
        state,
        cordoned: node == "feeds-7d9-b",
        jobs,
        said: Some(said),
    }
}

fn event(ago: u64, kind: EventKind, keys: &[&str], count: u64, worker: u64, why: &str) -> Happening {
    Happening {
        at: start() - Duration::from_secs(ago),
        kind,
        keys: keys.iter().map(|text| key(text)).collect(),
        count,
        worker: Some(worker),
        why: why.to_owned(),
        node: "feeds-7d9-a".to_owned(),
    }
}

fn job(name: &str, state: JobState, age: u64) -> Job {
    let is_free = matches!(state, JobState::Queued | JobState::Parked);
    Job {
        key: key(name),
        state,
        worker: (!is_free).then_some(41),
        shard: 0,
        node: (!is_free).then(|| "feeds-7d9-a".to_owned()),
        token: 4_093,
        attempts: if state == JobState::Parked { 20 } else { 1 },
        since: start() - Duration::from_secs(age),
        plan: Some("nightly".to_owned()).filter(|_| state == JobState::Running),
        error: is_free.then(|| "exit status 3: cannot connect to the exchange".to_owned()),
        refusal: None,
        paused: None,
    }
}

pub(super) fn picture() -> Picture {
    let workers = vec![
        worker(41, "feeds-7d9-a", MemberState::Up, 5_102, 271_000),
        worker(42, "feeds-7d9-a", MemberState::Up, 4_981, 271_000),
        worker(43, "feeds-7d9-c", MemberState::Up, 4_990, 8_000),
        worker(17, "feeds-7d9-b", MemberState::Draining, 812, 800_000),
        worker(88, "feeds-8aa-c", MemberState::Standby, 0, 4),
    ];
    let on = workers.iter().map(|worker| worker.jobs).sum::<u64>();
    let jobs = vec![
        job("acme", JobState::Running, 7_400),
        job("bücher-日本", JobState::Assigned, 3),
        job("hooli", JobState::Stopping, 1),
        job("initech/eu", JobState::Queued, 12),
        job("zenith", JobState::Parked, 200_000),
    ];
    let parked = vec![job("umbrella", JobState::Parked, 4_000), job("zenith", JobState::Parked, 200_000)];
    Picture {
        phase: PoolPhase::Open,
        server_changed: false,
        hold: false,
        ttl: Duration::from_secs(10),
        counts: Counts {
            jobs: on + 189,
            queued: 41,
            waiting: 187,
            parked: 2,
            oldest: Some(Duration::from_secs(3)),
        },
        workers,
        news: vec![
            event(1_890, EventKind::Lost, &["acme", "hooli"], 812, 17, "lease not renewed"),
            event(50, EventKind::Asked, &[], 0, 17, "drain"),
            event(5, EventKind::Moved, &["acme", "hooli"], 610, 17, "its worker left"),
            event(2, EventKind::Failed, &["initech/eu"], 1, 42, "exit status 3: cannot connect"),
        ],
        dropped: 0,
        jobs: Some(Found { filter: String::new(), jobs, matching: 16_074, looked: Some(4_096) }),
        parked: Some(Found { filter: String::new(), jobs: parked, matching: 2, looked: None }),
        explained: Some(Explained {
            key: key("acme"),
            text: "acme: runs on worker 41 (feeds-7d9-a), its home, with token 4093\n  here because worker 17 left\n  \
                   accepted 3 d 2 h ago from node feeds-7d9-a"
                .to_owned(),
            tone: Tone::Good,
            paused: false,
            remedy: Some("nothing; `tenure bounce acme` has it run elsewhere".to_owned()),
        }),
        rings: vec![vec![Some(41), Some(42), None, Some(43)]],
        simulated: None,
        chain: Some(Chain { key: key("acme"), shard: 0, workers: vec![41, 43, 42] }),
    }
}

/// The forecast of what is supposed, in the pool of the sample: those that go share theirs among those that stay.
pub(super) fn simulated(supposed: &Supposed) -> Simulated {
    let mut workers: Vec<Share> = Vec::new();
    for worker in picture().workers {
        let goes = worker.state == MemberState::Draining || supposed.goes.contains(&(0, worker.id));
        let (before, after) = (worker.jobs, if goes { 0 } else { worker.jobs });
        let (id, node) = (Some(worker.id), Some(worker.node));
        workers.push(Share { shard: 0, worker: id, node, before, after, goes });
    }
    for _ in 0..supposed.joins {
        workers.push(Share { shard: 0, worker: None, node: None, before: 0, after: 0, goes: false });
    }
    let moves: u64 = workers.iter().map(|share| share.before - share.after).sum();
    let stay = workers.iter().filter(|share| !share.goes).count() as u64;
    for (turn, share) in (0..).zip(workers.iter_mut().filter(|share| !share.goes)) {
        share.after += moves / stay + u64::from(turn < moves % stay);
    }
    let jobs: u64 = workers.iter().map(|share| share.before).sum();
    let moves_percent = 100.0 * moves as f64 / jobs as f64;
    let forecast = Forecast { jobs, moves, moves_percent, between: 0, workers };
    Simulated { supposed: supposed.clone(), forecast, whole: true }
}

/// The screens of the sample, after the second picture.
pub(super) fn model() -> Model {
    let called = Called { pool: "feeds".to_owned(), every: Duration::from_secs(2), read_only: false };
    let mut model = Model::new(called, start());
    for (at, waiting) in [12, 40, 90, 187].into_iter().enumerate() {
        let mut picture = picture();
        picture.counts.waiting = waiting;
        if at > 0 {
            picture.news.clear();
        }
        for worker in &mut picture.workers {
            // One node has not been heard of since the second picture.
            let heard = if worker.id == 17 { at.min(1) } else { at };
            if let Some(said) = &mut worker.said {
                said.up += Duration::from_secs(2 * heard as u64);
            }
        }
        model.update(Msg::Tick(start() + Duration::from_secs(2 * at as u64)));
        model.update(Msg::Read(Box::new(picture)));
    }
    model
}

/// Presses these keys, one letter each, and returns the last effect. `>` is enter, `<` escape.
pub(super) fn press(model: &mut Model, keys: &str) -> Option<Effect> {
    let mut last = None;
    for c in keys.chars() {
        let key = match c {
            '>' => KeyCode::Enter,
            '<' => KeyCode::Esc,
            c => KeyCode::Char(c),
        };
        last = model.update(Msg::Key(key));
    }
    last
}
