//! The sources of a node's news: the answers of the store, and the notices of its engine.

use super::Chronicle;
use crate::core::call::Done;
use crate::core::effect::{Attested, Effect, Notice};
use crate::core::input::{HandlerEvent, Input};
use crate::core::time::Time;
use crate::model::event::{EventKind, News};
use crate::model::paused::Paused;
use crate::model::why::Cause;
use crate::store::{Reap, Release, ReleaseMode, ReleaseReply, loss};

impl Chronicle {
    /// An input of the engine.
    pub(in crate::runtime) fn hear(&mut self, now: Time, input: &Input) {
        let done = match input {
            Input::Done(done) => done,
            Input::Handler { worker, key, event: HandlerEvent::Started, .. } if self.tells_ordinary(now) => {
                return self.add(now, News::of_job(EventKind::Started, key.clone()).at(*worker));
            }
            _ => return,
        };
        match &**done {
            Done::Release(Release { worker, items, .. }, Ok(replies)) => {
                for (item, reply) in items.iter().zip(replies) {
                    // The engine tells of failures. A run that ends well and starts again is an ordinary one.
                    let is_told = matches!(item.mode, ReleaseMode::Fail) || item.cause == Cause::Restarted;
                    if *reply == ReleaseReply::Queued && !is_told {
                        let cause =
                            if item.mode == ReleaseMode::Delete { Cause::Updated } else { item.cause };
                        let moved = News::of_job(EventKind::Moved, item.key.clone()).at(*worker);
                        self.add(now, News { why: Some(cause), ..moved });
                    }
                    if *reply == ReleaseReply::Deleted && self.tells_ordinary(now) {
                        let ended = News::of_job(EventKind::Ended, item.key.clone()).at(*worker);
                        self.add(now, ended.saying(&item.result));
                    }
                }
            }
            Done::Reap(Reap { worker, .. }, Ok(reaped)) if reaped.count > 0 => {
                self.add(now, News { count: reaped.count as u64, ..News::new(EventKind::Lost) }.at(*worker));
            }
            _ => {}
        }
    }

    /// An effect of the engine.
    pub(in crate::runtime) fn see(&mut self, now: Time, effect: &Effect) {
        match effect {
            Effect::Renew { incarnation } => self.live_in(*incarnation),
            Effect::Seated { local, worker: Some(worker) }
                if self.seated.insert(*local, *worker) != Some(*worker) =>
            {
                self.add(now, News::new(EventKind::Joined).at(*worker));
            }
            Effect::Seated { local, worker: None } => {
                if let Some(worker) = self.seated.remove(local) {
                    self.add(now, News::new(EventKind::Left).at(worker));
                }
            }
            Effect::Report(notice) => {
                if let Some(news) = of_notice(notice) {
                    self.add(now, news);
                }
            }
            _ => {}
        }
    }
}

fn of_notice(notice: &Notice) -> Option<News> {
    Some(match notice {
        Notice::Recovering { .. } => News::new(EventKind::Opening),
        Notice::Normal { .. } => News::new(EventKind::Open),
        Notice::Expired { worker, of } => {
            News::new(EventKind::Lost).at(*worker).saying(of.as_deref().unwrap_or_default())
        }
        Notice::Fenced { worker, jobs } => {
            News { count: *jobs as u64, ..News::new(EventKind::Fenced) }.at(*worker)
        }
        Notice::Attested { worker, count } => {
            let Attested { kept, stopped, outranked, unreadable, ended, requeued, gone } = *count;
            let others = [
                ("stopped", stopped),
                ("outranked", outranked),
                ("unreadable", unreadable),
                ("ended", ended),
                ("queued again", requeued),
                ("gone", gone),
            ];
            let others = others.into_iter().filter(|(_, count)| *count > 0);
            let text: Vec<_> = others.map(|(what, count)| format!("{count} {what}")).collect();
            News { count: kept as u64, ..News::new(EventKind::Reported) }.at(*worker).saying(&text.join(", "))
        }
        Notice::Lost { signs } => News::new(EventKind::Damaged).saying(&loss(signs)),
        Notice::Damaged { signs } if !signs.is_empty() => News::new(EventKind::Damaged).saying(&loss(signs)),
        Notice::Stuck { key, .. } => News::of_job(EventKind::Stuck, key.clone()),
        Notice::Failed { key, error, .. } => News::of_job(EventKind::Failed, key.clone()).saying(error),
        Notice::Parked { key, error } => News::of_job(EventKind::Parked, key.clone()).saying(error),
        Notice::Paused { key, pause } => {
            let (by, reason) = Paused::parts(pause);
            News::of_job(EventKind::Paused, key.clone()).saying(&format!("{by}: {reason}"))
        }
        Notice::ParkedUnowned { id } => News { count: 1, ..News::new(EventKind::Parked) }
            .saying(&format!("the dispatch {id} lost too many workers")),
        _ => return None,
    })
}
