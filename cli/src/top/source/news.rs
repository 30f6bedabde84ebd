//! The events for the screens: read beside the pictures, over reads that the server holds until there is an event.

use std::time::Duration;

use tenure_pool::Inspector;
use tenure_pool::event::{Event, EventCursor, EventPage};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// How many pages wait for a picture. While that many do, nothing is read.
const WAITING: usize = 8;
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// The events that no picture has yet.
pub(super) struct News {
    pages: mpsc::Receiver<EventPage>,
    /// All that was there at the beginning is read.
    has_begun: bool,
    /// Those that are read and not taken.
    events: Vec<Event>,
    dropped: u64,
}

impl News {
    /// Reads the events after this place, for as long as this lives.
    pub(super) fn after(place: EventCursor, pool: &Inspector) -> Self {
        let (to, pages) = mpsc::channel(WAITING);
        let mut follower = pool.follower(place);
        tokio::spawn(async move {
            let read = async {
                loop {
                    match follower.page().await {
                        // Nobody takes it: the screens are closed.
                        Ok(page) => drop(to.send(page).await),
                        // The pictures need the same server, and say so.
                        Err(_) => sleep(PAUSE).await,
                    }
                }
            };
            tokio::select! {
                () = read => {}
                () = to.closed() => {}
            }
        });
        Self { pages, has_begun: false, events: Vec::new(), dropped: 0 }
    }

    /// Reads what has come. The first call waits until all that was there is read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time: what was read stays here.
    pub(super) async fn hear(&mut self) {
        while !self.has_begun {
            let Some(page) = self.pages.recv().await else { return };
            self.has_begun = page.is_last;
            self.keep(page);
        }
        while let Ok(page) = self.pages.try_recv() {
            self.keep(page);
        }
    }

    /// The events, and how many are missing.
    pub(super) fn take(&mut self) -> (Vec<Event>, u64) {
        (std::mem::take(&mut self.events), std::mem::take(&mut self.dropped))
    }

    fn keep(&mut self, page: EventPage) {
        self.events.extend(page.events);
        self.dropped += page.dropped;
    }
}
