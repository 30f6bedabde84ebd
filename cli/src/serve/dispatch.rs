//! The request that dispatches a job.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use serde::Deserialize;
use tenure_pool::{JobSpec, Operator};

use super::ask::{Asked, Named, decoded};
use super::change::change_in_turn;
use super::problem::Problem;
use super::read::{Answer, Shared, document};
use super::token::Who;
use crate::act::{Dispatched, How, Policy, one};
use crate::out::shown;

/// How long a job may take to start: less than a change may take.
const LONGEST: Duration = Duration::from_secs(25);

/// A new job. Its key and its payload are texts, or bytes in base 64.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfNew {
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    key64: Option<String>,
    #[serde(default)]
    payload: Option<String>,
    #[serde(default)]
    payload64: Option<String>,
    /// The caller's own id: the same dispatch again starts no second job.
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    policy: Policy,
    #[serde(default)]
    how: How,
}

/// Dispatches a job.
pub(super) async fn dispatch(
    State(app): Shared,
    Extension(who): Extension<Who>,
    Asked(asked): Asked<OfNew>,
) -> Answer {
    let OfNew { key, key64, payload, payload64, id, policy, how } = asked;
    let key = Named { key, key64 }.key()?;
    let payload = match (payload, payload64) {
        (Some(_), Some(_)) => {
            return Err(Problem::usage("give the payload as payload or as payload64, not as both"));
        }
        (Some(text), None) => text.into_bytes(),
        (None, Some(text)) => decoded("payload64", &text)?,
        (None, None) => Vec::new(),
    };
    let job = JobSpec::new(key.clone(), payload).restart(policy.into());
    let job = match id {
        Some(id) => job.id(id),
        None => job,
    };
    let what = format!("dispatched {}", shown::key(&key));
    let act = move |pool: Operator| async move { Ok(one(pool.node().await?, job, how, LONGEST).await?) };
    let taken = change_in_turn(|app| &app.dispatches, &app, &who, what, act).await?;
    document(&Dispatched::of(&key, how).taken(taken))
}
