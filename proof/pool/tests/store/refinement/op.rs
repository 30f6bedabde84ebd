//! The next act of a random client, in small numbers that are resolved against the state. So a sequence stays valid
//! when parts of it are removed.

use proptest::collection::vec;
use proptest::prelude::*;
use tenure_pool::store::Way;

/// True nine times in ten: the client is up to date.
pub(crate) type Aim = bool;

/// The starts of one worker, and whether its oldest entry is finished.
pub(crate) type Noted = (Vec<(usize, Aim, Option<usize>)>, bool);

/// One move.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Join {
        preferred: Option<u32>,
        again: bool,
        other_settings: bool,
    },
    Settle(usize),
    /// From now on the client has level 2, or 1.
    Client(bool),
    Raise(u32),
    Cordon {
        node: usize,
        on: bool,
        aim: Aim,
    },
    ChangeSettings(Vec<(usize, Aim, u64)>),
    Drain(Vec<usize>),
    /// Workers with whether each leaves by itself, and whether its counter is named rightly.
    Expire(Vec<(usize, bool, bool)>),
    /// A worker's own end.
    Leave(usize),
    Reap {
        worker: usize,
        limit: usize,
    },
    Renew {
        workers: Vec<usize>,
        node: Option<usize>,
        ahead: u64,
        floor: u32,
    },
    /// `placed`: with a worker for each job, picked from the present ring or an earlier one.
    Dispatch {
        jobs: Vec<Dispatched>,
        placed: Option<(usize, Aim)>,
    },
    /// A queued job is routed and begun at once.
    Run(usize),
    Route {
        read: usize,
        extra: Vec<usize>,
        spread: usize,
        aim: Aim,
    },
    Begin(Vec<Begun>),
    Started(Vec<Noted>),
    Release {
        jobs: Vec<Released>,
        finish: bool,
    },
    Stop {
        jobs: Vec<Stopped>,
        repeat: bool,
        waiting: Option<usize>,
    },
    Unpark(Vec<(usize, Aim)>),
    /// Ways, and whether token and time are those of the record.
    Steer(Vec<(usize, Aim, Aim, usize)>),
    /// A schedule is made, changed or ended.
    Sched {
        schedule: usize,
        change: usize,
        period: u64,
        aim: Aim,
    },
    /// Nodes hold, take over and leave turns.
    Term {
        node: usize,
        items: Vec<(usize, u64, bool, Aim)>,
    },
    Tick {
        schedule: usize,
        aim: Aim,
        ahead: u64,
    },
    DispatchPlanned {
        schedule: usize,
        jobs: Vec<Dispatched>,
        aim: Aim,
    },
    UpdatePlanned {
        schedule: usize,
        items: Vec<(usize, Aim, i64, usize)>,
        aim: Aim,
    },
    StopPlanned {
        schedule: usize,
        jobs: Vec<(usize, Aim, Aim)>,
        aim: Aim,
    },
    Planned {
        schedule: usize,
        after: Option<usize>,
        limit: usize,
    },
    Notify(Vec<(usize, Aim, usize)>),
    /// Other payloads, each by the record's generation or by another one.
    Update(Vec<(usize, Aim, i64, usize)>),
    /// Notifications that start their jobs: with the guess of the owner, and whether the ring is the present one.
    NotifyOrStart {
        items: Vec<(Dispatched, Aim, usize)>,
        placed: Option<(usize, Aim)>,
    },
    DropNotifications {
        key: usize,
        behind: u64,
    },
    Take {
        jobs: Vec<(usize, Aim, u64)>,
        finish: bool,
    },
    /// Checkpoints, each under the record's token or given under an earlier one.
    SaveStates(Vec<(usize, Aim, Aim, u64, usize)>),
    /// Asks, with how far ahead of the clock each ends.
    Ask {
        items: Vec<(usize, Aim, Aim, i64, usize)>,
        node: usize,
    },
    /// A worker's words to asks, and the nodes to which they go.
    Reply {
        jobs: Vec<(usize, Aim, usize, usize)>,
        finish: bool,
    },
    Sweep {
        limit: usize,
        kick: Option<usize>,
    },
    Inspect {
        worker: usize,
        keys: Vec<(usize, Aim)>,
    },
    Owned {
        worker: usize,
        after: Option<usize>,
        limit: usize,
    },
    Read {
        node: usize,
        max: usize,
    },
    Claim {
        node: usize,
        max: usize,
    },
    NodeEvents {
        node: usize,
        max: usize,
    },
    Look,
    Note {
        most: u64,
        entry: usize,
    },
    Tell(Vec<usize>),
    Clock(i64),
    Damage {
        key: usize,
        kind: usize,
    },
    Stray {
        worker: usize,
        key: usize,
    },
    LoseGroup,
    Shutdown(usize),
    Purge,
    Cleanup,
    /// `ended`: what the caller knows about a pool that has ended: nothing, an earlier incarnation, or this one.
    Recover {
        ended: usize,
        floor: u32,
    },
    OpenNormal,
    /// A later loss leaves the data of now.
    Save,
    /// The data are lost, or roll back; another incarnation begins, in which some workers attest.
    Lose {
        all: bool,
        said: Vec<Said>,
    },
    /// In phase R: a worker reports its jobs, and then sends its final report or not.
    Attest(Said),
    /// After a recovery: everybody leaves, the pool opens.
    Reopen,
    /// Everybody leaves and is reaped.
    End,
    /// `seen`: the caller has seen the last incarnation.
    Bootstrap {
        seen: Aim,
        ended: usize,
        floor: u32,
    },
    Prune,
    ForgetNode(usize),
    /// An earlier call, sent again as it was.
    Resend(usize),
    /// The next call is made with the incarnation before.
    Outdated,
}

/// The words of one worker in a recovery.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) worker: usize,
    pub(crate) member: usize,
    pub(crate) jobs: Vec<Attested>,
    /// Pages of this size are its last word.
    pub(crate) attends: Option<usize>,
}

/// One job of an attestation.
#[derive(Clone, Debug)]
pub(crate) struct Attested {
    pub(crate) key: usize,
    /// As it was before the last loss, not as it is now.
    pub(crate) before: bool,
    pub(crate) right_worker: Aim,
    pub(crate) right_id: Aim,
    pub(crate) elsewhere: bool,
    /// Relative to the record's.
    pub(crate) token: i64,
    pub(crate) what: usize,
    pub(crate) payload: bool,
}

/// A job of a dispatch.
#[derive(Clone, Debug)]
pub(crate) struct Dispatched {
    pub(crate) key: usize,
    pub(crate) id: usize,
    pub(crate) hash: usize,
    pub(crate) size: usize,
    pub(crate) deadline: i64,
}

/// A job of a stop.
#[derive(Clone, Debug)]
pub(crate) struct Stopped {
    pub(crate) key: usize,
    pub(crate) right_id: Aim,
    pub(crate) right_owner: Aim,
    /// If it is not there, it never will be.
    pub(crate) forbid: bool,
    /// Another node than the one that dispatched it knows it by the caller's id.
    pub(crate) elsewhere: bool,
}

/// The jobs that one worker begins.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) jobs: Vec<(usize, Aim)>,
    /// It has finished with an entry of its stream.
    pub(crate) finish: bool,
    /// It begins none of the jobs.
    pub(crate) idle: bool,
}

/// A job of a release.
#[derive(Clone, Debug)]
pub(crate) struct Released {
    pub(crate) key: usize,
    pub(crate) aim: Aim,
    pub(crate) mode: usize,
    pub(crate) ran: Option<u64>,
    pub(crate) delay: u64,
    pub(crate) tell: Option<usize>,
    pub(crate) tell_stopper: Option<usize>,
    pub(crate) result: usize,
}

fn aim() -> impl Strategy<Value = Aim> {
    prop::bool::weighted(0.9)
}

fn rare() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.1)
}

fn dispatched() -> impl Strategy<Value = Dispatched> {
    let deadline = prop_oneof![8 => Just(1_000), 1 => Just(-1), 1 => Just(3_001)];
    let size = prop_oneof![9 => 0_usize..20, 1 => Just(33)];
    let parts = (0_usize..8, 0_usize..24, 0_usize..2, size, deadline);
    parts.prop_map(|(key, id, hash, size, deadline)| Dispatched { key, id, hash, size, deadline })
}

fn begun() -> impl Strategy<Value = Begun> {
    let parts = (vec((0_usize..10, aim()), 1..6), any::<bool>(), rare());
    parts.prop_map(|(jobs, finish, idle)| Begun { jobs, finish, idle })
}

fn released() -> impl Strategy<Value = Released> {
    let node = || prop::option::of(0_usize..3);
    let delay = prop_oneof![2 => Just(0), 1 => Just(400), 1 => Just(300_000)];
    let mode = prop_oneof![1 => Just(0_usize), 2 => Just(1_usize), 2 => Just(2_usize), 5 => Just(3_usize), 2 => Just(4_usize), 1 => Just(5_usize), 2 => Just(6_usize)];
    let ran = prop::option::of(0_u64..2);
    let parts = (0_usize..10, aim(), mode, ran, delay, node(), node(), 0_usize..4);
    parts.prop_map(|(key, aim, mode, ran, delay, tell, tell_stopper, result)| Released {
        key,
        aim,
        mode,
        ran,
        delay,
        tell,
        tell_stopper,
        result,
    })
}

fn stopped() -> impl Strategy<Value = Stopped> {
    let parts = (0_usize..10, aim(), aim(), any::<bool>(), rare());
    parts.prop_map(|(key, right_id, right_owner, forbid, elsewhere)| Stopped {
        key,
        right_id,
        right_owner,
        forbid,
        elsewhere,
    })
}

fn attested() -> impl Strategy<Value = Attested> {
    let token = prop_oneof![6 => Just(0_i64), 1 => Just(-1_i64), 1 => Just(1_i64)];
    let parts =
        (0_usize..10, prop::bool::weighted(0.7), aim(), aim(), rare(), token, 0_usize..8, any::<bool>());
    parts.prop_map(|(key, before, right_worker, right_id, elsewhere, token, what, payload)| Attested {
        key,
        before,
        right_worker,
        right_id,
        elsewhere,
        token,
        what,
        payload,
    })
}

fn said() -> impl Strategy<Value = Said> {
    let attends = prop::option::weighted(0.7, 1_usize..4);
    let parts = (0_usize..8, 0_usize..6, vec(attested(), 0..8), attends);
    parts.prop_map(|(worker, member, jobs, attends)| Said { worker, member, jobs, attends })
}

fn clock() -> impl Strategy<Value = i64> {
    prop_oneof![
        6 => 0_i64..700,
        3 => Just(2_500_i64),
        2 => Just(6_000_i64),
        1 => Just(35_000_i64),
        2 => -400_i64..0,
        1 => Just(-330_000_i64),
    ]
}

/// One move of a random client; those that keep jobs going come most often.
fn op() -> impl Strategy<Value = Op> {
    let key = || 0_usize..10;
    let worker = || 0_usize..8;
    let node = || 0_usize..3;
    let jobs = prop_oneof![
        9 => (vec(dispatched(), 1..5), prop::option::of((worker(), aim())))
            .prop_map(|(jobs, placed)| Op::Dispatch { jobs, placed }),
        24 => key().prop_map(Op::Run),
        16 => (1_usize..6, vec(key(), 0..3), 1_usize..3, aim())
            .prop_map(|(read, extra, spread, aim)| Op::Route { read, extra, spread, aim }),
        16 => vec(begun(), 1..4).prop_map(Op::Begin),
        6 => vec((vec((key(), aim(), prop::option::of(node())), 1..4), any::<bool>()), 1..4)
            .prop_map(Op::Started),
        16 => (vec(released(), 1..4), any::<bool>()).prop_map(|(jobs, finish)| Op::Release { jobs, finish }),
        4 => (vec(stopped(), 1..4), rare(), prop::option::of(node()))
            .prop_map(|(jobs, repeat, waiting)| Op::Stop { jobs, repeat, waiting }),
        4 => vec((key(), aim()), 1..4).prop_map(Op::Unpark),
        6 => vec((key(), aim(), aim(), 0..Way::ALL.len()), 1..4).prop_map(Op::Steer),
        7 => vec((key(), aim(), 0_usize..30), 1..5).prop_map(Op::Notify),
        6 => vec((key(), aim(), prop_oneof![6 => Just(0_i64), 1 => -1_i64..2], 0_usize..30), 1..5)
            .prop_map(Op::Update),
        5 => (vec((dispatched(), aim(), 0_usize..30), 1..5), prop::option::of((0_usize..4, aim())))
            .prop_map(|(items, placed)| Op::NotifyOrStart { items, placed }),
        2 => (key(), 0_u64..6).prop_map(|(key, behind)| Op::DropNotifications { key, behind }),
        6 => (vec((key(), aim(), 0_u64..6), 1..4), any::<bool>()).prop_map(|(jobs, finish)| Op::Take { jobs, finish }),
        8 => vec((key(), aim(), aim(), 1_u64..5, 0_usize..14), 1..4).prop_map(Op::SaveStates),
        6 => (vec((key(), aim(), aim(), -2_i64..60_000, 0_usize..14), 1..5), node())
            .prop_map(|(items, node)| Op::Ask { items, node }),
        6 => (vec((key(), aim(), node(), 0_usize..4), 1..4), any::<bool>())
            .prop_map(|(jobs, finish)| Op::Reply { jobs, finish }),
        8 => (1_usize..9, proptest::option::of(0_usize..3)).prop_map(|(limit, kick)| Op::Sweep { limit, kick }),
        8 => clock().prop_map(Op::Clock),
        5 => (0_usize..20).prop_map(Op::Resend),
    ];
    let schedule = || prop_oneof![4 => Just(0_usize), 1 => 0_usize..4];
    let plans = prop_oneof![
        6 => (schedule(), 0_usize..6, 1_u64..2_000, aim())
            .prop_map(|(schedule, change, period, aim)| Op::Sched { schedule, change, period, aim }),
        8 => (node(), vec((schedule(), 0_u64..2, rare(), any::<bool>()), 1..4))
            .prop_map(|(node, items)| Op::Term { node, items }),
        6 => (schedule(), aim(), 0_u64..3).prop_map(|(schedule, aim, ahead)| Op::Tick { schedule, aim, ahead }),
        10 => (schedule(), vec(dispatched(), 1..5), aim())
            .prop_map(|(schedule, jobs, aim)| Op::DispatchPlanned { schedule, jobs, aim }),
        3 => (schedule(), vec((key(), aim(), aim()), 1..4), aim())
            .prop_map(|(schedule, jobs, aim)| Op::StopPlanned { schedule, jobs, aim }),
        4 => (schedule(), vec((key(), aim(), Just(0_i64), 0_usize..30), 1..4), aim())
            .prop_map(|(schedule, items, aim)| Op::UpdatePlanned { schedule, items, aim }),
        2 => (schedule(), prop::option::of(key()), 1_usize..4)
            .prop_map(|(schedule, after, limit)| Op::Planned { schedule, after, limit }),
    ];
    let members = prop_oneof![
        8 => (prop::option::of(0_u32..4), rare(), rare())
            .prop_map(|(preferred, again, other_settings)| Op::Join { preferred, again, other_settings }),
        3 => worker().prop_map(Op::Settle),
        2 => prop::bool::weighted(0.7).prop_map(Op::Client),
        2 => (0_u32..4).prop_map(Op::Raise),
        2 => (0_usize..3, any::<bool>(), aim()).prop_map(|(node, on, aim)| Op::Cordon { node, on, aim }),
        2 => vec((0_usize..6, aim(), 3_u64..6), 0..3).prop_map(Op::ChangeSettings),
        2 => vec(worker(), 1..3).prop_map(Op::Drain),
        3 => vec((worker(), any::<bool>(), aim()), 1..4).prop_map(Op::Expire),
        5 => (worker(), 1_usize..4).prop_map(|(worker, limit)| Op::Reap { worker, limit }),
        3 => (vec(worker(), 1..4), prop::option::of(node()), 0_u64..3, 0_u32..4)
            .prop_map(|(workers, node, ahead, floor)| Op::Renew { workers, node, ahead, floor }),
    ];
    let reads = prop_oneof![
        2 => (worker(), prop::option::of(key()), 1_usize..4)
            .prop_map(|(worker, after, limit)| Op::Owned { worker, after, limit }),
        4 => (worker(), vec((key(), aim()), 0..3)).prop_map(|(worker, keys)| Op::Inspect { worker, keys }),
        2 => (node(), 1_usize..4).prop_map(|(node, max)| Op::Read { node, max }),
        2 => (node(), 1_usize..4).prop_map(|(node, max)| Op::Claim { node, max }),
        3 => (node(), 1_usize..40).prop_map(|(node, max)| Op::NodeEvents { node, max }),
        1 => Just(Op::Look),
        2 => (0_u64..4, 0_usize..9).prop_map(|(most, entry)| Op::Note { most, entry }),
        1 => vec(0_usize..24, 1..4).prop_map(Op::Tell),
        1 => Just(Op::Prune),
        1 => node().prop_map(Op::ForgetNode),
    ];
    let faults = prop_oneof![
        2 => (key(), 0_usize..6).prop_map(|(key, kind)| Op::Damage { key, kind }),
        2 => (worker(), key()).prop_map(|(worker, key)| Op::Stray { worker, key }),
        1 => Just(Op::LoseGroup),
        1 => (0_usize..3, 0_u32..3).prop_map(|(ended, floor)| Op::Recover { ended, floor }),
        2 => Just(Op::Save),
        3 => (rare(), vec(said(), 0..5)).prop_map(|(all, said)| Op::Lose { all, said }),
        6 => said().prop_map(Op::Attest),
        2 => Just(Op::OpenNormal),
        2 => Just(Op::Outdated),
        8 => Just(Op::Reopen),
        1 => (0_usize..3).prop_map(Op::Shutdown),
    ];
    prop_oneof![170 => jobs, 30 => plans, 28 => members, 16 => reads, 26 => faults]
}

/// One move of a pool that is being shut down.
fn ending() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0_usize..3).prop_map(Op::Shutdown),
        3 => Just(Op::Purge),
        3 => (0_usize..8).prop_map(Op::Leave),
        4 => (0_usize..8, 1_usize..4).prop_map(|(worker, limit)| Op::Reap { worker, limit }),
        2 => Just(Op::Cleanup),
        1 => Just(Op::End),
        1 => Just(Op::Look),
        1 => (any::<bool>(), 0_usize..3, 0_u32..3)
            .prop_map(|(seen, ended, floor)| Op::Bootstrap { seen, ended, floor }),
        1 => Just(Op::OpenNormal),
        6 => op(),
    ]
}

/// A life of the pool.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    pub(crate) max_attempts: u32,
    pub(crate) ops: Vec<Op>,
}

/// A life of the pool, with its end in two of five.
pub(crate) fn walk() -> impl Strategy<Value = Walk> {
    let end = prop::option::weighted(0.4, vec(ending(), 10..40));
    let max_attempts = prop_oneof![1 => Just(1_u32), 1 => Just(2_u32), 2 => Just(9_u32)];
    (max_attempts, vec(op(), 50..150), end).prop_map(|(max_attempts, mut ops, end)| {
        ops.extend(end.into_iter().flatten());
        Walk { max_attempts, ops }
    })
}
