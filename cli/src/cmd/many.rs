//! One act on each of many jobs, with one line of output for each.

use futures::StreamExt;
use tenure_pool::{Error, JobKey, Operator};

use super::Session;
use crate::act::{Change, Verb};
use crate::args::Target;
use crate::exit::{Code, Failure};
use crate::out::progress::Progress;
use crate::out::{List, Tone};
use crate::view::jobs::all_meant;
use crate::view::outcomes::Steered;

/// Acts on each of the jobs, for this person. A job that a filter has found and that has ended since is no failure.
///
/// # Errors
/// No job is named, nobody confirms, or the pool is not there. If the only job fails, its failure.
pub(crate) async fn each(
    session: &mut Session,
    target: Target,
    verb: Verb,
    by: Option<String>,
) -> Result<Code, Failure> {
    let Target { keys, which, steer } = target;
    let by_filter = keys.is_empty();
    if by_filter == which.is_empty() {
        return Err(Failure::usage("name the jobs: either by their keys, or by a filter such as --match"));
    }
    let pool = session.place()?.operator().await?;
    let keys = if by_filter {
        all_meant(pool.inspect(), &which).await?.into_iter().map(|job| job.key).collect()
    } else {
        keys
    };
    let count = keys.len();
    if steer.dry_run {
        let would = format!("would_{}", verb.word());
        List::print(&mut session.out, keys.iter().map(|key| Steered::new(key, &*would, Tone::Plain)))?;
        return Ok(Code::Done);
    }
    if by_filter && count > 0 {
        steer.confirm(&format!("{count} jobs are meant: {} them all?", verb.word()))?;
    }
    let change = Change { verb, by, within: session.global.timeout };
    // A pool that cannot be joined is one failure.
    pool.node().await?;
    let done = run(session, &pool, (keys, by_filter), &change).await;
    pool.close().await;
    done
}

async fn run(
    session: &mut Session,
    pool: &Operator,
    (keys, by_filter): (Vec<JobKey>, bool),
    change: &Change,
) -> Result<Code, Failure> {
    let count = keys.len();
    let mut acts = std::pin::pin!(change.each(pool, keys));
    let mut list = List::new(&mut session.out)?;
    let (mut ended, mut failed, mut progress) = (0, None, Progress::new());
    let mut failures = 0;
    while let Some((key, result)) = acts.next().await {
        ended += 1;
        progress.show(|| format!("{ended} of {count} jobs, {failures} failures"));
        match result {
            Ok(()) => list.row(&Steered::new(&key, change.verb.done(), Tone::Good))?,
            Err(Error::JobNotFound(_)) if by_filter => list.row(&Steered::new(&key, "gone", Tone::Dim))?,
            Err(error) => {
                failures += 1;
                list.row(&Steered::failed(&key, &error.to_string()))?;
                failed.get_or_insert(error);
            }
        }
    }
    drop(progress);
    list.end()?;
    match failed {
        None => Ok(Code::Done),
        Some(error) if count == 1 => Err(error.into()),
        Some(_) => Err(Failure::new(Code::SomeFailed, format!("{failures} of {count} jobs failed"))),
    }
}
