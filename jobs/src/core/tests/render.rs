//! Renders effects as one line each, for comparison in tests. Executions read `id@token`.

use super::super::effect::{About, Call, Effect, Heard};
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
        Call::Work { worker, again, ends, take } => {
            let again = if *again { "again " } else { "" };
            let ends = ends.as_ref().map(|(lane, ends)| {
                let ends = join(&**ends, |end| settling(&End::settling(end)));
                format!("{}#{} {again}{ends}", lane.name, lane.number)
            });
            let take =
                take.as_ref().map(|(lane, wish)| format!("{}#{} {}", lane.name, lane.number, taking(wish)));
            format!("{worker}: {}", ends.into_iter().chain(take).collect::<Vec<_>>().join("; "))
        }
        Call::Renew(keys) => format!("renew {}", join(keys, key)),
        Call::Watch(how, number, ids) => {
            format!("watch {how:?} by {number}: {}", join(ids, ToString::to_string)).to_lowercase()
        }
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
        Effect::Answer(question, jobs) => format!("answer {question}: {jobs}"),
        Effect::Over(worker) => format!("{worker}: over"),
        Effect::Gone(worker) => format!("{worker}: gone"),
        Effect::Tell(number, Heard::Watches(call)) => format!("{number}: watches by {call}"),
        Effect::Tell(number, Heard::News(news)) => format!("{number}: news of {}", news.id),
        Effect::Tell(number, heard) => format!("{number}: {heard:?}").to_lowercase(),
        Effect::Tick => "tick".into(),
        Effect::Report(level, text, about) => {
            let job = if let About::Job(of) = about { format!("{} ", key(of)) } else { String::new() };
            // As many words as tell the reports apart.
            let text: Vec<_> = text.split(' ').take(5).collect();
            format!("! {level:?}: {job}{}", text.join(" "))
        }
    }
}
