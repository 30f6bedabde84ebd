//! Lists as values. A list is a MessagePack array of strings, so its items may be any bytes. An absent key is the empty
//! list, and a list that becomes empty is deleted.

use bytes::Bytes;
use tenure_connection::Script;

use super::RawMap;
use crate::wire::{self, Written};
use crate::{Error, Layout, lua};

impl RawMap {
    /// The list in a key of the local copy; empty when the key is absent.
    ///
    /// # Errors
    /// [`Error::NotAList`] when the value is not a list.
    pub fn list(&self, key: impl AsRef<[u8]>) -> Result<Vec<Bytes>, Error> {
        let key = key.as_ref();
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        wire::list(&value).ok_or_else(|| Error::NotAList { key: Bytes::copy_from_slice(key) })
    }

    /// Appends items to the list in a key, in this order, and returns the new length.
    ///
    /// This call must not simply be repeated when it may have been done; [`RawMap::append_unique`] may.
    ///
    /// # Errors
    /// As [`RawMap::set`]; when nothing was written: [`Error::NotAList`], [`Error::TooMany`], [`Error::Value`] for a
    /// list that would become longer than [`Layout::MAX_VALUE`] bytes, [`Error::ManyItems`] for one of more than
    /// [`Layout::MAX_ITEMS`] items.
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn append<I: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        items: impl IntoIterator<Item = I>,
    ) -> Result<usize, Error> {
        self.list_write(&lua::APPEND, key.as_ref(), items).await?.count()
    }

    /// Appends the items that the list in a key does not have yet, in this order, and returns how many it appended.
    ///
    /// # Errors
    /// As [`RawMap::append`].
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn append_unique<I: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        items: impl IntoIterator<Item = I>,
    ) -> Result<usize, Error> {
        self.list_write(&lua::APPEND_UNIQUE, key.as_ref(), items).await?.count()
    }

    /// Removes every occurrence of these items from the list in a key, and returns how many went. A list that becomes
    /// empty is deleted.
    ///
    /// # Errors
    /// As [`RawMap::append`].
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn remove_values<I: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        items: impl IntoIterator<Item = I>,
    ) -> Result<usize, Error> {
        self.list_write(&lua::REMOVE_VALUES, key.as_ref(), items).await?.count()
    }

    async fn list_write<I: AsRef<[u8]>>(
        &self,
        script: &Script,
        key: &[u8],
        items: impl IntoIterator<Item = I>,
    ) -> Result<Written, Error> {
        let call = {
            let mut call = self.key_call(script, key)?;
            let (mut count, mut bytes) = (0, 0);
            for item in items {
                let item = item.as_ref();
                (count, bytes) = (count + 1, bytes + item.len());
                Layout::check_value(item)?;
                Layout::check_many(count, bytes)?;
                call.arg(item);
            }
            call
        };
        self.write(&call, key).await
    }
}
