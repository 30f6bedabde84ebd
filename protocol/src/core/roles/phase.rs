//! The pool as this node knows it: its incarnation, its phase and its server. The node finds all of them again after
//! any sign of data loss.
//!
//! ```text
//! Unknown ──survey──▶ absent ──bootstrap──▶ Recovering ──T of observation──▶ Normal
//!    ▲                present, other server ──recover──▶ Recovering            │
//!    │                present ─────────────────────────▶ Recovering or Normal  │
//!    └──────────────── any refusal that hints at loss ─────────────────────────┘
//! ```
//! In a new incarnation, a node's workers report their jobs (`attesting`). Phase R lasts until every member has done
//! so, and the last lease of a worker that the data do not know has run out.

use std::time::Duration;

use crate::core::call::Call;
use crate::core::ctx::{Config, Ctx, Purpose, RETRY};
use crate::core::effect::{Effect, Notice};
use crate::core::one_call::OneCall;
use crate::core::time::Time;
use crate::model::id::{Incarnation, Revision, Token, WorkerId};
use crate::mutation::Mutation;
use crate::step::{
    Bootstrap, Bootstrapped, OpenNormal, PoolState, Recover, Refusal, Result, Seen, ServerIdentity,
    StoreError, Survey,
};

/// More tokens than a pool gives out between two renewals of a node.
const UNSEEN_TOKENS: u64 = 1 << 20;
/// The longest pause of a node that may not recover its pool, because it is below the floor.
const REFUSED_RETRY: Duration = Duration::from_secs(5);

/// The state of the pool, as far as this node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::core) enum Phase {
    /// Not yet known.
    #[default]
    Unknown,
    /// Phase R, observed since then; the node may open the pool after `wait`.
    Recovering { since: Time, wait: Duration },
    /// Phase N.
    Normal,
    /// Shut down.
    Closed,
}

/// A change that concerns the rest of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Change {
    Nothing,
    /// An incarnation other than the known one, or the first.
    Incarnation,
    /// Phase N has begun; `opened`: this node has opened it.
    Normal {
        opened: bool,
    },
    /// The pool was shut down.
    Closed,
    /// There is no pool, and this node may only join an existing one.
    Missing,
}

/// One node's knowledge of its pool.
#[derive(Debug, Default)]
pub(in crate::core) struct PoolView {
    pub(in crate::core) phase: Phase,
    pub(in crate::core) incarnation: Option<Incarnation>,
    /// The highest numbers that the node has seen.
    pub(in crate::core) seen: Seen,
    /// The server process on which this incarnation began, or which the node blessed when it adopted the incarnation.
    began_on: Option<String>,
    members: Revision,
    /// The wait of a bootstrap under way.
    wait: Duration,
    /// The pool's settings may differ from this node's: the node must not write.
    pub(in crate::core) held_back: bool,
    /// The settings that the node hears belong to another incarnation, or to none: the pool may have ended meanwhile.
    pub(in crate::core) elsewhere: bool,
    /// The node may create a pool. If not, a tombstone ends the pool for this node, unless the tombstone is older
    /// than the pool.
    may_create: bool,
    /// The signs of a loss in this incarnation.
    lost: Option<(Incarnation, String)>,
    /// The opening of the pool was reported, and its end was not.
    said_opening: Option<Incarnation>,
    /// In this incarnation the pool was opened without a living worker of this node.
    opened_without: Option<Incarnation>,
    call: OneCall,
}

impl PoolView {
    pub(in crate::core) fn new(config: &Config) -> Self {
        Self { held_back: true, may_create: config.purpose != Purpose::End, ..Self::default() }
    }

    /// A token that this node has seen. Tokens that no pool mints are ignored.
    pub(in crate::core) fn saw_token(&mut self, token: Token) {
        if token <= Token::LAST {
            self.seen.token = self.seen.token.max(token);
        }
    }

    /// A floor that the pool has confirmed.
    pub(in crate::core) fn saw_floor(&mut self, floor: u32) {
        self.seen.floor = self.seen.floor.max(floor);
    }

    /// Incarnations that no pool has are ignored.
    fn saw_incarnation(&mut self, incarnation: Incarnation) {
        self.seen.incarnation = self.seen.incarnation.max(incarnation.sound().unwrap_or_default());
    }

    /// The highest numbers seen, with room for tokens that the pool gave out since. No living node may know of those,
    /// and the clock may be behind.
    fn beyond_seen(&self) -> Seen {
        let Seen { token, .. } = self.seen;
        let room = if token == Token::default() { 0 } else { UNSEEN_TOKENS };
        Seen { token: Token(token.0.saturating_add(room)).min(Token::LAST), ..self.seen }
    }

    /// The revisions of the maps on the server. A revision of the members that goes back is a sign of loss, and so is
    /// one that no map has.
    pub(in crate::core) fn saw_revisions(&mut self, members: Revision, settings: Revision) -> bool {
        let known = self.members;
        if members.is_sound() {
            self.members = known.max(members);
        }
        members < known || !members.is_sound() || !settings.is_sound()
    }

    /// The node now takes part in the pool: from now on a tombstone is its end.
    pub(in crate::core) fn attached(&mut self) {
        self.may_create = false;
    }

    /// The pool that this node was to join has been cleaned up: the node creates it again.
    pub(in crate::core) fn start_over(&mut self) {
        self.phase = Phase::Unknown;
        self.incarnation = None;
        self.began_on = None;
        self.members = Revision(0);
        // A new pool has no older members to keep out.
        self.seen.floor = 0;
    }

    /// A step was refused, or the server is another one. A refusal does not tell whose tombstone it has met, so the
    /// node looks at that, too.
    pub(in crate::core) fn doubt(&mut self, ctx: &Ctx, error: &StoreError) {
        let sign = matches!(
            error,
            StoreError::Refused(
                Refusal::NoPool
                    | Refusal::Closed
                    | Refusal::StaleIncarnation(_)
                    | Refusal::Recovering
                    | Refusal::Lost(_),
            ) | StoreError::OtherServer { .. }
        );
        if let StoreError::Refused(Refusal::Lost(signs)) = error {
            self.lost = self.incarnation.map(|incarnation| (incarnation, signs.clone()));
        }
        if sign && !matches!(self.phase, Phase::Unknown | Phase::Closed | Phase::Recovering { .. }) {
            self.phase = Phase::Unknown;
            self.call.set(ctx.now);
        } else if sign
            && matches!(self.phase, Phase::Recovering { .. })
            && !matches!(error, StoreError::Refused(Refusal::Recovering))
        {
            self.phase = Phase::Unknown;
            self.call.set(ctx.now + RETRY);
        }
    }

    /// The pool was opened before a living worker of this node could report its jobs: another incarnation gives it
    /// the time.
    pub(in crate::core) fn opened_without(&mut self, now: Time) {
        self.opened_without = self.incarnation;
        self.phase = Phase::Unknown;
        self.call.set(now);
    }

    /// The signs of a loss, if seen in this incarnation.
    fn lost_in(&self, incarnation: Incarnation) -> Option<&str> {
        self.lost.as_ref().filter(|(seen_in, _)| *seen_in == incarnation).map(|(_, signs)| signs.as_str())
    }

    fn closed(&mut self) -> Change {
        if self.phase == Phase::Closed {
            return Change::Nothing;
        }
        self.phase = Phase::Closed;
        Change::Closed
    }

    /// `needed`: this node has workers, or a caller wants it to join. Other nodes create no pool that is gone.
    pub(in crate::core) fn on_surveyed(
        &mut self,
        ctx: &mut Ctx,
        needed: bool,
        answer: Result<(PoolState, ServerIdentity)>,
    ) -> Change {
        self.call.again(ctx.now);
        let Ok((state, server)) = answer else { return Change::Nothing };
        let merges = ctx.config.broken.has(Mutation::NewPoolJoined);
        let ends = ctx.config.purpose == Purpose::End;
        let ends_with_any = ctx.config.broken.has(Mutation::OlderTombstoneEnds);
        self.saw_state(ctx, &state);
        match state {
            // An older pool stood there before the pool that this node knows: the data have gone back.
            PoolState::Closed { incarnation }
                if ends
                    || !self.may_create
                        && (self.incarnation.is_none_or(|known| known <= incarnation) || ends_with_any) =>
            {
                self.closed()
            }
            // A joining node has created another pool since: the fate of the former pool does not concern it.
            PoolState::Present { closed, .. }
                if !self.may_create && self.incarnation.is_some_and(|known| known <= closed) && !merges =>
            {
                self.closed()
            }
            PoolState::Absent if ends => self.closed(),
            PoolState::Absent | PoolState::Closed { .. } if self.may_create && ctx.config.must_exist => {
                Change::Missing
            }
            PoolState::Absent | PoolState::Closed { .. } => {
                ctx.pool_is_gone |= !needed;
                if needed {
                    self.bootstrap(ctx, &state, server);
                }
                Change::Nothing
            }
            PoolState::Present { incarnation, .. } if self.must_recover(ctx, &state, &server.run_id) => {
                self.recover(ctx, incarnation, server.run_id)
            }
            PoolState::Present { incarnation, recovering, .. } => {
                let wait = if recovering { Some(ctx.config.timing.ttl) } else { None };
                self.adopt(ctx, incarnation, server.run_id, wait)
            }
        }
    }

    fn saw_state(&mut self, ctx: &mut Ctx, state: &PoolState) {
        if let &(PoolState::Present { incarnation, .. } | PoolState::Closed { incarnation }) = state {
            self.saw_incarnation(incarnation);
        }
        if let &(PoolState::Present { closed, .. } | PoolState::Closed { incarnation: closed }) = state {
            self.seen.closed = self.seen.closed.max(closed);
        }
        if let &PoolState::Present { incarnation, members, settings, .. } = state
            && self.held_back
            && self.incarnation == Some(incarnation)
        {
            // No renewal may have told the node yet that it missed news of the maps.
            ctx.out.push(Effect::Expect { incarnation, members, settings });
        }
    }

    /// Whether the pool needs another incarnation: its data may have gone back, or its server is another process.
    fn must_recover(&self, ctx: &Ctx, state: &PoolState, run_id: &String) -> bool {
        let PoolState::Present { incarnation, recovering, run_id: blessed, members, settings, .. } = state
        else {
            return false;
        };
        let known = self.incarnation == Some(*incarnation);
        blessed != run_id
            || incarnation.sound().is_none()
            || !members.is_sound()
            || !settings.is_sound()
            || *recovering && ctx.open_in == Some(*incarnation)
            || known && *members < self.members
            || known && self.began_on.as_ref().is_some_and(|on| on != run_id)
            || self.opened_without == Some(*incarnation) && !recovering
            || self.lost_in(*incarnation).is_some() && !recovering
    }

    fn recover(&mut self, ctx: &mut Ctx, incarnation: Incarnation, run_id: String) -> Change {
        if self.held_back {
            return self.look_at_settings(ctx, incarnation, run_id);
        }
        self.call.start();
        let lost = self.lost_in(incarnation).unwrap_or_default().to_owned();
        if !lost.is_empty() {
            ctx.report(Notice::Lost { signs: lost.clone() });
        }
        let call = Call::Recover(Recover { seen: self.beyond_seen(), run_id, lost });
        ctx.out.push(Effect::Call { incarnation, call });
        Change::Nothing
    }

    /// A node that is not yet part of the pool meets it on an unknown server process: it reads the settings before it
    /// acts.
    fn look_at_settings(&mut self, ctx: &mut Ctx, incarnation: Incarnation, run_id: String) -> Change {
        ctx.out.push(Effect::Bless(run_id));
        self.began_on = None;
        if self.incarnation.replace(incarnation) == Some(incarnation) {
            Change::Nothing
        } else {
            Change::Incarnation
        }
    }

    /// Creates the pool in place of this one. After a loss of data, other nodes may still have leases.
    fn bootstrap(&mut self, ctx: &mut Ctx, state: &PoolState, server: ServerIdentity) {
        let ttl = ctx.config.timing.ttl;
        let ended = if let PoolState::Closed { incarnation } = state { *incarnation } else { Incarnation(0) };
        let lost = ended < self.seen.incarnation;
        // A tombstone may have come back after a later pool was lost, as an empty store may.
        let kept = server.uptime > ttl && !server.promoted && !server.flushed;
        let trusts_any = ctx.config.broken.has(Mutation::TombstoneTrusted);
        let trusted = trusts_any && matches!(state, PoolState::Closed { .. });
        let fresh = trusted || !lost && (ctx.config.assume_fresh || kept);
        self.call.start();
        self.wait = if fresh { Duration::ZERO } else { ttl };
        let (seen, settings) = (self.beyond_seen(), Box::new(ctx.config.founding()));
        ctx.call(Call::Bootstrap(Bootstrap { seen, run_id: server.run_id, settings }));
    }

    pub(in crate::core) fn on_bootstrapped(
        &mut self,
        ctx: &mut Ctx,
        run_id: String,
        answer: &Result<Bootstrapped>,
    ) -> Change {
        self.call.again(ctx.now);
        match answer {
            Ok(Bootstrapped { incarnation, created: true }) => {
                self.adopt(ctx, *incarnation, run_id, Some(self.wait))
            }
            Ok(_) | Err(_) => Change::Nothing,
        }
    }

    pub(in crate::core) fn on_recovered(
        &mut self,
        ctx: &mut Ctx,
        run_id: String,
        answer: &Result<Incarnation>,
    ) -> Change {
        self.call.is_back();
        let refused = matches!(answer, Err(StoreError::Refused(Refusal::Level(_))));
        // Only a newer node can recover the pool.
        let patience = REFUSED_RETRY.min(ctx.config.timing.ttl / 4).max(RETRY);
        self.call.set(ctx.now + if refused { patience } else { RETRY });
        match answer {
            Ok(incarnation) => self.adopt(ctx, *incarnation, run_id, Some(ctx.config.timing.ttl)),
            Err(_) => Change::Nothing,
        }
    }

    /// `wait`: phase R, which the node may open after it; `None`: phase N.
    fn adopt(
        &mut self,
        ctx: &mut Ctx,
        incarnation: Incarnation,
        run_id: String,
        wait: Option<Duration>,
    ) -> Change {
        self.saw_incarnation(incarnation);
        self.began_on = Some(run_id.clone());
        ctx.pool_is_gone = false;
        ctx.out.push(Effect::Bless(run_id));
        let other = self.incarnation != Some(incarnation);
        if other {
            self.incarnation = Some(incarnation);
            self.members = Revision(0);
            if !self.held_back {
                ctx.out.push(Effect::Renew { incarnation });
            }
        }
        match wait {
            // Other nodes may open it earlier: this node looks until then.
            Some(_) if !other && matches!(self.phase, Phase::Recovering { .. }) => {}
            Some(wait) => {
                self.phase = Phase::Recovering { since: ctx.now, wait };
                if self.said_opening.replace(incarnation) != Some(incarnation) {
                    ctx.report(Notice::Recovering { incarnation, wait });
                }
            }
            None => self.is_open(ctx, incarnation),
        }
        if let Phase::Recovering { since, wait } = self.phase {
            let left = wait.saturating_sub(ctx.now.since(since));
            self.call.set(ctx.now + (ctx.config.timing.ttl / 50).min(left).max(RETRY));
        }
        match (other, wait) {
            (true, _) => Change::Incarnation,
            (false, None) => Change::Normal { opened: false },
            (false, Some(_)) => Change::Nothing,
        }
    }

    pub(in crate::core) fn on_opened(&mut self, ctx: &mut Ctx, answer: Result<Option<WorkerId>>) -> Change {
        self.call.is_back();
        self.call.set(ctx.now + ctx.config.timing.ttl / 10);
        let (Phase::Recovering { .. }, Some(incarnation)) = (self.phase, self.incarnation) else {
            return Change::Nothing;
        };
        match answer {
            Ok(None) => {
                self.is_open(ctx, incarnation);
                Change::Normal { opened: true }
            }
            Ok(Some(_)) => Change::Nothing,
            Err(error) => {
                self.doubt(ctx, &error);
                Change::Nothing
            }
        }
    }

    /// Phase N, opened by any node.
    fn is_open(&mut self, ctx: &mut Ctx, incarnation: Incarnation) {
        self.phase = Phase::Normal;
        ctx.open_in = Some(incarnation);
        if self.said_opening.take().is_some() {
            ctx.report(Notice::Normal { incarnation });
        }
    }

    pub(in crate::core) fn flush(&mut self, ctx: &mut Ctx) {
        if self.deadline().is_none() || !self.call.begin(ctx.now) {
            return;
        }
        let stays = ctx.config.broken.has(Mutation::RecoveryStays);
        let opens = |wait: Duration| !self.held_back && (wait.is_zero() || !stays);
        match self.phase {
            Phase::Recovering { since, wait } if ctx.now.since(since) >= wait && opens(wait) => {
                ctx.call(Call::OpenNormal(OpenNormal));
            }
            _ => ctx.call(Call::Survey(Survey)),
        }
    }

    pub(in crate::core) fn deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::Unknown | Phase::Recovering { .. } => self.call.deadline(),
            // Its knowledge of the pool may be too old, and it sends no step yet whose refusal would show that.
            Phase::Normal if self.held_back && self.elsewhere => self.call.deadline(),
            Phase::Normal | Phase::Closed => None,
        }
    }
}
