//! The signals that ask this process to end. A signal that was ignored at the start stays ignored: `nohup` ignores SIGHUP for
//! a program, and a script SIGINT and SIGQUIT for a program in the background.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::sync::OnceLock;
use std::task::Poll;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals whose inherited ignore stays.
const KEPT: [i32; 3] = [SIGHUP, SIGINT, SIGQUIT];

/// The signals that this process may hear. Ask before the process takes a signal for the first time.
pub(crate) fn heard(signals: impl IntoIterator<Item = i32>) -> impl Iterator<Item = i32> {
    /// The signals that the process ignored at the first call.
    static IGNORED: OnceLock<u64> = OnceLock::new();
    let ignored =
        *IGNORED.get_or_init(|| fs::read_to_string("/proc/self/status").map_or(0, |it| ignored_in(&it)));
    signals.into_iter().filter(move |signal| !KEPT.contains(signal) || ignored >> (signal - 1) & 1 == 0)
}

/// The mask of ignored signals in the text of `/proc/PID/status`.
fn ignored_in(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Some signals that ask to end.
pub(crate) struct Ends(Vec<Signal>);

impl Ends {
    /// Hears the signals from now on. Some may stay ignored.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn hear(signals: impl IntoIterator<Item = i32>) -> io::Result<Self> {
        heard(signals).map(|number| signal(SignalKind::from_raw(number))).collect::<io::Result<_>>().map(Self)
    }

    /// Waits for the next signal.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn next(&mut self) {
        poll_fn(|cx| {
            // All are asked, so that all wake this task.
            let heard = self.0.iter_mut().filter_map(|signal| signal.poll_recv(cx).is_ready().then_some(()));
            if heard.count() > 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Waits for Ctrl-C.
///
/// # Cancel safety
/// Safe.
pub(crate) async fn interrupt() {
    match Ends::hear([SIGINT]) {
        Ok(mut ends) => ends.next().await,
        // Nobody hears the signal, so it ends the process.
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_their_mask() {
        let status = "Name:\ttenure\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert_eq!(ignored_in(status), 1 << 12 | 1 << (SIGHUP - 1));
        assert_eq!(ignored_in("Name:\ttenure\n"), 0);
    }
}
