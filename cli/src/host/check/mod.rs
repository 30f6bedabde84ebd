//! `tenure host --check`: plays the rules of the protocol against a host, without a pool.
//!
//! The host is a process as in earnest. The player is its node: it says what a scenario wants, and a [`Table`] judges each
//! word of the host by the rules that a real node goes by.
//!
//! [`Table`]: super::table::Table

mod asking;
mod ending;
mod life;
mod player;
mod starting;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use serde_json::json;

use self::player::Player;
use super::child::Launcher;
use super::options::Host;
use crate::exit::{Code, Failure};
use crate::out::Format;
use crate::work::book::Book;
use crate::work::guard::Guarded;
use crate::work::logs::{Target, Writer};
use crate::work::node::{renew, run_below_guard};
use crate::work::plan;

/// The worker TTL that a host is told of.
const TTL: Duration = Duration::from_secs(10);

type Played<'a> = LocalBoxFuture<'a, Result<(), String>>;

/// A rule of the protocol, as a claim, and the play that shows it.
struct Scenario {
    name: &'static str,
    play: for<'a> fn(&'a mut Player) -> Played<'a>,
}

/// Makes scenarios of async functions.
macro_rules! scenarios {
    ($($name:literal => $play:ident,)*) => {
        pub(super) fn scenarios() -> Vec<super::Scenario> {
            vec![$(super::Scenario { name: $name, play: |host| Box::pin($play(host)) },)*]
        }
    };
}
use scenarios;

/// Plays all scenarios, or those that were chosen.
///
/// # Errors
/// The host cannot be started at all, or none was chosen.
pub(super) fn run(host: Host, format: Format, guarded: &Guarded) -> Result<Code, Failure> {
    let level = host.log.log_level.min(tracing::Level::WARN);
    run_below_guard(&guarded.folder, level, play_all(host, format, guarded.clone()))
}

async fn play_all(host: Host, format: Format, guarded: Guarded) -> Result<Code, Failure> {
    let target = host.log.logs.clone().unwrap_or(Target::Null);
    let writer = Writer::start(&target, host.log.log_max)
        .map_err(|error| Failure::usage(format!("the output of hosts has no place: {error}")))?;
    let (writer, lines) = writer.unzip();
    let book = Arc::new(Book::new(TTL)?);
    renew(&book, TTL)?;
    let launcher = Launcher {
        command: host.command.clone(),
        pool: "check".to_owned(),
        node: "check".to_owned(),
        book,
        groups: host.confine.groups(guarded.guard)?,
        guard: guarded.guard,
        folder: guarded.folder,
        unset: plan::unset(&host.pass_env),
        confines: host.confine.confines(None),
        target,
        lines,
        numbers: AtomicU64::new(0),
    };
    let all = [starting::scenarios(), ending::scenarios(), asking::scenarios(), life::scenarios()];
    let is_chosen = |name: &str| host.only.as_deref().is_none_or(|only| name.contains(only));
    let chosen: Vec<_> = all.into_iter().flatten().filter(|scenario| is_chosen(scenario.name)).collect();
    if chosen.is_empty() {
        return Err(Failure::usage("no scenario has that in its name"));
    }
    let (count, mut failed) = (chosen.len(), 0);
    for Scenario { name, play } in chosen {
        let why = match Player::open(&launcher, host.time.hello_timeout).await {
            Ok(mut player) => match play(&mut player).await {
                Ok(()) => player.end().await.err(),
                Err(why) => {
                    player.kill().await;
                    Some(why)
                }
            },
            Err(why) => Some(why),
        };
        failed += usize::from(why.is_some());
        tell(format, name, why.as_deref())?;
    }
    let passed = count - failed;
    match format {
        Format::Json | Format::Jsonl => {
            writeln!(io::stdout(), "{}", json!({"v": 1, "passed": passed, "failed": failed}))?;
        }
        _ => writeln!(io::stdout(), "{passed} of {count} scenarios passed")?,
    }
    drop(launcher);
    if let Some(writer) = writer {
        tokio::task::spawn_blocking(|| writer.end()).await.ok();
    }
    Ok(if failed == 0 { Code::Done } else { Code::SomeFailed })
}

fn tell(format: Format, name: &str, why: Option<&str>) -> io::Result<()> {
    let mut to = io::stdout().lock();
    match (format, why) {
        (Format::Json | Format::Jsonl, why) => {
            writeln!(to, "{}", json!({"v": 1, "scenario": name, "passed": why.is_none(), "why": why}))
        }
        (_, None) => writeln!(to, "pass  it {name}"),
        (_, Some(why)) => writeln!(to, "FAIL  it {name}\n      {why}"),
    }
}
