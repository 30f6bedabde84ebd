//! Watchers hear of the transitions of a job.

use bytes::Bytes;

use super::edit::{Edit, flag, unflag};
use crate::model::id::JobId;
use crate::model::record::{Record, State as JobState};
use crate::store::{Hint, News};

/// State, data, end and notes of a transition.
type Transition = (Option<JobState>, Option<Bytes>, Option<Bytes>, Option<Bytes>);

/// A node that watches a job, and the number of the node's call.
pub(super) fn watcher(entry: &str) -> (&str, u64) {
    let (node, number) = entry.rsplit_once('#').unwrap_or((entry, ""));
    (node, number.parse().unwrap_or_default())
}

impl Edit<'_> {
    /// Watchers hear of a transition.
    pub(super) fn tell(
        &mut self,
        id: &str,
        job: &mut Record,
        state: Option<JobState>,
        body: Option<Bytes>,
        outcome: Option<Bytes>,
    ) {
        self.tell_change(id, job, (state, body, outcome, None));
    }

    /// Watchers of a running job hear of new notes.
    pub(super) fn tell_notes(&mut self, id: &JobId, job: &mut Record, notes: &Bytes) {
        self.tell_change(id.as_str(), job, (Some(JobState::Running), None, None, Some(notes.clone())));
    }

    fn tell_change(&mut self, id: &str, job: &mut Record, (state, body, outcome, notes): Transition) {
        if !job.has('w') {
            return;
        }
        job.news += 1;
        self.put(id, job);
        if let Ok(id) = JobId::new(id) {
            let (token, number) = (job.token, job.news);
            self.news.push(News { id, state, token, number, body, outcome, notes });
        }
    }

    /// A watched job begins: the watchers hear of the start at once.
    pub(super) fn tell_begun(&mut self, id: &JobId, job: &mut Record) {
        if !job.has('w') {
            return;
        }
        job.news += 1;
        self.put(id.as_str(), job);
        let (state, number) = (Some(JobState::Running), job.news);
        let (id, token) = (id.clone(), job.token);
        let field = format!("s:{id}");
        let news = News { id, state, token, number, body: None, outcome: None, notes: None };
        let nodes = String::from_utf8_lossy(&self.state.data.extra(&field)).into_owned();
        for entry in nodes.split(',') {
            self.publish(watcher(entry).0, Hint::News(news.clone()));
        }
    }

    pub(super) fn tell_all(&mut self) {
        for news in std::mem::take(&mut self.news) {
            let (id, field) = (news.id.clone(), format!("s:{}", news.id));
            let nodes = String::from_utf8_lossy(&self.state.data.extra(&field)).into_owned();
            let hears = |entry: &&str| self.publish(watcher(entry).0, Hint::News(news.clone()));
            let (left, deaf): (Vec<_>, Vec<_>) = nodes.split(',').partition(hears);
            let Some(mut job) = self.job(id.as_str()) else {
                self.state.data.extras.remove(&field);
                continue;
            };
            // A node that is back asks again, and finds an end that came before.
            if deaf.iter().any(|entry| !entry.is_empty()) {
                flag(&mut job, 'v');
            }
            if left.is_empty() {
                self.state.data.extras.remove(&field);
                unflag(&mut job, "w");
            } else {
                self.state.data.extras.insert(field, left.join(",").into());
            }
            self.put(id.as_str(), &job);
        }
    }
}
