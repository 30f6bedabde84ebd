//! Asks: events for the owner of a job under its token, and what it says to them. Nothing else is kept.

use bytes::Bytes;
use tenure_pool::store::{
    ASK_MAX, Ask, AskEvent, AskId, AskItem, AskReply, Cursors, NodeEvents, ReadNode, ReleaseMode, Renew,
    Reply, ReplyItem, ReplyReply, Said, WorkerEvent,
};
use tenure_protocol::model::id::{Token, WorkerId};

use super::lab::{Lab, key, ms, node, renew};
use super::single::Single as _;

scenarios! {
    an_ask_reaches_the_owner_under_its_token,
    an_ask_under_another_token_is_told_who_owns_it,
    an_ask_of_what_nobody_runs_is_told_the_state,
    an_ask_of_a_worker_that_is_gone_makes_no_stream,
    a_late_ask_is_refused,
    an_ask_that_is_too_long_is_refused,
    a_crowded_stream_takes_no_asks,
    a_stream_takes_so_many_bytes_of_asks,
    asks_go_on_while_the_pool_recovers,
    a_reply_tells_the_asker,
    a_reply_of_who_is_no_owner_is_stale,
    a_stopping_job_may_still_reply,
    a_refusal_to_do_it_needs_no_owner,
    a_reply_before_the_record_is_made_again,
    a_reply_deletes_finished_entries,
    big_replies_keep_the_stream_short,
}

/// An ask, its number from its body's length.
pub(crate) fn ask(name: &str, guess: Option<WorkerId>, token: Token, not_after: u64, body: &str) -> AskItem {
    let id = AskId { life: 7, number: body.len() as u64 };
    let body = Bytes::copy_from_slice(body.as_bytes());
    let ask = AskEvent { id, name: "order-17".into(), token, not_after, poke: false, body };
    AskItem { key: key(name), guess, ask }
}

/// The word to the first attempt of `asker`.
pub(crate) fn reply(name: &str, token: Token, said: Said) -> ReplyItem {
    ReplyItem { key: key(name), token, asker: node("asker"), id: AskId { life: 7, number: 1 }, said }
}

fn answer() -> Said {
    Said::Answer("yes".into())
}

impl Lab {
    async fn ask_all(&self, items: &[AskItem]) -> Vec<AskReply> {
        self.step(&Ask { asker: node("asker"), items: items.to_vec() }).await.unwrap()
    }

    async fn ask(&self, name: &str, guess: Option<WorkerId>, token: Token, body: &str) -> AskReply {
        self.ask_all(&[ask(name, guess, token, self.backend.now() + 1_000, body)]).await.remove(0)
    }

    async fn reply(&self, worker: WorkerId, item: ReplyItem) -> ReplyReply {
        self.step(&Reply { worker, finished: Vec::new(), items: vec![item] }).await.unwrap().remove(0)
    }

    /// Makes the stream of the node that asks.
    async fn asker(&self) {
        self.step(&Renew { node: Some(node("asker")), ..renew(&[]) }).await.unwrap();
    }

    async fn events_for(&self, worker: WorkerId) -> NodeEvents {
        let cursors = Cursors { workers: [(worker, Cursors::default().node)].into(), ..Cursors::default() };
        self.read(&ReadNode { node: node("asker"), cursors, max: 10_000, block: ms(0) }).await.unwrap()
    }

    /// The entries with asks for a worker: who asks, and what.
    async fn asks_for(&self, worker: WorkerId) -> Vec<Vec<(String, AskEvent)>> {
        let events =
            self.events_for(worker).await.workers.into_iter().filter_map(|(_, _, event)| match event {
                WorkerEvent::Ask { asker, asks } => {
                    assert_eq!(asker, node("asker"));
                    Some(asks.into_iter().map(|(key, ask)| (key.to_string(), ask)).collect())
                }
                _ => None,
            });
        events.collect()
    }

    /// The words that the asker was told.
    async fn told(&self, worker: WorkerId) -> Vec<Said> {
        self.events_for(worker).await.replies.into_iter().map(|(_, said)| said).collect()
    }
}

async fn an_ask_reaches_the_owner_under_its_token(lab: Lab, worker: WorkerId, other: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    let theirs = lab.run("l", "node1.l", other).await;
    let ends = lab.backend.now() + 1_000;
    let mut poke = ask("k", Some(worker), token, ends, "");
    poke.ask.poke = true;
    let items = [
        ask("k", Some(worker), token, ends, "one"),
        ask("l", Some(other), theirs, ends, "four"),
        poke,
        ask("k", Some(worker), token, ends, "again"),
    ];
    assert_eq!(lab.ask_all(&items).await, [AskReply::Sent; 4]);
    let sent = |at: usize| (items[at].key.to_string(), items[at].ask.clone());
    assert_eq!(lab.asks_for(worker).await, [[sent(0), sent(2), sent(3)]], "one entry, in order");
    assert_eq!(lab.asks_for(other).await, [[sent(1)]]);
}

async fn an_ask_under_another_token_is_told_who_owns_it(lab: Lab, worker: WorkerId, other: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    let next = lab.run("l", "node1.l", other).await;
    let before = lab.backend.dump().await;
    let owner = AskReply::Owner(Some((worker, token)));
    for (guess, token) in [
        (None, token),
        (Some(other), token),
        (Some(worker), next),
        (Some(worker), Token(0)),
        (None, Token(0)),
    ] {
        assert_eq!(lab.ask("k", guess, token, "x").await, owner, "{guess:?} {token:?}");
    }
    assert_eq!(lab.backend.dump().await, before);
}

async fn an_ask_of_what_nobody_runs_is_told_the_state(lab: Lab, worker: WorkerId) {
    assert_eq!(lab.ask("k", Some(worker), Token(1), "x").await, AskReply::Absent);
    lab.dispatch("k", "node1.g").await;
    assert_eq!(lab.ask("k", Some(worker), Token(1), "x").await, AskReply::Waiting);
    lab.route("k", worker).await;
    let token = lab.token("k").await;
    assert_eq!(lab.ask("k", Some(worker), token, "x").await, AskReply::Waiting);
    lab.run_assigned("k", worker).await;
    lab.stop("k", "node1.g", Some(worker)).await;
    assert_eq!(lab.ask("k", Some(worker), token, "x").await, AskReply::Stopping);
    assert!(lab.asks_for(worker).await.is_empty());
}

async fn an_ask_of_a_worker_that_is_gone_makes_no_stream(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.store().expire_one(lab.inc, worker, None).await.unwrap();
    let before = lab.backend.dump().await;
    assert_eq!(lab.ask("k", Some(worker), token, "x").await, AskReply::Gone);
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_late_ask_is_refused(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.backend.advance(10).await;
    let longest = u64::try_from(lab.settings.max_dispatch_deadline.as_millis()).unwrap();
    let now = lab.backend.now();
    // A real server's clock goes on meanwhile.
    let items = [now - 1, now + 1_000, now + longest + 60_000]
        .map(|not_after| ask("k", Some(worker), token, not_after, "x"));
    let expected = [AskReply::Late, AskReply::Sent, AskReply::Late];
    assert_eq!(lab.ask_all(&items).await, expected);
}

async fn an_ask_that_is_too_long_is_refused(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.ask("k", Some(worker), token, &"x".repeat(ASK_MAX + 1)).await, AskReply::Bad);
    assert_eq!(lab.ask("k", Some(worker), token, &"x".repeat(ASK_MAX)).await, AskReply::Sent);
}

async fn a_crowded_stream_takes_no_asks(lab: Lab, worker: WorkerId, other: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    let theirs = lab.run("l", "node1.l", other).await;
    let waiting = lab.events_for(worker).await.workers.len();
    for _ in waiting..4_097 {
        assert_eq!(lab.ask("k", Some(worker), token, "").await, AskReply::Sent);
    }
    assert_eq!(lab.ask("k", Some(worker), token, "").await, AskReply::Crowded);
    assert_eq!(lab.ask("l", Some(other), theirs, "").await, AskReply::Sent, "that of another is free");
}

async fn a_stream_takes_so_many_bytes_of_asks(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    let long = "x".repeat(ASK_MAX);
    let waiting = lab.events_for(worker).await.workers.len();
    for _ in waiting..257 {
        assert_eq!(lab.ask("k", Some(worker), token, &long).await, AskReply::Sent);
    }
    assert_eq!(lab.ask("k", Some(worker), token, &long).await, AskReply::Crowded);
    assert_eq!(lab.ask("k", Some(worker), token, "short").await, AskReply::Sent);
    let ends = lab.backend.now() + 1_000;
    let halves = vec![ask("k", Some(worker), token, ends, &long[..ASK_MAX / 2]); 2];
    assert_eq!(
        lab.ask_all(&halves).await,
        [AskReply::Sent, AskReply::Crowded],
        "asks of a call count together"
    );
}

async fn asks_go_on_while_the_pool_recovers(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.asker().await;
    lab.recover().await;
    assert_eq!(lab.ask("k", Some(worker), token, "x").await, AskReply::Sent);
    assert_eq!(lab.ask("l", Some(worker), token, "x").await, AskReply::Recovering);
    assert_eq!(lab.reply(worker, reply("k", token, answer())).await, ReplyReply::Told);
}

async fn a_reply_tells_the_asker(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.reply(worker, reply("k", token, Said::Dropped)).await, ReplyReply::Told);
    assert!(lab.told(worker).await.is_empty(), "nobody's stream is made");
    lab.asker().await;
    let said = [answer(), Said::Refused("no".into()), Said::Dropped];
    let items: Vec<_> = said.iter().map(|said| reply("k", token, said.clone())).collect();
    assert_eq!(
        lab.step(&Reply { worker, finished: Vec::new(), items }).await.unwrap(),
        [ReplyReply::Told; 3]
    );
    assert_eq!(lab.told(worker).await, said);
}

async fn a_reply_of_who_is_no_owner_is_stale(lab: Lab, worker: WorkerId, other: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.asker().await;
    assert_eq!(lab.reply(other, reply("k", token, answer())).await, ReplyReply::Stale);
    assert_eq!(lab.reply(worker, reply("absent", token, answer())).await, ReplyReply::Stale);
    lab.release("k", worker, ReleaseMode::HandOff).await;
    assert_eq!(lab.reply(worker, reply("k", token, answer())).await, ReplyReply::Stale, "queued");
    let next = lab.run_again("k", worker).await;
    for said in [answer(), Said::Refused("no".into()), Said::Dropped] {
        assert_eq!(lab.reply(worker, reply("k", token, said)).await, ReplyReply::Stale, "an old token");
    }
    assert!(lab.told(worker).await.is_empty());
    assert_eq!(lab.reply(worker, reply("k", next, answer())).await, ReplyReply::Told);
}

async fn a_stopping_job_may_still_reply(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.asker().await;
    lab.stop("k", "node1.g", Some(worker)).await;
    assert_eq!(lab.reply(worker, reply("k", token, answer())).await, ReplyReply::Told);
}

async fn a_refusal_to_do_it_needs_no_owner(lab: Lab, worker: WorkerId) {
    lab.asker().await;
    let said = [Said::Moved, Said::Busy, Said::Late, Said::Unhandled, Said::Missed, Said::Forgotten];
    for said in said.clone() {
        assert_eq!(lab.reply(worker, reply("absent", Token(1), said)).await, ReplyReply::Told);
    }
    assert_eq!(lab.told(worker).await, said);
}

async fn a_reply_before_the_record_is_made_again(mut lab: Lab, worker: WorkerId) {
    lab.asker().await;
    lab.recover().await;
    assert_eq!(lab.reply(worker, reply("k", Token(1), answer())).await, ReplyReply::Recovering);
    assert!(lab.told(worker).await.is_empty());
}

async fn a_reply_deletes_finished_entries(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.ask("k", Some(worker), token, "x").await;
    let entries: Vec<_> = lab.events_for(worker).await.workers.iter().map(|(_, entry, _)| *entry).collect();
    assert!(!entries.is_empty());
    assert_eq!(lab.step(&Reply { worker, finished: entries, items: Vec::new() }).await.unwrap(), []);
    assert!(lab.events_for(worker).await.workers.is_empty());
}

async fn big_replies_keep_the_stream_short(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.asker().await;
    let said = Said::Answer("x".repeat(ASK_MAX).into());
    for _ in 0..100 {
        assert_eq!(lab.reply(worker, reply("k", token, said.clone())).await, ReplyReply::Told);
    }
    let kept = lab.told(worker).await.len();
    assert!((60..70).contains(&kept), "{kept} are kept");
}
