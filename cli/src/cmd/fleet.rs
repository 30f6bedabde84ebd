//! `tenure workers`, `nodes` and `ring`.

use clap::Args;
use tenure_pool::JobKey;

use super::Session;
use super::watch::Watch;
use crate::args::KeyArg;
use crate::exit::{Code, Failure};
use crate::out::List;
use crate::view::fleet::{Fleet, places};

/// List the workers: each has an entry in every shard
#[derive(Args, Debug)]
pub(crate) struct Workers {
    /// Workers of this node
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    #[command(flatten)]
    watch: Watch,
}

impl Workers {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let pool = session.place()?.inspector().await?;
        let Self { node, watch } = self;
        watch
            .run(session, async |session| {
                let rows = Fleet::read(&pool).await?.workers();
                let wanted =
                    rows.into_iter().filter(|row| node.as_ref().is_none_or(|node| row.node == *node));
                List::print(&mut session.out, wanted)?;
                Ok(Code::Done)
            })
            .await
    }
}

/// List the nodes that have workers
#[derive(Args, Debug)]
pub(crate) struct Nodes {
    #[command(flatten)]
    watch: Watch,
}

impl Nodes {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let pool = session.place()?.inspector().await?;
        self.watch
            .run(session, async |session| {
                List::print(&mut session.out, Fleet::read(&pool).await?.nodes())?;
                Ok(Code::Done)
            })
            .await
    }
}

/// Show the slots of the ring, or where a key belongs
#[derive(Args, Debug)]
pub(crate) struct Ring {
    /// The workers that are asked for this key in turn, the home first
    #[arg(long, value_parser = KeyArg)]
    key: Option<JobKey>,
    #[command(flatten)]
    watch: Watch,
}

impl Ring {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let pool = session.place()?.inspector().await?;
        let Self { key, watch } = self;
        watch
            .run(session, async |session| {
                let (rings, workers) = (pool.rings().await?, pool.workers().await?);
                List::print(&mut session.out, places(&pool, &rings, &workers, key.as_ref())?)?;
                Ok(Code::Done)
            })
            .await
    }
}
