//! What a node can do about jobs that failed too often.

use super::Node;
use super::calls::PATIENCE;
use crate::core::input::Command;
use crate::error::Error;
use crate::id::{IdError, JobKey};
use crate::listing::{Cursor, Page};
use crate::parked::{self, ParkedJob};
use crate::runtime::clock;

impl Node {
    /// All jobs of the pool that failed too often and are parked, with their last error; the longest parked first. It is
    /// read in pages, but returned whole: see [`parked_page`](Self::parked_page). Jobs whose record cannot be read are
    /// left out.
    ///
    /// # Errors
    /// The store does not answer.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn parked(&self) -> Result<Vec<ParkedJob>, Error> {
        parked::all(&*self.shared.store.0).await
    }

    /// A page of the pool's parked jobs, in no order: about `limit` of them (1 to 4,096), after the page that named
    /// `cursor`. Every job that is parked all the while is in some page; one may be in two of them when the pool changes.
    ///
    /// # Errors
    /// The store does not answer.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn parked_page(&self, cursor: Option<Cursor>, limit: usize) -> Result<Page<ParkedJob>, Error> {
        parked::page(&*self.shared.store.0, cursor, limit).await
    }

    /// Has a parked job tried again, with its payload, its notifications and its dispatch, as if it had never failed:
    /// its attempts start anew. Returns when that is recorded; a worker begins it as soon as there is one. Also while
    /// the pool closes, but not when it is past that.
    ///
    /// # Errors
    /// No such job; it is not parked; the pool is shutting down; no answer within 20 s. Nothing was changed then, but
    /// for the last, which leaves open whether the job is tried again.
    ///
    /// # Cancel safety
    /// A dropped call leaves open whether the job is tried again.
    pub async fn unpark<K>(&self, key: K) -> Result<(), Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        let deadline = clock::now() + PATIENCE;
        let result =
            self.request(PATIENCE, |reply| Command::Unpark { reply, key: key.clone(), deadline }).await;
        self.named(&key, None, result).await
    }
}
