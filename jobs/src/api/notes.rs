//! The notes of handlers stand beside the data of a job, and never touch the data.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::data;
use crate::error::Error;

/// The last checkpoint and the last progress of a job. Both are encoded apart, so both may have any type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notes {
    checkpoint: Option<ByteBuf>,
    progress: Option<ByteBuf>,
}

impl Notes {
    /// Reads notes; a job without any has empty bytes.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.is_empty() { Ok(Self::default()) } else { data::decode(bytes) }
    }

    pub(crate) fn bytes(&self) -> Result<Bytes, Error> {
        data::encode(self)
    }

    pub(crate) fn with_checkpoint<S: Serialize + ?Sized>(self, checkpoint: &S) -> Result<Self, Error> {
        Ok(Self { checkpoint: Some(ByteBuf::from(data::encode(checkpoint)?)), ..self })
    }

    pub(crate) fn with_progress<P: Serialize + ?Sized>(self, progress: &P) -> Result<Self, Error> {
        Ok(Self { progress: Some(ByteBuf::from(data::encode(progress)?)), ..self })
    }

    pub(crate) fn checkpoint<S: DeserializeOwned>(&self) -> Result<Option<S>, Error> {
        self.checkpoint.as_ref().map(|checkpoint| data::decode(checkpoint)).transpose()
    }

    pub(crate) fn progress<P: DeserializeOwned>(&self) -> Result<Option<P>, Error> {
        self.progress.as_ref().map(|progress| data::decode(progress)).transpose()
    }

    /// The part that differs from former notes.
    pub(crate) fn since(self, former: &Self) -> Self {
        Self {
            checkpoint: self.checkpoint.filter(|checkpoint| former.checkpoint.as_ref() != Some(checkpoint)),
            progress: self.progress.filter(|progress| former.progress.as_ref() != Some(progress)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_checkpoint_and_a_progress_stay_until_each_is_replaced() {
        let first = Notes::read(b"").unwrap();
        assert_eq!((first.checkpoint::<u8>().unwrap(), first.progress::<u8>().unwrap()), (None, None));
        let both = first.with_checkpoint("page 3").unwrap().with_progress(&30u8).unwrap();
        let both = Notes::read(&both.bytes().unwrap()).unwrap();
        let later = both.clone().with_progress(&()).unwrap();
        assert_eq!(later.checkpoint::<String>().unwrap().unwrap(), "page 3");
        assert_eq!(later.progress::<()>().unwrap(), Some(()), "a unit is a value, too");
        let new = later.since(&both);
        assert_eq!((new.checkpoint::<String>().unwrap(), new.progress::<()>().unwrap()), (None, Some(())));
        assert!(matches!(Notes::read(b"rubbish"), Err(Error::Decode(_))));
    }
}
