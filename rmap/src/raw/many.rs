//! Changes of several keys that are seen together or not at all: one revision, one message.

use std::collections::{BTreeMap, BTreeSet};

use super::RawMap;
use crate::{Error, Layout, lua};

impl RawMap {
    /// Sets several keys as one change, which all copies see as a whole. If a key is named twice, the last value
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
            let entries = bounded(entries, |(key, value)| {
                let (key, value) = (key.as_ref(), value.as_ref());
                Layout::check_key(key)?;
                Layout::check_value(value)?;
                Ok(key.len() + value.len())
            })?;
            if entries.is_empty() {
                return self.check_open();
            }
            let entries: BTreeMap<_, _> = entries.iter().map(|(k, v)| (k.as_ref(), v.as_ref())).collect();
            let mut call = self.call(&lua::SET_MANY);
            for (key, value) in &entries {
                call.arg(*key).arg(*value);
            }
            call
        };
        self.write(&call, b"").await.map(|_| ())
    }

    /// Deletes several keys as one change, which all copies see as a whole. Returns how many of them existed.
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
            let keys = bounded(keys, |key| {
                Layout::check_key(key.as_ref())?;
                Ok(key.as_ref().len())
            })?;
            if keys.is_empty() {
                return self.check_open().map(|()| 0);
            }
            let keys: BTreeSet<_> = keys.iter().map(AsRef::as_ref).collect();
            let mut call = self.call(&lua::DELETE_MANY);
            for key in &keys {
                call.arg(*key);
            }
            call
        };
        self.write(&call, b"").await?.count()
    }
}

/// Collects the items, and stops at the limits of one call. `checked` returns the size of an item in bytes.
fn bounded<T>(
    all: impl IntoIterator<Item = T>,
    checked: impl Fn(&T) -> Result<usize, Error>,
) -> Result<Vec<T>, Error> {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    for one in all {
        bytes += checked(&one)?;
        taken.push(one);
        Layout::check_many(taken.len(), bytes)?;
    }
    Ok(taken)
}
