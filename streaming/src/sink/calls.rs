//! A consumer's calls to Redis, one function each.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tenure_connection::{Connection, Error as RedisError};

use super::terms::{self, Terms};
use crate::start::milliseconds;
use crate::stream::IDS_PER_CALL;
use crate::{Entry, EntryId, Error, Start, lua, reply};

/// The most entries that one script moves: all users of the server feel its cost.
const PAGE: usize = 256;
/// The most pending entries that one script looks at when none of them may be claimed, however few are wanted.
const LOOKED_AT: usize = 10 * PAGE;
/// The consumer that represents all who have left. It is deleted like any other that has nothing and is silent.
const LEFT: &str = "tenure:left";
/// A live consumer shows a sign of life more often than this.
pub(super) const SILENCE: Duration = Duration::from_secs(600);

/// A consumer of a group, for commands that do not block. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Consumer {
    pub(super) redis: Connection,
    pub(super) group: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) terms: Terms,
}

/// Whether the consumer gets into the group, or only asks whether it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entrance {
    /// Gets in.
    Use,
    /// Nothing is written.
    Look,
}

/// From when the pending time of entries counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// From now on.
    Keep,
    /// From 1970 on: any consumer may claim them at once.
    Release,
}

/// Whether the group, its stream or its settings are missing.
pub(super) fn is_group_lost(error: &Error) -> bool {
    // A waiting read gets UNBLOCKED when its stream goes.
    matches!(error.code(), Some("NOGROUP" | "UNBLOCKED" | "OTHERSETTINGS"))
}

impl Consumer {
    /// Gets into the group, and creates it and its stream if they are missing. Returns whether the group was missing.
    /// Consumers that have been silent for `silent` do not hold on to other settings.
    pub(super) async fn agree(
        &self,
        stream: &str,
        start: Start,
        silent: Duration,
        entrance: Entrance,
    ) -> Result<bool, Error> {
        let mut call = lua::AGREE.call(&[stream]);
        call.arg(&*self.group).arg(&*self.name);
        call.arg(start.cursor().map_or_else(|| "$".to_owned(), |cursor| cursor.to_string()));
        call.arg(self.terms.consumer()).arg(terms::PREFIX).arg(LEFT).arg(milliseconds(silent));
        call.arg(u8::from(entrance == Entrance::Use));
        match reply::agreed(self.redis.call(&call).await?)? {
            (was_missing, None) => Ok(was_missing),
            (_, Some(theirs)) => Err(self.terms.mismatch(stream, &self.group, &theirs)),
        }
    }

    /// A page of the entries pending with this consumer behind `after`, and whether the page was full.
    pub(super) async fn pending(&self, stream: &str, after: EntryId) -> Result<(Vec<EntryId>, bool), Error> {
        let mut command = redis::cmd("XPENDING");
        command.arg(stream).arg(&*self.group).arg(format!("({after}")).arg("+").arg(PAGE).arg(&*self.name);
        let page = reply::pending(self.redis.command(&command).await?)?;
        let full = page.len() >= PAGE;
        Ok((page, full))
    }

    /// Delivers again those of the entries that are still pending with this consumer.
    pub(super) async fn take(&self, stream: &Arc<str>, ids: &[EntryId]) -> Result<Vec<Entry>, Error> {
        let mut call = lua::TAKE.call(&[&**stream]);
        call.arg(&*self.group).arg(&*self.name).arg(words(ids));
        reply::taken(self.redis.call(&call).await?, stream)
    }

    /// Claims entries that have been pending for at least `grace`. Returns the id to continue at, and the entries.
    pub(super) async fn claim(
        &self,
        stream: &Arc<str>,
        grace: Duration,
        from: EntryId,
        count: u64,
    ) -> Result<(EntryId, Vec<Entry>), Error> {
        let mut call = lua::CLAIM.call(&[&**stream]);
        call.arg(&*self.group).arg(&*self.name).arg(milliseconds(grace)).arg(from.to_string());
        call.arg(count.clamp(1, PAGE as u64)).arg(LOOKED_AT).arg(self.terms.consumer());
        reply::claimed(self.redis.call(&call).await?, stream)
    }

    /// Deletes consumers that have been idle for this long and have nothing pending. Returns how many.
    pub(super) async fn bury(&self, stream: &str, idle: Duration) -> Result<u64, Error> {
        let mut call = lua::BURY.call(&[stream]);
        call.arg(&*self.group).arg(&*self.name).arg(milliseconds(idle)).arg(self.terms.consumer());
        reply::count(&self.redis.call(&call).await?)
    }

    /// Acknowledges entries, and returns how many were pending.
    pub(super) async fn ack(&self, stream: &str, ids: &[EntryId], remove: bool) -> Result<u64, Error> {
        let one = async |ids: &[EntryId]| {
            let reply = if remove {
                let mut call = lua::ACK_AND_REMOVE.call(&[stream]);
                call.arg(&*self.group).arg(words(ids));
                self.redis.call(&call).await
            } else {
                let mut command = redis::cmd("XACK");
                command.arg(stream).arg(&*self.group).arg(words(ids));
                self.redis.command(&command).await
            };
            reply::count(&reply?)
        };
        let counts = join_all(ids.chunks(IDS_PER_CALL).map(one)).await;
        counts.into_iter().sum()
    }

    /// Keeps or releases entries, and returns those that are pending with this consumer.
    pub(super) async fn hold(
        &self,
        stream: &str,
        ids: &[EntryId],
        hold: Hold,
    ) -> Result<Vec<EntryId>, Error> {
        let one = async |ids: &[EntryId]| {
            let mut call = lua::HOLD.call(&[stream]);
            call.arg(&*self.group).arg(&*self.name);
            call.arg(match hold {
                Hold::Keep => "keep",
                Hold::Release => "release",
            });
            call.arg(words(ids));
            reply::ids(self.redis.call(&call).await?)
        };
        let pages = join_all(ids.chunks(PAGE).map(one)).await;
        Ok(pages.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Releases all entries that are pending with this consumer, and deletes it.
    pub(super) async fn leave(&self, stream: &str) -> Result<(), Error> {
        loop {
            let mut call = lua::LEAVE.call(&[stream]);
            call.arg(&*self.group).arg(&*self.name).arg(LEFT).arg(PAGE);
            let more = match self.redis.call(&call).await {
                Ok(reply) => reply::count(&reply)? == 1,
                Err(RedisError::Server { code, .. }) if &*code == "NOGROUP" => false,
                Err(error) => return Err(error.into()),
            };
            if !more {
                return Ok(());
            }
        }
    }
}

fn words(ids: &[EntryId]) -> Vec<String> {
    ids.iter().map(EntryId::to_string).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tenure_connection::Client;
    use tenure_testing::{RedisServer, eventually};

    use super::*;
    use crate::{Filter, Stream};

    const LONG: Duration = Duration::from_secs(600);

    struct Lab {
        _server: RedisServer,
        client: Client,
        stream: Arc<str>,
    }

    impl Lab {
        fn new() -> Self {
            let server = RedisServer::start().unwrap();
            let client = Client::open(&server.url()).unwrap();
            Self { _server: server, client, stream: "s".into() }
        }

        fn consumer(&self, name: &str) -> Consumer {
            self.with(name, &[])
        }

        /// A consumer with these filters.
        fn with(&self, name: &str, filters: &[Filter]) -> Consumer {
            let terms = Terms::new(filters, false, LONG, Start::Oldest, Start::Oldest).unwrap();
            Consumer { redis: self.client.commands(), group: "g".into(), name: name.into(), terms }
        }

        /// A consumer with this many entries pending.
        async fn holder(&self, name: &str, entries: usize) -> (Consumer, Vec<EntryId>) {
            let consumer = self.consumer(name);
            consumer.agree(&self.stream, Start::Oldest, LONG, Entrance::Use).await.unwrap();
            let stream = Stream::new(&self.client, self.stream.clone()).unwrap();
            let mut ids = Vec::new();
            for _ in 0..entries {
                ids.push(stream.add(&[("n", "1")]).await.unwrap());
            }
            let mut read = redis::cmd("XREADGROUP");
            read.arg(&["GROUP", "g", name, "STREAMS", "s", ">"]);
            consumer.redis.command(&read).await.unwrap();
            (consumer, ids)
        }

        async fn held(&self, name: &str) -> usize {
            let mut held = redis::cmd("XPENDING");
            held.arg(&["s", "g", "-", "+", "10000", name]);
            reply::pending(self.client.commands().command(&held).await.unwrap()).unwrap().len()
        }

        /// The number of consumers besides the one that represents the settings.
        async fn consumers(&self) -> usize {
            let info = redis::cmd("XINFO").arg(&["CONSUMERS", "s", "g"]).take();
            match self.client.commands().command(&info).await.unwrap() {
                redis::Value::Array(consumers) => consumers.len() - 1,
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_consumer_is_never_deleted_with_something_pending() {
        let lab = Lab::new();
        let (dead, ids) = lab.holder("dead", 3).await;
        lab.holder("idle", 0).await;
        let heir = lab.consumer("heir");
        assert_eq!(heir.bury(&lab.stream, LONG).await.unwrap(), 0, "they live");
        assert_eq!(heir.bury(&lab.stream, Duration::ZERO).await.unwrap(), 1, "one holds something");
        assert_eq!((lab.held("dead").await, lab.consumers().await), (3, 2));
        dead.ack(&lab.stream, &ids[1..], false).await.unwrap();
        let (_, claimed) = heir.claim(&lab.stream, Duration::ZERO, EntryId::MIN, 10).await.unwrap();
        assert_eq!((claimed.len(), claimed[0].deliveries()), (1, 2));
        assert_eq!(heir.bury(&lab.stream, Duration::ZERO).await.unwrap(), 1, "others have it now");
        assert_eq!((lab.held("heir").await, lab.consumers().await), (1, 1), "never itself");
        assert_eq!(heir.bury(&lab.stream, Duration::ZERO).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn settings_hold_while_another_consumer_lives() {
        let lab = Lab::new();
        let (_, ids) = lab.holder("first", 1).await;
        let (other, same) = (lab.with("other", &[Filter::topic("a")]), lab.consumer("same"));
        let use_ = async |consumer: &Consumer, silent| {
            consumer.agree(&lab.stream, Start::Oldest, silent, Entrance::Use).await
        };
        let look = other.agree(&lab.stream, Start::Oldest, LONG, Entrance::Look).await.unwrap_err();
        for refused in [look, use_(&other, LONG).await.unwrap_err()] {
            let Error::SettingMismatch { stream, group, name, theirs, ours } = refused else { panic!() };
            assert_eq!((&*stream, &*group, &*name), ("s", "g", "filter"));
            assert_eq!((&*theirs, &*ours), ("none", "topic \"a\""));
        }
        assert_eq!((lab.consumers().await, lab.held("first").await), (1, 1), "nothing was written");
        let look = same.agree(&lab.stream, Start::Oldest, LONG, Entrance::Look).await;
        assert!(matches!((look, lab.consumers().await), (Ok(false), 1)), "it may, and has not");
        assert!(!use_(&same, LONG).await.unwrap());
        assert_eq!(lab.consumers().await, 2, "it is there before it reads");
        same.leave(&lab.stream).await.unwrap();
        // The settings are held neither by a consumer of its own name, nor by the one for those who have left, nor by a
        // silent one.
        assert!(!use_(&lab.with("first", &[Filter::topic("b")]), LONG).await.unwrap());
        lab.with("first", &[Filter::topic("b")]).leave(&lab.stream).await.unwrap();
        assert_eq!((lab.consumers().await, lab.held(LEFT).await), (1, ids.len()));
        assert!(!use_(&lab.consumer("last"), LONG).await.unwrap());
        assert!(use_(&other, LONG).await.is_err());
        assert!(!use_(&other, Duration::ZERO).await.unwrap());
        // The others notice when they look for pending entries and for dead consumers, and do nothing.
        let (consumers, last) = (lab.consumers().await, lab.consumer("last"));
        let error = last.bury(&lab.stream, Duration::ZERO).await.unwrap_err();
        assert!(is_group_lost(&error), "{error:?}");
        let error = last.claim(&lab.stream, Duration::ZERO, EntryId::MIN, 10).await.unwrap_err();
        assert!(is_group_lost(&error), "{error:?}");
        assert_eq!(lab.held(LEFT).await, ids.len());
        assert_eq!(lab.consumers().await, consumers);
        assert_eq!(other.bury(&lab.stream, Duration::ZERO).await.unwrap(), 1);
        assert!(use_(&lab.consumer("last"), LONG).await.is_err());
    }

    #[tokio::test]
    async fn a_group_without_settings_gets_those_of_its_first_sink() {
        let lab = Lab::new();
        let (a, b) = (lab.with("a", &[Filter::topic("a")]), lab.consumer("b"));
        let create = redis::cmd("XGROUP").arg(&["CREATE", "s", "g", "$", "MKSTREAM"]).take();
        a.redis.command(&create).await.unwrap();
        let old = redis::cmd("XGROUP").arg(&["CREATECONSUMER", "s", "g", "old"]).take();
        a.redis.command(&old).await.unwrap();
        let use_ = async |consumer: &Consumer| consumer.agree("s", Start::Oldest, LONG, Entrance::Use).await;
        assert!(!use_(&a).await.unwrap());
        assert!(matches!(use_(&b).await, Err(Error::SettingMismatch { .. })));
        a.redis.command(redis::cmd("XGROUP").arg(&["DESTROY", "s", "g"])).await.unwrap();
        assert!(use_(&b).await.unwrap(), "they go with their group");
        assert!(matches!(use_(&a).await, Err(Error::SettingMismatch { .. })));
        a.redis.command(redis::cmd("DEL").arg("s")).await.unwrap();
        assert!(use_(&a).await.unwrap());
        a.redis.command(redis::cmd("SET").arg("s").arg("v")).await.unwrap();
        assert_eq!(use_(&a).await.unwrap_err().code(), Some("WRONGTYPE"));
        let look = a.agree("s", Start::Oldest, LONG, Entrance::Look).await;
        assert_eq!(look.unwrap_err().code(), Some("WRONGTYPE"));
    }

    #[tokio::test]
    async fn a_consumer_that_looks_for_dead_ones_counts_as_alive() {
        let lab = Lab::new();
        let (quiet, ids) = lab.holder("quiet", 1).await;
        quiet.ack(&lab.stream, &ids, false).await.unwrap();
        let idle = async || {
            let info = redis::cmd("XINFO").arg(&["CONSUMERS", "s", "g"]).take();
            let info = lab.client.commands().command(&info).await.unwrap();
            let redis::Value::Array(consumers) = info else { panic!("{info:?}") };
            reply::count(reply::field(&consumers[0], "idle").unwrap()).unwrap()
        };
        eventually(LONG, "some time to pass", async || idle().await > 100).await;
        let before = idle().await;
        quiet.bury(&lab.stream, LONG).await.unwrap();
        assert!(idle().await < before, "although there was nothing to read");
        Stream::new(&lab.client, "s").unwrap().add(&[("n", "1")]).await.unwrap();
        quiet.bury(&lab.stream, LONG).await.unwrap();
        assert_eq!(lab.held("quiet").await, 0, "nothing new is delivered by it");
        lab.consumer("new").bury(&lab.stream, LONG).await.unwrap();
        assert_eq!(lab.consumers().await, 2);
    }

    #[tokio::test]
    async fn a_consumer_takes_keeps_and_releases_its_own_entries_only() {
        let lab = Lab::new();
        let (own, ids) = lab.holder("own", 3).await;
        let (other, others) = lab.holder("other", 1).await;
        let all = [&ids[..], &others].concat();
        other.ack(&lab.stream, &ids[..1], false).await.unwrap();
        Stream::new(&lab.client, "s").unwrap().remove(&ids[1..2]).await.unwrap();
        assert_eq!(own.pending(&lab.stream, EntryId::MIN).await.unwrap(), (ids[1..].to_vec(), false));
        for hold in [Hold::Keep, Hold::Release] {
            assert_eq!(own.hold(&lab.stream, &all, hold).await.unwrap(), ids[2..]);
        }
        let taken = own.take(&lab.stream, &all).await.unwrap();
        assert_eq!(
            taken.iter().map(|entry| (entry.id, entry.deliveries())).collect::<Vec<_>>(),
            [(ids[2], 2)]
        );
        assert_eq!(
            (lab.held("own").await, lab.held("other").await),
            (1, 1),
            "the removed entry is forgotten"
        );
    }

    #[tokio::test]
    async fn an_entry_taken_again_counts_its_own_deliveries() {
        let lab = Lab::new();
        let (own, ids) = lab.holder("own", 4).await;
        for _ in 0..3 {
            own.take(&lab.stream, &ids[3..]).await.unwrap();
        }
        own.ack(&lab.stream, &ids[..1], false).await.unwrap();
        Stream::new(&lab.client, "s").unwrap().remove(&ids[1..2]).await.unwrap();
        let taken = own.take(&lab.stream, &ids).await.unwrap();
        let taken: Vec<_> = taken.iter().map(|entry| (entry.id, entry.deliveries())).collect();
        assert_eq!(taken, [(ids[2], 2), (ids[3], 5)]);
    }

    #[tokio::test]
    async fn a_kept_entry_is_not_claimed_by_others() {
        let lab = Lab::new();
        let (own, ids) = lab.holder("own", 2).await;
        assert_eq!(own.hold(&lab.stream, &ids, Hold::Release).await.unwrap(), ids);
        assert_eq!(own.hold(&lab.stream, &ids[..1], Hold::Keep).await.unwrap(), ids[..1]);
        let (_, claimed) = lab.consumer("other").claim(&lab.stream, LONG, EntryId::MIN, 10).await.unwrap();
        assert_eq!(claimed.iter().map(|entry| entry.id).collect::<Vec<_>>(), ids[1..]);
    }

    #[tokio::test]
    async fn old_entries_are_claimed_behind_any_number_of_young_ones() {
        let lab = Lab::new();
        let (holder, ids) = lab.holder("holder", LOOKED_AT).await;
        let last = &ids[ids.len() - 1..];
        holder.hold(&lab.stream, last, Hold::Release).await.unwrap();
        let heir = lab.consumer("heir");
        let (_, claimed) = heir.claim(&lab.stream, LONG, EntryId::MIN, 1).await.unwrap();
        assert_eq!(claimed.iter().map(|entry| entry.id).collect::<Vec<_>>(), last);
        let (mut next, claimed) = heir.claim(&lab.stream, LONG, EntryId::MIN, 1).await.unwrap();
        assert!(claimed.is_empty(), "no more than wanted, and none twice");
        if next > EntryId::MIN {
            (next, _) = heir.claim(&lab.stream, LONG, next, 1).await.unwrap();
        }
        assert_eq!(next, EntryId::MIN, "the end");
    }

    #[tokio::test]
    async fn a_consumer_leaves_all_it_has_to_others() {
        let lab = Lab::new();
        let (leaving, ids) = lab.holder("leaving", PAGE * 2 + 3).await;
        leaving.leave(&lab.stream).await.unwrap();
        let heir = lab.consumer("heir");
        let mut from = EntryId::MIN;
        let mut claimed = Vec::new();
        for _ in 0..4 {
            let (next, entries) = heir.claim(&lab.stream, LONG, from, 1000).await.unwrap();
            claimed.extend(entries.into_iter().map(|entry| entry.id));
            from = next;
        }
        assert_eq!(claimed, ids);
        leaving.leave(&lab.stream).await.unwrap();
        assert_eq!(lab.consumers().await, 2, "the heir, and the one that represents all who have left");
        heir.redis.command(redis::cmd("XGROUP").arg(&["DESTROY", "s", "g"])).await.unwrap();
        leaving.leave(&lab.stream).await.unwrap();
        let error = heir.claim(&lab.stream, LONG, EntryId::MIN, 1).await.unwrap_err();
        assert!(is_group_lost(&error));
        assert!(is_group_lost(&heir.bury(&lab.stream, LONG).await.unwrap_err()));
        assert!(is_group_lost(&heir.take(&lab.stream, &ids[..1]).await.unwrap_err()));
        assert!(is_group_lost(&heir.pending(&lab.stream, EntryId::MIN).await.unwrap_err()));
    }
}
