//! Random sequences of steps on both stores: every answer and the whole state agree after each step.
//!
//! `REFINEMENT_CASES` sets how many sequences are walked, `REFINEMENT_SEED` which ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use tenure_jobs::store::{
    AddJobs, AddMode, Adding, AttestJobs, Attesting, Data, Declare, Ends, ExtendJobs, Kind, Known, Lane,
    ListJobs, Listing, NewJob, PeekJobs, ReadFigures, Recover, Request, ScriptPatch, Settle, SettleJobs,
    Settling, Steer, SteerJobs, Step, TakeJobs, TakeReply, TakenJob, Taking, Tick, WatchJobs, Watching,
};
use tenure_jobs::{JobId, Token};

use super::lab::{Lab, PATCHES, Which, group, id, node, queue, settings};

const QUEUES: [(&str, &str); 6] = [
    ("a", "max=0"),
    ("b", "max=2 keep=2000 lease=3000 done=900 terms=300,,0,0,a"),
    ("g", "g glimit=2/1000 gconc=2 max=3"),
    ("x", "cap=3 conc=2 limit=3/2000 lease=5000"),
    ("c", "lease=4000 keep=0"),
    ("o", "o glimit=3/1000 max=4"),
];

/// A move: which one, and numbers that it is made of.
type Move = (u8, [u8; 6]);

fn walk() -> impl Strategy<Value = Vec<Move>> {
    proptest::collection::vec((0..26u8, proptest::array::uniform6(any::<u8>())), 10..150)
}

fn of<T: Clone>(choices: &[T], number: u8) -> T {
    choices[usize::from(number) % choices.len()].clone()
}

fn name(number: u8) -> String {
    format!("j{}", number % 8)
}

struct Walk {
    sides: [Lab; 2],
    /// The tokens under which jobs were taken.
    tokens: BTreeMap<JobId, Token>,
    /// Jobs as they were taken, the last ones last.
    taken: Vec<TakenJob>,
    last: Option<Adding>,
    trace: Vec<String>,
}

impl Walk {
    async fn start() -> Self {
        let sides = [Lab::new(Which::Memory, &QUEUES).await, Lab::new(Which::Redis, &QUEUES).await];
        for lab in &sides {
            lab.listen("n1").await;
            lab.listen("n2").await;
        }
        Self { sides, tokens: BTreeMap::new(), taken: Vec::new(), last: None, trace: Vec::new() }
    }

    fn now(&self) -> u64 {
        self.sides[0].now()
    }

    /// The next call of a lane on both sides.
    fn lane(&self, name: &str) -> Lane {
        self.sides.each_ref().map(|lab| lab.lane(name))[0].clone()
    }

    /// The answer of both sides, or their error, if they agree.
    async fn both<S: Step + Known>(&mut self, step: S) -> Result<Result<S::Answer, String>, String> {
        self.trace.push(format!("{step:?}"));
        let run = async |lab: &Lab| {
            let answer = lab.store.run(lab.inc.get(), &step).await;
            answer.map_err(|error| error.to_string())
        };
        let (memory, redis) = (run(&self.sides[0]).await, run(&self.sides[1]).await);
        let (ours, theirs) = (format!("{memory:?}"), format!("{redis:?}"));
        if ours == theirs { Ok(memory) } else { Err(format!("memory: {ours}\nredis:  {theirs}")) }
    }

    /// Both sides perform a step, and answer alike.
    async fn same<S: Step + Known>(&mut self, step: S) -> Result<(), String> {
        self.both(step).await?.map(drop)
    }

    fn kind(&self, n: [u8; 6]) -> Kind {
        let mut kind = Kind::new(queue(of(&["a", "b", "g", "g", "x", "c", "o", "o"], n[0])));
        kind.group = group(of(&["", "t1", "t2", "t3"], n[1]));
        kind.priority = of(&[0, 0, 1, -2], n[1] / 4);
        kind.keep = of(&[Some(0), None, Some(1_000), Some(-1)], n[2]);
        kind.max = of(&[0, 0, 2], n[2] / 4);
        kind.due = of(&[0, 0, 0, self.now() + 500, 3_000], n[3]);
        kind.deadline = of(&[0, 0, 0, 0, self.now() + 2_000], n[4]);
        of(&["", "", "", "f", "g"], n[0] / 8).clone_into(&mut kind.flow);
        kind.delay = of(&[0, 0, 0, 0, 0, 400], n[3] / 5);
        kind.life = of(&[0, 0, 0, 0, 0, 900], n[4] / 5);
        kind
    }

    async fn add(&mut self, adding: Adding) -> Result<(), String> {
        self.last = Some(adding.clone());
        self.same(AddJobs(self.lane("p"), adding)).await
    }

    async fn make(&mut self, (which, n): &Move) -> Result<(), String> {
        let n = *n;
        match which {
            0..=4 => {
                let count = 1 + n[5] % 3;
                let kind = Arc::new(self.kind(n));
                let job = |i: u8| {
                    let mut job =
                        NewJob::new(id(&name(n[5].wrapping_add(i))), format!("b{}{i}", n[4]), kind.clone());
                    if n[5].is_multiple_of(3) {
                        job.body = Bytes::new();
                    }
                    if n[3].is_multiple_of(5) {
                        job.lookups = vec![format!("user={}", n[1] % 2), "role=x".to_owned()];
                    }
                    job
                };
                let mut adding = Adding::new((0..count).map(job).collect());
                adding.mode = of(
                    &[
                        AddMode::Keep,
                        AddMode::Keep,
                        AddMode::Keep,
                        AddMode::Again,
                        AddMode::Schedule,
                        AddMode::Replace,
                        AddMode::Resubmit,
                    ],
                    n[4] / 8,
                );
                self.add(adding).await
            }
            5 => {
                let mut kind = self.kind(n);
                (kind.waits, kind.fails_fast, kind.open) =
                    (true, n[1].is_multiple_of(3), n[1].is_multiple_of(4));
                let parent = name(n[5]);
                let mut jobs = vec![NewJob::new(id(&parent), "p", kind)];
                for i in 0..n[4] % 4 {
                    let mut child = self.kind([n[1], n[2], n[3], n[4], 0, n[0]]);
                    child.parent = Some(id(&parent));
                    jobs.push(NewJob::new(id(&format!("{parent}.{i}")), "c", child));
                }
                self.add(Adding::new(jobs)).await
            }
            6 => {
                let known = self.tokens.iter().nth(usize::from(n[5]) % self.tokens.len().max(1));
                let Some((parent, token)) = known.map(|(id, token)| (id.clone(), *token)) else {
                    return Ok(());
                };
                let mut kind = self.kind(n);
                kind.parent = Some(parent.clone());
                let child = format!("{parent}.{}", n[4] % 3);
                if child.len() > 20 {
                    return Ok(());
                }
                let mut adding = Adding::new(vec![NewJob::new(id(&child), "c", kind)]);
                adding.token = (!n[3].is_multiple_of(6)).then_some(token);
                self.add(adding).await
            }
            7..=10 => self.take(n).await,
            11..=14 => self.settle(n).await,
            15 => {
                let jobs: Vec<_> =
                    self.tokens.iter().map(|(id, token)| (id.clone(), *token)).take(5).collect();
                self.same(ExtendJobs(jobs)).await
            }
            16 | 17 => {
                let (by, most) = (of(&["n1", "n2"], n[0]), of(&[2, 50], n[1]));
                let off_duty = n[2].is_multiple_of(2);
                self.same(Tick { node: node(by), most, pause: 3_000, grace: 3_000, off_duty }).await
            }
            18 => {
                let ms = of(&[1, 20, 300, 1_100, 4_000, 12_000], n[0]);
                self.trace.push(format!("advance {ms}"));
                for lab in &self.sides {
                    lab.advance(ms).await;
                }
                Ok(())
            }
            19 => self.steer(n).await,
            20 => {
                let node = node(of(&["n1", "n2", "gone"], n[0]));
                let watching = of(&[Watching::End, Watching::Begin, Watching::Again], n[1]);
                let ids = vec![id(&name(n[2])), id(&name(n[3]))];
                // Some calls come late.
                let number = 10 + u64::from(n[4] % 10);
                self.same(WatchJobs { node, watching, number, ids }).await
            }
            21 => {
                let (of_queue, words) = of(
                    &[
                        ("b", "max=2 keep=2000 lease=4000"),
                        ("b", "max=2 keep=2000 lease=3000 done=900 terms=300,,0,0,a"),
                        ("c", "shut"),
                        ("c", "lease=4000 keep=0"),
                        ("g", "g glimit=3/700 gconc=2 max=3"),
                        ("g", "g glimit=2/1000 gconc=0 max=3"),
                        ("x", "cap=3 conc=1 limit=3/2000 lease=5000"),
                        ("a", "g"),
                    ],
                    n[0],
                );
                self.same(Declare(queue(of_queue), Some(settings(words)))).await
            }
            22 | 23 => self.attest(n).await,
            24 => self.lose(n).await,
            _ => self.look(n).await,
        }
    }

    async fn take(&mut self, n: [u8; 6]) -> Result<(), String> {
        let by = of(&["n1", "n2", "gone"], n[0]);
        let mut taking = Taking::new(node(by), queue("a"), of(&[1, 2, 8, 100], n[1]));
        let names = of(&[&["a", "b"][..], &["g", "x"], &["c", "a", "g"], &["g"], &["o"], &["o", "a"]], n[2]);
        taking.queues = names.iter().map(|name| (queue(name), of(&[1, 100], n[3]))).collect();
        taking.slots = of(&[0, 3], n[4]);
        taking.group = group(of(&["", "t1", "t2"], n[3] / 2)).filter(|_| names[0] == "o");
        if n[5].is_multiple_of(8) {
            taking.until = Some(of(&[self.now(), 3_000, self.now() - 600, self.now() + 600], n[1] / 4));
        }
        taking.registration = self.sides[0].registration.borrow().clone().filter(|_| !n[5].is_multiple_of(3));
        let (mut lane, token) = (self.lane(&format!("a{by}")), of(&[7, 8, 9], n[0] / 3));
        if let Some(group) = &taking.group {
            let number = lane.number;
            lane = Lane::of_owner(&queue("o"), group, token);
            lane.number += number;
        }
        let reply = self.both(TakeJobs(lane, taking)).await?;
        let Ok(TakeReply::Taken { jobs, registration, .. }) = reply else { return Ok(()) };
        self.taken.extend(jobs.iter().cloned());
        self.tokens.extend(jobs.into_iter().map(|job| (job.id, job.record.token)));
        for lab in &self.sides {
            lab.registration.borrow_mut().clone_from(&registration);
        }
        Ok(())
    }

    async fn settle(&mut self, n: [u8; 6]) -> Result<(), String> {
        let count = self.tokens.len();
        let mut jobs = Vec::new();
        for i in 0..=n[0] % 3 {
            let Some((id, token)) = self.tokens.iter().nth(usize::from(n[1].wrapping_add(i)) % count.max(1))
            else {
                break;
            };
            let text = Bytes::from(format!("t{}", n[2] % 3));
            let data = of(&[Data::Keep, Data::Replace(text.clone()), Data::Append(text.clone())], n[3]);
            let to = queue(of(&["a", "g", "x", "o", "nowhere"], n[4]));
            let settle = match n[5].wrapping_add(i) % 15 {
                0..=3 => Settle::Done(if n[2].is_multiple_of(3) { Bytes::new() } else { text }, data),
                4 => Settle::MoveOn {
                    queue: to,
                    priority: of(&[None, Some(3)], n[3]),
                    group: group(of(&["", "t1"], n[2])),
                    data,
                },
                5 => Settle::Wait(of(&[0, 700], n[4]), data),
                6 => Settle::Retry(of(&[0, 700], n[4]), text),
                7 => Settle::Fail(text, data),
                8 => Settle::Later(of(&[10, 900], n[4]), text),
                9 => Settle::GiveBack,
                10 => Settle::Resubmit(of(&[0, self.now() + 600], n[4])),
                11 => Settle::Limited(self.now() + 800),
                12 | 13 => Settle::Note(text),
                _ => Settle::GoOn(data),
            };
            let token = if n[4].is_multiple_of(9) { Token(token.0 + 1) } else { *token };
            jobs.push(Settling::new(id.clone(), token, settle));
        }
        self.same(SettleJobs(self.lane("s"), jobs)).await
    }

    /// A node says what it runs, or has run, also after what the data know.
    async fn attest(&mut self, n: [u8; 6]) -> Result<(), String> {
        let mut jobs = Vec::new();
        for i in 0..=n[0] % 3 {
            let count = self.taken.len();
            let Some(taken) =
                self.taken.get((count.saturating_sub(1 + usize::from(n[1] % 12))) + usize::from(i))
            else {
                break;
            };
            let mut record = taken.record.clone();
            if n[2].is_multiple_of(2) {
                // An execution that the data have never seen.
                record.token = Token(record.token.0 + 5);
                record.queue = queue(of(&["a", "g", "x", "nowhere"], n[3]));
                of(&["", "t1"], n[4]).clone_into(&mut record.group);
            }
            let body = (!n[5].is_multiple_of(3)).then(|| taken.body.clone());
            self.tokens.insert(taken.id.clone(), record.token);
            let notes = of(&[taken.notes.clone(), Bytes::from_static(b"own")], n[4]);
            jobs.push(Attesting::new(taken.id.clone(), record, body).with_notes(notes));
        }
        self.same(AttestJobs(jobs)).await
    }

    /// Another incarnation begins, sometimes without data.
    async fn lose(&mut self, n: [u8; 6]) -> Result<(), String> {
        let (wiped, hold, grace) =
            (n[0].is_multiple_of(3), of(&[0, 1, 900], n[1]), of(&[0, 2_000, 8_000], n[2]));
        if wiped {
            self.trace.push("wipe".to_owned());
            for lab in &self.sides {
                lab.wipe().await;
                lab.boot().await;
                for (name, words) in QUEUES {
                    lab.declare(name, words).await;
                }
                lab.registration.replace(None);
            }
        }
        let inc = self.both(Recover { seen: Token(0), server: "other".into(), hold, grace }).await??;
        self.sides.iter().for_each(|lab| lab.inc.set(inc));
        Ok(())
    }

    async fn steer(&mut self, n: [u8; 6]) -> Result<(), String> {
        let job = id(&name(n[0]));
        let g = || (queue(of(&["g", "o"], n[4])), group(of(&["", "t1", "t2"], n[1])));
        let request = match n[2] % 16 {
            0 | 1 => Request::Job(job, Steer::Cancel("enough".into())),
            2 => Request::Job(job, Steer::Remove),
            3 => Request::Job(job, Steer::Pause),
            4 | 5 => Request::Job(job, Steer::Resume),
            6 => Request::Job(job, Steer::Replay(of(&[0, self.now() + 400], n[1]))),
            7 => Request::Job(job, Steer::At(of(&[0, self.now() + 900], n[1]))),
            8 => Request::Job(job, Steer::Priority(of(&[0, 5, 11], n[1]))),
            9 => Request::Job(job, Steer::Close),
            10 => Request::PauseQueue(queue(of(&["a", "g", "x", "o", "no"], n[1])), n[3].is_multiple_of(3)),
            11 => Request::PauseGroup(g().0, g().1, n[3].is_multiple_of(3)),
            12 => Request::LimitGroup(g().0, g().1, of(&[Some((1, 500)), None, Some((4, 0))], n[3])),
            13 => Request::GroupConcurrency(g().0, g().1, of(&[Some(1), None], n[3])),
            14 => Request::GroupWeight(g().0, g().1, of(&[5, 0, 1], n[3])),
            _ => Request::ResetGroup(g().0, g().1),
        };
        self.same(SteerJobs(vec![request])).await
    }

    async fn look(&mut self, n: [u8; 6]) -> Result<(), String> {
        if let Some(adding) = self.last.clone().filter(|_| n[0].is_multiple_of(3)) {
            // The last add arrives once more.
            let mut lane = self.lane("p");
            lane.number -= 1;
            self.both(AddJobs(lane, adding)).await?.ok();
        }
        let ids: Vec<_> = (0..8).map(|i| id(&name(n[1].wrapping_add(i)))).collect();
        let behind = Ends::Behind(format!("{}.{}", ids[0], n[2] % 3).into());
        let ends = of(&[Ends::With, Ends::With, Ends::Without, behind], n[2] / 3);
        self.same(PeekJobs(ends, ids)).await?;
        let queues = QUEUES.iter().map(|(name, _)| queue(name)).collect();
        self.same(ReadFigures(queues)).await?;
        for of in [Listing::Dead(queue("b")), Listing::With("user=1".into()), Listing::Ready(queue("g"))] {
            self.same(ListJobs { of, after: None, size: 3 }).await?;
        }
        Ok(())
    }

    async fn compare(&self) -> Result<(), String> {
        let lines = async |lab: &Lab| -> Vec<String> {
            let lines = lab.dump().await.lines();
            // A count of nothing may stand there or not.
            lines
                .into_iter()
                .filter(|line| !(line.starts_with("counts ") && line.ends_with(" = 0")))
                .collect()
        };
        let (memory, redis) = (lines(&self.sides[0]).await, lines(&self.sides[1]).await);
        if memory == redis {
            return Ok(());
        }
        let only = |these: &[String], those: &[String]| -> Vec<String> {
            these.iter().filter(|line| !those.contains(line)).cloned().collect()
        };
        Err(format!("memory: {:#?}\nredis: {:#?}", only(&memory, &redis), only(&redis, &memory)))
    }
}

async fn compare(moves: &[Move]) -> Result<(), String> {
    let mut walk = Walk::start().await;
    for step in moves {
        let made = walk.make(step).await;
        let compared = match made {
            Ok(()) => walk.compare().await,
            error => error,
        };
        if let Err(error) = compared {
            let trace = walk.trace.iter().rev().take(12).rev().cloned().collect::<Vec<_>>().join("\n");
            return Err(format!("{error}\nafter:\n{trace}"));
        }
    }
    Ok(())
}

fn number(variable: &str, default: u32) -> u32 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The scripts without their parts for plain calls alone.
const GENERAL: &[ScriptPatch] = &[
    ScriptPatch { script: "add", from: "if mode == 'k' and keep and", to: "if false and" },
    ScriptPatch { script: "take", from: "if not repeated and until_ms == '' then", to: "if false then" },
    ScriptPatch { script: "settle", from: "if n > 0 and not find(modes, '[^c]') then", to: "if false then" },
];

#[test]
fn both_stores_answer_and_end_alike() {
    walk_both(20);
}

#[test]
fn general_parts_do_plain_calls_alike() {
    PATCHES.set(GENERAL);
    walk_both(10);
}

fn walk_both(cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seed = number("REFINEMENT_SEED", 1);
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: number("REFINEMENT_CASES", cases),
        max_shrink_iters: 300,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let walked = runner.run(&walk(), |moves| runtime.block_on(compare(&moves)).map_err(TestCaseError::fail));
    if let Err(failure) = walked {
        panic!("REFINEMENT_SEED={seed}: {failure}");
    }
}
