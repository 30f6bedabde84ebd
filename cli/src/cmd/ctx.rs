//! `tenure ctx`: contexts.

use clap::Subcommand;
use serde::Serialize;

use super::Session;
use crate::connect::contexts::{Context, Contexts, no_context, without_password};
use crate::exit::{Code, Failure};
use crate::out::{Cell, Column, List, Row, Tone};

/// Name pools and their servers, and choose one
#[derive(Debug, Subcommand)]
pub(crate) enum Ctx {
    /// List the contexts
    Ls,
    /// Add a context of --url and --pool, or change one
    Set {
        /// Its name
        name: String,
    },
    /// Use a context where neither a flag nor the environment names a pool
    Use {
        /// Its name
        name: String,
    },
    /// Remove a context
    Rm {
        /// Its name
        name: String,
    },
}

#[derive(Serialize)]
struct Shown {
    name: String,
    in_use: bool,
    pool: Option<String>,
    url: Option<String>,
}

impl Row for Shown {
    const KIND: &'static str = "contexts";
    const COLUMNS: &'static [Column] =
        &[Column::new("NAME"), Column::new("IN USE"), Column::new("POOL"), Column::new("URL")];

    fn cells(&self, _: bool) -> Vec<Cell> {
        let used = if self.in_use { Cell::new("yes").tone(Tone::Good) } else { Cell::default() };
        vec![Cell::new(&self.name), used, Cell::maybe(self.pool.as_ref()), Cell::maybe(self.url.as_ref())]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl Ctx {
    pub(crate) fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let mut contexts = Contexts::read()?;
        match self {
            Self::Ls => {
                let Contexts { used, by_name } = contexts;
                let shown = by_name.into_iter().map(|(name, context)| Shown {
                    in_use: used.as_ref() == Some(&name),
                    pool: context.pool,
                    url: context.url.as_deref().map(without_password),
                    name,
                });
                List::print(&mut session.out, shown)?;
                return Ok(Code::Done);
            }
            Self::Set { name } => {
                let (url, pool) = (session.global.url.clone(), session.global.pool.clone());
                if url.is_none() && pool.is_none() {
                    return Err(Failure::usage("a context has a --pool, a --url, or both"));
                }
                if let Some(url) = &url {
                    tenure_pool::Client::open(url).map_err(|error| Failure::usage(error.to_string()))?;
                }
                let former = contexts.by_name.remove(&name).unwrap_or_default();
                let context = Context { url: url.or(former.url), pool: pool.or(former.pool) };
                contexts.by_name.insert(name, context);
            }
            Self::Use { name } => {
                if !contexts.by_name.contains_key(&name) {
                    return Err(no_context(&name));
                }
                contexts.used = Some(name);
            }
            Self::Rm { name } => {
                contexts.by_name.remove(&name).ok_or_else(|| no_context(&name))?;
                contexts.used = contexts.used.filter(|used| *used != name);
            }
        }
        contexts.write()?;
        Ok(Code::Done)
    }
}
