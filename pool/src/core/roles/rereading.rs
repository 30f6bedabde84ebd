//! When the copies of the pool's maps are read again although their revisions are the map's: a repair by hand changes
//! entries without a revision, and nothing else would tell of it.

use std::time::Duration;

use crate::core::ctx::Ctx;
use crate::core::effect::Effect;
use crate::core::time::Time;

/// How often the settings are read again.
const EVERY: Duration = Duration::from_secs(60);
/// The most members that are read again each time, on average: with more of them it happens less often.
const MEMBERS: usize = 1_000;

/// How far it has come.
#[derive(Debug, Default)]
pub(crate) struct Rereading {
    last: Option<Time>,
    rounds: usize,
}

impl Rereading {
    /// Asks for another reading when it is time. The first look only begins the time: the copies are new.
    pub(crate) fn flush(&mut self, ctx: &mut Ctx, members: usize) {
        let Some(last) = self.last else {
            self.last = Some(ctx.now);
            return;
        };
        if ctx.now.since(last) < EVERY {
            return;
        }
        self.last = Some(ctx.now);
        self.rounds += 1;
        let members = self.rounds.is_multiple_of(1 + members / MEMBERS);
        ctx.out.push(Effect::Reread { members });
    }
}
