//! Lists as values. A list is a MessagePack array of strings, so that its items may be any bytes; a key without a
//! value is the empty list, and a list that becomes empty is deleted.

use bytes::Bytes;
use tenure_connection::Script;

use super::RawMap;
use crate::wire::{self, Written};
use crate::{Error, Layout, lua};

impl RawMap {
    /// The list that a key holds, as the local copy has it; empty when the key is absent.
    ///
    /// # Errors
    /// [`Error::NotAList`] when the value is none.
    pub fn list(&self, key: impl AsRef<[u8]>) -> Result<Vec<Bytes>, Error> {
        let key = key.as_ref();
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        wire::list(&value).ok_or_else(|| Error::NotAList { key: Bytes::copy_from_slice(key) })
    }

    /// Appends items to the list that a key holds, in this order, and returns its length.
    ///
    /// Must not simply be sent again when it may have been done: [`RawMap::append_unique`] may.
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

    /// Appends those items to the list that a key holds which it does not have, in this order, and returns how many.
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

    /// Removes items from the list that a key holds, each wherever it is in it, and returns how many went. A list
    /// that becomes empty is deleted.
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
