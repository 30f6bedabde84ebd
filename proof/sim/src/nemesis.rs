//! Faults. The seed draws the rate of each kind, so that some runs have many of one kind and none of others.

use std::collections::{BTreeMap, BTreeSet};

use super::Fault;
use super::clock::RHO_PPB;
use super::node::{Cut, nanos};
use super::rng::Rng;
use super::world::{Event, MS, World};
use tenure_protocol::core::input::Input;
use tenure_protocol::memory::Snapshot;

/// The largest error of the server's clock, ms.
const STEP_MS: u64 = 2_000;

/// The rate of each fault per 10,000.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates(BTreeMap<Fault, u64>);

/// The usual rate per 10,000: of messages for faults of messages, of moves for the others.
fn usual(fault: Fault) -> u64 {
    match fault {
        Fault::Rollback | Fault::Wipe => 12,
        Fault::LostGroup | Fault::LostEntry | Fault::Restart => 20,
        Fault::Unavailable | Fault::Full => 25,
        Fault::ClockStep => 40,
        Fault::LateAnswer => 30,
        Fault::LongPause | Fault::LateLook => 50,
        Fault::Crash | Fault::Delayed => 60,
        Fault::Partition => 80,
        Fault::Pause | Fault::LostCall | Fault::Skew => 100,
        Fault::LostReply | Fault::Doubled => 150,
        Fault::LostMessage => 500,
        Fault::ReadAgain => 1_000,
    }
}

impl Rates {
    pub(super) fn draw(rng: &mut Rng, faults: &BTreeSet<Fault>) -> Self {
        let mut rates = BTreeMap::new();
        for &fault in faults {
            // None, the usual rate, or thrice that.
            let share = match rng.below(4) {
                0 => 0,
                3 => usual(fault) * 3,
                _ => usual(fault),
            };
            rates.insert(fault, share);
        }
        Self(rates)
    }

    pub(super) fn of(&self, fault: Fault) -> u64 {
        self.0.get(&fault).copied().unwrap_or_default()
    }
}

impl World {
    /// Whether a fault of this kind happens to the present action.
    pub(super) fn hits(&mut self, fault: Fault) -> bool {
        let hit = !self.healed && self.rng.chance(self.rates.of(fault));
        if hit {
            self.fault(fault);
        }
        hit
    }

    /// May cause a fault. True if it did.
    pub(super) fn strike(&mut self) -> bool {
        const STRIKES: [Fault; 13] = [
            Fault::Crash,
            Fault::Pause,
            Fault::LongPause,
            Fault::Partition,
            Fault::Skew,
            Fault::ClockStep,
            Fault::Unavailable,
            Fault::Full,
            Fault::LostGroup,
            Fault::LostEntry,
            Fault::Restart,
            Fault::Rollback,
            Fault::Wipe,
        ];
        if self.rng.chance(300) {
            self.backup = Some(self.server.snapshot());
        }
        for fault in STRIKES {
            if self.rng.chance(self.rates.of(fault)) && self.inflict(fault) {
                self.note(|| format!("FAULT {fault:?}"));
                self.fault(fault);
                return true;
            }
        }
        false
    }

    /// One of the present nodes.
    pub(super) fn some_node(&mut self) -> Option<usize> {
        let there: Vec<usize> = (0..self.nodes.len()).filter(|&at| self.nodes[at].alive).collect();
        self.rng.pick(&there)
    }

    fn inflict(&mut self, fault: Fault) -> bool {
        let ttl = nanos(self.settings.worker_ttl);
        let Some(at) = self.some_node() else { return false };
        match fault {
            Fault::Crash => self.crash(at),
            Fault::Pause | Fault::LongPause => {
                if self.nodes[at].paused {
                    return false;
                }
                let long = fault == Fault::LongPause;
                let time = if long { self.rng.between(ttl, 3 * ttl) } else { self.rng.below(ttl) };
                self.stand_still(at, time);
            }
            Fault::Partition => self.partition(at),
            Fault::Skew => {
                let ppb = i64::try_from(self.rng.below(2 * RHO_PPB as u64)).unwrap_or(0) - RHO_PPB;
                let now = self.now;
                self.nodes[at].clock.drift(now, ppb);
                self.after(0, Event::Said(at, Box::new(Input::Woke)));
                self.after(0, Event::Lease(at));
            }
            Fault::ClockStep => {
                // A clock that goes back by more than the margin of a dispatch's deadline brings ended dispatches
                // back. The memory of them expires by that clock.
                let by = i64::try_from(self.rng.below(2 * STEP_MS)).unwrap_or(0);
                self.server_step = by - STEP_MS.cast_signed();
            }
            Fault::Unavailable => {
                if !self.available {
                    return false;
                }
                self.available = false;
                self.server.set_available(false);
                self.reset_reads();
                let time = self.rng.below(2 * ttl);
                self.after(time, Event::ServerUp);
            }
            Fault::Full => {
                if std::mem::replace(&mut self.full, true) {
                    return false;
                }
                let time = self.rng.below(3 * ttl);
                self.after(time, Event::Room);
            }
            Fault::LostGroup => {
                self.server.destroy_group();
                self.wake_reads();
            }
            Fault::LostEntry if !self.closing => return self.lose_entry(),
            Fault::Restart => self.new_process(),
            // A loss without a node to repair it would remain.
            Fault::Rollback | Fault::Wipe if self.closing => return false,
            Fault::Rollback => {
                let Some(backup) = self.backup.take() else { return false };
                self.roll_back(backup);
            }
            Fault::Wipe => {
                self.server.wipe();
                self.lost();
                if self.rng.chance(5_000) {
                    self.new_process();
                } else {
                    self.wake_reads();
                }
            }
            _ => return false,
        }
        true
    }

    fn crash(&mut self, at: usize) {
        let (name, client) = (self.nodes[at].config.node.clone(), self.nodes[at].config.client_only);
        self.note(|| format!("n{at} crashes"));
        self.crashed(at);
        self.kill(at);
        let delay = self.rng.below(2 * nanos(self.settings.worker_ttl));
        self.after(delay, Event::Join(name, client));
    }

    fn partition(&mut self, at: usize) {
        let cut = match self.rng.below(3) {
            0 => Cut { calls: true, answers: true },
            1 => Cut { calls: true, answers: false },
            _ => Cut { calls: false, answers: true },
        };
        self.nodes[at].cut = cut;
        self.note(|| format!("n{at} is cut off: {cut:?}"));
        let time = self.rng.below(3 * nanos(self.settings.worker_ttl));
        self.after(time, Event::Heal(at));
    }

    fn lose_entry(&mut self) -> bool {
        let chosen = self.rng.next();
        let Some(lost) = self.server.lose_entry(chosen) else { return false };
        self.note(|| lost);
        self.judge.disagrees = true;
        self.judge.disagreed = true;
        true
    }

    /// Another server process takes over with older data.
    pub(super) fn roll_back(&mut self, data: Snapshot) {
        self.server.restore(data);
        self.lost();
        self.new_process();
    }

    fn stand_still(&mut self, at: usize, time: u64) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        node.paused = true;
        self.note(|| format!("n{at} stands still for {} ms", time / MS));
        self.after(time, Event::Resume(at));
    }

    /// The node's messages to the server are lost for twice the time to live.
    pub(super) fn cut_off(&mut self, at: usize) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        node.cut.calls = true;
        self.note(|| format!("n{at} is cut off: it is not heard"));
        self.after(2 * nanos(self.settings.worker_ttl), Event::Heal(at));
    }

    /// A step of the node was executed, and its answer is on its way. The node may pause then for long. After a
    /// `begin`, others have its job when it goes on. After a renewal it pauses as long as its lease, and then no one
    /// hears of it.
    pub(super) fn executed(&mut self, at: usize, step: &str) {
        let ttl = nanos(self.settings.worker_ttl);
        let stands =
            self.nodes.get(at).is_none_or(|node| node.paused || !node.alive || node.cut != Cut::default());
        if stands {
            return;
        }
        // There are about ten renewals for each begun job.
        let strikes = match step {
            "begin" => (0..10).any(|_| self.hits(Fault::LateAnswer)),
            "renew" => self.hits(Fault::LateAnswer),
            _ => false,
        };
        if !strikes {
            return;
        }
        if step == "renew" {
            let time = self.rng.between(ttl * 30 / 100, ttl * 39 / 100);
            self.stand_still(at, time);
            self.cut_off(at);
        } else {
            let time = self.rng.between(ttl * 11 / 10, 2 * ttl);
            self.stand_still(at, time);
        }
    }

    /// Another running and connected node with workers.
    pub(super) fn another(&mut self, than: usize) -> Option<usize> {
        let others: Vec<usize> = (0..self.nodes.len())
            .filter(|&at| {
                let node = &self.nodes[at];
                at != than
                    && node.alive
                    && !node.paused
                    && node.cut == Cut::default()
                    && !node.locals.is_empty()
            })
            .collect();
        self.rng.pick(&others)
    }

    /// Another server process: all connections to the former one are lost.
    fn new_process(&mut self) {
        self.process += 1;
        self.server.new_process(self.server_now);
        self.reset_reads();
        for at in 0..self.nodes.len() {
            self.after(MS, Event::Reread(at));
        }
    }

    /// A paused node goes on: its leases are looked at before any handler runs. Only a resource that checks its token
    /// can refuse a handler's actions before that look; here they count as not done.
    pub(super) fn resume(&mut self, at: usize) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        if !std::mem::take(&mut node.paused) {
            return;
        }
        node.resumed_at = self.now;
        let deferred = std::mem::take(&mut node.deferred);
        self.note(|| format!("n{at} goes on"));
        if !self.nodes[at].alive {
            return;
        }
        self.expire_at_once(at);
        for event in deferred {
            self.after(0, event);
        }
        self.after(0, Event::Lease(at));
        self.resumed(at);
    }

    pub(super) fn heal(&mut self, at: usize) {
        if let Some(node) = self.nodes.get_mut(at).filter(|node| node.cut != Cut::default()) {
            node.cut = Cut::default();
            self.note(|| format!("n{at} is cut off no more"));
            self.after(MS, Event::Reread(at));
        }
    }

    pub(super) fn server_up(&mut self) {
        if std::mem::replace(&mut self.available, true) {
            return;
        }
        self.server.set_available(true);
        for at in 0..self.nodes.len() {
            self.after(MS, Event::Reread(at));
        }
    }

    /// No faults and no requests from now on: the pool must come to rest.
    pub(super) fn heal_all(&mut self) {
        self.note(|| "all is healed".to_owned());
        self.healed = true;
        self.ends_early = self.closing && self.is_ending();
        self.ending |= self.ends_early;
        self.server_up();
        self.full = false;
        for at in 0..self.nodes.len() {
            self.heal(at);
            self.resume(at);
        }
        if !self.ending {
            self.staff();
        }
    }
}
