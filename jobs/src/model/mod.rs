//! The words of the crate: names, ids, records and the settings of queues, with their text in the store.

pub(crate) mod backoff;
pub(crate) mod id;
pub(crate) mod queue;
pub(crate) mod record;
