//! The data of a set in memory, key by key as on Redis.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use tenure_steps::Scored;
use tokio::sync::mpsc;

use super::group::Group;
use crate::model::id::{Incarnation, JobId, NodeName, QueueName, Token};
use crate::model::queue::Settings;
use crate::model::record::Record;
use crate::store::{Breakage, Dump, Hint};

#[derive(Clone, Debug, Default)]
pub(super) struct Meta {
    pub(super) incarnation: Option<Incarnation>,
    /// The server that the data were last known to live on.
    pub(super) server: u64,
    pub(super) token: u64,
    pub(super) hold: u64,
    pub(super) grace: u64,
    pub(super) armed: u64,
    pub(super) duty: String,
    pub(super) ticked: u64,
    /// How many gaps between ticks in a row have spared leases.
    pub(super) spared: u64,
    /// From where the next tick makes up for lost wake-ups; empty: from the first queue.
    pub(super) woken: String,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) data: Data,
    /// Which server this is, and which one steps are for.
    pub(super) server: u64,
    pub(super) blessed: u64,
    pub(super) listeners: HashMap<NodeName, mpsc::UnboundedSender<Hint>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Data {
    pub(super) meta: Meta,
    pub(super) queues: BTreeMap<QueueName, Settings>,
    pub(super) counts: BTreeMap<String, i64>,
    /// Virtual times of queues.
    pub(super) turns_given: BTreeMap<QueueName, u64>,
    /// The begin of the window of a queue's limit, and how many have begun in it.
    pub(super) meters: BTreeMap<QueueName, (u64, u64)>,
    pub(super) jobs: BTreeMap<String, Record>,
    pub(super) bodies: HashMap<String, Bytes>,
    pub(super) extras: BTreeMap<String, Bytes>,
    pub(super) ready: BTreeSet<String>,
    pub(super) timers: Scored<String>,
    pub(super) leases: Scored<String>,
    pub(super) groups: BTreeMap<String, Group>,
    pub(super) turns: BTreeSet<String>,
    pub(super) waiting: BTreeSet<String>,
    pub(super) index: BTreeSet<String>,
    pub(super) lanes: BTreeMap<String, (u128, String)>,
    pub(super) breakage: Option<Breakage>,
}

/// The members that begin with a prefix, which ends with `|`.
pub(super) fn with_prefix<'a>(
    set: &'a BTreeSet<String>,
    prefix: &'a str,
) -> impl Iterator<Item = &'a String> {
    set.range(prefix.to_owned()..).take_while(move |member| member.starts_with(prefix))
}

impl Data {
    pub(super) fn is_broken(&self, how: Breakage) -> bool {
        self.breakage == Some(how)
    }

    pub(super) fn settings_of(&self, queue: &QueueName) -> Settings {
        self.queues.get(queue).cloned().unwrap_or_else(Settings::unknown)
    }

    pub(super) fn count(&self, queue: &QueueName, of: &str) -> u64 {
        let count = self.counts.get(&format!("{queue}|{of}")).copied().unwrap_or_default();
        u64::try_from(count).unwrap_or_default()
    }

    /// Settings may be lost: the counts also say whether the queue has groups, or is pinned.
    pub(super) fn note_kind(&mut self, queue: &QueueName, settings: &Settings) {
        let field = format!("{queue}|kind");
        if settings.grouped {
            self.counts.insert(field, if settings.pinned { 2 } else { 1 });
        } else {
            self.counts.remove(&field);
        }
    }

    pub(super) fn add_count(&mut self, queue: &QueueName, of: &str, by: i64) {
        let count = self.counts.entry(format!("{queue}|{of}")).or_default();
        *count = (*count + by).max(0);
    }

    /// The clock skips this time, ms, and the nodes do not: their leases and turns last as much longer.
    #[cfg(feature = "test-util")]
    pub(super) fn put_leases_off(&mut self, by: u64) {
        let leases: Vec<_> = self.leases.iter().map(|(end, id)| (id.clone(), end)).collect();
        for (id, end) in leases {
            self.leases.put(id, end.saturating_add(by));
        }
        for moment in [&mut self.meta.grace, &mut self.meta.armed, &mut self.meta.ticked] {
            *moment = moment.saturating_add(by);
        }
    }

    pub(super) fn token(&self) -> Token {
        Token(self.meta.token)
    }

    pub(super) fn extra(&self, field: &str) -> Bytes {
        self.extras.get(field).cloned().unwrap_or_default()
    }

    pub(super) fn notes(&self, id: &JobId) -> Bytes {
        self.extra(&format!("n:{id}"))
    }

    pub(super) fn body(&self, id: &JobId) -> Bytes {
        self.bodies.get(id.as_str()).cloned().unwrap_or_default()
    }

    /// The whole state, as `RedisStore` draws it.
    pub(super) fn dump(&self) -> Dump {
        let mut dump = self.dump_without_lanes();
        for (lane, (number, answer)) in &self.lanes {
            dump.insert(&format!("lane:{lane}"), [("", format!("{number}|{answer}"))]);
        }
        dump
    }

    pub(super) fn dump_without_lanes(&self) -> Dump {
        let mut dump = Dump::default();
        let Meta { incarnation, token, hold, grace, armed, duty, ticked, spared, woken, .. } = &self.meta;
        if let Some(incarnation) = incarnation {
            let numbers = [
                ("incarnation", incarnation.0),
                ("token", *token),
                ("hold", *hold),
                ("grace", *grace),
                ("armed", *armed),
                ("ticked", *ticked),
            ];
            let fields = numbers.map(|(name, number)| (name, number.to_string()));
            let woken = (!woken.is_empty()).then(|| ("woken", woken.clone()));
            let spared = (*spared > 0).then(|| ("spared", spared.to_string()));
            let others = [("duty", duty.clone())].into_iter().chain(woken).chain(spared);
            dump.insert("meta", fields.into_iter().chain(others));
        }
        dump.insert(
            "queues",
            self.queues.iter().map(|(name, settings)| (name.as_str(), settings.to_string())),
        );
        let turns = self.turns_given.iter().map(|(queue, turn)| (format!("{queue}|turn"), turn.to_string()));
        let meters = self
            .meters
            .iter()
            .map(|(queue, (begins, used))| (format!("{queue}|limit"), format!("{begins}/{used}")));
        let counts = self.counts.iter().map(|(field, count)| (field.clone(), count.to_string()));
        dump.insert("counts", counts.chain(turns).chain(meters));
        dump.insert("jobs", self.jobs.iter().map(|(id, record)| (id, record.to_string())));
        dump.insert("bodies", self.bodies.iter().map(|(id, body)| (id, body.clone())));
        dump.insert("extras", self.extras.iter().map(|(field, value)| (field, value.clone())));
        dump.insert("groups", self.groups.iter().map(|(key, group)| (key, group.to_string())));
        for (name, set) in [
            ("ready", &self.ready),
            ("turns", &self.turns),
            ("waiting", &self.waiting),
            ("index", &self.index),
        ] {
            dump.insert(name, set.iter().map(|member| (member, "0")));
        }
        for (name, set) in [("timers", &self.timers), ("leases", &self.leases)] {
            dump.insert(name, set.iter().map(|(score, member)| (member, score.to_string())));
        }
        dump
    }
}
