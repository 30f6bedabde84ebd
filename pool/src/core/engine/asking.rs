//! Asks for this node's jobs: the store's answers to the calls about them.

use super::Engine;
use super::answers::first;
use crate::core::call::{Done, READ_ENTRIES};
use crate::store::{Reply, Result};

impl Engine {
    pub(super) fn on_asks(&mut self, done: Done) -> Result<()> {
        match done {
            Done::Reply(Reply { worker, finished, items }, answer) => {
                let Some((worker, ctx)) = self.worker_at(worker) else { return Ok(()) };
                match answer {
                    Ok(replies) => worker.jobs.on_replied(ctx.now, &finished, items, &replies),
                    Err(error) => {
                        let key = first(items.iter().map(|item| &item.key));
                        let news = worker.jobs.reply_again(ctx.now, finished, items, &error);
                        return self.ctx.heard(news, key, error);
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
