//! Settings for joining a map.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tenure_connection::Client;

use crate::raw::RawMap;
use crate::{Error, Layout, View};

/// The life of a map as a whole. At its end all of it is gone at once, and the next write begins a new map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// Until this long after its last change. The end of an entry by its own deadline is a change.
    Sliding(Duration),
    /// Until this long after its first write.
    Absolute(Duration),
}

impl Expiry {
    /// The argument of the scripts.
    fn text(self) -> Arc<str> {
        match self {
            Self::Sliding(life) => millis(life).to_string().into(),
            Self::Absolute(life) => format!("@{}", millis(life)).into(),
        }
    }
}

/// A time to live in ms: at least 1 ms, at most 100 years.
pub(crate) fn millis(life: Duration) -> u64 {
    const LONGEST: u128 = 100 * 365 * 24 * 60 * 60 * 1000;
    u64::try_from(life.as_millis().clamp(1, LONGEST)).unwrap_or(1)
}

/// Settings for joining a [`RawMap`] or a [`Map`](crate::Map).
#[must_use]
pub struct Builder<M> {
    client: Client,
    name: String,
    expiry: Option<Expiry>,
    entry_ttl: Option<Duration>,
    map: PhantomData<fn() -> M>,
}

impl<M: From<RawMap>> Builder<M> {
    pub(crate) fn new(client: &Client, name: &str) -> Self {
        let (client, name) = (client.clone(), name.to_owned());
        Self { client, name, expiry: None, entry_ttl: None, map: PhantomData }
    }

    /// The life of a map that begins with a write of this handle. An existing map keeps the life that it began with.
    /// Without this setting a map lives until it is destroyed.
    pub fn expiry(mut self, expiry: Expiry) -> Self {
        self.expiry = Some(expiry);
        self
    }

    /// Sets the time to live of written entries; see [`RawMap::with_entry_ttl`].
    pub fn entry_ttl(mut self, ttl: Duration) -> Self {
        self.entry_ttl = Some(ttl);
        self
    }

    /// Joins the map and returns when it has been read once.
    ///
    /// # Errors
    /// [`Error::Name`] for an invalid name; [`Error::Redis`] when Redis cannot be reached in time or refuses;
    /// [`Error::Malformed`] when the map's keys hold something else.
    ///
    /// # Cancel safety
    /// Safe: nothing was written, and nothing is left behind.
    pub async fn join(self) -> Result<M, Error> {
        let layout = Layout::stand_alone(&self.name)?;
        let [view] = View::join(&self.client, [layout.clone()]).await?;
        let life = self.expiry.map_or_else(|| "".into(), Expiry::text);
        let entry_ttl = self.entry_ttl.map(millis);
        Ok(RawMap::new(view, self.client.commands(), layout.into(), life, entry_ttl).into())
    }
}

impl<M> fmt::Debug for Builder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("expiry", &self.expiry)
            .field("entry_ttl", &self.entry_ttl)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_are_bounded() {
        assert_eq!(millis(Duration::ZERO), 1);
        assert_eq!(millis(Duration::from_secs(2)), 2000);
        assert_eq!(millis(Duration::MAX), 3_153_600_000_000);
        assert_eq!(&*Expiry::Absolute(Duration::from_secs(1)).text(), "@1000");
        assert_eq!(&*Expiry::Sliding(Duration::from_secs(1)).text(), "1000");
    }
}
