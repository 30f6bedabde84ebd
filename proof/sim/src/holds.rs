//! Operators that hold the pool: in some runs they set and lift the hold now and then. A node that knows of it gives no
//! worker a job, and nothing moves.

use super::world::World;
use tenure_protocol::core::call::Call;
use tenure_protocol::step::{ChangeSettings, SettingChange};

impl World {
    fn is_on_hold(&self) -> bool {
        self.server.settings().fields.get("hold").is_some_and(|hold| hold == "1")
    }

    /// An operator holds the pool, or lifts the hold. In a healed world it is lifted.
    pub(super) fn hold(&mut self) {
        let on = self.is_on_hold();
        let acts = if self.healed { on } else { self.holds.rng.chance(if on { 500 } else { 50 }) };
        if !self.holds.happen || !acts || self.full {
            return;
        }
        let stored = self.server.settings();
        let (Some(incarnation), Some(at)) = (stored.incarnation, self.some_way_in()) else { return };
        let change = SettingChange {
            name: "hold".to_owned(),
            from: u8::from(on).to_string(),
            to: u8::from(!on).to_string(),
        };
        if self.perform(at, incarnation, &ChangeSettings { changes: vec![change] }).is_ok() {
            self.note(|| format!("n{at} {} the pool", if on { "frees" } else { "holds" }));
            self.mix(u64::from(on));
            self.publish();
        }
    }

    /// A call of a node that knows of the hold.
    pub(super) fn saw_hold(&mut self, at: usize, call: &Call) {
        if !self.holds.happen || !self.nodes.get(at).is_some_and(|node| node.config.settings.hold) {
            return;
        }
        let placed = match call {
            Call::Route(route, _) => route.jobs.iter().any(|(_, worker)| worker.is_some()),
            Call::Dispatch(dispatch) | Call::PlanDispatch(dispatch, _) => {
                dispatch.items.iter().any(|item| item.worker.is_some())
            }
            _ => false,
        };
        if placed {
            self.judge
                .violations
                .push(format!("hold: n{at} gives jobs to workers, and it knows of the hold"));
        }
    }
}
