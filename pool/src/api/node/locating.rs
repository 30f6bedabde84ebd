//! Where the job of a key is: a guess by the ring, and the jobs that run on this node.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::{Node, Shard};
use crate::core::ring::Ring;
use crate::error::Error;
use crate::job::serving::Serving;
use crate::model::id::{IdError, JobKey, WorkerId};
use crate::model::member::Members;
use crate::model::settings::Settings;

/// The worker that probably owns a key, from [`Node::guess`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Guess {
    /// The worker.
    pub worker: WorkerId,
    /// The node that it lives on.
    pub node: String,
    /// The address that its node publishes ([`NodeBuilder::address`](crate::NodeBuilder::address)), or empty.
    pub address: String,
}

impl Node {
    /// The worker that the ring gives this key to. No round trip. `None` while no worker is up.
    ///
    /// It is the owner, but for a job that moves, that waits for its retry, or that failed to start there. The owner
    /// itself knows: let it look with [`serving`](Self::serving), and ask [`Inspector::owner`](crate::Inspector::owner) if it refuses.
    ///
    /// # Errors
    /// The key is not valid.
    pub fn guess<K>(&self, key: K) -> Result<Option<Guess>, IdError>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        Ok(self.of(&key).guess(&key))
    }

    /// The job of this key, if it runs on this node now, and its lease lasts. No round trip. A job counts from the
    /// success of its start to the moment in which it must end.
    ///
    /// ```no_run
    /// # fn example(node: &tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// match node.serving("acme")? {
    ///     Some(serving) => println!("the answer, with token {}", serving.token()),
    ///     None => println!("421 Misdirected Request"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The key is not valid, or the node was not built with [`serves`](crate::NodeBuilder::serves).
    pub fn serving<K>(&self, key: K) -> Result<Option<Serving>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        let served = self.of(&key).shared.served.as_ref().ok_or(Error::ServesNothing)?;
        Ok(served.get(&key))
    }
}

impl Shard {
    fn guess(&self, key: &JobKey) -> Option<Guess> {
        let settings = self.settings();
        // Before they are drawn, nothing has a place.
        settings.hash_keys?;
        self.shared.places.guess(settings, key)
    }
}

/// The ring as callers see it. It is made anew after a change of the members or the settings.
#[derive(Debug)]
pub(super) struct Places {
    members: watch::Receiver<Arc<Members>>,
    made: Mutex<Option<Arc<Made>>>,
}

#[derive(Debug)]
struct Made {
    members: Arc<Members>,
    settings: Arc<Settings>,
    ring: Ring,
}

impl Places {
    pub(super) fn new(members: watch::Receiver<Arc<Members>>) -> Self {
        Self { members, made: Mutex::default() }
    }

    /// Also while the pool is held: what runs, runs on.
    fn guess(&self, settings: Arc<Settings>, key: &JobKey) -> Option<Guess> {
        let members = self.members.borrow().clone();
        let made = self.made(members, settings);
        let worker = made.ring.home(key.as_bytes())?;
        let member = made.members.entries.get(&worker)?;
        Some(Guess { worker, node: member.node.to_string(), address: member.address.clone() })
    }

    fn made(&self, members: Arc<Members>, settings: Arc<Settings>) -> Arc<Made> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let fits =
            |last: &Arc<Made>| Arc::ptr_eq(&last.members, &members) && Arc::ptr_eq(&last.settings, &settings);
        if let Some(last) = made.as_ref().filter(|last| fits(last)) {
            return last.clone();
        }
        let ring = Ring::new(&members, &settings);
        made.insert(Arc::new(Made { members, settings, ring })).clone()
    }
}
