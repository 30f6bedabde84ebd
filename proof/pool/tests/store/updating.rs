//! Other payloads for jobs, and their generations.

use bytes::Bytes;
use tenure_pool::inspect::Cause;
use tenure_pool::store::{
    Attest, AttestReply, BeginReply, BegunJob, Cursors, DispatchItem, DispatchReply, LaterPayload, ReadNode,
    ReadPayload, ReleaseItem, ReleaseMode, ReleaseReply, ShutDown, ShutdownMode, Sweep, Update, UpdateItem,
    UpdateReply, WorkerEvent,
};
use tenure_protocol::model::id::{Token, WorkerId};
use tenure_protocol::model::record::{Begun, JobState, Record};
use tenure_protocol::model::settings::Settings;

use super::attesting::item;
use super::lab::{Kind, Lab, id, key, ms, node, release};
use super::single::Single as _;

scenarios! {
    an_update_changes_the_payload_and_the_generation_only,
    the_owner_of_a_running_job_is_told_of_its_update,
    an_owner_that_begins_again_gets_the_later_payload,
    an_update_of_an_owner_that_is_wrong_changes_nothing,
    an_update_names_the_generation_that_it_follows,
    a_late_copy_of_an_update_undoes_nothing,
    the_same_payload_is_no_update,
    a_trace_is_no_update,
    an_update_is_of_its_dispatch,
    a_stopping_job_is_not_updated,
    a_job_that_ends_before_its_update_goes_on,
    a_stopping_pool_ends_updated_jobs,
    an_update_has_the_limit_of_payloads,
    the_updates_of_a_batch_see_each_other,
    a_generation_lasts_as_long_as_its_dispatch,
    no_job_is_updated_while_the_pool_recovers,
    an_attested_job_keeps_its_newer_payload,
    an_attested_job_takes_no_older_payload,
    an_attested_job_whose_payload_is_lost_has_the_older_one,
    a_lost_job_comes_back_with_its_generation,
    a_generation_that_no_pool_gives_is_not_attested,
    an_end_with_an_older_payload_ends_no_updated_job,
    an_end_with_an_older_payload_lets_a_paused_job_rest,
    an_end_with_the_payload_of_the_record_is_one,
}

pub(crate) fn update(
    name: &str,
    id_: &str,
    generation: u64,
    guess: Option<WorkerId>,
    text: &str,
) -> UpdateItem {
    let payload = Bytes::copy_from_slice(text.as_bytes());
    UpdateItem { key: key(name), id: id(id_), generation, guess, payload }
}

impl Lab {
    async fn update_all(&self, items: &[UpdateItem]) -> Vec<UpdateReply> {
        self.step(&Update { turn: None, items: items.to_vec() }).await.unwrap()
    }

    /// Updates the dispatch `node1.g` of the key.
    async fn update(&self, name: &str, generation: u64, guess: Option<WorkerId>, text: &str) -> UpdateReply {
        self.update_all(&[update(name, "node1.g", generation, guess, text)]).await.remove(0)
    }

    async fn payload(&self, name: &str) -> String {
        let payload = self.read(&ReadPayload { key: key(name) }).await.unwrap().unwrap();
        String::from_utf8(payload.to_vec()).unwrap()
    }

    async fn updates_for(&self, worker: WorkerId) -> Vec<WorkerEvent> {
        let cursors = Cursors { workers: [(worker, Cursors::default().node)].into(), ..Cursors::default() };
        let events = self
            .read(&ReadNode { node: node("node1"), cursors, max: 100, block: ms(0) })
            .await
            .unwrap()
            .workers;
        let events = events.into_iter().map(|(_, _, event)| event);
        events.filter(|event| matches!(event, WorkerEvent::Update { .. })).collect()
    }
}

async fn an_update_changes_the_payload_and_the_generation_only(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 1, ..Settings::default() }).await;
    for name in ["queued", "assigned", "parked", "runs"] {
        lab.dispatch(name, "node1.g").await;
    }
    lab.route("assigned", worker).await;
    lab.run_again("parked", worker).await;
    lab.release("parked", worker, ReleaseMode::Fail).await;
    lab.run_again("runs", worker).await;
    for name in ["queued", "assigned", "parked", "runs"] {
        let before = lab.record(name).await.unwrap();
        assert_eq!(lab.update(name, 0, before.owner, "two").await, UpdateReply::Kept(1), "{name}");
        assert_eq!(lab.payload(name).await, "two");
        let record = lab.record(name).await.unwrap();
        let behind = before.tail.strip_prefix('|').unwrap_or_default();
        assert_eq!(record, Record { tail: format!("|1{behind}"), ..before }, "{name}");
        assert_eq!(record.generation(), 1);
    }
    let BeginReply::Begun(BegunJob { record, payload, .. }) = lab.begin("assigned", worker).await else {
        panic!()
    };
    assert_eq!((record.generation(), &*payload), (1, &b"two"[..]), "the next owner begins with it");
}

async fn the_owner_of_a_running_job_is_told_of_its_update(lab: Lab, worker: WorkerId, other: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    let theirs = lab.run("l", "node1.g", other).await;
    lab.dispatch("queued", "node1.g").await;
    let items = [
        update("k", "node1.g", 0, Some(worker), "two"),
        update("l", "node1.g", 0, Some(other), "two"),
        update("queued", "node1.g", 0, None, "two"),
    ];
    assert_eq!(lab.update_all(&items).await, [UpdateReply::Kept(1); 3]);
    assert_eq!(lab.updates_for(worker).await, [WorkerEvent::Update { jobs: vec![(key("k"), token, 1)] }]);
    assert_eq!(lab.updates_for(other).await, [WorkerEvent::Update { jobs: vec![(key("l"), theirs, 1)] }]);
    assert_eq!(lab.token("k").await, token);
}

async fn an_owner_that_begins_again_gets_the_later_payload(lab: Lab, worker: WorkerId, other: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.started("k", worker).await;
    lab.update("k", 0, Some(worker), "two").await;
    let before = lab.backend.dump().await;
    let BeginReply::Begun(BegunJob { record, payload, .. }) = lab.begin("k", worker).await else { panic!() };
    assert_eq!((record.generation(), record.token, &*payload), (1, token, &b"two"[..]));
    assert_eq!(lab.begin("k", other).await, BeginReply::Refused, "it is no other's");
    let later = [(key("k"), Token(token.0 + 1))];
    let later = lab.store().begin_one(lab.inc, worker, &[], &later).await.unwrap();
    assert_eq!(later, [BeginReply::Refused], "nor another token's");
    assert_eq!(lab.backend.dump().await, before, "nothing has changed");
    lab.stop("k", "node1.g", Some(worker)).await;
    assert_eq!(lab.begin("k", worker).await, BeginReply::Refused, "it stops");
}

async fn an_update_of_an_owner_that_is_wrong_changes_nothing(lab: Lab, worker: WorkerId, other: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    let before = lab.backend.dump().await;
    for guess in [None, Some(other)] {
        assert_eq!(lab.update("k", 0, guess, "two").await, UpdateReply::Owner(Some(worker)));
    }
    assert_eq!(lab.backend.dump().await, before);
}

async fn an_update_names_the_generation_that_it_follows(lab: Lab) {
    lab.dispatch("k", "node1.g").await;
    assert_eq!(lab.update("k", 1, None, "two").await, UpdateReply::Conflict(0));
    assert_eq!(lab.update("k", 0, None, "two").await, UpdateReply::Kept(1));
    assert_eq!(lab.update("k", 0, None, "three").await, UpdateReply::Conflict(1));
    assert_eq!(lab.payload("k").await, "two");
    assert_eq!(lab.update("k", 1, None, "three").await, UpdateReply::Kept(2));
    assert_eq!(lab.payload("k").await, "three");
}

async fn a_late_copy_of_an_update_undoes_nothing(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.update("k", 0, Some(worker), "two").await, UpdateReply::Kept(1));
    assert_eq!(lab.update("k", 1, Some(worker), "three").await, UpdateReply::Kept(2));
    let before = lab.backend.dump().await;
    assert_eq!(lab.update("k", 0, Some(worker), "two").await, UpdateReply::Conflict(2));
    assert_eq!(lab.backend.dump().await, before);
}

async fn the_same_payload_is_no_update(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.update("k", 0, Some(worker), "payload").await, UpdateReply::Equal(0));
    assert_eq!(lab.update("k", 0, Some(worker), "two").await, UpdateReply::Kept(1));
    let before = lab.backend.dump().await;
    for (generation, guess) in [(0, Some(worker)), (7, None)] {
        assert_eq!(lab.update("k", generation, guess, "two").await, UpdateReply::Equal(1));
    }
    assert_eq!(lab.backend.dump().await, before);
}

/// An envelope: `{v, trace, type, body}` or less.
fn envelope(trace: Option<&str>, kind: Option<&str>, body: &[u8]) -> Bytes {
    let mut packed = vec![0x82 + u8::from(trace.is_some()) + u8::from(kind.is_some()), 0xa1, b'v', 1];
    let text = |packed: &mut Vec<u8>, text: &str| {
        match text.len() {
            short @ ..32 => packed.push(0xa0 + u8::try_from(short).unwrap()),
            long @ ..256 => packed.extend_from_slice(&[0xd9, u8::try_from(long).unwrap()]),
            longer => {
                packed.push(0xda);
                packed.extend_from_slice(&u16::try_from(longer).unwrap().to_be_bytes());
            }
        }
        packed.extend_from_slice(text.as_bytes());
    };
    if let Some(trace) = trace {
        text(&mut packed, "trace");
        packed.push(0x81);
        text(&mut packed, "traceparent");
        text(&mut packed, trace);
    }
    if let Some(kind) = kind {
        text(&mut packed, "type");
        text(&mut packed, kind);
    }
    text(&mut packed, "body");
    packed.push(0xc5);
    packed.extend_from_slice(&u16::try_from(body.len()).unwrap().to_be_bytes());
    packed.extend_from_slice(body);
    packed.into()
}

async fn a_trace_is_no_update(lab: Lab) {
    let (long, longer) = ("s".repeat(200), "s".repeat(512));
    let first = envelope(Some("one"), None, b"x");
    let dispatched = DispatchItem { payload: first, ..lab.item("k", "node1.g") };
    assert_eq!(lab.dispatch_all(&[dispatched]).await, [DispatchReply::Accepted]);
    let with = |generation, payload| {
        let update = update("k", "node1.g", generation, None, "");
        UpdateItem { payload, ..update }
    };
    for (generation, payload, reply) in [
        (0, envelope(Some("two"), None, b"x"), UpdateReply::Equal(0)),
        (0, envelope(Some(&long), None, b"x"), UpdateReply::Equal(0)),
        (0, envelope(Some(&longer), None, b"x"), UpdateReply::Equal(0)),
        (0, envelope(None, None, b"x"), UpdateReply::Equal(0)),
        (0, envelope(None, Some("feed"), b"x"), UpdateReply::Kept(1)),
        (1, envelope(None, None, b"x"), UpdateReply::Kept(2)),
        (2, envelope(None, None, b"y"), UpdateReply::Kept(3)),
        (3, envelope(Some(&longer), None, &[b'y'; 2_000]), UpdateReply::Kept(4)),
        (4, envelope(None, None, &[b'y'; 2_000]), UpdateReply::Equal(4)),
        (4, envelope(None, None, b"y"), UpdateReply::Kept(5)),
    ] {
        assert_eq!(lab.update_all(&[with(generation, payload.clone())]).await, [reply], "{payload:?}");
    }
}

async fn an_update_is_of_its_dispatch(lab: Lab, worker: WorkerId) {
    assert_eq!(lab.update("k", 0, None, "two").await, UpdateReply::Absent);
    lab.run("k", "node1.g", worker).await;
    let before = lab.backend.dump().await;
    let other = update("k", "node1.other", 0, Some(worker), "two");
    assert_eq!(lab.update_all(&[other]).await, [UpdateReply::Absent]);
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_stopping_job_is_not_updated(lab: Lab, worker: WorkerId) {
    lab.run_and_stop("k", "node1.g", worker).await;
    let before = lab.backend.dump().await;
    assert_eq!(lab.update("k", 0, Some(worker), "two").await, UpdateReply::Stopping);
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_job_that_ends_before_its_update_goes_on(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 1, ..Settings::default() }).await;
    for name in ["k0", "k1", "k2", "k3"] {
        lab.dispatch(name, "node1.g").await;
    }
    lab.run("stops", "node1.g", worker).await;
    lab.update("stops", 0, Some(worker), "two").await;
    lab.stop("stops", "node1.g", Some(worker)).await;
    let token = lab.record("stops").await.unwrap().token;
    let item = ReleaseItem { ran: Some(0), ..of_failed("stops", token, ReleaseMode::Delete) };
    assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Deleted);
    let modes = [ReleaseMode::Refuse, ReleaseMode::Fail, ReleaseMode::Park, ReleaseMode::Delete];
    for (round, mode) in modes.into_iter().enumerate() {
        let name = format!("k{round}");
        for (generation, ran) in [(1, 0), (2, 1)] {
            lab.run_again(&name, worker).await;
            lab.update(&name, generation - 1, Some(worker), &generation.to_string()).await;
            let token = lab.record(&name).await.unwrap().token;
            let item = ReleaseItem { ran: Some(ran), ..of_failed(&name, token, mode) };
            assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Queued, "{mode:?}");
            let record = lab.record(&name).await.unwrap();
            assert_eq!((record.attempts, record.strikes), (0, 0), "{mode:?}");
            assert_eq!(lab.payload(&name).await, generation.to_string());
        }
        lab.run_again(&name, worker).await;
        let token = lab.record(&name).await.unwrap().token;
        let item = ReleaseItem { ran: Some(2), ..of_failed(&name, token, mode) };
        let usual = match mode {
            ReleaseMode::Delete => ReleaseReply::Deleted,
            ReleaseMode::Refuse => ReleaseReply::Queued,
            _ => ReleaseReply::Parked,
        };
        assert_eq!(lab.release_item(worker, item).await, usual, "it ran with what it has");
    }
}

fn of_failed(name: &str, token: Token, mode: ReleaseMode) -> ReleaseItem {
    ReleaseItem { delay: ms(400), result: "no route".into(), ..release(name, token, mode) }
}

async fn a_stopping_pool_ends_updated_jobs(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    lab.update("k", 0, Some(worker), "two").await;
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    let token = lab.record("k").await.unwrap().token;
    let item = ReleaseItem { ran: Some(0), ..release("k", token, ReleaseMode::Fail) };
    assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Deleted);
}

async fn an_update_has_the_limit_of_payloads(kind: Kind) {
    let lab = Lab::with(kind, Settings { payload_max: 1_024, ..Settings::default() }).await;
    lab.dispatch("k", "node1.g").await;
    assert_eq!(lab.update("k", 0, None, &"x".repeat(1_025)).await, UpdateReply::TooLong);
    assert_eq!(lab.update("k", 0, None, &"x".repeat(1_024)).await, UpdateReply::Kept(1));
}

async fn the_updates_of_a_batch_see_each_other(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    let items = [(0, "two"), (0, "two"), (0, "three"), (1, "three")]
        .map(|(generation, text)| update("k", "node1.g", generation, Some(worker), text));
    let replies =
        [UpdateReply::Kept(1), UpdateReply::Equal(1), UpdateReply::Conflict(1), UpdateReply::Kept(2)];
    assert_eq!(lab.update_all(&items).await, replies);
    assert_eq!((lab.payload("k").await, lab.record("k").await.unwrap().generation()), ("three".into(), 2));
    let jobs = vec![(key("k"), token, 1), (key("k"), token, 2)];
    assert_eq!(lab.updates_for(worker).await, [WorkerEvent::Update { jobs }]);
}

async fn a_generation_lasts_as_long_as_its_dispatch(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    lab.update("k", 0, Some(worker), "two").await;
    lab.started("k", worker).await;
    for mode in [ReleaseMode::HandOff, ReleaseMode::Fail, ReleaseMode::Refuse, ReleaseMode::GiveBack] {
        lab.release("k", worker, mode).await;
        assert_eq!(lab.record("k").await.unwrap().generation(), 1, "{mode:?}");
        lab.backend.advance(500_000).await;
        lab.step(&Sweep { limit: 100, kick: None }).await.unwrap();
        lab.run_again("k", worker).await;
    }
    assert_eq!(lab.record("k").await.unwrap().generation(), 1);
    lab.release("k", worker, ReleaseMode::Delete).await;
    lab.run("k", "node1.next", worker).await;
    assert_eq!(lab.record("k").await.unwrap().generation(), 0);
    assert_eq!(lab.payload("k").await, "payload");
}

async fn no_job_is_updated_while_the_pool_recovers(mut lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    lab.recover().await;
    for name in ["k", "absent"] {
        assert_eq!(lab.update(name, 0, Some(worker), "two").await, UpdateReply::Recovering);
    }
}

/// It runs with a payload of this generation.
fn runs_with(generation: u64, payload: Option<&'static str>) -> Attest {
    let (begun, plan, payload) = (Begun::Begun, String::new(), payload.map(Bytes::from));
    Attest::Runs { back: false, begun, attempts: 1, created: 1, plan, generation, payload }
}

impl Lab {
    async fn attests(&self, worker: WorkerId, name: &str, token: Token, what: Attest) -> AttestReply {
        self.attest(worker, item(name, token, "node1.g", what)).await
    }
}

async fn an_attested_job_keeps_its_newer_payload(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    // The data went back to before two updates.
    lab.recover().await;
    assert_eq!(lab.attests(worker, "k", token, runs_with(2, None)).await, AttestReply::SendPayload);
    assert_eq!(lab.attests(worker, "k", token, runs_with(2, Some("three"))).await, AttestReply::Kept);
    assert_eq!((lab.payload("k").await, lab.record("k").await.unwrap().tail), ("three".into(), "|2".into()));
    let before = lab.backend.dump().await;
    assert_eq!(lab.attests(worker, "k", token, runs_with(2, None)).await, AttestReply::Kept);
    assert_eq!(lab.backend.dump().await, before);
}

async fn an_attested_job_takes_no_older_payload(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.update("k", 0, Some(worker), "two").await;
    lab.recover().await;
    assert_eq!(lab.attests(worker, "k", token, runs_with(0, Some("payload"))).await, AttestReply::Kept);
    assert_eq!((lab.payload("k").await, lab.record("k").await.unwrap().generation()), ("two".into(), 1));
}

async fn an_attested_job_whose_payload_is_lost_has_the_older_one(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    for generation in 0..2 {
        lab.update("k", generation, Some(worker), "later").await;
    }
    lab.backend.lose("payloads").await;
    lab.recover().await;
    assert_eq!(lab.attests(worker, "k", token, runs_with(1, None)).await, AttestReply::SendPayload);
    assert_eq!(lab.attests(worker, "k", token, runs_with(1, Some("two"))).await, AttestReply::Kept);
    assert_eq!((lab.payload("k").await, lab.record("k").await.unwrap().generation()), ("two".into(), 1));
}

async fn a_lost_job_comes_back_with_its_generation(mut lab: Lab, worker: WorkerId) {
    lab.recover().await;
    let token = Token(worker.0 + 5);
    for (name, generation, tail) in [("k", 0, "||a"), ("l", 3, "|3|a")] {
        let what = || runs_with(generation, Some("theirs"));
        assert_eq!(lab.attests(worker, name, token, what()).await, AttestReply::Kept);
        let record = lab.record(name).await.unwrap();
        assert_eq!((record.state, record.tail.as_str()), (JobState::Running, tail));
        assert_eq!(lab.payload(name).await, "theirs");
    }
}

fn ended_with(ran: Option<u64>, rest: Option<(Cause, String)>) -> Attest {
    let unless = ran.map(|than| LaterPayload { than, begun: Begun::Started, rest });
    Attest::Ended { outcome: String::new(), unless }
}

async fn an_end_with_an_older_payload_ends_no_updated_job(mut lab: Lab, worker: WorkerId) {
    let mut tokens = Vec::new();
    for name in ["runs", "queued", "stops"] {
        tokens.push(lab.run(name, "node1.g", worker).await);
        lab.update(name, 0, Some(worker), "two").await;
    }
    lab.release("queued", worker, ReleaseMode::HandOff).await;
    lab.stop("stops", "node1.g", Some(worker)).await;
    let queued = lab.record("queued").await;
    lab.recover().await;
    for (at, name, reply) in [(0, "runs", AttestReply::Requeued), (1, "queued", AttestReply::Nothing)] {
        assert_eq!(lab.attests(worker, name, tokens[at], ended_with(Some(0), None)).await, reply, "{name}");
    }
    let record = lab.record("runs").await.unwrap();
    assert_eq!((record.state, record.owner, record.attempts), (JobState::Queued, None, 0));
    assert_eq!(record.begun, Begun::Started);
    assert_eq!((record.generation(), record.why().map(|why| why.cause)), (1, Some(Cause::Updated)));
    assert_eq!(lab.payload("runs").await, "two");
    assert!(!lab.lookup("runs", "node1.g").await.ended);
    assert_eq!(lab.record("queued").await, queued);
    assert_eq!(lab.attests(worker, "stops", tokens[2], ended_with(Some(0), None)).await, AttestReply::Ended);
    assert_eq!(lab.record("stops").await, None);
}

async fn an_end_with_an_older_payload_lets_a_paused_job_rest(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.update("k", 0, Some(worker), "two").await;
    lab.recover().await;
    let what = ended_with(Some(0), Some((Cause::Paused, "for a while".into())));
    assert_eq!(lab.attests(worker, "k", token, what).await, AttestReply::Requeued);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.state, record.why().map(|why| why.cause)), (JobState::Parked, Some(Cause::Paused)));
    assert_eq!(lab.field("errors", "k").await.as_deref(), Some("for a while"));
}

async fn an_end_with_the_payload_of_the_record_is_one(mut lab: Lab, worker: WorkerId) {
    let mut tokens = Vec::new();
    for name in ["same", "whatever"] {
        tokens.push(lab.run(name, "node1.g", worker).await);
        lab.update(name, 0, Some(worker), "two").await;
    }
    lab.recover().await;
    for (at, (name, ran)) in [("same", Some(1)), ("whatever", None)].into_iter().enumerate() {
        assert_eq!(lab.attests(worker, name, tokens[at], ended_with(ran, None)).await, AttestReply::Ended);
        assert_eq!(lab.record(name).await, None, "{name}");
    }
}

async fn a_generation_that_no_pool_gives_is_not_attested(mut lab: Lab, worker: WorkerId) {
    lab.recover().await;
    let what = runs_with(1_000_000_000_000_000, Some("theirs"));
    assert_eq!(lab.attests(worker, "k", Token(worker.0 + 5), what).await, AttestReply::Unreadable);
    assert_eq!(lab.record("k").await, None);
}
