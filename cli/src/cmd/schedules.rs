//! `tenure schedules`.

use clap::Args;

use super::Session;
use super::watch::Watch;
use crate::exit::{Code, Failure};
use crate::out::List;
use crate::view::schedules::Shown;

/// List the schedules and tickers
#[derive(Args, Debug)]
pub(crate) struct Schedules {
    #[command(flatten)]
    watch: Watch,
}

impl Schedules {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let pool = session.place()?.inspector().await?;
        self.watch
            .run(session, async |session| {
                List::print(&mut session.out, pool.schedules().await?.into_iter().map(Shown::from))?;
                Ok(Code::Done)
            })
            .await
    }
}
