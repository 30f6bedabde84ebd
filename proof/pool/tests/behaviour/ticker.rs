//! Tickers: one of all nodes gets each tick, and the ticks go on when it dies.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use tenure_pool::schedule::Ticker;
use tenure_pool::{Client, Error, Node, Tick};
use tenure_testing::Proxy;
use tokio::task::JoinHandle;

use crate::world::{PATIENCE, POOL, SHORT, World, on_both_stores, until};

on_both_stores!(
    each_tick_reaches_one_node,
    the_first_tick_comes_after_the_period,
    ticks_go_on_when_the_node_that_gets_them_dies,
    a_dropped_ticker_hands_its_turn_on_at_once,
    ticks_go_on_after_an_outage,
    another_period_counts_on_all_nodes,
    a_stopped_ticker_ends_on_all_nodes,
    ticks_that_nobody_takes_are_not_piled_up,
    a_ticker_ends_with_its_node_and_its_pool,
    several_tickers_of_one_node_share_the_ticks,
    a_call_that_is_dropped_takes_no_part,
);

const OFTEN: Duration = Duration::from_millis(20);
const SELDOM: Duration = Duration::from_secs(3_600);

/// The ticks of several nodes.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Vec<(String, Tick)>>>);

impl Book {
    /// Records the ticks, until the ticker's stream ends.
    fn note(&self, node: &Node, mut ticker: Ticker) -> JoinHandle<()> {
        let (book, node) = (self.clone(), node.name().to_owned());
        tokio::spawn(async move {
            while let Some(tick) = ticker.next().await {
                book.0.lock().unwrap().push((node.clone(), tick));
            }
        })
    }

    async fn open(&self, node: &Node, every: Duration) -> JoinHandle<()> {
        self.note(node, node.ticker("beat", every).await.unwrap())
    }

    fn ticks(&self) -> Vec<(String, Tick)> {
        self.0.lock().unwrap().clone()
    }

    async fn more(&self, ticks: usize) {
        let before = self.ticks().len();
        until("ticks", async || self.ticks().len() >= before + ticks).await;
    }

    async fn more_of(&self, node: &str) {
        let count = || self.ticks().iter().filter(|(own, _)| own == node).count();
        let before = count();
        until("ticks of the node", async || count() > before + 2).await;
    }

    /// The numbers rise: no tick was given twice.
    fn assert_once(&self) {
        let numbers: Vec<_> = self.ticks().iter().map(|(_, tick)| tick.number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }
}

async fn each_tick_reaches_one_node(world: World) {
    let book = Book::default();
    let nodes = [world.node("a").await, world.node("b").await, world.node("c").await];
    for node in &nodes {
        book.open(node, OFTEN).await;
    }
    book.more(30).await;
    book.assert_once();
    let owners: BTreeSet<_> = book.ticks().into_iter().map(|(node, _)| node).collect();
    assert_eq!(owners.len(), 1);
}

async fn the_first_tick_comes_after_the_period(world: World) {
    let node = world.node("a").await;
    let mut seldom = node.ticker("seldom", SELDOM).await.unwrap();
    let mut often = node.ticker("often", OFTEN).await.unwrap();
    let first = often.next().await.unwrap();
    assert_eq!(first.number, 1);
    let now = world.now();
    let away = first.at.duration_since(now).or_else(|_| now.duration_since(first.at)).unwrap();
    assert!(away < PATIENCE, "{first:?}");
    assert!(futures::poll!(seldom.next()).is_pending());
}

async fn ticks_go_on_when_the_node_that_gets_them_dies(world: World) {
    let world = world.with_ttl(Duration::from_secs(1));
    let book = Book::default();
    let (a, b) = (world.node("a").await, world.node("b").await);
    book.open(&a, OFTEN).await;
    book.more(3).await;
    book.open(&b, OFTEN).await;
    book.more(3).await;
    let before = book.ticks();
    assert!(before.iter().all(|(node, _)| node == "a"));
    a.abandon();
    book.more_of("b").await;
    book.assert_once();
    assert!(book.ticks().last().unwrap().1.term > before[0].1.term);
}

async fn a_dropped_ticker_hands_its_turn_on_at_once(world: World) {
    let book = Book::default();
    let (a, b) = (world.node("a").await, world.node("b").await);
    let mut first = a.ticker("beat", OFTEN).await.unwrap();
    first.next().await.unwrap();
    book.open(&b, OFTEN).await;
    assert_eq!(book.ticks().len(), 0);
    drop(first);
    book.more_of("b").await;
}

async fn ticks_go_on_after_an_outage(world: World) {
    let world = world.with_ttl(Duration::from_secs(1));
    let book = Book::default();
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    a.dispatch(("job", "")).await.unwrap();
    book.open(&a, OFTEN).await;
    book.open(&b, OFTEN).await;
    book.more(3).await;
    world.cut_off();
    until("the lease to run out", async || !world.recorder.is_running("job")).await;
    let silent = book.ticks().len();
    world.reconnect();
    book.more(5).await;
    assert!(book.ticks().len() > silent);
    book.assert_once();
}

async fn another_period_counts_on_all_nodes(world: World) {
    let book = Book::default();
    let (a, b) = (world.node("a").await, world.node("b").await);
    book.open(&a, SELDOM).await;
    until("the first to have the turn", async || {
        world.data().await.iter().any(|line| line.starts_with("schedules t:beat ") && line.contains("|a|"))
    })
    .await;
    let on_b = b.ticker("beat", SELDOM).await.unwrap();
    assert_eq!(on_b.name(), "beat");
    on_b.set_period(OFTEN).await.unwrap();
    book.more(3).await;
}

async fn a_stopped_ticker_ends_on_all_nodes(world: World) {
    let world = world.with_ttl(Duration::from_secs(2));
    let book = Book::default();
    let (a, b) = (world.node("a").await, world.node("b").await);
    let ended = [book.open(&a, OFTEN).await, book.open(&b, OFTEN).await];
    let mut mine = a.ticker("beat", OFTEN).await.unwrap();
    book.more(2).await;
    mine.stop().await.unwrap();
    mine.stop().await.unwrap();
    for end in ended {
        end.await.unwrap();
    }
    while mine.next().await.is_some() {}
    assert!(matches!(mine.set_period(OFTEN).await, Err(Error::ScheduleEnded)));
    let last = book.ticks().len();
    book.open(&b, OFTEN).await;
    book.more(1).await;
    assert_eq!(book.ticks()[last].1.number, 1);
}

async fn ticks_that_nobody_takes_are_not_piled_up(world: World) {
    let book = Book::default();
    let node = world.node("a").await;
    let mut slow = node.ticker("slow", Duration::from_millis(5)).await.unwrap();
    assert_eq!(slow.next().await.unwrap().number, 1);
    book.open(&node, OFTEN).await;
    book.more(10).await;
    let waited = slow.next().await.unwrap().number;
    let next = slow.next().await.unwrap().number;
    assert_eq!(waited, 2);
    assert!(next > 5, "{next}");
}

async fn a_ticker_ends_with_its_node_and_its_pool(world: World) {
    let book = Book::default();
    let (a, b) = (world.node("a").await, world.node("b").await);
    let on_a = book.open(&a, OFTEN).await;
    let on_b = book.open(&b, OFTEN).await;
    assert!(a.close().await.unwrap().complete);
    on_a.await.unwrap();
    book.more_of("b").await;
    assert!(matches!(a.ticker("beat", OFTEN).await, Err(Error::NodeClosed)));
    assert!(b.operate().shutdown().await.unwrap().complete);
    on_b.await.unwrap();
}

async fn several_tickers_of_one_node_share_the_ticks(world: World) {
    let book = Book::default();
    let node = world.node("a").await;
    let mut first = node.ticker("beat", OFTEN).await.unwrap();
    first.next().await.unwrap();
    book.open(&node, OFTEN).await;
    first.next().await.unwrap();
    assert_eq!(book.ticks().len(), 0);
    drop(first);
    book.more(3).await;
    book.assert_once();
}

async fn a_call_that_is_dropped_takes_no_part(world: World) {
    let book = Book::default();
    let (a, b) = (world.node("a").await, world.node("b").await);
    for _ in 0..20 {
        let mut call = Box::pin(a.ticker("beat", OFTEN));
        let _ = futures::poll!(&mut call);
    }
    book.open(&b, OFTEN).await;
    book.more_of("b").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_whose_answer_is_lost_comes_all_the_same() {
    let world = World::on_redis();
    // The pool is there, and so are the scripts.
    let other = world.node("other").await;
    let proxy = Proxy::start(world.server()).await.unwrap();
    let builder = Node::builder(POOL, Client::open(&proxy.url()).unwrap());
    let builder = builder.name("a").worker_ttl(world.ttl()).join_settle(SHORT).stable_after(SHORT);
    let node = builder.client_only().join().await.unwrap();
    let book = Book::default();
    book.open(&node, OFTEN).await;
    book.more(3).await;
    let given_out = async || {
        let data = world.data().await;
        let entry = data.into_iter().find(|line| line.starts_with("schedules t:beat ")).unwrap();
        entry.split('|').nth(5).unwrap().parse::<u64>().unwrap()
    };
    for _ in 0..3 {
        proxy.drop_replies();
        until("a tick whose answer is lost", async || {
            given_out().await > book.ticks().last().unwrap().1.number
        })
        .await;
        let lost = given_out().await;
        proxy.resume();
        book.more(3).await;
        assert!(book.ticks().iter().any(|(_, tick)| tick.number == lost), "{lost}: {:?}", book.ticks());
    }
    book.assert_once();
    drop(other);
}
