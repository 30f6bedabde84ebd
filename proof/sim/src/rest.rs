//! The rest of a healed pool, and the remains of a pool that was shut down.

use super::world::World;
use tenure_protocol::core::ring::Ring;
use tenure_protocol::model::member::MemberState;
use tenure_protocol::model::record::JobState;

impl World {
    /// The obstacles to a healed pool's rest.
    pub(super) fn unrest(&self) -> Vec<String> {
        let recovers = self.server.facts().recovering.then(|| "the pool is in phase R".to_owned());
        let members = self.server.members();
        let ring = Ring::new(&members, &self.settings);
        let mut unrest: Vec<String> = recovers.into_iter().chain(self.server.leftovers()).collect();
        unrest.extend(self.server.disagreements());
        unrest.extend(self.asks_to_come().then(|| "users are still to ask".to_owned()));
        for (key, record) in &self.judge.records {
            let Some(record) = record else { continue };
            let runs = self.actors.values().any(|actor| {
                actor.key == *key
                    && record.owner == Some(actor.worker)
                    && record.token == actor.token
                    && actor.is_settled()
            });
            let rests = match record.state {
                JobState::Running => runs,
                JobState::Parked => true,
                JobState::Queued => self.is_crowded(&members),
                _ => false,
            };
            if !rests {
                unrest.push(format!("{key} is {record}"));
            }
            if self.runs_with_another(key) {
                unrest.push(format!("L10: {key} is {record}, and runs with another payload"));
            }
            let place = ring.pick(key.as_bytes(), record.strikes);
            if runs && place != record.owner {
                unrest.push(format!("L7: {key} is {record}, and its place is with {place:?}"));
            }
            let run = self.judge.runs.get(&(key.clone(), record.token)).and_then(|run| run.newest);
            let kept = self.judge.life(&record.id).and_then(|life| life.states.kept);
            if runs && kept < run {
                unrest.push(format!("the state of {key} is {run:?}, and {kept:?} is kept"));
            }
            let left = self.judge.undelivered(&record.id);
            if runs && left > 0 {
                unrest.push(format!("{left} notifications of {key} are not delivered"));
            }
        }
        let unreplaced = self.unreplaced();
        unrest.extend(unreplaced.iter().map(|key| format!("L10: {key} has not the payload of its plan")));
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.alive) {
            unrest
                .extend(node.asked.values().map(|asked| format!("n{at} has not answered {:?}", asked.what)));
            let (seen, floor) = (node.engine.seen().floor, self.server.facts().floor);
            if seen > floor {
                unrest.push(format!("n{at} has seen the floor {seen}, and it is {floor}"));
            }
        }
        for (worker, member) in &members.entries {
            let there = self.nodes.iter().any(|node| {
                node.alive
                    && node.config.node == member.node
                    && node.locals.values().any(|w| *w == Some(*worker))
            });
            if !there {
                unrest.push(format!("{worker} of {} is a member and gone", member.node));
            } else if member.state == MemberState::Draining {
                unrest.push(format!("{worker} of {} drains and stays", member.node));
            }
        }
        unrest
    }

    /// The pool has its flag, or its tombstone.
    pub(super) fn is_ending(&self) -> bool {
        self.server.facts().closed || self.server.settings().fields.contains_key("shutdown")
    }

    /// The remains of a pool that was shut down.
    pub(super) fn remains(&mut self) -> Vec<String> {
        let mut left: Vec<String> = self
            .nodes
            .iter()
            .filter(|node| node.alive)
            .map(|node| format!("{} is there", node.config.node))
            .collect();
        // The stream of a crashed node expires at the next access.
        self.server.expire(self.server_now);
        let dump = self.server.dump();
        left.extend(
            dump.names().filter(|name| *name != "pool").map(|name| format!("the key {name} is left")),
        );
        if !self.server.facts().closed {
            left.push("the pool has no tombstone".to_owned());
        }
        left
    }
}
