//! The record of a job: the truth about it, as text.

use std::fmt;

use super::id::{JobId, NodeName, QueueName, Token};

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum State {
    /// Ready to run.
    Ready,
    /// It waits for its time.
    Delayed,
    /// It runs.
    Running,
    /// It waits for its children.
    Waiting,
    /// Somebody has paused it.
    Paused,
    /// It has succeeded.
    Done,
    /// It has failed for good: a dead letter.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl State {
    const LETTERS: [(Self, char); 8] = [
        (Self::Ready, 'Q'),
        (Self::Delayed, 'D'),
        (Self::Running, 'R'),
        (Self::Waiting, 'W'),
        (Self::Paused, 'P'),
        (Self::Done, 'C'),
        (Self::Failed, 'F'),
        (Self::Cancelled, 'X'),
    ];

    pub(crate) fn letter(self) -> char {
        Self::LETTERS.iter().find(|(state, _)| *state == self).map_or('?', |(_, letter)| *letter)
    }

    pub(crate) fn of(letter: &str) -> Option<Self> {
        let mut letters = letter.chars();
        let (first, None) = (letters.next()?, letters.next()) else { return None };
        Self::LETTERS.iter().find(|(_, letter)| *letter == first).map(|(state, _)| *state)
    }

    /// Whether the job has come to its end: done, failed or cancelled.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// The record of a job: `1|state|token|attempts|node|again|flags|parent|open|keep|queue|group|place|priority|max|due|birth|news|flow`,
/// a correlation id if there is one, and a tail that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The state.
    pub state: State,
    /// The token of the last execution; 0 before the first. A request that changes or cancels a job that waits raises it, so
    /// that no execution of before answers for it.
    pub token: Token,
    /// How often it was begun in this queue. Executions that were given back do not count.
    pub attempts: u32,
    /// The node that runs it; empty when none does.
    pub node: String,
    /// When it runs again after this run, in ms, 0 at once: somebody has asked for it again.
    pub again: Option<u64>,
    /// Letters:
    /// - `w`: it is watched.
    /// - `v`: a node that watched it does not hear. It may ask again, so the job is kept for a minute after each end, for as
    ///   long as its record is there.
    /// - `j`: it has a result or an error.
    /// - `n`: it has notes: a checkpoint or a progress.
    /// - `l`: it has look-ups.
    /// - `c`: it has children.
    /// - `d`: it has a deadline.
    /// - `f`: it fails with its first failed child.
    /// - `o`: it is open for more children.
    /// - `b`: a child failed before it waited.
    /// - `x`: it will be cancelled.
    /// - `p`: it will be paused.
    /// - `e`: its parent counts it no more, and takes it along when it is removed.
    pub flags: String,
    /// `<id>#<birth>` of its parent; empty when it has none. A child that is asked for again after its end has none.
    pub parent: String,
    /// The number of its children that have not ended.
    pub open: u32,
    /// How long it is kept after it has succeeded, in ms; 0 not at all, -1 for ever.
    pub keep: i64,
    /// Its queue.
    pub queue: QueueName,
    /// Its group; empty in a queue without groups.
    pub group: String,
    /// 17 characters by which ready jobs are ordered.
    pub place: String,
    /// Its priority, from -9 to 9.
    pub priority: i8,
    /// The most attempts; 0 those of its queue.
    pub max: u32,
    /// The time that it is scheduled for, in ms; 0 at once.
    pub due: u64,
    /// When and by which call this life of it was made. It rises from life to life.
    pub birth: String,
    /// The number of the last transition that watchers were told of.
    pub news: u64,
    /// The name of its flow; empty when it has none.
    pub flow: String,
    /// The id of the work that it belongs to, as its adder has given it; empty when there is none.
    pub correlation: String,
    /// Fields of a newer version.
    pub(crate) tail: String,
}

impl Record {
    /// Reads a record; `None` when it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.splitn(21, '|');
        let mut next = || fields.next();
        if next()? != "1" {
            return None;
        }
        let state = State::of(next()?)?;
        let token = Token(number(next()?)?);
        let attempts = number(next()?)?;
        let node = next()?.to_owned();
        let again = match next()? {
            "" => None,
            text => Some(number(text)?),
        };
        let flags = next()?;
        if !flags.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return None;
        }
        let parent = next()?.to_owned();
        let open = number(next()?)?;
        let keep = signed(next()?)?;
        let queue = QueueName::new(next()?).ok()?;
        let group = next()?.to_owned();
        let place = hex(next()?)?;
        let priority = signed(next()?).filter(|priority| (-9..=9).contains(priority))?;
        let (max, due) = (number(next()?)?, number(next()?)?);
        let birth = hex(next()?)?;
        let news = number(next()?)?;
        let flow = next()?.to_owned();
        let correlation = next().unwrap_or_default().to_owned();
        let tail = fields.next().map(|tail| format!("|{tail}")).unwrap_or_default();
        Some(Self {
            state,
            token,
            attempts,
            node,
            again,
            flags: flags.to_owned(),
            parent,
            open,
            keep,
            queue,
            group,
            place,
            priority: i8::try_from(priority).ok()?,
            max,
            due,
            birth,
            news,
            flow,
            correlation,
            tail,
        })
    }

    pub(crate) fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }

    /// The node that runs the job.
    pub fn runner(&self) -> Option<NodeName> {
        NodeName::new(&self.node).ok()
    }

    /// The id of the parent that counts this job among its open children.
    pub fn parent_id(&self) -> Option<JobId> {
        self.parent.rsplit_once('#').and_then(|(id, _)| JobId::new(id).ok())
    }

    /// When this life of the job began, in ms by the store's clock.
    pub fn created_ms(&self) -> u64 {
        self.birth.get(..11).and_then(|ms| u64::from_str_radix(ms, 16).ok()).unwrap_or_default()
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn signed(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn hex(text: &str) -> Option<String> {
    let hex = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    hex.then(|| text.to_owned())
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { token, attempts, node, flags, parent, open, keep, queue, group, place, priority, .. } =
            self;
        let Self { max, due, birth, news, flow, correlation, tail, .. } = self;
        let (state, again) = (self.state.letter(), self.again.map(|ms| ms.to_string()).unwrap_or_default());
        write!(
            f,
            "1|{state}|{token}|{attempts}|{node}|{again}|{flags}|{parent}|{open}|{keep}|{queue}|{group}|"
        )?;
        write!(f, "{place}|{priority}|{max}|{due}|{birth}|{news}|{flow}")?;
        if correlation.is_empty() && tail.is_empty() { Ok(()) } else { write!(f, "|{correlation}{tail}") }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PLAIN: &str = "1|R|244513794781186|1|n1||||0|0|email||1a2054e5a17001000|0|0|0|1a2054e5a17001000|0|";

    #[test]
    fn a_record_is_written_as_it_was_read() {
        let tails = [
            ("", "", ""),
            ("|req-7", "req-7", ""),
            ("|req-7|comes|later", "req-7", "|comes|later"),
            ("||later", "", "|later"),
        ];
        for (end, correlation, tail) in tails {
            for head in [PLAIN, "1|W|7|2|n|5|wjc|p#1a|3|-1|q|g|0|-9|4|9|0|12|join"] {
                let text = format!("{head}{end}");
                let record = Record::parse(&text).unwrap();
                assert_eq!(record.to_string(), text);
                assert_eq!((&*record.correlation, &*record.tail), (correlation, tail));
            }
        }
    }

    #[test]
    fn a_text_that_is_no_record_is_none() {
        for bad in ["", "rubbish", "2|R", &PLAIN.replace("|R|", "|Z|"), &PLAIN.replace("|1|n1", "|x|n1")] {
            assert_eq!(Record::parse(bad), None, "{bad}");
        }
    }
}
