//! `tenure explain`.

use clap::Args;
use futures::StreamExt;
use serde_json::{Map, Value, json};
use tenure_pool::{Explanation, Inspector, JobKey, JobState, Verdict};

use super::watch::Watch;
use super::{Session, ticket};
use crate::args::KeyArg;
use crate::exit::{Code, Failure};
use crate::out::{Tone, shown, when};

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
            if let Some(remedy) = remedy(&seen) {
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
    let tone = match seen.verdict {
        Verdict::AtHome | Verdict::Cordoned | Verdict::PastHome { .. } => Tone::Good,
        Verdict::Parked
        | Verdict::OwnerLost
        | Verdict::OwnerSilent
        | Verdict::NoWorker
        | Verdict::NobodyLives { .. }
        | Verdict::AllCordoned
        | Verdict::Unreadable { .. } => Tone::Bad,
        _ => Tone::Warn,
    };
    let style = tone.style();
    match text.split_once('\n') {
        Some((first, rest)) => format!("{style}{first}{style:#}\n{rest}"),
        None => format!("{style}{text}{style:#}"),
    }
}

/// The remedy, for those who do not want to wait. None where nothing needs to be done.
fn remedy(seen: &Explanation) -> Option<String> {
    let key = shown::key(&seen.key);
    let node = seen.owner.as_ref().and_then(|owner| owner.node.as_deref()).unwrap_or("its node");
    Some(match &seen.verdict {
        Verdict::Paused => format!("`tenure resume {key}`, when it may run again"),
        Verdict::Parked => format!("mend the cause, then `tenure retry {key}`; or `tenure stop {key}`"),
        Verdict::BackOff => format!("mend the cause; `tenure retry {key}` does not wait for the pause"),
        Verdict::NoWorker => "start a node with a worker".to_owned(),
        Verdict::NobodyLives { .. } => {
            "start a node with a worker: those that are members are dead".to_owned()
        }
        Verdict::AllCordoned => "`tenure uncordon NODE`, or add a node".to_owned(),
        Verdict::NoRoom { .. } => {
            "add workers, or raise their capacity: `tenure workers` shows their jobs".to_owned()
        }
        Verdict::OnHold | Verdict::Moving { on_hold: true, .. } => {
            "`tenure unhold`, when the incident is over".to_owned()
        }
        Verdict::NotBegun | Verdict::PassedOver { .. } => {
            format!(
                "look at the log of the worker that passes it over; `tenure bounce {key}` asks the next one"
            )
        }
        Verdict::OwnerSilent => format!("look at the process of {node}: it is dead, hangs, or is cut off"),
        Verdict::Stopping => {
            format!("if this lasts, restart the process of {node}: its handler does not end")
        }
        Verdict::Starting => format!("if this lasts, `tenure bounce {key}` starts it on another worker"),
        Verdict::PastHome { .. } => format!("`tenure bounce --home {key}`, if it is to go home"),
        Verdict::Unreadable { newer: Some(_) } => {
            "upgrade this command: a newer node wrote the record".to_owned()
        }
        Verdict::Unreadable { newer: None } => {
            "see the section on repairs by hand in docs/protocol/recovery.md".to_owned()
        }
        _ => return None,
    })
}

/// The document: lengths of time end in `_ms`, points in time are RFC 3339.
pub(crate) fn fields(seen: &Explanation) -> Value {
    let (key, key64) = shown::key_fields(&seen.key);
    let mut fields = serde_json::to_value(seen).unwrap_or_default();
    if let Value::Object(all) = &mut fields {
        for name in ["lasting", "due", "age"] {
            rename(all, name);
        }
        for (inner, name) in [("owner", "renewed"), ("checkpoint", "age")] {
            if let Some(Value::Object(inner)) = all.get_mut(inner) {
                rename(inner, name);
            }
        }
        all.insert("accepted".into(), json!(seen.accepted.map(when::stamp)));
        all.insert("key".into(), json!(key));
        all.insert("key64".into(), json!(key64));
        all.insert("why".into(), json!(seen.why.map(|why| why.cause)));
        all.insert("former_worker".into(), json!(seen.why.and_then(|why| why.former)));
        all.insert("text".into(), json!(seen.to_string()));
        all.insert("remedy".into(), json!(remedy(seen)));
        if seen.paused.is_some() {
            all.insert("state".into(), json!("paused"));
        }
    }
    fields
}

fn rename(fields: &mut Map<String, Value>, name: &str) {
    if let Some(value) = fields.remove(name) {
        fields.insert(format!("{name}_ms"), value);
    }
}
