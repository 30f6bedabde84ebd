//! Somebody else has damaged the data, and the steps mend the data. The store in memory has no damage, and shows the
//! state to come back to.

use tenure_jobs::store::{
    AddJobs, AddReply, Boot, Booted, ExtendJobs, ReadFigures, ReadServer, Recover, Settle, SettleJobs,
    SettleReply, Steer, SteerJobs, SteerReply, StoreError, TakeJobs, TakeReply, Tick, Ticked,
};
use tenure_jobs::{Incarnation, Token};

use super::lab::{Lab, Which, done, group, node, queue, taking};

scenarios! {
    a_count_that_cannot_be_read_stops_no_queue,
    a_count_that_is_full_for_nothing_is_counted_again,
    counts_of_more_queues_than_a_tick_sees_are_mended,
    delayed_jobs_that_are_none_fill_no_bounded_queue,
    a_group_with_ready_jobs_comes_back_to_its_place,
    groups_behind_many_others_come_back_to_their_place,
    jobs_keep_their_groups_while_settings_are_lost,
    a_lane_that_cannot_be_read_is_none,
    a_head_that_cannot_be_read_is_a_loss,
    a_set_that_waits_for_longer_than_any_does_not_wait,
    tokens_end_before_one_comes_twice,
    a_token_that_no_set_gives_is_not_believed,
    a_group_that_cannot_be_read_begins_anew,
    a_turn_that_cannot_be_read_begins_anew,
    a_member_with_a_score_hides_no_queue,
    a_stray_waiter_holds_up_no_wake_up,
    a_lease_that_is_gone_comes_back,
    figures_that_cannot_be_read_are_none,
    a_step_that_is_refused_for_a_key_has_written_nothing,
}

/// Texts that are no count, and counts that no queue comes to.
const STRANGE: [&str; 7] = ["", "x", "-7", "1.5", "1e300", "9223372036854775807", "99999999999999999999"];

async fn a_count_that_cannot_be_read_stops_no_queue(which: Which) {
    let queues = [("a", ""), ("c", "cap=3"), ("x", "conc=2 max=2"), ("g", "g")];
    for count in ["running", "done", "delayed", "waiting", "failed", "cancelled"] {
        for text in STRANGE {
            let lab = Lab::new(which, &queues).await;
            for (name, _) in queues {
                let add = async |job: &str| {
                    lab.add_one(name, job, |kind| kind.group = group(if name == "g" { "t" } else { "" }))
                        .await
                };
                for round in 0..2 {
                    lab.raw("HSET", "counts", &[&format!("{name}|{count}"), text]).await;
                    let jobs = [format!("{name}{round}1"), format!("{name}{round}2")];
                    // A count that is too high keeps a bounded queue full.
                    if (name, count) == ("c", "delayed") && text.len() > 5 {
                        continue;
                    }
                    assert_eq!(add(&jobs[0]).await, AddReply::Added, "{name} {count} {text}");
                    assert_eq!(add(&jobs[1]).await, AddReply::Added, "{name} {count} {text}");
                    if (name, count) == ("x", "running") {
                        // Ticks mend a count that is too high.
                        lab.take_as(&waiting(name)).await;
                        lab.tick_after(10_000).await;
                        for job in lab.jobs.take() {
                            lab.settle_as(job.id.as_str(), job.record.token, Settle::GiveBack).await;
                        }
                    }
                    assert_eq!(lab.take(name).await.len(), 2, "{name} {count} {text}");
                    assert_eq!(lab.done(&jobs[0]).await, SettleReply::Ended);
                    assert_eq!(lab.settle(&jobs[1], Settle::Later(5, "".into())).await, SettleReply::Delayed);
                    assert_eq!(lab.steer(&jobs[1], Steer::Cancel(String::new())).await, SteerReply::Done);
                    let left =
                        lab.dump().await.value("counts", &format!("{name}|{count}")).map(str::to_owned);
                    assert!(
                        left.is_none_or(|left| !left.starts_with('-'))
                            || ["waiting", "failed"].contains(&count),
                        "{name} {count} {text}"
                    );
                }
            }
        }
    }
}

/// A wish of a node that waits.
fn waiting(name: &str) -> tenure_jobs::store::Taking {
    let mut wish = taking(name, 9);
    wish.slots = 9;
    wish
}

async fn a_count_that_is_full_for_nothing_is_counted_again(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("x", "conc=2")]).await;
    lab.add("a", &["a1", "a2", "a3"]).await;
    lab.add("x", &["j", "k", "l", "m"]).await;
    lab.take("a").await;
    assert_eq!(lab.take("x").await, ["j", "k"]);
    let both = lab.token.get();
    // The slot of a record that is gone.
    if which == Which::Redis {
        lab.raw("HDEL", "jobs", &["j"]).await;
    } else {
        lab.settle_as("j", both, done()).await;
    }
    let mut more = lab.take_as(&waiting("x")).await;
    lab.tick_after(10_000).await;
    more.extend(lab.take("x").await);
    assert_eq!(more, ["l"]);
    assert_eq!(lab.dump().await.value("counts", "x|running"), Some("2"));
    // Nobody is counted twice, or left out.
    lab.take_as(&waiting("x")).await;
    lab.tick_after(10_000).await;
    assert_eq!(lab.take("x").await, [""; 0]);
}

/// Lets time pass until a tick looks for damage, and ticks until nothing more is due.
async fn look(lab: &Lab) {
    lab.advance(10_000).await;
    while matches!(lab.tick().await, Ticked::Done { next: 0, .. }) {}
}

async fn counts_of_more_queues_than_a_tick_sees_are_mended(which: Which) {
    let names: Vec<_> = (100..170).map(|n| format!("q{n}")).collect();
    let queues: Vec<_> = names.iter().map(|name| (name.as_str(), "conc=1")).collect();
    let lab = Lab::new(which, &queues).await;
    lab.raw("HSET", "counts", &["q169|running", "1"]).await;
    let mut wish = waiting("q100");
    wish.queues = names.iter().map(|name| (queue(name), 1)).collect();
    assert_eq!(lab.take_as(&wish).await, [""; 0]);
    look(&lab).await;
    lab.add("q169", &["j"]).await;
    assert_eq!(lab.take("q169").await, ["j"]);
}

async fn delayed_jobs_that_are_none_fill_no_bounded_queue(which: Which) {
    let lab = Lab::new(which, &[("c", "cap=3"), ("d", "")]).await;
    let later = lab.now() + 60_000;
    for name in ["c", "d"] {
        lab.add_one(name, &format!("{name}1"), |kind| kind.due = later).await;
    }
    for text in ["3", "9007199254740991"] {
        lab.raw("HSET", "counts", &["c|delayed", text]).await;
        lab.take_as(&waiting("c")).await;
        look(&lab).await;
        assert_eq!(lab.dump().await.value("counts", "c|delayed"), Some("1"), "{text}");
    }
    for (job, reply) in [("c2", AddReply::Added), ("c3", AddReply::Added), ("c4", AddReply::Full)] {
        assert_eq!(lab.add_one("c", job, |_| {}).await, reply);
    }
}

async fn a_group_with_ready_jobs_comes_back_to_its_place(which: Which) {
    let damages: [&[&str]; 7] = [
        &["DEL", "turns"],
        &["HDEL", "groups", "g|t"],
        &["HSET", "groups", "g|t", "0|0|0|0|0|0|-|||||"],
        &["HSET", "groups", "g|t", "9|0|0|0|0|0|q|||||"],
        &["HSET", "groups", "g|t", "2|7|0|0|0|0|-|||||"],
        &["HSET", "groups", "g|t", "2|7|0|0|0|0|q|||||"],
        &["HSET", "groups", "g|t", "2|0|0|0|0|0|b|||||"],
    ];
    for damage in damages {
        let lab = Lab::new(which, &[("g", "g gconc=3")]).await;
        for job in ["j", "k", "l"] {
            lab.add_one("g", job, |kind| kind.group = group("t")).await;
        }
        let mut taken = lab.take_n("g", 1).await;
        lab.raw("DEL", "turns", &[]).await;
        lab.raw(damage[0], damage[1], &damage[2..]).await;
        lab.listen("n1").await;
        taken.extend(lab.take_as(&waiting("g")).await);
        look(&lab).await;
        let woken = lab.woken().await;
        assert!(which == Which::Memory || !woken.is_empty(), "{damage:?}");
        taken.extend(lab.take("g").await);
        assert_eq!(taken, ["j", "k", "l"], "{damage:?}");
    }
}

async fn groups_behind_many_others_come_back_to_their_place(which: Which) {
    // A tick sees 64 queues that nodes wait for, and the next tick goes on behind them. The queue of the lost group comes
    // before all others, or behind them.
    for own in ["g", "z"] {
        let names: Vec<_> = (100..170).map(|n| format!("h{n}")).collect();
        let others = names.iter().map(|name| (name.as_str(), "g"));
        let lab = Lab::new(which, &others.chain([(own, "g gconc=1")]).collect::<Vec<_>>()).await;
        let groups: Vec<_> = (100..170).map(|n| format!("t{n}")).collect();
        for name in &groups {
            for job in ["1", "2"] {
                lab.add_one(own, &format!("{name}.{job}"), |kind| kind.group = group(name)).await;
            }
        }
        let mut taken = 0;
        for _ in 0..2 {
            let mut wish = taking(own, 128);
            wish.slots = 128;
            taken += lab.take_as(&wish).await.len();
        }
        assert_eq!(taken, groups.len());
        let mut wish = waiting(own);
        wish.queues.extend(names.iter().map(|name| (queue(name), 1)));
        lab.take_as(&wish).await;
        // Its slot is gone.
        lab.raw("HSET", "groups", &[&format!("{own}|t169"), "1|0|0|0|0|0|q|||||"]).await;
        let before = lab.dump().await;
        for round in 0..2 {
            look(&lab).await;
            lab.tick().await;
            let now = lab.dump().await;
            let is_in_line = now.get("turns").is_some();
            assert_eq!(is_in_line, which == Which::Redis && round == 1, "{own} {round}");
            let others = |dump: &tenure_jobs::store::Dump| {
                let lines = dump
                    .lines()
                    .into_iter()
                    .filter(|line| line.starts_with("groups ") && !line.contains("t169"));
                lines.collect::<Vec<_>>()
            };
            assert_eq!(others(&before), others(&now), "sound groups stay as they are");
        }
    }
}

async fn jobs_keep_their_groups_while_settings_are_lost(which: Which) {
    let settles = [done(), Settle::GiveBack, super::lab::retry(0, "e"), super::lab::with_result("r")];
    for (words, settle) in
        ["", "done=900"].iter().flat_map(|words| settles.iter().map(move |own| (words, own)))
    {
        let words = format!("g gconc=1 {words}");
        let lab = Lab::new(which, &[("g", &words)]).await;
        for job in ["j", "k"] {
            lab.add_one("g", job, |kind| kind.group = group("t")).await;
        }
        assert_eq!(lab.take("g").await, ["j"]);
        lab.raw("HDEL", "queues", &["g"]).await;
        lab.settle("j", settle.clone()).await;
        assert!(lab.declare("g", &words).await);
        let mut left = vec![];
        loop {
            let taken = lab.take("g").await;
            let Some(job) = taken.first() else { break };
            assert_eq!(lab.done(job).await, SettleReply::Ended);
            left.push(job.clone());
        }
        let runs_again = matches!(settle, Settle::GiveBack | Settle::Retry(..));
        assert_eq!(left.len(), if runs_again { 2 } else { 1 }, "{words} {settle:?}: {left:?}");
    }
}

async fn a_lane_that_cannot_be_read_is_none(lab: Lab) {
    for (n, text) in ["", "x", "x|y", "|", "7x|"].into_iter().enumerate() {
        for kind in ["SET", "HSET"] {
            let job = format!("j{n}{kind}");
            for lane in ["lane:p", "lane:s", "lane:an1"] {
                lab.raw("DEL", lane, &[]).await;
                if kind == "SET" {
                    lab.raw("SET", lane, &[text]).await
                } else {
                    lab.raw("HSET", lane, &["f", text]).await
                };
            }
            assert_eq!(lab.add("a", &[&job]).await, [AddReply::Added], "{text:?}");
            assert_eq!(lab.take("a").await, [&*job], "{text:?}");
            assert_eq!(lab.done(&job).await, SettleReply::Ended, "{text:?}");
        }
    }
}

async fn a_head_that_cannot_be_read_is_a_loss(which: Which) {
    let damages: [&[&str]; 7] = [
        &["HSET", "incarnation", "x"],
        &["HSET", "incarnation", ""],
        &["HSET", "incarnation", "99999999999999999999"],
        &["HSET", "token", "x"],
        &["HSET", "token", "-1"],
        &["HSET", "token", "nan"],
        &["HDEL", "token"],
    ];
    for damage in damages {
        let lab = Lab::new(which, &[("a", "")]).await;
        lab.add("a", &["j", "k"]).await;
        lab.take_n("a", 1).await;
        let (former, token) = (lab.inc.get(), lab.token.get());
        let server = lab.run(ReadServer()).await;
        let mut found = former;
        if which == Which::Redis {
            lab.raw(damage[0], "meta", &damage[1..]).await;
            let before = lab.dump().await;
            let taken = lab.ask(former, TakeJobs(lab.lane("t"), taking("a", 9))).await;
            assert!(matches!(taken, Err(StoreError::Stale(Incarnation(0)))), "{damage:?}: {taken:?}");
            assert!(lab.dump().await == before, "{damage:?}");
            let Booted::Exists { incarnation, .. } = lab.run(Boot(token)).await else { panic!() };
            assert_eq!(incarnation, Incarnation(0), "{damage:?}");
            found = incarnation;
        }
        lab.advance(1).await;
        let inc = lab
            .ask(found, Recover { seen: token, server: server.clone(), hold: 2_000, grace: 60_000 })
            .await
            .unwrap();
        assert!(inc > former, "{damage:?}");
        let second =
            lab.ask(found, Recover { seen: token, server: server.clone(), hold: 2_000, grace: 60_000 }).await;
        assert!(matches!(second, Err(StoreError::Stale(own)) if own == inc), "{second:?}");
        lab.inc.set(inc);
        assert_eq!(lab.done("j").await, SettleReply::Ended, "{damage:?}");
        lab.advance(2_000).await;
        assert_eq!(lab.take("a").await, ["k"], "{damage:?}");
        assert!(lab.token.get() > token, "{damage:?}");
    }
}

async fn a_set_that_waits_for_longer_than_any_does_not_wait(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=1000")]).await;
    lab.add("a", &["j"]).await;
    lab.raw("HSET", "meta", &["hold", "9000000000000000", "grace", "9000000000000000"]).await;
    assert_eq!(lab.take("a").await, ["j"]);
    lab.tick().await;
    lab.tick_after(2_000).await;
    assert_eq!(lab.take("a").await, ["j"], "its lease was lost");
}

async fn tokens_end_before_one_comes_twice(which: Which) {
    let lab = Lab::new(which, &[("a", "max=3"), ("b", "")]).await;
    lab.add("a", &["j", "k", "l"]).await;
    lab.take_n("a", 2).await;
    let (token, server) = (lab.token.get(), lab.run(ReadServer()).await);
    let recover =
        async |seen| lab.inc.set(lab.run(Recover { seen, server: server.clone(), hold: 0, grace: 0 }).await);
    recover(Token(Token::LAST.0 - 1)).await;
    assert_eq!(lab.take_n("a", 1).await, ["l"]);
    assert_eq!(lab.token.get(), Token::LAST, "the last one is given");
    for _ in 0..2 {
        let taken = lab.ask(lab.inc.get(), TakeJobs(lab.lane("t"), taking("a", 9))).await;
        assert!(matches!(taken, Err(StoreError::NoTokens)), "{taken:?}");
        let kind = tenure_jobs::store::Kind::new(queue("a"));
        let new = tenure_jobs::store::NewJob::new(super::lab::id("m"), "", kind);
        let adding = tenure_jobs::store::Adding::new(vec![new]);
        let added = lab.ask(lab.inc.get(), AddJobs(lab.lane("p"), adding.clone())).await;
        assert!(matches!(added, Err(StoreError::NoTokens)), "{added:?}");
        // No recovery gives numbers out again.
        lab.advance(1).await;
        recover(token).await;
    }
    // Running jobs come to an end, or back into line.
    let next = Settle::MoveOn {
        queue: queue("b"),
        priority: None,
        group: None,
        data: tenure_jobs::store::Data::Keep,
    };
    assert_eq!(lab.settle_as("j", token, next).await, SettleReply::Moved);
    assert_eq!(lab.settle_as("k", token, Settle::GiveBack).await, SettleReply::Pending);
    assert_eq!(lab.settle_as("l", Token::LAST, done()).await, SettleReply::Ended);
    lab.tick().await;
    assert_eq!(lab.dump().await.value("meta", "token"), Some(&*Token::LAST.to_string()));
}

async fn a_token_that_no_set_gives_is_not_believed(lab: Lab) {
    let server = lab.run(ReadServer()).await;
    lab.inc.set(lab.run(Recover { seen: Token(u64::MAX), server: server.clone(), hold: 0, grace: 0 }).await);
    lab.add("a", &["j"]).await;
    assert_eq!(lab.take("a").await, ["j"]);
    assert!(lab.token.get() < Token::LAST);
    lab.wipe().await;
    lab.token.set(Token(Token::LAST.0 + 1));
    lab.boot().await;
    assert!(lab.declare("a", "").await);
    assert_eq!(lab.add("a", &["j"]).await, [AddReply::Added]);
}

async fn a_group_that_cannot_be_read_begins_anew(which: Which) {
    let high = "1|0|99999999999999999999|0|0|0|q||||||";
    for text in ["gone", "x", "", "1|0", high, &high.replace("|||||", "||||")] {
        let lab = Lab::new(which, &[("g", "g")]).await;
        for job in ["j", "k"] {
            lab.add_one("g", job, |kind| kind.group = group("t")).await;
        }
        if text == "gone" {
            lab.raw("HDEL", "groups", &["g|t"]).await;
        } else {
            lab.raw("HSET", "groups", &["g|t", text]).await;
        }
        lab.take_n("g", 1).await;
        let first = lab.jobs.borrow().first().map(|job| job.id.clone());
        assert!(first.is_some() || which == Which::Redis, "{text:?}");
        let mut all = lab.take("g").await;
        all.extend(lab.take("g").await);
        assert_eq!(all.len() + usize::from(first.is_some()), 2, "{text:?}");
    }
}

async fn a_turn_that_cannot_be_read_begins_anew(which: Which) {
    for text in STRANGE {
        let lab = Lab::new(which, &[("g", "g")]).await;
        lab.raw("HSET", "counts", &["g|turn", text]).await;
        for (job, name) in [("j", "t"), ("k", "u"), ("l", "t")] {
            lab.add_one("g", job, |kind| kind.group = group(name)).await;
        }
        assert_eq!(lab.take("g").await.len(), 3, "{text:?}");
    }
}

async fn a_member_with_a_score_hides_no_queue(which: Which) {
    for (score, member) in [("-1", "zzz"), ("-inf", "b|"), ("7", "a|"), ("+inf", "")] {
        let lab = Lab::new(which, &[("a", ""), ("g", "g")]).await;
        for key in ["ready", "turns", "waiting", "index"] {
            lab.raw("ZADD", key, &[score, member]).await;
        }
        lab.add("a", &["j"]).await;
        lab.add_one("g", "k", |kind| kind.group = group("t")).await;
        lab.tick_after(1_000).await;
        assert_eq!(lab.take("a").await, ["j"], "{score} {member}");
        assert_eq!(lab.take("g").await, ["k"], "{score} {member}");
    }
}

async fn a_stray_waiter_holds_up_no_wake_up(lab: Lab) {
    lab.listen("n1").await;
    lab.take_as(&waiting("a")).await;
    for member in ["/x", "||", "!"] {
        lab.raw("ZADD", "waiting", &["0", member]).await;
    }
    lab.add("a", &["j"]).await;
    assert_eq!(lab.woken().await, ["n1"]);
    // The wake-up is lost with its receiver.
    lab.take_as(&{
        let mut wish = waiting("a");
        wish.want = 0;
        wish
    })
    .await;
    lab.tick().await;
    assert!(lab.dump().await.get("waiting").is_none_or(|waiting| waiting.len() <= 1));
}

async fn a_lease_that_is_gone_comes_back(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=5000")]).await;
    lab.begin("a", &["j"]).await;
    lab.raw("ZREM", "leases", &["j"]).await;
    assert_eq!(lab.extend("j", lab.token.get()).await, SettleReply::GoesOn);
    let ends = (lab.now() + 5_000).to_string();
    assert_eq!(lab.dump().await.value("leases", "j"), Some(&*ends));
}

async fn figures_that_cannot_be_read_are_none(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
    lab.add("b", &["j"]).await;
    for text in STRANGE {
        for of in ["running", "delayed", "waiting", "done", "failed", "cancelled"] {
            lab.raw("HSET", "counts", &[&format!("a|{of}"), text]).await;
        }
        lab.raw("HSET", "queues", &["c", text]).await;
        let figures = lab.run(ReadFigures(vec![queue("a"), queue("b")])).await;
        assert!(figures[1].ready == 1 && figures[0].done <= 1, "{text}: {figures:?}");
    }
}

/// Every key of a set, of another type.
async fn a_step_that_is_refused_for_a_key_has_written_nothing(which: Which) {
    if which == Which::Memory {
        return;
    }
    let keys = [
        "meta", "queues", "counts", "jobs", "bodies", "extras", "ready", "timers", "leases", "groups",
        "turns", "waiting", "index",
    ];
    for key in keys {
        for step in 0..12 {
            let lab =
                Lab::new(Which::Redis, &[("a", ""), ("g", "g glimit=9/1000"), ("x", "conc=9 limit=9/1000")])
                    .await;
            lab.add("a", &["j", "k", "l", "m"]).await;
            lab.add_one("g", "gj", |kind| kind.group = group("t")).await;
            lab.add_one("g", "gk", |kind| kind.group = group("t")).await;
            lab.add("x", &["xj", "xk"]).await;
            lab.take_n("g", 1).await;
            let of_group = lab.token.get();
            lab.take_n("x", 1).await;
            let of_x = lab.token.get();
            lab.take_n("a", 3).await;
            let (inc, token) = (lab.inc.get(), lab.token.get());
            lab.advance(60_000).await;
            lab.raw("DEL", key, &[]).await;
            lab.raw("SET", key, &["of another type"]).await;
            let before = without_token(&lab).await;
            let settled = async |job: &str, token, settle| {
                let settling = [tenure_jobs::store::Settling::new(super::lab::id(job), token, settle)];
                lab.ask(inc, SettleJobs(lab.lane("s"), settling.to_vec())).await.map(drop)
            };
            let added = async |name: &str, job: &str| {
                let mut kind = tenure_jobs::store::Kind::new(queue(name));
                kind.group = group(if name == "g" { "t" } else { "" });
                let new = tenure_jobs::store::NewJob::new(super::lab::id(job), "", kind);
                let adding = tenure_jobs::store::Adding::new(vec![new]);
                lab.ask(inc, AddJobs(lab.lane("p"), adding)).await.map(drop)
            };
            let took = async |name: &str| match lab.ask(inc, TakeJobs(lab.lane("t"), waiting(name))).await {
                Ok(TakeReply::Hold(_)) => panic!("hold"),
                answer => answer.map(drop),
            };
            let answer = match step {
                0 => added("a", "new").await,
                1 => added("g", "new").await,
                2 => took("a").await,
                3 => took("g").await,
                4 => took("x").await,
                5 => settled("j", token, done()).await,
                6 => settled("gj", of_group, done()).await,
                7 => settled("k", token, super::lab::retry(500, "e")).await,
                8 => settled("xj", of_x, super::lab::fail("e")).await,
                9 => lab
                    .ask(inc, Tick { node: node("n1"), most: 50, pause: 9_000, grace: 0, off_duty: true })
                    .await
                    .map(drop),
                10 => {
                    let request =
                        tenure_jobs::store::Request::Job(super::lab::id("m"), Steer::Cancel(String::new()));
                    lab.ask(inc, SteerJobs(vec![request])).await.map(drop)
                }
                _ => lab.ask(inc, ExtendJobs(vec![(super::lab::id("j"), token)])).await.map(drop),
            };
            if answer.is_err() {
                assert_ne!(key, "counts", "{step}: {answer:?}");
                assert!(matches!(answer, Err(StoreError::Damaged(_))), "{key} {step}: {answer:?}");
                let after = without_token(&lab).await;
                assert_eq!(before, after, "{key} {step}");
            } else {
                assert!(!["jobs", "meta"].contains(&key), "{key} {step}");
            }
        }
    }
}

/// All but the number of the last call, and how a tick has found the clock.
async fn without_token(lab: &Lab) -> Vec<String> {
    let lines = lab.dump().await.lines();
    lines.into_iter().filter(|line| !line.starts_with("meta ") && !line.starts_with("lane:")).collect()
}
