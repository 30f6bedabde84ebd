//! The task that looks where no worker does: at the start, after a check, when the source has something new, and after it
//! has failed.

use std::sync::Arc;
use std::time::Duration;

use tenure_connection::Backoff;
use tokio::time::{sleep, sleep_until};

use crate::consumer::engine::{Called, Engine, called};
use crate::consumer::handler::Handler;
use crate::core::Ended;
use crate::error::Error;
use crate::source::Source;

/// The pauses after looks that failed.
pub(crate) const FAILED: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// The least of them, which a check does not shorten.
const FAILED_LEAST: Duration = Duration::from_millis(50);
/// The pauses after news of the source that brought nothing.
const IDLE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

impl<S, P, H> Engine<S, P, H>
where
    S: Source,
    P: Send + Sync + 'static,
    H: Handler<S::Job>,
{
    pub(crate) async fn scout(self: Arc<Self>) {
        if let Called::Panicked(text) = called(self.scout_on()).await {
            self.shared.fail(Error::Panicked { who: "the source", text });
        }
    }

    async fn scout_on(self: &Arc<Self>) {
        let shared = &self.shared;
        let mut idle = Backoff::new(IDLE.0, IDLE.1);
        // The highest index that had begun when the source last told of something new.
        let mut told_at = None;
        loop {
            // A check may have woken it.
            let rest = {
                let state = shared.lock();
                if state.core.is_due() { state.failed_at.map(|at| at + FAILED_LEAST) } else { None }
            };
            if let Some(rest) = rest {
                tokio::select! {
                    biased;
                    () = shared.stopping.cancelled() => return,
                    () = sleep_until(rest) => {}
                }
            }
            let look = shared.lock().core.look();
            if let Some(look) = look {
                self.look(look, false).await;
            }
            let (rests, begun, pause) = {
                let mut state = shared.lock();
                let rests = state.core.rests();
                state.scout_watches = matches!(rests, Some(Ended::Missing(_) | Ended::Failed));
                (rests, state.core.begun(), state.look_pauses.pause())
            };
            if told_at.take().is_some_and(|told_at| told_at == begun) {
                idle.fail();
            } else {
                idle.reset();
            }
            let news = async {
                match rests {
                    Some(Ended::Missing(next)) => {
                        idle.wait().await;
                        self.source.changed(next - 1).await;
                        told_at = Some(begun);
                    }
                    Some(Ended::Failed) => sleep(pause).await,
                    Some(Ended::Full) | None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = shared.stopping.cancelled() => return,
                () = shared.scout.notified() => {}
                () = news => shared.lock().core.want(),
            }
            shared.lock().scout_watches = false;
        }
    }
}
