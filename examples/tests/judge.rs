//! The judge with good clients and bad ones: each fault must be reported.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use tenure_examples::feeds::judge::Fencing;
use tenure_examples::feeds::link::Link;
use tenure_examples::feeds::server::FeedServer;
use tenure_examples::feeds::session::{Control, Session, SessionError};
use tenure_examples::feeds::stats::{Duplicate, Stats};
use tenure_examples::feeds::wire::{Hello, Reply, Request};

const PATIENCE: Duration = Duration::from_secs(10);

struct Court {
    server: FeedServer,
    control: Control,
}

impl Court {
    async fn open(fencing: Fencing) -> Self {
        let server = FeedServer::start(fencing).await.unwrap();
        let control = Control::new(server.address());
        Self { server, control }
    }

    async fn session(&self, token: u64, node: &str) -> Result<Session, SessionError> {
        Session::open(self.server.address(), hello(token, node)).await
    }

    /// A connection that can carry any message.
    async fn raw(&self, token: u64, node: &str) -> Link {
        let mut link = Link::connect(self.server.address()).await.unwrap();
        link.send(&Request::Hello(hello(token, node))).await.unwrap();
        assert_eq!(receive(&mut link).await, Some(Reply::Welcome));
        link
    }

    /// The findings, as soon as `done` holds for them.
    async fn stats_when(&mut self, what: &str, done: impl Fn(&Stats) -> bool) -> Stats {
        let looking = async {
            loop {
                let stats = self.control.stats().await.unwrap();
                if done(&stats) {
                    return stats;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("{what}: not within 10 s"))
    }
}

fn hello(token: u64, node: &str) -> Hello {
    Hello {
        tenant: "acme".into(),
        token,
        node: node.into(),
        worker: format!("{node}/0"),
        symbol: "ACME".into(),
    }
}

async fn receive(link: &mut Link) -> Option<Reply> {
    link.receive(PATIENCE).await.unwrap()
}

/// The next reply that is not a line of the feed.
async fn answer(link: &mut Link) -> Option<Reply> {
    loop {
        match receive(link).await {
            Some(Reply::Line { .. }) => {}
            other => return other,
        }
    }
}

async fn beat(link: &mut Link, token: u64) {
    link.send(&Request::Beat { token, line: 0 }).await.unwrap();
}

#[tokio::test]
async fn a_clean_change_of_hands_is_only_a_move_with_its_gap() {
    let mut court = Court::open(Fencing::Enforced).await;
    let mut first = court.session(1, "n1").await.unwrap();
    first.beat().await.unwrap();
    assert_eq!(first.next_line().await.unwrap(), 1);
    first.beat().await.unwrap();
    let stats = court.stats_when("the line is confirmed", |s| s.tenants["acme"].line == 1).await;
    assert!(stats.tenants["acme"].connected);
    assert_eq!(stats.moves, []);

    first.beat().await.unwrap();
    first.close().await.unwrap();
    assert!(!court.control.stats().await.unwrap().tenants["acme"].connected);
    let mut second = court.session(2, "n2").await.unwrap();
    second.beat().await.unwrap();
    let stats = court.stats_when("the second acts", |s| s.tenants["acme"].connected).await;
    assert_eq!(stats.moves.len(), 1);
    assert_eq!((stats.moves[0].from.as_str(), stats.moves[0].to.as_str()), ("n1", "n2"));
    assert!(stats.moves[0].gap_us > 0);
    assert_eq!(stats.tenants["acme"].token, 2);
    assert_eq!((stats.duplicates.len(), stats.refused, stats.stale_accepted), (0, 0, 0));

    court.control.mark().await.unwrap();
    assert_eq!(court.control.stats().await.unwrap().moves, []);
}

#[tokio::test]
async fn a_connection_that_dies_has_ended() {
    let mut court = Court::open(Fencing::Enforced).await;
    let mut first = court.session(1, "n1").await.unwrap();
    first.beat().await.unwrap();
    court.stats_when("it is connected", |s| s.tenants["acme"].connected).await;
    drop(first);
    court.stats_when("it has ended", |s| !s.tenants["acme"].connected).await;
}

#[tokio::test]
async fn an_owner_that_returns_with_its_token_has_not_moved() {
    let mut court = Court::open(Fencing::Enforced).await;
    court.session(1, "n1").await.unwrap().close().await.unwrap();
    let _again = court.session(1, "n1").await.unwrap();
    let stats = court.control.stats().await.unwrap();
    assert_eq!((stats.moves.len(), stats.reconnects), (0, 1));
}

#[tokio::test]
async fn two_acting_connections_under_one_token_are_a_duplicate() {
    let mut court = Court::open(Fencing::Enforced).await;
    let mut first = court.raw(1, "n1").await;
    let mut second = court.raw(1, "n2").await;
    beat(&mut second, 1).await;
    court.stats_when("the second acts", |s| s.tenants["acme"].connected).await;
    assert_eq!(court.control.stats().await.unwrap().duplicates, [], "one acts alone");
    beat(&mut first, 1).await;
    let stats = court.stats_when("the duplicate is seen", |s| !s.duplicates.is_empty()).await;
    assert_eq!(stats.duplicates, [Duplicate { tenant: "acme".into(), older: 1, newer: 1 }]);
}

#[tokio::test]
async fn an_old_owner_that_still_acts_is_refused_and_a_duplicate() {
    let mut court = Court::open(Fencing::Enforced).await;
    let mut old = court.raw(1, "n1").await;
    beat(&mut old, 1).await;
    court.stats_when("the old one acts", |s| s.tenants["acme"].connected).await;
    let mut new = court.raw(2, "n2").await;
    beat(&mut new, 2).await;
    assert_eq!(answer(&mut old).await, Some(Reply::Replaced), "the newer token closes the older connection");
    court
        .stats_when("the new one acts", |s| s.tenants["acme"].token == 2 && s.tenants["acme"].connected)
        .await;
    assert_eq!(court.control.stats().await.unwrap().duplicates, [], "the old one acted before, not after");

    beat(&mut old, 1).await;
    assert_eq!(answer(&mut old).await, Some(Reply::Refused { highest: 2 }));
    let stats = court.control.stats().await.unwrap();
    assert_eq!(stats.duplicates, [Duplicate { tenant: "acme".into(), older: 1, newer: 2 }]);
    assert_eq!((stats.refused, stats.stale_accepted), (1, 0));
}

#[tokio::test]
async fn an_old_owner_that_falls_silent_is_no_duplicate() {
    let mut court = Court::open(Fencing::Enforced).await;
    let mut old = court.raw(1, "n1").await;
    beat(&mut old, 1).await;
    court.stats_when("the old one acts", |s| s.tenants["acme"].connected).await;
    let mut new = court.raw(2, "n2").await;
    beat(&mut new, 2).await;
    old.send(&Request::Bye { token: 1 }).await.unwrap();
    assert_eq!(answer(&mut old).await, Some(Reply::Replaced));
    assert_eq!(answer(&mut old).await, Some(Reply::Bye));
    let stats = court.stats_when("the new one acts", |s| s.tenants["acme"].connected).await;
    assert_eq!(stats.duplicates, []);
    assert_eq!(stats.moves[0].gap_us, 0, "the old connection was still open");
}

#[tokio::test]
async fn a_stale_hello_is_refused_and_counted() {
    let mut court = Court::open(Fencing::Enforced).await;
    let _new = court.session(7, "n2").await.unwrap();
    let refused = court.session(6, "n1").await.unwrap_err();
    assert!(matches!(refused, SessionError::Stale { token: 6, highest: 7 }), "{refused}");
    let stats = court.control.stats().await.unwrap();
    assert_eq!((stats.refused, stats.stale_accepted), (1, 0));
    assert_eq!(stats.tenants["acme"].node, "n2");
}

#[tokio::test]
async fn notifications_are_counted_by_their_number() {
    let mut court = Court::open(Fencing::Enforced).await;
    let mut session = court.session(1, "n1").await.unwrap();
    for number in [4, 5, 4] {
        session.note(number).await.unwrap();
    }
    let stats = court.stats_when("three have arrived", |s| s.tenants["acme"].noted.len() == 2).await;
    assert_eq!(stats.tenants["acme"].noted[&5], 1);
    court.stats_when("one came twice", |s| s.tenants["acme"].noted[&4] == 2).await;
}

#[tokio::test]
async fn a_stale_notification_has_no_effect() {
    let mut court = Court::open(Fencing::Enforced).await;
    let mut old = court.raw(1, "n1").await;
    let _new = court.raw(2, "n2").await;
    old.send(&Request::Noted { token: 1, number: 5 }).await.unwrap();
    let stats = court.stats_when("it is refused", |s| s.refused == 1).await;
    assert!(stats.tenants["acme"].noted.is_empty());
}

#[tokio::test]
async fn a_server_that_ignores_tokens_is_caught_accepting_stale_ones() {
    let mut court = Court::open(Fencing::Ignored).await;
    let _new = court.raw(2, "n2").await;
    let mut old = court.raw(1, "n1").await;
    let stats = court.control.stats().await.unwrap();
    assert_eq!((stats.refused, stats.stale_accepted), (0, 1), "the hello");
    beat(&mut old, 1).await;
    court.stats_when("the heartbeat as well", |s| s.stale_accepted == 2).await;
}

#[tokio::test]
async fn nonsense_ends_only_its_own_connection() {
    let mut court = Court::open(Fencing::Enforced).await;
    let mut good = court.raw(1, "n1").await;
    let mut silly = Link::connect(court.server.address()).await.unwrap();
    silly.send(&"hello?").await.unwrap();
    assert!(!matches!(silly.receive::<Reply>(PATIENCE).await, Ok(Some(_))), "it is closed");
    let mut early = Link::connect(court.server.address()).await.unwrap();
    beat(&mut early, 1).await;
    assert!(matches!(receive(&mut early).await, Some(Reply::Invalid { .. })));
    beat(&mut good, 1).await;
    court.stats_when("the good one lives", |s| s.tenants["acme"].connected).await;
}
