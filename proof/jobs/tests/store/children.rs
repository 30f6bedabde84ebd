//! Parents and their children.

use std::sync::Arc;

use tenure_jobs::State;
use tenure_jobs::store::{
    AddMode, AddReply, Adding, Data, Ends, Hint, Kind, NewJob, PeekJobs, Peeked, Request, Settle, SettleJobs,
    SettleReply, Settling, Steer, SteerJobs, SteerReply, Ticked,
};

use super::lab::{Lab, Which, done, fail, id, queue, retry, with_result};

scenarios! {
    a_wait_for_nothing_again_is_an_attempt,
    a_child_that_ends_before_the_wait_is_news,
    children_are_made_once_though_their_parent_runs_again,
    a_parent_goes_on_when_the_last_child_has_ended,
    a_tree_comes_in_one_call,
    a_parent_without_children_waits_for_nothing,
    a_parent_takes_room_until_its_children_are_known,
    an_open_parent_waits_for_more,
    a_parent_that_is_never_closed_fails_at_its_deadline,
    the_first_failure_fails_a_parent_that_wants_it,
    a_failure_counts_though_its_parent_does_not_wait_yet,
    a_parent_that_comes_to_wait_names_the_first_failure,
    the_failure_of_a_child_is_forgotten_with_its_parents_life,
    a_removed_parent_takes_its_children_with_it,
    a_removed_parent_takes_its_own_children_only,
    a_tick_removes_so_many_children_of_all_parents,
    a_child_that_ends_while_its_parent_goes_goes_too,
    a_parent_that_ends_while_its_own_goes_takes_all_along,
    children_of_another_life_do_not_count,
    a_removed_or_cancelled_child_counts,
    a_stranger_adds_no_children,
    a_parent_that_ends_first_leaves_no_children,
    children_of_a_former_life_run_for_the_new_one,
    a_child_that_is_taken_over_has_its_new_deadline,
    a_running_child_that_is_taken_over_keeps_its_data,
    a_stranger_with_the_name_of_a_child_stays,
    a_cancelled_parent_takes_its_children_with_it,
    a_tick_clears_so_many_children_of_all_parents,
    long_results_of_children_come_page_by_page,
    ends_of_many_children_come_page_by_page,
}

/// A parent that waits for its children, in one call.
async fn tree(lab: &Lab, parent: impl FnOnce(&mut Kind), children: &[(&str, &str)]) -> Vec<AddReply> {
    let mut kind = Kind::new(queue("a"));
    kind.waits = true;
    parent(&mut kind);
    let mut jobs = vec![NewJob::new(id("P"), "p", kind)];
    for (name, child) in children {
        let mut kind = Kind::new(queue(name));
        kind.parent = Some(id("P"));
        jobs.push(NewJob::new(id(child), "c", Arc::new(kind)));
    }
    lab.add_all(&Adding::new(jobs)).await
}

async fn children(lab: &Lab) -> Vec<String> {
    let children = lab.peek("P").await.unwrap().children;
    children.iter().map(|(id, end, text)| format!("{id} {end}{}", String::from_utf8_lossy(text))).collect()
}

async fn children_are_made_once_though_their_parent_runs_again(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=5000"), ("b", "lease=60000")]).await;
    lab.tick().await;
    lab.begin("a", &["P"]).await;
    let first = Some(lab.token.get());
    assert_eq!(lab.spawn("b", "P", first, "P.1").await, AddReply::Added);
    assert_eq!(lab.spawn("b", "P", first, "P.2").await, AddReply::Added);
    lab.tick_after(5_000).await;
    assert_eq!(lab.spawn("b", "P", first, "P.3").await, AddReply::NoParent);
    lab.take("a").await;
    let second = Some(lab.token.get());
    assert_eq!(lab.take("b").await, ["P.1", "P.2"]);
    lab.done("P.1").await;
    assert_eq!(lab.spawn("b", "P", second, "P.1").await, AddReply::Exists);
    assert_eq!(lab.spawn("b", "P", second, "P.2").await, AddReply::Exists);
    assert_eq!(lab.record("P").await.unwrap().open, 1);
}

async fn a_parent_goes_on_when_the_last_child_has_ended(which: Which) {
    let lab = Lab::new(which, &[("a", "max=1"), ("b", "")]).await;
    lab.add("a", &["P", "later"]).await;
    lab.take_n("a", 1).await;
    let parent = lab.token.get();
    lab.spawn("b", "P", Some(parent), "P.1").await;
    lab.spawn("b", "P", Some(parent), "P.2").await;
    lab.take("b").await;
    let child = lab.token.get();
    assert_eq!(lab.settle_as("P.1", child, with_result("r1")).await, SettleReply::Ended);
    assert_eq!(lab.settle_as("P", parent, Settle::Wait(0, Data::Keep)).await, SettleReply::Waits);
    assert_eq!(lab.state("P").await, Some(State::Waiting));
    assert_eq!(lab.dump().await.get("leases").unwrap().len(), 1, "a parent waits without a lease");
    assert_eq!(lab.settle_as("P.2", child, fail("no")).await, SettleReply::Failed);
    assert_eq!(lab.state("P").await, Some(State::Ready));
    assert_eq!(children(&lab).await, ["P.1 Cr1", "P.2 Fno"]);
    assert_eq!(lab.take("a").await, ["P", "later"], "it keeps its place");
    assert_eq!(lab.settle("P", done()).await, SettleReply::Ended);
    lab.tick().await;
    lab.steer("P.2", Steer::Remove).await;
    assert_eq!(lab.dump().await.get("index"), None);
    assert_eq!(lab.dump().await.get("extras"), None);
}

async fn a_tree_comes_in_one_call(lab: Lab) {
    assert_eq!(tree(&lab, |_| {}, &[("a", "P.1")]).await, [AddReply::Added; 2]);
    assert_eq!(lab.take("a").await, ["P.1"]);
    lab.done("P.1").await;
    assert_eq!(lab.take("a").await, ["P"]);
}

async fn a_parent_without_children_waits_for_nothing(lab: Lab) {
    tree(&lab, |_| {}, &[]).await;
    assert_eq!(lab.take("a").await, ["P"]);
    assert_eq!(lab.settle("P", Settle::Wait(0, Data::Keep)).await, SettleReply::Waits);
    assert_eq!(lab.state("P").await, Some(State::Ready));
}

async fn a_parent_takes_room_until_its_children_are_known(which: Which) {
    let lab = Lab::new(which, &[("a", "cap=2"), ("b", "")]).await;
    let mut parent = Kind::new(queue("a"));
    parent.waits = true;
    let parent = Arc::new(parent);
    let parents = ["P1", "P2", "P3"].map(|name| NewJob::new(id(name), "p", parent.clone()));
    let added = lab.add_all(&Adding::new(parents.to_vec())).await;
    assert_eq!(added, [AddReply::Added, AddReply::Added, AddReply::Full]);
    assert_eq!(lab.take_n("a", 3).await, ["P1", "P2"]);
    // One that waits takes none.
    assert_eq!(tree(&lab, |_| {}, &[("b", "P.1")]).await, [AddReply::Added, AddReply::Added]);
    assert_eq!(lab.add("a", &["j1", "j2", "j3"]).await, [AddReply::Added, AddReply::Added, AddReply::Full]);
}

async fn an_open_parent_waits_for_more(lab: Lab) {
    tree(&lab, |kind| kind.open = true, &[]).await;
    assert_eq!(lab.spawn("a", "P", None, "P.1").await, AddReply::Added);
    assert_eq!(lab.take("a").await, ["P.1"]);
    lab.done("P.1").await;
    assert_eq!(lab.state("P").await, Some(State::Waiting));
    assert_eq!(lab.steer("P", Steer::Close).await, SteerReply::Done);
    assert_eq!(lab.steer("P", Steer::Close).await, SteerReply::NotInState);
    assert_eq!(lab.spawn("a", "P", None, "P.2").await, AddReply::NoParent);
    assert_eq!(lab.take("a").await, ["P"]);
}

async fn a_parent_that_is_never_closed_fails_at_its_deadline(lab: Lab) {
    let deadline = lab.now() + 1_000;
    let parent = |kind: &mut Kind| (kind.open, kind.deadline) = (true, deadline);
    tree(&lab, parent, &[("a", "P.1")]).await;
    lab.tick_after(1_000).await;
    assert_eq!((lab.state("P").await, lab.result("P").await), (Some(State::Failed), "never closed".into()));
    lab.tick().await;
    assert_eq!(lab.state("P.1").await, Some(State::Cancelled));
}

async fn the_first_failure_fails_a_parent_that_wants_it(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "max=1")]).await;
    tree(&lab, |kind| kind.fails_fast = true, &[("b", "P.1"), ("b", "P.2"), ("b", "P.3")]).await;
    lab.take_n("b", 2).await;
    assert_eq!(lab.settle("P.1", retry(0, "no")).await, SettleReply::Failed);
    assert_eq!(
        (lab.state("P").await, lab.result("P").await),
        (Some(State::Failed), "child P.1 failed".into())
    );
    lab.tick().await;
    assert_eq!(lab.state("P.3").await, Some(State::Cancelled));
    assert_eq!(lab.extend("P.2", lab.token.get()).await, SettleReply::ToCancel);
    assert_eq!(lab.settle("P.2", Settle::GiveBack).await, SettleReply::Cancelled);
    assert_eq!(lab.record("P").await.unwrap().open, 0);
}

async fn a_failure_counts_though_its_parent_does_not_wait_yet(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
    lab.add_one("a", "P", |kind| kind.fails_fast = true).await;
    lab.take("a").await;
    let parent = lab.token.get();
    lab.spawn("b", "P", Some(parent), "P.1").await;
    lab.spawn("b", "P", Some(parent), "P.2").await;
    lab.take("b").await;
    assert_eq!(lab.settle("P.2", fail("no")).await, SettleReply::Failed);
    assert_eq!(lab.state("P").await, Some(State::Running));
    assert_eq!(lab.settle_as("P", parent, Settle::Wait(0, Data::Keep)).await, SettleReply::Failed);
    assert_eq!(
        (lab.state("P").await, lab.result("P").await),
        (Some(State::Failed), "child P.2 failed".into())
    );
    lab.tick().await;
    assert_eq!(lab.extend("P.1", lab.token.get()).await, SettleReply::ToCancel);
}

/// A running parent that fails with its children, two of which have failed.
async fn with_failures(lab: &Lab) -> tenure_jobs::Token {
    lab.add_one("a", "P", |kind| kind.fails_fast = true).await;
    lab.take("a").await;
    let parent = lab.token.get();
    for child in ["P.1", "P.2", "P.3"] {
        lab.spawn("b", "P", Some(parent), child).await;
    }
    lab.take("b").await;
    for child in ["P.3", "P.1"] {
        assert_eq!(lab.settle(child, fail("no")).await, SettleReply::Failed);
    }
    assert_eq!(lab.state("P").await, Some(State::Running));
    parent
}

async fn a_parent_that_comes_to_wait_names_the_first_failure(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
    let parent = with_failures(&lab).await;
    assert_eq!(lab.settle_as("P", parent, Settle::Wait(0, Data::Keep)).await, SettleReply::Failed);
    assert_eq!(lab.result("P").await, "child P.3 failed");
}

async fn the_failure_of_a_child_is_forgotten_with_its_parents_life(which: Which) {
    for how in ["ends", "is removed", "runs again", "waits"] {
        let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
        let parent = with_failures(&lab).await;
        let failures = async || {
            let dump = lab.dump().await;
            let extras = dump.get("extras").into_iter().flatten();
            extras.map(|(field, _)| field.clone()).filter(|field| field.starts_with("b:")).count()
        };
        assert_eq!(failures().await, 1);
        match how {
            "ends" => assert_eq!(lab.settle_as("P", parent, fail("no")).await, SettleReply::Failed),
            "is removed" => assert_eq!(lab.steer("P", Steer::Remove).await, SteerReply::Done),
            "runs again" => {
                let again = lab.add_body("a", "P", "x", AddMode::Again, |_| {}).await;
                assert_eq!(again, AddReply::RunsAgain);
                assert_eq!(lab.settle_as("P", parent, done()).await, SettleReply::Pending);
            }
            _ => {
                let waits = Settle::Wait(0, Data::Keep);
                assert_eq!(lab.settle_as("P", parent, waits).await, SettleReply::Failed);
            }
        }
        assert_eq!(failures().await, 0, "{how}");
        let record = lab.record("P").await;
        assert!(record.is_none_or(|record| !record.flags.contains('b')), "{how}");
    }
}

async fn a_removed_parent_takes_its_children_with_it(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "keep=-1"), ("c", "")]).await;
    lab.listen("n1").await;
    tree(&lab, |_| {}, &[("b", "P.done"), ("b", "P.dead"), ("b", "P.runs"), ("b", "P.waits")]).await;
    lab.take_n("b", 3).await;
    let token = lab.token.get();
    // Of its children one has children itself, one has failed and is kept, and one has look-ups and a watcher.
    assert_eq!(lab.spawn("c", "P.done", Some(token), "P.done.1").await, AddReply::Added);
    assert_eq!(lab.settle("P.done", Settle::Wait(0, Data::Keep)).await, SettleReply::Waits);
    assert_eq!(lab.settle("P.dead", fail("no")).await, SettleReply::Failed);
    assert_eq!(lab.take("c").await, ["P.done.1"]);
    let grandchild = lab.token.get();
    lab.watch("n1", "P.runs").await;
    assert_eq!(lab.steer("P", Steer::Remove).await, SteerReply::Done);
    lab.heard().await;
    // A namesake has nothing to do with them.
    lab.add("a", &["P"]).await;
    lab.tick().await;
    lab.tick().await;
    let heard = lab.heard().await;
    let count = |of: fn(&Hint) -> bool| heard.iter().filter(|(_, hint)| of(hint)).count();
    assert_eq!(count(|hint| matches!(hint, Hint::Halted(..))), 2, "those that run");
    assert_eq!(count(|hint| matches!(hint, Hint::News(news) if news.state.is_none())), 1, "who watches");
    for (child, token) in [("P.runs", token), ("P.done.1", grandchild)] {
        assert_eq!(lab.extend(child, token).await, SettleReply::Halt);
        let late = Settle::Done("late".into(), Data::Replace("late".into()));
        assert_eq!(lab.settle_as(child, token, late).await, SettleReply::Halt);
    }
    let parent = lab.record("P").await.unwrap();
    assert_eq!((parent.open, parent.state), (0, State::Ready));
    assert_eq!(lab.steer("P", Steer::Remove).await, SteerReply::Done);
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
    let counts = lab.dump().await;
    let counts = counts.get("counts").unwrap().iter().filter(|(of, _)| !of.ends_with("|failed"));
    assert!(counts.clone().all(|(_, count)| count == "0"), "{:?}", counts.collect::<Vec<_>>());
}

async fn a_removed_parent_takes_its_own_children_only(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "keep=-1")]).await;
    tree(&lab, |_| {}, &[("b", "P.1"), ("b", "P.2"), ("b", "P.3")]).await;
    lab.take("b").await;
    for child in ["P.1", "P.2"] {
        assert_eq!(lab.settle(child, fail("no")).await, SettleReply::Failed);
    }
    // One is somebody else's by now, one is asked for by itself, and a stranger has the name of one.
    assert_eq!(lab.steer("P.1", Steer::Remove).await, SteerReply::Done);
    assert_eq!(lab.add("b", &["P.1"]).await, [AddReply::Added]);
    assert_eq!(lab.add_body("b", "P.2", "x", AddMode::Again, |_| {}).await, AddReply::Anew);
    lab.add("b", &["P.4"]).await;
    assert_eq!(lab.steer("P", Steer::Remove).await, SteerReply::Done);
    lab.tick().await;
    assert_eq!(lab.state("P.3").await, None);
    assert_eq!(lab.take("b").await, ["P.1", "P.2", "P.4"]);
    assert_eq!(lab.dump().await.get("index"), None);
}

async fn a_tick_removes_so_many_children_of_all_parents(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "keep=-1")]).await;
    for parent in ["P", "Q", "R"] {
        lab.begin("a", &[parent]).await;
        for i in 0..20 {
            lab.spawn("b", parent, Some(lab.token.get()), &format!("{parent}.{i:02}")).await;
        }
        lab.take_n("b", 5).await;
        for i in 0..5 {
            lab.settle(&format!("{parent}.{i:02}"), fail("no")).await;
        }
    }
    for parent in ["P", "Q", "R"] {
        lab.steer(parent, Steer::Remove).await;
    }
    let left = async || lab.dump().await.get("jobs").map_or(0, std::collections::BTreeMap::len);
    assert_eq!(left().await, 60);
    assert_eq!(lab.tick().await, Ticked::Done { next: 0, lost: 0, promoted: 0, gone: 50 });
    assert_eq!(left().await, 10);
    lab.tick().await;
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
}

async fn a_child_that_ends_while_its_parent_goes_goes_too(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "keep=-1")]).await;
    tree(&lab, |_| {}, &[("b", "P.1"), ("b", "P.2")]).await;
    lab.take_n("b", 1).await;
    // In the same call, and before the tick.
    let both = [Request::Job(id("P"), Steer::Remove), Request::Job(id("P.2"), Steer::Cancel("no".into()))];
    assert_eq!(lab.run(SteerJobs(both.to_vec())).await, [SteerReply::Done; 2]);
    assert_eq!(lab.settle("P.1", fail("no")).await, SettleReply::Failed);
    assert_eq!(lab.state("P.2").await, Some(State::Cancelled));
    lab.tick().await;
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
}

async fn a_parent_that_ends_while_its_own_goes_takes_all_along(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "keep=-1"), ("c", "")]).await;
    tree(&lab, |_| {}, &[("b", "P.1")]).await;
    lab.take("b").await;
    let token = lab.token.get();
    for child in ["P.1.ends", "P.1.runs"] {
        assert_eq!(lab.spawn("c", "P.1", Some(token), child).await, AddReply::Added);
    }
    lab.take_n("c", 1).await;
    assert_eq!(lab.settle("P.1.ends", fail("no")).await, SettleReply::Failed);
    assert_eq!(lab.steer("P", Steer::Remove).await, SteerReply::Done);
    // The timer that clears the children of P.1 comes after the one that removes those of P, in the same tick.
    lab.advance(10).await;
    assert_eq!(lab.settle_as("P.1", token, fail("no")).await, SettleReply::Failed);
    lab.tick().await;
    lab.tick().await;
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
}

async fn children_of_another_life_do_not_count(lab: Lab) {
    lab.add_one("a", "P", |kind| kind.keep = Some(-1)).await;
    lab.take("a").await;
    let token = lab.token.get();
    lab.spawn("a", "P", Some(token), "P.1").await;
    assert_eq!(lab.add_body("a", "P", "x", AddMode::Again, |_| {}).await, AddReply::RunsAgain);
    assert_eq!(lab.settle_as("P", token, done()).await, SettleReply::Pending);
    assert_eq!(lab.record("P").await.unwrap().open, 0);
    lab.tick().await;
    assert_eq!(lab.state("P.1").await, Some(State::Cancelled));
    assert_eq!(lab.dump().await.get("index"), None);
    // The new life has children of its own, under the same names.
    lab.steer("P.1", Steer::Remove).await;
    lab.take("a").await;
    assert_eq!(lab.spawn("a", "P", Some(lab.token.get()), "P.1").await, AddReply::Added);
}

async fn a_removed_or_cancelled_child_counts(which: Which) {
    for steer in [Steer::Remove, Steer::Cancel("no more".into())] {
        let lab = Lab::new(which, &[("a", "")]).await;
        tree(&lab, |_| {}, &[("a", "P.1")]).await;
        assert_eq!(lab.steer("P.1", steer).await, SteerReply::Done);
        assert_eq!(lab.state("P").await, Some(State::Ready));
        assert_eq!(children(&lab).await.len(), 1);
    }
}

async fn a_stranger_adds_no_children(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
    lab.add("a", &["P"]).await;
    assert_eq!(lab.spawn("b", "P", None, "P.1").await, AddReply::NoParent);
    lab.take("a").await;
    assert_eq!(lab.spawn("b", "P", None, "P.1").await, AddReply::NoParent);
    assert_eq!(lab.spawn("b", "P", Some(tenure_jobs::Token(1)), "P.1").await, AddReply::NoParent);
    assert_eq!(lab.spawn("b", "nobody", Some(lab.token.get()), "P.1").await, AddReply::NoParent);
    assert_eq!(lab.state("P.1").await, None);
}

async fn a_parent_that_ends_first_leaves_no_children(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "keep=0")]).await;
    lab.begin("a", &["P"]).await;
    let token = Some(lab.token.get());
    for i in 0..60 {
        lab.spawn("b", "P", token, &format!("P.{i}")).await;
    }
    assert_eq!(lab.done("P").await, SettleReply::Ended);
    for _ in 0..4 {
        lab.tick().await;
    }
    assert!(lab.take("b").await.is_empty());
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
}

async fn children_of_a_former_life_run_for_the_new_one(which: Which) {
    for of_former in ["ended", "runs", "waits"] {
        let lab = Lab::new(which, &[("a", ""), ("c", "")]).await;
        let parent = lab.begin("a", &["P"]).await;
        assert_eq!(lab.spawn("c", "P", Some(parent), "P.1").await, AddReply::Added);
        if of_former != "waits" {
            lab.take("c").await;
        }
        let child = lab.token.get();
        if of_former == "ended" {
            lab.settle_as("P.1", child, fail("no")).await;
        }
        lab.settle_as("P", parent, fail("no")).await;
        assert_eq!(lab.steer("P", Steer::Replay(0)).await, SteerReply::Done);
        if of_former == "runs" {
            // Its former life takes leave of it.
            lab.tick().await;
            assert_eq!(lab.extend("P.1", child).await, SettleReply::ToCancel);
        }
        lab.take("a").await;
        let parent = lab.token.get();
        let expected = match of_former {
            "ended" => AddReply::Anew,
            "runs" => AddReply::RunsAgain,
            _ => AddReply::Changed,
        };
        assert_eq!(lab.spawn("c", "P", Some(parent), "P.1").await, expected);
        assert_eq!(lab.spawn("c", "P", Some(parent), "P.1").await, AddReply::Exists, "once in a life");
        let dump = lab.dump().await;
        let open = dump.get("index").unwrap().keys().filter(|member| member.starts_with("o:"));
        assert_eq!(open.count(), 1, "in one life: {of_former}");
        lab.tick().await;
        assert_eq!(lab.settle_as("P", parent, Settle::Wait(0, Data::Keep)).await, SettleReply::Waits);
        assert_eq!(lab.state("P").await, Some(State::Waiting), "{of_former}");
        if of_former == "runs" {
            assert_eq!(lab.settle_as("P.1", child, retry(0, "cancelled")).await, SettleReply::Pending);
            assert_eq!(lab.state("P").await, Some(State::Waiting));
        }
        assert_eq!(lab.take("c").await, ["P.1"]);
        assert_eq!(lab.settle("P.1", with_result("r")).await, SettleReply::Ended);
        assert_eq!(lab.take("a").await, ["P"]);
        assert_eq!(children(&lab).await, ["P.1 Cr"]);
        assert_eq!(lab.done("P").await, SettleReply::Ended);
        lab.tick().await;
        assert_eq!(lab.dump().await.get("index"), None);
    }
    // A job of somebody else stays as it is.
    let lab = Lab::new(which, &[("a", "")]).await;
    lab.add("a", &["P", "other"]).await;
    lab.take_n("a", 1).await;
    assert_eq!(lab.spawn("a", "P", Some(lab.token.get()), "other").await, AddReply::Exists);
    assert_eq!(lab.record("P").await.unwrap().open, 0);
}

async fn a_child_that_is_taken_over_has_its_new_deadline(which: Which) {
    for of_former in ["ended", "runs", "waits"] {
        for (before, after) in [(0, 5_000), (1_000, 0), (1_000, 5_000)] {
            let lab = Lab::new(which, &[("a", "lease=60000"), ("c", "lease=60000")]).await;
            let start = lab.now();
            let due = |deadline| if deadline > 0 { start + deadline } else { 0 };
            let parent = lab.begin("a", &["P"]).await;
            lab.spawn_by("c", "P", Some(parent), "P.1", due(before)).await;
            if of_former != "waits" {
                lab.take("c").await;
            }
            let child = lab.token.get();
            if of_former == "ended" {
                lab.settle_as("P.1", child, fail("no")).await;
            }
            lab.settle_as("P", parent, fail("no")).await;
            lab.steer("P", Steer::Replay(0)).await;
            lab.take("a").await;
            let parent = lab.token.get();
            let taken_over = lab.spawn_by("c", "P", Some(parent), "P.1", due(after)).await;
            assert!(taken_over != AddReply::Exists, "{of_former}");
            if of_former == "runs" {
                assert_eq!(lab.settle_as("P.1", child, retry(0, "cancelled")).await, SettleReply::Pending);
            }
            lab.tick_after(1_001).await;
            assert_eq!(lab.state("P.1").await, Some(State::Ready), "{of_former} {before} {after}");
            lab.tick_after(4_000).await;
            let state = if after > 0 { State::Failed } else { State::Ready };
            assert_eq!(lab.state("P.1").await, Some(state), "{of_former} {before} {after}");
        }
    }
}

async fn a_running_child_that_is_taken_over_keeps_its_data(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("c", "")]).await;
    let parent = lab.begin("a", &["P"]).await;
    lab.spawn("c", "P", Some(parent), "P.1").await;
    lab.take("c").await;
    let child = lab.token.get();
    lab.settle_as("P", parent, fail("no")).await;
    lab.steer("P", Steer::Replay(0)).await;
    lab.take("a").await;
    let mut kind = Kind::new(queue("c"));
    kind.parent = Some(id("P"));
    let mut adding = Adding::new(vec![NewJob::new(id("P.1"), "other", kind)]);
    adding.token = Some(lab.token.get());
    assert_eq!(lab.add_all(&adding).await, [AddReply::RunsAgain]);
    assert_eq!(lab.body("P.1").await, "b");
    assert_eq!(lab.settle_as("P.1", child, done()).await, SettleReply::Pending);
    assert_eq!((lab.take("c").await, lab.body("P.1").await), (vec!["P.1".to_owned()], "b".into()));
}

async fn a_stranger_with_the_name_of_a_child_stays(which: Which) {
    for state in [State::Ready, State::Delayed, State::Running] {
        let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
        let due = if state == State::Delayed { lab.now() + 1_000 } else { 0 };
        lab.add_one("b", "P.1", |kind| kind.due = due).await;
        if state == State::Running {
            lab.take("b").await;
        }
        lab.begin("a", &["P"]).await;
        let (token, before) = (lab.token.get(), lab.record("P.1").await);
        assert_eq!(before.as_ref().unwrap().state, state);
        assert_eq!(lab.spawn("a", "P", Some(token), "P.1").await, AddReply::Exists);
        assert_eq!(lab.record("P.1").await, before);
        assert_eq!(lab.record("P").await.unwrap().open, 0);
    }
}

async fn a_cancelled_parent_takes_its_children_with_it(which: Which) {
    let lab = Lab::new(which, &[("a", "keep=0"), ("b", "keep=0")]).await;
    tree(&lab, |_| {}, &[("b", "P.1"), ("b", "P.2")]).await;
    lab.take_n("b", 1).await;
    let child = lab.token.get();
    assert_eq!(lab.steer("P", Steer::Cancel("enough".into())).await, SteerReply::Done);
    lab.tick().await;
    assert_eq!((lab.state("P.2").await, lab.extend("P.1", child).await), (None, SettleReply::ToCancel));
    assert_eq!(lab.settle("P.1", Settle::GiveBack).await, SettleReply::Cancelled);
    assert_eq!(lab.dump().await.get("index"), None);
    // One that runs is asked to end, and its children with it.
    let parent = lab.begin("a", &["P"]).await;
    lab.spawn("b", "P", Some(parent), "P.1").await;
    lab.take("b").await;
    assert_eq!(lab.steer("P", Steer::Cancel("enough".into())).await, SteerReply::Asked);
    assert_eq!(lab.settle_as("P", parent, Settle::Wait(0, Data::Keep)).await, SettleReply::Cancelled);
    lab.tick().await;
    assert_eq!(lab.extend("P.1", lab.token.get()).await, SettleReply::ToCancel);
}

async fn a_tick_clears_so_many_children_of_all_parents(which: Which) {
    let lab = Lab::new(which, &[("a", "keep=0"), ("b", "keep=0")]).await;
    for parent in ["P", "Q", "R"] {
        lab.begin("a", &[parent]).await;
        for i in 0..20 {
            lab.spawn("b", parent, Some(lab.token.get()), &format!("{parent}.{i}")).await;
        }
        assert_eq!(lab.done(parent).await, SettleReply::Ended);
    }
    let left = async || lab.dump().await.get("jobs").map_or(0, std::collections::BTreeMap::len);
    assert_eq!(left().await, 60);
    lab.tick().await;
    // Its children are gone, and what they came to is counted as well.
    let after = left().await;
    assert!((10..40).contains(&after), "{after}");
    for _ in 0..3 {
        lab.tick().await;
    }
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
}

/// A running parent with this body, and `count` children that have succeeded with this result.
async fn parent_of(lab: &Lab, body: &str, count: usize, result: &str) {
    lab.add_body("a", "P", body, AddMode::Keep, |_| {}).await;
    lab.take("a").await;
    let parent = lab.token.get();
    let mut kind = Kind::new(queue("b"));
    kind.parent = Some(id("P"));
    let (kind, numbers) = (Arc::new(kind), (0..count).collect::<Vec<_>>());
    for some in numbers.chunks(if result.len() > 1_000 { 16 } else { 128 }) {
        let child = |n: &usize| NewJob::new(id(&format!("P.{n:04}")), "", kind.clone());
        let mut adding = Adding::new(some.iter().map(child).collect());
        adding.token = Some(parent);
        lab.add_all(&adding).await;
        let taken = lab.take_n("b", 128).await;
        let settled =
            taken.iter().map(|child| Settling::new(id(child), lab.token.get(), with_result(result)));
        let settled: Vec<_> = settled.collect();
        lab.run(SettleJobs(lab.lane("s"), settled)).await;
    }
}

/// The answers about the parent, one after the other, until all ends are there.
async fn pages(lab: &Lab, mut ends: Ends) -> Vec<Peeked> {
    let mut pages = Vec::new();
    loop {
        let mut answer = lab.run(PeekJobs(ends.clone(), vec![id("P"), id("no")])).await;
        let page = answer.remove(0).unwrap();
        assert_eq!(answer.is_empty(), page.more.is_some(), "a job that is not whole is the last one");
        let more = page.more.clone();
        pages.push(page);
        let Some(behind) = more else { return pages };
        assert!(pages.len() < 10, "the pages have no end");
        ends = Ends::Behind(behind);
    }
}

fn all_of(pages: &[Peeked]) -> Vec<String> {
    pages.iter().flat_map(|page| &page.children).map(|(id, ..)| id.to_string()).collect()
}

async fn long_results_of_children_come_page_by_page(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
    let result = "x".repeat(60_000);
    parent_of(&lab, &"y".repeat(400_000), 40, &result).await;
    let names: Vec<_> = (0..40).map(|n| format!("P.{n:04}")).collect();
    let read = pages(&lab, Ends::With).await;
    // 11 results follow the data, and 18 make a page of their own: the last one of a page goes beyond its bound.
    assert_eq!(read.iter().map(|page| page.children.len()).collect::<Vec<_>>(), [11, 18, 11]);
    assert_eq!(read.iter().map(|page| page.seen.body.len()).collect::<Vec<_>>(), [400_000, 0, 0]);
    assert!(read.iter().flat_map(|page| &page.children).all(|(_, end, text)| *end == 'C' && *text == result));
    assert_eq!(all_of(&read), names);
    // Others have filled the answer already: none of its ends is there yet.
    for job in ["j0", "j1"] {
        lab.add_body("a", job, &"y".repeat(500_000), AddMode::Keep, |_| {}).await;
    }
    let ids = ["j0", "j1", "P", "j0"].map(id);
    let mut answer = lab.run(PeekJobs(Ends::With, ids.to_vec())).await;
    assert_eq!(answer.len(), 3);
    let first = answer.remove(2).unwrap();
    assert_eq!((first.children.len(), first.more.as_deref()), (0, Some("")));
    let rest = pages(&lab, Ends::Behind("".into())).await;
    assert_eq!(rest.iter().map(|page| page.children.len()).collect::<Vec<_>>(), [18, 18, 4]);
    assert_eq!(all_of(&rest), names);
}

async fn ends_of_many_children_come_page_by_page(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
    parent_of(&lab, "", 4_100, "").await;
    let read = pages(&lab, Ends::With).await;
    assert_eq!(read.iter().map(|page| page.children.len()).collect::<Vec<_>>(), [4_096, 4]);
    assert_eq!(all_of(&read), (0..4_100).map(|n| format!("P.{n:04}")).collect::<Vec<_>>());
}

async fn a_wait_for_nothing_again_is_an_attempt(which: Which) {
    let lab = Lab::new(which, &[("a", "max=2 keep=-1"), ("b", "max=2")]).await;
    lab.begin("a", &["P"]).await;
    // The next run knows that it has waited.
    assert_eq!(lab.settle("P", Settle::Wait(700, Data::Keep)).await, SettleReply::Waits);
    assert_eq!(lab.take("a").await, ["P"]);
    assert!(lab.record("P").await.unwrap().flags.contains('c'));
    let replaced = Data::Replace("said".into());
    assert_eq!(lab.settle("P", Settle::Wait(700, replaced)).await, SettleReply::Delayed);
    assert_eq!((&lab.body("P").await[..], lab.take("a").await), (&b"said"[..], vec![]));
    lab.tick_after(700).await;
    assert_eq!(lab.take("a").await, ["P"]);
    assert_eq!(lab.record("P").await.unwrap().attempts, 2);
    assert_eq!(lab.settle("P", Settle::Wait(700, Data::Keep)).await, SettleReply::Failed);
    assert_eq!(lab.result("P").await, "it waits, and nothing has ended since its last wait");
    // One that somebody wants cancelled is.
    lab.add("b", &["Q"]).await;
    for reply in [SettleReply::Waits, SettleReply::Cancelled] {
        assert_eq!(lab.take("b").await, ["Q"]);
        if reply == SettleReply::Cancelled {
            lab.steer("Q", Steer::Cancel(String::new())).await;
        }
        assert_eq!(lab.settle("Q", Settle::Wait(0, Data::Keep)).await, reply);
    }
}

async fn a_child_that_ends_before_the_wait_is_news(which: Which) {
    let lab = Lab::new(which, &[("a", "max=1"), ("c", "")]).await;
    lab.add("a", &["P"]).await;
    for round in 0..3 {
        assert_eq!(lab.take("a").await, ["P"], "{round}");
        let (parent, child) = (lab.token.get(), format!("P..{round}"));
        lab.spawn("c", "P", Some(parent), &child).await;
        lab.take("c").await;
        lab.done(&child).await;
        assert_eq!(lab.settle_as("P", parent, Settle::Wait(700, Data::Keep)).await, SettleReply::Waits);
        assert!(!lab.record("P").await.unwrap().flags.contains('h'), "it was told");
    }
    assert_eq!(lab.take("a").await, ["P"]);
    assert_eq!(lab.settle("P", Settle::Wait(0, Data::Keep)).await, SettleReply::Failed);
}
