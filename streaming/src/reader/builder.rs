//! Settings of a reader.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use tenure_connection::Client;

use super::shared::Shared;
use super::{Reader, Settings};
use crate::{Error, Filter, Start};

const COUNT: u64 = 64;
const MOST: u64 = 10_000;
pub(super) const BLOCK: Duration = Duration::from_secs(5);
const LONGEST_BLOCK: Duration = Duration::from_secs(3600);

/// Settings of a [`Reader`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ReaderBuilder {
    client: Client,
    streams: Vec<(Arc<str>, Start)>,
    filters: Vec<Filter>,
    count: u64,
    block: Duration,
}

impl ReaderBuilder {
    pub(super) fn new(client: &Client) -> Self {
        let client = client.clone();
        Self { client, streams: Vec::new(), filters: Vec::new(), count: COUNT, block: BLOCK }
    }

    /// Reads this stream from there. Call it once for each stream;
    /// [`ReaderHandle::add_stream`](crate::ReaderHandle::add_stream) adds more later.
    pub fn stream(mut self, name: impl Into<Arc<str>>, start: Start) -> Self {
        self.streams.push((name.into(), start));
        self
    }

    /// Hands out only entries that the filter wants; with several filters, entries that one of them wants. The cursor
    /// moves over the other entries too.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filters.push(filter);
        self
    }

    /// The most entries of each stream in one read. 64 by default, at least 1, at most 10,000.
    pub fn count(mut self, entries: u64) -> Self {
        self.count = entries.clamp(1, MOST);
        self
    }

    /// The longest wait of [`Reader::next_batch`] when there is nothing. 5 s by default, an hour at most; zero does not
    /// wait.
    pub fn block(mut self, block: Duration) -> Self {
        self.block = block.min(LONGEST_BLOCK);
        self
    }

    /// Opens the reader. Its start is settled when this returns: with [`Start::Newest`] it misses nothing that is added
    /// afterwards.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::Redis`], only for [`Start::Newest`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn open(self) -> Result<Reader, Error> {
        let Self { client, streams, filters, count, block } = self;
        let shared = Arc::new(Shared::new(&client));
        try_join_all(streams.iter().map(|(name, start)| shared.add_stream(name, *start))).await?;
        Ok(Reader::new(client, shared, Settings { filters: filters.into(), count, block }))
    }
}
