//! Detects a cursor ahead of its stream. A stream that was begun anew with lower ids, or lost its end in a fail-over,
//! would otherwise seem silent until its ids have caught up.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::shared::Shared;
use crate::{EntryId, Error};

/// The time between two looks. Each failure of a read causes another one.
pub(super) const EVERY: Duration = Duration::from_secs(5);

/// Looks at intervals, first at `due`. Returns the error for the first cursor that is ahead and not yet reported.
pub(super) async fn look(shared: Arc<Shared>, slot: u16, mut due: Instant) -> Error {
    loop {
        sleep_until(due).await;
        for (stream, cursor) in shared.cursors_in(slot).iter().filter(|(_, cursor)| is_of_an_entry(*cursor)) {
            if shared.is_told(stream, cursor) {
                continue;
            }
            match shared.last_id(stream).await {
                // A stream without any entry so far will assign ids by the clock.
                Ok(Some(last)) if last < cursor && last != EntryId::MIN => {
                    if shared.tell(stream, cursor) {
                        return Error::CursorAhead { stream: stream.clone(), cursor, last };
                    }
                }
                Ok(_) => {}
                // A persistent problem shows in the read.
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(stream = &**stream, error, "cannot tell whether the cursor is ahead");
                }
            }
        }
        due = Instant::now() + EVERY;
    }
}

/// Whether the cursor is an entry's id. A cursor made from a time, possibly a future one, ends with a number that no
/// server counts to.
fn is_of_an_entry(cursor: EntryId) -> bool {
    cursor.seq != u64::MAX
}
