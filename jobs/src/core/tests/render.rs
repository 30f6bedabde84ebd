//! Renders effects as one line each, for comparison in tests. Executions read `id@token`.

use super::super::effect::{Call, Effect, Heard, Notice};
use super::super::execution::{End, Key};
use crate::store::{Settle, Settling, Taking};

fn join<T>(items: impl IntoIterator<Item = T>, line: impl Fn(T) -> String) -> String {
    items.into_iter().map(line).collect::<Vec<_>>().join(" ")
}

fn key((id, token): &Key) -> String {
    format!("{id}@{token}")
}

fn fate(settle: &Settle) -> String {
    let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    match settle {
        Settle::Done(..) => "done".into(),
        Settle::Retry(_, why) => format!("retry '{}'", text(why)),
        Settle::Fail(why, _) => format!("fail '{}'", text(why)),
        Settle::GiveBack => "back".into(),
        other => format!("{other:?}"),
    }
}

fn settling(one: &Settling) -> String {
    format!("{}@{} {}", one.id, one.token, fate(&one.settle))
}

fn taking(taking: &Taking) -> String {
    let group = taking.group.as_ref().map(|group| format!("/{group}")).unwrap_or_default();
    let registration = taking.registration.as_ref().map(|known| format!(" was={known}")).unwrap_or_default();
    format!(
        "take {} of {}{group}{registration}",
        taking.want,
        join(&taking.queues, |(queue, _)| queue.to_string())
    )
}

fn call(call: &Call) -> String {
    match call {
        Call::Work { worker, ends, take } => {
            let ends = ends.as_ref().map(|(lane, ends)| {
                format!(
                    "{}#{} {}",
                    lane.name,
                    lane.number,
                    join(&**ends, |end| settling(&End::settling(end)))
                )
            });
            let take =
                take.as_ref().map(|(lane, wish)| format!("{}#{} {}", lane.name, lane.number, taking(wish)));
            format!("{worker}: {}", ends.into_iter().chain(take).collect::<Vec<_>>().join("; "))
        }
        Call::Repeat { worker, lane, ends, .. } => {
            format!("{worker}: {}#{} repeat {}", lane.name, lane.number, join(ends, settling))
        }
        Call::Renew(keys) => format!("renew {}", join(keys, key)),
        Call::WatchAgain(number, ids) => {
            format!("watch again by {number}: {}", join(ids, ToString::to_string))
        }
        Call::Unwatch(number, id) => format!("unwatch by {number}: {id}"),
    }
}

fn notice(notice: &Notice) -> String {
    match notice {
        Notice::LeaseLost(of) => format!("lease lost {}", key(of)),
        Notice::NotRenewed(_) => "not renewed".into(),
        Notice::Stranded => "stranded".into(),
        Notice::NotRepeated(_) => "not repeated".into(),
        Notice::NotSaid { jobs, again, .. } => {
            format!("{jobs} not said{}", if *again { ", again" } else { "" })
        }
        Notice::CannotGoOn(of) => format!("cannot go on {}", key(of)),
        Notice::WaitsForNothing(of) => format!("waits for nothing {}", key(of)),
        Notice::RightOver => "right over".into(),
        Notice::NotTaken(_) => "not taken".into(),
        Notice::Unheard { why, again } => format!("unheard '{why}'{}", if *again { " again" } else { "" }),
        Notice::HeardAgain => "heard again".into(),
    }
}

pub(super) fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Call(of) => call(of),
        Effect::Begin(Some(worker), execution, _) => format!("{worker}: RUN {}", key(&execution.key())),
        Effect::Begin(None, execution, _) => format!("keep {}", key(&execution.key())),
        Effect::Cancel(of) => format!("CANCEL {}", key(of)),
        Effect::Abort(of) => format!("ABORT {}", key(of)),
        Effect::Look(of) => format!("look {}", key(of)),
        Effect::Forget(of) => format!("forget {}", key(of)),
        Effect::Ended(execution, reply, after) => {
            format!("ended {} {reply:?} after {}ms", key(&execution.key()), after.as_millis())
        }
        Effect::Drained(worker) => format!("{worker}: drained"),
        Effect::GivenBack(worker, jobs) => format!("{worker}: {jobs} given back"),
        Effect::Over(worker) => format!("{worker}: over"),
        Effect::Gone(worker) => format!("{worker}: gone"),
        Effect::Wake(number) => format!("{number}: wake"),
        Effect::Watches(number, call) => format!("{number}: watches by {call}"),
        Effect::Tell(number, Heard::News(news)) => format!("{number}: news of {}", news.id),
        Effect::Tell(number, Heard::Gap) => format!("{number}: gap"),
        Effect::Tick => "tick".into(),
        Effect::Report(of) => format!("! {}", notice(of)),
    }
}
