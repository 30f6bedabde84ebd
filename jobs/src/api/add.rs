//! Adding jobs: builders that are futures.

use std::future::IntoFuture;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;
use ulid::Overflow;

use super::jobs::Jobs;
use super::queue::{kept, millis};
use crate::data;
use crate::error::Error;
use crate::model::id::{GroupName, InvalidName, JobId, QueueName};
use crate::runtime::batcher::Request;
use crate::runtime::handle::Handle;
use crate::store::{AddMode, AddReply, Kind, NewJob};

/// The most look-ups of a job.
const LOOKUPS: usize = 64;

/// The result of an add.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Added {
    /// Its id.
    pub id: JobId,
    /// Whether it is there, was there, or is there again.
    pub how: How,
}

/// How a job was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum How {
    /// It is new.
    New,
    /// One with this id was there, and stays as it is.
    Exists,
    /// It waits, and has the new time and data.
    Changed,
    /// It runs, and will run once more.
    RunsAgain,
    /// It had ended, and is there anew.
    Anew,
}

/// The fate of a job whose id is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unique {
    /// The one that is there stays as it is.
    #[default]
    Keep,
    /// One that waits gets the new time and data. One that runs runs once more, with its data as they were. One that has
    /// ended is there anew. A flow that has ended begins anew with its first stage. One that is under way in a later stage
    /// stays as it is.
    Again,
    /// As [`Again`](Self::Again), but a job that waits for the same time stays unchanged.
    Schedule,
    /// One that waits gets the new time and data; any other one stays as it is.
    Replace,
}

/// A job to add: await it.
///
/// # Cancel safety
/// Dropping the future leaves open whether the job was added. Adding it again under the same id shows it.
#[must_use = "a job is added when this is awaited"]
#[derive(Debug)]
pub struct Add<'a> {
    jobs: &'a Jobs,
    new: Result<Draft, Error>,
}

/// A job as far as it is described.
#[derive(Debug)]
struct Draft {
    id: Option<JobId>,
    body: Bytes,
    kind: Kind,
    mode: AddMode,
    parent: Option<Arc<Handle>>,
    lookups: Vec<String>,
    delay: Option<Duration>,
    life: Option<Duration>,
}

impl<'a> Add<'a> {
    pub(crate) fn new(jobs: &'a Jobs, queue: &str, body: Result<Bytes, Error>) -> Self {
        let draft = |body: Bytes| {
            let kind = Kind::new(QueueName::new(queue)?);
            let (mode, lookups) = (AddMode::Keep, Vec::new());
            Ok(Draft { id: None, body, kind, mode, parent: None, lookups, delay: None, life: None })
        };
        Self { jobs, new: body.and_then(draft) }
    }

    pub(crate) fn resubmitting(jobs: &'a Jobs, queue: &str, body: Result<Bytes, Error>) -> Self {
        Self::new(jobs, queue, body).with(|draft| {
            draft.mode = AddMode::Resubmit;
            Ok(())
        })
    }

    fn with(mut self, change: impl FnOnce(&mut Draft) -> Result<(), Error>) -> Self {
        self.new = self.new.and_then(|mut draft| change(&mut draft).map(|()| draft));
        self
    }

    /// Its id: the job is unique under it while it is there. Characters that no id may have are percent-encoded. Without
    /// one it gets an id of its own; those of later jobs are higher.
    pub fn id(self, id: impl AsRef<[u8]>) -> Self {
        self.with(|draft| {
            draft.id = Some(JobId::encoded(id)?);
            Ok(())
        })
    }

    /// Its id, as it stands.
    pub fn job_id(self, id: JobId) -> Self {
        self.named(Ok(id))
    }

    /// The fate of a job that is there already with this id.
    pub fn unique(self, unique: Unique) -> Self {
        self.with(|draft| {
            if draft.mode == AddMode::Resubmit {
                return Err(Error::Setting("a resubmit decides the fate of the job itself"));
            }
            draft.mode = match unique {
                Unique::Keep => AddMode::Keep,
                Unique::Again => AddMode::Again,
                Unique::Schedule => AddMode::Schedule,
                Unique::Replace => AddMode::Replace,
            };
            Ok(())
        })
    }

    /// Its group, in a queue with groups. Characters that no name may have are percent-encoded.
    pub fn group(self, group: impl AsRef<[u8]>) -> Self {
        self.with(|draft| {
            draft.kind.group = Some(GroupName::new(JobId::encoded(group)?.as_str())?);
            Ok(())
        })
    }

    /// Its group, under a name that is encoded already.
    #[cfg(feature = "cron")]
    pub(crate) fn in_group(self, name: &str) -> Self {
        self.with(|draft| {
            draft.kind.group = Some(GroupName::new(name)?);
            Ok(())
        })
    }

    /// Its priority, from -9 to 9; 0 by default.
    pub fn priority(self, priority: i8) -> Self {
        self.with(|draft| {
            if !(-9..=9).contains(&priority) {
                return Err(Error::Setting("a priority is from -9 to 9"));
            }
            draft.kind.priority = priority;
            Ok(())
        })
    }

    /// It begins so long after it was added, by the store's clock.
    pub fn delay(self, delay: Duration) -> Self {
        self.with(|draft| {
            draft.delay = Some(delay);
            Ok(())
        })
    }

    /// It begins at this time.
    pub fn at(self, time: SystemTime) -> Self {
        self.with(|draft| {
            draft.kind.due = moment(time)?.max(1);
            Ok(())
        })
    }

    /// It fails if it has not ended at this time, also while it runs.
    pub fn deadline(self, time: SystemTime) -> Self {
        self.with(|draft| {
            draft.kind.deadline = moment(time)?.max(1);
            Ok(())
        })
    }

    /// The most attempts, in place of those of its queue.
    pub fn attempts(self, most: u32) -> Self {
        self.with(|draft| {
            draft.kind.max = most;
            Ok(())
        })
    }

    /// How long it is kept after it has succeeded, with its data and its result.
    pub fn keep(self, time: Duration) -> Self {
        self.with(|draft| {
            draft.kind.keep = Some(kept(time));
            Ok(())
        })
    }

    /// It is kept for ever after it has succeeded, until it is removed.
    pub fn keep_for_ever(self) -> Self {
        self.with(|draft| {
            draft.kind.keep = Some(-1);
            Ok(())
        })
    }

    /// An attribute by which it is found with [`Jobs::find`]. It may have several values; a job has at most 64 of all
    /// attributes. A job that is there, and is changed or is there anew, has these in the place of its former ones. One that
    /// runs keeps those that it has, as it keeps its data.
    pub fn lookup(self, attribute: &str, value: impl std::fmt::Display) -> Self {
        self.with(|draft| {
            draft.lookups.push(lookup(attribute, &value.to_string())?);
            Ok(())
        })
    }

    /// The id of the work that it belongs to, such as a request's: its handler finds it with
    /// [`Ctx::correlation_id`](crate::Ctx::correlation_id), in all queues of its flow. Children that a handler spawns have
    /// that of their parent, unless they are given one. A job that is there, and is changed or is there anew, has the one
    /// of the last add. It has 1 to 128 visible ASCII characters, and no `|`.
    pub fn correlation_id(self, id: &str) -> Self {
        self.with(|draft| {
            if !(1..=128).contains(&id.len())
                || !id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'|')
            {
                return Err(Error::Setting(
                    "a correlation id has 1 to 128 visible ASCII characters and no |",
                ));
            }
            id.clone_into(&mut draft.kind.correlation);
            Ok(())
        })
    }

    /// It fails with its first failed child, and the other children are cancelled.
    pub fn fail_with_first_child(self) -> Self {
        self.with(|draft| {
            draft.kind.fails_fast = true;
            Ok(())
        })
    }

    pub(crate) fn of_flow(self, name: &str, priority: Option<i8>, life: Duration) -> Self {
        let named = self.with(|draft| {
            if name.contains(['|', '\n']) || name.len() > 64 {
                return Err(Error::Setting("the name of a flow has at most 64 characters and no |"));
            }
            name.clone_into(&mut draft.kind.flow);
            draft.kind.keep = Some(kept(life));
            draft.life = Some(life);
            Ok(())
        });
        match priority {
            Some(priority) => named.priority(priority),
            None => named,
        }
    }

    pub(crate) fn child_of(self, parent: &Arc<Handle>) -> Self {
        self.with(|draft| {
            draft.kind.parent = Some(parent.id.clone());
            draft.kind.correlation.clone_from(&parent.record.correlation);
            draft.parent = Some(parent.clone());
            Ok(())
        })
    }

    pub(crate) fn named(self, id: Result<JobId, InvalidName>) -> Self {
        self.with(|draft| {
            draft.id = Some(id?);
            Ok(())
        })
    }

    /// Look-ups by these fields of its data.
    pub(crate) fn by_fields(self, fields: &[String]) -> Self {
        self.with(|draft| {
            for (field, value) in data::lookups(&draft.body, fields) {
                draft.lookups.push(lookup(&field, &value)?);
            }
            Ok(())
        })
    }

    async fn send(self) -> Result<Added, Error> {
        let Self { jobs, new } = self;
        let Draft { id, body, mut kind, mode, parent, lookups, delay, life } = new?;
        if lookups.len() > LOOKUPS {
            return Err(Error::Setting("a job has at most 64 look-ups"));
        }
        if let Some(delay) = delay {
            kind.delay = millis(delay).max(1);
        }
        if let Some(life) = life.filter(|_| kind.deadline == 0) {
            kind.life = millis(life).max(1);
        }
        let id = match id {
            Some(id) => id,
            None if mode == AddMode::Resubmit => {
                return Err(Error::Setting("a resubmit needs the id of a job"));
            }
            None => fresh_id(&kind.flow)?,
        };
        let queue = kind.queue.clone();
        let mut job = NewJob::new(id.clone(), body, kind);
        job.lookups = lookups;
        let replies = add_all(jobs, mode, parent, vec![job]).await?;
        added(id, &queue, replies.into_iter().next().unwrap_or(AddReply::Bad))
    }
}

/// Adds jobs that go together.
pub(crate) async fn add_all(
    jobs: &Jobs,
    mode: AddMode,
    parent: Option<Arc<Handle>>,
    new: Vec<NewJob>,
) -> Result<Vec<AddReply>, Error> {
    let taken = |job: &&NewJob| job.kind.parent.is_none() && job.id.is_a_childs();
    // A resubmit adds no job where there is none.
    if let Some(job) = new.iter().filter(|_| mode != AddMode::Resubmit).find(taken) {
        return Err(Error::ChildsId(job.id.clone()));
    }
    let (reply, answer) = oneshot::channel();
    jobs.shared.batcher.send(Request { mode, parent, jobs: new, reply }).map_err(|_| Error::Closed)?;
    answer.await.map_err(|_| Error::Closed)?
}

/// An id of a job without one: later ones are higher.
pub(crate) fn fresh_id(flow: &str) -> Result<JobId, InvalidName> {
    static IDS: Mutex<ulid::Generator> = Mutex::new(ulid::Generator::new());
    let mut ids = IDS.lock().unwrap_or_else(PoisonError::into_inner);
    let id = ids.generate().unwrap_or_else(Overflow::commit_overflow_increment);
    if flow.is_empty() { JobId::new(id.to_string()) } else { JobId::encoded(format!("{flow}:{id}")) }
}

pub(crate) fn added(id: JobId, queue: &QueueName, reply: AddReply) -> Result<Added, Error> {
    let how = match reply {
        AddReply::Added => How::New,
        AddReply::Exists | AddReply::Same => How::Exists,
        AddReply::Changed => How::Changed,
        AddReply::RunsAgain => How::RunsAgain,
        AddReply::Anew => How::Anew,
        AddReply::Missing => return Err(Error::NotFound(id)),
        AddReply::Full => return Err(Error::Full(queue.clone())),
        AddReply::NoQueue => return Err(Error::NoQueue(queue.clone())),
        AddReply::NoGroup => return Err(Error::NoGroup(queue.clone())),
        AddReply::NoParent => return Err(Error::NoParent(id)),
        AddReply::Bad => return Err(Error::Damaged(id)),
    };
    Ok(Added { id, how })
}

/// A look-up, `attribute=value`, with encoded parts.
pub(crate) fn lookup(attribute: &str, value: &str) -> Result<String, Error> {
    Ok(format!("{}={}", JobId::encoded(attribute)?, JobId::encoded(value)?))
}

/// A moment in ms.
pub(crate) fn moment(time: SystemTime) -> Result<u64, Error> {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    u64::try_from(since)
        .ok()
        .filter(|ms| *ms < 1 << 43)
        .ok_or(Error::Setting("a time is before the year 2248"))
}

impl<'a> IntoFuture for Add<'a> {
    type Output = Result<Added, Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.send().boxed()
    }
}
