//! A replicated map with keys of its own.

use std::sync::Arc;

use bytes::Bytes;
use tenure_connection::{Call, Client, Connection, Script};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::wire::Written;
use crate::{Error, Layout, Snapshot, View, lua};

/// A named map that everybody who joins it sees, and may change. Keys and values are any bytes. Clones share the
/// local copy.
///
/// Each write is one atomic step in Redis, and is told to every copy. The map begins with its first write.
#[derive(Clone, Debug)]
pub struct Map {
    view: View,
    redis: Connection,
    layout: Arc<Layout>,
}

/// What a conditional write did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Exchange {
    /// The condition held: the value was written.
    Written,
    /// The condition did not hold: this value was found and kept; `None` when the key was absent.
    Kept(Option<Bytes>),
}

impl Map {
    /// Joins the map of this name and returns when it has been read once.
    ///
    /// # Errors
    /// [`Error::Name`] for a name that is none; [`Error::Redis`] when Redis cannot be reached in time.
    ///
    /// # Cancel safety
    /// Safe: nothing was written, and nothing is left behind.
    pub async fn join(client: &Client, name: &str) -> Result<Self, Error> {
        let layout = Layout::stand_alone(name)?;
        let [view] = View::join(client, [layout.clone()]).await?;
        Ok(Self { view, redis: client.commands(), layout: Arc::new(layout) })
    }

    /// The local copy.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// As [`View::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Bytes> {
        self.view.get(key)
    }

    /// As [`View::len`].
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// As [`View::is_empty`].
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// As [`View::snapshot`].
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.view.snapshot()
    }

    /// As [`View::watch`].
    pub fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.view.watch()
    }

    /// Sets a key and returns the value that it had. The local copy follows.
    ///
    /// # Errors
    /// [`Error::Key`], [`Error::Value`] before anything is sent; [`Error::Redis`], whose source tells whether the
    /// write may have been done.
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Bytes>, Error> {
        let call = self.entry_call(&lua::SET, key.as_ref(), value.as_ref())?;
        Ok(self.write(&call).await?.found)
    }

    /// As [`Map::set`], and returns when the local copy has it, or something newer.
    ///
    /// # Errors
    /// As [`Map::set`]. The write has been done when the copy could not be brought up to date: `Error::Redis` of
    /// the read, or [`Error::Closed`].
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn set_and_wait(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Bytes>, Error> {
        let call = self.entry_call(&lua::SET, key.as_ref(), value.as_ref())?;
        let written = self.write(&call).await?;
        let (incarnation, revision) =
            written.at.ok_or(Error::Malformed { what: "a write without a place" })?;
        let mut watch = self.view.watch();
        let seen = watch.wait_for(|copy| {
            copy.incarnation > Some(incarnation)
                || copy.incarnation == Some(incarnation) && copy.revision >= revision
        });
        match timeout(self.redis.response_timeout(), seen).await.map(|seen| seen.is_ok()) {
            Ok(true) => {}
            Ok(false) => return Err(Error::Closed),
            // The message was lost: what is read now is not older than the write.
            Err(_) => self.view.refresh().await?,
        }
        Ok(written.found)
    }

    /// Sets a key that is not there.
    ///
    /// # Errors
    /// As [`Map::set`].
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn set_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Exchange, Error> {
        let call = self.entry_call(&lua::SET_IF_ABSENT, key.as_ref(), value.as_ref())?;
        Ok(exchange(self.write(&call).await?))
    }

    /// Sets a key that has the value `expected`.
    ///
    /// # Errors
    /// As [`Map::set`].
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn test_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Exchange, Error> {
        let mut call = self.entry_call(&lua::TEST_AND_SET, key.as_ref(), value.as_ref())?;
        call.arg(expected.as_ref());
        Ok(exchange(self.write(&call).await?))
    }

    /// Deletes a key and returns the value that it had.
    ///
    /// # Errors
    /// As [`Map::set`].
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>, Error> {
        Layout::check_key(key.as_ref())?;
        let mut call = self.call(&lua::DELETE);
        call.arg(&self.layout.name).arg(&self.layout.channel).arg(key.as_ref());
        Ok(self.write(&call).await?.found)
    }

    /// Deletes every key.
    ///
    /// # Errors
    /// [`Error::Redis`], whose source tells whether it may have been done.
    ///
    /// # Cancel safety
    /// It may be done all the same.
    pub async fn reset(&self) -> Result<(), Error> {
        let mut call = self.call(&lua::RESET);
        call.arg(&self.layout.channel);
        self.write(&call).await.map(|_| ())
    }

    /// As [`View::refresh`].
    ///
    /// # Errors
    /// As [`View::refresh`].
    ///
    /// # Cancel safety
    /// As [`View::refresh`].
    pub async fn refresh(&self) -> Result<(), Error> {
        self.view.refresh().await
    }

    /// As [`View::close`]. The map itself stays.
    ///
    /// # Cancel safety
    /// Safe: the task ends all the same.
    pub async fn close(&self) {
        self.view.close().await;
    }

    fn call(&self, script: &Script) -> Call {
        script.call(&[&self.layout.meta, &self.layout.hash])
    }

    fn entry_call(&self, script: &Script, key: &[u8], value: &[u8]) -> Result<Call, Error> {
        Layout::check_key(key)?;
        Layout::check_value(value)?;
        let mut call = self.call(script);
        call.arg(&self.layout.name).arg(&self.layout.channel).arg(key).arg(value);
        Ok(call)
    }

    async fn write(&self, call: &Call) -> Result<Written, Error> {
        Written::decode(self.redis.call(call).await?)
    }
}

fn exchange(written: Written) -> Exchange {
    if written.at.is_some() { Exchange::Written } else { Exchange::Kept(written.found) }
}
