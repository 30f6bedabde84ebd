//! `tenure doctor`: what is wrong with a pool and its server, and what to do.

mod monitor;
mod past;
mod pool;
mod rights;
mod server;

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use self::monitor::Monitor;
use super::Session;
use super::watch::Watch;
use crate::args::number;
use crate::connect::Place;
use crate::exit::{Code, Failure};
use crate::out::{Cell, Column, List, Row, Tone};

/// Check the pool and its server, and say what to do
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Only the checks of these parts
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// End with status 6 from this on
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t = FailOn::Fail)]
    fail_on: FailOn,
    /// Print for this monitor, in place of a list
    #[arg(long, value_enum, value_name = "MONITOR", conflicts_with_all = ["fail_on", "watch", "output"])]
    format: Option<Monitor>,
    /// Look at no more than this many jobs
    #[arg(long, value_name = "COUNT", default_value_t = 20_000, value_parser = number(0..=usize::MAX))]
    sample: usize,
    #[command(flatten)]
    watch: Watch,
}

/// A part of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The Redis server
    Server,
    /// The pool: its phase, members, queue and jobs
    Pool,
}

/// From which severity on it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// From warnings on
    Warn,
    /// Failures only
    Fail,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    Ok,
    /// It is unwise, or may soon fail.
    Warn,
    /// Jobs wait, are at risk, or cannot run.
    Fail,
}

/// The result of one check.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    pub(crate) severity: Severity,
    pub(crate) text: String,
    pub(crate) remedy: Option<String>,
    /// The number that the finding rests on: for monitors.
    #[serde(skip)]
    pub(crate) figure: Option<Figure>,
}

/// A number, and what it counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Jobs,
    Workers,
    Bytes,
    Seconds,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, text: impl Into<String>) -> Self {
        Self { check, severity: Severity::Ok, text: text.into(), remedy: None, figure: None }
    }

    /// The same finding with its number.
    #[allow(clippy::cast_precision_loss, reason = "a monitor reads floating point numbers")]
    pub(crate) fn count(self, count: u64, unit: Unit) -> Self {
        Self { figure: Some(Figure { value: count as f64, unit }), ..self }
    }

    /// The same finding with its time.
    pub(crate) fn takes(self, time: Duration) -> Self {
        Self { figure: Some(Figure { value: time.as_secs_f64(), unit: Unit::Seconds }), ..self }
    }

    pub(crate) fn warn(check: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Warn, remedy: Some(remedy.into()), ..Self::ok(check, text) }
    }

    pub(crate) fn fail(check: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Fail, remedy: Some(remedy.into()), ..Self::ok(check, text) }
    }
}

impl Row for Finding {
    const KIND: &'static str = "findings";
    const COLUMNS: &'static [Column] =
        &[Column::new("CHECK"), Column::new("STATE"), Column::new("FINDING"), Column::new("REMEDY")];

    fn cells(&self, _: bool) -> Vec<Cell> {
        let state = match self.severity {
            Severity::Ok => Cell::new("ok").tone(Tone::Good),
            Severity::Warn => Cell::new("warn").tone(Tone::Warn),
            Severity::Fail => Cell::new("fail").tone(Tone::Bad),
        };
        vec![Cell::new(self.check), state, Cell::new(&self.text), Cell::maybe(self.remedy.as_ref())]
    }

    fn name(&self) -> String {
        self.check.to_owned()
    }
}

impl Doctor {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let fail_on = self.fail_on;
        if let Some(monitor) = self.format {
            let (place, named) = (session.place(), session.global.pool.as_deref().unwrap_or_default());
            let pool = place.as_ref().map_or(named, |place| &place.pool).to_owned();
            let findings = match place {
                Ok(place) => place.in_time(self.findings(&place)).await,
                Err(failure) => Err(failure.of_usage()),
            };
            return monitor.print(&mut session.out, &pool, findings);
        }
        let place = session.place()?;
        let watch = self.watch;
        watch
            .run(session, async |session| {
                let findings = self.findings(&place).await?;
                let worst = worst(&findings);
                List::print(&mut session.out, findings)?;
                let limit = match fail_on {
                    FailOn::Warn => Severity::Warn,
                    FailOn::Fail => Severity::Fail,
                };
                Ok(if worst >= limit { Code::Finding } else { Code::Done })
            })
            .await
    }

    async fn findings(&self, place: &Place) -> Result<Vec<Finding>, Failure> {
        let checks = |part| self.only.is_empty() || self.only.contains(&part);
        let mut findings = Vec::new();
        let pool = match place.inspector().await {
            Ok(pool) => pool,
            // A right may be missing to look at the pool, too.
            Err(failure) if checks(Part::Server) && failure.code == Code::Redis => {
                return match rights::check(place, None).await {
                    Ok(rights) if rights.severity > Severity::Ok => Ok(vec![rights]),
                    _ => Err(failure),
                };
            }
            Err(failure) => return Err(failure),
        };
        if checks(Part::Server) {
            findings.push(rights::check(place, Some(pool.shards())).await?);
            findings.extend(server::check(place, &pool).await?);
        }
        if checks(Part::Pool) {
            findings.extend(pool::check(&pool, self.sample).await?);
        }
        Ok(findings)
    }
}

fn worst(findings: &[Finding]) -> Severity {
    findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok)
}
