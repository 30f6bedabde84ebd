//! Every scenario, one after the other.

use std::path::PathBuf;

use clap::Args;

use crate::options::Options;
use crate::report::Report;
use crate::{
    Error, ask, checkpoint, deploy, dispatch, failover, held, idle, jobs, machine, rebalance, requests,
    results, rmap, sequence, streaming,
};

#[derive(Args, Debug)]
pub(crate) struct Everything {
    #[command(flatten)]
    each: Options,
    /// The folder for the results.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results"))]
    folder: PathBuf,
}

pub(crate) async fn run(Everything { each, folder }: Everything) -> Result<(), Error> {
    let machine = machine::describe(&each)?;
    println!("{machine}\n");
    let mut reports = Vec::new();
    // Keeps the results so far if a later scenario fails.
    let mut add = |report: Report| {
        report.print(each.json);
        reports.push(report);
        results::write(&folder, &machine, &reports)
    };
    add(dispatch::run(each, dispatch::Part::default()).await?)?;
    add(requests::stop(each).await?)?;
    add(requests::notify(each).await?)?;
    add(Box::pin(ask::run(each)).await?)?;
    add(Box::pin(checkpoint::run(each)).await?)?;
    add(failover::run(each).await?)?;
    add(rebalance::run(each).await?)?;
    add(deploy::run(each).await?)?;
    add(Box::pin(idle::run(each)).await?)?;
    add(held::run(each).await?)?;
    add(rmap::run(each).await?)?;
    add(streaming::run(each).await?)?;
    add(sequence::run(each).await?)?;
    add(Box::pin(jobs::run(each)).await?)
}
