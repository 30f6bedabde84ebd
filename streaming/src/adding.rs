//! Adding entries: one, many, or one at most once.

use std::time::Duration;

use tenure_connection::Call;

use crate::entry::{FIELD_BYTES, MAX_BATCH, MAX_BATCH_BYTES, at_most};
use crate::keys::{self, OnceKeys};
use crate::start::milliseconds;
use crate::{EntryId, Error, NewEntry, Stream, TOPIC_FIELD, entry, lua, reply};

/// The bounds of a stream: its length and how to trim it, its life and the moment that it counts from, and the time for
/// which publishers' ids are known.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) max_len: Option<(u64, &'static str)>,
    pub(crate) ttl: Option<(Duration, &'static str)>,
    pub(crate) once_window: Duration,
}

/// Options for adding an entry.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct AddOptions<'a> {
    topic: Option<&'a str>,
    only_if_exists: bool,
    once: Option<&'a [u8]>,
}

impl<'a> AddOptions<'a> {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the topic of the entry: 1 to 512 bytes.
    pub fn topic(mut self, topic: &'a str) -> Self {
        self.topic = Some(topic);
        self
    }

    /// Adds nothing when there is no stream.
    pub fn only_if_exists(mut self) -> Self {
        self.only_if_exists = true;
        self
    }

    /// Adds nothing when this id was used for an entry before; see [`Stream::add_once`].
    pub fn once(mut self, id: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.once = Some(id.as_ref());
        self
    }
}

/// The entry that the stream has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Added {
    /// Its id.
    pub id: EntryId,
    /// Whether this call added nothing, because the entry had been added before with the same publisher's id.
    pub repeated: bool,
}

impl Stream {
    /// Adds an entry of at least one field, and returns its id. Names and values are any bytes; a name may occur more
    /// than once, and the order is kept. An entry has at most 1,024 fields and 1 MiB.
    ///
    /// # Errors
    /// [`Error::NoFields`], [`Error::ReservedField`] and [`Error::TooLarge`] before anything is sent;
    /// [`Error::Redis`].
    ///
    /// # Cancel safety
    /// The entry may be added all the same. To try again without adding it twice, use [`Stream::add_once`].
    pub async fn add<N: AsRef<[u8]>, V: AsRef<[u8]>>(&self, fields: &[(N, V)]) -> Result<EntryId, Error> {
        let added = self.add_with(AddOptions::new(), fields).await?;
        added.map(|added| added.id).ok_or(Error::Malformed { expected: "entry id" })
    }

    /// Adds an entry at most once for this id of its publisher (1 to 512 bytes). A second call with the same id, from
    /// any process, adds nothing and returns the first one's entry. So a call whose reply was lost can be repeated. An
    /// id is known for an hour, or for the time of [`StreamBuilder::once_window`](crate::StreamBuilder::once_window),
    /// even when the entry has been removed meanwhile.
    ///
    /// # Errors
    /// As [`Stream::add`], [`Error::Name`] and [`Error::NoSibling`] before anything is sent, and [`Error::Conflict`]
    /// when the id was used for other content.
    ///
    /// # Cancel safety
    /// The entry may be added all the same; call it again.
    pub async fn add_once<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        id: impl AsRef<[u8]>,
        fields: &[(N, V)],
    ) -> Result<Added, Error> {
        let added = self.add_with(AddOptions::new().once(id.as_ref()), fields).await?;
        added.ok_or(Error::Malformed { expected: "entry id" })
    }

    /// Adds an entry with options. Returns `None` for [`AddOptions::only_if_exists`] when there is no stream.
    ///
    /// # Errors
    /// As [`Stream::add`] and [`Stream::add_once`]; [`Error::Name`] for a topic that is empty or too long.
    ///
    /// # Cancel safety
    /// As [`Stream::add`].
    pub async fn add_with<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        options: AddOptions<'_>,
        fields: &[(N, V)],
    ) -> Result<Option<Added>, Error> {
        entry::check(options.topic, fields)?;
        if let Some(id) = options.once {
            return self.add_if_unknown(id, options, fields).await;
        }
        let added = |id| Added { id, repeated: false };
        if self.bounds.ttl.is_some() {
            let mut call = lua::ADD.call(&[&*self.name]);
            self.bounds.words(&mut call, options.only_if_exists);
            append_counted(&mut call, options.topic, fields);
            return Ok(match self.redis.call(&call).await? {
                redis::Value::Nil => None,
                reply => reply::ids(reply)?.first().copied().map(added),
            });
        }
        let mut command = redis::cmd("XADD");
        command.arg(&*self.name);
        if options.only_if_exists {
            command.arg("NOMKSTREAM");
        }
        if let Some((entries, how)) = self.bounds.max_len {
            command.arg("MAXLEN").arg(how).arg(entries);
        }
        command.arg("*");
        each_word(options.topic, fields, |word| {
            command.arg(word);
        });
        Ok(reply::optional_id(&self.redis.command(&command).await?)?.map(added))
    }

    /// Adds entries in one step, all or none, and returns their ids in order. The limits are 4,096 entries and 8 MiB,
    /// where each field counts 32 bytes more than it has.
    ///
    /// # Errors
    /// As [`Stream::add`], before anything is sent; [`Error::Redis`].
    ///
    /// # Cancel safety
    /// They may be added all the same.
    pub async fn add_many(&self, entries: &[NewEntry]) -> Result<Vec<EntryId>, Error> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        at_most("entries in a batch", entries.len(), MAX_BATCH)?;
        let mut bytes = 0;
        let mut call = lua::ADD.call(&[&*self.name]);
        self.bounds.words(&mut call, false);
        for entry in entries {
            let (topic, fields) = entry.parts();
            bytes += entry::check(topic, fields)? + FIELD_BYTES * fields.len();
            at_most("bytes in a batch", bytes, MAX_BATCH_BYTES)?;
            append_counted(&mut call, topic, fields);
        }
        let ids = reply::ids(self.redis.call(&call).await?)?;
        if ids.len() == entries.len() { Ok(ids) } else { Err(Error::Malformed { expected: "id per entry" }) }
    }

    async fn add_if_unknown<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        id: &[u8],
        options: AddOptions<'_>,
        fields: &[(N, V)],
    ) -> Result<Option<Added>, Error> {
        keys::check("publisher's id", id)?;
        let Some(OnceKeys { ids, due }) = OnceKeys::of(&self.name) else {
            return Err(Error::NoSibling { stream: self.name.to_string() });
        };
        let mut call = lua::ADD_ONCE.call(&[&*self.name, &ids, &due]);
        self.bounds.words(&mut call, options.only_if_exists);
        call.arg(id).arg(milliseconds(self.bounds.once_window));
        each_word(options.topic, fields, |word| {
            call.arg(word);
        });
        match self.redis.call(&call).await {
            Ok(reply) => Ok(reply::once(reply)?.map(|(id, repeated)| Added { id, repeated })),
            Err(tenure_connection::Error::Server { code, detail }) if &*code == "CONFLICT" => {
                let entry = detail.split_whitespace().next().and_then(|id| id.parse().ok());
                Err(Error::Conflict { entry: entry.ok_or(Error::Malformed { expected: "entry id" })? })
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Bounds {
    /// The arguments that both scripts begin with.
    fn words(&self, call: &mut Call, only_if_exists: bool) {
        call.arg(u8::from(only_if_exists));
        match self.max_len {
            Some((entries, how)) => call.arg(how).arg(entries),
            None => call.arg("~").arg(""),
        };
        match self.ttl {
            Some((ttl, from)) => call.arg(milliseconds(ttl)).arg(from),
            None => call.arg("").arg(""),
        };
    }
}

fn append_counted<N: AsRef<[u8]>, V: AsRef<[u8]>>(call: &mut Call, topic: Option<&str>, fields: &[(N, V)]) {
    call.arg(2 * (fields.len() + usize::from(topic.is_some())));
    each_word(topic, fields, |word| {
        call.arg(word);
    });
}

fn each_word<N: AsRef<[u8]>, V: AsRef<[u8]>>(
    topic: Option<&str>,
    fields: &[(N, V)],
    mut append: impl FnMut(&[u8]),
) {
    if let Some(topic) = topic {
        append(TOPIC_FIELD.as_bytes());
        append(topic.as_bytes());
    }
    for (name, value) in fields {
        append(name.as_ref());
        append(value.as_ref());
    }
}
