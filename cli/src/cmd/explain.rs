//! `tenure explain`.

use clap::Args;
use futures::StreamExt;
use tenure_pool::inspect::{Explanation, Verdict};
use tenure_pool::{Inspector, JobKey, JobState};

use super::watch::Watch;
use super::{Session, ticket};
use crate::args::KeyArg;
use crate::exit::{Code, Failure};
use crate::view::explain::{fields, tone};

/// Say where a job is, why, and how it goes on
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// The job's key
    #[arg(value_parser = KeyArg, required_unless_present = "any")]
    key: Option<JobKey>,
    /// The job that has waited for longest, in place of a key
    #[arg(long, conflicts_with = "key")]
    any: bool,
    /// The dispatch with this id of a caller: also says whether it has ended
    #[arg(long, requires = "key")]
    id: Option<String>,
    #[command(flatten)]
    watch: Watch,
}

impl Explain {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let pool = session.place()?.inspector().await?;
        self.watch.run(session, async |session| self.print(&pool, session).await).await
    }

    async fn print(&self, pool: &Inspector, session: &mut Session) -> Result<Code, Failure> {
        let key = match &self.key {
            Some(key) => key.clone(),
            None => oldest_waiting(pool).await?,
        };
        let seen = match &self.id {
            Some(id) => pool.explain_dispatch(&ticket(&key, id)?).await?,
            None => pool.explain(&key).await?,
        };
        if session.out.format.is_data() {
            session.out.document(&fields(&seen))?;
        } else {
            let text = styled(&seen, session.out.colour);
            session.out.line(text)?;
            if let Some(remedy) = seen.remedy() {
                session.out.line(format!("  to do: {remedy}"))?;
            }
        }
        let is_absent = matches!(seen.verdict, Verdict::Absent | Verdict::Ended { .. });
        Ok(if is_absent { Code::NotFound } else { Code::Done })
    }
}

/// The key of the job that was accepted first, of all that wait.
async fn oldest_waiting(pool: &Inspector) -> Result<JobKey, Failure> {
    let mut oldest = None;
    let mut jobs = pool.job_stream();
    while let Some(job) = jobs.next().await {
        let job = job?;
        if job.state == JobState::Queued && oldest.as_ref().is_none_or(|(created, _)| job.created < *created)
        {
            oldest = Some((job.created, job.key));
        }
    }
    oldest.map(|(_, key)| key).ok_or_else(|| Failure::new(Code::NotFound, "no job waits"))
}

/// Its first line, which says it all, stands out.
fn styled(seen: &Explanation, colour: bool) -> String {
    let text = seen.to_string();
    if !colour {
        return text;
    }
    let style = tone(&seen.verdict).style();
    match text.split_once('\n') {
        Some((first, rest)) => format!("{style}{first}{style:#}\n{rest}"),
        None => format!("{style}{text}{style:#}"),
    }
}
