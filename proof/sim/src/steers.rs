//! Operators that park, pause, resume, bounce, restart and retry single jobs: in some runs they do so now and then. A user
//! who is told that it was done finds it done, and no run is ended that nobody wanted to end.

use std::time::Duration;

use super::users::Ask;
use super::world::World;
use tenure_protocol::core::input::Command;
use tenure_protocol::model::id::{JobKey, Token};
use tenure_protocol::model::paused::Paused;
use tenure_protocol::model::record::{JobState, Record};
use tenure_protocol::step::Way;

impl World {
    /// An operator wants something of a job. In a healed world all that is parked by then stays so.
    pub(super) fn steer(&mut self) {
        if !self.steers.happen || self.healed || !self.steers.rng.chance(1_500) {
            return;
        }
        let usable = self.usable();
        if self.steers.rng.chance(500) {
            return self.steer_moves(&usable);
        }
        let (at, number) = (self.steers.rng.pick(&usable), self.steers.rng.below(self.options.keys));
        let (Some(at), Ok(key)) = (at, JobKey::new(format!("k{number}"))) else { return };
        // Most that is parked is retried: else nothing would be left to look at.
        let record = self.judge.records.get(&key).and_then(Option::as_ref);
        let is_parked = record.is_some_and(|record| record.state == JobState::Parked);
        let is_paused = record.is_some_and(Record::is_paused);
        let run = record.filter(|record| record.state == JobState::Running).map(|record| record.token);
        let way = match self.steers.rng.below(14) {
            _ if is_paused && self.steers.rng.chance(7_000) => Way::Resume,
            _ if is_parked && self.steers.rng.chance(7_000) => Way::Now,
            0..3 => Way::Park,
            3..6 => Way::Elsewhere,
            6..8 => Way::Home,
            8..11 => Way::Pause,
            11 => Way::Resume,
            _ => Way::Now,
        };
        if !matches!(way, Way::Now | Way::Resume) {
            self.steered.insert(key.clone());
        }
        let deadline = self.local(at) + Duration::from_millis(self.steers.rng.between(500, 8_000));
        let what = Ask::Steer { key: key.clone(), way, run };
        let reason = match way {
            Way::Pause if self.steers.rng.chance(5_000) => Paused::text(
                "op",
                Some(self.server_now + self.steers.rng.between(500, 20_000)),
                "for a while",
            ),
            Way::Park | Way::Pause => "op||an operator".to_owned(),
            _ => String::new(),
        };
        self.ask(at, what, Some(deadline), |reply| Command::Steer { reply, key, way, reason, deadline });
    }

    /// An operator limits the moves of the pool, or wants all of them now.
    fn steer_moves(&mut self, usable: &[usize]) {
        let Some(at) = self.steers.rng.pick(usable) else { return };
        let stored = self.server.settings();
        let asked = stored.fields.get("move_now").and_then(|now| now.parse::<u64>().ok()).unwrap_or_default();
        if self.steers.rng.below(2) == 0 {
            self.set(at, "move_now", asked + 1);
        } else {
            let rate = self.steers.rng.below(30);
            self.set(at, "move_rate", rate);
        }
    }

    /// The objection to the word that it was done. `run`: the token of the run at the time of the request.
    pub(super) fn objects_to_steer(
        &self,
        key: &JobKey,
        way: Way,
        run: Option<Token>,
        since: u64,
    ) -> Option<&'static str> {
        if self.judge.is_lossy() || self.judge.lost_at.is_some_and(|at| at >= since) {
            return None;
        }
        let record = self.judge.records.get(key).and_then(Option::as_ref);
        let state = record.map(|record| record.state);
        let is_paused = record.is_some_and(Record::is_paused);
        let has_rested = self.judge.parked_at.get(key).is_some_and(|&at| at >= since);
        match way {
            Way::Park => (state != Some(JobState::Parked) && !has_rested).then_some("it was not parked"),
            Way::Pause => (!is_paused && !has_rested).then_some("it was not paused"),
            Way::Resume => (is_paused && !has_rested).then_some("it is still paused"),
            Way::Home | Way::Elsewhere => {
                let goes_on = state == Some(JobState::Running) && record.map(|record| record.token) == run;
                goes_on.then_some("its run goes on")
            }
            Way::Now => None,
        }
    }
}
