//! The state of a group.

use std::fmt;

/// Where a group stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    #[default]
    Nowhere,
    /// Among those whose turn may come.
    InLine,
    /// With a timer.
    Blocked,
}

/// The state of a group: `ready|running|tag|window|used|blocked|place|paused|limit|window_ms|concurrency|weight`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) ready: u64,
    pub(super) running: u64,
    pub(super) tag: u64,
    pub(super) window: u64,
    pub(super) used: u64,
    pub(super) blocked: u64,
    pub(super) place: Place,
    pub(super) paused: bool,
    pub(super) limit: Option<u64>,
    pub(super) window_ms: Option<u64>,
    pub(super) concurrency: Option<u64>,
    pub(super) weight: Option<u64>,
}

impl Group {
    /// How far a job moves the group back in line.
    pub(super) fn turn(&self) -> u64 {
        (100 / self.weight.unwrap_or(1).max(1)).max(1)
    }

    pub(super) fn has_own_settings(&self) -> bool {
        self.paused
            || self.limit.is_some()
            || self.window_ms.is_some()
            || self.concurrency.is_some()
            || self.weight.is_some()
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = |setting: Option<u64>| setting.map(|number| number.to_string()).unwrap_or_default();
        let place = match self.place {
            Place::Nowhere => '-',
            Place::InLine => 'q',
            Place::Blocked => 'b',
        };
        let Self { ready, running, tag, window, used, blocked, .. } = self;
        let paused = if self.paused { "p" } else { "" };
        write!(f, "{ready}|{running}|{tag}|{window}|{used}|{blocked}|{place}|{paused}|")?;
        let (limit, window_ms) = (own(self.limit), own(self.window_ms));
        write!(f, "{limit}|{window_ms}|{}|{}", own(self.concurrency), own(self.weight))
    }
}
