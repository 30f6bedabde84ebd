//! One map that a [`Mirror`](crate::mirror::Mirror) follows: when to read it, compare it and delete its due entries,
//! and when to tell its readers that something ended.

use std::collections::hash_map::RandomState;
use std::future::{Future, pending};
use std::hash::BuildHasher;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tenure_connection::{Client, Connection};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::copy::Copy;
use crate::mutation::{Mutation, Mutations};
use crate::wire::{self, Found, Read};
use crate::{Error, Layout, lua};

/// The interval at which a copy's place is compared with its original's, when nothing else causes a comparison. It
/// finds a lost message that no other followed.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// The time until a comparison that is left out: effectively never.
const NEVER: Duration = Duration::from_secs(60 * 60 * 24);
/// The most entries that the comparison reads itself, over the shared connection.
const SMALL: u64 = 1_000;
/// The time allowed for each entry of a bigger map, for the server, the network and this process, besides the time for
/// a call.
const PER_ENTRY: Duration = Duration::from_micros(50);
/// The longest time allowed for a read, besides the time for a call: it bounds the loss when a link dies during a read.
const LONGEST_READ: Duration = Duration::from_secs(30);
/// When all copies of a big map must read it again, they spread over this time per entry.
const SPREAD_PER_ENTRY: Duration = Duration::from_micros(10);
const LONGEST_SPREAD: Duration = Duration::from_secs(2);
/// Delay before the next attempt at a big map whose read timed out. The delay and the allowed time double with each.
const LATE_PAUSE: Duration = Duration::from_secs(1);
const MOST_DOUBLINGS: u32 = 4;
/// Copies spread the deletion of due entries over this time, so that one of them does it.
const EXPIRY_JITTER: Duration = Duration::from_millis(200);
/// The pause after a deletion by this copy or another, while its message is under way.
const EXPIRY_PAUSE: Duration = Duration::from_secs(1);
/// The least pause before the next look at a map that should have ended and has not. It doubles each time.
const END_PAUSE: Duration = Duration::from_millis(20);
/// The most entries that one call deletes.
const EXPIRY_BATCH: u64 = 256;

pub(crate) struct Followed {
    pub(crate) layout: Layout,
    pub(crate) copy: Arc<Copy>,
    pub(crate) changed: watch::Sender<()>,
    needs_read: bool,
    /// Whether the next read takes the entries even where the copy is at the map's place.
    is_doubted: bool,
    /// When the next read is due, or the next comparison if no read is needed.
    read_at: Instant,
    waiting: Vec<oneshot::Sender<Result<(), Error>>>,
    /// Whether a comparison, which reads a small map, timed out and no quick read of the whole map has followed.
    is_late: bool,
    /// The number of reads of a big map in a row that timed out.
    late_reads: u32,
    /// Entries are not deleted before this.
    expire_after: Instant,
    /// The delay after an entry's deadline before this copy deletes it.
    jitter: Duration,
    /// This copy does not look before this whether the map has ended.
    end_after: Instant,
    end_pause: Duration,
    /// The time of the server's clock, in ms, up to which readers know of all ends.
    told: u64,
}

impl Followed {
    /// A map that needs a read at once.
    pub(crate) fn new(layout: Layout, now: Instant, broken: Mutations) -> Self {
        Self {
            layout,
            copy: Arc::new(Copy::new(broken)),
            changed: watch::Sender::default(),
            needs_read: true,
            is_doubted: false,
            read_at: now,
            waiting: Vec::new(),
            is_late: false,
            late_reads: 0,
            expire_after: now,
            jitter: at_random(EXPIRY_JITTER),
            end_after: now,
            end_pause: END_PAUSE,
            told: 0,
        }
    }

    /// Requests a read soon.
    pub(crate) fn need(&mut self) {
        if !self.needs_read {
            self.needs_read = true;
            self.read_at = Instant::now();
        }
    }

    /// Requests a read soon, of the entries as well.
    pub(crate) fn need_whole(&mut self) {
        self.is_doubted = true;
        self.need();
    }

    /// Requests a read that all copies need at the same time: those of a big map take turns.
    pub(crate) fn need_with_all(&mut self) {
        if !self.needs_read {
            self.need();
            let entries = self.copy.len() as u64;
            if entries > SMALL {
                self.read_at += at_random(times(SPREAD_PER_ENTRY, entries).min(LONGEST_SPREAD));
            }
        }
    }

    /// Requests a read at once, for a caller that waits.
    pub(crate) fn answer_soon(&mut self, done: oneshot::Sender<Result<(), Error>>) {
        self.needs_read = true;
        self.read_at = Instant::now();
        self.waiting.push(done);
    }

    pub(crate) fn answer(&mut self, result: &Result<(), Error>) {
        for waiting in self.waiting.drain(..) {
            // A caller that has stopped waiting needs no answer.
            let _ = waiting.send(result.clone());
        }
    }

    /// Whether the last reads timed out because of the map's size, which says nothing about other maps.
    pub(crate) fn is_slow(&self) -> bool {
        self.late_reads > 0
    }

    /// When the next read or comparison is due.
    pub(crate) fn read_at(&self) -> Instant {
        self.read_at
    }

    /// When this copy deletes the next due entry.
    pub(crate) fn expire_at(&self) -> Option<Instant> {
        self.layout.deadlines.as_ref()?;
        let due = Instant::from_std(self.copy.ends().0?) + self.jitter;
        Some(due.max(self.expire_after))
    }

    /// Deletes nothing for the usual pause and this much longer.
    pub(crate) fn expire_later(&mut self, by: Duration) {
        self.expire_after = Instant::now() + EXPIRY_PAUSE + by;
    }

    /// When this copy looks whether the map has ended.
    pub(crate) fn end_at(&self) -> Option<Instant> {
        if self.needs_read {
            return None;
        }
        Some(Instant::from_std(self.copy.ends().1?).max(self.end_after))
    }

    /// Requests a read if the map should have ended.
    pub(crate) fn look_at_the_end(&mut self, now: Instant) {
        if self.end_at().is_some_and(|end| end <= now) {
            self.need();
            self.end_after = now + self.end_pause;
            self.end_pause = (self.end_pause * 2).min(CHECK_EVERY);
        }
    }

    /// When to tell the readers of the next end.
    pub(crate) fn tell_at(&self) -> Option<Instant> {
        self.copy.next_end(self.told).map(|(_, at)| Instant::from_std(at))
    }

    /// Tells the readers that an entry or the map has ended by the clock: nothing else does while Redis is out of
    /// reach.
    pub(crate) fn tell_ends(&mut self) {
        let now = self.copy.time();
        if self.copy.next_end(self.told).is_some_and(|(end, _)| end <= now) {
            self.changed.send_replace(());
        }
        self.told = now;
    }

    /// Awaits an answer, and tells readers of ends meanwhile.
    async fn while_telling<T>(&mut self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        loop {
            let tell_at = self.tell_at();
            let end = async {
                match tell_at {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = end => self.tell_ends(),
            }
        }
    }

    /// Compares the copy's place with the map's, and reads the map if they differ. A big map is read over a connection
    /// of its own, within a time that depends on its size.
    pub(crate) async fn read(&mut self, client: &Client) -> Result<(), Error> {
        self.needs_read = true;
        // A small map may have big values.
        let most = if self.is_late { 0 } else { SMALL };
        let compared = self.ask(&client.commands(), Some(most)).await;
        self.is_late |= compared.as_ref().is_err_and(is_late);
        let (mut read, mut sent) = compared?;
        if let Found::Many(entries) = read.found {
            let own = client.dedicated();
            // Connects, within the time for a call.
            self.ask(&own, Some(0)).await?;
            let size = times(PER_ENTRY, entries).saturating_mul(2_u32.pow(self.late_reads)).min(LONGEST_READ);
            let allowed = client.response_timeout().saturating_add(size);
            let began = Instant::now();
            match self.ask(&own.with_response_timeout(allowed), None).await {
                Ok(whole) => {
                    (read, sent) = whole;
                    self.is_late &= began.elapsed() > client.response_timeout() / 2;
                }
                Err(error) => {
                    if is_late(&error) {
                        let pause = LATE_PAUSE * 2_u32.pow(self.late_reads);
                        self.read_at = Instant::now() + pause / 2 + at_random(pause / 2);
                        self.late_reads = (self.late_reads + 1).min(MOST_DOUBLINGS);
                    }
                    return Err(error);
                }
            }
        }
        let content = match read.found {
            Found::Same => None,
            Found::Content(content) => Some(content),
            Found::Many(_) => return Err(Error::Malformed { what: "a whole map that was not read" }),
        };
        if self.copy.install(content, read.end, read.time, sent) {
            self.changed.send_replace(());
            self.end_pause = END_PAUSE;
        }
        (self.needs_read, self.is_doubted, self.late_reads) = (false, false, 0);
        let is_compared = !self.copy.broken.has(Mutation::NoResync);
        self.read_at = Instant::now() + if is_compared { CHECK_EVERY } else { NEVER };
        Ok(())
    }

    /// Calls the script. Returns its reply, and the local moment at which the call was sent.
    async fn ask(&mut self, redis: &Connection, most: Option<u64>) -> Result<(Read, u64), Error> {
        let Layout { meta, hash, inc_field, rev_field, deadlines, .. } = &self.layout;
        let keys: Vec<_> = [meta, hash].into_iter().chain(deadlines).collect();
        let mut call = lua::READ.call(&keys);
        call.arg(inc_field).arg(rev_field);
        match most {
            Some(most) => call.arg(most),
            None => call.arg(""),
        };
        if let Some(place) = self.copy.place().filter(|_| !self.is_doubted) {
            call.arg(place.incarnation).arg(place.revision).arg(place.stamp);
        }
        let sent = self.copy.local();
        let reply = self.while_telling(redis.call(&call)).await?;
        Ok((Read::decode(reply)?, sent))
    }

    /// Deletes due entries.
    pub(crate) async fn expire(&mut self, client: &Client) -> Result<(), Error> {
        let Layout { name, hash, meta, inc_field, rev_field, deadlines, channel } = &self.layout;
        let Some(deadlines) = deadlines else { return Ok(()) };
        let mut call = lua::EXPIRE.call(&[meta, hash, deadlines]);
        call.arg(name).arg(channel).arg(inc_field).arg(rev_field).arg(EXPIRY_BATCH);
        let sent = self.copy.local();
        let redis = client.commands();
        let (count, time) = wire::expired(self.while_telling(redis.call(&call)).await?)?;
        self.copy.set_clock(time, sent);
        let is_more = count == EXPIRY_BATCH;
        self.expire_after = Instant::now() + if is_more { Duration::ZERO } else { EXPIRY_PAUSE };
        self.jitter = at_random(EXPIRY_JITTER);
        Ok(())
    }
}

fn is_late(error: &Error) -> bool {
    matches!(error, Error::Redis(tenure_connection::Error::TimedOut(_)))
}

fn times(each: Duration, count: u64) -> Duration {
    each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

/// A random time up to `longest`.
fn at_random(longest: Duration) -> Duration {
    // The standard hasher draws its seeds at random: enough for jitter.
    longest.mul_f64(RandomState::new().hash_one(0_u64) as f64 / u64::MAX as f64)
}
