//! The arguments and answers of the steps that concern asks.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use tenure_steps::{Letters as _, More, ReadLetters as _, letters};

use super::EntryId;
use super::performing::step;
use crate::model::id::{JobKey, NodeName, Token, WorkerId};

/// The longest body of an ask, and of what is said to it, bytes.
pub const ASK_MAX: usize = 64 << 10;
/// A worker's stream with more entries than this takes no asks.
pub const ASK_ENTRIES: usize = 4_096;
/// About how many bytes of asks the stream of a worker holds. Those that wait count as much as the newest ones.
pub const ASK_STREAM: usize = 16 << 20;
/// An entry of replies that is longer than this shortens the stream of its node.
const REPLY_LONG: usize = 4 << 10;
/// About how many bytes of such entries the stream of a node holds.
const REPLY_STREAM: usize = 4 << 20;

/// About how many entries a node's stream keeps when one of replies with this many bytes is added.
pub fn replies_kept(bytes: usize) -> usize {
    if bytes <= REPLY_LONG { super::NODE_STREAM_MAX } else { (REPLY_STREAM / bytes).max(16) }
}

/// One attempt of an ask: `?<life>.<number>`. No dispatch has such an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId {
    /// The run of the node that asks.
    pub life: u64,
    /// Counts the attempts of all asks of that run.
    pub number: u64,
}

impl fmt::Display for AskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "?{}.{}", self.life, self.number)
    }
}

/// The text is not the id of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnAsk;

impl FromStr for AskId {
    type Err = NotAnAsk;
    fn from_str(text: &str) -> Result<Self, NotAnAsk> {
        let (life, number) = text.strip_prefix('?').and_then(|text| text.split_once('.')).ok_or(NotAnAsk)?;
        let number_of = |text: &str| text.parse().ok().filter(|_| !text.starts_with('+')).ok_or(NotAnAsk);
        Ok(Self { life: number_of(life)?, number: number_of(number)? })
    }
}

/// An ask, or a poke after one, for the owner of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskItem {
    /// The job's key.
    pub key: JobKey,
    /// The owner as the caller knows it.
    pub guess: Option<WorkerId>,
    /// The event that the owner reads.
    pub ask: AskEvent,
}

/// An ask as its job's owner reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskEvent {
    /// This attempt.
    pub id: AskId,
    /// The name of the ask, the same in all its attempts: visible ASCII without `|`.
    pub name: String,
    /// The only token under which it may be handed over. 0, which is nobody's, if the caller knows none.
    pub token: Token,
    /// The server's time from which on it is not handed over, ms.
    pub not_after: u64,
    /// Whether it only asks what became of the ask of this id.
    pub poke: bool,
    /// The body, at most [`ASK_MAX`] bytes. That of a poke is empty.
    pub body: Bytes,
}

impl AskEvent {
    /// All but the token and the body, as the stream has it.
    pub fn head(&self) -> String {
        let kind = if self.poke { 'p' } else { 'f' };
        format!("{}|{}|{kind}|{}", self.not_after, self.id, self.name)
    }

    /// Reads the fields of an entry.
    pub fn parse(head: &[u8], token: Token, body: Bytes) -> Option<Self> {
        let mut fields = std::str::from_utf8(head).ok()?.split('|');
        let (not_after, id, kind, name) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let poke = match kind {
            "f" => false,
            "p" => true,
            _ => return None,
        };
        let (not_after, id) = (not_after.parse().ok()?, id.parse().ok()?);
        fields.next().is_none().then(|| Self { id, name: name.to_owned(), token, not_after, poke, body })
    }
}

letters! {
    /// ask's answer for one ask.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum AskReply {
        /// It stands in the stream of the owner.
        b'K': Sent,
        /// Another worker owns the job, or this one under another token. Nothing was done.
        b'M': Owner(Option<(WorkerId, Token)>),
        /// Nobody runs the job, but somebody will. Nothing was done.
        b'W': Waiting,
        /// Its owner under this token is no member any more. Nothing was done.
        b'G': Gone,
        /// The job is being stopped. Nothing was done.
        b'S': Stopping,
        /// The job is parked. Nothing was done.
        b'P': Parked,
        /// The job is paused. Nothing was done.
        b'Y': Paused,
        /// No such job.
        b'N': Absent,
        /// The stream of the owner takes no asks now. Nothing was done.
        b'B': Crowded,
        /// The pool is recovering, and there is no record yet. Ask again.
        b'R': Recovering,
        /// Past its time, or that is more than `max_dispatch_deadline` ahead.
        b'L': Late,
        /// Its record does not parse, or the body is too long.
        b'X': Bad,
    }
}

letters! {
    /// A worker's word to an ask.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Said {
        /// The handler's answer.
        b'a': Answer(Bytes),
        /// The handler refuses it, in these words.
        b'e': Refused(Bytes),
        /// It was handed over, and nobody will answer it.
        b'u': Dropped,
        /// It was dealt with, and what was said is not kept any more.
        b'd': Forgotten,
        /// The job is not held under this token. It was not handed over.
        b'm': Moved,
        /// Too many wait for this job. It was not handed over.
        b'b': Busy,
        /// Its time was over. It was not handed over.
        b'l': Late,
        /// The job's handler takes no asks.
        b'h': Unhandled,
        /// It had not come before the poke for it, and is not handed over from now on.
        b'g': Missed,
    }
}

impl Said {
    /// Whether only the owner of the job may say it: it tells what was done.
    pub fn is_the_owners(&self) -> bool {
        matches!(self, Self::Answer(_) | Self::Refused(_) | Self::Dropped)
    }

    /// As the stream has it: a letter, then the words.
    pub fn encode(&self) -> Bytes {
        let words: &[u8] = match self {
            Self::Answer(words) | Self::Refused(words) => words,
            _ => &[],
        };
        let mut text = Vec::with_capacity(1 + words.len());
        text.push(self.letter());
        text.extend_from_slice(words);
        text.into()
    }

    /// Reads what the stream has. Nothing for a letter of a later version.
    pub fn decode(text: &Bytes) -> Option<Self> {
        let letter = *text.first()?;
        let Ok(said) = Self::read(letter, &mut Words(text.slice(1..)));
        said
    }
}

/// The words behind a letter.
struct Words(Bytes);

impl More<Bytes, Infallible> for Words {
    fn more(&mut self) -> Result<Bytes, Infallible> {
        Ok(self.0.clone())
    }
}

/// A worker's word to an ask, and its asker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyItem {
    /// The job's key.
    pub key: JobKey,
    /// The token of the ask.
    pub token: Token,
    /// The asking node.
    pub asker: NodeName,
    /// The attempt.
    pub id: AskId,
    /// The word.
    pub said: Said,
}

letters! {
    /// reply's answer for one of them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ReplyReply {
        /// The asker was told, if its stream is there.
        b'K': Told,
        /// The worker does not own the job under this token. Nobody was told.
        b'S': Stale,
        /// The pool is recovering, and there is no record yet. Say it again.
        b'R': Recovering,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_id_of_an_attempt_is_read_as_it_was_written() {
        let id = AskId { life: 5, number: 7 };
        assert_eq!(id.to_string(), "?5.7");
        assert_eq!("?5.7".parse(), Ok(id));
        for text in ["", "5.7", "?7", "?.7", "?5.", "?5.+7", "?+5.7", "?5.7.1", "?a.7", "?5.x"] {
            assert_eq!(text.parse::<AskId>(), Err(NotAnAsk), "{text}");
        }
        assert!("?5.7".parse::<crate::model::id::DispatchId>().is_err(), "no dispatch has such an id");
    }

    #[test]
    fn an_ask_is_read_as_it_was_written() {
        let id = "?5.3".parse().unwrap();
        let ask = AskEvent {
            id,
            name: "order-17".into(),
            token: Token(5),
            not_after: 12,
            poke: true,
            body: "x".into(),
        };
        assert_eq!(ask.head(), "12|?5.3|p|order-17");
        assert_eq!(AskEvent::parse(ask.head().as_bytes(), Token(5), "x".into()), Some(ask));
        for head in ["", "12|?5.3|p", "x|?5.3|p|n", "12|5.3|p|n", "12|?5.3|q|n", "12|?5.3|p|n|"] {
            assert_eq!(AskEvent::parse(head.as_bytes(), Token(5), Bytes::new()), None, "{head}");
        }
    }

    #[test]
    fn each_word_to_an_ask_has_its_letter() {
        let words = || Bytes::from_static(b"words");
        for (said, text) in [
            (Said::Answer(words()), "awords"),
            (Said::Refused(words()), "ewords"),
            (Said::Dropped, "u"),
            (Said::Forgotten, "d"),
            (Said::Moved, "m"),
            (Said::Busy, "b"),
            (Said::Late, "l"),
            (Said::Unhandled, "h"),
            (Said::Missed, "g"),
        ] {
            assert_eq!(said.encode(), text);
            assert_eq!(Said::decode(&text.into()), Some(said));
        }
        assert_eq!((Said::decode(&Bytes::new()), Said::decode(&"zebra".into())), (None, None));
    }

    #[test]
    fn long_replies_shorten_a_nodes_stream() {
        let kept = [0, 4_096, 4_097, 65_536, 8 << 20].map(replies_kept);
        assert_eq!(kept, [1_024, 1_024, 1_023, 64, 16]);
    }
}

/// Hands asks of a node to the owners of jobs, under the tokens of the asks.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The asking node.
    pub asker: NodeName,
    /// The asks.
    pub items: Vec<AskItem>,
}

step!(Ask: "ask" -> Vec<AskReply>, |step| step.items.len());

/// A worker tells nodes the fate of their asks, and deletes finished entries of the own stream.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The owner.
    pub worker: WorkerId,
    /// Handled entries of the owner's stream, for the call to delete.
    pub finished: Vec<EntryId>,
    /// The replies.
    pub items: Vec<ReplyItem>,
}

step!(Reply: "reply" -> Vec<ReplyReply>, |step| step.items.len());
