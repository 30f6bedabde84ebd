//! The promises of the lease thread and its leases.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::cell::Cell;
use std::sync::Arc;

use futures::FutureExt;
use metrics::{Gauge, Histogram};
use tokio::sync::mpsc;

use super::*;
use crate::core::input::Input;
use crate::job::Parts;
use crate::job::checkpoint::Savers;
use crate::model::id::{JobKey, Revision, Token};
use crate::model::member::MemberState;
use crate::model::wire::{self, Envelope};
use crate::runtime::pace::{patience, pause, tick};
use crate::store::{Bootstrap, MemoryStore, ReadIdentity, Store, WhenFull, WorkerStream};

/// A job of this worker.
fn job(leases: &Leases, worker: WorkerId) -> Job {
    Job::new(Parts {
        key: JobKey::new("key").unwrap(),
        payload: wire::open(&Envelope::new(b"").seal().unwrap()).unwrap(),
        token: Token(1),
        id: "node.id".parse().unwrap(),
        worker,
        attempts: 1,
        created_ms: 0,
        begun_ms: 0,
        lease: leases.admit(worker),
        savers: Savers::unheard(),
        checkpoint: None,
    })
}

#[test]
fn a_renewal_that_hangs_leaves_time_for_another() {
    for ttl in [500, 10_000, 600_000].map(Duration::from_millis) {
        let timing = Timing::of(ttl);
        let second = timing.renew_every + patience(timing) + pause(timing) + tick(timing);
        assert!(second + timing.renew_every / 2 <= timing.soft, "{ttl:?}");
    }
}

#[tokio::test]
async fn a_panic_of_the_thread_ends_all_that_it_watched() {
    let leases = Arc::new(Leases::new(
        NodeName::new("n").unwrap(),
        Timing::of(Duration::from_millis(500)),
        Mutations::default(),
    ));
    let (inputs, mut events) = mpsc::unbounded_channel();
    let workers = [WorkerId(1), WorkerId(2)];
    let mut running = tokio::task::JoinSet::new();
    let mut admitted = Vec::new();
    for worker in workers {
        leases.hold(Incarnation(1), worker, clock::now() + Duration::from_secs(60));
        leases.enter(&job(&leases, worker), || running.spawn(std::future::pending::<()>())).unwrap();
        let guard = leases.admit(worker);
        let cancel = guard.cancellation();
        admitted.push((guard, cancel));
    }
    leases.renew(Incarnation(1));
    leases.due(clock::now()).expect("a renewal that is under way");
    let thread = LeaseThread {
        saying: Saying::new(std::sync::Arc::default()),
        leases: leases.clone(),
        store: MemoryStore::new().into(),
        node: NodeName::new("n").unwrap(),
        policy: FencePolicy::Report,
        inputs,
        renewals: Histogram::noop(),
        age: Gauge::noop(),
    };
    let runs = Cell::new(0);
    thread.watched(|| {
        runs.set(runs.get() + 1);
        assert!(runs.get() > 1, "as it was told");
    });
    assert_eq!(runs.get(), 2, "it runs again");
    for worker in workers {
        assert!(matches!(events.try_recv(), Ok(Input::LeaseLost(lost)) if lost == worker));
        assert!(running.join_next().await.unwrap().unwrap_err().is_cancelled());
    }
    for (guard, cancel) in admitted {
        assert!(!guard.check() && cancel.is_cancelled());
    }
    assert!(leases.rest().now_or_never().is_some(), "no renewal is under way any more");
}

#[test]
fn the_end_of_a_node_ends_each_of_its_leases_for_good() {
    let leases =
        Leases::new(NodeName::new("n").unwrap(), Timing::of(Duration::from_secs(600)), Mutations::default());
    let worker = WorkerId(1);
    let from = clock::now();
    leases.hold(Incarnation(1), worker, from);
    leases.renew(Incarnation(1));
    let (_, renewing) = leases.due(from).expect("a renewal that is under way");
    let guard = leases.admit(worker);
    let cancel = guard.cancellation();
    assert!(guard.check() && !cancel.is_cancelled());
    leases.end();
    assert!(!guard.check() && cancel.is_cancelled());
    let renewal = Renewal {
        members: Revision(0),
        settings: Revision(0),
        flag: None,
        recovering: false,
        run_id: String::new(),
        queued: 0,
        opened: false,
        damage: String::new(),
        when_full: WhenFull::Unknown,
        token: Token(0),
        floor: 1,
        states: vec![Some(MemberState::Up)],
        streams: vec![WorkerStream::default()],
    };
    leases.renewed(from, clock::now(), &renewing, &renewal);
    assert!(!guard.check(), "an answer that comes late says nothing");
}

#[tokio::test]
async fn every_tenth_renewal_of_a_connection_looks_at_the_memory() {
    let memory = MemoryStore::new();
    let store = Store::from(memory.clone());
    let run_id = store.read(&ReadIdentity).await.unwrap().run_id;
    store.bless(&run_id);
    let seen = Seen::default();
    let bootstrap = Bootstrap { seen, run_id, settings: Box::default() };
    let incarnation = store.read(&bootstrap).await.unwrap().incarnation;
    let (leases, _) = one_lease(WorkerId(1), clock::now());
    let (inputs, mut events) = mpsc::unbounded_channel();
    let thread = LeaseThread {
        saying: Saying::new(std::sync::Arc::default()),
        leases: Arc::new(leases),
        store,
        node: NodeName::new("n").unwrap(),
        policy: FencePolicy::Report,
        inputs,
        renewals: Histogram::noop(),
        age: Gauge::noop(),
    };
    let mut line = None;
    let mut looked = Vec::new();
    for at in 0..25 {
        // It breaks once.
        memory.set_available(at != 22);
        (line, _) = thread.renew_once(line, incarnation, vec![]).await;
        match events.try_recv() {
            Ok(Input::Renewed { answer: Ok(renewal), .. }) if renewal.when_full == WhenFull::Refuses => {
                looked.push(at);
            }
            Ok(Input::Renewed { answer, .. }) => assert_eq!(answer.is_ok(), at != 22),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(looked, [0, 10, 20, 23]);
}

/// A lease of this worker, which begins at this moment.
fn one_lease(worker: WorkerId, from: Time) -> (Leases, Timing) {
    let timing = Timing::of(Duration::from_secs(600));
    let leases = Leases::new(NodeName::new("n").unwrap(), timing, Mutations::default());
    leases.hold(Incarnation(1), worker, from);
    (leases, timing)
}

#[tokio::test]
async fn handlers_count_as_overdue_only_once_they_must_have_ended() {
    let (worker, from) = (WorkerId(1), clock::now());
    let (leases, timing) = one_lease(worker, from);
    // The task awaits nothing, so it cannot end.
    let mut running = tokio::task::JoinSet::new();
    leases.enter(&job(&leases, worker), || running.spawn(std::future::pending::<()>())).unwrap();
    let counted = |at| leases.state().over(from + at, timing.kill).count();
    let overdue = |at| {
        leases.watch(from + at, FencePolicy::Report);
        leases.standings()[&worker].overdue
    };
    let dead = timing.hard + timing.kill;
    for at in [Duration::ZERO, timing.soft, timing.hard, dead.saturating_sub(Duration::from_millis(1))] {
        assert_eq!((counted(at), overdue(at)), (0, 0), "{at:?}");
    }
    assert_eq!((counted(dead), overdue(dead)), (1, 1));
    assert_eq!((counted(dead), overdue(dead)), (0, 1), "it was said");
    assert!(running.join_next().await.unwrap().unwrap_err().is_cancelled());
    assert_eq!(overdue(dead), 0);
}

#[tokio::test]
async fn a_handler_that_hears_of_its_end_has_time_for_that() {
    let (worker, from) = (WorkerId(1), clock::now());
    let (leases, timing) = one_lease(worker, from);
    let mut running = tokio::task::JoinSet::new();
    // The driver stood still, and tells the jobs of the end long after it.
    let told = from + timing.ttl;
    leases.enter_last(told, &job(&leases, worker), &running.spawn(std::future::pending::<()>()));
    let overdue = |at| {
        leases.watch(at, FencePolicy::Report);
        leases.standings()[&worker].overdue
    };
    assert_eq!(overdue(told), 0);
    assert_eq!(overdue(told + timing.kill), 1);
    assert!(running.try_join_next().is_none(), "nothing aborts it");
}

/// Whether a renewal is due `later` from now. The driver last made progress `idle` before that, and last heard of its
/// workers `deaf` before that.
fn due(leases: &Leases, later: Duration, idle: Duration, deaf: Duration) -> bool {
    let now = clock::now() + later;
    leases.progress(now - idle, now - deaf, Seen::default());
    let due = leases.due(now).is_some();
    leases.renewal_over();
    due
}

#[test]
fn a_node_renews_only_while_engine_and_reader_make_progress() {
    let ttl = Duration::from_secs(10);
    let leases = Leases::new(NodeName::new("n").unwrap(), Timing::of(ttl), Mutations::default());
    leases.renew(Incarnation(1));
    let (hour, moment) = (Duration::from_secs(3600), Duration::from_millis(1));
    assert!(due(&leases, hour, moment, moment));
    assert!(due(&leases, hour, ttl, longest_read(ttl)));
    assert!(!due(&leases, hour, ttl + moment, moment), "the engine stands still");
    assert!(!due(&leases, hour, moment, longest_read(ttl) + moment), "the reader stands still");
    assert!(due(&leases, hour, moment, moment), "both go on");
}

#[tokio::test]
async fn the_oldest_leases_age_grows_while_the_driver_stalls() {
    let leases = Arc::new(Leases::new(
        NodeName::new("n").unwrap(),
        Timing::of(Duration::from_secs(1)),
        Mutations::default(),
    ));
    leases.hold(Incarnation(1), WorkerId(1), clock::now());
    let shown = Arc::new(AtomicU64::new(0));
    let thread = LeaseThread {
        saying: Saying::new(std::sync::Arc::default()),
        leases: leases.clone(),
        store: MemoryStore::new().into(),
        node: NodeName::new("n").unwrap(),
        policy: FencePolicy::Report,
        inputs: mpsc::unbounded_channel().0,
        renewals: Histogram::noop(),
        age: Gauge::from_arc(shown.clone()),
    };
    let age = || f64::from_bits(shown.load(Ordering::Acquire));
    let watched = async {
        for seconds in [0.1, 0.2, 1.5] {
            tenure_testing::eventually(Duration::from_secs(30), "the age to grow", async || age() > seconds)
                .await;
        }
        leases.drop_worker(WorkerId(1));
        tenure_testing::eventually(Duration::from_secs(30), "no lease to be left", async || age() == 0.0)
            .await;
        leases.end();
    };
    tokio::join!(thread.run(), watched);
}
