//! The state as a comparable picture. Both stores draw the same one.

use std::collections::BTreeMap;

use tenure_steps::Letters as _;

use super::state::{Ended, State, Stored};
use super::streams::NodeEntry;
use crate::model::level;
use crate::model::member::CORDON;
use crate::step::{BegunJob, Dump, Granted, Text, WorkerEvent};

impl State {
    /// The whole state.
    pub(super) fn dump(&self) -> Dump {
        let mut dump = Dump::default();
        self.dump_meta(&mut dump);
        self.dump_jobs(&mut dump);
        self.dump_streams(&mut dump);
        dump
    }

    fn dump_meta(&self, dump: &mut Dump) {
        let meta = &self.meta;
        if let Some(incarnation) = meta.incarnation {
            let phase = if meta.recovering { "R" } else { "N" };
            let numbers = [
                ("incarnation", incarnation.to_string()),
                ("phase", phase.to_owned()),
                ("token", meta.token.to_string()),
                ("workers_revision", meta.members.to_string()),
                ("settings_revision", meta.settings.to_string()),
                ("queued", meta.queued.to_string()),
                ("notified", meta.notified.to_string()),
            ];
            let marks =
                meta.attested.iter().map(|(worker, inc)| (format!("attested:{worker}"), inc.to_string()));
            let numbers = numbers.into_iter().map(|(name, number)| (name.to_owned(), number));
            let closed = (meta.closed.0 > 0).then(|| ("closed".to_owned(), meta.closed.to_string()));
            let floor = (meta.floor > level::LOWEST).then(|| ("floor".to_owned(), meta.floor.to_string()));
            let lost = (!meta.lost.is_empty()).then(|| ("lost".to_owned(), meta.lost.clone()));
            dump.hash("pool", numbers.chain(marks).chain(closed).chain(floor).chain(lost));
        } else if let Some(tombstone) = &self.tombstone {
            dump.hash("pool", [("closed", tombstone.incarnation.to_string())]);
        }
        let size = (self.ring_size > 0).then(|| ("size".to_owned(), self.ring_size.to_string()));
        let members = self.members.iter().map(|(worker, member)| (worker.to_string(), member.to_string()));
        let cordons = self.cordoned.iter().map(|node| (format!("{CORDON}{node}"), "1".to_owned()));
        dump.hash("workers", members.chain(size).chain(cordons));
        dump.hash("nodes", self.statuses.iter().map(|(node, said)| (node.to_string(), said)));
        dump.hash(
            "heartbeats",
            self.heartbeats.iter().map(|(worker, seq)| (worker.to_string(), seq.to_string())),
        );
        dump.hash("settings", &self.settings);
        let dead = self.dead.iter().map(|(worker, dead)| {
            let slot = dead.slot.map(|slot| slot.to_string()).unwrap_or_default();
            (worker.to_string(), format!("{}|{slot}", dead.heard))
        });
        dump.hash("expired", dead);
    }

    fn dump_jobs(&self, dump: &mut Dump) {
        let records = self.jobs.iter().map(|(key, job)| match &job.stored {
            Stored::Record(record) => (key, Text::from(record.to_string())),
            Stored::Damaged(raw) => (key, Text::from(raw)),
        });
        dump.hash("jobs", records);
        dump.hash("payloads", self.jobs.iter().filter_map(|(key, job)| Some((key, job.payload.as_ref()?))));
        let owned = self.owned.iter().flat_map(|(worker, keys)| keys.iter().map(move |key| (worker, key)));
        dump.scores(
            "owners",
            owned.map(|(worker, key)| ([format!("{worker}:").as_bytes(), key.as_bytes()].concat(), 0)),
        );
        dump.scores("queue", self.queue.iter().map(|(due, key)| (key, due)));
        dump.scores("parked", self.parked.iter().map(|(at, key)| (key, at)));
        dump.hash("errors", &self.errors);
        let mut waiting = Vec::new();
        for (key, mailbox) in &self.mailboxes {
            let header = mailbox.damage.as_ref().map_or_else(|| Text::from(mailbox.header()), Text::from);
            waiting.push(([b"h:", key.as_bytes()].concat(), header));
            let numbered = (mailbox.head..).zip(&mailbox.bodies);
            waiting.extend(numbered.map(|(seq, body)| {
                ([format!("{seq}:").as_bytes(), key.as_bytes()].concat(), Text::from(body))
            }));
        }
        dump.hash("notifications", waiting);
        let checkpoints = self.checkpoints.iter().flat_map(|(key, kept)| {
            let field = |kind: &[u8]| [kind, key.as_bytes()].concat();
            [(field(b"h:"), Text::from(kept.header())), (field(b"b:"), Text::from(&kept.bytes))]
        });
        dump.hash("checkpoints", checkpoints);
        let ended = self.ended.iter().map(|(until, ended)| match ended {
            Ended::Dispatch(id) => (id.to_string(), until),
            Ended::Caller(id) => (format!("!{id}"), until),
            Ended::Run(dispatch) => (format!("#{dispatch}"), until),
        });
        dump.scores("ended", ended);
        let planned = self.planned.iter().flat_map(|(plan, keys)| keys.iter().map(move |key| (plan, key)));
        dump.scores(
            "planned",
            planned.map(|(plan, key)| ([format!("{plan}|").as_bytes(), key.as_bytes()].concat(), 0)),
        );
        dump.hash(
            "schedules",
            self.schedules.iter().map(|(name, entry)| (name.to_string(), entry.to_string())),
        );
        let remembered = self.remembered.iter().map(|(caller, r)| {
            let outcome = r.outcome.as_deref().unwrap_or_default();
            let fields = [r.key.as_bytes(), r.hash.as_bytes(), r.id.as_str().as_bytes(), outcome.as_bytes()];
            (caller.clone(), Text::from([&*fields.join(&b'|'), format!("|{}", r.at).as_bytes()].concat()))
        });
        let told = self.run_ends.iter();
        let told = told.map(|(dispatch, told)| {
            (format!("#{dispatch}"), Text::from(format!("{}|{}", told.token, told.at).as_bytes()))
        });
        dump.hash("outcomes", remembered.chain(told));
    }

    fn dump_streams(&self, dump: &mut Dump) {
        if self.history.len() > 0 {
            dump.entries(
                "history",
                self.history.iter().map(|entry| vec![Text::from("e"), Text::from(entry)]),
            );
        }
        let pool = &self.pool_stream;
        if self.meta.incarnation.is_some() {
            let starts = pool.log.iter().map(|starts| {
                let pairs = starts.iter().flat_map(|(key, strikes)| {
                    let field = if *strikes == 0 { "s".to_owned() } else { format!("s{strikes}") };
                    [Text::from(field), Text::from(key)]
                });
                pairs.collect()
            });
            dump.entries("starts", starts);
        }
        let mut pending = BTreeMap::<&str, usize>::new();
        for entry in pool.group.iter().flat_map(|group| group.pending.values()) {
            *pending.entry(entry.consumer.as_str()).or_default() += 1;
        }
        dump.hash(
            "starts.routers",
            pending.into_iter().map(|(consumer, count)| (consumer, count.to_string())),
        );
        for (worker, log) in &self.worker_streams {
            dump.entries(&format!("worker:{worker}"), log.iter().map(worker_entry));
        }
        for (node, stream) in &self.node_streams {
            let entries = stream.log.iter().map(|entry| match entry {
                NodeEntry::Outcomes(none) if none.is_empty() => vec![Text::from("open"), Text::from("1")],
                NodeEntry::Outcomes(outcomes) => {
                    outcomes.iter().flat_map(|(id, o)| [Text::from(id.as_str()), Text::from(o)]).collect()
                }
                NodeEntry::Replies(replies) => replies
                    .iter()
                    .flat_map(|(id, said)| [Text::from(id.to_string()), Text::from(said.encode())])
                    .collect(),
            });
            dump.entries(&format!("node:{node}"), entries);
        }
    }
}

fn worker_entry(event: &WorkerEvent) -> Vec<Text> {
    let mut fields = Vec::new();
    let mut pair = |name: &[u8], value: &[u8]| fields.extend([Text::from(name), Text::from(value)]);
    match event {
        WorkerEvent::Start { token, keys } => {
            pair(b"t", token.to_string().as_bytes());
            for key in keys {
                pair(b"s", key.as_bytes());
            }
        }
        WorkerEvent::Grant(Granted { token, incarnation, jobs }) => {
            pair(b"g", token.to_string().as_bytes());
            pair(b"i", incarnation.to_string().as_bytes());
            for of in jobs {
                let BegunJob { record, payload, checkpoint, .. } = &of.job;
                pair(of.key.as_bytes(), record.to_string().as_bytes());
                pair(&[of.letter()], payload);
                if let Some(kept) = checkpoint {
                    pair(kept.header().as_bytes(), &kept.bytes);
                }
            }
        }
        WorkerEvent::Stop { waiting, jobs } => {
            pair(b"w", waiting.as_ref().map_or("", |node| node.as_str()).as_bytes());
            for (key, token, id) in jobs {
                pair(b"x", key.as_bytes());
                pair(b"t", token.to_string().as_bytes());
                if let Some(id) = id {
                    pair(b"i", id.as_str().as_bytes());
                }
            }
        }
        WorkerEvent::Notify { jobs } => {
            for (key, token) in jobs {
                pair(b"n", key.as_bytes());
                pair(b"t", token.to_string().as_bytes());
            }
        }
        WorkerEvent::Steer { jobs } => {
            for (key, token, way, reason) in jobs {
                pair(b"r", key.as_bytes());
                pair(b"t", token.to_string().as_bytes());
                pair(b"w", &[way.letter()]);
                pair(b"e", reason.as_bytes());
            }
        }
        WorkerEvent::Update { jobs } => {
            for (key, token, generation) in jobs {
                pair(b"u", key.as_bytes());
                pair(b"t", token.to_string().as_bytes());
                pair(b"g", generation.to_string().as_bytes());
            }
        }
        WorkerEvent::Ask { asker, asks } => {
            pair(b"a", asker.as_str().as_bytes());
            for (key, ask) in asks {
                pair(key.as_bytes(), ask.head().as_bytes());
                pair(ask.token.to_string().as_bytes(), &ask.body);
            }
        }
        WorkerEvent::Unknown => {}
    }
    fields
}
