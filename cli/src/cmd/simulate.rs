//! `tenure simulate`.

use clap::Args;

use super::Session;
use crate::args::{Named, number};
use crate::exit::{Code, Failure};
use crate::out::List;
use crate::view::moves::forecast;

/// Say which jobs would move if workers came or went. It changes nothing
#[derive(Args, Debug)]
pub(crate) struct Simulate {
    /// This many workers join
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = number(0..=u32::MAX))]
    add: u32,
    /// This worker drains, or all workers of this node
    #[arg(long, value_name = "NODE|WORKER")]
    remove: Vec<Named>,
    /// End with status 6 if more than this many percent of the jobs would move
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    max_moves: Option<f64>,
}

/// `5`, `5%` or `2.5 %`.
fn share(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    let share: f64 = number.parse().map_err(|_| "a share is a number of percent".to_owned())?;
    if (0.0..=100.0).contains(&share) {
        Ok(share)
    } else {
        Err("a share is from 0 to 100 percent".to_owned())
    }
}

impl Simulate {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { add, remove, max_moves } = self;
        let pool = session.place()?.inspector().await?;
        let workers = pool.workers().await?;
        for named in &remove {
            if !workers.iter().any(|worker| named.means(worker)) {
                return Err(Failure::new(Code::NotFound, format!("there is no {named}")));
            }
        }
        let goes = |worker: &tenure_pool::inspect::WorkerInfo| remove.iter().any(|named| named.means(worker));
        let forecast = forecast(&pool, &workers, goes, add).await?;
        let is_above = max_moves.is_some_and(|most| forecast.moves_percent > most);
        if session.out.format.is_data() {
            session.out.document(&forecast)?;
        } else {
            let (moves, jobs, share) = (forecast.moves, forecast.jobs, forecast.moves_percent);
            session.out.line(format!("{moves} of {jobs} jobs would move ({share:.1} %)"))?;
            List::print(&mut session.out, forecast.workers)?;
        }
        Ok(if is_above { Code::Finding } else { Code::Done })
    }
}
