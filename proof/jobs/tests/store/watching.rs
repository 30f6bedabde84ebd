//! News of jobs.

use tenure_jobs::State;
use tenure_jobs::store::{
    AddMode, Data, Ends, Hint, News, PeekJobs, Seen, Settle, Steer, WatchJobs, Watching,
};

use super::lab::{Lab, Which, id, node, retry, with_result};

scenarios! {
    every_transition_is_told_once_with_its_number,
    what_is_watched_is_kept_for_a_minute,
    a_removed_job_is_told_once,
    what_has_ended_is_answered_and_not_watched,
    whoever_watches_no_more_is_told_nothing,
    a_node_that_does_not_hear_is_forgotten,
    an_end_is_kept_for_a_node_that_did_not_hear,
    a_late_end_takes_back_no_later_watch,
    an_answer_with_much_data_ends_early,
}

async fn watch(lab: &Lab, on: bool, job: &str) -> Option<Seen> {
    watch_by(lab, on, 1, job).await
}

/// The same by a call of this number.
async fn watch_by(lab: &Lab, on: bool, number: u64, job: &str) -> Option<Seen> {
    let watching = if on { Watching::Begin } else { Watching::End };
    lab.run(WatchJobs { node: node("w"), watching, number, ids: vec![id(job)] }).await.remove(0)
}

async fn news(lab: &Lab) -> Vec<News> {
    let heard = lab.heard().await.into_iter();
    heard.filter_map(|(_, hint)| if let Hint::News(news) = hint { Some(news) } else { None }).collect()
}

async fn every_transition_is_told_once_with_its_number(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    lab.listen("w").await;
    assert_eq!(watch(&lab, true, "j").await, None);
    lab.add_one("t", "j", |kind| kind.keep = Some(-1)).await;
    assert_eq!(watch(&lab, true, "j").await.unwrap().record.state, State::Ready);
    assert!(watch(&lab, true, "j").await.is_some());
    assert!(lab.dump().await.get("extras").unwrap().values().eq(["w#1"]), "one subscription");
    lab.take("t").await;
    lab.settle("j", Settle::GoOn(Data::Replace("p".into()))).await;
    lab.settle("j", retry(0, "e")).await;
    lab.take("t").await;
    lab.settle("j", with_result("r")).await;
    let news = news(&lab).await;
    let said: Vec<_> = news.iter().map(|news| (news.number, news.state, news.body.clone())).collect();
    let (running, body) = (Some(State::Running), Some("p".into()));
    let expected = [
        (1, running, None),
        (2, running, body),
        (3, Some(State::Ready), None),
        (4, running, None),
        (5, Some(State::Done), None),
    ];
    assert_eq!(said, expected);
    assert_eq!(news.last().unwrap().outcome.as_deref(), Some(&b"Cr"[..]));
}

async fn what_is_watched_is_kept_for_a_minute(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    lab.listen("w").await;
    lab.add("t", &["j"]).await;
    watch(&lab, true, "j").await;
    lab.take("t").await;
    lab.settle("j", with_result("r")).await;
    assert_eq!(lab.result("j").await, "r");
    news(&lab).await;
    lab.tick_after(60_000).await;
    let news = news(&lab).await;
    assert_eq!((news.len(), news[0].state), (1, None));
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
}

async fn a_removed_job_is_told_once(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    lab.listen("w").await;
    lab.add("t", &["j"]).await;
    watch(&lab, true, "j").await;
    lab.steer("j", Steer::Remove).await;
    let news = news(&lab).await;
    assert_eq!((news.len(), news[0].state, news[0].number), (1, None, 1));
    assert_eq!(lab.dump().await.get("extras"), None);
}

async fn what_has_ended_is_answered_and_not_watched(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    lab.listen("w").await;
    lab.add_one("t", "j", |kind| kind.keep = Some(-1)).await;
    lab.take("t").await;
    lab.settle("j", with_result("r")).await;
    let seen = watch(&lab, true, "j").await.unwrap();
    assert_eq!((seen.record.state, &seen.result[..]), (State::Done, &b"r"[..]));
    assert!(!seen.record.flags.contains('w'));
}

async fn whoever_watches_no_more_is_told_nothing(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    lab.listen("w").await;
    lab.add("t", &["j"]).await;
    watch(&lab, true, "j").await;
    assert!(!watch(&lab, false, "j").await.unwrap().record.flags.contains('w'));
    lab.take("t").await;
    assert!(news(&lab).await.is_empty());
}

async fn a_node_that_does_not_hear_is_forgotten(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    lab.add("t", &["j"]).await;
    watch(&lab, true, "j").await;
    lab.take("t").await;
    lab.settle("j", retry(0, "e")).await;
    let record = lab.record("j").await.unwrap();
    assert!(!record.flags.contains('w'), "{record}");
    assert!(!lab.dump().await.get("extras").unwrap().contains_key("s:j"));
}

async fn an_end_is_kept_for_a_node_that_did_not_hear(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    lab.add("t", &["j"]).await;
    watch(&lab, true, "j").await;
    lab.take("t").await;
    lab.settle("j", retry(0, "e")).await;
    lab.take("t").await;
    lab.settle("j", with_result("r")).await;
    assert_eq!(lab.result("j").await, "r", "it may ask again");
    lab.advance(59_000).await;
    lab.add_body("t", "j", "", AddMode::Again, |_| ()).await;
    lab.take("t").await;
    lab.settle("j", with_result("s")).await;
    assert_eq!(lab.result("j").await, "s", "it still may ask again");
    lab.tick_after(60_000).await;
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
}

async fn a_late_end_takes_back_no_later_watch(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    lab.listen("w").await;
    lab.add("t", &["j"]).await;
    let watchers = async || lab.dump().await.value("extras", "s:j").map(str::to_owned);
    for (on, number, left) in [
        (true, 1, Some("w#1")),
        (true, 3, Some("w#3")),
        (false, 2, Some("w#3")),
        (true, 2, Some("w#3")),
        (false, 4, None),
    ] {
        let flagged = watch_by(&lab, on, number, "j").await.unwrap().record.flags.contains('w');
        assert_eq!((watchers().await.as_deref(), flagged), (left, left.is_some()), "{on} {number}");
    }
}

async fn an_answer_with_much_data_ends_early(which: Which) {
    let lab = Lab::new(which, &[("t", ""), ("c", "")]).await;
    let large = "x".repeat(400_000);
    let ids: Vec<_> = (0..5).map(|n| id(&format!("j{n}"))).collect();
    for job in &ids {
        lab.add_body("t", job.as_str(), &large, AddMode::Keep, |_| ()).await;
    }
    let watch = async |watching, from: usize| {
        let seen =
            lab.run(WatchJobs { node: node("w"), watching, number: 1, ids: ids[from..].to_vec() }).await;
        seen.into_iter().map(|seen| seen.unwrap().body.len()).collect::<Vec<_>>()
    };
    let watched = async || {
        let mut watched = 0;
        for job in &ids {
            watched += usize::from(lab.record(job.as_str()).await.unwrap().flags.contains('w'));
        }
        watched
    };
    assert_eq!(watch(Watching::Begin, 0).await, [400_000; 3]);
    assert_eq!(watched().await, 3, "the others are left as they were");
    assert_eq!(watch(Watching::Begin, 3).await, [400_000; 2]);
    assert_eq!(watch(Watching::Again, 0).await, [0; 5], "nobody wants their data again");
    assert_eq!(watched().await, 5);
    assert_eq!(watch(Watching::End, 0).await, [0; 5]);
    assert_eq!(watched().await, 0);
    let peek = async |from: usize| {
        let peeked = lab.run(PeekJobs(Ends::With, ids[from..].to_vec())).await;
        peeked.into_iter().map(|peeked| peeked.unwrap().seen.body.len()).collect::<Vec<_>>()
    };
    assert_eq!(peek(0).await, [400_000; 3]);
    assert_eq!(peek(3).await, [400_000; 2]);
    // Results count, and so do the ends of children.
    lab.add_body("t", "parent", "", AddMode::Keep, |kind| kind.priority = 9).await;
    lab.take_n("t", 1).await;
    let token = lab.token.get();
    for child in ["parent.1", "parent.2", "parent.3"] {
        lab.spawn("c", "parent", Some(token), child).await;
    }
    lab.take("c").await;
    for child in ["parent.1", "parent.2", "parent.3"] {
        lab.settle(child, with_result(&large)).await;
    }
    let ids = [id("parent"), id("j0")];
    let peeked = lab.run(PeekJobs(Ends::With, ids.to_vec())).await;
    let parent = peeked[0].as_ref().unwrap();
    assert_eq!((peeked.len(), parent.children.len(), &parent.more), (1, 3, &None));
    assert_eq!(lab.run(PeekJobs(Ends::Without, ids.to_vec())).await.len(), 2);
}
