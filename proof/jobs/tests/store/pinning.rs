//! Pinned queues: only the owner of a group takes its jobs.

use tenure_jobs::store::{
    AddMode, AddReply, Adding, Data, Hint, Kind, Lane, NewJob, Request, Result, Settle, SettleReply,
    SteerReply, StoreError, TakeJobs, TakeReply, Taking,
};
use tenure_jobs::{State, Token};

use super::lab::{Lab, Which, done, group, id, node, queue, retry};

scenarios! {
    nobody_but_an_owner_takes_from_a_pinned_queue,
    an_owner_takes_one_job_at_a_time_in_order,
    a_job_that_comes_back_keeps_its_turn,
    a_former_owner_comes_too_late,
    a_take_of_an_owner_that_is_sent_again_is_answered_again,
    an_owner_is_woken_for_its_group_alone,
    nobody_but_the_last_owner_waits,
    a_pinned_queue_that_is_resumed_wakes_its_owners,
    a_limit_that_is_over_wakes_the_owner,
    owners_that_wait_hold_up_no_other_queue,
    owners_that_wait_hide_no_queue_of_a_longer_name,
    a_queue_stays_pinned_or_not,
    a_job_without_a_group_enters_no_pinned_queue,
    a_group_of_a_pinned_queue_has_no_other_concurrency,
}

/// Its job is the job's first letter's group.
async fn add(lab: &Lab, jobs: &[&str]) {
    let jobs = jobs.iter().map(|job| {
        let mut kind = Kind::new(queue("o"));
        kind.group = group(&job[..1]);
        NewJob::new(id(job), "b", kind)
    });
    lab.add_all(&Adding::new(jobs.collect())).await;
}

/// The owner of a group on a node, under its token.
struct Owner {
    lane: Lane,
    taking: Taking,
}

impl Owner {
    fn new(on: &str, of: &str, token: u64) -> Self {
        let mut taking = Taking::new(node(on), queue("o"), 9);
        (taking.group, taking.slots) = (group(of), 9);
        Self { lane: Lane::of_owner(&queue("o"), &group(of).unwrap(), token), taking }
    }

    async fn again(&self, lab: &Lab) -> Result<TakeReply> {
        lab.ask(lab.inc.get(), TakeJobs(self.lane.clone(), self.taking.clone())).await
    }

    async fn take(&mut self, lab: &Lab) -> Result<Vec<String>> {
        let reply = self.again(lab).await;
        self.lane.advance();
        let TakeReply::Taken { jobs, registration, more } = reply? else { panic!() };
        self.taking.registration = registration;
        assert!(!more);
        if let Some(job) = jobs.first() {
            lab.token.set(job.record.token);
        }
        Ok(jobs.iter().map(|job| job.id.to_string()).collect())
    }
}

async fn nobody_but_an_owner_takes_from_a_pinned_queue(which: Which) {
    let lab = Lab::new(which, &[("o", "o"), ("g", "g")]).await;
    add(&lab, &["x1", "y1"]).await;
    assert!(lab.take("o").await.is_empty());
    assert!(lab.registration.borrow().is_none() && !lab.more.get());
    lab.add_one("g", "k", |kind| kind.group = group("x")).await;
    let mut taking = Taking::new(node("n1"), queue("g"), 9);
    taking.group = group("x");
    assert!(lab.take_as(&taking).await.is_empty(), "a queue that is not pinned has no owners");
    assert_eq!(Owner::new("n1", "x", 7).take(&lab).await.unwrap(), ["x1"]);
}

async fn an_owner_takes_one_job_at_a_time_in_order(which: Which) {
    let lab = Lab::new(which, &[("o", "o")]).await;
    add(&lab, &["x1", "y1", "x2", "x3"]).await;
    let mut owner = Owner::new("n1", "x", 7);
    for job in ["x1", "x2", "x3"] {
        assert_eq!(owner.take(&lab).await.unwrap(), [job]);
        assert!(owner.take(&lab).await.unwrap().is_empty(), "one at a time");
        assert_eq!(lab.done(job).await, SettleReply::Ended);
    }
    assert_eq!(Owner::new("n1", "y", 7).take(&lab).await.unwrap(), ["y1"]);
}

async fn a_job_that_comes_back_keeps_its_turn(which: Which) {
    let lab = Lab::new(which, &[("o", "o lease=3000")]).await;
    add(&lab, &["x1", "x2"]).await;
    let mut owner = Owner::new("n1", "x", 7);
    for back in [Settle::GiveBack, retry(0, "no")] {
        owner.take(&lab).await.unwrap();
        assert_eq!(lab.settle("x1", back).await, SettleReply::Pending);
    }
    // Its owner dies. The next one waits for its lease, and then has the same job.
    assert_eq!(owner.take(&lab).await.unwrap(), ["x1"]);
    let mut next = Owner::new("n2", "x", 8);
    assert!(next.take(&lab).await.unwrap().is_empty());
    lab.tick_after(3_001).await;
    assert_eq!(next.take(&lab).await.unwrap(), ["x1"]);
}

async fn a_former_owner_comes_too_late(which: Which) {
    let lab = Lab::new(which, &[("o", "o")]).await;
    // Numbers that a script cannot tell apart when it reads them as such.
    let token = (1 << 53) - 1;
    let (mut former, mut next) = (Owner::new("n1", "x", token - 1), Owner::new("n2", "x", token));
    assert!(former.take(&lab).await.unwrap().is_empty());
    assert!(next.take(&lab).await.unwrap().is_empty());
    add(&lab, &["x1"]).await;
    let before = lab.dump().await;
    for _ in 0..3 {
        assert!(matches!(former.take(&lab).await, Err(StoreError::Late)));
    }
    assert_eq!(lab.dump().await, before, "nothing is written");
    // A call of its own that comes late does nothing, either.
    let mut late = Owner::new("n2", "x", token);
    assert!(late.take(&lab).await.is_ok(), "it is answered again");
    next.take(&lab).await.unwrap();
    late.lane.number = next.lane.number - 2;
    assert!(matches!(late.take(&lab).await, Err(StoreError::Late)));
    assert_eq!(Owner::new("n1", "y", 1).take(&lab).await.unwrap(), Vec::<String>::new(), "of another group");
}

async fn a_take_of_an_owner_that_is_sent_again_is_answered_again(which: Which) {
    let lab = Lab::new(which, &[("o", "o")]).await;
    add(&lab, &["x1", "x2"]).await;
    let owner = Owner::new("n1", "x", 7);
    let first = owner.again(&lab).await.unwrap();
    let before = lab.dump().await;
    assert_eq!(owner.again(&lab).await.unwrap(), first);
    assert_eq!(lab.dump().await, before);
}

async fn an_owner_is_woken_for_its_group_alone(which: Which) {
    let lab = Lab::new(which, &[("o", "o")]).await;
    lab.listen("n1").await;
    lab.listen("n2").await;
    let (mut of_x, mut of_y) = (Owner::new("n1", "x", 7), Owner::new("n2", "y", 7));
    of_x.take(&lab).await.unwrap();
    of_y.take(&lab).await.unwrap();
    let ready = |on: &str, of: &str| (on.to_owned(), Hint::Ready(queue("o"), group(of)));
    add(&lab, &["y1", "y2"]).await;
    assert_eq!(lab.heard().await, [ready("n2", "y")]);
    add(&lab, &["x1"]).await;
    assert_eq!(lab.heard().await, [ready("n1", "x")]);
    assert_eq!(of_y.take(&lab).await.unwrap(), ["y1"]);
    // It waits also while its job runs: for the end of that.
    assert!(of_y.take(&lab).await.unwrap().is_empty());
    lab.done("y1").await;
    assert_eq!(lab.heard().await, [ready("n2", "y")]);
}

async fn nobody_but_the_last_owner_waits(which: Which) {
    let lab = Lab::new(which, &[("o", "o")]).await;
    lab.listen("n1").await;
    lab.listen("n2").await;
    Owner::new("n1", "x", 7).take(&lab).await.unwrap();
    Owner::new("n2", "x", 8).take(&lab).await.unwrap();
    add(&lab, &["x1"]).await;
    assert_eq!(lab.woken().await, ["n2"]);
}

async fn a_pinned_queue_that_is_resumed_wakes_its_owners(which: Which) {
    let lab = Lab::new(which, &[("o", "o")]).await;
    lab.listen("n1").await;
    assert_eq!(lab.request(Request::PauseQueue(queue("o"), true)).await, SteerReply::Done);
    let (mut of_x, mut of_y) = (Owner::new("n1", "x", 7), Owner::new("n1", "y", 7));
    add(&lab, &["x1", "y1"]).await;
    assert!(of_x.take(&lab).await.unwrap().is_empty());
    assert!(of_y.take(&lab).await.unwrap().is_empty());
    assert!(lab.woken().await.is_empty());
    lab.request(Request::PauseQueue(queue("o"), false)).await;
    assert_eq!(lab.woken().await, ["n1", "n1"]);
    assert_eq!(of_x.take(&lab).await.unwrap(), ["x1"]);
}

async fn a_limit_that_is_over_wakes_the_owner(which: Which) {
    let lab = Lab::new(which, &[("o", "o glimit=1/1000")]).await;
    lab.listen("n1").await;
    add(&lab, &["x1", "x2"]).await;
    let mut owner = Owner::new("n1", "x", 7);
    assert_eq!(owner.take(&lab).await.unwrap(), ["x1"]);
    lab.done("x1").await;
    assert!(owner.take(&lab).await.unwrap().is_empty());
    assert!(lab.woken().await.is_empty());
    lab.tick_after(1_000).await;
    assert_eq!(lab.woken().await, ["n1"]);
    assert_eq!(owner.take(&lab).await.unwrap(), ["x2"]);
}

async fn owners_that_wait_hold_up_no_other_queue(which: Which) {
    let lab = Lab::new(which, &[("o", "o"), ("z", "")]).await;
    lab.listen("n1").await;
    for n in 0..80 {
        Owner::new("n1", &format!("x{n}"), 7).take(&lab).await.unwrap();
    }
    for on in ["n1", "n2"] {
        let mut taking = Taking::new(node(on), queue("z"), 1);
        taking.slots = 1;
        lab.take_as(&taking).await;
    }
    lab.add("z", &["j"]).await;
    assert_eq!(lab.woken().await, ["n1"], "it dies now");
    lab.listen("n2").await;
    lab.tick().await;
    assert_eq!(lab.woken().await, ["n2"]);
}

async fn owners_that_wait_hide_no_queue_of_a_longer_name(which: Which) {
    // In the order of their bytes they stand before the owners, and behind them.
    for longer in ["o.x", "o0", "o:x", "o_x", "orders"] {
        let lab = Lab::new(which, &[("o", "o"), (longer, "")]).await;
        lab.listen("n1").await;
        Owner::new("n1", "x", 7).take(&lab).await.unwrap();
        for on in ["n1", "n2"] {
            let mut taking = Taking::new(node(on), queue(longer), 1);
            taking.slots = 1;
            lab.take_as(&taking).await;
        }
        lab.add(longer, &["j"]).await;
        assert_eq!(lab.woken().await, ["n1"], "it dies now");
        lab.listen("n2").await;
        lab.tick().await;
        assert_eq!(lab.woken().await, ["n2"], "{longer}");
    }
}

async fn a_queue_stays_pinned_or_not(which: Which) {
    let lab = Lab::new(which, &[("o", "o"), ("g", "g")]).await;
    assert!(!lab.declare("o", "g").await && !lab.declare("g", "o").await && !lab.declare("o", "").await);
    assert!(lab.declare("o", "o lease=4000").await);
    assert_eq!(lab.token.get(), Token(0));
    add(&lab, &["x1"]).await;
    assert_eq!(Owner::new("n1", "x", 7).take(&lab).await.unwrap(), ["x1"]);
    assert_eq!(lab.settle("x1", done()).await, SettleReply::Ended);
}

async fn a_job_without_a_group_enters_no_pinned_queue(which: Which) {
    let lab = Lab::new(which, &[("o", "o"), ("a", ""), ("g", "g")]).await;
    let on = |of: &str| {
        let (group, data) = (group(of), Data::Replace("x".into()));
        Settle::MoveOn { queue: queue("o"), priority: Some(2), group, data }
    };
    for mode in [AddMode::Keep, AddMode::Again, AddMode::Schedule, AddMode::Replace] {
        assert_eq!(lab.add_body("o", "j", "b", mode, |_| {}).await, AddReply::NoGroup);
    }
    assert_eq!(lab.state("j").await, None);
    lab.begin("a", &["j"]).await;
    // Neither does one that moves on.
    assert_eq!(lab.settle("j", on("")).await, SettleReply::NoGroup);
    let record = lab.record("j").await.unwrap();
    assert_eq!(
        (record.state, record.queue, lab.body("j").await),
        (State::Running, queue("a"), "body-j".into())
    );
    // Nor does a child.
    assert_eq!(lab.spawn("o", "j", Some(lab.token.get()), "j.1").await, AddReply::NoGroup);
    assert_eq!(lab.settle("j", on("x")).await, SettleReply::Moved);
    assert_eq!(Owner::new("n1", "x", 7).take(&lab).await.unwrap(), ["j"]);
    // The group that it has will do.
    lab.add_one("g", "k", |kind| kind.group = group("y")).await;
    lab.take("g").await;
    assert_eq!(lab.settle("k", on("")).await, SettleReply::Moved);
    assert_eq!(Owner::new("n1", "y", 7).take(&lab).await.unwrap(), ["k"]);
}

async fn a_group_of_a_pinned_queue_has_no_other_concurrency(which: Which) {
    let lab = Lab::new(which, &[("o", "o")]).await;
    add(&lab, &["x1", "x2"]).await;
    let concurrency = |jobs| Request::GroupConcurrency(queue("o"), group("x"), jobs);
    let before = lab.dump().await;
    for jobs in [0, 1, 2] {
        assert_eq!(lab.request(concurrency(Some(jobs))).await, SteerReply::Pinned);
    }
    assert_eq!(lab.dump().await, before);
    assert_eq!(lab.request(concurrency(None)).await, SteerReply::Done);
    assert_eq!(Owner::new("n1", "x", 7).take(&lab).await.unwrap(), ["x1"]);
}
