//! Jobs begin.

use std::collections::BTreeMap;

use super::edit::{Edit, LAST, allowance, allowance_of, limit_of, ready_member};
use super::group::Place;
use super::state::with_prefix;
use super::steps::Transition;
use super::wake::waits_as;
use crate::model::id::{JobId, QueueName, Token};
use crate::model::record::State as JobState;
use crate::store::{Breakage, FULL, MOST, Result, TakeJobs, TakeReply, TakenJob, Taking};

/// No more groups are looked at in one call.
const GROUPS: u64 = 64;

/// A queue that is asked for jobs.
struct Asked {
    queue: QueueName,
    most: u64,
    taken: u64,
    /// When its own limit lets more begin.
    till: Option<u64>,
    running: u64,
    turned: Option<u64>,
}

/// A job that may go.
struct Candidate {
    id: String,
    member: String,
    /// Its queue, by its number.
    of: usize,
    group: Option<String>,
}

struct Take<'a, 'b> {
    edit: &'a mut Edit<'b>,
    taking: &'a Taking,
    asked: Vec<Asked>,
    candidates: Vec<Candidate>,
    meters: BTreeMap<QueueName, (u64, u64)>,
}

impl Transition for TakeJobs {
    fn apply(&self, mut edit: Edit<'_>) -> Result<TakeReply> {
        let Self(lane, taking) = self;
        if edit.hold() > edit.now {
            return Ok(TakeReply::Hold(edit.hold() - edit.now));
        }
        edit.has_tokens()?;
        if let Some(answer) = edit.before(lane)? {
            return Ok(again(&edit, &answer));
        }
        let asked = taking.queues.iter().map(|(queue, most)| Asked {
            running: edit.state.data.count(queue, "running"),
            queue: queue.clone(),
            most: u64::from(*most),
            taken: 0,
            till: None,
            turned: None,
        });
        let asked: Vec<_> = asked.collect();
        if let Some(registration) = &taking.registration {
            for asked in &asked {
                let name = waits_as(&asked.queue, taking.group.as_ref());
                edit.state.data.waiting.remove(&format!("{name}|{registration}"));
            }
        }
        // Nobody but the last owner waits for a group.
        for asked in asked.iter().filter(|_| taking.group.is_some()) {
            let prefix = waits_as(&asked.queue, taking.group.as_ref()) + "|";
            let waiting = &mut edit.state.data.waiting;
            let former: Vec<_> = with_prefix(waiting, &prefix).take(64).cloned().collect();
            waiting.retain(|member| !former.contains(member));
        }
        let mut take =
            Take { edit: &mut edit, taking, asked, candidates: Vec::new(), meters: BTreeMap::new() };
        take.choose();
        let (token, jobs) = take.begin();
        let (registration, more) = take.wait(jobs.len() as u64);
        let ids: Vec<_> = jobs.iter().map(|job| job.id.as_str()).collect();
        let token = token.map(|token| token.to_string()).unwrap_or_default();
        let remembered = format!("{token}|{} {}", registration.as_deref().unwrap_or_default(), ids.join(" "));
        edit.remember(lane, remembered);
        Ok(TakeReply::Taken { jobs, registration, more })
    }
}

/// The answer to a call that is sent again: the jobs that still run for it.
fn again(edit: &Edit<'_>, remembered: &str) -> TakeReply {
    let (head, ids) = remembered.split_once(' ').unwrap_or((remembered, ""));
    let (token, registration) = head.split_once('|').unwrap_or((head, ""));
    let runs = |id: &str| {
        let record = edit.job(id)?;
        let ours = record.state == JobState::Running && record.token.to_string() == token;
        let (id, settings) = (JobId::new(id).ok()?, edit.settings(&record.queue));
        let (lease, terms) = (settings.lease, settings.terms);
        let (body, notes) = (edit.state.data.body(&id), edit.state.data.notes(&id));
        ours.then_some(TakenJob { id, record, body, notes, lease, terms })
    };
    TakeReply::Taken {
        jobs: ids.split(' ').filter_map(runs).collect(),
        registration: Some(registration).filter(|text| !text.is_empty()).map(Into::into),
        more: false,
    }
}

impl Take<'_, '_> {
    fn bound(&self, queue: &QueueName) -> Option<String> {
        self.taking.until.map(|until| format!("{queue}|{:011x}", until.saturating_add(1)))
    }

    /// How many a queue's own limits let begin.
    fn room(&mut self, at: usize) -> u64 {
        let asked = &mut self.asked[at];
        let settings = self.edit.settings(&asked.queue);
        if settings.shut || settings.paused || settings.pinned != self.taking.group.is_some() {
            return 0;
        }
        let mut room = 1_000_000_000;
        if settings.concurrency > 0 && !self.edit.state.data.is_broken(Breakage::ConcurrencyOff) {
            room = u64::from(settings.concurrency).saturating_sub(asked.running + asked.taken);
        }
        if settings.limit > 0 && settings.window > 0 {
            let kept = self.edit.state.data.meters.get(&asked.queue).copied().unwrap_or_default();
            let (window, used) = self.meters.entry(asked.queue.clone()).or_insert(kept);
            let (left, till) = allowance(window, used, settings.limit.into(), settings.window, self.edit.now);
            room = room.min(left);
            asked.till = (till > 0).then_some(till);
        }
        room
    }

    fn choose(&mut self) {
        for at in 0..self.asked.len() {
            let most = u64::from(self.taking.want).min(MOST as u64);
            let left = most.saturating_sub(self.candidates.len() as u64);
            let room = left.min(self.asked[at].most).min(self.room(at));
            if room == 0 {
                continue;
            }
            let queue = self.asked[at].queue.clone();
            if let Some(group) = &self.taking.group {
                self.choose_of(at, &queue, group.as_str(), room);
                continue;
            }
            if self.edit.settings(&queue).grouped {
                self.choose_groups(at, &queue, room);
                continue;
            }
            let (prefix, bound) = (format!("{queue}|"), self.bound(&queue));
            let found = with_prefix(&self.edit.state.data.ready, &prefix)
                .take_while(|member| bound.as_ref().is_none_or(|bound| *member < bound))
                .take(room as usize);
            let candidates = found.map(|member| Candidate {
                id: member[prefix.len() + 17..].to_owned(),
                member: member.clone(),
                of: at,
                group: None,
            });
            self.candidates.extend(candidates);
        }
    }

    /// The next jobs of a group, for its owner.
    fn choose_of(&mut self, at: usize, queue: &QueueName, name: &str, room: u64) {
        let (settings, now) = (self.edit.settings(queue), self.edit.now);
        let group = &mut self.edit.group(queue, name).group;
        if group.paused {
            return;
        }
        let free = room.min(group.ready).min(allowance_of(group, &settings, now).0);
        let key = format!("{queue}|{name}|");
        let found = with_prefix(&self.edit.state.data.ready, &key).take(free as usize);
        let candidates: Vec<_> = found
            .map(|member| Candidate {
                id: member[key.len() + 17..].to_owned(),
                member: member.clone(),
                of: at,
                group: Some(name.to_owned()),
            })
            .collect();
        let missing = free - candidates.len() as u64;
        self.candidates.extend(candidates);
        self.edit.group(queue, name).group.ready -= missing;
    }

    /// The groups whose turn it is: the least tag first, a job each, and round again.
    fn choose_groups(&mut self, at: usize, queue: &QueueName, room: u64) {
        let settings = self.edit.settings(queue);
        let prefix = format!("{queue}|");
        let found: Vec<_> = with_prefix(&self.edit.state.data.turns, &prefix)
            .take(room.min(GROUPS) as usize)
            .cloned()
            .collect();
        // Name, tag, jobs taken, jobs that may be taken.
        let mut line: Vec<(String, u64, u64, u64)> = Vec::new();
        for member in found {
            let name = member[prefix.len() + 15..].to_owned();
            let now = self.edit.now;
            let group = &mut self.edit.group(queue, &name).group;
            if group.place == Place::InLine && format!("{prefix}{:014x}|{name}", group.tag) == member {
                let free = group.ready.min(allowance_of(group, &settings, now).0);
                line.push((name, group.tag, 0, free));
            } else {
                self.edit.state.data.turns.remove(&member);
            }
        }
        let (mut sequence, mut turn) = (Vec::new(), self.edit.turn_of(queue));
        while (sequence.len() as u64) < room && !line.is_empty() {
            let (name, tag, taken, free) = line.remove(0);
            if taken >= free {
                continue;
            }
            if tag > turn {
                turn = tag;
                self.asked[at].turned = Some(turn);
            }
            let group = &mut self.edit.group(queue, &name).group;
            group.tag += group.turn();
            let tag = group.tag;
            sequence.push(name.clone());
            let behind = line.iter().rposition(|(_, other, ..)| *other <= tag).map_or(0, |at| at + 1);
            line.insert(behind, (name, tag, taken + 1, free));
        }
        if self.asked[at].turned.is_some() {
            self.edit.state.data.turns_given.insert(queue.clone(), turn);
        }
        let mut taken: BTreeMap<String, usize> = BTreeMap::new();
        for name in sequence {
            let key = format!("{queue}|{name}|");
            let nth = taken.entry(name.clone()).or_default();
            let member = with_prefix(&self.edit.state.data.ready, &key).nth(*nth).cloned();
            *nth += 1;
            if let Some(member) = member {
                let id = member[key.len() + 17..].to_owned();
                self.candidates.push(Candidate { id, member, of: at, group: Some(name) });
            } else {
                let group = &mut self.edit.group(queue, &name).group;
                group.ready = group.ready.saturating_sub(1);
            }
        }
    }

    fn begin(&mut self) -> (Option<Token>, Vec<TakenJob>) {
        let candidates = std::mem::take(&mut self.candidates);
        if candidates.is_empty() {
            return (None, Vec::new());
        }
        let token = if self.edit.state.data.is_broken(Breakage::TokensRepeat) {
            self.edit.state.data.token()
        } else {
            Token(self.edit.mint())
        };
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        for Candidate { id, member, of, group } in candidates {
            let queue = self.asked[of].queue.clone();
            let settings = self.edit.settings(&queue);
            if bytes > FULL {
                if let Some(name) = group {
                    let touched = self.edit.group(&queue, &name);
                    let back = touched.group.tag.saturating_sub(touched.group.turn());
                    touched.group.tag = back.max(touched.tag_before);
                }
                continue;
            }
            self.edit.state.data.ready.remove(&member);
            if let Some(name) = &group {
                let group = &mut self.edit.group(&queue, name).group;
                group.ready = group.ready.saturating_sub(1);
            }
            let Some(mut job) = self.edit.job(&id).filter(|job| job.state == JobState::Ready) else {
                continue;
            };
            let Ok(id) = JobId::new(&id) else { continue };
            debug_assert_eq!(member, ready_member(&settings, id.as_str(), &job));
            job.state = JobState::Running;
            job.token = token;
            job.attempts += 1;
            job.node = self.taking.node.to_string();
            self.edit.put(id.as_str(), &job);
            self.edit.tell_begun(&id, &mut job);
            self.edit.state.data.leases.put(id.to_string(), self.edit.now + settings.lease);
            self.edit.arm(self.edit.now + settings.lease);
            self.asked[of].taken += 1;
            if let Some(name) = &group {
                let off = self.edit.state.data.is_broken(Breakage::GroupLimitOff);
                let group = &mut self.edit.group(&queue, name).group;
                group.running += 1;
                if limit_of(group, &settings).0 > 0 && !off {
                    group.used += 1;
                }
            }
            let (body, notes) = (self.edit.state.data.body(&id), self.edit.state.data.notes(&id));
            bytes += body.len() + notes.len();
            let (lease, terms) = (settings.lease, settings.terms);
            jobs.push(TakenJob { id, record: job, body, notes, lease, terms });
        }
        self.edit.place_groups();
        ((!jobs.is_empty()).then_some(token), jobs)
    }

    /// The node waits where it has taken less than it may. Where it has not, others are woken.
    fn wait(&mut self, took: u64) -> (Option<Box<str>>, bool) {
        let (mut waits, mut others, mut more) = (Vec::new(), Vec::new(), false);
        for at in 0..self.asked.len() {
            let (queue, taken) = (self.asked[at].queue.clone(), self.asked[at].taken);
            if taken > 0 {
                self.edit.state.data.add_count(&queue, "running", taken as i64);
                if let Some((window, used)) = self.meters.get_mut(&queue) {
                    *used += taken;
                    self.edit.state.data.meters.insert(queue.clone(), (*window, *used));
                }
            }
            let can = self.room(at) > 0
                && match &self.taking.group {
                    Some(name) => {
                        let group = &self.edit.group(&queue, name.as_str()).group;
                        group.place == Place::InLine && group.ready > 0
                    }
                    None => self.edit.has_ready(&queue, self.bound(&queue).as_deref()),
                };
            let settings = self.edit.settings(&queue);
            if let Some(till) = self.asked[at].till.filter(|_| !settings.paused && !settings.shut) {
                self.edit.state.data.timers.put(format!("g:{queue}"), till);
                self.edit.arm(till);
            }
            if took < u64::from(self.taking.want) && taken < self.asked[at].most {
                if can {
                    more = true;
                } else if self.taking.slots > 0 {
                    waits.push(queue);
                }
            } else if can && self.taking.group.is_none() {
                others.push(queue);
            }
        }
        let registration = (!waits.is_empty()).then(|| {
            // A node that takes only what is scheduled until a time stands behind all others, and the latest time stands
            // first. So nobody who could take a job stands behind one who could not.
            let until = self.taking.until.map(|until| format!("f{:011x}", LAST.saturating_sub(until)));
            let Taking { node, slots, .. } = self.taking;
            let registration =
                format!("{}{:014x}|{node}|{slots}", until.unwrap_or_default(), self.edit.mint());
            for queue in waits {
                let name = waits_as(&queue, self.taking.group.as_ref());
                self.edit.state.data.waiting.insert(format!("{name}|{registration}"));
            }
            registration.into()
        });
        for queue in others {
            self.edit.wake(&queue, 1);
        }
        self.edit.tell_duty();
        (registration, more)
    }
}
