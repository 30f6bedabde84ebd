//! Rings with holes, and keys that are placed on them.

use std::hint::black_box;

use super::node::up;
use super::{Case, MANY, Meter, Repeated, job_name};
use tenure_protocol::core::ring::Ring;
use tenure_protocol::model::id::{Revision, WorkerId};
use tenure_protocol::model::member::Members;
use tenure_protocol::model::settings::Settings;

/// Keys with strikes against their placement, and a ring to place them on.
pub(super) struct Placing {
    ring: Ring,
    keys: Vec<String>,
    strikes: u32,
}

/// Members on this many places; every third place is a hole.
fn members(places: u32) -> Members {
    let taken = (0..places).filter(|slot| slot % 3 != 1);
    let entries = taken.map(|slot| (WorkerId(u64::from(slot) + 1), up(slot))).collect();
    Members { revision: Revision(1), ring_size: places, entries, ..Members::default() }
}

impl Placing {
    pub(super) fn new(places: u32, strikes: u32) -> Self {
        let ring = Ring::new(&members(places), &Settings::default());
        Self { ring, keys: (0..MANY as u64).map(job_name).collect(), strikes }
    }
}

impl Case for Placing {
    fn run(&mut self, meter: &mut dyn Meter) {
        let Self { ring, keys, strikes } = self;
        meter.measure(&mut || {
            for key in &*keys {
                black_box(ring.pick(black_box(key.as_bytes()), *strikes));
            }
        });
    }
}

/// The cost of building the ring after a change of the members.
pub(super) fn anew(places: u32) -> impl Case {
    let (members, settings) = (members(places), Settings::default());
    Repeated(move |meter: &mut dyn Meter| {
        let mut ring = None;
        meter.measure(&mut || ring = Some(Ring::new(black_box(&members), &settings)));
        black_box(ring);
    })
}
