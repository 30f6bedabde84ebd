//! `tenure cordon` and `tenure uncordon`.

use clap::Args;

use super::{Session, nodes};
use crate::args::{Named, Steer};
use crate::exit::{Code, Failure};
use crate::view::outcomes::Marked;

/// The node whose cordon is set or lifted.
#[derive(Args, Debug)]
pub(crate) struct Cordon {
    /// The node, by its name or by one of its workers
    #[arg(value_name = "NODE|WORKER")]
    node: Named,
    #[command(flatten)]
    steer: Steer,
}

impl Cordon {
    /// Sets the cordon, or lifts it.
    pub(crate) async fn run(self, session: &mut Session, on: bool) -> Result<Code, Failure> {
        let Self { node, steer } = self;
        let pool = session.place()?.operator().await?;
        let workers = pool.inspect().workers().await?;
        let name = nodes::name_of(&node, &workers)?;
        let of_node = workers.iter().filter(|worker| worker.node == name).count();
        let answer = Marked { node: &name, cordoned: on, dry_run: steer.dry_run, workers: of_node };
        if !steer.dry_run {
            if on {
                pool.cordon(&name).await?;
            } else {
                pool.uncordon(&name).await?;
            }
            pool.close().await;
        }
        let would = if steer.dry_run { "would be" } else { "is" };
        let state = if on { "cordoned: it keeps its jobs and gets no other" } else { "not cordoned" };
        let with = format!("node {name} ({of_node} workers) {would} {state}");
        session.out.one(&answer, with)?;
        Ok(Code::Done)
    }
}
