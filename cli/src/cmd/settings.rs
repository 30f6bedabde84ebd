//! `tenure settings`, `hold` and `unhold`.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use tenure_pool::setting::SettingInfo;

use super::Session;
use crate::args::{Steer, time};
use crate::exit::{Code, Failure};
use crate::out::List;
use crate::view::outcomes::Held;
use crate::view::settings::Shown;

/// List the settings of the pool, or change some while it runs
#[derive(Debug, Subcommand)]
pub(crate) enum Settings {
    /// List all settings
    Ls,
    /// Change settings of the whole pool, all at once
    Set {
        /// The settings: a number, a time such as `30s`, or `on` and `off`
        #[arg(value_name = "NAME=VALUE", required = true)]
        changes: Vec<Change>,
        #[command(flatten)]
        steer: Steer,
    },
}

/// A setting and its new value.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    name: String,
    value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    /// In the unit of its setting.
    Number(u64),
    Time(Duration),
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("a change is NAME=VALUE")?;
        let value = match value {
            "on" => Value::Number(1),
            "off" => Value::Number(0),
            value => match value.parse() {
                Ok(number) => Value::Number(number),
                Err(_) => Value::Time(time(value).map_err(|_| {
                    let most = u64::MAX;
                    format!(
                        "a value is a whole number from 0 to {most}, a time such as 500ms or 30s, on or off"
                    )
                })?),
            },
        };
        Ok(Self { name: name.to_owned(), value })
    }
}

impl Change {
    /// The new value in the unit of its setting.
    fn stored(&self, listed: &[SettingInfo]) -> Result<u64, Failure> {
        let Self { name, value } = self;
        let Some(setting) = listed.iter().find(|setting| setting.name == name) else {
            return Err(Failure::usage(format!("there is no setting {name}; see `tenure settings ls`")));
        };
        match value {
            Value::Number(number) => Ok(*number),
            Value::Time(time) if setting.unit == "ms" => {
                Ok(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
            }
            Value::Time(_) => Err(Failure::usage(format!("{name} is no length of time"))),
        }
    }
}

impl Settings {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let place = session.place()?;
        let pool = place.operator().await?;
        let present = pool.inspect().settings().await?;
        let Self::Set { changes, steer } = self else {
            List::print(&mut session.out, present.list().into_iter().map(Shown))?;
            return Ok(Code::Done);
        };
        let listed = present.list();
        let mut wanted = Vec::new();
        for change in &changes {
            wanted.push((change.name.clone(), change.stored(&listed)?));
        }
        let mut checked = present.clone();
        for (name, value) in &wanted {
            checked.set(name, *value).map_err(|error| Failure::usage(error.to_string()))?;
        }
        checked.validate().map_err(|error| Failure::usage(error.to_string()))?;
        let differing = |now: &[SettingInfo]| -> Vec<Shown> {
            let pairs = now.iter().zip(&listed).filter(|(now, before)| now.value != before.value);
            pairs.map(|(now, _)| Shown(now.clone())).collect()
        };
        if steer.dry_run {
            List::print(&mut session.out, differing(&checked.list()))?;
            return Ok(Code::Done);
        }
        steer.confirm(&format!("{} settings of the pool {} are changed?", wanted.len(), place.pool))?;
        let changed = pool
            .change_settings(|settings| {
                for (name, value) in &wanted {
                    // They were checked above.
                    let _ = settings.set(name, *value);
                }
            })
            .await;
        pool.close().await;
        List::print(&mut session.out, differing(&changed?.list()))?;
        Ok(Code::Done)
    }
}

/// The hold of a pool that is set or lifted.
#[derive(Args, Debug)]
pub(crate) struct Hold {
    #[command(flatten)]
    steer: Steer,
}

impl Hold {
    /// Sets the hold, or lifts it.
    pub(crate) async fn run(self, session: &mut Session, on: bool) -> Result<Code, Failure> {
        let dry_run = self.steer.dry_run;
        let place = session.place()?;
        let pool = place.operator().await?;
        if !dry_run {
            if on {
                self.steer.confirm(&format!("No job of the pool {} starts from now on?", place.pool))?;
            }
            let held = pool.hold(on).await;
            pool.close().await;
            held?;
        }
        let would = if dry_run { "would be" } else { "is" };
        let state = if on { "on hold: it accepts jobs and starts none" } else { "not on hold" };
        let text = format!("the pool {} {would} {state}", place.pool);
        session.out.one(&Held { pool: place.pool, on_hold: on, dry_run }, text)?;
        Ok(Code::Done)
    }
}
