//! Exact steps of the core, and a property against a model with crashes at every step.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// A core with as much of the source as a look needs.
struct Bench {
    core: Core<u64>,
    head: u64,
}

impl Bench {
    fn new(limit: usize, ahead: u64, stored: u64, head: u64) -> Self {
        let mut core = Core::new(limit, ahead);
        core.start(stored);
        let mut bench = Self { core, head };
        bench.settle();
        bench
    }

    /// Looks for as long as there is something to find.
    fn settle(&mut self) {
        while let Some(look) = self.core.look() {
            let count = self.head.saturating_sub(look.first - 1).min(look.most as u64);
            self.core.found(look, count as usize, |index| index);
        }
        if let Some(to) = self.core.save() {
            self.core.saved(to);
        }
    }

    fn finish(&mut self, indexes: &[u64]) -> Vec<u64> {
        let finish = |index: &u64| {
            self.core.finish(*index);
            self.settle();
            self.core.progress()
        };
        indexes.iter().map(finish).collect()
    }

    fn running(&self) -> Vec<u64> {
        self.core.running().map(|(index, _)| index).collect()
    }
}

#[test]
fn jobs_done_ahead_of_a_hole_take_no_memory() {
    let mut bench = Bench::new(3, 0, 0, 1_000_000);
    for index in 2..=1_000_000 {
        bench.finish(&[index]);
    }
    assert_eq!((bench.core.progress(), bench.core.done_ahead()), (0, 999_999));
    assert_eq!(bench.core.unfinished.len(), 1, "only the hole is kept");
    assert_eq!(bench.finish(&[1]), [1_000_000]);
}

#[test]
fn a_window_of_three_unfinished_jobs_is_full() {
    let mut bench = Bench::new(4, 0, 2, 12);
    bench.finish(&[4, 7, 8, 9, 10, 11]);
    bench.core.limit = 3;
    assert_eq!((bench.running(), bench.core.room()), (vec![3, 5, 6, 12], 0));
    bench.head = 20;
    bench.finish(&[12]);
    assert_eq!((bench.running(), bench.core.progress()), (vec![3, 5, 6], 2), "nothing begins");
    bench.finish(&[3, 5]);
    assert_eq!((bench.running(), bench.core.progress()), (vec![6, 13, 14], 5));
}

#[test]
fn the_last_index_of_all_ends_the_sequence() {
    let mut bench = Bench::new(3, 0, u64::MAX - 2, u64::MAX);
    assert_eq!(bench.running(), [u64::MAX - 1, u64::MAX]);
    assert_eq!(bench.core.room(), 0);
    assert_eq!(bench.finish(&[u64::MAX, u64::MAX - 1]), [u64::MAX - 2, u64::MAX]);
}

#[test]
fn one_look_is_under_way_at_a_time() {
    let mut core: Core<()> = Core::new(3, 0);
    core.want();
    assert_eq!(core.look(), None, "before the start");
    core.start(0);
    let look = core.look().unwrap();
    (0..100).for_each(|_| core.want());
    assert_eq!(core.look(), None);
    core.found(look, 0, |_| ());
    let next = core.look().unwrap();
    core.found(next, 0, |_| ());
    assert_eq!((core.look(), core.rests()), (None, Some(Ended::Missing(1))), "100 wishes are one look");
}

#[test]
fn a_look_that_ends_after_a_stop_begins_nothing() {
    let mut core: Core<()> = Core::new(3, 0);
    core.start(0);
    let look = core.look().unwrap();
    core.stop();
    assert_eq!(core.found(look, 3, |_| ()), 0);
    core.want();
    assert_eq!((core.look(), core.begun()), (None, 0));
}

#[test]
fn a_source_that_gives_too_much_begins_no_more_than_fits() {
    let mut core: Core<()> = Core::new(2, 0);
    core.start(0);
    let look = core.look().unwrap();
    assert_eq!((core.found(look, 7, |_| ()), core.begun()), (2, 2));
}

#[test]
fn a_look_that_takes_too_long_is_followed_by_half_of_it() {
    let mut core: Core<()> = Core::new(5_000, 0);
    core.start(0);
    let mut asked = Vec::new();
    for _ in 0..12 {
        let look = core.look().unwrap();
        asked.push(look.most);
        core.failed();
        core.narrow(look);
        core.want();
    }
    assert_eq!(asked, [1_000, 500, 250, 125, 62, 31, 15, 7, 3, 1, 1, 1]);
    let mut next = || {
        let look = core.look().unwrap();
        core.found(look, look.most, |_| ());
        core.widen(look);
        look.most
    };
    assert_eq!([next(), next(), next()], [1, 2, 4]);
    assert_eq!((0..8).map(|_| next()).max(), Some(1_000), "and no more");
}

#[test]
fn a_look_for_which_there_was_little_room_widens_nothing() {
    let mut core: Core<u64> = Core::new(8, 0);
    core.start(0);
    let look = core.look().unwrap();
    core.narrow(Look { most: 8, ..look });
    core.found(look, 7, |index| index);
    core.want();
    let look = core.look().unwrap();
    assert_eq!(look.most, 1);
    core.found(look, 1, |index| index);
    core.widen(look);
    for index in 1..=8 {
        core.finish(index);
    }
    assert_eq!(core.look().unwrap().most, 4);
}

#[test]
fn one_save_is_under_way_and_the_newest_comes_next() {
    let mut bench = Bench::new(3, 0, 0, 3);
    bench.core.finish(1);
    assert_eq!(bench.core.save(), Some(1));
    bench.core.finish(2);
    bench.core.finish(3);
    assert_eq!(bench.core.save(), None);
    bench.core.saved(1);
    assert_eq!(bench.core.save(), Some(3));
    bench.core.not_saved();
    assert_eq!((bench.core.stored(), bench.core.save()), (1, Some(3)));
    bench.core.saved(3);
    bench.settle();
    assert!(bench.core.is_settled());
}

/// A step of the world.
#[derive(Clone, Debug)]
enum Step {
    /// The source gets this many more.
    Add(u8),
    Check,
    /// Somebody takes a look that is due; whether the source fails.
    Look(bool),
    /// The look under way ends; one that was begun before a crash never does.
    Ends,
    /// A running job is done: the one at this place among those that run.
    Finish(u8),
    /// An index that may not run at all is told as done.
    Stray(u8),
    Save,
    /// The save under way ends.
    Stored(Save),
    Stop,
}

/// The end of a save.
#[derive(Clone, Copy, Debug)]
enum Save {
    Stored,
    /// It is stored, but nobody is told.
    AnswerLost,
    /// It never arrives.
    Lost,
}

fn saves() -> impl Strategy<Value = Save> {
    prop_oneof![8 => Just(Save::Stored), 2 => Just(Save::AnswerLost), 2 => Just(Save::Lost)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (1..6_u8).prop_map(Step::Add),
        2 => Just(Step::Check),
        5 => prop::bool::weighted(0.1).prop_map(Step::Look),
        5 => Just(Step::Ends),
        8 => any::<u8>().prop_map(Step::Finish),
        1 => any::<u8>().prop_map(Step::Stray),
        4 => Just(Step::Save),
        4 => saves().prop_map(Step::Stored),
        1 => prop::bool::weighted(0.05).prop_filter("rare", |stops| *stops).prop_map(|_| Step::Stop),
    ];
    prop::collection::vec(step, 1..60)
}

/// The naive consumer: it remembers each index that has begun and each that is done.
#[derive(Default)]
struct Model {
    stored: u64,
    begun: BTreeSet<u64>,
    done: BTreeSet<u64>,
}

impl Model {
    fn progress(&self) -> u64 {
        (self.stored + 1..=u64::MAX).find(|index| !self.done.contains(index)).unwrap() - 1
    }

    fn running(&self) -> Vec<u64> {
        self.begun.difference(&self.done).copied().collect()
    }

    /// How many may begin now, by the rule: from the stored progress on, one index after the other.
    fn startable(&self, limit: usize, ahead: u64, head: u64) -> usize {
        let (progress, running) = (self.progress(), self.running().len());
        let mut count = 0;
        for index in progress + 1..=head {
            if running + count == limit || (ahead > 0 && index > progress + ahead) {
                break;
            }
            count += usize::from(!self.begun.contains(&index));
        }
        count
    }
}

/// The world of one run: what survives a crash, and what does not.
struct World {
    limit: usize,
    ahead: u64,
    head: u64,
    /// The stored progress, and each index that was ever done.
    store: u64,
    ever_done: BTreeSet<u64>,
    core: Core<u64>,
    model: Model,
    look: Option<(Look, bool)>,
    saving: Option<u64>,
    on: bool,
}

impl World {
    fn new(limit: usize, ahead: u64) -> Self {
        let mut world = Self {
            limit,
            ahead,
            head: 0,
            store: 0,
            ever_done: BTreeSet::new(),
            core: Core::new(limit, ahead),
            model: Model::default(),
            look: None,
            saving: None,
            on: true,
        };
        world.core.start(0);
        world
    }

    /// The save under way is stored.
    fn store_it(&mut self) {
        let Some(to) = self.saving else { return };
        assert!(to >= self.store, "the stored progress goes back");
        assert!((1..=to).all(|index| self.ever_done.contains(&index)), "it skips one");
        self.store = to;
    }

    /// Only the store is left, and the next life begins.
    fn crash(&mut self) {
        self.core = Core::new(self.limit, self.ahead);
        self.core.start(self.store);
        self.model = Model { stored: self.store, ..Model::default() };
        (self.look, self.saving, self.on) = (None, None, true);
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Add(count) => self.head += u64::from(*count),
            Step::Check => self.core.want(),
            Step::Look(fails) => {
                if let Some(look) = self.core.look() {
                    assert!(self.look.is_none(), "two looks at once");
                    self.look = Some((look, *fails));
                }
            }
            Step::Ends => self.ends(),
            Step::Finish(at) => {
                let running = self.model.running();
                if !running.is_empty() {
                    self.finish(running[usize::from(*at) % running.len()]);
                }
            }
            Step::Stray(index) => {
                let index = u64::from(*index);
                if !self.model.running().contains(&index) {
                    let before = (self.core.progress(), self.core.begun());
                    assert!(self.core.finish(index).is_none());
                    assert_eq!((self.core.progress(), self.core.begun()), before);
                }
            }
            Step::Save => {
                if let Some(to) = self.core.save() {
                    assert!(self.saving.is_none(), "two saves at once");
                    self.saving = Some(to);
                }
            }
            Step::Stored(save) => {
                if let Some(to) = self.saving {
                    if !matches!(save, Save::Lost) {
                        self.store_it();
                    }
                    self.saving = None;
                    match save {
                        Save::Stored => self.core.saved(to),
                        Save::AnswerLost | Save::Lost => self.core.not_saved(),
                    }
                }
            }
            Step::Stop => {
                self.core.stop();
                self.on = false;
            }
        }
    }

    fn ends(&mut self) {
        let Some((look, fails)) = self.look.take() else { return };
        if fails {
            let before = (self.core.begun(), self.core.progress());
            self.core.failed();
            assert_eq!((self.core.begun(), self.core.progress()), before);
            return;
        }
        let expected = self.model.startable(self.limit, self.ahead, self.head);
        let there = self.head.saturating_sub(look.first - 1).min(look.most as u64) as usize;
        assert!(there <= expected, "it begins {there}, the rule allows {expected}");
        let begin = self.core.found(look, there, |index| index);
        assert_eq!(begin, if self.on { there } else { 0 });
        for index in (look.first..).take(begin) {
            assert!(self.model.begun.insert(index), "{index} begins twice");
        }
    }

    fn finish(&mut self, index: u64) {
        let before = self.model.progress();
        self.model.done.insert(index);
        self.ever_done.insert(index);
        let finished = self.core.finish(index).unwrap();
        assert_eq!(finished, Finished { kept: index, moved: self.model.progress() > before });
    }

    fn check(&self) {
        assert_eq!(self.core.progress(), self.model.progress());
        let running: Vec<_> = self.core.running().map(|(index, _)| index).collect();
        assert_eq!(running, self.model.running());
        assert!(running.len() <= self.limit);
        let ahead = self.core.begun() - self.core.progress();
        assert!(self.ahead == 0 || ahead <= self.ahead, "{ahead} ahead");
        assert_eq!(self.core.done_ahead(), ahead - running.len() as u64);
        assert!(self.core.stored() <= self.store, "it believes more than is stored");
        assert!(self.store <= self.core.progress());
    }

    /// All that is there is done once nothing fails any more.
    fn drain(&mut self) {
        self.crash();
        loop {
            self.take(&Step::Check);
            self.take(&Step::Look(false));
            self.take(&Step::Ends);
            // No step is lost: what the rule lets begin has begun.
            assert_eq!(self.model.startable(self.limit, self.ahead, self.head), 0);
            self.take(&Step::Save);
            self.take(&Step::Stored(Save::Stored));
            self.check();
            match self.model.running().last() {
                Some(&last) => self.finish(last),
                None => break,
            }
        }
        assert_eq!((self.store, self.core.progress()), (self.head, self.head));
        assert!(self.core.is_settled());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// For each run, a crash after each of its steps, and a save under way that has come to the store or has not.
    #[test]
    fn nothing_is_skipped_wherever_it_crashes(steps in steps(), limit in 1..5_usize, ahead in 0..8_u64) {
        for (crash, arrives) in (0..=steps.len()).flat_map(|crash| [(crash, false), (crash, true)]) {
            let mut world = World::new(limit, ahead);
            for (at, step) in steps.iter().enumerate() {
                if at == crash {
                    if arrives {
                        world.store_it();
                    }
                    world.crash();
                }
                world.take(step);
                world.check();
            }
            world.drain();
        }
    }
}
