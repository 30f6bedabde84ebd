//! Commands of the node's users, each handed to its part.

use super::{End, Engine};
use crate::core::effect::Effect;
use crate::core::input::{Answer, Command};
use crate::core::roles::phase::Phase;
use crate::core::worker::Worker;
use crate::error::{DispatchError, Error};

impl Engine {
    pub(super) fn on_command(&mut self, command: Command) {
        let closed = self.end != End::No || self.pool.phase == Phase::Closed;
        let leaving = self.closing.leaving;
        let ctx = &mut self.ctx;
        match command {
            Command::Attach { reply } => self.attaching.push(reply),
            Command::AddWorker { reply, local, meta, capacity } => {
                if closed || leaving {
                    ctx.reply(reply, Answer::WorkerAdded(Err(Error::NodeClosed)));
                } else {
                    self.workers.insert(local, Worker::new(local, meta, capacity, Some(reply)));
                }
            }
            Command::Submit { reply, item, started, deadline } => {
                if closed || leaving {
                    ctx.reply(reply, Answer::Submitted(Err(DispatchError::NodeClosed)));
                } else {
                    self.dispatching.submit(ctx, reply, item, started, deadline);
                }
            }
            Command::Wait { reply, ticket, deadline } => self.dispatching.wait(ctx, reply, ticket, deadline),
            Command::Notify { reply, start: Some(_), .. } if closed || leaving => {
                ctx.reply(reply, Answer::Notified(Err(Error::NodeClosed)));
            }
            Command::Ask { reply, .. } if closed || leaving => {
                ctx.reply(reply, Answer::Asked(Err(Error::NodeClosed.into())));
            }
            Command::StopJob { .. }
            | Command::Notify { .. }
            | Command::Ask { .. }
            | Command::Steer { .. }
            | Command::Unpark { .. }
            | Command::Update { .. } => self.requests.add(ctx, &self.ring, command),
            Command::Schedule { reply, local, new } => {
                let refused = match &self.closing.flag {
                    _ if closed || leaving => Some(Error::NodeClosed),
                    Some(_) => Some(Error::ShuttingDown),
                    None => self.too_old.map(Error::TooOld),
                };
                match refused {
                    Some(refused) => {
                        ctx.reply(reply, Answer::Scheduled(Err(refused)));
                        ctx.out.push(Effect::ScheduleEnded { local });
                    }
                    None => self.scheduling.add(ctx, reply, local, new),
                }
            }
            Command::SetPeriod { reply, local, period } => {
                self.scheduling.change(ctx, reply, local, period);
            }
            Command::EndSchedule { reply, local } => self.scheduling.end(ctx, reply, local),
            Command::LeaveSchedule { reply, local } => self.scheduling.leave(ctx, Some(reply), local),
            Command::DrainWorker { reply, local } => match self.workers.get_mut(&local) {
                Some(worker) => worker.drain(ctx, Some(reply)),
                None => ctx.reply(reply, Answer::Drained(Ok(()))),
            },
            Command::Close { reply, deadline } => {
                self.closing.close(reply, deadline);
                self.scheduling.leave_all(ctx);
                for worker in self.workers.values_mut() {
                    worker.drain(ctx, None);
                }
            }
            Command::Shutdown { reply, mode, deadline } => self.closing.shut_down(reply, mode, deadline),
        }
    }
}
