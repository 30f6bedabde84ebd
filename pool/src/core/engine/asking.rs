//! Asks of this node's users, and asks for its workers' jobs: the store's answers to the calls about them.

use super::Engine;
use super::answers::first;
use crate::core::batcher::may_be_done;
use crate::core::call::{Done, READ_ENTRIES};
use crate::store::{Reply, Result};

impl Engine {
    pub(super) fn on_asks(&mut self, done: Done) -> Result<()> {
        let now = self.ctx.now;
        match done {
            Done::Ask(_, Ok(replies)) => {
                let is_late = self.asking.on_asked(&mut self.ctx, &replies);
                self.clock.next = if is_late { now } else { self.clock.next };
            }
            Done::Ask(_, Err(error)) => {
                let (news, key) = self.asking.send_again(&mut self.ctx, &error, may_be_done(&error));
                return self.heard(news, key, error);
            }
            Done::LookAtAsked(_, Ok(found)) => {
                let normal = self.is_normal();
                self.asking.on_looked(&mut self.ctx, found, normal);
            }
            Done::LookAtAsked(_, Err(error)) => {
                let (news, key) = self.asking.look_again(now, &error);
                return self.heard(news, key, error);
            }
            Done::Reply(Reply { worker, finished, items }, answer) => {
                let Some((worker, ctx)) = self.worker_at(worker) else { return Ok(()) };
                match answer {
                    Ok(replies) => worker.jobs.on_replied(ctx.now, &finished, items, &replies),
                    Err(error) => {
                        let key = first(items.iter().map(|item| &item.key));
                        let news = worker.jobs.reply_again(ctx.now, finished, items, &error);
                        return self.heard(news, key, error);
                    }
                }
            }
            Done::ReadLast(step, answer) => {
                let worker = step.cursors.workers.into_keys().next();
                if let Some((worker, ctx)) = worker.and_then(|worker| self.worker_at(worker)) {
                    worker.jobs.on_last_read(ctx, answer.ok(), READ_ENTRIES);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
