//! A whole worker honours grants as it must; a broken one does not.

use super::super::bench::{granted, key, millis, record, secs};
use super::super::granting::{owns, that_has_run};
use super::whole_and_broken;
use crate::core::input::{HandlerEvent, Input};
use crate::model::id::{Incarnation, Token, WorkerId};
use crate::model::member::MemberState;
use crate::model::record::{Begun, Record};
use crate::mutation::Mutation;
use crate::step::{DispatchReply, Lookup, Renewal, SteerReply, WorkerEvent, WorkerStream};

#[test]
fn a_grant_that_is_read_again_starts_nothing() {
    let said = whole_and_broken(Mutation::GrantTwice).map(|bench| {
        let mut bench = that_has_run(bench);
        bench.grant(5, 7, &["k"]);
        bench.seen()
    });
    assert_eq!(said, [["begin 1: k@7; done 5"], ["RUN k@7"]]);
}

#[test]
fn a_grant_behind_news_of_its_job_is_begun() {
    let said = whole_and_broken(Mutation::NewsRaisesNothing).map(|mut bench| {
        let jobs = vec![(key("k"), Token(7), 1)];
        bench.event(1, 6, WorkerEvent::Update { jobs });
        bench.begun();
        bench.all();
        bench.grant(5, 7, &["k"]);
        bench.seen()
    });
    assert_eq!(said, [["begin 1: k@7; done 5"], ["RUN k@7"]]);
}

#[test]
fn a_grant_of_another_incarnation_is_begun() {
    let said = whole_and_broken(Mutation::GrantOfAnyIncarnation).map(|mut bench| {
        bench.event(1, 5, granted(2, 7, &["k"]));
        bench.seen()
    });
    assert_eq!(said, [["begin 1: k@7; done 5"], ["RUN k@7"]]);
}

#[test]
fn without_a_lease_no_grant_is_honoured() {
    let said = whole_and_broken(Mutation::GrantWithoutLease).map(|mut bench| {
        bench.leases.insert(WorkerId(1), bench.now);
        bench.grant(5, 7, &["k"]);
        bench.seen()
    });
    assert_eq!(said, [["begin 1: k@7; done 5"], ["RUN k@7"]]);
}

#[test]
fn a_start_that_takes_long_is_confirmed_by_a_begin() {
    let said = whole_and_broken(Mutation::GrantsUnconfirmed).map(|mut bench| {
        bench.grant(5, 7, &["fast", "slow"]);
        bench.handler(1, "fast", 7, HandlerEvent::Started);
        bench.started_noted();
        bench.all();
        bench.advance(millis(249));
        assert_eq!(bench.seen(), [""; 0]);
        bench.advance(millis(1));
        bench.of(&["begin"])
    });
    assert_eq!(said, [vec!["begin 1: slow@7".to_owned()], vec![]]);
}

#[test]
fn a_grant_that_was_lost_is_begun_once_the_records_are_compared() {
    let said = whole_and_broken(Mutation::BeginRaisesNothing).map(|mut bench| {
        bench.assign(1, 3, 3, &["other"]);
        bench.fail("begin");
        owns(&mut bench, Begun::Never, &[("k", 7)]);
        bench.all();
        bench.advance(secs(1));
        assert_eq!(bench.of(&["begin", "release"]), ["begin 1: other@3 k@7; done 3"]);
        bench.begun();
        bench.handler(1, "k", 7, HandlerEvent::Started);
        bench.started_noted();
        bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
        bench.released();
        bench.all();
        bench.grant(5, 7, &["k"]);
        bench.seen()
    });
    assert_eq!(said, [["begin 1: k@7; done 5"], ["RUN k@7"]]);
}

#[test]
fn a_stream_that_was_deleted_has_the_records_compared() {
    let said = whole_and_broken(Mutation::DeletedStreamUnnoticed).map(|mut bench| {
        [0, 2, 2, 1].map(|added| {
            let streams = vec![WorkerStream { oldest: None, added }];
            let renewal = Renewal { states: vec![Some(MemberState::Up)], streams, ..bench.renewal() };
            let (incarnation, workers) = (Incarnation(1), vec![WorkerId(1)]);
            bench.step([Input::Renewed { incarnation, workers, answer: Ok(renewal) }]);
            bench.of(&["owned"]).concat()
        })
    });
    assert_eq!(said, [["", "", "", "owned 1"], [""; 4]]);
}

#[test]
fn the_owner_of_an_unread_grant_is_told_again() {
    let said = whole_and_broken(Mutation::LostGrantsStay).map(|mut bench| {
        bench.submit("k", "n.k", true, secs(60));
        bench.answer_with("dispatch", vec![DispatchReply::Accepted]);
        // A job that was refused once has begun before.
        let unread = |begun| Record { begun, since: 40, ..record("k", 7, WorkerId(1)) };
        let mut told = Vec::new();
        for begun in [Begun::Never, Begun::Begun].into_iter().cycle().take(12) {
            bench.advance(secs(1));
            bench.answer_with("lookup", vec![Lookup { record: Some(unread(begun)), ..Lookup::default() }]);
            let steers = bench.of(&["steer"]);
            if !steers.is_empty() {
                bench.answer_with("steer", vec![SteerReply::Told]);
            }
            told.push(steers.join(" "));
        }
        told
    });
    let told = "steer k/n.k@7+40 n owner=1";
    assert_eq!(said[0], ["", "", "", "", "", told, "", "", "", "", told, ""]);
    assert_eq!(said[1], [""; 12]);
}
