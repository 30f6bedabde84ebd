//! The text of arguments and answers, which both stores share.

use std::fmt::Write as _;

use bytes::Bytes;

use super::asked::{Data, Request, Settle, Steer};
use super::{Hint, News};
use crate::model::id::{GroupName, JobId, QueueName, Token};
use crate::model::record::State;

fn data(data: &Data) -> Bytes {
    match data {
        Data::Keep => Bytes::new(),
        Data::Replace(bytes) => [b"r", &**bytes].concat().into(),
        Data::Append(bytes) => [b"a", &**bytes].concat().into(),
    }
}

impl Settle {
    /// The mode's letter, and its two arguments.
    pub(crate) fn words(&self) -> (char, Bytes, Bytes) {
        let number = |n: &u64| Bytes::from(n.to_string());
        match self {
            Self::Done(result, d) => ('c', result.clone(), data(d)),
            Self::MoveOn { queue, priority, group, data: d } => {
                let mut to = queue.to_string();
                if priority.is_some() || group.is_some() {
                    let _ = write!(to, "|{}", priority.map(|p| p.to_string()).unwrap_or_default());
                }
                if let Some(group) = group {
                    let _ = write!(to, "|{group}");
                }
                ('m', to.into(), data(d))
            }
            Self::Wait(delay, d) => ('w', number(delay), data(d)),
            Self::Retry(delay, error) => ('r', number(delay), error.clone()),
            Self::Fail(error, d) => ('f', error.clone(), data(d)),
            Self::Later(delay, reason) => ('d', number(delay), reason.clone()),
            Self::GiveBack => ('b', Bytes::new(), Bytes::new()),
            Self::GoOn(d) => ('u', Bytes::new(), data(d)),
            Self::Note(notes) => ('n', Bytes::new(), notes.clone()),
            Self::Resubmit(due) => ('a', number(due), Bytes::new()),
            Self::Limited(until) => ('l', number(until), Bytes::new()),
        }
    }
}

impl Request {
    /// The request's letter, what it is about, and its argument.
    pub(crate) fn words(&self) -> (char, String, String) {
        let group = |queue: &QueueName, group: &Option<GroupName>| {
            format!("{queue}|{}", group.as_ref().map_or("", GroupName::as_str))
        };
        match self {
            Self::Job(id, steer) => {
                let (letter, argument) = match steer {
                    Steer::Cancel(reason) => ('x', reason.clone()),
                    Steer::Remove => ('X', String::new()),
                    Steer::Pause => ('p', String::new()),
                    Steer::Resume => ('u', String::new()),
                    Steer::Replay(due) => ('y', due.to_string()),
                    Steer::At(due) => ('t', due.to_string()),
                    Steer::Priority(priority) => ('g', priority.to_string()),
                    Steer::Close => ('o', String::new()),
                };
                (letter, id.to_string(), argument)
            }
            Self::PauseQueue(queue, on) => ('q', queue.to_string(), u8::from(*on).to_string()),
            Self::PauseGroup(queue, of, on) => {
                ('G', group(queue, of), if *on { "p" } else { "u" }.to_owned())
            }
            Self::LimitGroup(queue, of, limit) => {
                let text = limit.map_or_else(|| ",".to_owned(), |(n, ms)| format!("{n},{ms}"));
                ('G', group(queue, of), format!("l{text}"))
            }
            Self::GroupConcurrency(queue, of, most) => {
                ('G', group(queue, of), format!("c{}", most.map(|n| n.to_string()).unwrap_or_default()))
            }
            Self::GroupWeight(queue, of, weight) => ('G', group(queue, of), format!("w{weight}")),
            Self::ResetGroup(queue, of) => ('G', group(queue, of), "-".to_owned()),
        }
    }
}

/// A message to watchers: id, state or `-`, token, number, data or false, end or false, notes or false.
fn news(mut packed: &[u8]) -> Option<News> {
    // A message is one list of plain values: a text in a list counts as five levels.
    let told = rmpv::decode::read_value_with_max_depth(&mut packed, 5).ok()?;
    let rmpv::Value::Array(list) = told else { return None };
    let [id, state, token, number, body, outcome, notes] = <[_; 7]>::try_from(list).ok()?;
    let bytes = |value| match value {
        rmpv::Value::String(text) => Some(Some(text.into_bytes().into())),
        rmpv::Value::Boolean(_) => Some(None),
        _ => None,
    };
    Some(News {
        id: JobId::new(id.as_str()?).ok()?,
        state: State::of(state.as_str()?),
        token: Token(token.as_str()?.parse().ok()?),
        number: number.as_str()?.parse().ok()?,
        body: bytes(body)?,
        outcome: bytes(outcome)?,
        notes: bytes(notes)?,
    })
}

/// Reads a message to a node; `None` for one of a newer version.
pub(crate) fn hint(message: &[u8]) -> Option<Hint> {
    let kind = *message.first()?;
    if kind == b's' {
        return news(message.get(2..)?).map(Hint::News);
    }
    let text = std::str::from_utf8(message.get(2..)?).ok()?;
    let execution = || {
        let (id, token) = text.rsplit_once('|')?;
        Some((JobId::new(id).ok()?, Token(token.parse().ok()?)))
    };
    Some(match kind {
        b'w' => match text.split_once('/') {
            Some((queue, group)) => {
                Hint::Ready(QueueName::new(queue).ok()?, Some(GroupName::new(group).ok()?))
            }
            None => Hint::Ready(QueueName::new(text).ok()?, None),
        },
        b'a' => Hint::Earlier,
        b'e' => Hint::Extend,
        b'h' => execution().map(|(id, token)| Hint::Halted(id, token))?,
        b'c' => execution().map(|(id, token)| Hint::Cancel(id, token))?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn hints_are_read_and_strange_ones_are_skipped() {
        let id = JobId::new("a:b").unwrap();
        assert_eq!(hint(b"h|a:b|12"), Some(Hint::Halted(id, Token(12))));
        let (mail, tenant) = (QueueName::new("mail").unwrap(), GroupName::new("a/b").unwrap());
        assert_eq!(hint(b"w|mail"), Some(Hint::Ready(mail.clone(), None)));
        assert_eq!(hint(b"w|mail/a/b"), Some(Hint::Ready(mail, Some(tenant))));
        for strange in [&b""[..], b"w", b"w|", b"w|mail/", b"h|x", b"?|x", b"s|\xff", b"w|\xff"] {
            assert_eq!(hint(strange), None, "{strange:?}");
        }
    }

    #[test]
    fn news_is_read_as_a_script_packs_it() {
        let packed = b"s|\x97\xa1j\xa1R\xa212\xa13\xc2\xa3Cok\xc2";
        let Some(Hint::News(news)) = hint(packed) else { panic!() };
        assert_eq!(
            (news.id.as_str(), news.state, news.token, news.number),
            ("j", Some(State::Running), Token(12), 3)
        );
        assert_eq!((news.body, news.outcome.as_deref()), (None, Some(&b"Cok"[..])));
        let deep = [&b"s|\x97\xa1j\xa1R\xa212\xa13\xc2"[..], &b"\x91".repeat(100_000), b"\xc0"].concat();
        assert_eq!(hint(&deep), None, "one that nests deep is none, and ends no thread");
    }
}
