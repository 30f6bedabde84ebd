//! Faults hit a pool of node processes, one after the other, while its users call; then the judges are asked.
//!
//! `fault.rs` has the faults and their frequencies; `nemesis.rs` inflicts them, `operator.rs` those that an operator
//! orders. `arena.rs` holds their targets: servers, proxies and processes. `users.rs` has the users and the askers, `key.rs`
//! the calls about a key, and `books.rs` the records of both.
//!
//! Four judges read the history besides the checker: `asks` the book of asks, `states.rs` the checkpoints, `payloads.rs`
//! the updates, and `steered.rs` what operators want. `excuse.rs` has the losses that excuse. `act.rs` is one pool's life from
//! its creation to its shutdown, and `verdict.rs` sums all acts up.

mod act;
mod arena;
mod asks;
mod books;
mod excuse;
mod fault;
mod key;
mod nemesis;
mod operator;
mod payloads;
mod states;
mod steered;
mod users;
mod verdict;

use std::path::PathBuf;
use std::time::Duration;

pub use fault::{Fault, Occurrence};
pub use verdict::{Outcome, Verdict};

use crate::Result;
use crate::broken::Broken;
use crate::cli::named;
use act::Act;
use fault::Scene;

/// The shortest run with fail-overs, each of which takes some seconds.
const SENTINELS_FROM: Duration = Duration::from_secs(150);
/// The least time for the crashes of a run.
const CRASHES: Duration = Duration::from_secs(14);

/// The settings of a storm.
#[derive(Clone, Debug, clap::Args)]
pub struct StormPlan {
    /// The length of the whole run.
    #[arg(long = "minutes", value_name = "MINUTES", value_parser = crate::cli::minutes, default_value = "10")]
    pub time: Duration,
    /// The seed of the faults and the calls; random by default.
    #[arg(long, default_value_t = rand::random(), hide_default_value = true)]
    pub seed: u64,
    /// The number of job keys.
    #[arg(long, default_value_t = 600)]
    pub keys: usize,
    /// Only these faults; all of them by default.
    #[arg(long)]
    pub only: Vec<Fault>,
}

/// Runs all acts: faults of every kind, fail-overs if there is time, and crashes with their gaps. The last line it
/// prints is the verdict as JSON.
///
/// # Errors
/// A run cannot be executed, or no act has all the chosen faults.
///
/// # Cancel safety
/// All processes end when the future is dropped.
pub async fn run(plan: &StormPlan, say: fn(&str)) -> Result<Vec<String>> {
    let scenes = scenes(plan)?;
    let dir = tempfile::Builder::new().prefix("tenure-chaos.").tempdir()?.keep();
    say(&format!("seed {}; histories and logs: {}", plan.seed, dir.display()));
    let mut verdict = Verdict::default();
    for (number, (scene, time)) in scenes.into_iter().enumerate() {
        let act = Act {
            scene,
            time,
            keys: plan.keys,
            seed: plan.seed.wrapping_add(number as u64),
            dir: dir.join(named(&scene)),
            only: plan.only.clone(),
            broken: None,
        };
        verdict.add(act.play(say).await?);
    }
    say(&verdict.table());
    let found = verdict.violations();
    if found.is_empty() {
        std::fs::remove_dir_all(&dir)?;
    } else {
        say(&format!("run it again with seed {}; histories and logs are in {}", plan.seed, dir.display()));
    }
    say(&verdict.json());
    Ok(found)
}

/// The acts and their lengths.
fn scenes(plan: &StormPlan) -> Result<Vec<(Scene, Duration)>> {
    let possible = |scene: Scene| plan.only.iter().all(|&fault| scene.knows(fault));
    if !plan.only.is_empty() {
        let scene = [Scene::Everything, Scene::Sentinels].into_iter().find(|&scene| possible(scene));
        let scene = scene.ok_or(
            "fail-over, master-lost and master-lost-ahead need sentinels, and the other faults asked for cannot \
             happen there: run them one after the other",
        )?;
        return Ok(vec![(scene, plan.time)]);
    }
    let mut scenes = vec![(Scene::Crashes, (plan.time / 8).max(CRASHES.min(plan.time)))];
    if plan.time >= SENTINELS_FROM {
        scenes.push((Scene::Sentinels, plan.time / 5));
    }
    let rest = plan.time.saturating_sub(scenes.iter().map(|(_, time)| *time).sum());
    scenes.insert(0, (Scene::Everything, rest));
    Ok(scenes)
}

/// Runs a pool whose nodes are broken in this way, and returns the judges' findings, which must not be empty.
///
/// # Errors
/// The run cannot be executed.
///
/// # Cancel safety
/// As [`run`].
pub async fn control(broken: Broken, time: Duration, seed: u64, say: fn(&str)) -> Result<Outcome> {
    let dir = tempfile::Builder::new().prefix("tenure-chaos.").tempdir()?;
    let scene = match broken {
        Broken::NoSelfFence => Scene::Partitions,
        Broken::BeginUnchecked => Scene::LateStarts,
        Broken::HandOffBeforeStop | Broken::CheckpointsForgotten => Scene::Deploys,
        Broken::DoubtfulAsksSentAgain => Scene::Kills,
    };
    let dir: PathBuf = dir.path().join(named(&scene));
    Act { scene, time, keys: 120, seed, only: Vec::new(), dir, broken: Some(broken) }.play(say).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_faults_select_an_act_in_which_they_can_happen() {
        let acts = |only: &[Fault]| {
            let time = Duration::from_secs(60);
            scenes(&StormPlan { time, seed: 1, keys: 1, only: only.to_vec() }).ok()
        };
        let whole = |scene| Some(vec![(scene, Duration::from_secs(60))]);
        assert_eq!(acts(&[Fault::Kill, Fault::FlushAll]), whole(Scene::Everything));
        assert_eq!(acts(&[Fault::FailOver]), whole(Scene::Sentinels));
        assert_eq!(acts(&[Fault::MasterLost, Fault::MasterLostAhead, Fault::Kill]), whole(Scene::Sentinels));
        assert_eq!(acts(&[Fault::FailOver, Fault::FlushAll]), None);
        assert_eq!(acts(&[]).map(|acts| acts.len()), Some(2));
    }
}
