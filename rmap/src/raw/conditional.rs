//! Writes that depend on the present value. The server's clock decides: an entry past its deadline is absent.

use super::{Exchange, RawMap};
use crate::wire::Written;
use crate::{Error, lua};

impl RawMap {
    /// Sets a key that is absent.
    ///
    /// # Errors
    /// As [`RawMap::set`].
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn set_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Exchange, Error> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let call = self.entry_call(&lua::SET_IF_ABSENT, key, value)?;
        self.write(&call, key).await.map(exchange)
    }

    /// Sets a key that has the value `expected`.
    ///
    /// # Errors
    /// As [`RawMap::set`].
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn test_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Exchange, Error> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let mut call = self.entry_call(&lua::TEST_AND_SET, key, value)?;
        call.arg(expected.as_ref());
        self.write(&call, key).await.map(exchange)
    }

    /// Deletes a key that has the value `expected`.
    ///
    /// # Errors
    /// As [`RawMap::set`].
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn test_and_delete(
        &self,
        key: impl AsRef<[u8]>,
        expected: impl AsRef<[u8]>,
    ) -> Result<Exchange, Error> {
        let key = key.as_ref();
        let mut call = self.key_call(&lua::TEST_AND_DELETE, key)?;
        call.arg(expected.as_ref());
        self.write(&call, key).await.map(exchange)
    }

    /// Deletes every key, if `key` has the value `expected`.
    ///
    /// # Errors
    /// As [`RawMap::set`].
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn test_and_reset(
        &self,
        key: impl AsRef<[u8]>,
        expected: impl AsRef<[u8]>,
    ) -> Result<Exchange, Error> {
        let key = key.as_ref();
        let mut call = self.key_call(&lua::TEST_AND_RESET, key)?;
        call.arg(expected.as_ref());
        self.write(&call, key).await.map(exchange)
    }
}

fn exchange(written: Written) -> Exchange {
    if written.at.is_some() { Exchange::Written } else { Exchange::Kept(written.found) }
}
