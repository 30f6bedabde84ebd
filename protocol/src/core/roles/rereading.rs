//! When a node reads the pool's maps again at an unchanged revision. A repair by hand changes entries without a
//! revision, so only another reading shows it.

use std::time::Duration;

use crate::core::ctx::Ctx;
use crate::core::effect::Effect;
use crate::core::time::Time;

/// How often the settings are read again.
const EVERY: Duration = Duration::from_secs(60);
/// The most members for a reading every time. More members are read less often.
const MEMBERS: usize = 1_000;

/// The progress of the readings.
#[derive(Debug, Default)]
pub(crate) struct Rereading {
    last: Option<Time>,
    rounds: usize,
}

impl Rereading {
    /// Asks for another reading when it is time. The first call only starts the pause: the copies are new.
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
