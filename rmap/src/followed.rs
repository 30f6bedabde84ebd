//! One map that a [`Mirror`](crate::mirror::Mirror) follows: when it is read, compared, cleared of what is due, and
//! when its readers hear that something ended.

use std::collections::hash_map::RandomState;
use std::future::{Future, pending};
use std::hash::BuildHasher;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tenure_connection::{Client, Connection};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::breakage::{Breakage, Breakages};
use crate::copy::Copy;
use crate::wire::{self, Found, Read};
use crate::{Error, Layout, lua};

/// How often a copy's place is compared with its original's when nothing else says that it should be: finds the loss
/// of a message that was not followed by another.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// How far off a comparison is that is left out.
const NEVER: Duration = Duration::from_secs(60 * 60 * 24);
/// So many entries are read by the comparison itself, over the connection that all share.
const SMALL: u64 = 1_000;
/// What the server, the network and this process may take for each entry of a bigger map, besides the time for a call.
const PER_ENTRY: Duration = Duration::from_micros(50);
/// A link that died in the midst of a read is given up after this at the latest, besides the time for a call.
const LONGEST_READ: Duration = Duration::from_secs(30);
/// Copies of a big map that all have to be read again spread over this time for each entry.
const SPREAD_PER_ENTRY: Duration = Duration::from_micros(10);
const LONGEST_SPREAD: Duration = Duration::from_secs(2);
/// Not before this is a big map read again that could not be read in time; it doubles, and so does the time.
const LATE_PAUSE: Duration = Duration::from_secs(1);
const MOST_DOUBLINGS: u32 = 4;
/// Copies spread over this time who of them deletes what is due.
const EXPIRY_JITTER: Duration = Duration::from_millis(200);
/// What was due was deleted, by this copy or another: the message is under way.
const EXPIRY_PAUSE: Duration = Duration::from_secs(1);
/// A map that should have ended, and has not, is asked again no sooner; it doubles.
const END_PAUSE: Duration = Duration::from_millis(20);
/// Entries that one call deletes.
const EXPIRY_BATCH: u64 = 256;

pub(crate) struct Followed {
    pub(crate) layout: Layout,
    pub(crate) copy: Arc<Copy>,
    pub(crate) changed: watch::Sender<()>,
    needs_read: bool,
    /// When it is read, if it needs to be, or else compared.
    read_at: Instant,
    waiting: Vec<oneshot::Sender<Result<(), Error>>>,
    /// Whether a comparison, which reads a small map, had no answer in time, and the whole map was not read quickly
    /// since.
    is_late: bool,
    /// How many reads of a big map in a row were not done in time.
    late_reads: u32,
    /// Entries are not deleted before this.
    expire_after: Instant,
    /// How much later than its due time this copy deletes an entry.
    jitter: Duration,
    /// Whether the map has ended is not looked at before this.
    end_after: Instant,
    end_pause: Duration,
    /// Readers know of all that has ended until this time of the server's clock, in ms.
    told: u64,
}

impl Followed {
    /// A map that is to be read at once.
    pub(crate) fn new(layout: Layout, now: Instant, broken: Breakages) -> Self {
        Self {
            layout,
            copy: Arc::new(Copy::new(broken)),
            changed: watch::Sender::default(),
            needs_read: true,
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

    /// Has it read soon.
    pub(crate) fn need(&mut self) {
        if !self.needs_read {
            self.needs_read = true;
            self.read_at = Instant::now();
        }
    }

    /// Has it read for a reason that all copies have: those of a big map take turns.
    pub(crate) fn need_with_all(&mut self) {
        if !self.needs_read {
            self.need();
            let entries = self.copy.len() as u64;
            if entries > SMALL {
                self.read_at += at_random(times(SPREAD_PER_ENTRY, entries).min(LONGEST_SPREAD));
            }
        }
    }

    /// Has it read at once, for somebody who waits.
    pub(crate) fn answer_soon(&mut self, done: oneshot::Sender<Result<(), Error>>) {
        self.needs_read = true;
        self.read_at = Instant::now();
        self.waiting.push(done);
    }

    pub(crate) fn answer(&mut self, result: &Result<(), Error>) {
        for waiting in self.waiting.drain(..) {
            // Who does not wait any more needs no answer.
            let _ = waiting.send(result.clone());
        }
    }

    /// Whether it was too big to be read in time, which says nothing of other maps.
    pub(crate) fn is_slow(&self) -> bool {
        self.late_reads > 0
    }

    /// When it is read or compared.
    pub(crate) fn read_at(&self) -> Instant {
        self.read_at
    }

    /// When this copy deletes the next entry that is due.
    pub(crate) fn expire_at(&self) -> Option<Instant> {
        self.layout.deadlines.as_ref()?;
        let due = Instant::from_std(self.copy.ends().0?) + self.jitter;
        Some(due.max(self.expire_after))
    }

    /// Has nothing deleted for a while and this much longer.
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

    /// Has it read when it should have ended.
    pub(crate) fn look_at_the_end(&mut self, now: Instant) {
        if self.end_at().is_some_and(|end| end <= now) {
            self.need();
            self.end_after = now + self.end_pause;
            self.end_pause = (self.end_pause * 2).min(CHECK_EVERY);
        }
    }

    /// When the readers are to hear that something has ended.
    pub(crate) fn tell_at(&self) -> Option<Instant> {
        self.copy.next_end(self.told).map(|(_, at)| Instant::from_std(at))
    }

    /// Tells the readers when an entry or the map has ended by the clock: nothing else does as long as Redis is away.
    pub(crate) fn tell_ends(&mut self) {
        let now = self.copy.time();
        if self.copy.next_end(self.told).is_some_and(|(end, _)| end <= now) {
            self.changed.send_replace(());
        }
        self.told = now;
    }

    /// Awaits an answer, and tells of what ends meanwhile.
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

    /// Compares the copy's place, and reads the map when it is at another: a big one over a connection of its own,
    /// and in the time that its size takes.
    pub(crate) async fn read(&mut self, client: &Client) -> Result<(), Error> {
        self.needs_read = true;
        // A small map may have big values.
        let most = if self.is_late { 0 } else { SMALL };
        let compared = self.ask(&client.commands(), Some(most)).await;
        self.is_late |= compared.as_ref().is_err_and(is_late);
        let (mut read, mut sent) = compared?;
        if let Found::Many(entries) = read.found {
            let own = client.dedicated();
            // Connects, in the time for a call.
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
        (self.needs_read, self.late_reads) = (false, 0);
        let is_compared = !self.copy.broken.has(Breakage::NoResync);
        self.read_at = Instant::now() + if is_compared { CHECK_EVERY } else { NEVER };
        Ok(())
    }

    /// One call of the script, and the local moment at which it was sent.
    async fn ask(&mut self, redis: &Connection, most: Option<u64>) -> Result<(Read, u64), Error> {
        let Layout { meta, hash, inc_field, rev_field, deadlines, .. } = &self.layout;
        let keys: Vec<_> = [meta, hash].into_iter().chain(deadlines).collect();
        let mut call = lua::READ.call(&keys);
        call.arg(inc_field).arg(rev_field);
        match most {
            Some(most) => call.arg(most),
            None => call.arg(""),
        };
        if let Some(place) = self.copy.place() {
            call.arg(place.incarnation).arg(place.revision).arg(place.stamp);
        }
        let sent = self.copy.local();
        let reply = self.while_telling(redis.call(&call)).await?;
        Ok((Read::decode(reply)?, sent))
    }

    /// Deletes what is due.
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

/// Up to so long.
fn at_random(longest: Duration) -> Duration {
    // The seeds of the standard hasher are drawn at random, which is all the randomness jitter needs.
    longest.mul_f64(RandomState::new().hash_one(0_u64) as f64 / u64::MAX as f64)
}
