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
use std::time::Duration;

use futures::future::LocalBoxFuture;
use serde_json::json;

use self::life::REFUSED;
use self::player::Player;
use super::child::Launcher;
use super::options::Host;
use crate::exit::{Code, Failure};
use crate::out::Format;
use crate::work::guard::Guarded;
use crate::work::logs::Target;
use crate::work::node::run_below_guard;
use crate::work::starter::{Outlet, Starter};

/// The worker TTL that a host is told of.
const TTL: Duration = Duration::from_secs(10);

type Played<'a> = LocalBoxFuture<'a, Result<(), String>>;

/// A rule of the protocol, as a claim, and the play that shows it.
struct Scenario {
    name: &'static str,
    play: for<'a> fn(&'a mut Player) -> Played<'a>,
}

/// Makes scenarios of async functions, which get a host that was welcomed. A host without a feature plays nothing that needs
/// it, and only answers a ping.
macro_rules! scenarios {
    ($($name:literal => $play:ident $(if $feature:literal)?,)*) => {
        pub(super) fn scenarios() -> Vec<super::Scenario> {
            vec![$(super::Scenario {
                name: $name,
                play: |host| Box::pin(async move {
                    host.welcome().await?;
                    $(if !host.has($feature) {
                        return host.ping().await;
                    })?
                    $play(host).await
                }),
            },)*]
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
    let (outlet, writer) = Outlet::open(&host.log, || Target::Null)?;
    let groups = host.confine.groups(guarded.guard)?;
    let starter = Starter::new(TTL, guarded, groups, outlet)?;
    let launcher = Launcher::new(&host, "check", "check", starter, host.confine.confines(None));
    let all =
        [starting::scenarios(), ending::scenarios(), asking::scenarios(), life::scenarios(), vec![REFUSED]];
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
