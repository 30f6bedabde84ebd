//! Levels: in some runs the nodes differ, and users raise the floor. The pool refuses each step from below its floor,
//! a raise passes no member, and the floor falls with the pool's data only (S13).

use super::calls::{Reply, Request};
use super::node::Cut;
use super::world::World;
use tenure_protocol::core::call::{Call, Done};
use tenure_protocol::model::level::{self, TooOld};
use tenure_protocol::step::{Bootstrap, Bootstrapped, Content, RaiseLevel, Recover};

/// The level of the newest nodes.
const NEWEST: u32 = level::LOWEST + 1;

/// The pool before a step from below its floor, without the streams of nodes: a node may end its own.
pub(super) type Before = Vec<(String, Content)>;

impl World {
    /// The level of a node that starts now. In a healed world it is the newest.
    pub(super) fn draw_level(&mut self) -> u32 {
        let older = !self.levels.happen || !self.healed && self.levels.rng.chance(3_000);
        if older { level::LOWEST } else { NEWEST }
    }

    /// Whether the pool refuses the node's steps.
    pub(super) fn is_below(&self, at: usize) -> bool {
        let floor = self.server.facts().floor;
        self.nodes.get(at).is_some_and(|node| node.level < floor)
    }

    /// A user raises the floor now and then.
    pub(super) fn raise_level(&mut self) {
        if !self.levels.happen || !self.levels.rng.chance(1_000) {
            return;
        }
        let usable = |at: &usize| {
            let node = &self.nodes[*at];
            node.alive && !node.paused && node.attached && node.cut == Cut::default()
        };
        let usable: Vec<usize> = (0..self.nodes.len()).filter(usable).collect();
        let Some(at) = self.levels.rng.pick(&usable) else { return };
        let incarnation = self.nodes[at].engine.incarnation();
        let before = self.server.facts().floor;
        let answer = self.perform(at, incarnation, &RaiseLevel { level: NEWEST });
        self.note(|| format!("n{at} raises the floor: {answer:?}"));
        self.mix(u64::from(self.server.facts().floor));
        self.floor_stays("raise_level", before);
        if self.server.facts().floor == before {
            return;
        }
        let members = self.server.members();
        let below = members.entries.iter().find(|(worker, member)| {
            let known = self.judge.levels.get(worker).copied();
            member.level < NEWEST || known.is_some_and(|level| level < NEWEST)
        });
        if let Some((worker, member)) = below {
            let what = format!("S13: n{at} raises the floor above {worker} of {}", member.node);
            self.judge.violations.push(what);
        }
    }

    /// The pool as it is, if it must refuse this step of the node.
    pub(super) fn must_refuse(&mut self, at: usize, request: &Request) -> Option<Before> {
        // They name no incarnation, and take start events at most. The others claim what a node leaves behind.
        let reads = matches!(
            request,
            Request::Call(_, call) if matches!(**call, Call::ReadPool(..) | Call::ClaimPool(..) | Call::ReadNode(..))
        );
        (!reads && self.is_below(at)).then(|| self.pool_now())
    }

    fn pool_now(&mut self) -> Before {
        // Expired keys go at the next access.
        self.server.expire(self.server_now);
        let dump = self.server.dump();
        let names = dump.names().filter(|name| !name.starts_with("node:"));
        names.filter_map(|name| Some((name.to_owned(), dump.get(name)?.clone()))).collect()
    }

    /// A step of the node was executed.
    pub(super) fn saw_level(
        &mut self,
        at: usize,
        step: &str,
        request: &Request,
        reply: &Reply,
        (floor, refused): (u32, Option<Before>),
    ) {
        if let (Some(node), Reply::Done(done)) = (self.nodes.get(at), reply)
            && let Done::Join(_, _, Ok(seat)) = &**done
        {
            self.judge.levels.insert(seat.worker, node.level);
        }
        if let Some(before) = refused
            && self.pool_now() != before
        {
            let what = format!("S13: {step} of n{at} changes the pool from below its floor {floor}");
            self.judge.violations.push(what);
        }
        self.floor_stays(step, floor);
        let seen = match (request, reply) {
            (Request::Renew { seen, .. }, Reply::Renewed(Ok(_))) => seen.floor,
            (Request::Call(_, call), Reply::Done(done)) => match (&**call, &**done) {
                (
                    Call::Bootstrap(Bootstrap { seen, .. }),
                    Done::Bootstrap(_, Ok(Bootstrapped { created: true, .. })),
                )
                | (Call::Recover(Recover { seen, .. }), Done::Recover(_, Ok(_))) => seen.floor,
                _ => return,
            },
            _ => return,
        };
        let floor = self.server.facts().floor;
        if floor < seen {
            let what = format!("S13: n{at} has seen the floor {seen}, and {step} leaves it at {floor}");
            self.judge.violations.push(what);
        }
    }

    /// No step lowers the floor, except the last one of a shutdown.
    fn floor_stays(&mut self, step: &str, before: u32) {
        let after = self.server.facts();
        self.judge.highest_floor = self.judge.highest_floor.max(after.floor);
        if after.floor < before && !after.closed {
            let what = format!("S13: {step} lowers the floor from {before} to {}", after.floor);
            self.judge.violations.push(what);
        }
    }

    /// Whether the node may be told so.
    pub(super) fn is_too_old(&self, at: usize, why: TooOld) -> bool {
        let known = self.nodes.get(at).is_some_and(|node| node.level == why.level);
        known && why.level < why.floor && why.floor <= self.judge.highest_floor
    }
}
