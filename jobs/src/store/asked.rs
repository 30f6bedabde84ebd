//! The arguments and the answers of steps on jobs.

use std::sync::Arc;

use bytes::Bytes;
use tenure_steps::letters;

use crate::model::id::{GroupName, JobId, QueueName, Token};
use crate::model::record::Record;

letters! {
    /// The fate of a job whose id is there already.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum AddMode {
        /// The job stays as it is.
        #[default]
        b'k': Keep,
        /// A waiting job gets the new time and data. A running job runs once more after this run. An ended job begins anew.
        b'a': Again,
        /// As [`Again`](Self::Again), but a job that waits for the same time stays as it is.
        b's': Schedule,
        /// A waiting job gets the new time and data, and all others stay as they are.
        b'r': Replace,
        /// As [`Schedule`](Self::Schedule), but nothing is added where there is no job. A job keeps its data when these are
        /// empty.
        b'e': Resubmit,
    }
}

/// The part that several jobs have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Kind {
    /// Their queue.
    pub queue: QueueName,
    /// Their group. A queue without groups ignores it.
    pub group: Option<GroupName>,
    /// How long the store keeps a job that has succeeded, in ms; 0 not at all, -1 for ever, `None` as long as the queue
    /// says.
    pub keep: Option<i64>,
    /// The priority, from -9 to 9.
    pub priority: i8,
    /// The most attempts; 0 those of the queue.
    pub max: u32,
    /// When each may begin, in ms; 0 at once.
    pub due: u64,
    /// How long after the call each may begin, in ms; 0 says nothing. It goes before `due`.
    pub delay: u64,
    /// The name of their flow: an empty text, or one without `|`.
    pub flow: String,
    /// The id of the work that they belong to: an empty text, or one without `|`.
    pub correlation: String,
    /// Their parent.
    pub parent: Option<JobId>,
    /// Each fails with its first failed child.
    pub fails_fast: bool,
    /// More children may come while it waits.
    pub open: bool,
    /// Each waits for its children.
    pub waits: bool,
    /// When each fails if it has not ended, in ms; 0 never.
    pub deadline: u64,
    /// How long after the call each fails if it has not ended, in ms; 0 says nothing. It goes before `deadline`.
    pub life: u64,
}

impl Kind {
    /// Plain jobs of a queue.
    pub fn new(queue: QueueName) -> Self {
        Self {
            queue,
            group: None,
            keep: None,
            priority: 0,
            max: 0,
            due: 0,
            delay: 0,
            flow: String::new(),
            correlation: String::new(),
            parent: None,
            fails_fast: false,
            open: false,
            waits: false,
            deadline: 0,
            life: 0,
        }
    }

    /// The same in a call at this moment.
    pub(crate) fn at(&self, now: u64) -> Self {
        let mut kind = self.clone();
        if self.delay > 0 {
            kind.due = now.saturating_add(self.delay);
        }
        if self.life > 0 {
            kind.deadline = now.saturating_add(self.life);
        }
        kind
    }

    pub(crate) fn text(&self) -> String {
        let moment = |at: u64, after: u64| if after > 0 { format!("+{after}") } else { at.to_string() };
        let (due, deadline) = (moment(self.due, self.delay), moment(self.deadline, self.life));
        let Self { queue, priority, max, flow, correlation, .. } = self;
        let keep = self.keep.map(|keep| keep.to_string()).unwrap_or_default();
        let group = self.group.as_ref().map_or("", GroupName::as_str);
        let parent = self.parent.as_ref().map_or("", JobId::as_str);
        let letters = [(self.fails_fast, 'f'), (self.open, 'o'), (self.waits, 'W')];
        let flags: String = letters.iter().filter(|(set, _)| *set).map(|(_, letter)| letter).collect();
        let text =
            format!("{keep}|{queue}|{group}|{priority}|{max}|{due}|{flow}|{parent}|{flags}|{deadline}");
        if correlation.is_empty() { text } else { format!("{text}|{correlation}") }
    }
}

/// A job to add.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewJob {
    /// Its id.
    pub id: JobId,
    /// Its data.
    pub body: Bytes,
    /// The rest.
    pub kind: Arc<Kind>,
    /// The attributes by which it is found, as `attribute=value`.
    pub lookups: Vec<String>,
}

impl NewJob {
    /// A job of this kind.
    pub fn new(id: JobId, body: impl Into<Bytes>, kind: impl Into<Arc<Kind>>) -> Self {
        Self { id, body: body.into(), kind: kind.into(), lookups: Vec::new() }
    }

    /// Its length in bytes.
    pub(crate) fn size(&self) -> usize {
        self.body.len() + self.id.as_str().len()
    }
}

/// Jobs to add in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adding {
    /// The fate of those that are there.
    pub mode: AddMode,
    /// The token of the running parent that adds its children.
    pub token: Option<Token>,
    /// The jobs.
    pub jobs: Vec<NewJob>,
}

impl Adding {
    /// Jobs that are added unless they are there.
    pub fn new(jobs: Vec<NewJob>) -> Self {
        Self { mode: AddMode::Keep, token: None, jobs }
    }
}

letters! {
    /// The answer for a job that was added.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum AddReply {
        /// It is there.
        b'A': Added,
        /// A job with this id exists, and stays as it is. So does a child that this life of the parent has had.
        b'E': Exists,
        /// It waits for the same time, and the mode changes nothing else: nothing was written.
        b'S': Same,
        /// It waits, and has the new time and data.
        b'U': Changed,
        /// It runs, and will run again.
        b'R': RunsAgain,
        /// It had ended, and is there anew.
        b'N': Anew,
        /// Its queue has no room.
        b'B': Full,
        /// There is no such job, and the mode makes none.
        b'M': Missing,
        /// The queue was never declared, or takes no jobs; or the job has a group, and the queue was only named.
        b'P': NoQueue,
        /// Its queue is pinned, and it has no group: nobody would ever take it.
        b'G': NoGroup,
        /// Its parent is gone, takes no children, or is not this caller's.
        b'H': NoParent,
        /// A job with this id has a record that cannot be read, or an argument is none.
        b'X': Bad,
    }
}

/// The fate of a job's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Data {
    /// They stay.
    #[default]
    Keep,
    /// These take their place.
    Replace(Bytes),
    /// These are written behind them.
    Append(Bytes),
}

/// The fate of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settle {
    /// It has succeeded, with this result.
    Done(Bytes, Data),
    /// It has succeeded, and the job goes on in another queue, with this priority and group if they change.
    MoveOn {
        /// The queue.
        queue: QueueName,
        /// Another priority.
        priority: Option<i8>,
        /// Another group.
        group: Option<GroupName>,
        /// The data.
        data: Data,
    },
    /// It waits for its children, without a lease. The first wait of a life lets the job run again at once when none is
    /// open. A later wait is a failed attempt when no child is open and none has ended since: the job runs again after
    /// this time in ms, if an attempt is left.
    Wait(u64, Data),
    /// It has failed, and runs again after this time in ms, if it has an attempt left.
    Retry(u64, Bytes),
    /// It has failed for good.
    Fail(Bytes, Data),
    /// It runs again after this time in ms, for this reason, and the attempt does not count.
    Later(u64, Bytes),
    /// It is given back, and the attempt does not count.
    GiveBack,
    /// It goes on, with these data.
    GoOn(Data),
    /// The execution goes on, and these notes replace the older notes.
    Note(Bytes),
    /// It goes on, and the job runs again after it, at this time in ms, 0 at once. One that somebody wants cancelled does
    /// not.
    Resubmit(u64),
    /// Its group, or without one itself, may not run until this time in ms, and the attempt does not count.
    Limited(u64),
}

impl Data {
    fn size(&self) -> usize {
        match self {
            Self::Keep => 0,
            Self::Replace(bytes) | Self::Append(bytes) => bytes.len(),
        }
    }
}

impl Settle {
    /// Whether an end that the data have forgotten needs its job again: a success does not.
    pub(crate) fn needs_its_job(&self) -> bool {
        !matches!(self, Self::Done(..))
    }

    /// Its length in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Done(bytes, data) | Self::Fail(bytes, data) => bytes.len() + data.size(),
            Self::MoveOn { data, .. } | Self::Wait(_, data) | Self::GoOn(data) => data.size(),
            Self::Retry(_, bytes) | Self::Later(_, bytes) | Self::Note(bytes) => bytes.len(),
            Self::GiveBack | Self::Resubmit(_) | Self::Limited(_) => 0,
        }
    }
}

/// An execution that a node has, or had: the data may have forgotten it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attesting {
    /// The job.
    pub id: JobId,
    /// Its record as the execution began.
    pub record: Record,
    /// Its data, to make the job again if it is not there.
    pub body: Option<Bytes>,
    /// The notes beside the data; empty for a job without notes.
    pub notes: Bytes,
}

impl Attesting {
    /// An execution without notes.
    pub fn new(id: JobId, record: Record, body: Option<Bytes>) -> Self {
        Self { id, record, body, notes: Bytes::new() }
    }

    /// The same with notes beside the data.
    #[must_use]
    pub fn with_notes(mut self, notes: Bytes) -> Self {
        self.notes = notes;
        self
    }
}

/// The fate of an execution, and which one it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settling {
    /// The job.
    pub id: JobId,
    /// The token of the execution.
    pub token: Token,
    /// Its fate.
    pub settle: Settle,
}

impl Settling {
    /// The fate of an execution.
    pub fn new(id: JobId, token: Token, settle: Settle) -> Self {
        Self { id, token, settle }
    }
}

letters! {
    /// The answer for an execution.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum SettleReply {
        /// The job has ended well.
        b'K': Ended,
        /// It is ready again.
        b'Q': Pending,
        /// It is ready after a time.
        b'D': Delayed,
        /// It has failed for good.
        b'F': Failed,
        /// It was cancelled.
        b'C': Cancelled,
        /// It waits for its children, or has none and is ready.
        b'W': Waits,
        /// It is in the next queue.
        b'M': Moved,
        /// It goes on.
        b'U': GoesOn,
        /// It goes on, and was asked for again meanwhile.
        b'V': Asked,
        /// It goes on, and somebody wants it cancelled.
        b'Z': ToCancel,
        /// The next queue was never declared; it goes on.
        b'P': NoQueue,
        /// The next queue is pinned, and the job has no group; it goes on.
        b'G': NoGroup,
        /// It is not this execution's any more. Nothing was written.
        b'H': Halt,
        /// The record cannot be read, or an argument is none. Nothing was written.
        b'X': Bad,
    }
}

/// A request about a job, a queue or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Steer {
    /// Cancels a job, for this reason.
    Cancel(String),
    /// Removes a job with all that belongs to it.
    Remove,
    /// Pauses a job.
    Pause,
    /// Resumes a job.
    Resume,
    /// Lets a failed or cancelled job run again, at this time in ms, 0 at once.
    Replay(u64),
    /// Lets a waiting job run at this time in ms, 0 at once.
    At(u64),
    /// Gives a waiting job this priority.
    Priority(i8),
    /// All children of an open job are there.
    Close,
}

/// A request from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// Of a job.
    Job(JobId, Steer),
    /// Pauses a queue, or resumes it.
    PauseQueue(QueueName, bool),
    /// Pauses a group, or resumes it.
    PauseGroup(QueueName, Option<GroupName>, bool),
    /// Gives a group a limit of its own, in a window in ms; `None` that of the queue.
    LimitGroup(QueueName, Option<GroupName>, Option<(u32, u64)>),
    /// Gives a group a concurrency of its own; `None` that of the queue.
    GroupConcurrency(QueueName, Option<GroupName>, Option<u32>),
    /// Gives a group this many turns where others have one, 1 to 99.
    GroupWeight(QueueName, Option<GroupName>, u8),
    /// Gives a group what its queue has.
    ResetGroup(QueueName, Option<GroupName>),
}

letters! {
    /// The answer to a request from outside.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum SteerReply {
        /// It is done.
        b'K': Done,
        /// The job runs: the execution is asked.
        b'S': Asked,
        /// There is no such job, queue or group.
        b'N': NotFound,
        /// The job is not in a state for that.
        b'E': NotInState,
        /// The queue of the job has no room.
        b'B': Full,
        /// The queue is pinned: one job of a group runs at a time.
        b'O': Pinned,
        /// The record cannot be read, or an argument is none.
        b'X': Bad,
    }
}
