//! Changes of several keys that are seen together, or not at all: one revision, one message.

use std::collections::{BTreeMap, BTreeSet};

use super::RawMap;
use crate::{Error, Layout, lua};

impl RawMap {
    /// Sets several keys as one change, which everybody sees as a whole. Of a key that is named twice the last value
    /// counts.
    ///
    /// # Errors
    /// As [`RawMap::set`]; [`Error::TooMany`] before anything is sent.
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn set_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), Error> {
        let call = {
            let entries: Vec<_> = entries.into_iter().collect();
            let entries: BTreeMap<_, _> = entries.iter().map(|(k, v)| (k.as_ref(), v.as_ref())).collect();
            let mut call = self.call(&lua::SET_MANY);
            let mut bytes = 0;
            for (key, value) in &entries {
                Layout::check_key(key)?;
                Layout::check_value(value)?;
                bytes += key.len() + value.len();
                call.arg(*key).arg(*value);
            }
            Layout::check_many(entries.len(), bytes)?;
            if entries.is_empty() {
                return self.check_open();
            }
            call
        };
        self.write(&call, b"").await.map(|_| ())
    }

    /// Deletes several keys as one change, which everybody sees as a whole, and returns how many of them were there.
    ///
    /// # Errors
    /// As [`RawMap::set_many`].
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn delete_many<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<usize, Error> {
        let call = {
            let keys: Vec<_> = keys.into_iter().collect();
            let keys: BTreeSet<_> = keys.iter().map(AsRef::as_ref).collect();
            let mut call = self.call(&lua::DELETE_MANY);
            let mut bytes = 0;
            for key in &keys {
                Layout::check_key(key)?;
                bytes += key.len();
                call.arg(*key);
            }
            Layout::check_many(keys.len(), bytes)?;
            if keys.is_empty() {
                return self.check_open().map(|()| 0);
            }
            call
        };
        self.write(&call, b"").await?.count()
    }
}
