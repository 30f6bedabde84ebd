//! The properties that must always hold, and those that must be reached, so that the model is not empty.

use stateright::{Model, Property};
use tenure_protocol::model::record::JobState;
use tenure_protocol::step::ReleaseMode;

use super::act::Act;
use super::grants::is_unread;
use super::world::{Hand, Life, Pool, World};

fn has_state(model: &Pool, world: &World, state: JobState) -> bool {
    model.keys.iter().any(|key| world.store.record(key).is_some_and(|record| record.state == state))
}

impl Model for Pool {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![self.beginning()]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        self.acts(world, acts);
    }

    fn next_state(&self, world: &World, act: Act) -> Option<World> {
        self.step(world, act)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("S1 one handler per key", |model: &Self, world| {
                (0..model.keys.len())
                    .all(|key| world.workers.iter().filter(|w| w.hands[key].active().is_some()).count() < 2)
            }),
            Property::always("S2 the record names the worker", |model: &Self, world: &World| {
                world.broke != Some("S2") && model.stray(world) != Some("S2")
            }),
            Property::always("S3 tokens rise", |_: &Self, world: &World| world.broke != Some("S3")),
            Property::always("S4 no job vanishes", |_: &Self, world: &World| world.broke != Some("S4")),
            Property::always("S5 what has ended never starts", |_: &Self, world: &World| {
                world.broke != Some("S5")
            }),
            Property::always("S6 a stop sticks", |_: &Self, world: &World| world.broke != Some("S6")),
            Property::always("S7 one assignment, one start", |_: &Self, world: &World| {
                world.broke != Some("S7")
            }),
            Property::always("S8 indexes agree with records", |_: &Self, world: &World| {
                world.store.disagreement().is_none()
            }),
            Property::always("S9 only who knows the ring assigns", |_: &Self, world: &World| {
                world.broke != Some("S9")
            }),
            Property::always(
                "S10 only route changes a token, and no call of another incarnation anything",
                |_: &Self, world: &World| world.broke != Some("S10"),
            ),
            Property::always("S11 a runner is given what was kept", |_: &Self, world: &World| {
                world.broke != Some("S11")
            }),
            Property::always(
                "S14 an ask comes to one handler, and starts one job",
                |_: &Self, world: &World| world.broke != Some("S14"),
            ),
            Property::always("S15 a start is given what was left", |_: &Self, world: &World| {
                world.broke != Some("S15")
            }),
            Property::always("S17 no payload is lost or undone", |_: &Self, world: &World| {
                world.broke != Some("S17")
            }),
            Property::always("S22 a pause holds until it is resumed", |_: &Self, world: &World| {
                world.broke != Some("S22")
            }),
            Property::always("Somebody attends to what was begun", |model: &Self, world: &World| {
                model.stray(world) != Some("unattended")
            }),
            Property::sometimes("a job is queued", |model: &Self, world: &World| {
                has_state(model, world, JobState::Queued)
            }),
            Property::sometimes("a job is assigned or granted", |model: &Self, world: &World| {
                let granted = |key| world.store.record(key).is_some_and(is_unread);
                has_state(model, world, JobState::Assigned) || model.keys.iter().any(granted)
            }),
            Property::sometimes("a job runs", |model: &Self, world: &World| {
                has_state(model, world, JobState::Running)
            }),
            Property::sometimes("a handler runs", |_: &Self, world: &World| {
                world.workers.iter().any(|w| w.hands.iter().any(|hand| matches!(hand, Hand::Running(_))))
            }),
        ];
        self.properties_of_settling(&mut properties);
        self.properties_of_asks(&mut properties);
        if self.scope.left.pauses > 0 {
            properties.push(Property::sometimes(
                "a job runs that was paused",
                |model: &Self, world: &World| {
                    world.pauses.is_resumed() && has_state(model, world, JobState::Running)
                },
            ));
        }
        if self.scope.left.notes > 0 {
            properties.push(Property::sometimes(
                "a runner hears the last notification",
                |model: &Self, world: &World| {
                    let all = usize::from(model.scope.left.notes);
                    let heard = |hand: &Hand| hand.active().is_some_and(|held| held.heard.next == all);
                    world.workers.iter().any(|worker| worker.hands.iter().any(heard))
                },
            ));
        }
        if self.scope.left.states > 0 {
            properties.push(Property::sometimes(
                "another worker begins with what was left",
                |_: &Self, world: &World| {
                    let states = world.states.iter().enumerate();
                    states.into_iter().any(|(key, states)| {
                        let tokens = world.workers.iter().filter_map(|worker| worker.hands[key].active());
                        tokens.into_iter().any(|held| states.is_of_before(held.token))
                    })
                },
            ));
        }
        if self.scope.left.updates > 0 {
            properties.push(Property::sometimes(
                "a job runs on with the last payload",
                |_: &Self, world: &World| {
                    let payloads = world.payloads.iter().enumerate();
                    world.left.updates == 0
                        && payloads.into_iter().any(|(key, payloads)| {
                            let mut held =
                                world.workers.iter().filter_map(|worker| worker.hands[key].active());
                            held.any(|held| held.ran > 0 && !payloads.has_later(held.ran))
                        })
                },
            ));
        }
        if self.scope.endings.contains(&ReleaseMode::Fail) {
            properties.push(Property::sometimes("a job is parked", |model: &Self, world: &World| {
                has_state(model, world, JobState::Parked)
            }));
        }
        if self.scope.stops {
            properties.push(Property::sometimes("a job is stopping", |model: &Self, world: &World| {
                has_state(model, world, JobState::Stopping)
            }));
        }
        if self.scope.left.fences > 0 || self.scope.leases {
            properties.push(Property::sometimes(
                "a fenced worker's job runs elsewhere",
                |_: &Self, world: &World| {
                    let active: Vec<_> = world.workers.iter().flat_map(|w| &w.hands).collect();
                    let runs = |of| active.iter().any(|hand| hand.active().is_some_and(|held| held.of == of));
                    world.workers.iter().any(|worker| worker.cut.iter().any(|of| runs(*of)))
                },
            ));
        }
        if self.scope.left.losses > 0 {
            properties.push(Property::sometimes(
                "a running job outlives a loss of data",
                |_: &Self, world: &World| {
                    world.left.losses == 0
                        && !world.store.is_recovering()
                        && world.fates.iter().all(|fate| !fate.over)
                        && world.left.mints > 0
                        && world.workers.iter().any(|w| w.hands.iter().any(|hand| hand.active().is_some()))
                },
            ));
        }
        if self.scope.left.drains > 0 {
            properties.push(Property::sometimes("a worker has left", |_: &Self, world: &World| {
                world.workers.iter().any(|worker| worker.life == Life::Left)
            }));
        }
        if self.scope.endings.contains(&ReleaseMode::Delete) {
            properties.push(Property::sometimes("every job has ended", |_: &Self, world: &World| {
                world.fates.iter().all(|fate| fate.over)
            }));
        }
        if let Some(only) = &self.only {
            properties.retain(|property| property.name.starts_with(only.as_str()));
        }
        properties
    }
}

impl Pool {
    /// The ends of an ask, each of which a walk must reach.
    fn properties_of_asks(&self, properties: &mut Vec<Property<Self>>) {
        let Some(kind) = self.scope.ask else { return };
        let answered = |_: &Self, world: &World| world.asked.is_answered();
        let refused = |_: &Self, world: &World| world.asked.is_refused();
        let unknown = |_: &Self, world: &World| world.asked.is_unknown();
        properties.extend([
            Property::sometimes("an ask is answered", answered),
            Property::sometimes("an ask ends as not handled", refused),
            Property::sometimes("an ask ends, and nobody knows how", unknown),
        ]);
        if kind.idempotent {
            properties
                .push(Property::sometimes("the next owner answers an ask", |_: &Self, world: &World| {
                    world.asked.is_answered() && world.asked.owners() > 1
                }));
        }
        if kind.starts {
            properties.push(Property::sometimes("an ask starts its job", |_: &Self, world: &World| {
                world.asked.is_answered() && world.asked.has_started_its_job()
            }));
        }
    }

    /// The properties that hold at last, wherever a walk goes. Each of them stays true once it is, so that it does not
    /// matter on which way a state was reached first.
    fn properties_of_settling(&self, properties: &mut Vec<Property<Self>>) {
        if !self.scope.settles {
            return;
        }
        properties.push(Property::eventually("L3 every dead worker is reaped", |_: &Self, world: &World| {
            let fenced = world.workers.iter().filter(|worker| worker.life == Life::Fenced);
            let known = |id| world.store.members().any(|(member, _)| member == id);
            let over = world.calm || world.store.is_closed();
            over && world.store.dead().next().is_none() && fenced.into_iter().all(|w| !known(w.id))
        }));
        if self.scope.closes {
            properties.push(Property::eventually("L5 a shutdown ends", |_: &Self, world: &World| {
                world.store.is_closed()
            }));
            properties.push(Property::sometimes(
                "a pool is closed without a fault",
                |_: &Self, world: &World| {
                    world.store.is_closed() && world.workers.iter().all(|worker| worker.life == Life::Left)
                },
            ));
            return;
        }
        properties.push(Property::eventually("L1 every job runs at last", |model: &Self, world: &World| {
            model.runs_or_has_ended(world)
        }));
        properties.push(Property::eventually("L2 every stop ends", |model: &Self, world: &World| {
            world.calm && !has_state(model, world, JobState::Stopping)
        }));
        properties.push(Property::sometimes("all is calm, and a job runs", |model: &Self, world: &World| {
            model.runs_or_has_ended(world) && has_state(model, world, JobState::Running)
        }));
    }
}
