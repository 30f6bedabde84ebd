//! All settings of a queue stand in the store, and hold for all nodes.

use std::sync::Arc;
use std::time::Duration;

use tenure_jobs::store::{AddReply, Adding, Declare, Kind, NewJob, ReadFigures, TakeJobs, TakeReply};
use tenure_jobs::{Settings, State};

use super::lab::{Lab, Which, done, group, id, queue, taking};

scenarios! {
    a_job_has_the_keep_of_its_queue,
    executions_have_the_terms_of_their_queue,
    a_queue_that_is_named_stays_as_it_is,
    a_queue_that_was_only_named_becomes_of_any_kind,
    a_name_does_not_make_a_queue_with_groups_plain,
    a_name_does_not_make_an_idle_queue_with_groups_plain,
}

async fn settings(lab: &Lab, name: &str) -> Settings {
    let figures = lab.run(ReadFigures(vec![queue(name)])).await;
    figures[0].settings.clone().unwrap()
}

async fn name(lab: &Lab, names: &str) {
    lab.run(Declare(queue(names), None)).await;
}

async fn a_job_has_the_keep_of_its_queue(which: Which) {
    for words in ["done=900", "done=900 g", "done=900 cap=50"] {
        let lab = Lab::new(which, &[("a", words)]).await;
        // Many jobs in one call, and a job with a look-up of its own.
        assert_eq!(lab.add("a", &["1", "2"]).await, [AddReply::Added, AddReply::Added]);
        let mut found = NewJob::new(id("3"), "b", Arc::new(Kind::new(queue("a"))));
        found.lookups = vec!["user=7".to_owned()];
        assert_eq!(lab.add_all(&Adding::new(vec![found])).await, [AddReply::Added]);
        lab.add_one("a", "4", |kind| kind.keep = Some(50)).await;
        lab.add_one("a", "5", |kind| kind.keep = Some(0)).await;
        for (job, keep) in [("1", 900), ("2", 900), ("3", 900), ("4", 50), ("5", 0)] {
            assert_eq!(lab.record(job).await.unwrap().keep, keep, "{job} {words}");
        }
        lab.take("a").await;
        lab.done("1").await;
        assert_eq!(lab.state("1").await, Some(State::Done));
    }
}

async fn executions_have_the_terms_of_their_queue(which: Which) {
    for words in ["", "g", "conc=5"] {
        let text = format!("{words} lease=7000 terms=300,900,5,60,next");
        let lab = Lab::new(which, &[("a", &text), ("b", words)]).await;
        lab.add("a", &["j"]).await;
        lab.add("b", &["k"]).await;
        let (lane, wish) = (lab.lane("twice"), taking("a", 1));
        for _ in 0..2 {
            let answer = lab.run(TakeJobs(lane.clone(), wish.clone())).await;
            let TakeReply::Taken { jobs, .. } = answer else { panic!("{answer:?}") };
            let terms = &jobs[0].terms;
            assert_eq!(jobs[0].lease, 7_000);
            assert_eq!(terms.timeout, Some(Duration::from_millis(300)));
            assert_eq!(terms.to_string(), "300,900,5,60,next");
        }
        lab.take("b").await;
        assert_eq!(lab.jobs.borrow()[0].terms, tenure_jobs::Terms::default());
    }
}

async fn a_queue_that_is_named_stays_as_it_is(which: Which) {
    for words in ["max=7 lease=5000", "g gconc=2", "o"] {
        let lab = Lab::new(which, &[("a", words)]).await;
        let before = settings(&lab, "a").await;
        name(&lab, "a").await;
        assert_eq!(settings(&lab, "a").await, before);
    }
    let lab = Lab::new(which, &[]).await;
    name(&lab, "a").await;
    let made = settings(&lab, "a").await.to_string();
    assert_eq!(made, format!("{}|named", Settings::default()));
    lab.add_one("a", "j", |_| {}).await;
    assert!(lab.declare("a", "max=7").await);
    name(&lab, "a").await;
    assert_eq!(settings(&lab, "a").await.max, 7, "from now on it is declared");
}

async fn a_queue_that_was_only_named_becomes_of_any_kind(which: Which) {
    for words in ["g", "o"] {
        let lab = Lab::new(which, &[]).await;
        name(&lab, "a").await;
        // It could not keep the group.
        let early = lab.add_one("a", "early", |kind| kind.group = group("t1")).await;
        assert_eq!(early, AddReply::NoQueue);
        assert!(lab.declare("a", words).await);
        assert_eq!(lab.add_one("a", "j", |kind| kind.group = group("t1")).await, AddReply::Added);
        assert_eq!(lab.record("j").await.unwrap().group, "t1");
        for (other, steps) in [("ready", 1), ("running", 2), ("done", 3)] {
            name(&lab, other).await;
            lab.add_one(other, other, |_| {}).await;
            if steps > 1 {
                lab.take(other).await;
            }
            if steps > 2 {
                lab.settle(other, done()).await;
            }
            assert!(!lab.declare(other, words).await, "it had a job: {other}");
        }
        assert!(lab.declare("fresh", "").await);
        assert!(!lab.declare("fresh", words).await, "it was declared");
    }
}

async fn a_name_does_not_make_an_idle_queue_with_groups_plain(which: Which) {
    for (words, due, steps) in [("g", 0, 2), ("g", 0, 3), ("g", 60_000, 0), ("g", 0, 0), ("o", 0, 0)] {
        let lab = Lab::new(which, &[("g", words)]).await;
        if steps > 0 || due > 0 {
            let due = lab.now() + due;
            lab.add_one("g", "k", |kind| (kind.group, kind.due) = (group("t1"), due)).await;
        }
        if steps > 1 {
            assert_eq!(lab.take("g").await, ["k"]);
        }
        if steps > 2 {
            lab.settle("k", done()).await;
        }
        lab.raw("HDEL", "queues", &["g"]).await;
        name(&lab, "g").await;
        assert!(lab.declare("g", words).await, "{words} {due} {steps}");
        let again = lab.add_one("g", "l", |kind| kind.group = group("t1")).await;
        assert_eq!(again, AddReply::Added, "{words} {due} {steps}");
    }
    let lab = Lab::new(which, &[("a", "")]).await;
    lab.add("a", &["j"]).await;
    lab.raw("HDEL", "queues", &["a"]).await;
    lab.raw("HSET", "jobs", &["j", "x"]).await;
    name(&lab, "a").await;
    assert_eq!(lab.add_one("a", "k", |_| {}).await, AddReply::Added, "a damaged job makes no groups");
}

async fn a_name_does_not_make_a_queue_with_groups_plain(which: Which) {
    for damage in ["", "x", "-|30000||x"] {
        let lab = Lab::new(which, &[("a", ""), ("g", "g")]).await;
        lab.add("a", &["j"]).await;
        lab.add_one("g", "k", |kind| kind.group = group("t1")).await;
        for lost in ["a", "g"] {
            lab.raw("HSET", "queues", &[lost, damage]).await;
            name(&lab, lost).await;
        }
        assert_eq!(lab.take("a").await, ["j"], "{damage}");
        if which == Which::Redis {
            assert_eq!(lab.take("g").await, [""; 0], "{damage}: only who declares it knows its groups");
        }
        assert!(lab.declare("g", "g").await);
        assert_eq!(lab.take("g").await, ["k"], "{damage}");
    }
}
