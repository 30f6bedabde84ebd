//! A host that has said hello: its jobs, its leases, the way to it, and its end.
//!
//! A job that is in a host's hands has a [`Held`]. If that is dropped before the host's last word on the job, the host is
//! killed, and the drop waits until nothing of it is left. So nothing of a job runs once the pool takes it for ended. A host
//! that nobody here can kill is parted from: its connection is closed. The node keeps the job's key until the lease that
//! the host was told is over, and no thread waits for that.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_pool::{Ask, Job, JobKey};
use tokio::sync::{Notify, Semaphore, mpsc, watch};

use super::leases::{Holder, Leases};
use super::table::{Table, Waits};
use super::talk::Over;
use super::tether::Tether;
use super::wire::codec;
use super::wire::down::Down;
use super::wire::up::Hello;
use crate::journal;
use crate::work::guard::LOST;
use crate::work::process::blocking;

/// How much may wait for a host that does not read.
const WAITING: usize = 64 << 20;
/// How many starts a host has in hand that does not say.
const STARTING: u32 = 64;
const STARTING_MAX: u32 = 65_536;
/// How many requests of a host may be open. Each one beyond that is refused.
pub(super) const CALLS: usize = 256;

/// How long the kill of a host may take, first by its keeper, then by the node.
const KILLING: Duration = Duration::from_secs(10);

/// A host.
pub(super) struct Link {
    pub(super) hello: Hello,
    tether: Arc<Tether>,
    pub(super) table: Mutex<Table<Job, Ask>>,
    leases: Mutex<Leases>,
    out: mpsc::UnboundedSender<Vec<u8>>,
    /// The bytes that wait in `out`.
    pub(super) waiting: AtomicUsize,
    /// How many starts it may have in hand.
    pub(super) starting: Semaphore,
    pub(super) calls: Arc<Semaphore>,
    /// The last ping, and the last one that was answered.
    pub(super) pinged: AtomicU64,
    pub(super) ponged: watch::Sender<u64>,
    /// It wants to end, or a job of it does not.
    pub(super) wish: watch::Sender<Option<Wish>>,
    /// Why it must be killed, once it must.
    doomed: Mutex<Option<String>>,
    pub(super) doom: Notify,
    gone: Mutex<bool>,
    is_gone: Condvar,
    /// Why nothing more is heard of it.
    parted: watch::Sender<Option<Gone>>,
    /// Why nothing of it is left.
    over: watch::Sender<Option<Gone>>,
}

/// The end of a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Gone {
    /// The word in metrics.
    pub(super) word: &'static str,
    pub(super) why: String,
}

impl From<Over> for Gone {
    fn from(over: Over) -> Self {
        Self { word: over.word(), why: over.to_string() }
    }
}

/// Why a host shall give its jobs away and end.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wish {
    /// It says so.
    Bye,
    /// This job does not end.
    Stuck(JobKey),
}

/// Why a host cannot have a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotHeld {
    /// The host or the lease has ended.
    Over,
    /// It has as many jobs as it takes.
    Full,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a reason.
async fn told(why: &watch::Sender<Option<Gone>>) -> Gone {
    match why.subscribe().wait_for(Option::is_some).await {
        Ok(why) => why.clone().unwrap_or_default(),
        Err(_) => std::future::pending().await,
    }
}

impl Link {
    pub(super) fn new(
        hello: Hello,
        tether: Arc<Tether>,
        leases: Leases,
        out: mpsc::UnboundedSender<Vec<u8>>,
    ) -> Self {
        let starting = hello.max_starting.unwrap_or(STARTING).clamp(1, STARTING_MAX);
        Self {
            hello,
            tether,
            table: Mutex::new(Table::new()),
            leases: Mutex::new(leases),
            out,
            waiting: AtomicUsize::new(0),
            starting: Semaphore::new(starting as usize),
            calls: Arc::new(Semaphore::new(CALLS)),
            pinged: AtomicU64::new(0),
            ponged: watch::Sender::new(0),
            wish: watch::Sender::new(None),
            doomed: Mutex::default(),
            doom: Notify::new(),
            gone: Mutex::new(false),
            is_gone: Condvar::new(),
            parted: watch::Sender::new(None),
            over: watch::Sender::new(None),
        }
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table<Job, Ask>> {
        lock(&self.table)
    }

    /// Whether a host with this feature is here.
    pub(super) fn has(&self, feature: &str) -> bool {
        self.hello.features.iter().any(|has| has == feature)
    }

    /// Sends a message. False: it is too long for a line, and was not sent.
    pub(super) fn send(&self, message: &Down) -> bool {
        let Some(line) = codec::line(message) else { return false };
        let len = line.len();
        if self.waiting.fetch_add(len, Ordering::Relaxed) + len > WAITING {
            self.kill("it does not read what it is told");
        }
        // A host that has gone hears nothing.
        let _ = self.out.send(line);
        true
    }

    /// It must be killed, for this reason. The first reason counts.
    pub(super) fn kill(&self, why: &str) {
        lock(&self.doomed).get_or_insert_with(|| why.to_owned());
        self.doom.notify_one();
    }

    /// Why it must be killed, if somebody has said so.
    pub(super) fn doomed(&self) -> Option<String> {
        lock(&self.doomed).clone()
    }

    /// It shall give its jobs away and end.
    pub(super) fn wish(&self, wish: Wish) {
        self.wish.send_if_modified(|now| {
            let is_first = now.is_none();
            now.get_or_insert(wish);
            is_first
        });
    }

    /// Nothing more is heard of it, and it gets no further job. Those that it has may run on.
    pub(super) fn is_parted(&self, gone: &Gone) {
        lock(&self.leases).close();
        self.starting.close();
        self.parted.send_replace(Some(gone.clone()));
    }

    /// Whether nothing more is heard of it.
    pub(super) fn has_parted(&self) -> bool {
        self.parted.borrow().is_some()
    }

    /// How long the jobs of one that has parted may run on.
    pub(super) fn left(&self) -> Duration {
        lock(&self.leases).left(None)
    }

    /// Nothing of it is left: its jobs have ended.
    pub(super) fn is_over(&self, gone: &Gone) {
        self.is_parted(gone);
        *lock(&self.gone) = true;
        self.is_gone.notify_all();
        self.table().gone(&gone.why);
        self.over.send_replace(Some(gone.clone()));
    }

    /// Waits until it has answered a ping.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn answered(&self) {
        // It cannot be closed: this has the sender.
        let _ = self.ponged.subscribe().wait_for(|n| *n > 0).await;
    }

    /// Waits until nothing more is heard of it, and returns why.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn parted(&self) -> Gone {
        told(&self.parted).await
    }

    /// Waits until nothing of it is left, and returns why.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn gone(&self) -> Gone {
        told(&self.over).await
    }

    /// Kills it, and waits until nothing of it is left, or at least of this holder's jobs. It may be called for thousands of
    /// jobs at once, on all threads of the runtime, so it does not need the runtime. Returns how long the jobs of this holder
    /// may still run.
    fn kill_now(&self, holder: Holder, why: &str) -> Duration {
        self.kill(why);
        let keeper = match &*self.tether {
            Tether::Kept(keeper) => keeper,
            Tether::Told => {
                let mut leases = lock(&self.leases);
                // It is told of no later end.
                leases.close();
                return leases.left(Some(holder));
            }
        };
        blocking(|| {
            if keeper.end(KILLING) {
                return;
            }
            let (gone, _) = self
                .is_gone
                .wait_timeout_while(lock(&self.gone), KILLING, |gone| !*gone)
                .unwrap_or_else(PoisonError::into_inner);
            if !*gone {
                tracing::error!("a host does not end: the node ends, and its guard kills all");
                journal::exit(LOST);
            }
        });
        Duration::ZERO
    }

    /// Tells it of renewals.
    pub(super) fn tell_leases(&self) {
        // Sent under the lock: a lease that was left is not told of after a job that came later.
        let mut leases = lock(&self.leases);
        for news in leases.news() {
            self.send(&news);
        }
    }

    /// Takes a job into the host's hands. Returns the number of its lease, too. The caller sends the start.
    ///
    /// # Errors
    /// The host cannot have it.
    pub(super) fn hold(self: &Arc<Self>, holder: Holder, job: &Job) -> Result<(Held, Waits, u64), NotHeld> {
        let lease = {
            let mut leases = lock(&self.leases);
            let (lease, news) = leases.enter(holder, job).ok_or(NotHeld::Over)?;
            if let Some(news) = news {
                self.send(&news);
            }
            lease
        };
        match self.add(job) {
            Ok((number, waits)) => Ok((
                Held { link: self.clone(), job: job.clone(), number, holder, is_over: false },
                waits,
                lease,
            )),
            Err(why) => {
                lock(&self.leases).leave(holder);
                Err(why)
            }
        }
    }

    fn add(&self, job: &Job) -> Result<(u64, Waits), NotHeld> {
        // Until this lock is free, the end of the host waits, and then it finds the job.
        let gone = lock(&self.gone);
        let mut table = self.table();
        let is_full = self.hello.max_jobs.is_some_and(|max| table.len() >= max as usize);
        match *gone {
            true => Err(NotHeld::Over),
            false if is_full => Err(NotHeld::Full),
            false => Ok(table.add(job.clone())),
        }
    }
}

/// A job in the hands of a host.
pub(super) struct Held {
    pub(super) link: Arc<Link>,
    job: Job,
    pub(super) number: u64,
    holder: Holder,
    is_over: bool,
}

impl Held {
    /// The host has said its last word on the job, or has gone.
    pub(super) fn is_over(&mut self) {
        self.is_over = true;
        lock(&self.link.leases).leave(self.holder);
    }

    /// Tells the host to end the job, unless it was told before.
    pub(super) fn stop(&self, why: &str, within: Duration) {
        // Not under the lock: a host that is killed for its unread messages ends its jobs.
        let is_new = self.link.table().stop(self.number);
        if is_new {
            let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
            self.link.send(&Down::Stop { job: self.number, why: why.to_owned(), within_ms });
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // The host's last word may have come while nobody waited for it.
        if self.link.table().has(self.number) {
            let left = self.link.kill_now(self.holder, "the pool has given up a job of it that did not end");
            self.job.may_run_on(left);
        }
        lock(&self.link.leases).leave(self.holder);
    }
}
