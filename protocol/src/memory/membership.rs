//! The pool's creation and recovery, its members and their end.

use std::collections::{BTreeMap, BTreeSet};

use super::state::{Dead, State};
use crate::model::id::{Incarnation, NodeName, Revision, Token, WorkerId};
use crate::model::level::is_address;
use crate::model::member::{Member, MemberState};
use crate::model::settings::{Settings, is_fixed};
use crate::mutation::Mutation;
use crate::step::{
    Bootstrapped, Expired, JoinRequest, PoolState, Refusal, Renewal, Seat, Seen, SettingChange, WhenFull,
    WorkerStream,
};

/// Preferred slots are below this.
const PREFERRED_MAX: u32 = 65_536;
/// The start of the count of tokens: 2025-01-01, ms.
const TOKEN_EPOCH: u64 = 1_735_689_600_000;
/// How many tokens the floor leaves room for, per ms.
const TOKENS_PER_MS: u64 = 4_096;
/// The highest token that a clock alone can lead to: half of all tokens.
const CLOCKS_TOKENS: u64 = 1 << 52;

pub(super) fn is_meta(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:.-".contains(&b))
}

impl State {
    /// The state of the pool.
    pub(super) fn pool_state(&self) -> PoolState {
        match self.meta.incarnation {
            Some(incarnation) => PoolState::Present {
                incarnation,
                recovering: self.meta.recovering,
                members: self.meta.members,
                settings: self.meta.settings,
                run_id: self.meta.run_id.clone(),
                closed: self.meta.closed,
            },
            None => match &self.tombstone {
                Some(tombstone) => PoolState::Closed { incarnation: tombstone.incarnation },
                None => PoolState::Absent,
            },
        }
    }

    /// A number that no token of an earlier life of the pool exceeds, as far as the clock and the caller know.
    fn token_floor(&self, now: u64, seen: Seen) -> u64 {
        let by_clock = now.saturating_sub(TOKEN_EPOCH).saturating_mul(TOKENS_PER_MS).min(CLOCKS_TOKENS);
        let believed = seen.token <= Token::LAST && !self.broken.has(Mutation::TokensBelowSeen);
        if believed { by_clock.max(seen.token.0) } else { by_clock }
    }

    /// Creates the pool in phase R, if there is none. Replaces a tombstone only for a caller that has seen it.
    pub(super) fn bootstrap(
        &mut self,
        now: u64,
        seen: Seen,
        run_id: &str,
        settings: &Settings,
    ) -> Result<Bootstrapped, Refusal> {
        if let Some(incarnation) = self.meta.incarnation {
            return Ok(Bootstrapped { incarnation, created: false });
        }
        let unseen = self.tombstone.as_ref().is_some_and(|it| it.incarnation > seen.incarnation);
        if unseen && !self.broken.has(Mutation::LateBootstrapMakes) {
            return Err(Refusal::Closed);
        }
        let incarnation = Incarnation(now.max(seen.incarnation.0.saturating_add(1)));
        let closed = self.tombstone.take().map_or(Incarnation(0), |tombstone| tombstone.incarnation);
        self.meta.closed = closed.max(seen.closed);
        self.meta.floor = seen.floor;
        self.meta.incarnation = Some(incarnation);
        self.meta.recovering = true;
        self.meta.token = self.token_floor(now, seen);
        self.meta.members = Revision(1);
        self.meta.settings = Revision(1);
        run_id.clone_into(&mut self.meta.run_id);
        self.settings = settings.fields().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        self.pool_stream.group.get_or_insert_default();
        Ok(Bootstrapped { incarnation, created: true })
    }

    /// Starts a new incarnation in phase R. Data of a pool that is known to have ended lose their shutdown flag.
    pub(super) fn recover(
        &mut self,
        now: u64,
        inc: Incarnation,
        seen: Seen,
        run_id: &str,
        lost: &str,
    ) -> Result<Incarnation, Refusal> {
        self.guard(inc)?;
        for sign in lost.chars() {
            if !self.meta.lost.contains(sign) {
                self.meta.lost.push(sign);
            }
        }
        let known = inc.sound().max(seen.incarnation.sound());
        let next = Incarnation(known.map_or(now, |known| now.max(known.0 + 1)));
        self.meta.incarnation = Some(next);
        self.meta.recovering = true;
        self.meta.token = self.meta.token.max(self.token_floor(now, seen));
        run_id.clone_into(&mut self.meta.run_id);
        self.meta.closed = self.meta.closed.max(seen.closed);
        if !self.broken.has(Mutation::FloorForgotten) {
            self.meta.floor = self.meta.floor.max(seen.floor);
        }
        if inc <= seen.closed && self.settings.remove("shutdown").is_some() {
            self.meta.settings.0 += 1;
        }
        Ok(next)
    }

    /// Changes settings of a running pool: all of them, or none.
    pub(super) fn change_settings(
        &mut self,
        inc: Incarnation,
        changes: &[SettingChange],
    ) -> Result<Revision, Refusal> {
        self.guard(inc)?;
        if changes.is_empty() {
            return Err(Refusal::BadArgument);
        }
        let mut changed = BTreeMap::new();
        let mut wanted = BTreeMap::new();
        for SettingChange { name, from, to } in changes {
            let number = (1..=20).contains(&to.len()) && to.bytes().all(|b| b.is_ascii_digit());
            let named = !name.is_empty() && is_meta(name);
            // Steps divide by this setting.
            let divides = name == "strikes" && to.bytes().all(|b| b == b'0');
            if divides
                || is_fixed(name)
                || name == "shutdown"
                || !named
                || !number
                || wanted.insert(name.as_str(), to.as_str()).is_some()
            {
                return Err(Refusal::BadArgument);
            }
            let theirs = self.settings.get(name).map_or("", String::as_str);
            if theirs != to {
                if theirs != from {
                    let (name, theirs, ours) = (name.clone(), theirs.to_owned(), from.clone());
                    return Err(Refusal::Setting { name, theirs, ours });
                }
                changed.insert(name.clone(), to.clone());
            }
        }
        let becomes = |name| {
            let stored = || self.settings.get(name).map(String::as_str);
            wanted.get(name).copied().or_else(stored)?.parse::<u64>().ok()
        };
        let touched =
            wanted.contains_key("outcome_retention") || wanted.contains_key("max_dispatch_deadline");
        if touched
            && let (Some(kept), Some(late)) = (becomes("outcome_retention"), becomes("max_dispatch_deadline"))
            && kept < late
        {
            return Err(Refusal::BadArgument);
        }
        if !changed.is_empty() {
            self.settings.append(&mut changed);
            self.meta.settings.0 += 1;
        }
        Ok(self.meta.settings)
    }

    /// A worker joins.
    pub(super) fn join(
        &mut self,
        now: u64,
        inc: Incarnation,
        request: &JoinRequest,
    ) -> Result<Seat, Refusal> {
        self.guard_normal(inc)?;
        if !is_meta(&request.meta) || !is_address(&request.address) {
            return Err(Refusal::BadArgument);
        }
        if let Some((&worker, member)) = self.members.iter().find(|(_, m)| m.nonce == request.nonce) {
            return Ok(self.seat(now, worker, member));
        }
        if self.settings.contains_key("shutdown") {
            return Err(Refusal::ShuttingDown);
        }
        if self.has_lost_members() && !self.meta.lost.contains('m') {
            return Err(Refusal::Lost("m".into()));
        }
        let fields = request.settings.fields();
        for (name, ours) in &fields {
            if *name == "worker_ttl" && self.broken.has(Mutation::OtherTtlJoins) {
                continue;
            }
            if let Some(theirs) = self.settings.get(*name).filter(|theirs| *theirs != ours) {
                let (name, theirs, ours) = ((*name).to_owned(), theirs.clone(), ours.clone());
                return Err(Refusal::Setting { name, theirs, ours });
            }
        }
        self.check_tokens()?;
        let known = self.settings.len();
        for (name, value) in fields {
            self.settings.entry(name.to_owned()).or_insert(value);
        }
        if self.settings.len() > known {
            self.meta.settings.0 += 1;
        }
        let up = self.up(now);
        let slot = self.vacant_slot(up, request.preferred);
        let worker = WorkerId(self.mint());
        let member = Member {
            state: if slot.is_some() { MemberState::Up } else { MemberState::Standby },
            slot,
            ttl: request.settings.worker_ttl,
            nonce: request.nonce.clone(),
            node: request.node.clone(),
            meta: request.meta.clone(),
            level: self.level,
            address: request.address.clone(),
        };
        self.heartbeats.insert(worker, 1);
        self.members.insert(worker, member.clone());
        self.grow(slot);
        self.meta.members.0 += 1;
        Ok(self.seat(now, worker, &member))
    }

    /// The answer for a member. It says whether the member has the only live slot, or is a standby while no worker is
    /// up.
    fn seat(&self, now: u64, worker: WorkerId, member: &Member) -> Seat {
        let first = match member.state {
            MemberState::Up => self.slots().len() == 1,
            MemberState::Standby => self.up(now) == 0,
            MemberState::Draining => false,
        };
        Seat { worker, member: member.clone(), first }
    }

    /// Whether a member was heard of within its time to live. One that has not renewed yet counts as heard.
    fn is_living(&self, now: u64, worker: WorkerId, member: &Member) -> bool {
        let ttl = u64::try_from(member.ttl.as_millis()).unwrap_or(u64::MAX);
        let beat = self.heartbeats.get(&worker).copied().unwrap_or_default();
        beat == 1 || beat.saturating_add(ttl) > now || self.broken.has(Mutation::SilentAreUp)
    }

    /// The number of members that are up and living.
    fn up(&self, now: u64) -> usize {
        let up = self.members.iter().filter(|(_, member)| member.state == MemberState::Up);
        up.filter(|(worker, member)| self.is_living(now, **worker, member)).count()
    }

    /// Gives the lowest free slots to all living standbys and to this one, the oldest first.
    fn seat_all(&mut self, now: u64, one: Option<WorkerId>) {
        let standbys = self.members.iter().filter(|(worker, member)| {
            let waits = member.state == MemberState::Standby;
            waits && (Some(**worker) == one || self.is_living(now, **worker, member))
        });
        let standbys: Vec<_> = standbys.map(|(worker, _)| *worker).collect();
        for worker in standbys {
            self.take_lowest_slot(worker);
        }
    }

    /// Gives these free slots to the oldest standbys. If no other worker is up, all standbys get slots.
    fn fill_slots(&mut self, now: u64, free: &BTreeSet<u32>) {
        let standbys = self.members.iter().filter(|(_, member)| member.state == MemberState::Standby);
        let mut standbys = standbys.filter(|(worker, member)| self.is_living(now, **worker, member));
        if self.up(now) == 0 && standbys.next().is_some() {
            return self.seat_all(now, None);
        }
        self.hand_off_slots(free);
    }

    /// Gives these free slots to the oldest standbys, the lowest one first.
    fn hand_off_slots(&mut self, free: &BTreeSet<u32>) {
        let used = self.slots();
        let standbys = self.members.values_mut().filter(|member| member.state == MemberState::Standby);
        for (slot, standby) in free.iter().filter(|slot| !used.contains_key(slot)).zip(standbys) {
            (standby.state, standby.slot) = (MemberState::Up, Some(*slot));
        }
    }

    fn take_lowest_slot(&mut self, worker: WorkerId) {
        let slot = self.lowest_slot();
        if let Some(member) = self.members.get_mut(&worker) {
            (member.state, member.slot) = (MemberState::Up, slot);
            self.grow(slot);
        }
    }

    fn lowest_slot(&self) -> Option<u32> {
        let used = self.slots();
        (0..=u32::MAX).find(|slot| !used.contains_key(slot))
    }

    /// The slots of the ring, and their workers.
    pub(super) fn slots(&self) -> BTreeMap<u32, WorkerId> {
        let up = self.members.iter().filter(|(_, member)| member.state == MemberState::Up);
        up.filter_map(|(worker, member)| Some((member.slot?, *worker))).collect()
    }

    /// The slot that a new worker takes at once: the preferred one, a draining worker's, an expired worker's, or the
    /// lowest if there are no jobs. Otherwise it is a standby, also if there are jobs and no worker is `up`.
    fn vacant_slot(&self, up: usize, preferred: Option<u32>) -> Option<u32> {
        if up == 0 && !self.jobs.is_empty() {
            return self.broken.has(Mutation::FirstTakesAll).then(|| self.lowest_slot()).flatten();
        }
        let used = self.slots();
        let vacant = |slot: &u32| !used.contains_key(slot);
        let draining = self.members.values().filter(|member| member.state == MemberState::Draining);
        preferred
            .filter(|slot| *slot < PREFERRED_MAX && vacant(slot))
            .or_else(|| draining.filter_map(|member| member.slot).filter(vacant).min())
            .or_else(|| self.dead.values().filter_map(|dead| dead.slot).filter(vacant).min())
            .or_else(|| self.jobs.is_empty().then(|| self.lowest_slot()).flatten())
    }

    /// Gives a standby the lowest free slot. While no worker is up, all standbys get one.
    pub(super) fn settle(&mut self, now: u64, inc: Incarnation, worker: WorkerId) -> Result<Seat, Refusal> {
        self.guard(inc)?;
        let state = self.members.get(&worker).ok_or(Refusal::Fenced)?.state;
        let mut first = state == MemberState::Up;
        if state == MemberState::Standby {
            first = self.up(now) == 0;
            if first {
                self.seat_all(now, Some(worker));
            } else {
                self.take_lowest_slot(worker);
            }
            self.meta.members.0 += 1;
        }
        let member = self.members.get(&worker).ok_or(Refusal::Fenced)?.clone();
        Ok(Seat { worker, member, first })
    }

    /// Makes room for this slot in the ring. With any member, the ring has at least one slot.
    pub(super) fn grow(&mut self, slot: Option<u32>) {
        self.ring_size = self.ring_size.max(slot.map_or(1, |slot| slot + 1));
    }

    /// Heartbeat of a node's workers. The last argument is the process that answers, and what it does when its memory is full.
    pub(super) fn renew(
        &mut self,
        now: u64,
        inc: Incarnation,
        seen: Seen,
        node: Option<&NodeName>,
        workers: &[WorkerId],
        (server, when_full): (&str, WhenFull),
    ) -> Result<Renewal, Refusal> {
        let recovering = self.guard(inc)?;
        if !recovering {
            let found = self.signs();
            if found.chars().any(|sign| !self.meta.lost.contains(sign)) {
                return Err(Refusal::Lost(found));
            }
            self.meta.lost = found;
        }
        self.raise_tokens(seen.token);
        if seen.floor <= self.level && !self.broken.has(Mutation::RenewalForgetsFloor) {
            self.meta.floor = self.meta.floor.max(seen.floor);
        }
        let (mut states, mut streams) =
            (Vec::with_capacity(workers.len()), Vec::with_capacity(workers.len()));
        for worker in workers {
            let state = self.members.get(worker).map(|member| member.state);
            if state.is_some() {
                let count = self.heartbeats.entry(*worker).or_default();
                *count = (*count + 1).max(now);
            }
            states.push(state);
            let stream = state.and_then(|_| self.worker_streams.get(worker));
            streams.push(stream.map_or_else(WorkerStream::default, |stream| WorkerStream {
                oldest: stream.oldest(),
                added: stream.added(),
            }));
        }
        let opened = node.is_some_and(|node| self.keep_node_stream(now, node));
        Ok(Renewal {
            members: self.meta.members,
            settings: self.meta.settings,
            flag: self.flag(),
            recovering,
            run_id: server.to_owned(),
            queued: self.meta.queued.max(0).unsigned_abs(),
            token: Some(Token(self.meta.token)).filter(|token| *token <= Token::LAST).unwrap_or_default(),
            floor: self.floor(),
            opened,
            damage: self.meta.lost.clone(),
            when_full,
            states,
            streams,
        })
    }

    /// Workers leave the ring together and keep their jobs.
    pub(super) fn drain(
        &mut self,
        inc: Incarnation,
        workers: &[WorkerId],
    ) -> Result<Vec<Option<Member>>, Refusal> {
        // While the pool recovers, its node may still report it.
        if self.guard(inc)? && !workers.iter().all(|worker| self.members.contains_key(worker)) {
            return Err(Refusal::Recovering);
        }
        let (mut free, mut changed) = (BTreeSet::new(), false);
        for worker in workers {
            if let Some(member) = self.members.get_mut(worker) {
                free.extend(member.slot.filter(|_| member.state == MemberState::Up));
                changed |= member.state != MemberState::Draining;
                member.state = MemberState::Draining;
            }
        }
        self.hand_off_slots(&free);
        self.meta.members.0 += u64::from(changed);
        Ok(workers.iter().map(|worker| self.members.get(worker).cloned()).collect())
    }

    /// Ends workers. All of them are out before other workers get their slots.
    pub(super) fn expire(
        &mut self,
        now: u64,
        inc: Incarnation,
        workers: &[(WorkerId, Option<u64>)],
    ) -> Result<Vec<Expired>, Refusal> {
        self.guard(inc)?;
        let (before, mut free) = ((self.members.len(), self.dead.len()), BTreeSet::new());
        let answers = workers.iter().map(|&(worker, seq)| self.bury(now, worker, seq, &mut free)).collect();
        if !free.is_empty() {
            self.fill_slots(now, &free);
        }
        if (self.members.len(), self.dead.len()) != before {
            self.meta.members.0 += 1;
            self.forget_nodes();
        }
        Ok(answers)
    }

    /// Ends a worker, and adds its slot to `free`.
    fn bury(&mut self, now: u64, worker: WorkerId, seq: Option<u64>, free: &mut BTreeSet<u32>) -> Expired {
        let count = self.heartbeats.get(&worker).copied();
        let is_member = self.members.contains_key(&worker);
        if !is_member && self.dead.contains_key(&worker) {
            return Expired::Done;
        }
        if !is_member && (seq.is_none() || count.is_none()) {
            return Expired::Gone;
        }
        let count = count.unwrap_or_default();
        if seq.is_some_and(|seq| seq != count) {
            return Expired::Renewed;
        }
        self.heartbeats.remove(&worker);
        let member = self.members.remove(&worker);
        free.extend(member.as_ref().filter(|m| m.state == MemberState::Up).and_then(|m| m.slot));
        let slot = member.and_then(|member| member.slot);
        self.dead.insert(worker, Dead { heard: seq.map_or(now, |_| count), slot });
        Expired::Done
    }
}
