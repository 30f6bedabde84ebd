//! The store's answers to the calls about jobs of this node's workers.

use super::Engine;
use super::answers::first;
use crate::core::call::{Done, READ_ENTRIES};
use crate::core::ctx::Ctx;
use crate::core::worker::Worker;
use crate::model::id::WorkerId;
use crate::step::{
    BeginReply, Refusal, Release, Reply, Result, Save, StoreError, Take, WorkerBegins, WorkerBegun,
    WorkerStarts,
};

impl Engine {
    pub(super) fn worker_at(&mut self, id: WorkerId) -> Option<(&mut Worker, &mut Ctx)> {
        let worker = self.workers.values_mut().find(|w| w.jobs.worker() == id)?;
        Some((worker, &mut self.ctx))
    }

    pub(super) fn on_ownership(&mut self, done: Done) -> Result<()> {
        match done {
            Done::Begin(step, answer) => return self.on_begins(step.begins, answer),
            Done::Started(step, answer) => return self.on_starts(step.starts, answer),
            Done::Release(Release { worker, finished, items }, answer) => {
                let Some((worker, ctx)) = self.worker_at(worker) else { return Ok(()) };
                match answer {
                    Ok(replies) => worker.jobs.on_released(ctx, &finished, items, &replies),
                    Err(error) => return worker.jobs.release_again(ctx, finished, items, error),
                }
            }
            Done::Take(Take { worker, finished, items }, answer) => {
                let Some((worker, ctx)) = self.worker_at(worker) else { return Ok(()) };
                match answer {
                    answer if worker.jobs.take_was_abandoned() => {
                        worker.jobs.not_taken(&items);
                        return answer.map(drop);
                    }
                    Ok(replies) => worker.jobs.on_taken(ctx, &finished, items, replies),
                    Err(error) => return worker.jobs.take_again(ctx, finished, items, error),
                }
            }
            Done::Save(Save { worker, items }, answer) => {
                let Some((worker, ctx)) = self.worker_at(worker) else { return Ok(()) };
                match answer {
                    Ok(replies) => worker.jobs.on_saved(ctx, items, &replies),
                    Err(error) => return worker.jobs.save_failed(ctx, items, error),
                }
            }
            Done::Reply(Reply { worker, finished, items }, answer) => {
                let Some((worker, ctx)) = self.worker_at(worker) else { return Ok(()) };
                match answer {
                    Ok(replies) => worker.jobs.on_replied(ctx.now, &finished, items, &replies),
                    Err(error) => return worker.jobs.reply_again(ctx, finished, items, error),
                }
            }
            Done::ReadLast(step, answer) => {
                let worker = step.cursors.workers.into_keys().next();
                if let Some((worker, ctx)) = worker.and_then(|worker| self.worker_at(worker)) {
                    worker.jobs.on_last_read(ctx, answer.ok(), READ_ENTRIES);
                }
            }
            Done::Owned(step, answer) => {
                if let Some((worker, ctx)) = self.worker_at(step.worker) {
                    return worker.on_owned(ctx, answer);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn on_begins(&mut self, begins: Vec<WorkerBegins>, answer: Result<Vec<WorkerBegun>>) -> Result<()> {
        self.shared_calls.in_flight.begins = false;
        let error = match answer {
            Ok(answers) => {
                self.shared_calls.begins.widen();
                begins.into_iter().zip(answers).for_each(|(begins, answer)| self.on_begun(begins, answer));
                return Ok(());
            }
            Err(error) => error,
        };
        let whole = begins.iter().map(|begins| begins.jobs.len()).sum();
        let key = first(begins.iter().flat_map(|begins| &begins.jobs).map(|(key, _)| key));
        self.shared_calls.begins.narrow(whole, &error);
        let mut news = whole == 0;
        for begins in begins {
            let Some((worker, ctx)) = self.worker_at(begins.worker) else { continue };
            if !worker.jobs.begins_were_abandoned() {
                news |= worker.jobs.begin_again(ctx, begins, whole, &error);
            }
        }
        self.ctx.heard(news, key, error)
    }

    fn on_begun(&mut self, begins: WorkerBegins, answer: WorkerBegun) {
        let Some(worker) = self.workers.values_mut().find(|w| w.jobs.worker() == begins.worker) else {
            return;
        };
        let ctx = &mut self.ctx;
        match answer {
            Err(Refusal::Fenced) => worker.fence(ctx),
            _ if worker.jobs.begins_were_abandoned() => {}
            Err(Refusal::ShuttingDown) => worker.jobs.on_begin_shut(begins.finished, begins.jobs),
            Err(refusal) => {
                let whole = begins.jobs.len();
                worker.jobs.begin_again(ctx, begins, whole, &StoreError::Refused(refusal));
            }
            Ok(replies) => {
                let WorkerBegins { finished, jobs, .. } = begins;
                let begun = replies.iter().any(|reply| matches!(reply, BeginReply::Begun(_)));
                let highest = jobs.iter().map(|(_, token)| *token).max();
                worker.check_places(ctx, &self.ring, &replies, &jobs);
                worker.jobs.on_begun(ctx, &finished, jobs, replies);
                if let Some(token) = highest.filter(|_| begun) {
                    self.pool.saw_token(token);
                }
            }
        }
    }

    fn on_starts(&mut self, starts: Vec<WorkerStarts>, answer: Result<Vec<bool>>) -> Result<()> {
        self.shared_calls.in_flight.starts = false;
        let whole = starts.iter().map(|starts| starts.items.len()).sum();
        let error = match answer {
            Ok(noted) => {
                self.shared_calls.starts.widen();
                let mut rest = &*noted;
                for WorkerStarts { worker, finished, items } in starts {
                    let (noted, others) = rest.split_at(items.len().min(rest.len()));
                    rest = others;
                    if let Some((worker, ctx)) = self.worker_at(worker) {
                        worker.jobs.on_started_noted(ctx.now, &finished, items, noted);
                    }
                }
                return Ok(());
            }
            Err(error) => error,
        };
        let key = first(starts.iter().flat_map(|starts| &starts.items).map(|item| &item.key));
        self.shared_calls.starts.narrow(whole, &error);
        let mut news = false;
        for WorkerStarts { worker, finished, items } in starts {
            if let Some((worker, ctx)) = self.worker_at(worker) {
                news |= worker.jobs.start_again(ctx.now, finished, items, whole, &error);
            }
        }
        self.ctx.heard(news, key, error)
    }
}
