use super::*;

#[test]
fn items_that_arrive_during_a_call_are_the_next_batch() {
    let mut batcher = Batcher::default();
    batcher.push(1);
    assert_eq!(batcher.batch(Time(0), |_| 1), Some(vec![1]));
    batcher.push(2);
    batcher.push(3);
    assert_eq!(batcher.batch(Time(0), |_| 1), None);
    batcher.answered();
    assert_eq!(batcher.batch(Time(0), |_| 1), Some(vec![2, 3]));
}

#[test]
fn an_unanswered_batch_goes_first_again_after_a_growing_pause() {
    let mut batcher = Batcher::default();
    batcher.push(1);
    let batch = batcher.batch(Time(0), |_| 1).unwrap_or_default();
    batcher.push(2);
    batcher.put_back(Time(0), batch);
    assert_eq!(batcher.batch(Time(0), |_| 1), None);
    let at = batcher.deadline().unwrap_or_default();
    assert_eq!(at, Time(0) + RETRY_MIN);
    assert_eq!(batcher.batch(at, |_| 1), Some(vec![1, 2]));
    batcher.put_back(at, vec![1, 2]);
    assert_eq!(batcher.deadline(), Some(at + RETRY_MIN * 2));
}

fn damaged() -> StoreError {
    StoreError::Damaged(tenure_steps::Failure::new(std::fmt::Error))
}

/// Answers batches until none is due: those with a bad item fail. Returns the items that got through.
fn carried_out(
    batcher: &mut Batcher<u32>,
    now: &mut Time,
    is_bad: impl Fn(u32) -> bool,
) -> (Vec<u32>, usize) {
    let (mut done, mut calls) = (Vec::new(), 0);
    loop {
        let Some(batch) = batcher.batch(*now, |_| 1) else {
            match batcher.deadline().filter(|_| !batcher.is_free()) {
                Some(at) => *now = at,
                None => return (done, calls),
            }
            continue;
        };
        calls += 1;
        if batch.iter().any(|item| is_bad(*item)) {
            let whole = batch.len();
            batcher.failed(*now, batch, whole, &damaged());
        } else {
            done.extend(batch);
            batcher.answered();
        }
    }
}

#[test]
fn a_bad_item_is_found_by_halves_and_delays_only_itself() {
    for bad in [0, 77, 127, 299] {
        let mut batcher = Batcher::default();
        (0..300).for_each(|item| batcher.push(item));
        let mut now = Time(0);
        let (mut done, calls) = carried_out(&mut batcher, &mut now, |item| item == bad);
        done.sort_unstable();
        assert_eq!(done, (0..300).filter(|item| *item != bad).collect::<Vec<_>>());
        assert!(calls <= 40, "{calls} calls");
        assert!(now.since(Time(0)) < ASIDE_MIN, "{now:?}");
        assert_eq!((batcher.len(), batcher.is_idle(), batcher.is_free()), (1, false, true));
    }
}

#[test]
fn items_keep_their_order_around_a_bad_one() {
    let mut batcher = Batcher::default();
    (0..128).for_each(|item| batcher.push(item));
    let (done, _) = carried_out(&mut batcher, &mut Time(0), |item| item == 50);
    assert!(done.is_sorted(), "{done:?}");
}

#[test]
fn items_set_aside_are_tried_alone_after_growing_pauses() {
    let mut batcher = Batcher::default();
    batcher.push(1);
    let (mut now, mut pauses) = (Time(0), Vec::new());
    for round in 0..6 {
        let batch = batcher.batch(now, |_| 1).unwrap_or_default();
        assert_eq!(batch, [1]);
        assert_eq!(batcher.failed(now, batch, 1, &damaged()), round == 0, "it is news once");
        batcher.push(2);
        batcher.push(3);
        now = batcher.deadline().unwrap_or_default();
        assert_eq!(batcher.batch(now, |_| 1), Some(vec![2, 3]), "the others do not wait");
        batcher.answered();
        let at = batcher.deadline().unwrap_or_default();
        pauses.push(at.since(now) + RETRY_MIN);
        now = at;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 10, 10].map(Duration::from_secs));
}

#[test]
fn late_items_wait_for_their_time_or_a_full_call() {
    let mut batcher = Batcher::default();
    batcher.push_late(1, Time(20));
    batcher.push_late(2, Time(25));
    assert_eq!((batcher.batch(Time(19), |_| 1), batcher.deadline()), (None, Some(Time(20))));
    assert_eq!(batcher.batch(Time(20), |_| 1), Some(vec![1, 2]));
    batcher.answered();
    (0..BATCH_MAX).for_each(|item| batcher.push_late(item, Time(60)));
    assert_eq!(batcher.batch(Time(40), |_| 1).map(|batch| batch.len()), Some(BATCH_MAX));
}

#[test]
fn an_item_that_does_not_wait_takes_late_ones_along() {
    let mut batcher = Batcher::default();
    batcher.push_late(1, Time(20));
    batcher.push(2);
    batcher.push_late(3, Time(20));
    assert_eq!(batcher.batch(Time(0), |_| 1), Some(vec![1, 2, 3]));
    batcher.answered();
    batcher.push_late(4, Time(20));
    batcher.hurry();
    assert_eq!(batcher.batch(Time(0), |_| 1), Some(vec![4]));
}

#[test]
fn late_items_without_an_answer_are_sent_again_like_all() {
    let mut batcher = Batcher::default();
    batcher.push_late(1, Time(0));
    let batch = batcher.batch(Time(0), |_| 1).unwrap_or_default();
    batcher.put_back(Time(0), batch);
    batcher.push_late(2, Time(0) + RETRY_MAX);
    let at = batcher.deadline().unwrap_or_default();
    assert_eq!(at, Time(0) + RETRY_MIN);
    assert_eq!(batcher.batch(at, |_| 1), Some(vec![1, 2]));
}

#[test]
fn late_items_do_not_keep_one_that_was_set_aside() {
    let mut batcher = Batcher::default();
    batcher.push(1);
    let mut now = Time(0);
    for _ in 0..2 {
        let batch = batcher.batch(now, |_| 1).unwrap_or_default();
        assert_eq!(batch, [1]);
        batcher.failed(now, batch, 1, &StoreError::Damaged(tenure_steps::Failure::new(std::fmt::Error)));
        now = batcher.deadline().unwrap_or_default();
    }
    batcher.push_late(2, now + RETRY_MAX * 100);
    assert_eq!(batcher.batch(now, |_| 1), Some(vec![1]), "its time has come");
}

#[test]
fn one_that_gets_through_has_all_others_tried() {
    let mut batcher = Batcher::default();
    (0..4).for_each(|item| batcher.push(item));
    let mut now = Time(0);
    assert!(carried_out(&mut batcher, &mut now, |_| true).0.is_empty());
    now = batcher.deadline().unwrap_or_default();
    let (mut done, calls) = carried_out(&mut batcher, &mut now, |_| false);
    done.sort_unstable();
    assert_eq!((done, calls), (vec![0, 1, 2, 3], 4));
    assert!(batcher.is_idle());
}

#[test]
fn an_error_that_is_of_no_item_halves_nothing() {
    let mut batcher = Batcher::default();
    (0..4).for_each(|item| batcher.push(item));
    let error = StoreError::Unusable(tenure_steps::Failure::new(std::fmt::Error));
    let batch = batcher.batch(Time(0), |_| 1).unwrap_or_default();
    assert!(batcher.failed(Time(0), batch, 4, &error));
    let at = batcher.deadline().unwrap_or_default();
    assert_eq!(batcher.batch(at, |_| 1), Some(vec![0, 1, 2, 3]));
}

#[test]
fn batches_keep_to_the_bounds_of_a_step() {
    let mut batcher = Batcher::default();
    for i in 0..300 {
        batcher.push(i);
    }
    assert_eq!(batcher.batch(Time(0), |_| 1).map(|b| b.len()), Some(BATCH_MAX));
    batcher.answered();
    assert_eq!(batcher.batch(Time(0), |_| BATCH_BYTES / 2).map(|b| b.len()), Some(2));
    batcher.answered();
    assert_eq!(batcher.batch(Time(0), |_| BATCH_BYTES * 2).map(|b| b.len()), Some(1));
}
