//! Random runs of the whole consumer, in virtual time, against a naive model. It crashes after each of their steps, when all
//! has settled and before. The store does its part, refuses, hangs, or loses its answers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use proptest::prelude::*;
use tenure_sequence::{Consumer, Finisher, Jobs, MemoryProgress, Progress, ProgressError, Verdict};

use crate::{Shelf, shown};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The next index appears, or the one after the next one.
    Add(bool),
    /// The running job at this place is done.
    Finish(u8),
    /// This index is told as done, whatever it does.
    Stray(u8),
    /// The source fails at the next index that would begin, or works again.
    Fail(bool),
    /// From now on the store does this with a save.
    Store(Saves),
    Stop,
    Crash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saves {
    Stored,
    Refused,
    /// Stored, but its answer is lost.
    AnswerLost,
    /// Stored, but it never answers.
    Hangs,
}

/// A store with faults. It outlives the consumer, but not the consumer's connection to it.
#[derive(Clone)]
struct Faulty {
    kept: MemoryProgress,
    saves: Arc<Mutex<Saves>>,
    is_cut: Arc<AtomicBool>,
}

impl Faulty {
    fn new() -> Self {
        Self {
            kept: MemoryProgress::new(),
            saves: Arc::new(Mutex::new(Saves::Stored)),
            is_cut: Arc::default(),
        }
    }

    /// The process of the consumer crashes: nothing of it arrives any more. Returns the store for the next one.
    fn cut(&self) -> Self {
        self.is_cut.store(true, Ordering::SeqCst);
        Self { is_cut: Arc::default(), ..self.clone() }
    }
}

impl Progress for Faulty {
    async fn load(&self) -> Result<Option<u64>, ProgressError> {
        self.kept.load().await
    }

    async fn init(&self, default: u64) -> Result<u64, ProgressError> {
        self.kept.init(default).await
    }

    async fn save(&self, index: u64) -> Result<(), ProgressError> {
        if self.is_cut.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        let saves = *self.saves.lock().unwrap();
        if saves != Saves::Refused {
            assert!(Some(index) >= self.kept.get(), "the stored progress goes back");
            self.kept.save(index).await?;
        }
        match saves {
            Saves::Stored => Ok(()),
            Saves::Refused | Saves::AnswerLost => Err(ProgressError::unavailable("no answer")),
            Saves::Hangs => std::future::pending().await,
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => prop::bool::weighted(0.2).prop_map(Step::Add),
        8 => any::<u8>().prop_map(Step::Finish),
        1 => (0..12_u8).prop_map(Step::Stray),
        1 => any::<bool>().prop_map(Step::Fail),
        2 => prop_oneof![
            2 => Just(Saves::Stored),
            1 => Just(Saves::Refused),
            1 => Just(Saves::AnswerLost),
            1 => Just(Saves::Hangs),
        ].prop_map(Step::Store),
        1 => prop_oneof![3 => Just(Step::Crash), 1 => Just(Step::Stop)],
    ];
    prop::collection::vec(step, 1..24)
}

/// The naive consumer: it follows the rule index by index.
#[derive(Default)]
struct Model {
    there: BTreeSet<u64>,
    failing: Option<u64>,
    stored: u64,
    begun: BTreeSet<u64>,
    done: BTreeSet<u64>,
    stopped: bool,
}

impl Model {
    fn progress(&self) -> u64 {
        (self.stored + 1..=u64::MAX).find(|index| !self.done.contains(index)).unwrap() - 1
    }

    fn running(&self) -> Vec<u64> {
        self.begun.difference(&self.done).copied().collect()
    }

    /// Looks until nothing further begins.
    fn look(&mut self, limit: usize, ahead: u64) {
        while !self.stopped {
            let first = self.begun.last().copied().unwrap_or(0).max(self.progress()) + 1;
            let room = limit - self.running().len();
            let last = if ahead == 0 { u64::MAX } else { self.progress() + ahead };
            let look: Vec<_> = (first..).take(room).take_while(|index| *index <= last).collect();
            let found: Vec<_> = look.iter().copied().take_while(|index| self.there.contains(index)).collect();
            // The index at which a look ends is read, too.
            let read = &look[..(found.len() + 1).min(look.len())];
            if found.is_empty() || self.failing.is_some_and(|failing| read.contains(&failing)) {
                return;
            }
            self.begun.extend(found);
        }
    }

    fn crash(&mut self, stored: u64) {
        self.stored = stored;
        (self.begun, self.done, self.stopped) = (BTreeSet::new(), BTreeSet::new(), false);
    }

    fn shown(&self) -> String {
        let runs = self.running();
        let one = |index: &u64| format!(" {index}{}", if runs.contains(index) { '!' } else { '*' });
        let above: String = self.begun.range(self.progress() + 1..).map(one).collect();
        format!("{}#{above}", self.progress())
    }
}

struct Play {
    limit: usize,
    ahead: u64,
    shelf: Shelf,
    progress: Faulty,
    consumer: Consumer,
    jobs: Jobs<u64>,
    finisher: Finisher,
    model: Model,
}

impl Play {
    async fn new(limit: usize, ahead: u64) -> Self {
        let (shelf, progress) = (Shelf::default(), Faulty::new());
        let (consumer, jobs, finisher) = Self::build(limit, ahead, &shelf, &progress).await;
        let model = Model::default();
        Self { limit, ahead, shelf, progress, consumer, jobs, finisher, model }
    }

    async fn build(
        limit: usize,
        ahead: u64,
        shelf: &Shelf,
        progress: &Faulty,
    ) -> (Consumer, Jobs<u64>, Finisher) {
        let builder = Consumer::builder(shelf.clone(), progress.clone()).concurrency(limit).look_ahead(ahead);
        let made = builder.manual().unwrap();
        made.0.start().await.unwrap();
        made
    }

    async fn crash(&mut self) {
        self.progress = self.progress.cut();
        self.model.crash(self.stored());
        (self.consumer, self.jobs, self.finisher) =
            Self::build(self.limit, self.ahead, &self.shelf, &self.progress).await;
    }

    /// The stored progress: all up to it is done.
    fn stored(&self) -> u64 {
        let stored = self.progress.kept.get().unwrap();
        assert!(stored >= self.model.stored, "{stored} is stored, and was {} before", self.model.stored);
        assert!(stored <= self.model.progress(), "{stored} is stored, but not done");
        stored
    }

    async fn finish(&mut self, index: u64) {
        let _ = self.finisher.finish(index).await;
        if self.model.running().contains(&index) {
            self.model.done.insert(index);
        }
    }

    /// `settles`: it waits until nothing moves any more, and compares.
    async fn step(&mut self, step: Step, settles: bool) {
        match step {
            Step::Add(skips) => {
                let missing = (1..).filter(|index| !self.model.there.contains(index));
                let index = missing.take(1 + usize::from(skips)).last().unwrap();
                self.model.there.insert(index);
                self.shelf.add(index);
            }
            Step::Finish(at) => {
                let running = self.model.running();
                if !running.is_empty() {
                    self.finish(running[usize::from(at) % running.len()]).await;
                }
            }
            Step::Stray(index) => self.finish(u64::from(index)).await,
            Step::Fail(fails) => {
                if let Some(failing) = self.model.failing.take() {
                    self.shelf.fail(failing, false);
                }
                if fails {
                    let next = self.model.begun.last().copied().unwrap_or(0).max(self.model.progress()) + 1;
                    self.shelf.fail(next, true);
                    self.model.failing = Some(next);
                }
            }
            Step::Store(saves) => *self.progress.saves.lock().unwrap() = saves,
            Step::Stop => {
                let _ = self.consumer.stop().now_or_never();
                self.model.stopped = true;
            }
            Step::Crash => self.crash().await,
        }
        self.consumer.check();
        while self.jobs.next().now_or_never().flatten().is_some() {}
        self.model.look(self.limit, self.ahead);
        if settles {
            self.compare(step).await;
        }
    }

    async fn compare(&self, step: Step) {
        // Longer than a save or a look, and the pause after one. Time goes on when nothing else does.
        tokio::time::sleep(Duration::from_secs(8)).await;
        let seen = self.consumer.explain();
        assert_eq!(shown(&seen), self.model.shown(), "after {step:?}");
        let stored = self.stored();
        let gave_up = matches!(seen.verdict, Verdict::Ended { error: Some(_) });
        if *self.progress.saves.lock().unwrap() == Saves::Stored && !gave_up {
            assert_eq!((stored, seen.stored), (seen.progress, seen.progress), "after {step:?}");
        }
        assert!(seen.stored <= stored, "it believes that {} is stored, but {stored} is", seen.stored);
    }

    /// With everything in order again, all that is there is done, up to the first index that is not.
    async fn drain(&mut self) {
        for step in [Step::Store(Saves::Stored), Step::Fail(false), Step::Crash] {
            self.step(step, true).await;
        }
        while let Some(last) = self.model.running().last() {
            self.finish(*last).await;
            self.model.look(self.limit, self.ahead);
            self.compare(Step::Finish(0)).await;
        }
        let all = (1..=u64::MAX).find(|index| !self.model.there.contains(index)).unwrap() - 1;
        assert_eq!(self.progress.kept.get(), Some(all));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_consumer_does_as_the_model_wherever_it_crashes(
        steps in steps(),
        limit in 1..5_usize,
        ahead in 0..7_u64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        for (crash, settled) in (0..=steps.len()).flat_map(|crash| [(crash, false), (crash, true)]) {
            runtime.block_on(async {
                let mut play = Play::new(limit, ahead).await;
                for (at, step) in steps.iter().enumerate() {
                    play.step(*step, settled || at != crash).await;
                    if at == crash {
                        play.step(Step::Crash, true).await;
                    }
                }
                play.drain().await;
            });
        }
    }
}
