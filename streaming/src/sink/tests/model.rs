//! Consumers of a group against a model of Redis, with every possible loss and kill.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::super::held::Held;
use super::super::plan::{Pace, Plan, Step};
use crate::EntryId;

const CLAIM_EVERY: Duration = Duration::from_millis(10);
const PAGE: usize = 3;

fn pace(returning: bool) -> Pace {
    Pace { claim_every: CLAIM_EVERY, bury_every: CLAIM_EVERY * 3, acks: true, returning }
}

/// One stream with one group.
#[derive(Debug, Default)]
struct Server {
    entries: BTreeSet<EntryId>,
    added: u64,
    group: Option<Group>,
    /// Reads that nobody awaits any more: until then they still deliver the next entry.
    ghosts: Vec<(u64, Duration)>,
}

#[derive(Debug, Default)]
struct Group {
    delivered: EntryId,
    /// The consumer of each pending entry, and since when.
    pending: BTreeMap<EntryId, (u64, Duration)>,
    /// The last sign of life of each consumer.
    consumers: BTreeMap<u64, Duration>,
}

impl Server {
    fn add(&mut self, now: Duration) {
        self.added += 1;
        self.entries.insert(EntryId::new(self.added, 0));
        for (ghost, until) in std::mem::take(&mut self.ghosts) {
            if now <= until {
                self.read(ghost, 1, now);
            }
        }
    }

    fn group(&mut self, consumer: u64, now: Duration) -> Option<&mut Group> {
        let group = self.group.as_mut()?;
        group.consumers.insert(consumer, now);
        Some(group)
    }

    fn read(&mut self, consumer: u64, count: usize, now: Duration) -> Option<Vec<EntryId>> {
        let after = self.group(consumer, now)?.delivered;
        let new: Vec<_> = self.entries.iter().copied().filter(|id| *id > after).take(count).collect();
        let group = self.group.as_mut()?;
        for id in &new {
            group.delivered = *id;
            group.pending.insert(*id, (consumer, now));
        }
        Some(new)
    }

    fn pending_with(&self, consumer: u64, after: EntryId) -> Option<Vec<EntryId>> {
        let pending = self.group.as_ref()?.pending.iter();
        let own = pending.filter(|(id, (with, _))| **id > after && *with == consumer);
        Some(own.map(|(id, _)| *id).take(PAGE).collect())
    }

    fn take(&mut self, consumer: u64, ids: &[EntryId], now: Duration) -> Option<Vec<EntryId>> {
        let entries = self.entries.clone();
        let group = self.group(consumer, now)?;
        let mut taken = Vec::new();
        for id in ids.iter().filter(|id| group.pending.get(id).is_some_and(|(with, _)| *with == consumer)) {
            taken.push(*id);
        }
        Some(Self::deliver(group, &entries, taken, consumer, now))
    }

    fn claim(
        &mut self,
        consumer: u64,
        from: EntryId,
        grace: Duration,
        now: Duration,
    ) -> Option<(EntryId, Vec<EntryId>)> {
        let entries = self.entries.clone();
        let group = self.group(consumer, now)?;
        let page: Vec<_> = group.pending.range(from..).map(|(id, since)| (*id, *since)).take(PAGE).collect();
        let next = match page.last() {
            Some((last, _)) if page.len() == PAGE => EntryId::new(last.ms, last.seq + 1),
            _ => EntryId::MIN,
        };
        let old =
            page.into_iter().filter(|(_, (_, since))| *since + grace <= now).map(|(id, _)| id).collect();
        Some((next, Self::deliver(group, &entries, old, consumer, now)))
    }

    fn deliver(
        group: &mut Group,
        entries: &BTreeSet<EntryId>,
        ids: Vec<EntryId>,
        consumer: u64,
        now: Duration,
    ) -> Vec<EntryId> {
        for id in &ids {
            if entries.contains(id) {
                group.pending.insert(*id, (consumer, now));
            } else {
                group.pending.remove(id);
            }
        }
        ids.into_iter().filter(|id| entries.contains(id)).collect()
    }

    fn bury(&mut self, consumer: u64, idle: Duration, now: Duration) -> Option<()> {
        let group = self.group(consumer, now)?;
        let holding: BTreeSet<_> = group.pending.values().map(|(with, _)| *with).collect();
        group.consumers.retain(|name, heard| *heard + idle > now || holding.contains(name));
        Some(())
    }
}

/// A consumer and its user, who holds entries until they are acknowledged.
struct Consumer {
    name: u64,
    plan: Plan,
    held: Held,
    hands: BTreeMap<EntryId, Duration>,
}

/// The fate of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    /// Executed, but the reply is lost.
    ReplyLost,
    /// Not executed yet: the read waits in Redis, and nobody awaits it.
    Ghost,
    NotSent,
}

impl Consumer {
    fn new(name: u64, returning: bool) -> Self {
        Self { name, plan: Plan::new(pace(returning)), held: Held::default(), hands: BTreeMap::new() }
    }

    /// Takes one step, and hands out its entries. It fails for an entry that is already in the user's hands and that
    /// nobody else can have had meanwhile.
    fn step(
        &mut self,
        server: &mut Server,
        fate: Fate,
        grace: Duration,
        now: Duration,
    ) -> Result<(), TestCaseError> {
        let stream: Arc<str> = "s".into();
        self.plan.arrange(&BTreeSet::from([stream.clone()]), now);
        let step = self.plan.next(now);
        if fate == Fate::NotSent {
            return Ok(());
        }
        let lost = fate != Fate::Answered;
        let mut got = Vec::new();
        match step {
            Step::Create { .. } => {
                server.group.get_or_insert_default();
                if !lost {
                    self.plan.created("s");
                }
            }
            Step::Recover { after, .. } => {
                let Some(page) = server.pending_with(self.name, after) else {
                    self.plan.group_lost(Some("s"));
                    return Ok(());
                };
                let last = page.last().copied().filter(|_| page.len() == PAGE);
                let missing: Vec<_> = page.into_iter().filter(|id| !self.held.contains("s", *id)).collect();
                let taken = server.take(self.name, &missing, now).unwrap_or_default();
                if lost {
                    self.plan.reply_lost(now);
                } else {
                    self.plan.recovered("s", last);
                    got = taken;
                }
            }
            Step::Claim { from, .. } => match server.claim(self.name, from, grace, now) {
                None => self.plan.group_lost(Some("s")),
                Some(_) if lost => self.plan.reply_lost(now),
                Some((next, claimed)) => {
                    self.plan.claimed("s", next, !claimed.is_empty(), now);
                    self.held.forget_before(now.saturating_sub(grace));
                    got = claimed;
                }
            },
            Step::Bury { .. } => match server.bury(self.name, grace * 2, now) {
                None => self.plan.group_lost(Some("s")),
                Some(()) if lost => {}
                Some(()) => self.plan.buried("s", now),
            },
            Step::Read { wait } => {
                prop_assert!(wait <= CLAIM_EVERY);
                if fate == Fate::Ghost && server.group.is_some() {
                    // Redis may begin to wait late.
                    server.ghosts.push((self.name, now + CLAIM_EVERY));
                    self.plan.reply_lost(now);
                    return Ok(());
                }
                match server.read(self.name, 2, now) {
                    None => self.plan.group_lost(None),
                    Some(_) if lost => self.plan.reply_lost(now),
                    Some(read) => {
                        self.plan.has_read();
                        got = read;
                    }
                }
            }
        }
        self.held.add(&stream, got.iter().copied(), now);
        for id in got {
            let before = self.hands.insert(id, now);
            prop_assert!(before.is_none_or(|before| before + grace <= now), "{id} twice in the same hands");
        }
        Ok(())
    }

    fn ack(&mut self, server: &mut Server, fate: Fate, done: &mut BTreeSet<EntryId>) {
        let Some((id, _)) = self.hands.pop_first() else { return };
        if matches!(fate, Fate::Answered | Fate::ReplyLost) {
            if let Some(group) = &mut server.group {
                group.pending.remove(&id);
            }
            done.insert(id);
        }
        if fate == Fate::Answered {
            self.held.remove("s", [id]);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Add,
    Remove(u64),
    Step(usize, Fate),
    Ack(usize, Fate),
    Kill { consumer: usize, same_name: bool },
    LoseGroup,
    Wait(u64),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        5 => Just(Fate::Answered),
        1 => Just(Fate::ReplyLost),
        1 => Just(Fate::Ghost),
        1 => Just(Fate::NotSent),
    ]
}

fn event(consumers: usize) -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Add),
        1 => (1..20_u64).prop_map(Event::Remove),
        12 => (0..consumers, fate()).prop_map(|(consumer, fate)| Event::Step(consumer, fate)),
        4 => (0..consumers, fate()).prop_map(|(consumer, fate)| Event::Ack(consumer, fate)),
        1 => (0..consumers, any::<bool>())
            .prop_map(|(consumer, same_name)| Event::Kill { consumer, same_name }),
        4 => (1..15_u64).prop_map(Event::Wait),
    ]
}

struct World {
    server: Server,
    consumers: Vec<Consumer>,
    names: u64,
    now: Duration,
    grace: Duration,
    done: BTreeSet<EntryId>,
}

impl World {
    fn new(consumers: u64, grace: Duration) -> Self {
        let server = Server { group: Some(Group::default()), ..Server::default() };
        let now = Duration::from_secs(1000);
        let fresh = (0..consumers).map(|name| Consumer::new(name, false)).collect();
        Self { server, consumers: fresh, names: consumers, now, grace, done: BTreeSet::new() }
    }

    fn event(&mut self, event: Event) -> Result<(), TestCaseError> {
        match event {
            Event::Add => self.server.add(self.now),
            Event::Remove(ms) => {
                self.server.entries.remove(&EntryId::new(ms, 0));
            }
            Event::Step(consumer, fate) => {
                self.consumers[consumer].step(&mut self.server, fate, self.grace, self.now)?;
            }
            Event::Ack(consumer, fate) => {
                self.consumers[consumer].ack(&mut self.server, fate, &mut self.done);
            }
            Event::Kill { consumer, same_name } => {
                let name = if same_name { self.consumers[consumer].name } else { self.names };
                self.names += 1;
                self.consumers[consumer] = Consumer::new(name, same_name);
            }
            Event::LoseGroup => {
                self.server.group = None;
                // Their entries come again, to any consumer.
                self.consumers.iter_mut().for_each(|consumer| consumer.hands.clear());
            }
            Event::Wait(ms) => self.now += Duration::from_millis(ms),
        }
        Ok(())
    }

    /// Lets all consumers work without faults for this long, and acknowledge their entries.
    fn settle(&mut self, time: Duration) -> Result<(), TestCaseError> {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(2);
            for consumer in &mut self.consumers {
                for _ in 0..4 {
                    consumer.step(&mut self.server, Fate::Answered, self.grace, self.now)?;
                }
                while !consumer.hands.is_empty() {
                    consumer.ack(&mut self.server, Fate::Answered, &mut self.done);
                }
            }
        }
        Ok(())
    }

    fn nothing_is_lost(&self) -> Result<(), TestCaseError> {
        let lost: Vec<_> = self.server.entries.difference(&self.done).collect();
        prop_assert!(lost.is_empty(), "never handed out and acknowledged: {lost:?}");
        let pending = self.server.group.as_ref().map(|group| &group.pending);
        prop_assert!(pending.is_some_and(BTreeMap::is_empty), "still pending: {pending:?}");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Every entry that stays in the stream is handed out until it is acknowledged, whatever is lost, killed or
    /// destroyed. No entry is twice in the same hands before the grace is over.
    #[test]
    fn a_sink_loses_nothing(
        events in prop::collection::vec(prop_oneof![30 => event(3), 1 => Just(Event::LoseGroup)], 0..150),
    ) {
        let mut world = World::new(3, CLAIM_EVERY * 4);
        for event in events {
            world.event(event)?;
        }
        world.settle(world.grace * 10)?;
        world.nothing_is_lost()?;
    }

    /// A live consumer need not wait for the grace to get the entries of a lost reply.
    #[test]
    fn entries_of_a_lost_reply_come_at_once(events in prop::collection::vec(event(1), 0..100)) {
        let mut world = World::new(1, Duration::from_secs(500));
        for event in events {
            match event {
                // These leave entries with dead consumers; the grace covers that case.
                Event::Kill { same_name: false, .. } | Event::Ack(_, Fate::NotSent | Fate::Ghost) => {}
                event => world.event(event)?,
            }
        }
        world.settle(CLAIM_EVERY * 6)?;
        // An entry that was removed while pending belongs to nobody: others forget it when they claim.
        let entries = world.server.entries.clone();
        if let Some(group) = &mut world.server.group {
            group.pending.retain(|id, _| entries.contains(id));
        }
        world.nothing_is_lost()?;
    }
}
