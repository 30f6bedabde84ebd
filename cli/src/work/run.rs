//! One run of a job: from the start of its program until none of its processes is left.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tenure_pool::{BoxError, JobEnd, Start};
use tokio::time::{Instant, sleep, sleep_until};

use super::able::{Able, is_by_job};
use super::desk::{Desk, Talk};
use super::folder::Folder;
use super::launch::{End, Word};
use super::options::{Ready, StopTo, Work};
use super::starter::Started;
use crate::out::shown;

/// The exit status that says: not here, not now (`EX_TEMPFAIL`).
const TRY_AGAIN: i32 = 75;
/// The longest time that a program gets for its start by asking for more.
pub(super) const EXTENDED_MAX: Duration = Duration::from_secs(3_600);
const BROKEN: &str = "it has triggered its watchdog";

/// A run of a job.
pub(super) struct Run {
    pub(super) program: Started,
    pub(super) talk: Arc<Talk>,
    pub(super) work: Arc<Work>,
    pub(super) ttl: Duration,
    pub(super) able: Arc<Able>,
    /// They live as long as the processes.
    pub(super) _desk: Desk,
    pub(super) folder: Arc<Folder>,
}

/// How the start of a program came out.
enum Came {
    Ready,
    Ended(End),
    NotStarted(String),
    /// It says itself that it is broken.
    Broken,
    /// It took too long.
    Late,
    /// The job must end.
    Cancelled,
}

impl Run {
    /// Waits until the program is ready, and returns what the pool has to know. `runs` makes the job's future.
    pub(super) async fn start(mut self) -> Start {
        let (job, talk, limit) = (self.talk.job.clone(), self.talk.clone(), self.work.start.start_timeout);
        let watchdog = self.work.stop.watchdog;
        let came = tokio::select! {
            biased;
            () = job.cancelled() => Came::Cancelled,
            came = self.ready() => came,
            () = broken(&talk, watchdog) => Came::Broken,
            () = late(&talk, limit) => Came::Late,
        };
        match came {
            Came::Ready => Start::Running(Box::pin(self.live())),
            Came::Cancelled => {
                self.stop().await;
                Start::Failed("it was told to end before it was ready".into())
            }
            Came::Late => {
                self.stop().await;
                let limit = humantime::format_duration(limit);
                Start::Failed(
                    JobEnd::Lost(format!("it was not ready within {limit}{}", self.status())).into(),
                )
            }
            Came::Broken => {
                self.program.processes.kill().await;
                Start::Failed(format!("{BROKEN}{}", self.status()).into())
            }
            Came::NotStarted(why) => {
                self.program.processes.finish().await;
                if !self.work.command.first().is_some_and(|program| is_by_job(program)) {
                    self.able.refused(&job, &why);
                }
                tracing::warn!(key = %job.key(), why, "a program cannot be started here, another worker is asked");
                Start::Unable { why }
            }
            Came::Ended(end) => {
                self.program.finish().await;
                self.failed_start(end)
            }
        }
    }

    async fn ready(&mut self) -> Came {
        let Run { program, talk, work, able, .. } = self;
        let is_ready = async {
            match work.start.ready {
                Ready::Exec => std::future::pending().await,
                Ready::Notify => talk.ready().await,
            }
        };
        let mut is_ready = std::pin::pin!(is_ready);
        let mut proved = std::pin::pin!(sleep(Duration::MAX));
        loop {
            tokio::select! {
                biased;
                word = program.processes.next() => match word {
                    Word::Started(pid) => {
                        able.started();
                        tracing::debug!(key = %talk.job.key(), pid, "a program runs");
                        if work.start.ready == Ready::Exec {
                            proved.as_mut().reset(Instant::now() + work.start.min_run);
                        }
                    }
                    Word::NotStarted(why) => return Came::NotStarted(why),
                    Word::Ended(end) => return Came::Ended(end),
                    // Its end follows.
                    Word::TooMuchMemory(_) => {}
                    // The keeper was killed, and so was the program.
                    Word::Gone => return Came::Ended(End::Signal(Signal::KILL.as_raw())),
                },
                () = &mut is_ready => return Came::Ready,
                () = &mut proved => return Came::Ready,
            }
        }
    }

    fn failed_start(self, end: End) -> Start {
        let said = self.program.last.text();
        let text = self.program.processes.told(end, &said);
        match end {
            // It has done its work: it was ready, and the job has ended well.
            End::Exit(0) if self.work.start.ready == Ready::Exec => {
                Start::Running(Box::pin(std::future::ready(Ok(()))))
            }
            End::Exit(0) => Start::Failed("it ended before it said that it was ready".into()),
            End::Exit(TRY_AGAIN) => {
                tracing::info!(key = %self.talk.job.key(), text, "a program refuses its job for now");
                Start::Declined { backoff: None, why: self.program.processes.told(end, &last_line(&said)) }
            }
            end => Start::Failed(self.fault(end, text)),
        }
    }

    /// The job's life, until it ends or must end.
    async fn live(mut self) -> Result<(), BoxError> {
        let job = self.talk.job.clone();
        let ended = tokio::select! {
            biased;
            () = job.cancelled() => None,
            word = self.program.processes.next() => Some(word),
            why = silence(&self.talk, self.work.stop.watchdog) => {
                self.program.processes.kill().await;
                return Err(format!("{why}{}", self.status()).into());
            }
        };
        let Some(word) = ended else {
            self.stop().await;
            return Ok(());
        };
        self.program.finish().await;
        let end = match word {
            Word::Ended(end) => end,
            _ => End::Signal(Signal::KILL.as_raw()),
        };
        match end {
            End::Exit(0) => Ok(()),
            // It was told to end meanwhile: it has, whatever its status.
            _ if job.cancellation().is_cancelled() => Ok(()),
            end => {
                let text = self.program.told(end);
                Err(self.fault(end, text))
            }
        }
    }

    /// The last of what the program has said of itself, as the end of an error.
    fn status(&self) -> String {
        let status = self.talk.status();
        if status.is_empty() { status } else { format!("; its last status was: {status}") }
    }

    fn fault(&self, end: End, text: String) -> BoxError {
        match end {
            End::Exit(status) if self.work.stop.park_exit.iter().any(|park| i32::from(*park) == status) => {
                JobEnd::Park(text).into()
            }
            _ if self.program.processes.beyond(end).is_some() => text.into(),
            // The program itself is not the cause: the machine's memory was short, or somebody has killed it.
            End::Signal(signal) if signal == Signal::KILL.as_raw() => JobEnd::Lost(text).into(),
            _ => text.into(),
        }
    }

    /// Asks the program to end, and kills all after its time.
    async fn stop(&mut self) {
        let Self { program, talk, work, ttl, .. } = self;
        let processes = &mut program.processes;
        processes.signal(work.stop.stop_signal, work.stop.stop_to == StopTo::Group);
        let mut kill_at = Instant::now() + work.stop.grace;
        let lease = talk.job.lease();
        let mut is_over = false;
        loop {
            // The lease is over at 0.6 T. All must be dead soon after 0.8 T.
            if !is_over && !lease.check() {
                is_over = true;
                kill_at = kill_at.min(Instant::now() + *ttl * 3 / 20);
            }
            tokio::select! {
                biased;
                word = processes.next() => if matches!(word, Word::Gone | Word::Ended(_)) {
                    break;
                },
                () = sleep_until(kill_at) => {
                    tracing::info!(key = %talk.job.key(), "a program does not end when it is asked, it is killed");
                    processes.kill().await;
                    break;
                }
                () = sleep(*ttl / 40) => {}
            }
        }
        self.program.finish().await;
    }
}

/// The last line with words in it, for people. A reason of a refusal is cut behind its start, so the cause comes first.
fn last_line(said: &str) -> String {
    shown::plain(said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default())
}

/// Waits until the program has had too much time for its start. It may ask for more.
async fn late(talk: &Talk, limit: Duration) {
    let until = Instant::now() + EXTENDED_MAX.max(limit);
    sleep(limit).await;
    loop {
        let more = talk.more_time().min(until.saturating_duration_since(Instant::now()));
        if more.is_zero() {
            return;
        }
        sleep(more).await;
    }
}

/// Waits until the program was silent for too long, or says itself that it is broken. Returns which.
async fn silence(talk: &Talk, limit: Option<Duration>) -> String {
    let Some(limit) = limit else { return std::future::pending().await };
    loop {
        let left = limit.saturating_sub(talk.silent_for());
        if left.is_zero() {
            return format!("no sign of life for {}", humantime::format_duration(limit));
        }
        tokio::select! {
            () = sleep(left) => {}
            () = talk.given_up() => return BROKEN.to_owned(),
        }
    }
}

/// Waits until the program says itself that it is broken. Only one with a watchdog can.
async fn broken(talk: &Talk, limit: Option<Duration>) {
    match limit {
        Some(_) => talk.given_up().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_with_words_is_told_for_people() {
        let long = format!("{}\nno licence is free\n\n \n", "a line of a trace\n".repeat(60));
        for (said, line) in [
            ("", ""),
            (" \n\n", ""),
            ("no GPU", "no GPU"),
            ("one\ntwo\r\n", "two"),
            (&long, "no licence is free"),
            ("\u{1b}[31mred\u{202e}", "\\u{1b}[31mred\\u{202e}"),
        ] {
            assert_eq!(last_line(said), line, "{said:?}");
        }
    }
}
