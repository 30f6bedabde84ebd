//! Jobs as they are, and as they change.

use std::fmt;
use std::sync::Arc;

use super::add::lookup;
use super::jobs::Jobs;
use super::view::{Ended, JobView};
use super::watch::Watch;
use crate::error::Error;
use crate::model::id::JobId;
use crate::runtime::attesting::Behind;
use crate::runtime::handle::Handle;
use crate::store::{Ends, ListJobs, Listing, MOST, PeekJobs, Peeked, StoreError};

impl Jobs {
    /// A job as it is, with the ends of all its children; `None` when it is not there. A parent with many children, or with long
    /// results of theirs, is read by several calls: its state is that of the first.
    ///
    /// # Errors
    /// [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn get(&self, id: &JobId) -> Result<Option<JobView>, Error> {
        Ok(self.get_many(std::slice::from_ref(id)).await?.pop().flatten())
    }

    /// Jobs as they are, in the order of their ids; `None` for those that are not there. Many jobs, or such with much data,
    /// come by several calls, and are then as they were at several moments.
    ///
    /// # Errors
    /// [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn get_many(&self, ids: &[JobId]) -> Result<Vec<Option<JobView>>, Error> {
        let (mut views, mut most) = (Vec::with_capacity(ids.len()), MOST);
        while views.len() < ids.len() {
            let rest = &ids[views.len()..];
            let found = self.peek(None, &Ends::With, &rest[..most.min(rest.len())]).await?;
            if found.is_empty() {
                return Err(StoreError::damaged("peek answered for no job").into());
            }
            // Of jobs with much data, an answer has only some.
            most = (2 * found.len()).min(MOST);
            for (id, peeked) in rest.iter().zip(found) {
                let whole = match peeked {
                    Some(peeked) => self.whole(None, id, peeked).await?,
                    None => None,
                };
                views.push(whole.map(|peeked| JobView::new(id.clone(), peeked)));
            }
        }
        Ok(views)
    }

    /// Jobs as they are, as many as one answer has. An execution that reads is made known to the data before.
    async fn peek(
        &self,
        reader: Option<&Arc<Handle>>,
        ends: &Ends,
        ids: &[JobId],
    ) -> Result<Vec<Option<Peeked>>, Error> {
        self.call(&Behind::running(reader.cloned(), PeekJobs(ends.clone(), ids.to_vec()))).await
    }

    /// A job with the ends of all its children, which may come by several answers. One that begins another life meanwhile
    /// is read anew.
    async fn whole(
        &self,
        reader: Option<&Arc<Handle>>,
        id: &JobId,
        mut peeked: Peeked,
    ) -> Result<Option<Peeked>, Error> {
        let of = std::slice::from_ref(id);
        while let Some(behind) = peeked.more.clone() {
            let page = self.peek(reader, &Ends::Behind(behind), of).await?.pop().flatten();
            if !peeked.goes_on(page) {
                let Some(anew) = self.peek(reader, &Ends::With, of).await?.pop().flatten() else {
                    return Ok(None);
                };
                peeked = anew;
            }
        }
        Ok(Some(peeked))
    }

    /// The job of an execution as it is; `None` when it is gone.
    pub(super) async fn own(&self, reader: &Arc<Handle>) -> Result<Option<JobView>, Error> {
        let (id, by) = (&reader.id, Some(reader));
        let found = self.peek(by, &Ends::With, std::slice::from_ref(id)).await?.pop().flatten();
        let Some(found) = found else { return Ok(None) };
        Ok(self.whole(by, id, found).await?.map(|peeked| JobView::new(id.clone(), peeked)))
    }

    /// The jobs with this value of an attribute, by id.
    ///
    /// # Errors
    /// [`Error::Name`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn find(&self, attribute: &str, value: impl fmt::Display + Send) -> Result<Vec<JobId>, Error> {
        self.list(Listing::With(lookup(attribute, &value.to_string())?)).await
    }

    pub(crate) async fn list(&self, listing: Listing) -> Result<Vec<JobId>, Error> {
        let (mut ids, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = self.call(&ListJobs { of: listing.clone(), after, size: 1_000 }).await?;
            ids.extend(page.ids);
            after = page.next;
            if after.is_none() {
                return Ok(ids);
            }
        }
    }

    /// Follows a job: its present state, then each transition.
    ///
    /// # Errors
    /// [`Error::NotFound`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: a dropped call watches nothing.
    pub async fn watch(&self, id: &JobId) -> Result<Watch, Error> {
        Watch::begin(self.clone(), id.clone()).await
    }

    /// Waits for the end of a job, for as long as it takes. A job that nobody keeps is still told while it is waited for.
    ///
    /// # Errors
    /// [`Error::NotFound`] when it is not there, also when it was removed meanwhile; [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: another call goes on, if the job is still there.
    pub async fn wait(&self, id: &JobId) -> Result<Ended, Error> {
        self.watch(id).await?.ended().await
    }
}
