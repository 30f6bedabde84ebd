//! An inspector: it looks at a set of queues and is no part of it.

use std::fmt;
use std::sync::Arc;

use tenure_connection::Client;

use crate::error::Error;
use crate::model::id::{QueueName, SetName};
use crate::store::{Figures, ListQueues, MOST, OnRedis, ReadFigures, RedisStore, Result, StoreError};

/// How often a look begins anew, when the data or the server change under it.
const TRIES: usize = 3;

/// Looks at a set of queues without joining it, for tools and pages of operators. It never writes: it makes no set of a
/// mistyped name. It has no thread, and connects on first use. Cheap to clone.
#[derive(Clone)]
pub struct Inspector {
    set: SetName,
    store: Arc<RedisStore>,
}

impl Inspector {
    /// An inspector of the set of this name. Sends nothing.
    ///
    /// # Errors
    /// [`Error::Name`].
    pub fn open(set: &str, client: &Client) -> std::result::Result<Self, Error> {
        let set = SetName::new(set)?;
        let store = Arc::new(RedisStore::open(&client.with_name("inspector"), &set));
        Ok(Self { set, store })
    }

    /// The name of the set.
    pub fn set(&self) -> &SetName {
        &self.set
    }

    /// All queues that were ever declared, by name, with how many jobs each has.
    ///
    /// # Errors
    /// [`Error::Store`]: with [`StoreError::NoSet`] if there is no such set.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn queues(&self) -> std::result::Result<Vec<(QueueName, Figures)>, Error> {
        for _ in 1..TRIES {
            match self.look().await {
                // A recovery, or another server: the next look finds it.
                Err(StoreError::Stale(_) | StoreError::OtherServer { .. }) => {}
                looked => return Ok(looked?),
            }
        }
        Ok(self.look().await?)
    }

    async fn look(&self) -> Result<Vec<(QueueName, Figures)>> {
        let incarnation = self.store.find().await?;
        let names = ListQueues().send(&self.store, incarnation).await?;
        let mut queues = Vec::with_capacity(names.len());
        for names in names.chunks(MOST) {
            let figures = ReadFigures(names.to_vec()).send(&self.store, incarnation).await?;
            queues.extend(names.iter().cloned().zip(figures));
        }
        Ok(queues)
    }
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector").field("set", &self.set).finish_non_exhaustive()
    }
}
