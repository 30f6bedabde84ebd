//! The wish that all jobs move now (a part of [`Engine`]). The message about a change of the members may be lost or late, so
//! the node first looks at their revision. It then goes by the ring of that revision, or of a later one.

use super::Engine;
use crate::core::call::Call;
use crate::core::ctx::{Ctx, RETRY};
use crate::core::effect::Effect;
use crate::core::one_call::OneCall;
use crate::core::time::Time;
use crate::model::id::Revision;
use crate::mutation::Mutation;
use crate::step::{PoolState, ReadState, Result};

/// How far the wish has come.
#[derive(Debug, Default)]
pub(super) struct MovesNow {
    /// Somebody wants it: the node looks at the revision.
    wanted: bool,
    look: OneCall,
    /// The revision that was seen. The ring is older.
    by: Option<Revision>,
}

impl MovesNow {
    /// Another incarnation has other revisions.
    pub(super) fn reset(&mut self, now: Time) {
        if self.by.take().is_some() || self.look.is_busy() {
            self.want(now);
        }
    }

    fn want(&mut self, now: Time) {
        self.wanted = true;
        self.look.set(now);
    }

    pub(super) fn flush(&mut self, ctx: &mut Ctx) {
        if self.wanted && self.look.begin(ctx.now) {
            self.wanted = false;
            ctx.call(Call::Revisions(ReadState));
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.look.deadline().filter(|_| self.wanted)
    }
}

impl Engine {
    /// Somebody wants all jobs that are astray to move now.
    pub(super) fn wants_moves_now(&mut self) {
        if self.ctx.config.broken.has(Mutation::MoveNowByAnyRing) {
            return self.move_all();
        }
        self.moves_now.want(self.ctx.now);
    }

    pub(super) fn on_revisions(&mut self, answer: Result<PoolState>) -> Result<()> {
        let moves = &mut self.moves_now;
        moves.look.is_back();
        if moves.wanted {
            return answer.map(drop); // it is wanted again, and this look may be older
        }
        match answer {
            Ok(PoolState::Present { incarnation, members, settings, .. })
                if self.pool.incarnation == Some(incarnation) =>
            {
                moves.by = Some(members);
                self.ctx.out.push(Effect::Expect { incarnation, members, settings });
                self.move_by_this_ring();
                Ok(())
            }
            other => {
                moves.want(self.ctx.now + RETRY);
                other.map(drop)
            }
        }
    }

    /// Moves what is astray, if that is wanted and the ring is new enough.
    pub(super) fn move_by_this_ring(&mut self) {
        if self.moves_now.by.is_some_and(|by| self.members.revision >= by) {
            self.moves_now.by = None;
            self.move_all();
        }
    }

    fn move_all(&mut self) {
        let Self { workers, ctx, .. } = self;
        for worker in workers.values_mut() {
            worker.move_now(ctx);
        }
    }
}
