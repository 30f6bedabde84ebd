//! `tenure wait`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use tenure_pool::{Inspector, JobKey, JobState, Ticket};

use super::{Session, close, ticket};
use crate::args::{KeyArg, time};
use crate::exit::{Code, Failure};
use crate::out::shown;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Wait until a job has started, is gone, or has moved
#[derive(Args, Debug)]
pub(crate) struct Wait {
    /// The job's key
    #[arg(value_parser = KeyArg)]
    key: JobKey,
    /// The event to wait for
    #[arg(long = "for", value_enum, value_name = "WHAT", default_value_t)]
    what: What,
    /// The dispatch with this id of a caller. Else the one that the key has now
    #[arg(long)]
    id: Option<String>,
    /// How long to wait
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60s")]
    within: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum What {
    /// Its start has succeeded
    #[default]
    Started,
    /// There is no such job any more
    Gone,
    /// Another worker runs it than now
    Moved,
}

#[derive(Serialize)]
struct Answer {
    key: Option<String>,
    key64: Option<String>,
    outcome: &'static str,
}

impl Wait {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { key, what, id, within } = self;
        let place = session.place()?;
        let pool = place.inspector().await?;
        let wanted = match &id {
            Some(id) => ticket(&key, id)?,
            None => match pool.job(&key).await? {
                Some(job) => Ticket { key: key.clone(), id: job.id },
                None if what == What::Gone => return answer(session, &key, "gone"),
                None => return Err(absent(&key)),
            },
        };
        match what {
            What::Started => {
                let node = place.node().await?;
                let done = node.wait(&wanted).deadline(within).await;
                close(&node).await;
                done?;
                answer(session, &key, "started")
            }
            What::Gone | What::Moved => {
                let looks = until(&pool, &key, &wanted, what);
                let late = || {
                    let text = format!("{} has not {} in time", shown::key(&key), what.verb());
                    Failure::new(Code::Late, text)
                };
                let outcome = tokio::time::timeout(within, looks).await.map_err(|_| late())??;
                answer(session, &key, outcome)
            }
        }
    }
}

impl What {
    fn verb(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Gone => "ended",
            Self::Moved => "moved",
        }
    }
}

/// Looks until the job of this dispatch is gone, or runs under another token than at first.
async fn until(pool: &Inspector, key: &JobKey, ticket: &Ticket, what: What) -> Result<&'static str, Failure> {
    let mut first = None;
    loop {
        let job = pool.job(key).await?.filter(|job| job.id.is_same(&ticket.id));
        match (job, what) {
            (None, What::Gone) => return Ok("gone"),
            (None, _) => return Err(absent(key)),
            (Some(job), What::Moved) => {
                let (owner, token) = (job.owner, job.token);
                let (_, then) = *first.get_or_insert((owner, token));
                if token != then && job.state == JobState::Running {
                    return Ok("moved");
                }
            }
            (Some(_), _) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn absent(key: &JobKey) -> Failure {
    Failure::new(Code::NotFound, format!("no job has the key {}", shown::key(key)))
}

fn answer(session: &mut Session, key: &JobKey, outcome: &'static str) -> Result<Code, Failure> {
    let (text, key64) = shown::key_fields(key);
    let title = shown::key(key);
    let said = match outcome {
        "gone" => format!("{title} is gone"),
        outcome => format!("{title} has {outcome}"),
    };
    session.out.one(&Answer { key: text, key64, outcome }, said)?;
    Ok(Code::Done)
}
