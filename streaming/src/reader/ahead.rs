//! Whether a cursor lies ahead of its stream: one that was begun anew with lower ids, or lost its end in a fail-over,
//! would be silent until its ids have caught up.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::shared::Shared;
use crate::{EntryId, Error};

/// Between two looks; there is another one after each failure.
pub(super) const EVERY: Duration = Duration::from_secs(5);

/// Looks from `due` on every so often, until a cursor is found to be ahead that was not told of before.
pub(super) async fn look(shared: Arc<Shared>, slot: u16, mut due: Instant) -> Error {
    loop {
        sleep_until(due).await;
        for (stream, cursor) in shared.cursors_in(slot).iter().filter(|(_, cursor)| is_of_an_entry(*cursor)) {
            if shared.is_told(stream, cursor) {
                continue;
            }
            match shared.last_id(stream).await {
                // A stream that never had an entry will give ids by the clock.
                Ok(Some(last)) if last < cursor && last != EntryId::MIN => {
                    if shared.tell(stream, cursor) {
                        return Error::CursorAhead { stream: stream.clone(), cursor, last };
                    }
                }
                Ok(_) => {}
                // The read says what is wrong, if anything is.
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(stream = &**stream, error, "not known whether the cursor is ahead");
                }
            }
        }
        due = Instant::now() + EVERY;
    }
}

/// A cursor in front of a time, which may lie in the future, ends with a number that no server counts to.
fn is_of_an_entry(cursor: EntryId) -> bool {
    cursor.seq != u64::MAX
}
