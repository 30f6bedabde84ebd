//! Random runs of the whole consumer, in virtual time, against a naive model: with a crash after each of their steps.

use std::collections::BTreeSet;

use futures::FutureExt;
use proptest::prelude::*;
use tenure_sequence::{Consumer, Finisher, Jobs, MemoryProgress, Progress};

use crate::{Shelf, state};

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
    Stop,
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => prop::bool::weighted(0.2).prop_map(Step::Add),
        8 => any::<u8>().prop_map(Step::Finish),
        1 => (0..12_u8).prop_map(Step::Stray),
        1 => any::<bool>().prop_map(Step::Fail),
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

    fn crash(&mut self) {
        self.stored = self.progress();
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
    progress: MemoryProgress,
    consumer: Consumer,
    jobs: Jobs<u64>,
    finisher: Finisher,
    model: Model,
}

impl Play {
    async fn new(limit: usize, ahead: u64) -> Self {
        let (shelf, progress) = (Shelf::default(), MemoryProgress::new());
        let (consumer, jobs, finisher) = Self::build(limit, ahead, &shelf, &progress).await;
        let model = Model::default();
        Self { limit, ahead, shelf, progress, consumer, jobs, finisher, model }
    }

    async fn build(
        limit: usize,
        ahead: u64,
        shelf: &Shelf,
        progress: &MemoryProgress,
    ) -> (Consumer, Jobs<u64>, Finisher) {
        let builder = Consumer::builder(shelf.clone(), progress.clone()).concurrency(limit).look_ahead(ahead);
        let made = builder.manual().unwrap();
        made.0.start().await.unwrap();
        made
    }

    async fn crash(&mut self) {
        (self.consumer, self.jobs, self.finisher) =
            Self::build(self.limit, self.ahead, &self.shelf, &self.progress).await;
        self.model.crash();
    }

    async fn finish(&mut self, index: u64) {
        let _ = self.finisher.finish(index).await;
        if self.model.running().contains(&index) {
            self.model.done.insert(index);
        }
    }

    async fn step(&mut self, step: Step) {
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
            Step::Stop => {
                let _ = self.consumer.stop().now_or_never();
                self.model.stopped = true;
            }
            Step::Crash => self.crash().await,
        }
        self.consumer.check();
        while self.jobs.next().now_or_never().flatten().is_some() {}
        self.model.look(self.limit, self.ahead);
        assert_eq!(state(&self.consumer).await, self.model.shown(), "after {step:?}");
        let stored = self.progress.load().await.unwrap();
        assert_eq!(stored, Some(self.model.progress()), "after {step:?}");
    }

    /// With everything in order again, all that is there is done, up to the first index that is not.
    async fn drain(&mut self) {
        self.step(Step::Fail(false)).await;
        self.step(Step::Crash).await;
        while let Some(last) = self.model.running().last() {
            self.finish(*last).await;
            self.model.look(self.limit, self.ahead);
            assert_eq!(state(&self.consumer).await, self.model.shown());
        }
        let all = (1..=u64::MAX).find(|index| !self.model.there.contains(index)).unwrap() - 1;
        assert_eq!(self.progress.get(), Some(all));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_consumer_does_as_the_model_wherever_it_crashes(
        steps in steps(),
        limit in 1..5_usize,
        ahead in 0..7_u64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        for crash in 0..=steps.len() {
            runtime.block_on(async {
                let mut play = Play::new(limit, ahead).await;
                for (at, step) in steps.iter().enumerate() {
                    if at == crash {
                        play.step(Step::Crash).await;
                    }
                    play.step(*step).await;
                }
                play.drain().await;
            });
        }
    }
}
