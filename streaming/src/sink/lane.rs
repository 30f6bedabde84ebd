//! A sequence of steps, as planned, for the streams of one slot.

use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;
use tenure_connection::{Backoff, Blocking};
use tokio::time::sleep;

use super::Settings;
use super::calls::{Entrance, SILENCE, is_group_lost};
use super::handle::Shared;
use super::plan::{Plan, Step};
use crate::lanes::rest;
use crate::start::milliseconds;
use crate::{Entry, EntryId, Error, filter, reply};

pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(50);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A round's entries, and the time of its request: they were delivered later.
pub(super) type Brought = (Vec<Entry>, Duration);

pub(super) struct Lane {
    blocking: Blocking,
    shared: Arc<Shared>,
    settings: Settings,
    plan: Plan,
    failures: Backoff,
    /// Whether a group was lost since the last creation.
    lost: bool,
    lost_groups: Backoff,
}

impl Lane {
    pub(super) fn new(blocking: Blocking, shared: &Arc<Shared>, settings: &Settings) -> Self {
        let backoff = || Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        Self {
            blocking,
            shared: shared.clone(),
            settings: settings.clone(),
            plan: Plan::new(settings.pace),
            failures: backoff(),
            lost: false,
            lost_groups: backoff(),
        }
    }

    /// Does steps up to a read, or up to one that brings entries. After a failure it first waits a little, so that a
    /// caller may simply loop.
    pub(super) async fn round(
        mut self,
        slot: u16,
        count: u64,
        block: Duration,
    ) -> (Self, Result<Brought, Error>) {
        rest(&self.failures).await;
        let result = self.steps(slot, count, block).await;
        match &result {
            Ok(_) => self.failures.reset(),
            Err(_) => self.failures.fail(),
        }
        (self, result)
    }

    async fn steps(&mut self, slot: u16, count: u64, block: Duration) -> Result<Brought, Error> {
        self.plan.arrange(&self.shared.streams_in(slot), self.shared.now());
        loop {
            let now = self.shared.now();
            if self.shared.is_closed() {
                return Ok((Vec::new(), now));
            }
            let step = self.plan.next(now);
            let last = matches!(step, Step::Read { .. });
            let mut entries = match self.step(step, count, block).await {
                Err(error) if is_group_lost(&error) => Vec::new(),
                result => result?,
            };
            self.drop_unwanted(&mut entries).await;
            if last || !entries.is_empty() {
                return Ok((entries, now));
            }
        }
    }

    async fn step(&mut self, step: Step, count: u64, block: Duration) -> Result<Vec<Entry>, Error> {
        let shared = self.shared.clone();
        let consumer = &shared.consumer;
        match step {
            Step::Create { stream } => {
                // Once for all streams when it is unknown which one's group was lost.
                if std::mem::take(&mut self.lost) {
                    rest(&self.lost_groups).await;
                    self.lost_groups.fail();
                }
                if consumer.agree(&stream, self.settings.recreate_at, SILENCE, Entrance::Use).await? {
                    tracing::warn!(stream = &*stream, group = &*consumer.group, "created a lost group anew");
                }
                self.plan.created(&stream);
                Ok(Vec::new())
            }
            Step::Recover { stream, after } => {
                let (mut ids, full) = self.seen(Some(&stream), consumer.pending(&stream, after).await)?;
                let last = ids.last().copied().filter(|_| full);
                {
                    let held = shared.held();
                    ids.retain(|id| !held.contains(&stream, *id));
                }
                let mut entries = Vec::new();
                if !ids.is_empty() {
                    entries = self.seen(Some(&stream), consumer.take(&stream, &ids).await)?;
                }
                self.plan.recovered(&stream, last);
                self.hold(&entries);
                Ok(entries)
            }
            Step::Claim { stream, from } => {
                let claimed = consumer.claim(&stream, self.settings.grace, from, count).await;
                let (next, entries) = self.seen(Some(&stream), claimed)?;
                let now = shared.now();
                self.plan.claimed(&stream, next, !entries.is_empty(), now);
                shared.held().forget_before(now.saturating_sub(self.settings.grace));
                self.hold(&entries);
                Ok(entries)
            }
            Step::Bury { stream } => {
                let buried = consumer.bury(&stream, self.settings.dead_after).await;
                let deleted = self.seen(Some(&stream), buried)?;
                if deleted > 0 {
                    tracing::info!(stream = &*stream, deleted, "deleted dead consumers");
                }
                self.plan.buried(&stream, shared.now());
                Ok(Vec::new())
            }
            Step::Read { wait } => {
                let wait = wait.min(block);
                if self.plan.streams().len() == 0 {
                    sleep(wait).await;
                    return Ok(Vec::new());
                }
                let reply = self.blocking.command(&self.read(count, wait), wait).await.map_err(Error::from);
                let read = reply.and_then(|reply| reply::streams(reply, |name| self.plan.find(name)));
                let read = self.seen(None, read)?;
                self.lost_groups.reset();
                self.plan.has_read();
                let entries: Vec<_> = read.into_iter().flat_map(|(_, entries)| entries).collect();
                self.hold(&entries);
                Ok(entries)
            }
        }
    }

    fn read(&self, count: u64, wait: Duration) -> Cmd {
        let consumer = &self.shared.consumer;
        let mut command = redis::cmd("XREADGROUP");
        command.arg("GROUP").arg(&*consumer.group).arg(&*consumer.name).arg("COUNT").arg(count);
        if !wait.is_zero() {
            // Zero would mean for ever.
            command.arg("BLOCK").arg(milliseconds(wait));
        }
        if self.shared.no_ack {
            command.arg("NOACK");
        }
        command.arg("STREAMS");
        for stream in self.plan.streams() {
            command.arg(&**stream);
        }
        for _ in self.plan.streams() {
            command.arg(">");
        }
        command
    }

    /// Tells the plan of a failure, and passes the result on.
    fn seen<T>(&mut self, stream: Option<&str>, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result {
            if is_group_lost(error) {
                self.plan.group_lost(stream);
                self.lost = true;
            } else if error.may_have_executed() && !self.shared.no_ack {
                self.plan.reply_lost(self.shared.now());
            }
        }
        result
    }

    fn hold(&self, entries: &[Entry]) {
        if self.shared.no_ack {
            return;
        }
        let (mut held, now) = (self.shared.held(), self.shared.now());
        for chunk in entries.chunk_by(|a, b| Arc::ptr_eq(&a.stream, &b.stream)) {
            held.add(&chunk[0].stream, chunk.iter().map(|entry| entry.id), now);
        }
    }

    /// Acknowledges entries that no filter wants. If that fails, they come again.
    async fn drop_unwanted(&self, entries: &mut Vec<Entry>) {
        let filters = &self.settings.filters;
        if filters.is_empty() {
            return;
        }
        let unwanted = |entry: &mut Entry| !filter::wanted(filters, entry.topic());
        let dropped: Vec<_> = entries.extract_if(.., unwanted).collect();
        if self.shared.no_ack {
            return;
        }
        for chunk in dropped.chunk_by(|a, b| Arc::ptr_eq(&a.stream, &b.stream)) {
            let (stream, ids) =
                (&chunk[0].stream, chunk.iter().map(|entry| entry.id).collect::<Vec<EntryId>>());
            if let Err(error) = self.shared.consumer.ack(stream, &ids, false).await {
                let error = &error as &dyn std::error::Error;
                tracing::debug!(stream = &**stream, error, "entries that no filter wants stay pending");
            }
            self.shared.held().remove(stream, ids);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::StreamExt as _;
    use tenure_connection::Client;
    use tenure_testing::{RedisServer, eventually};

    use crate::{EntryId, Filter, Sink, Stream};

    use super::*;

    const SOON: Duration = Duration::from_secs(30);
    const LONG: Duration = Duration::from_secs(600);

    async fn fill(client: &Client, entries: usize) -> Vec<EntryId> {
        let stream = Stream::new(client, "s").unwrap();
        let mut ids = Vec::new();
        for _ in 0..entries {
            ids.push(stream.add(&[("n", "1")]).await.unwrap());
        }
        ids
    }

    fn held(sink: &Sink, ids: &[EntryId]) -> usize {
        let held = sink.handle.shared.held();
        ids.iter().filter(|id| held.contains("s", **id)).count()
    }

    #[tokio::test]
    async fn entries_that_no_filter_wants_are_not_held() {
        let server = RedisServer::start().unwrap();
        let client = Client::open(&server.url()).unwrap();
        let ids = fill(&client, 300).await;
        let sink = Sink::builder(&client, "g").stream("s").filter(Filter::topic("a"));
        let mut sink = sink.ack_grace(LONG).block(Duration::from_millis(1)).open().await.unwrap();
        let read = async || {
            assert!(sink.next_batch(100).await.unwrap().is_empty());
            let info = redis::cmd("XINFO").arg(&["GROUPS", "s"]).take();
            format!("{:?}", client.commands().command(&info).await).contains(&ids[299].to_string())
        };
        eventually(SOON, "all to be read", read).await;
        assert_eq!(held(&sink, &ids), 0);
    }

    #[tokio::test]
    async fn entries_that_others_have_claimed_are_not_held() {
        let server = RedisServer::start().unwrap();
        let client = Client::open(&server.url()).unwrap();
        let ids = fill(&client, 9).await;
        let sink = || Sink::builder(&client, "g").stream("s").ack_grace(Duration::from_millis(100));
        let mut slow = sink().open().await.unwrap();
        // One entry is in its user's hands, and the others wait.
        let first = slow.next().await.unwrap().unwrap();
        assert_eq!((first.id, held(&slow, &ids)), (ids[0], 9));
        let mut other = sink().open().await.unwrap();
        let mut claimed = Vec::new();
        while claimed.len() < 9 {
            claimed.push(other.next().await.unwrap().unwrap());
        }
        other.ack(&claimed).await.unwrap();
        let later = fill(&client, 1).await;
        let entry = tokio::time::timeout(SOON, slow.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(entry.id, later[0]);
        slow.ack([&entry]).await.unwrap();
        eventually(SOON, "them to be forgotten", async || {
            let _ = tokio::time::timeout(Duration::from_millis(20), slow.next()).await;
            held(&slow, &ids) == 0
        })
        .await;
    }
}
