//! Damages the keys of a living pool or set, and puts right what only a person can.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use redis::cmd;
use tenure_testing::RedisServer;

use super::kind::{Kind, Manner, Shape, Target};
use crate::Result;

/// How long a key of another type, or a damaged value of the whole pool, stays as it is.
const HELD: Duration = Duration::from_secs(2);

/// Which jobs' own values were damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// The values of this job, or of none.
    Key(Option<String>),
    /// Any job may be lost, and none may run twice: the values of all jobs went at once, or a limit parks each job that
    /// fails.
    All,
}

/// One damage that was done.
#[derive(Clone, Debug)]
pub struct Wound {
    /// The damage, as a line.
    pub what: String,
    /// Its kind.
    pub kind: Kind,
    /// The time since the first damage.
    pub at: Duration,
    /// The jobs whose values were damaged.
    pub touched: Touched,
}

impl fmt::Display for Wound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:6.2} s {}: {}", self.at.as_secs_f64(), self.kind, self.what)
    }
}

/// A repair by hand: the damaged value stood in one place only, so the pool cannot restore it.
enum Remedy {
    /// The field gets the value `before`, unless somebody has changed the damaged one, or deleted the hash.
    Field { key: String, field: Vec<u8>, before: Vec<u8>, damaged: Option<Vec<u8>> },
    /// The key gets its place back from `aside`.
    Aside { key: String, aside: String },
}

/// Does damage to one pool.
pub(super) struct Poisoner<'a> {
    redis: &'a RedisServer,
    target: Target,
    prefix: String,
    random: StdRng,
    began: Instant,
    held: Vec<(Instant, Remedy)>,
    /// Keys that were deleted: once is enough.
    deleted: BTreeSet<String>,
    /// All damage that was done, in its order.
    pub(super) wounds: Vec<Wound>,
}

impl<'a> Poisoner<'a> {
    /// Of this pool or set on this server.
    pub(super) fn new(redis: &'a RedisServer, target: Target, name: &str, random: StdRng) -> Self {
        let prefix = match target {
            Target::Pool => format!("tenure:{{{name}}}:"),
            Target::Set => format!("tenure:{{{name}}}:q:"),
        };
        Self {
            redis,
            target,
            prefix,
            random,
            began: Instant::now(),
            held: Vec::new(),
            deleted: BTreeSet::new(),
            wounds: Vec::new(),
        }
    }

    /// Does damage of this kind, if there is something to damage. A server that does not answer is none of its faults.
    pub(super) fn strike(&mut self, kind: Kind) -> Result<()> {
        self.put_right(false);
        let Some(key) = self.key_of(kind)? else { return Ok(()) };
        let done = match (kind.manner, kind.shape) {
            (Manner::Mistype, _) => self.mistype(&key)?,
            (Manner::Delete, _) => self.delete(kind, &key)?,
            (Manner::Stray, _) => Some(self.stray(kind, &key)),
            (Manner::Mutate | Manner::Lose, Shape::Hash) => self.field(kind, &key)?,
            (Manner::Mutate | Manner::Lose, Shape::Sorted) => self.member(kind, &key)?,
            (Manner::Mutate | Manner::Lose, Shape::Text) => self.text(kind, &key)?,
            (Manner::Mutate | Manner::Lose, Shape::Stream | Shape::Channel) => self.entry(&key)?,
        };
        if let Some((what, touched)) = done {
            self.wounds.push(Wound { what, kind, at: self.began.elapsed(), touched });
        }
        Ok(())
    }

    /// Puts right what has been damaged for long enough, or all of it. Says whether it is done: what fails is tried again.
    pub(super) fn put_right(&mut self, all: bool) -> bool {
        let now = Instant::now();
        let is_due = |due: Instant| all || due <= now;
        let held = std::mem::take(&mut self.held);
        self.held =
            held.into_iter().filter(|(due, remedy)| !is_due(*due) || self.apply(remedy).is_err()).collect();
        self.held.iter().all(|(due, _)| !is_due(*due))
    }

    fn apply(&self, remedy: &Remedy) -> Result<()> {
        match remedy {
            Remedy::Field { key, field, before, damaged } => {
                if self.is_type(key, "hash")? {
                    let now: Option<Vec<u8>> = self.redis.query(cmd("HGET").arg(key).arg(field))?;
                    // The hash has gone as a whole, or somebody has written since.
                    if now == *damaged && self.redis.query::<u64>(cmd("HLEN").arg(key))? > 0 {
                        self.redis.query::<()>(cmd("HSET").arg(key).arg(field).arg(before))?;
                    }
                }
            }
            Remedy::Aside { key, aside } => {
                // It may have expired there, as it would have in its place.
                let mut back = cmd("RENAME").arg(aside).arg(key).clone();
                if !self.redis.query::<bool>(cmd("EXISTS").arg(aside))? {
                    back = cmd("DEL").arg(key).clone();
                }
                self.redis.query::<redis::Value>(&back)?;
            }
        }
        Ok(())
    }

    /// The whole name of a key of this kind that is there now.
    fn key_of(&mut self, kind: Kind) -> Result<Option<String>> {
        let name = format!("{}{}", self.prefix, kind.key);
        let streams = format!("{name}:");
        let mut keys = self.redis.keys()?;
        keys.retain(|key| *key == name || key.starts_with(&streams));
        match (keys.choose(&mut self.random), kind.manner) {
            (None, Manner::Stray | Manner::Mistype) if !matches!(kind.key, "worker" | "node") => {
                Ok(Some(name))
            }
            (found, _) => Ok(found.cloned()),
        }
    }

    fn is_type(&self, key: &str, wanted: &str) -> Result<bool> {
        Ok(self.redis.query::<String>(cmd("TYPE").arg(key))? == wanted)
    }

    fn mistype(&mut self, key: &str) -> Result<Option<(String, Touched)>> {
        // No key of a pool is a text: this one is damaged already.
        if self.is_type(key, "string")? {
            return Ok(None);
        }
        if self.redis.query::<bool>(cmd("EXISTS").arg(key))? {
            let aside = format!("aside:{key}");
            // At once: nobody sees that it is gone.
            let script = "redis.call('RENAME', KEYS[1], KEYS[2]) redis.call('SET', KEYS[1], 'garbage')";
            self.redis.query::<()>(cmd("EVAL").arg(script).arg(2).arg(key).arg(&aside))?;
            self.held.push((Instant::now() + HELD, Remedy::Aside { key: key.to_owned(), aside }));
        } else {
            // Nothing lies aside: it goes by itself.
            let expiry = HELD.as_millis() as u64;
            self.redis.query::<()>(cmd("SET").arg(key).arg("garbage").arg("PX").arg(expiry))?;
        }
        Ok(Some((format!("a text stands at {key} for a while"), Touched::Key(None))))
    }

    fn delete(&mut self, kind: Kind, key: &str) -> Result<Option<(String, Touched)>> {
        if !self.deleted.insert(kind.key.to_owned()) {
            return Ok(None);
        }
        self.redis.query::<()>(cmd("DEL").arg(key))?;
        Ok(Some((format!("{key} is deleted"), deletion_of(kind.key))))
    }

    fn field(&mut self, kind: Kind, key: &str) -> Result<Option<(String, Touched)>> {
        if !self.is_type(key, "hash")? {
            return Ok(None);
        }
        let mut fields: Vec<Vec<u8>> = self.redis.query(cmd("HKEYS").arg(key))?;
        fields.sort();
        let Some(field) = fields.choose(&mut self.random).cloned() else { return Ok(None) };
        let Some(before): Option<Vec<u8>> = self.redis.query(cmd("HGET").arg(key).arg(&field))? else {
            return Ok(None);
        };
        // Only a person puts these values right: no copy of them exists.
        let of_pool = match self.target {
            Target::Pool => {
                matches!(kind.key, "pool" | "settings")
                    || (kind.key == "workers" && kind.manner == Manner::Mutate)
            }
            // A head mends itself, but for a counter that is used up.
            Target::Set => kind.key == "queues" || (kind.key == "meta" && field == b"token"),
        };
        let damaged = match kind.manner {
            Manner::Lose => {
                self.redis.query::<()>(cmd("HDEL").arg(key).arg(&field))?;
                None
            }
            // A member that is another one is no damage that could be seen.
            _ if kind.key == "workers" => Some(self.garbage()),
            _ => Some(self.mutated(&before)),
        };
        if let Some(damaged) = &damaged {
            self.redis.query::<()>(cmd("HSET").arg(key).arg(&field).arg(damaged))?;
        }
        let what = match &damaged {
            None => format!("{} of {key} is lost, it was {}", show(&field), show(&before)),
            Some(now) => format!("{} of {key} becomes {} after {}", show(&field), show(now), show(&before)),
        };
        let touched = if kind.key == "settings" && field == b"max_attempts" {
            Touched::All
        } else {
            Touched::Key(job_of(kind.key, &field))
        };
        if of_pool {
            let before = self.sound(key, &field, before);
            let remedy = Remedy::Field { key: key.to_owned(), field, before, damaged };
            self.held.push((Instant::now() + HELD, remedy));
        }
        Ok(Some((what, touched)))
    }

    /// The value of a field before all damage to it: a field is put right to that, and not to another damage. Its remedy is replaced.
    fn sound(&mut self, key: &str, field: &[u8], before: Vec<u8>) -> Vec<u8> {
        let held = self.held.iter().position(|(_, remedy)| {
            matches!(remedy, Remedy::Field { key: of, field: held, damaged, .. }
                if of == key && held == field && damaged.as_ref() == Some(&before))
        });
        match held.map(|at| self.held.remove(at).1) {
            Some(Remedy::Field { before, .. }) => before,
            _ => before,
        }
    }

    fn member(&mut self, kind: Kind, key: &str) -> Result<Option<(String, Touched)>> {
        if !self.is_type(key, "zset")? {
            return Ok(None);
        }
        let members: Vec<Vec<u8>> = self.redis.query(cmd("ZRANGE").arg(key).arg(0).arg(-1))?;
        let Some(member) = members.choose(&mut self.random) else { return Ok(None) };
        let touched = Touched::Key(job_of(kind.key, member));
        if kind.manner == Manner::Lose {
            self.redis.query::<()>(cmd("ZREM").arg(key).arg(member))?;
            return Ok(Some((format!("{} of {key} is lost", show(member)), touched)));
        }
        let score = *["0.5", "-1", "inf", "-inf", "1e300", "9007199254740993"]
            .choose(&mut self.random)
            .unwrap_or(&"0.5");
        self.redis.query::<()>(cmd("ZADD").arg(key).arg("XX").arg(score).arg(member))?;
        Ok(Some((format!("{} of {key} has the score {score}", show(member)), touched)))
    }

    fn text(&mut self, kind: Kind, key: &str) -> Result<Option<(String, Touched)>> {
        if !self.is_type(key, "string")? {
            return Ok(None);
        }
        if kind.manner == Manner::Lose {
            self.redis.query::<()>(cmd("DEL").arg(key))?;
            return Ok(Some((format!("{key} is lost"), Touched::Key(None))));
        }
        let before: Vec<u8> = self.redis.query(cmd("GET").arg(key))?;
        let now = self.mutated(&before);
        self.redis.query::<()>(cmd("SET").arg(key).arg(&now).arg("KEEPTTL"))?;
        Ok(Some((format!("{key} becomes {} after {}", show(&now), show(&before)), Touched::Key(None))))
    }

    fn entry(&mut self, key: &str) -> Result<Option<(String, Touched)>> {
        if !self.is_type(key, "stream")? {
            return Ok(None);
        }
        let entries: Vec<(String, Vec<Vec<u8>>)> =
            self.redis.query(cmd("XRANGE").arg(key).arg("-").arg("+").arg("COUNT").arg(32))?;
        if let Some((id, fields)) = entries.choose(&mut self.random) {
            self.redis.query::<()>(cmd("XDEL").arg(key).arg(id))?;
            let fields: Vec<_> = fields.iter().map(|part| show(part)).collect();
            return Ok(Some((
                format!("entry {id} of {key} is lost: {}", fields.join(" ")),
                Touched::Key(None),
            )));
        }
        if !key.ends_with("}:starts") {
            return Ok(None);
        }
        let had: u64 = self.redis.query(cmd("XGROUP").arg("DESTROY").arg(key).arg("routers"))?;
        Ok((had == 1).then(|| (format!("the group of {key} is lost"), Touched::Key(None))))
    }

    /// Something that nobody has written comes.
    fn stray(&mut self, kind: Kind, key: &str) -> (String, Touched) {
        let (name, value) = (self.garbage(), self.garbage());
        let shown = (show(&name), show(&value));
        let (mut command, what) = match kind.shape {
            Shape::Channel => (cmd("SPUBLISH"), format!("{} is said on {key}", shown.1)),
            Shape::Stream => (cmd("XADD"), format!("an entry {} {} comes to {key}", shown.0, shown.1)),
            Shape::Sorted => (cmd("ZADD"), format!("{} comes to {key}", shown.0)),
            Shape::Hash => (cmd("HSET"), format!("{} {} comes to {key}", shown.0, shown.1)),
            Shape::Text => (cmd("SET"), format!("{} comes to {key}", shown.1)),
        };
        command.arg(key);
        match kind.shape {
            Shape::Channel | Shape::Text => command.arg(value),
            // Its field may be one that means something.
            Shape::Stream => {
                let field = [b"t".to_vec(), b"w".to_vec(), b"n".to_vec(), b"s".to_vec(), name];
                let field = field.choose(&mut self.random).cloned().unwrap_or_default();
                command.arg("NOMKSTREAM").arg("*").arg(field).arg(value)
            }
            Shape::Sorted => command.arg(self.random.random_range(0..10)).arg(name),
            // A header of notifications that nobody has, as well.
            Shape::Hash if kind.key == "notifications" => {
                command.arg([b"h:".to_vec(), name].concat()).arg(value)
            }
            Shape::Hash => command.arg(name).arg(value),
        };
        // A key that has another type just now takes nothing.
        let _ = self.redis.query::<redis::Value>(&command);
        (what, Touched::Key(None))
    }

    /// Bytes that mean nothing, and some that look as if they did.
    fn garbage(&mut self) -> Vec<u8> {
        let known: [&[u8]; 8] =
            [b"", b"|", b"1|R|", b"1|1000|5", b"s:x", b"\x93\xc0\xc0", b"\xff\xfe\x00", b"x|y|z|\n"];
        if self.random.random_bool(0.5) {
            return known.choose(&mut self.random).copied().unwrap_or_default().to_vec();
        }
        let length = self.random.random_range(1..200);
        (0..length).map(|_| self.random.random()).collect()
    }

    /// The value with some of it changed.
    fn mutated(&mut self, value: &[u8]) -> Vec<u8> {
        let mut changed = value.to_vec();
        let at = self.random.random_range(0..=value.len().saturating_sub(1));
        match self.random.random_range(0..6) {
            0 => changed.truncate(at),
            1 if at < changed.len() => changed[at] = self.random.random(),
            2 => changed.insert(at.min(value.len()), self.random.random()),
            3 => changed.extend_from_slice(b"|99999999999999999999"),
            // A number in it becomes a huge one.
            4 => {
                if let Some(digits) = value.iter().position(u8::is_ascii_digit) {
                    let end = value[digits..].iter().position(|byte| !byte.is_ascii_digit());
                    let end = end.map_or(value.len(), |end| digits + end);
                    let number = *[&b"9007199254740993"[..], b"-1", b"1000000", b"18446744073709551616"]
                        .choose(&mut self.random)
                        .unwrap_or(&&b"-1"[..]);
                    changed.splice(digits..end, number.iter().copied());
                }
            }
            _ => changed = self.garbage(),
        }
        changed
    }
}

/// The jobs whose values go with this key. The records of jobs also hold everything that the other keys say of them.
pub fn deletion_of(key: &str) -> Touched {
    if matches!(key, "jobs" | "payloads") { Touched::All } else { Touched::Key(None) }
}

/// The job whose own value this field or member is.
fn job_of(key: &str, field: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(field).into_owned();
    match key {
        "jobs" | "payloads" | "queue" | "parked" | "errors" => Some(text),
        "owners" | "notifications" => text.split_once(':').map(|(_, job)| job.to_owned()),
        "planned" => text.split_once('|').map(|(_, job)| job.to_owned()),
        _ => None,
    }
}

/// Bytes in a line, at most 80 of them.
fn show(bytes: &[u8]) -> String {
    let end = bytes.len().min(80);
    format!("\"{}\"{}", bytes[..end].escape_ascii(), if end < bytes.len() { "…" } else { "" })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// Damages this hash of a pool fifty times, and returns the values of the field.
    fn damaged(key: &'static str, field: &str, value: &str) -> Vec<String> {
        let redis = RedisServer::start().unwrap();
        let name = format!("tenure:{{p}}:{key}");
        let mut poisoner = Poisoner::new(&redis, Target::Pool, "p", StdRng::seed_from_u64(1));
        let mut values = Vec::new();
        for _ in 0..50 {
            redis.query::<()>(cmd("HSET").arg(&name).arg(field).arg(value)).unwrap();
            poisoner.strike(Kind { key, shape: Shape::Hash, manner: Manner::Mutate }).unwrap();
            let now: Vec<u8> = redis.query(cmd("HGET").arg(&name).arg(field)).unwrap();
            values.push(String::from_utf8_lossy(&now).into_owned());
        }
        values
    }

    #[test]
    fn numbers_of_the_pool_become_other_numbers_and_garbage() {
        for (key, field) in [("pool", "token"), ("settings", "assign_timeout")] {
            let values = damaged(key, field, "5000");
            let numbers = values.iter().filter(|value| value.parse::<u64>().is_ok()).count();
            assert!(0 < numbers && numbers < values.len(), "{key}: {values:?}");
        }
    }
}
