//! A worker: jobs begin in its slots, and what became of them is said. Both go in one round trip, and what ends while
//! a call is on its way is the next call.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use super::hearer::Ears;
use super::keeper::{Event, Execution, Keeper};
use super::link::Link;
use crate::error::Error;
use crate::model::id::QueueName;
use crate::store::{Lane, MOST, Settle, SettleReply, Settling, TakeReply, TakenJob, Taking};

/// The pause after a call that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs a job. It is given the execution, and must call its `leave` or `free` when the handler is gone.
pub(crate) type Runner = Arc<dyn Fn(Arc<Execution>, TakenJob) + Send + Sync>;

/// The settings of a worker.
pub(crate) struct Plan {
    pub(crate) queues: Vec<QueueName>,
    pub(crate) slots: u32,
    /// The whole time of an execution, and the time between its heartbeats, by queue.
    pub(crate) times: HashMap<QueueName, (Option<Duration>, Option<Duration>)>,
    pub(crate) runner: Runner,
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
    woken: Arc<Notify>,
    events: mpsc::UnboundedReceiver<Event>,
    sender: mpsc::UnboundedSender<Event>,
    /// Ends that the store does not know yet.
    ends: VecDeque<Settling>,
    busy: u32,
    registration: Option<Box<str>>,
    /// There may be jobs to take.
    look: bool,
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
        for queue in &plan.queues {
            ears.wake_for(queue, &woken);
        }
        Self {
            take_lane: Lane::new(link.lane(&format!("take{number}"))),
            settle_lane: Lane::new(link.lane(&format!("settle{number}"))),
            link,
            keeper,
            ears,
            plan,
            woken,
            events,
            sender,
            ends: VecDeque::new(),
            busy: 0,
            registration: None,
            look: true,
            rests: None,
            turn: 0,
            orders,
            owned: true,
            drains: Vec::new(),
            draining: false,
        }
    }

    /// Works until its owner is gone and nothing runs any more.
    pub(crate) async fn run(mut self) {
        loop {
            while let Ok(event) = self.events.try_recv() {
                self.note(event);
            }
            // After the events: a slot that was freed after an order to take no more takes no more.
            self.heed_orders();
            let free = self.plan.slots.saturating_sub(self.busy);
            let takes = !self.draining && self.look && free > 0 && self.rests.is_none();
            // A registration that nobody will use is taken back.
            let leaves = self.draining && self.registration.is_some() && self.rests.is_none();
            if takes || leaves || !self.ends.is_empty() {
                self.call(takes, leaves, free).await;
                continue;
            }
            if self.draining && self.busy == 0 {
                for drained in self.drains.drain(..) {
                    let _ = drained.send(());
                }
                if !self.owned {
                    break;
                }
            }
            let rested = async {
                match self.rests {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.note(event),
                order = self.orders.recv(), if self.owned => self.heed(order),
                () = self.woken.notified() => self.look = true,
                () = rested => self.rests = None,
            }
        }
        self.ears.forget(&self.woken);
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
        }
        if let Event::Ended(settling) | Event::Left(settling) = event {
            self.keeper.forget(&settling.id, settling.token);
            self.ends.push_back(settling);
        }
    }

    /// Says what has ended and takes for free slots, in one round trip.
    async fn call(&mut self, takes: bool, leaves: bool, free: u32) {
        let count = self.ends.len().min(MOST);
        let ends: Arc<[Settling]> = self.ends.iter().take(count).cloned().collect();
        let settles = {
            let (link, lane) = (self.link.clone(), self.settle_lane.clone());
            let ends = ends.clone();
            async move {
                if ends.is_empty() {
                    return Ok(Vec::new());
                }
                link.call(move |store, inc| {
                    let (lane, ends) = (lane.clone(), ends.clone());
                    async move { store.settle(inc, &lane, &ends).await }.boxed()
                })
                .await
            }
        };
        let sent = Instant::now();
        let taking =
            (takes || leaves).then(|| Arc::new(self.taking(if takes { free.min(MOST as u32) } else { 0 })));
        let take = {
            let (link, lane, taking) = (self.link.clone(), self.take_lane.clone(), taking.clone());
            async move {
                let Some(taking) = taking else { return Ok(None) };
                link.call(move |store, inc| {
                    let (lane, taking) = (lane.clone(), taking.clone());
                    async move { store.take(inc, &lane, &taking).await }.boxed()
                })
                .await
                .map(Some)
            }
        };
        let (settled, taken) = tokio::join!(settles, take);
        if count > 0 {
            self.settle_lane.advance();
            self.ends.drain(..count);
            self.settled(&ends, settled);
        }
        if let Some(taking) = taking {
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
        }
    }

    fn settled(&mut self, ends: &[Settling], replies: Result<Vec<SettleReply>, Error>) {
        let replies = match replies {
            Ok(replies) => replies,
            Err(error) => {
                // Their leases end, and the jobs run again.
                tracing::warn!(
                    jobs = ends.len(),
                    error = &error as &dyn std::error::Error,
                    "ends were not said"
                );
                return;
            }
        };
        for (end, reply) in ends.iter().zip(replies) {
            match reply {
                SettleReply::Halt => {
                    tracing::debug!(job = %end.id, token = %end.token, "the end comes too late");
                }
                SettleReply::NoQueue | SettleReply::Bad if !matches!(end.settle, Settle::Fail(..)) => {
                    tracing::warn!(job = %end.id, "the job cannot go on as its handler says, it fails");
                    let why =
                        "its handler named a queue that does not exist, or another argument that is none";
                    self.ends.push_back(Settling::new(
                        end.id.clone(),
                        end.token,
                        Settle::Fail(why.into(), crate::store::Data::Keep),
                    ));
                }
                reply => tracing::trace!(job = %end.id, ?reply, "ended"),
            }
        }
    }

    fn taken(&mut self, taking: &Taking, reply: Result<Option<TakeReply>, Error>, sent: Instant) {
        match reply {
            Ok(Some(TakeReply::Taken { jobs, registration, more })) => {
                self.registration = registration;
                let full = jobs.len() >= taking.want as usize;
                self.look = more || full;
                // Who was told to take no more while the call was on its way gives back what it brings.
                self.heed_orders();
                for job in jobs {
                    if self.draining {
                        self.link.see(job.record.token);
                        self.ends.push_back(Settling::new(job.id, job.record.token, Settle::GiveBack));
                    } else {
                        self.begin(job, sent);
                    }
                }
            }
            Ok(Some(TakeReply::Hold(ms))) => self.rest(taking, Duration::from_millis(ms)),
            Ok(None) => {}
            Err(Error::Closed) => self.draining = true,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "no jobs could be taken");
                self.rest(taking, PAUSE);
            }
        }
    }

    /// Takes nothing for a while. What has ended is said meanwhile.
    fn rest(&mut self, taking: &Taking, time: Duration) {
        self.look = true;
        self.registration.clone_from(&taking.registration);
        self.rests = Some(Instant::now() + time);
    }

    fn begin(&mut self, job: TakenJob, sent: Instant) {
        self.link.see(job.record.token);
        self.busy += 1;
        let execution = Arc::new(Execution::new(
            (job.id.clone(), job.record.token),
            sent,
            Duration::from_millis(job.lease),
            self.plan.times.get(&job.record.queue).copied().unwrap_or_default(),
            self.sender.clone(),
        ));
        self.keeper.add(&execution);
        (self.plan.runner)(execution, job);
    }
}
