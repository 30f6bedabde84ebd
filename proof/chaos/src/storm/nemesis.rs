//! Inflicts faults, and heals them.

use std::ops::Range;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use redis::cmd;
use tenure_pool::Node;
use tenure_pool::inspect::PoolPhase;
use tenure_testing::history::{Event, boottime_ns};
use tenure_testing::proxy::Direction;
use tenure_testing::{Data, Proxy, RedisServer, within};
use tokio::time::sleep;

use super::arena::{Arena, Ground, NODES, USERS, kill};
use super::fault::{Fault, Occurrence, Scene};
use super::operator;
use crate::Result;
use crate::losses::{self, Change, Loss};

/// The longest time for a node to join, and for a pool to recover.
const PATIENCE: Duration = Duration::from_secs(60);
/// The age of writes that a killed Redis may not have on its disk: at most two seconds with `everysec`, and a margin.
const UNWRITTEN: Duration = Duration::from_secs(3);
/// The longest time from an answer to its record.
const RECORDED: Duration = Duration::from_millis(500);
/// The time until an empty place is taken again.
const VACANT_MS: Range<u64> = 100..1_500;
/// The pause between two faults.
const REST_MS: Range<u64> = 300..1_200;

/// Decides on the next fault and its targets.
pub(super) struct Nemesis {
    pub(super) scene: Scene,
    pub(super) random: StdRng,
    pub(super) occurrences: Vec<Occurrence>,
    only: Vec<Fault>,
    pool: String,
    /// The number of the users' keys.
    keys: usize,
}

impl Nemesis {
    /// Chooses among the faults of the scene, or among `only`, if there are any.
    pub(super) fn new(scene: Scene, only: &[Fault], random: StdRng, pool: &str, keys: usize) -> Self {
        Self { scene, random, occurrences: Vec::new(), only: only.to_vec(), pool: pool.to_owned(), keys }
    }

    /// Inflicts one fault, and heals it. Empty places are taken first. An operator acts through a node of users.
    pub(super) async fn strike(&mut self, arena: &mut Arena, watcher: &Node, operator: &Node) -> Result<()> {
        arena.look_for_the_dead();
        for place in arena.empty() {
            sleep(Duration::from_millis(self.random.random_range(VACANT_MS))).await;
            arena.start(place)?;
        }
        if self.scene == Scene::Everything {
            arena.lose_replies_to_the_unreached(&mut self.random);
        }
        let chosen = self.only.choose(&mut self.random).copied();
        let fault = chosen.unwrap_or_else(|| self.scene.choose(&mut self.random));
        if fault.loses_data() {
            // A worker that has just lost its lease has ended its jobs by then.
            sleep(self.scene.ttl()).await;
            self.await_well(watcher).await?;
        }
        let from = boottime_ns();
        // A fault without a possible target, or without an effect, has not happened.
        if self.make_happen(fault, arena, operator).await? {
            self.occurrences.push(Occurrence { fault, from });
        }
        if fault.loses_data() {
            // By then the watcher has noticed.
            sleep(self.scene.ttl()).await;
            self.await_well(watcher).await?;
            sleep(self.scene.ttl() / 2).await;
        }
        sleep(Duration::from_millis(self.random.random_range(REST_MS))).await;
        Ok(())
    }

    async fn await_well(&self, watcher: &Node) -> Result<()> {
        let is_open = async || watcher.health().phase == PoolPhase::Open;
        Ok(within(PATIENCE, "the pool to be open", is_open).await?)
    }

    async fn make_happen(&mut self, fault: Fault, arena: &mut Arena, operator: &Node) -> Result<bool> {
        let (first, length) = (self.random.random_range(0..NODES), self.scene.disturbance(&mut self.random));
        let someone = self.random.random_range(0..NODES + USERS);
        let happened = match fault {
            Fault::Kill => kill(arena, first, 1).await?,
            Fault::KillTwo => kill(arena, first, 2).await?,
            Fault::ShortPause => pause(arena, first, self.scene.ttl() * 3 / 10).await?,
            Fault::LongPause => pause(arena, first, self.scene.ttl() * 16 / 10).await?,
            Fault::Deploy => deploy(arena, first).await?,
            Fault::Drain => drain(arena, first).await?,
            Fault::RemoteDrain => operator::drain(arena, operator, first, &mut self.random).await?,
            Fault::Cordon => operator::cordon(arena, operator, first, self.scene.ttl()).await?,
            Fault::Hold => operator::hold(arena, operator).await?,
            Fault::NoGrants => operator::grant_nothing(arena, operator, length).await,
            Fault::Hang => operator::hang(arena, operator, self.keys, &mut self.random).await?,
            Fault::RequestsHeld
            | Fault::RepliesHeld
            | Fault::Partition
            | Fault::RepliesLost
            | Fault::Latency
            | Fault::Refused => {
                // In the controls the target is always a node.
                let someone = if self.scene == Scene::Everything { someone } else { first };
                let delivered = self.random.random();
                let Ground::One { proxies, .. } = &arena.ground else { return Ok(false) };
                disturb(fault, &proxies[someone], length, delivered).await
            }
            Fault::FailOver | Fault::MasterLost | Fault::MasterLostAhead => fail_over(fault, arena).await?,
            _ => self.befall_redis(fault, arena, length).await?,
        };
        Ok(happened)
    }

    async fn befall_redis(&mut self, fault: Fault, arena: &Arena, length: Duration) -> Result<bool> {
        let server = arena.ground.server().await?;
        let down = Duration::from_millis(self.random.random_range(0..1_000));
        match fault {
            Fault::ClientKill => {
                let kill = |kind| server.query::<u64>(cmd("CLIENT").arg("KILL").arg("TYPE").arg(kind));
                return Ok(kill("normal")? + kill("pubsub")? > 0);
            }
            Fault::ScriptFlush => server.query(cmd("SCRIPT").arg("FLUSH"))?,
            Fault::GroupDestroyed => {
                let stream = format!("tenure:{{{}}}:starts", self.pool);
                return Ok(server.query::<u64>(cmd("XGROUP").arg("DESTROY").arg(stream).arg("routers"))? > 0);
            }
            Fault::MemoryFull => {
                let before = out_of_memory(server)?;
                limit_memory(server, 1)?;
                sleep(length).await;
                limit_memory(server, 0)?;
                return Ok(out_of_memory(server)? > before);
            }
            Fault::RedisPause => {
                server.pause()?;
                sleep(length).await;
                server.resume()?;
            }
            Fault::FlushAll => {
                let (loss, keys) = losses::flush_all(server, &self.made_first()).await?;
                record_loss(arena, loss, Duration::ZERO).await;
                return Ok(keys > 0);
            }
            Fault::RedisKill | Fault::RedisWipe => {
                let wiped = fault == Fault::RedisWipe;
                let lost = boottime_ns();
                server.kill()?;
                sleep(down).await;
                server.restart(if wiped { Data::Wipe } else { Data::Keep })?;
                let back =
                    if wiped { losses::made_anew(server, &self.made_first()).await? } else { boottime_ns() };
                record_loss(arena, Loss { lost, since: lost, back, wiped }, UNWRITTEN).await;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The key that a pool makes first. No lease is renewed before.
    fn made_first(&self) -> String {
        format!("tenure:{{{}}}:pool", self.pool)
    }
}

/// Records a loss of data. Acknowledgements from up to `before` earlier may be forgotten, too.
async fn record_loss(arena: &Arena, loss: Loss, before: Duration) {
    let Loss { lost, since, back, wiped } = loss;
    sleep(RECORDED).await;
    let since = since.saturating_sub(before.as_nanos() as u64);
    arena.history.record(Event::DataLost { lost, since, back, wiped });
}

fn limit_memory(server: &RedisServer, bytes: u64) -> Result<()> {
    Ok(server.query(cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes))?)
}

/// The number of commands that the server has refused because its memory was full.
fn out_of_memory(server: &RedisServer) -> Result<u64> {
    let errors: String = server.query(cmd("INFO").arg("errorstats"))?;
    let count = errors.lines().find_map(|line| line.strip_prefix("errorstat_OOM:count="));
    Ok(count.map_or(Ok(0), str::parse)?)
}

async fn pause(arena: &mut Arena, first: usize, length: Duration) -> Result<bool> {
    let Some(&place) = arena.ready_from(first).first() else { return Ok(false) };
    let Some(node) = arena.take(place) else { return Ok(false) };
    node.pause()?;
    node.plan().worker_names().for_each(|worker| arena.history.paused(&worker));
    sleep(length).await;
    node.plan().worker_names().for_each(|worker| arena.history.resumed(&worker));
    node.resume()?;
    arena.put(place, node);
    Ok(true)
}

/// Starts a new life of a node first, and then makes the old one leave.
async fn deploy(arena: &mut Arena, first: usize) -> Result<bool> {
    let Some(&place) = arena.ready_from(first).first() else { return Ok(false) };
    let mut new = arena.new_life(place)?;
    new.ready(PATIENCE).await?;
    if let Some(old) = arena.take(place) {
        arena.leave(old).await?;
    }
    arena.put(place, new);
    Ok(true)
}

async fn drain(arena: &mut Arena, first: usize) -> Result<bool> {
    let ready = arena.ready_from(first);
    if ready.len() < 3 {
        return Ok(false);
    }
    if let Some(node) = arena.take(ready[0]) {
        arena.leave(node).await?;
    }
    Ok(true)
}

/// Disturbs a network for this long. Held bytes are then delivered or lost. Returns whether anybody felt it.
async fn disturb(fault: Fault, proxy: &Proxy, length: Duration, delivered: bool) -> bool {
    const PULSE: Duration = Duration::from_millis(60);
    let before = proxy.counts();
    match fault {
        Fault::RequestsHeld => proxy.pause_one_way(Direction::ToServer),
        Fault::RepliesHeld => proxy.pause_one_way(Direction::ToClient),
        Fault::RepliesLost => proxy.drop_replies(),
        Fault::Refused => {
            proxy.refuse().await;
            proxy.kill_all();
        }
        Fault::Latency => {
            let pulses = (length.as_millis() / (2 * PULSE.as_millis())).max(1);
            for _ in 0..pulses {
                proxy.pause();
                sleep(PULSE).await;
                proxy.resume();
                sleep(PULSE).await;
            }
            return before.open > 0;
        }
        _ => proxy.pause(),
    }
    sleep(length).await;
    if !delivered && fault != Fault::Refused {
        proxy.kill_all();
    }
    let after = proxy.counts();
    proxy.resume();
    proxy.accept().await;
    match fault {
        Fault::RepliesLost => after.lost > before.lost,
        Fault::Refused => after.cut > before.cut,
        _ => before.open > 0,
    }
}

async fn fail_over(fault: Fault, arena: &Arena) -> Result<bool> {
    let Ground::Sentinels(sentinels) = &arena.ground else { return Ok(false) };
    let (change, before) = match fault {
        Fault::FailOver => (Change::Ordered, Duration::ZERO),
        Fault::MasterLostAhead => (Change::LostAhead, Duration::ZERO),
        _ => (Change::Lost, RECORDED),
    };
    let loss = losses::fail_over(sentinels, change).await?;
    record_loss(arena, loss, before).await;
    Ok(true)
}
