//! A client's servers and settings, shared by its roles.

use std::sync::Arc;

use tokio::time::Instant;

use crate::Error;
use crate::address::Address;
use crate::directory::Directory;
use crate::link::{Access, Connector, Target};
use crate::topology::Redirect;

/// The servers.
#[derive(Clone)]
pub(crate) enum Place {
    One(Target),
    Cluster(Arc<Directory>),
}

/// The servers, and the way to talk to them.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) place: Place,
    pub(crate) access: Access,
}

impl Origin {
    pub(crate) fn connector(&self, target: Target) -> Connector {
        Connector { target, access: self.access.clone() }
    }

    /// The server for a slot; `None` in a cluster of which nothing is known yet.
    pub(crate) fn known(&self, slot: Option<u16>) -> Option<Target> {
        match &self.place {
            Place::One(target) => Some(target.clone()),
            Place::Cluster(directory) => {
                let topology = directory.topology();
                topology.owner(slot).or_else(|| topology.any(0)).cloned().map(Target::Server)
            }
        }
    }

    /// The server for a slot. If nothing is known of the cluster yet, the nodes are asked.
    pub(crate) async fn target(&self, slot: Option<u16>) -> Result<Target, Error> {
        if let (None, Place::Cluster(directory)) = (self.known(slot), &self.place) {
            directory.ask(Instant::now()).await?;
        }
        self.known(slot).ok_or_else(Error::connect_timed_out)
    }

    /// The redirect that a cluster node's error means, if any.
    pub(crate) fn redirect(&self, target: &Target, error: &Error) -> Option<Redirect> {
        match (&self.place, target) {
            (Place::Cluster(directory), Target::Server(node)) => {
                let redirect = Redirect::read(error, node);
                if let Some(Redirect::Moved { slot, owner }) = &redirect {
                    directory.moved(*slot, owner.clone());
                }
                redirect
            }
            _ => None,
        }
    }

    /// Learns who owns the slots, after a failure at `since`. If this fails, the next call reports it.
    pub(crate) async fn learn(&self, since: Instant) {
        if let Place::Cluster(directory) = &self.place
            && let Err(error) = directory.ask(since).await
        {
            let error = &error as &dyn std::error::Error;
            tracing::debug!(error, "cannot learn the owners of the slots");
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.place, Place::Cluster(_))
    }

    /// The servers' addresses, for people.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        match &self.place {
            Place::One(Target::Server(address)) => vec![address.clone()],
            Place::One(Target::MasterOf(sentinels)) => sentinels.addresses().to_vec(),
            Place::Cluster(directory) => directory.seeds().to_vec(),
        }
    }
}
