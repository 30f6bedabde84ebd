//! What there is in all shards of a pool.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use futures::future::try_join_all;
use futures::stream::{self, Stream, StreamExt};

use super::ShardedPool;
use crate::error::Error;
use crate::id::{IdError, JobKey, WorkerId};
use crate::listing::{Cursor, JobInfo, Page, WorkerInfo};
use crate::node::Node;
use crate::notification::WaitingNotification;
use crate::parked::ParkedJob;

/// A worker of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardWorkerInfo {
    /// The shard, from 0.
    pub shard: usize,
    /// The worker; its id is unique within its shard.
    pub worker: WorkerInfo,
}

/// Where a listing of all shards goes on, as one [`Page`] says for the next: the shard, and where in its own listing. Plain
/// text outside of the process: `shard:cursor`, or `shard:` at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardCursor {
    shard: usize,
    at: Option<Cursor>,
}

impl fmt::Display for ShardCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.shard)?;
        self.at.map_or(Ok(()), |at| at.fmt(f))
    }
}

impl FromStr for ShardCursor {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let bad = || IdError::Number { what: "cursor" };
        let (shard, at) = text.split_once(':').ok_or_else(bad)?;
        let at = if at.is_empty() { None } else { Some(at.parse().map_err(|_| bad())?) };
        Ok(Self { shard: shard.parse().map_err(|_| bad())?, at })
    }
}

impl ShardedPool {
    /// The workers of all shards, as this node knows them, shard by shard. No round trip.
    pub fn workers(&self) -> Vec<ShardWorkerInfo> {
        let nodes = self.nodes.iter().enumerate();
        let of_one = |(shard, node): (usize, &Node)| {
            node.workers().into_iter().map(move |worker| ShardWorkerInfo { shard, worker })
        };
        nodes.flat_map(of_one).collect()
    }

    /// As [`Node::jobs`]: all jobs of all shards, ordered by key.
    ///
    /// # Errors
    /// The store does not answer for a shard.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn jobs(&self) -> Result<Vec<JobInfo>, Error> {
        let mut jobs = try_join_all(self.nodes.iter().map(Node::jobs)).await?.concat();
        jobs.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(jobs)
    }

    /// As [`Node::jobs_page`], shard after shard: no page has jobs of two.
    ///
    /// # Errors
    /// The store does not answer; the cursor names a shard that is none.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn jobs_page(
        &self,
        cursor: Option<ShardCursor>,
        limit: usize,
    ) -> Result<Page<JobInfo, ShardCursor>, Error> {
        let (node, at) = self.at(cursor)?;
        let page = node.jobs_page(at.at, limit).await?;
        Ok(self.page(at.shard, page))
    }

    /// As [`Node::job_stream`], shard after shard. It ends after the first error.
    pub fn job_stream(&self) -> impl Stream<Item = Result<JobInfo, Error>> + Send + use<> {
        let nodes = (0..self.nodes.len()).map({
            let nodes = self.nodes.clone();
            move |shard| nodes[shard].clone()
        });
        let jobs = stream::iter(nodes).flat_map(|node| node.job_stream());
        jobs.scan(false, |failed, job| {
            let goes_on = !*failed;
            *failed |= job.is_err();
            async move { goes_on.then_some(job) }
        })
    }

    /// As [`Node::jobs_of`], of a worker of this shard.
    ///
    /// # Errors
    /// The store does not answer; there is no such shard.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn jobs_of(
        &self,
        shard: usize,
        worker: WorkerId,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<Vec<JobInfo>, Error> {
        self.nodes.get(shard).ok_or(NO_SHARD)?.jobs_of(worker, after, limit).await
    }

    /// As [`Node::job`].
    ///
    /// # Errors
    /// As `Node::job`.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn job<K>(&self, key: K) -> Result<Option<JobInfo>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        self.node_of(&key).job(&key).await
    }

    /// As [`Node::payload`].
    ///
    /// # Errors
    /// As `Node::payload`.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn payload<K>(&self, key: K) -> Result<Option<Bytes>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        self.node_of(&key).payload(&key).await
    }

    /// As [`Node::parked`], of all shards; the longest parked first, as far as the shards' clocks agree.
    ///
    /// # Errors
    /// The store does not answer for a shard.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn parked(&self) -> Result<Vec<ParkedJob>, Error> {
        let mut jobs = try_join_all(self.nodes.iter().map(Node::parked)).await?.concat();
        jobs.sort_by_key(|job| job.since);
        Ok(jobs)
    }

    /// As [`Node::parked_page`], shard after shard: no page has jobs of two.
    ///
    /// # Errors
    /// The store does not answer; the cursor names a shard that is none.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn parked_page(
        &self,
        cursor: Option<ShardCursor>,
        limit: usize,
    ) -> Result<Page<ParkedJob, ShardCursor>, Error> {
        let (node, at) = self.at(cursor)?;
        let page = node.parked_page(at.at, limit).await?;
        Ok(self.page(at.shard, page))
    }

    /// As [`Node::notifications`].
    ///
    /// # Errors
    /// As `Node::notifications`.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn notifications<K>(&self, key: K) -> Result<Vec<WaitingNotification>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        self.node_of(&key).notifications(&key).await
    }

    /// As [`Node::drop_notifications`].
    ///
    /// # Errors
    /// As `Node::drop_notifications`.
    ///
    /// # Cancel safety
    /// As `Node::drop_notifications`.
    pub async fn drop_notifications<K>(&self, key: K, through: &WaitingNotification) -> Result<u64, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        self.node_of(&key).drop_notifications(&key, through).await
    }

    /// The shard whose listing goes on.
    fn at(&self, cursor: Option<ShardCursor>) -> Result<(&Node, ShardCursor), Error> {
        let at = cursor.unwrap_or(ShardCursor { shard: 0, at: None });
        Ok((self.nodes.get(at.shard).ok_or(NO_SHARD)?, at))
    }

    /// A page of one shard as one of all.
    fn page<T>(&self, shard: usize, page: Page<T>) -> Page<T, ShardCursor> {
        let next = match page.next {
            Some(at) => Some(ShardCursor { shard, at: Some(at) }),
            None => Some(ShardCursor { shard: shard + 1, at: None }).filter(|at| at.shard < self.nodes.len()),
        };
        Page { items: page.items, next }
    }
}

/// A shard that is asked for and is none.
const NO_SHARD: Error = Error::Name(IdError::Number { what: "shard" });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_plain_text() {
        for (text, shard, at) in [("0:", 0, None), ("3:17", 3, Some(Cursor(17)))] {
            let cursor = ShardCursor { shard, at };
            assert_eq!(cursor.to_string(), text);
            assert_eq!(text.parse(), Ok(cursor));
        }
        for text in ["", "3", ":17", "3:x", "x:1"] {
            assert!(text.parse::<ShardCursor>().is_err(), "{text}");
        }
    }
}
