//! The events as they come, as a stream of server-sent events. All streams share one reader of the pool.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, timeout_at};

use super::App;
use super::ask::Params;
use super::log::Kept;
use super::problem::Problem;
use super::read::Shared;
use crate::view::events::Shown;

/// How many streams there are at once. Others are refused.
pub(super) const STREAMS: usize = 64;
/// How long a stream lives. Its reader then comes again, with the number of the last event.
const LIFE: Duration = Duration::from_secs(300);
/// How often a line says that the stream lives.
const SIGN: Duration = Duration::from_secs(15);
/// The most events of one piece.
const PIECE: usize = 256;

/// A stream.
struct Follower {
    app: Arc<App>,
    _permit: OwnedSemaphorePermit,
    kept: watch::Receiver<Kept>,
    end: Instant,
    /// The number of the next event to send. None before the first look.
    next: Option<u64>,
    /// The id of the last event that the follower had seen before it came.
    seen: Option<String>,
    /// The trouble was told.
    in_trouble: bool,
}

/// The number of an event, for as long as this process lives.
fn id(life: &str, number: u64) -> String {
    format!("{life}-{number}")
}

/// The event after the one of this id. None for one of another life.
fn after(life: &str, id: &str) -> Option<u64> {
    let (of, number) = id.rsplit_once('-')?;
    (of == life).then(|| number.parse::<u64>().ok()?.checked_add(1)).flatten()
}

impl Follower {
    /// The next piece of the stream. None at its end.
    async fn piece(&mut self) -> Option<Vec<Event>> {
        while Instant::now() < self.end {
            let piece = self.look();
            if !piece.is_empty() {
                return Some(piece);
            }
            timeout_at(self.end, self.kept.changed()).await.ok()?.ok()?;
        }
        None
    }

    /// All that is there to send.
    fn look(&mut self) -> Vec<Event> {
        let (kept, life) = (self.kept.borrow_and_update(), &self.app.life);
        match &kept.read {
            Some(Ok(())) => {}
            Some(Err(problem)) if !self.in_trouble => {
                self.in_trouble = true;
                return vec![Event::default().event("trouble").data(problem.document().to_string())];
            }
            Some(Err(_)) | None => return Vec::new(),
        }
        let mut piece = Vec::new();
        let last = kept.next().checked_sub(1).map(|last| id(life, last));
        let mut say = |kind: &str| {
            let said = Event::default().event(kind).data("{}");
            piece.push(match &last {
                Some(last) => said.id(last),
                None => said,
            });
        };
        let next = match self.next {
            Some(next) if next >= kept.first() => next,
            // It was too slow.
            Some(_) => {
                say("resync");
                kept.next()
            }
            None => match self.seen.take().map(|seen| after(life, &seen)) {
                Some(Some(next)) if next >= kept.first() && next <= kept.next() => next,
                Some(_) => {
                    say("resync");
                    kept.next()
                }
                None => {
                    say("ready");
                    kept.next()
                }
            },
        };
        if std::mem::take(&mut self.in_trouble) {
            say("fine");
        }
        self.next = Some(next);
        for (number, event) in kept.from(next).take(PIECE) {
            let data = serde_json::to_string(&Shown::from(event.clone())).unwrap_or_default();
            piece.push(Event::default().event("event").id(id(life, number)).data(data));
            self.next = Some(number + 1);
        }
        piece
    }
}

/// Follows the events.
pub(super) async fn follow(State(app): Shared, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    Params::of(&uri, &[])?;
    let full = || Problem::busy(format!("{STREAMS} streams are read already"));
    let permit = app.streams.clone().try_acquire_owned().map_err(|_| full())?;
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let end = Instant::now() + LIFE;
    let kept = app.log.look();
    let follower = Follower { app, _permit: permit, kept, end, next: None, seen, in_trouble: false };
    let pieces = stream::unfold(follower, |mut follower| async {
        let piece = follower.piece().await?;
        Some((stream::iter(piece.into_iter().map(Ok::<_, std::convert::Infallible>)), follower))
    });
    let events = Sse::new(futures::StreamExt::flatten(pieces)).keep_alive(KeepAlive::new().interval(SIGN));
    let mut response = events.into_response();
    // A proxy must not gather what it passes on.
    let buffering = HeaderName::from_static("x-accel-buffering");
    response.headers_mut().insert(buffering, HeaderValue::from_static("no"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_another_life_is_none() {
        assert_eq!(after("af", &id("af", 7)), Some(8));
        for other in ["ae-7", "af-", "af", "", "af-18446744073709551615", "af-x"] {
            assert_eq!(after("af", other), None, "{other}");
        }
    }
}
