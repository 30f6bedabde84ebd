//! Those whom the messages to a node concern: workers and callers that wait for jobs, and watchers of jobs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::effect::{About, Call, Effect, Heard, Level};
use super::input::Number;
use crate::model::id::{GroupName, JobId, QueueName};
use crate::store::{MOST, News, StoreError, Watching};

/// The subject of a subscription.
#[derive(Debug)]
pub(crate) enum Topic {
    /// Ready jobs of a queue; of a pinned queue, those of this group.
    Ready(QueueName, Option<GroupName>),
    /// A job that is watched.
    Job(JobId),
}

/// All subscribers of a node.
#[derive(Debug)]
pub(super) struct Subscribers {
    waiting: BTreeSet<(QueueName, Option<GroupName>, Number)>,
    watchers: BTreeSet<(JobId, Number)>,
    topics: BTreeMap<Number, Vec<Topic>>,
    /// The number of the last call that watches or does so no more. The latest word is the true word.
    call: u64,
    /// Calls that watch again: the number of them, and the jobs of those behind the call in flight.
    again: Option<(u64, VecDeque<Vec<JobId>>)>,
    /// There was another gap since.
    once_more: bool,
    /// The store refuses to send messages.
    is_refused: bool,
}

impl Subscribers {
    /// The calls of this node have numbers above this one.
    pub(super) fn new(call: u64) -> Self {
        let (waiting, watchers, topics) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        Self { waiting, watchers, topics, call, again: None, once_more: false, is_refused: false }
    }

    fn next_call(&mut self) -> u64 {
        self.call += 1;
        self.call
    }

    /// From now on a subscriber is told, of one more topic.
    pub(super) fn add(&mut self, number: Number, topic: Topic, out: &mut Vec<Effect>) {
        match &topic {
            Topic::Ready(queue, group) => {
                self.waiting.insert((queue.clone(), group.clone(), number));
            }
            Topic::Job(id) => {
                self.watchers.insert((id.clone(), number));
                out.push(Effect::Tell(number, Heard::Watches(self.next_call())));
            }
        }
        self.topics.entry(number).or_default().push(topic);
    }

    pub(super) fn remove(&mut self, number: Number, out: &mut Vec<Effect>) {
        for topic in self.topics.remove(&number).into_iter().flatten() {
            match topic {
                Topic::Ready(queue, group) => {
                    self.waiting.remove(&(queue, group, number));
                }
                Topic::Job(id) => {
                    self.watchers.remove(&(id.clone(), number));
                    if self.of(&id).next().is_none() {
                        out.push(Effect::Call(Call::Watch(Watching::End, self.next_call(), vec![id])));
                    }
                }
            }
        }
    }

    fn of<'a>(&'a self, id: &JobId) -> impl Iterator<Item = Number> + use<'a> {
        self.watchers.range((id.clone(), 0)..=(id.clone(), Number::MAX)).map(|(_, number)| *number)
    }

    /// Whom ready jobs of a queue concern, or of a group of a pinned queue.
    pub(super) fn waiting(&self, queue: QueueName, group: Option<GroupName>) -> Vec<Number> {
        let first = (queue.clone(), group.clone(), 0);
        self.waiting.range(first..=(queue, group, Number::MAX)).map(|(.., number)| *number).collect()
    }

    /// All who wait for jobs.
    pub(super) fn all_waiting(&self) -> Vec<Number> {
        self.waiting.iter().map(|(.., number)| *number).collect()
    }

    pub(super) fn tell(&self, news: &News, out: &mut Vec<Effect>) {
        out.extend(self.of(&news.id).map(|number| Effect::Tell(number, Heard::News(news.clone()))));
    }

    fn tell_all_of_the_gap(&self, out: &mut Vec<Effect>) {
        out.extend(self.watchers.iter().map(|(_, number)| Effect::Tell(*number, Heard::Gap)));
    }

    /// The store refuses to send messages.
    pub(super) fn refused(&mut self, why: String, out: &mut Vec<Effect>) {
        let why = About::Error(StoreError::unusable(why).into());
        out.push(if std::mem::replace(&mut self.is_refused, true) {
            Effect::Report(Level::Debug, "the store still refuses to send messages", why)
        } else {
            let alone = "the store refuses to send messages, the node only looks for itself";
            Effect::Report(Level::Warn, alone, why)
        });
    }

    /// The store sends messages.
    pub(super) fn heard(&mut self, out: &mut Vec<Effect>) {
        if std::mem::take(&mut self.is_refused) {
            out.push(Effect::Report(Level::Info, "the store sends messages again", About::Node));
        }
    }

    /// Messages may have been missed: all that is watched is watched again.
    pub(super) fn watch_again(&mut self, out: &mut Vec<Effect>) {
        if self.again.is_some() {
            self.once_more = true;
            return;
        }
        self.tell_all_of_the_gap(out);
        let ids: BTreeSet<_> = self.watchers.iter().map(|(id, _)| id).collect();
        let ids: Vec<_> = ids.into_iter().cloned().collect();
        if !ids.is_empty() {
            let pages = ids.chunks(MOST).map(<[JobId]>::to_vec).collect();
            let number = self.next_call();
            self.next_page(number, pages, out);
        }
    }

    fn next_page(&mut self, number: u64, mut pages: VecDeque<Vec<JobId>>, out: &mut Vec<Effect>) {
        match pages.pop_front() {
            Some(ids) => {
                out.push(Effect::Call(Call::Watch(Watching::Again, number, ids)));
                self.again = Some((number, pages));
            }
            // A second look finds the changes between the gap and the watch.
            None => self.tell_all_of_the_gap(out),
        }
    }

    /// The call in flight has come back, done or not.
    pub(super) fn watched_again(&mut self, done: bool, out: &mut Vec<Effect>) {
        if let Some((number, pages)) = self.again.take().filter(|_| done) {
            self.next_page(number, pages, out);
        }
        if self.again.is_none() && std::mem::take(&mut self.once_more) {
            self.watch_again(out);
        }
    }
}
