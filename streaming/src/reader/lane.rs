//! A sequence of blocking reads of one slot's streams.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use redis::Cmd;
use tenure_connection::{Backoff, Blocking};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::shared::Shared;
use super::taking::{self, Item};
use super::{Settings, ahead};
use crate::lanes::rest;
use crate::start::milliseconds;
use crate::{Cursors, Error, reply};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

pub(super) struct Lane {
    blocking: Blocking,
    shared: Arc<Shared>,
    changes: watch::Receiver<()>,
    backoff: Backoff,
    /// Continues from round to round: a read may be quicker than a look.
    looking: Option<BoxFuture<'static, Error>>,
}

impl Lane {
    pub(super) fn new(blocking: Blocking, shared: &Arc<Shared>) -> Self {
        Self {
            blocking,
            shared: shared.clone(),
            changes: shared.watch(),
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            looking: None,
        }
    }

    /// A single read, which moves no cursor. It brings nothing after `block` without entries, or when a change
    /// interrupts it. After a failure the next round first waits a little, so that a caller may simply loop.
    pub(super) async fn round(
        mut self,
        slot: u16,
        settings: Settings,
        block: Duration,
    ) -> (Self, Result<Vec<Item>, Error>) {
        let Self { blocking, shared, changes, backoff, looking } = &mut self;
        // Marked before the cursors are read, so that no change is missed.
        changes.mark_unchanged();
        let cursors = shared.cursors_in(slot);
        let look = |due| ahead::look(shared.clone(), slot, due).boxed();
        let work = async {
            rest(backoff).await;
            read(blocking, &cursors, &settings, block).await
        };
        let result = tokio::select! {
            biased;
            _ = changes.changed() => Ok(Vec::new()),
            error = looking.get_or_insert_with(|| look(Instant::now() + ahead::EVERY)) => {
                // There may be more such cursors.
                *looking = Some(look(Instant::now()));
                Err(error)
            }
            result = work => {
                if result.is_ok() {
                    backoff.reset();
                } else {
                    backoff.fail();
                    *looking = Some(look(Instant::now()));
                }
                result
            }
        };
        (self, result)
    }
}

async fn read(
    blocking: &mut Blocking,
    cursors: &Cursors,
    settings: &Settings,
    block: Duration,
) -> Result<Vec<Item>, Error> {
    if cursors.is_empty() {
        // Waits until a new stream interrupts this.
        let _ = timeout(block, std::future::pending::<()>()).await;
        return Ok(Vec::new());
    }
    let reply = blocking.command(&command(cursors, settings.count, block), block).await?;
    let find = |name: &[u8]| cursors.find(name).map(|(stream, _)| stream.clone());
    let mut items = Vec::new();
    for (stream, entries) in reply::streams(reply, find)? {
        let from = cursors.get(&stream).unwrap_or_default();
        taking::items(&stream, from, entries, &settings.filters, &mut items);
    }
    Ok(items)
}

fn command(cursors: &Cursors, count: u64, block: Duration) -> Cmd {
    let mut command = redis::cmd("XREAD");
    command.arg("COUNT").arg(count);
    if !block.is_zero() {
        // Zero would mean for ever.
        command.arg("BLOCK").arg(milliseconds(block));
    }
    command.arg("STREAMS");
    for (stream, _) in cursors.iter() {
        command.arg(&**stream);
    }
    for (_, after) in cursors.iter() {
        command.arg(after.to_string());
    }
    command
}
