//! A worker: jobs begin in its slots, and what became of them is said. Both go in one round trip, and what ends while
//! a call is on its way is the next call.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attesting::{Behind, Journal, Told, needs_its_job};
use super::clock;
use super::ends::{Ends, Said};
use super::execution::{End, Event, Execution};
use super::hearer::Ears;
use super::incarnations::Incarnations;
use super::keeper::Keeper;
use super::link::{In, Link};
use crate::error::Error;
use crate::model::id::{GroupName, Incarnation, QueueName};
use crate::store::{
    AttestJobs, Breakage, Data, Lane, MOST, Settle, SettleJobs, SettleReply, Settling, StoreError, TakeJobs,
    TakeReply, TakenJob, Taking,
};

/// The pause after a call that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// An owner takes at least so often: the store remembers for an hour whose turn it is.
const UPKEEP: Duration = Duration::from_secs(30 * 60);
/// Any other worker with a free slot looks at least so often: nobody wakes a worker that the store has forgotten.
const IDLE: Duration = Duration::from_secs(10);
/// How long after a loss of data a worker repeats recent ends to damaged data.
const REPEATS: Duration = Duration::from_secs(60);

/// Runs a job. It is given the execution, and must call its `leave`, `free` or `vanish` when the handler is gone.
pub(crate) type Runner = Arc<dyn Fn(Arc<Execution>) + Send + Sync>;

/// The settings of a worker.
pub(crate) struct Plan {
    pub(crate) queues: Vec<QueueName>,
    pub(crate) slots: u32,
    pub(crate) runner: Runner,
    pub(crate) owner: Option<Owner>,
}

/// The right to the jobs of one group of a pinned queue.
pub(crate) struct Owner {
    pub(crate) queue: QueueName,
    pub(crate) group: GroupName,
    /// Higher than that of any owner before.
    pub(crate) token: u64,
    /// Whether it lasts, by the clock of this node.
    pub(crate) lasts: Box<dyn Fn() -> bool + Send + Sync>,
    /// Fires when it is over: a later owner has taken, or the node is closed.
    pub(crate) over: CancellationToken,
}

/// An order of a worker's owner.
pub(crate) enum Order {
    /// Take no more; answer when nothing runs any more.
    Drain(oneshot::Sender<()>),
    /// End all handlers, and give their jobs back; answer how many there were.
    GiveBack(oneshot::Sender<usize>),
}

pub(crate) struct Taker {
    link: Link,
    keeper: Keeper,
    ears: Ears,
    plan: Plan,
    take_lane: Lane,
    settle_lane: Lane,
    journal_lane: Lane,
    journal: Journal,
    incarnations: Incarnations,
    woken: Arc<Notify>,
    events: mpsc::UnboundedReceiver<Event>,
    sender: mpsc::UnboundedSender<Event>,
    ends: Ends,
    busy: u32,
    registration: Option<Box<str>>,
    /// The data may have forgotten recent ends: since when, and when the worker says the ends again.
    behind: Option<(Instant, Instant)>,
    /// There may be jobs to take.
    look: bool,
    /// When it last took.
    looked: Instant,
    /// No jobs are taken until then.
    rests: Option<Instant>,
    /// The queue that is named first.
    turn: usize,
    orders: mpsc::UnboundedReceiver<Order>,
    /// Its owner may give more orders.
    owned: bool,
    drains: Vec<oneshot::Sender<()>>,
    draining: bool,
}

impl Taker {
    /// A worker with this number on its node.
    pub(crate) fn new(
        (link, keeper, ears): (Link, Keeper, Ears),
        plan: Plan,
        number: u64,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let woken = Arc::new(Notify::new());
        let take_lane = if let Some(owner) = &plan.owner {
            ears.wake_owner(&owner.queue, &owner.group, &woken);
            Lane::of_owner(&owner.queue, &owner.group, owner.token)
        } else {
            for queue in &plan.queues {
                ears.wake_for(queue, &woken);
            }
            Lane::new(link.lane(&format!("take{number}")))
        };
        Self {
            take_lane,
            settle_lane: Lane::new(link.lane(&format!("settle{number}"))),
            journal_lane: Lane::new(link.lane(&format!("journal{number}"))),
            journal: Journal::default(),
            incarnations: link.incarnations(),
            link,
            keeper,
            ears,
            plan,
            woken,
            events,
            sender,
            ends: Ends::default(),
            busy: 0,
            registration: None,
            behind: None,
            look: true,
            looked: Instant::now(),
            rests: None,
            turn: 0,
            orders,
            owned: true,
            drains: Vec::new(),
            draining: false,
        }
    }

    /// Where its executions say what becomes of them.
    pub(crate) fn events(&self) -> mpsc::UnboundedSender<Event> {
        self.sender.clone()
    }

    /// Works until its owner is gone and nothing runs any more.
    pub(crate) async fn run(mut self) {
        loop {
            while let Ok(event) = self.events.try_recv() {
                self.note(event);
            }
            // After the events: a slot that was freed after an order to take no more takes no more.
            self.heed_orders();
            let now = Instant::now();
            if self.incarnations.has_changed() {
                self.behind = Some((now, now));
            }
            if let Some((since, _)) = self.behind.filter(|(_, next)| *next <= now) {
                let again = !self.repeat().await && since.elapsed() < REPEATS;
                self.behind = again.then(|| (since, Instant::now() + PAUSE));
                continue;
            }
            if self.plan.owner.as_ref().is_some_and(|owner| !(owner.lasts)()) {
                self.is_over();
            }
            let free = self.plan.slots.saturating_sub(self.busy.saturating_add(self.ends.slots()));
            let takes = !self.draining && self.look && free > 0 && self.rests.is_none();
            // A registration that nobody will use is taken back.
            let leaves = self.draining && self.registration.is_some() && self.rests.is_none();
            // An owner whose slot is taken says that it is there.
            let keeps_up = self.plan.owner.is_some() && !self.draining && self.rests.is_none();
            let stays = keeps_up && self.looked.elapsed() >= UPKEEP;
            if takes || leaves || stays || self.ends.are_due(now) {
                self.call(takes, leaves || stays, free).await;
                continue;
            }
            if self.draining && self.busy == 0 && self.ends.slots() == 0 {
                for drained in self.drains.drain(..) {
                    let _ = drained.send(());
                }
                if !self.owned {
                    break;
                }
            }
            let idles = self.plan.owner.is_none() && !self.draining && free > 0 && self.rests.is_none();
            let upkeep = self.looked + if idles { IDLE } else { UPKEEP };
            let until = async |at: Option<Instant>| match at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            };
            let again = self.ends.next().into_iter().chain(self.behind.map(|(_, next)| next)).min();
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.note(event),
                order = self.orders.recv(), if self.owned => self.heed(order),
                () = self.woken.notified() => self.look = true,
                // The loop looks at incarnations and ends above.
                () = self.incarnations.changed() => {}
                () = until(again) => {}
                () = until(self.rests) => self.rests = None,
                () = tokio::time::sleep_until(upkeep), if keeps_up || idles => self.look = true,
            }
        }
        match &self.plan.owner {
            Some(owner) => self.ears.forget_owner(&owner.queue, &owner.group, &self.woken),
            None => self.ears.forget(&self.woken),
        }
    }

    /// It takes no more: its right to the group is over, its node is closed, or its runtime is gone.
    fn is_over(&mut self) {
        self.draining = true;
        if let Some(owner) = &self.plan.owner {
            owner.over.cancel();
        }
    }

    fn heed_orders(&mut self) {
        while self.owned {
            match self.orders.try_recv() {
                Ok(order) => self.heed(Some(order)),
                Err(mpsc::error::TryRecvError::Empty) => return,
                Err(mpsc::error::TryRecvError::Disconnected) => self.heed(None),
            }
        }
    }

    /// An order, or none when the owner is gone.
    fn heed(&mut self, order: Option<Order>) {
        self.draining = true;
        match order {
            Some(Order::Drain(done)) => self.drains.push(done),
            Some(Order::GiveBack(done)) => {
                // Nobody may wait for it any more.
                let _ = done.send(self.keeper.give_back(&self.sender));
            }
            None => self.owned = false,
        }
    }

    fn note(&mut self, event: Event) {
        if !matches!(event, Event::Ended(_)) {
            self.busy = self.busy.saturating_sub(1);
            self.link.metrics().leaves();
        }
        if matches!(event, Event::Stranded(_)) && !self.draining {
            tracing::warn!(node = %self.link.node(), "the runtime of a worker is gone, it takes no more jobs");
            self.is_over();
        }
        if let Event::Ended(end) | Event::Left(end) | Event::Stranded(end) = event {
            self.keeper.forget(&end.execution.id, end.execution.token);
            self.ends.push(end);
        }
    }

    /// The data were lost, or went back: the data learn the latest ends before other nodes take the jobs. Returns false
    /// where damaged data refuse ends. Ends behind a refused page are said all the same.
    async fn repeat(&mut self) -> bool {
        let inc = self.incarnations.see();
        if self.link.is_broken(Breakage::NoJournal) {
            return true;
        }
        let mut is_known = true;
        for page in self.journal.unknown_in(inc) {
            let (executions, ends) = page.ends.clone();
            let ends = SettleJobs(self.journal_lane.clone(), ends);
            let told = Told { known_in: Arc::default(), executions: AttestJobs(executions), ends };
            self.journal_lane.advance();
            match self.link.call(&told).await {
                // Another loss meanwhile is another change.
                Ok(_) => self.journal.knows(inc, &page),
                Err(error) => {
                    self.journal_lane.renew();
                    if self.link.may_warn("journal") {
                        tracing::warn!(error = &error as &dyn std::error::Error, "ends were not said again");
                    }
                    is_known = false;
                }
            }
        }
        is_known
    }

    /// Says what has ended and takes for free slots, in one round trip.
    async fn call(&mut self, takes: bool, leaves: bool, free: u32) {
        let said = self.ends.next_call(Instant::now());
        let of = |end: &End| (end.execution.clone(), Some(needs_its_job(&end.settle)));
        let step = SettleJobs(self.settle_lane.clone(), said.ends.iter().map(settling).collect());
        let settle = In(Behind { executions: said.ends.iter().map(of).collect(), step });
        let sent = clock::now();
        if takes || leaves {
            self.looked = Instant::now();
        }
        let taking = (takes || leaves).then(|| self.taking(if takes { free.min(MOST as u32) } else { 0 }));
        let take = taking.map(|taking| In(TakeJobs(self.take_lane.clone(), taking)));
        let settles = async {
            if said.ends.is_empty() {
                return Ok((Incarnation(0), Vec::new()));
            }
            self.link.call(&settle).await
        };
        let takes = async {
            match &take {
                Some(take) => self.link.call(take).await.map(Some),
                None => Ok(None),
            }
        };
        let (settled, taken) = tokio::join!(settles, takes);
        if !said.ends.is_empty() {
            self.settle_lane.advance();
            self.settled(&said, settled);
        }
        if let Some(In(TakeJobs(_, taking))) = take {
            self.take_lane.advance();
            self.taken(&taking, taken, sent);
        }
    }

    fn taking(&mut self, want: u32) -> Taking {
        let queues = &self.plan.queues;
        self.turn = (self.turn + 1) % queues.len().max(1);
        let order = queues[self.turn..].iter().chain(&queues[..self.turn]);
        Taking {
            node: self.link.node().clone(),
            registration: self.registration.take(),
            want,
            slots: want,
            until: None,
            queues: order.map(|queue| (queue.clone(), want)).collect(),
            group: self.plan.owner.as_ref().map(|owner| owner.group.clone()),
        }
    }

    fn settled(&mut self, said: &Said, replies: Result<(Incarnation, Vec<SettleReply>), Error>) {
        let (inc, replies) = match replies {
            Ok(answer) => answer,
            // Only this worker uses the lane: a late call means damaged data. Nothing was done, and the ends go once
            // more.
            Err(Error::Store(StoreError::Late)) => {
                self.settle_lane.renew();
                return self.ends.put_back(said);
            }
            Err(error) => {
                let damaged = matches!(error, Error::Store(StoreError::Damaged(_)));
                // Where the worker repeats no ends, the leases run out, and the jobs run again.
                let again = damaged && self.ends.refuse(said, Instant::now());
                if self.link.may_warn("settle") {
                    tracing::warn!(
                        jobs = said.ends.len(),
                        again,
                        error = &error as &dyn std::error::Error,
                        "ends were not said"
                    );
                }
                return;
            }
        };
        self.journal.note(inc, &said.ends, &replies);
        for (end, reply) in said.ends.iter().zip(replies) {
            let Execution { id, token, .. } = &*end.execution;
            self.link.metrics().ends(&end.execution.record.queue, reply, end.execution.age());
            match reply {
                SettleReply::Halt => tracing::debug!(job = %id, %token, "the end comes too late"),
                SettleReply::NoQueue | SettleReply::NoGroup | SettleReply::Bad
                    if !matches!(end.settle, Settle::Fail(..)) =>
                {
                    tracing::warn!(job = %id, "the job cannot go on as its handler says, it fails");
                    let why = if reply == SettleReply::NoGroup {
                        "its handler named a pinned queue, and it has no group"
                    } else {
                        "its handler named a queue that does not exist, or another argument that is none"
                    };
                    let settle = Settle::Fail(why.into(), Data::Keep);
                    self.ends.push(End { execution: end.execution.clone(), settle });
                }
                SettleReply::Pending | SettleReply::Delayed
                    if matches!(end.settle, Settle::Wait(..)) && self.link.may_warn("wait") =>
                {
                    tracing::warn!(job = %id, "the job waits again, and no child is open or has ended: an attempt has failed");
                }
                reply => tracing::trace!(job = %id, ?reply, "ended"),
            }
        }
    }

    fn taken(
        &mut self,
        taking: &Taking,
        reply: Result<Option<(Incarnation, TakeReply)>, Error>,
        sent: Instant,
    ) {
        match reply {
            Ok(Some((inc, TakeReply::Taken { jobs, registration, more }))) => {
                self.registration = registration;
                let full = jobs.len() >= taking.want as usize;
                self.look = more || full;
                // An order to take no more may have come while the call was on its way. Then its jobs are given back.
                self.heed_orders();
                for job in jobs {
                    self.begin(job, inc, sent);
                }
            }
            Ok(Some((_, TakeReply::Hold(ms)))) => self.rest(taking, Duration::from_millis(ms)),
            Ok(None) => {}
            Err(Error::Closed) => self.is_over(),
            Err(Error::Store(StoreError::Late)) if self.plan.owner.is_some() => {
                tracing::debug!("a later owner of the group takes its jobs");
                self.is_over();
            }
            Err(error) => {
                if matches!(error, Error::Store(StoreError::Late)) {
                    self.take_lane.renew();
                }
                if self.link.may_warn("take") {
                    tracing::warn!(error = &error as &dyn std::error::Error, "no jobs could be taken");
                }
                self.rest(taking, PAUSE);
            }
        }
    }

    /// Takes nothing for a while. Ends are said meanwhile.
    fn rest(&mut self, taking: &Taking, time: Duration) {
        self.look = true;
        self.registration.clone_from(&taking.registration);
        self.rests = Some(Instant::now() + time);
    }

    fn begin(&mut self, job: TakenJob, inc: Incarnation, sent: Instant) {
        self.link.see(job.record.token);
        let execution = Arc::new(Execution::new(job, inc, sent, self.sender.clone()));
        if self.draining {
            self.ends.push(End { execution, settle: Settle::GiveBack });
            return;
        }
        self.busy += 1;
        self.link.metrics().begins(&execution.record.queue);
        self.keeper.add(&execution);
        // Its data were lost while the answer was on its way.
        if inc != self.incarnations.latest() {
            self.keeper.renew_all();
        }
        (self.plan.runner)(execution);
    }
}

fn settling(end: &End) -> Settling {
    Settling::new(end.execution.id.clone(), end.execution.token, end.settle.clone())
}
