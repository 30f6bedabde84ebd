//! A step that is made alike on both stores, and the answer as text without what differs by nature: the ids of stream
//! entries and the server process.

use std::fmt::Debug;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use tenure_pool::store::{
    ClaimPool, Cursors, EntryId, Known, PoolEvent, ReadHistory, ReadNode, ReadPool, Step, Store, StoreError,
};
use tenure_protocol::model::id::{Incarnation, JobKey, NodeName, WorkerId};

/// An entry's id on each of the two stores.
pub(crate) type EntryPair = [EntryId; 2];

/// A step with all its arguments, for both stores.
pub(crate) type Call = Rc<dyn Both>;

/// An answer.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// The start events it brought.
    pub(crate) events: Vec<PoolEvent>,
    /// The worker that joined.
    pub(crate) joined: Option<WorkerId>,
    /// The pool's incarnation, when the call may have changed it.
    pub(crate) incarnation: Option<Incarnation>,
    /// Where a worker's next page begins.
    pub(crate) next: Option<JobKey>,
}

/// A step of any type, for both stores.
pub(crate) trait Both: Debug {
    /// Performs the step on one of the two stores.
    fn perform<'a>(&'a self, store: &'a Store, side: usize, inc: Incarnation) -> LocalBoxFuture<'a, Answer>;
}

/// Takes out of an answer what differs by nature, and keeps what the driver needs.
type View<S> = fn(&mut <S as Step>::Answer, &mut Answer);

struct Pair<S: Step> {
    steps: [S; 2],
    view: View<S>,
}

impl<S: Step> Debug for Pair<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.steps[0].fmt(f)
    }
}

impl<S: Known> Both for Pair<S> {
    fn perform<'a>(&'a self, store: &'a Store, side: usize, inc: Incarnation) -> LocalBoxFuture<'a, Answer> {
        let performed = async move {
            let (mut answer, mut brought) = (store.run(inc, &self.steps[side]).await, Answer::default());
            match &mut answer {
                Ok(answer) => (self.view)(answer, &mut brought),
                Err(error) => assert!(matches!(error, StoreError::Refused(_)), "not an answer: {error:?}"),
            }
            Answer { text: format!("{answer:?}"), ..brought }
        };
        performed.boxed_local()
    }
}

/// The same step on both stores, whose answers are equal.
pub(crate) fn same<S: Known>(step: S) -> Call {
    viewed(step, |_, _| ())
}

/// The same step on both stores.
pub(crate) fn viewed<S: Known>(step: S, view: View<S>) -> Call {
    Rc::new(Pair { steps: [step.clone(), step], view })
}

/// A step that names entries. `make` gets the store's place in a pair.
pub(crate) fn of_side<S: Known>(make: impl Fn(usize) -> S) -> Call {
    Rc::new(Pair { steps: [make(0), make(1)], view: |_, _| () })
}

/// The entries of one store.
pub(crate) fn entries(pairs: &[EntryPair], side: usize) -> Vec<EntryId> {
    pairs.iter().map(|pair| pair[side]).collect()
}

pub(crate) fn read_pool(consumer: NodeName, max: usize) -> Call {
    viewed(ReadPool { consumer, max, block: Duration::ZERO }, |events, answer| {
        keep(events.iter_mut().flatten(), answer);
    })
}

pub(crate) fn claim_pool(consumer: NodeName, max: usize) -> Call {
    let view: View<ClaimPool> = |events, answer| keep(events.iter_mut().flatten(), answer);
    viewed(ClaimPool { consumer, min_idle: Duration::ZERO, max }, view)
}

fn keep<'a>(events: impl Iterator<Item = &'a mut PoolEvent>, answer: &mut Answer) {
    for event in events {
        answer.events.push(event.clone());
        event.entry = EntryId::default();
    }
}

pub(crate) fn read_node(node: NodeName, workers: &[WorkerId], max: usize) -> Call {
    let start = EntryId::default();
    let cursors = Cursors { workers: workers.iter().map(|worker| (*worker, start)).collect(), node: start };
    viewed(ReadNode { node, cursors, max, block: Duration::ZERO }, |events, _| {
        events.workers.iter_mut().for_each(|(_, entry, _)| *entry = EntryId::default());
        events.outcomes.iter_mut().for_each(|(entry, _)| *entry = EntryId::default());
    })
}

pub(crate) fn read_history(limit: usize) -> Call {
    viewed(ReadHistory { after: EntryId::default(), limit }, |page, _| {
        page.oldest = page.oldest.map(|_| EntryId::default());
        page.entries.iter_mut().for_each(|(entry, _)| *entry = EntryId::default());
    })
}

/// A body of this many bytes.
pub(crate) fn body(len: usize) -> Bytes {
    Bytes::from(vec![b'x'; len])
}
