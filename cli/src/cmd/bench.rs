//! `tenure bench`: a load on a pool of its own, which it makes and ends.

use std::time::{Duration, Instant};

use clap::Args;
use futures::{StreamExt, stream};
use redis::cmd;
use serde::Serialize;
use tenure_pool::{Client, Error, Inspector, Job, JobSpec, Node, Settings};

use super::Session;
use crate::args::number;
use crate::connect::client;
use crate::exit::{Code, Failure};
use crate::out::progress::Progress;
use crate::out::{Cell, Column, List, Row};
use crate::signals;

/// How long the pool of the load may take to end.
const ENDING: Duration = Duration::from_secs(60);
/// How long one job may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Put a load on the server, through a pool that is made for it and ended after it
///
/// Everything runs in this process: the dispatcher, the routers and the workers. So the figures are those of one
/// machine, and a floor for several.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// How many jobs
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = number(1..=u32::MAX))]
    jobs: u32,
    /// How many workers
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = number(1..=u32::MAX))]
    workers: u32,
    /// How many jobs are under way at a time
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = number(1..=usize::MAX))]
    in_flight: usize,
    /// The length of each payload
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = number(0..=512_usize << 10))]
    payload: usize,
}

/// The figures of a phase.
#[derive(Debug, Serialize)]
struct Measured {
    phase: &'static str,
    count: usize,
    seconds: f64,
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// The processor time of the server for each.
    server_us: f64,
}

impl Row for Measured {
    const KIND: &'static str = "phases";
    const COLUMNS: &'static [Column] = &[
        Column::new("PHASE"),
        Column::new("COUNT").right(),
        Column::new("TIME").right(),
        Column::new("PER SECOND").right(),
        Column::new("P50").right(),
        Column::new("P99").right(),
        Column::new("MAX").right(),
        Column::new("SERVER EACH").right(),
    ];

    fn cells(&self, _: bool) -> Vec<Cell> {
        let ms = |ms: f64| Cell::new(format!("{ms:.2} ms"));
        vec![
            Cell::new(self.phase),
            Cell::of(self.count),
            Cell::new(format!("{:.2} s", self.seconds)),
            Cell::new(format!("{:.0}", self.per_second)),
            ms(self.p50_ms),
            ms(self.p99_ms),
            ms(self.max_ms),
            Cell::new(format!("{:.1} µs", self.server_us)),
        ]
    }

    fn name(&self) -> String {
        self.phase.to_owned()
    }
}

impl Bench {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let client = client(&session.global)?;
        let pool = format!("tenure-bench-{}", std::process::id());
        match Inspector::open(&pool, &client).await {
            Err(Error::NoPool { .. } | Error::PoolClosed) => {}
            Ok(_) => {
                let text = format!("there is a pool {pool}: end it with `tenure shutdown --pool {pool}`");
                return Err(Failure::new(Code::Refused, text));
            }
            Err(error) => return Err(error.into()),
        }
        let settings = {
            let mut settings = Settings::default();
            settings.max_queued = u64::from(self.jobs).max(settings.max_queued);
            settings.join_settle = Duration::ZERO;
            settings
        };
        // Nobody has had a pool of this name, so nobody has to be waited for.
        let builder = Node::builder(&pool, &client).name("bench").settings(settings).assume_fresh(true);
        let node = builder.join().await?;
        let measured = tokio::select! {
            measured = self.measure(&node, &client) => measured,
            () = signals::interrupt() => Err(Failure::new(Code::Interrupted, "interrupted")),
        };
        let report = node.operate().shutdown().drop_queued().within(ENDING).await;
        List::print(&mut session.out, measured?)?;
        if report?.complete {
            return Ok(Code::Done);
        }
        Err(Failure::new(Code::Late, format!("the pool {pool} has not ended in time; it goes on ending")))
    }

    async fn measure(&self, node: &Node, client: &Client) -> Result<Vec<Measured>, Failure> {
        for _ in 0..self.workers {
            let worker = node.add_worker(tenure_pool::run(|job: Job| async move {
                job.cancelled().await;
                Ok::<(), tenure_pool::BoxError>(())
            }));
            let worker = worker.await?;
            while worker.info().is_none_or(|info| info.slot.is_none()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        let key = |n: u32| format!("bench-{n}");
        let payload = vec![b'x'; self.payload];
        let dispatch = async |n| {
            let job = JobSpec::new(key(n), payload.clone());
            node.dispatch(job).deadline(PATIENCE).await.map_err(Failure::from)
        };
        let notify = async |n| node.notify(key(n), &b"note"[..]).await.map_err(Failure::from);
        let stop =
            async |n| node.stop_job(key(n)).until_stopped().deadline(PATIENCE).await.map_err(Failure::from);
        Ok(vec![
            self.phase("dispatch", client, dispatch).await?,
            self.phase("notify", client, notify).await?,
            self.phase("stop", client, stop).await?,
        ])
    }

    /// Acts on each job, on as many at a time as are wanted.
    async fn phase(
        &self,
        phase: &'static str,
        client: &Client,
        act: impl AsyncFn(u32) -> Result<(), Failure>,
    ) -> Result<Measured, Failure> {
        let (jobs, act) = (self.jobs, &act);
        let before = processor_time(client).await;
        let from = Instant::now();
        let acts = (0..jobs).map(|n| async move {
            let from = Instant::now();
            act(n).await.map(|()| from.elapsed())
        });
        let mut acts = stream::iter(acts).buffer_unordered(self.in_flight);
        let mut times = Vec::with_capacity(jobs as usize);
        let mut progress = Progress::new();
        while let Some(time) = acts.next().await {
            times.push(time?);
            progress.show(|| format!("{phase}: {} of {jobs}", times.len()));
        }
        let seconds = from.elapsed().as_secs_f64();
        let used = processor_time(client).await - before;
        times.sort_unstable();
        let count = times.len();
        let at = |share: usize| ms(times[(count * share / 100).min(count - 1)]);
        #[allow(clippy::cast_precision_loss, reason = "counts of jobs are far below 2^52")]
        let each = count as f64;
        Ok(Measured {
            phase,
            count,
            seconds,
            per_second: each / seconds,
            p50_ms: at(50),
            p99_ms: at(99),
            max_ms: at(100),
            server_us: (used / each * 1_000_000.0).max(0.0),
        })
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// The processor time of the server so far, in seconds. 0 where it does not say.
async fn processor_time(client: &Client) -> f64 {
    let mut info = cmd("INFO");
    info.arg("cpu");
    let Ok(answer) = client.commands().command_at(b"tenure", &info).await else { return 0.0 };
    let text: String = redis::from_redis_value(answer).unwrap_or_default();
    let of = |name: &str| {
        let value = text.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.parse::<f64>().ok()).unwrap_or_default()
    };
    of("used_cpu_sys") + of("used_cpu_user")
}
