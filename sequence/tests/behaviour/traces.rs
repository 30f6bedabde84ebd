//! The behaviour as text tables, on all stores of progress.
//!
//! A line is `settings: steps => state`, and one that begins with `…` goes on where the last one has ended.
//!
//! | | |
//! |---|---|
//! | `limit 3`, `ahead 5`, `default 9`, `stored 2` | settings; the last one is what the store has at first |
//! | `start`, `check`, `stop` | the calls; a stop is not waited for |
//! | `+4`, `+4..9` | these become readable, with a check each |
//! | `3*`, `3..5*` | these are done |
//! | `!4`, `ok4` | the source fails at this index, or works again |
//! | `restart` | only the stored progress is left, and another consumer starts |
//! | `2# 3! 4*` | the state: the progress is 2 and stored, 3 runs, 4 is done |

use futures::FutureExt;
use tenure_connection::Client;
use tenure_sequence::{
    Consumer, FileStore, Finisher, Jobs, MemoryProgress, Progress, ProgressError, RedisProgress,
};
use tenure_testing::RedisServer;

use crate::{Shelf, state};

const TRACES: &str = "
limit 3: start => 0#
limit 3: start check check => 0#
limit 3: start +1..4 => 0# 1! 2! 3!
limit 3: start +1..4 3* 2* +5 => 0# 1! 2* 3* 4! 5!
… 1* => 3# 4! 5!
… +6 +7 6* restart => 3# 4! 5! 6!
limit 3: start +1..3 3* => 0# 1! 2! 3*
… 2* => 0# 1! 2* 3*
… 1* => 3#
limit 3: start +1..4 3* 4* 1* => 1# 2! 3* 4*
… 2* => 4#
limit 3: +1..3 check => 0#
… start => 0# 1! 2! 3!
limit 3: start +2 => 0#
… +4 +1 => 0# 1! 2!
… 2* +3 => 0# 1! 2* 3! 4!
limit 1: start +1..3 => 0# 1!
… 1* 2* => 2# 3!
… 3* +4 => 3# 4!
limit 3: start +1 1* => 1#
… check check => 1#
… +2 => 1# 2!
limit 3: start +1..3 9* 0* => 0# 1! 2! 3!
… 1* 1* 1* => 1# 2! 3!
limit 9 ahead 5: start +1..6 2..5* => 0# 1! 2* 3* 4* 5*
… +7 1* => 5# 6! 7!
limit 9 ahead 0: start +1..20 2..20* => 0# 1! 2* 3* 4* 5* 6* 7* 8* 9* 10* 11* 12* 13* 14* 15* 16* 17* 18* 19* 20*
… 1* => 20#
limit 2 ahead 1: start +1..4 => 0# 1!
… 1* => 1# 2!
limit 3 stored 2: start +3..12 4* 6..11* => 2# 3! 4* 5! 6* 7* 8* 9* 10* 11* 12!
limit 3 stored 2: start +3..12 4* => 2# 3! 4* 5! 6!
limit 3 stored 2: start +3..8 3* 5* => 3# 4! 5* 6! 7!
limit 3 stored 5 default 9: start => 5#
limit 3 default 9: start => 9#
… +10 => 9# 10!
… restart => 9# 10!
limit 3: start !2 +1..3 => 0#
… check 1* => 0#
… ok2 check => 0# 1! 2! 3!
limit 1: start !2 +1..3 => 0# 1!
… 1* check => 1#
… ok2 check => 1# 2!
limit 3: start +1..5 1* stop 2* 3* => 3# 4!
… +6 check => 3# 4!
… 4* => 4#
… restart => 4# 5! 6!
limit 3: start +1..3 2* 3* restart => 0# 1! 2! 3!
limit 3: start +1..3 1..3* restart => 3#
… +4 => 3# 4!
limit 4: start +1..9 9* 8* 3* => 0# 1! 2! 3* 4! 5!
… 5* 4* 2* => 0# 1! 2* 3* 4* 5* 6! 7! 8!
… 1* restart => 5# 6! 7! 8! 9!
";

/// A place for the progress of many consumers, one of three kinds.
pub(crate) enum Store {
    Memory,
    File(FileStore, tempfile::TempDir),
    Redis(Client, RedisServer),
}

impl Store {
    pub(crate) async fn file() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::File(FileStore::open(folder.path().join("progress")).await.unwrap(), folder)
    }

    pub(crate) fn redis() -> Self {
        let server = RedisServer::start().unwrap();
        Self::Redis(Client::open(&server.url()).unwrap(), server)
    }

    /// The progress of this consumer.
    pub(crate) fn of(&self, name: &str) -> Kept {
        match self {
            Self::Memory => Kept::Memory(MemoryProgress::new()),
            Self::File(file, _) => Kept::File(file.progress(name)),
            Self::Redis(client, _) => Kept::Redis(RedisProgress::new(client, "traces", name).unwrap()),
        }
    }
}

/// The progress of a consumer, of one of three kinds.
#[derive(Clone)]
pub(crate) enum Kept {
    Memory(MemoryProgress),
    File(tenure_sequence::FileProgress),
    Redis(RedisProgress),
}

impl Kept {
    /// The progress for the next owner.
    pub(crate) fn owned(&self, token: u64) -> Self {
        match self {
            Self::Redis(progress) => Self::Redis(progress.clone().fenced(token)),
            other => other.clone(),
        }
    }
}

impl Progress for Kept {
    async fn load(&self) -> Result<Option<u64>, ProgressError> {
        match self {
            Self::Memory(progress) => progress.load().await,
            Self::File(progress) => progress.load().await,
            Self::Redis(progress) => progress.load().await,
        }
    }

    async fn init(&self, default: u64) -> Result<u64, ProgressError> {
        match self {
            Self::Memory(progress) => progress.init(default).await,
            Self::File(progress) => progress.init(default).await,
            Self::Redis(progress) => progress.init(default).await,
        }
    }

    async fn save(&self, index: u64) -> Result<(), ProgressError> {
        match self {
            Self::Memory(progress) => progress.save(index).await,
            Self::File(progress) => progress.save(index).await,
            Self::Redis(progress) => progress.save(index).await,
        }
    }
}

#[derive(Clone, Copy)]
struct Settings {
    limit: usize,
    ahead: u64,
    default: u64,
}

/// A consumer that does what a trace says.
struct Play {
    settings: Settings,
    shelf: Shelf,
    kept: Kept,
    life: u64,
    consumer: Consumer,
    jobs: Jobs<u64>,
    finisher: Finisher,
    /// The highest index of this life.
    handed_out: u64,
}

impl Play {
    async fn new(settings: &str, kept: Kept) -> Self {
        let words: Vec<_> = settings.split_whitespace().collect();
        let value = |name: &str, or: u64| {
            let found = words.chunks(2).find(|pair| pair[0] == name);
            found.map_or(or, |pair| pair[1].parse().unwrap())
        };
        let stored = value("stored", u64::MAX);
        if stored != u64::MAX {
            kept.init(stored).await.unwrap();
        }
        let settings = Settings {
            limit: usize::try_from(value("limit", 8)).unwrap(),
            ahead: value("ahead", 0),
            default: value("default", 0),
        };
        let shelf = Shelf::default();
        let (consumer, jobs, finisher) = build(settings, &shelf, &kept, 1);
        Self { settings, shelf, kept, life: 1, consumer, jobs, finisher, handed_out: 0 }
    }

    async fn step(&mut self, step: &str) {
        let indexes = |text: &str| {
            let (first, last) = text.split_once("..").unwrap_or((text, text));
            first.parse::<u64>().unwrap()..=last.parse().unwrap()
        };
        match step {
            "start" => drop(self.consumer.start().await.unwrap()),
            "check" => self.consumer.check(),
            "stop" => drop(self.consumer.stop().now_or_never()),
            "restart" => {
                (self.life, self.handed_out) = (self.life + 1, 0);
                (self.consumer, self.jobs, self.finisher) =
                    build(self.settings, &self.shelf, &self.kept, self.life);
                self.consumer.start().await.unwrap();
            }
            _ => {
                if let Some(added) = step.strip_prefix('+') {
                    for index in indexes(added) {
                        self.shelf.add(index);
                        self.consumer.check();
                        self.settle().await;
                    }
                } else if let Some(done) = step.strip_suffix('*') {
                    for index in indexes(done) {
                        let _ = self.finisher.finish(index).await;
                        self.settle().await;
                    }
                } else if let Some(failing) = step.strip_prefix('!') {
                    self.shelf.fail(failing.parse().unwrap(), true);
                } else {
                    self.shelf.fail(step.strip_prefix("ok").unwrap().parse().unwrap(), false);
                }
            }
        }
        self.settle().await;
    }

    /// Waits until all is done, and all that runs was handed out.
    async fn settle(&mut self) {
        self.consumer.settled().await;
        for index in self.consumer.explain().running.iter().map(|job| job.index) {
            if index > self.handed_out {
                let job = self.jobs.next().await.unwrap();
                assert_eq!((job.index(), *job.job()), (index, index), "jobs begin in order");
                self.handed_out = index;
            }
        }
    }
}

fn build(settings: Settings, shelf: &Shelf, kept: &Kept, life: u64) -> (Consumer, Jobs<u64>, Finisher) {
    let Settings { limit, ahead, default } = settings;
    let builder = Consumer::builder(shelf.clone(), kept.owned(life)).default_index(default);
    builder.concurrency(limit).look_ahead(ahead).manual().unwrap()
}

async fn hold(store: &Store) {
    let mut play: Option<Play> = None;
    let mut count = 0;
    for (at, line) in TRACES.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        let (trace, expected) = line.split_once(" => ").unwrap();
        let steps = if let Some(steps) = trace.strip_prefix("… ") {
            steps
        } else {
            let (settings, steps) = trace.split_once(": ").unwrap();
            play = Some(Play::new(settings, store.of(&format!("trace {at}"))).await);
            steps
        };
        let play = play.as_mut().unwrap();
        for step in steps.split(' ') {
            play.step(step).await;
        }
        let seen = state(&play.consumer).await;
        assert_eq!(seen, expected, "line {at}: {line}");
        let stored = play.kept.load().await.unwrap().unwrap_or(0);
        assert!(expected.starts_with(&format!("{stored}#")), "line {at}: {line}, but {stored} is stored");
        count += 1;
    }
    assert!(count > 40, "{count} lines");
}

#[tokio::test]
async fn traces_hold_with_progress_in_memory() {
    hold(&Store::Memory).await;
}

#[tokio::test]
async fn traces_hold_with_progress_in_a_file() {
    hold(&Store::file().await).await;
}

#[tokio::test]
async fn traces_hold_with_progress_in_redis() {
    hold(&Store::redis()).await;
}
