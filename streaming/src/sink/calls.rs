//! What a consumer asks of Redis, one function each.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::future::join_all;
use tenure_connection::{Connection, Error as RedisError, Script};

use crate::start::milliseconds;
use crate::stream::IDS_PER_CALL;
use crate::{Entry, EntryId, Error, reply};

static ACK_AND_REMOVE: LazyLock<Script> =
    LazyLock::new(|| Script::new("streaming.ack_and_remove", include_str!("../lua/ack_and_remove.lua")));
static CLAIM: LazyLock<Script> =
    LazyLock::new(|| Script::new("streaming.claim", include_str!("../lua/claim.lua")));
static TAKE: LazyLock<Script> =
    LazyLock::new(|| Script::new("streaming.take", include_str!("../lua/take.lua")));
static HOLD: LazyLock<Script> =
    LazyLock::new(|| Script::new("streaming.hold", include_str!("../lua/hold.lua")));
static LEAVE: LazyLock<Script> =
    LazyLock::new(|| Script::new("streaming.leave", include_str!("../lua/leave.lua")));
static BURY: LazyLock<Script> =
    LazyLock::new(|| Script::new("streaming.bury", include_str!("../lua/bury.lua")));

/// Entries that one script moves: what it costs is felt by all who use the server.
const PAGE: usize = 256;

/// A consumer of a group, for commands that do not block. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Consumer {
    pub(super) redis: Connection,
    pub(super) group: Arc<str>,
    pub(super) name: Arc<str>,
}

/// From when on the pending time of entries is to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// From now on.
    Keep,
    /// From 1970 on: anybody may claim them at once.
    Release,
}

/// Whether the group, or its stream, is not there.
pub(super) fn is_group_lost(error: &Error) -> bool {
    // UNBLOCKED is said to a read that waited when the stream went.
    matches!(error.code(), Some("NOGROUP" | "UNBLOCKED"))
}

impl Consumer {
    /// Creates the group with its stream where they are missing.
    pub(super) async fn create(&self, stream: &str, after: &str) -> Result<(), Error> {
        let mut command = redis::cmd("XGROUP");
        command.arg("CREATE").arg(stream).arg(&*self.group).arg(after).arg("MKSTREAM");
        match self.redis.command(&command).await {
            Err(error) if error.code() != Some("BUSYGROUP") => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// A page of what is pending with this consumer behind `after`, and whether it was a full one.
    pub(super) async fn pending(&self, stream: &str, after: EntryId) -> Result<(Vec<EntryId>, bool), Error> {
        let mut command = redis::cmd("XPENDING");
        command.arg(stream).arg(&*self.group).arg(format!("({after}")).arg("+").arg(PAGE).arg(&*self.name);
        let page = reply::pending(self.redis.command(&command).await?)?;
        let full = page.len() >= PAGE;
        Ok((page, full))
    }

    /// Those of them that are still pending with this consumer, delivered again.
    pub(super) async fn take(&self, stream: &Arc<str>, ids: &[EntryId]) -> Result<Vec<Entry>, Error> {
        let mut call = TAKE.call(&[&**stream]);
        call.arg(&*self.group).arg(&*self.name).arg(words(ids));
        reply::taken(self.redis.call(&call).await?, stream)
    }

    /// What has been pending for at least `grace`, and where to go on.
    pub(super) async fn claim(
        &self,
        stream: &Arc<str>,
        grace: Duration,
        from: EntryId,
        count: u64,
    ) -> Result<(EntryId, Vec<Entry>), Error> {
        let mut call = CLAIM.call(&[&**stream]);
        call.arg(&*self.group).arg(&*self.name).arg(milliseconds(grace)).arg(from.to_string());
        // More would keep the server for long: each one is looked at.
        call.arg(count.clamp(1, PAGE as u64));
        reply::claimed(self.redis.call(&call).await?, stream)
    }

    /// Deletes consumers that have been idle for that long. With `inherit` their pending entries are moved to this
    /// one first; without, those that have any are left alone. Returns how many were deleted and how many entries
    /// moved.
    pub(super) async fn bury(
        &self,
        stream: &str,
        idle: Duration,
        inherit: bool,
    ) -> Result<(u64, u64), Error> {
        let mut call = BURY.call(&[stream]);
        call.arg(&*self.group).arg(&*self.name).arg(milliseconds(idle)).arg(if inherit { PAGE } else { 0 });
        reply::buried(self.redis.call(&call).await?)
    }

    /// Acknowledges entries and returns how many were pending.
    pub(super) async fn ack(&self, stream: &str, ids: &[EntryId], remove: bool) -> Result<u64, Error> {
        let one = async |ids: &[EntryId]| {
            let reply = if remove {
                let mut call = ACK_AND_REMOVE.call(&[stream]);
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
        let mut held = Vec::with_capacity(ids.len());
        for ids in ids.chunks(PAGE) {
            let mut call = HOLD.call(&[stream]);
            call.arg(&*self.group).arg(&*self.name);
            call.arg(match hold {
                Hold::Keep => "keep",
                Hold::Release => "release",
            });
            call.arg(words(ids));
            held.extend(reply::ids(self.redis.call(&call).await?)?);
        }
        Ok(held)
    }

    /// Releases all that is pending with this consumer, and deletes it when nothing is.
    pub(super) async fn leave(&self, stream: &str) -> Result<(), Error> {
        let mut after = EntryId::MIN;
        loop {
            let mut call = LEAVE.call(&[stream]);
            call.arg(&*self.group).arg(&*self.name).arg(after.to_string()).arg(PAGE);
            let last = match self.redis.call(&call).await {
                Ok(reply) => reply::optional_id(&reply)?,
                Err(RedisError::Server { code, .. }) if &*code == "NOGROUP" => None,
                Err(error) => return Err(error.into()),
            };
            match last {
                Some(last) => after = last,
                None => return Ok(()),
            }
        }
    }
}

fn words(ids: &[EntryId]) -> Vec<String> {
    ids.iter().map(EntryId::to_string).collect()
}
