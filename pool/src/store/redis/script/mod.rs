//! The table of scripts, one for each file under `lua/`. The header of a file names the `KEYS`. The keys of calls and the Lua
//! locals come from the header, and cannot disagree.

use tenure_connection::{KeyedScript, Script, ScriptFile, scripts};
use tenure_steps::{Parts, ScriptPatch, parts};

use super::keys::{Keys, NAMES};
use super::messages::Took;
use super::ownership::{Begun, Heard, Noted};
use crate::store::{
    AskReply, AttestReply, DispatchReply, Expired, HeldState, NotifyOrStartReply, NotifyReply, ReleaseReply,
    ReplyReply, RouteReply, SaveReply, SteerReply, StopReply, TermReply, UnparkReply, UpdateReply,
};

/// The source of the scripts' time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// The server's clock.
    Server,
    /// The pool's key `clock`, for tests that compare two stores.
    Key,
}

scripts! {
    /// All scripts of one pool.
    pub(super) struct Scripts in "../../lua/" {
        ask = "ask-4+" answers AskReply,
        attend = "attend-15",
        attest = "attest-18" answers AttestReply,
        begin = "begin-9+" answers Heard | Begun,
        bootstrap = "bootstrap-4",
        change_settings = "change_settings-3",
        cleanup = "cleanup-21",
        cordon = "cordon-3",
        dispatch = "dispatch-13+" answers DispatchReply,
        drain = "drain-3",
        due = "due-2",
        drop_notifications = "drop_notifications-3",
        expire = "expire-6" answers Expired,
        explain = "explain-11",
        figures = "figures-5",
        history = "history-2",
        inspect = "inspect-9" answers HeldState,
        join = "join-7",
        lookup = "lookup-3",
        note = "note-2",
        notifications = "notifications-2",
        notify = "notify-5+" answers NotifyReply,
        notify_or_start = "notify_or_start-11+" answers NotifyOrStartReply,
        open_normal = "open_normal-4",
        owned = "owned-3",
        parked = "parked-3",
        pauses = "pauses-2",
        planned = "planned-3",
        prune_consumers = "prune_consumers-2",
        purge = "purge-13",
        raise_level = "raise_level-3",
        reap = "reap-16",
        recover = "recover-3",
        release = "release-15+" answers ReleaseReply,
        renew = "renew-10+",
        reply = "reply-3+" answers ReplyReply,
        restore_group = "restore_group-2",
        route = "route-9+" answers RouteReply,
        save = "save-4" answers SaveReply,
        sched = "sched-3",
        settle = "settle-4",
        shutdown = "shutdown-3",
        started = "started-5+" answers Noted,
        steer = "steer-9+" answers SteerReply,
        stop = "stop-15+" answers StopReply,
        sweep = "sweep-11",
        take = "take-4" answers Took,
        unpark = "unpark-8" answers UnparkReply,
        term = "term-2" answers TermReply,
        tick = "tick-3",
        update = "update-6+" answers UpdateReply,
    }
}

impl Scripts {
    /// The scripts of the pool with these keys. A process makes each unchanged text and script once, for all pools.
    pub(super) fn new(keys: &Keys, clock: Clock, patches: &[ScriptPatch]) -> Self {
        Self::made_by(|file| {
            let shared = file.file().keys().into_iter().filter(|name| NAMES.contains(name));
            let script = match clock {
                Clock::Server if patches.is_empty() => file.script(&PARTS),
                _ => changed(file, keys, clock, patches),
            };
            KeyedScript::new(script, shared.map(|name| keys.named(name)).collect())
        })
    }
}

/// The script with this clock, broken by a proof.
fn changed(file: &ScriptFile, keys: &Keys, clock: Clock, patches: &[ScriptPatch]) -> Script {
    let (name, text) = (file.file().script(), file.text(&PARTS));
    let text =
        if clock == Clock::Key { PARTS.with_clock_key(text, &keys.named("clock")) } else { text.to_owned() };
    Script::new(name, &tenure_steps::patched(name, text, patches))
}

/// Whether a server with full memory refuses the script of this name; `None` if there is no such script. The simulator of
/// the pool asks.
#[cfg(any(test, feature = "proof"))]
pub fn needs_memory(script: &str) -> Option<bool> {
    Some(Scripts::FILES.iter().find(|file| file.script() == script)?.needs_memory())
}

/// The shared parts; `change` is the replicated map's own.
const PARTS: Parts = parts! {
    "../../lua/parts/":
    accept, accept_one, base, checkpoints, clock, confirm, delete, elsewhere, finish, generation, give, grants, guard, keep,
    living, member, notes, outcome, paused, records, requeue, ring, run_ends, seats, send, settings, suspect, tell,
    term, tokens, why;
    change = tenure_rmap::lua::CHANGE
};

#[cfg(test)]
mod tests;
