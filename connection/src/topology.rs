//! The owners of a cluster's slots. Pure: `directory` asks and remembers.

use redis::Value;

use crate::Error;
use crate::address::Address;
use crate::slot::SLOTS;

/// Marks a slot without a known owner.
const NOBODY: u16 = u16::MAX;

/// The owners of the slots at some moment. It may be outdated: the nodes then redirect.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Topology {
    masters: Vec<Address>,
    /// The index in `masters` of each slot's owner.
    owners: Box<[u16]>,
}

impl Topology {
    /// A topology without any knowledge.
    pub(crate) fn unknown() -> Self {
        Self { masters: Vec::new(), owners: vec![NOBODY; usize::from(SLOTS)].into() }
    }

    /// Reads the reply of `CLUSTER SLOTS` that `asked` gave.
    pub(crate) fn parse(reply: &Value, asked: &Address) -> Result<Self, Error> {
        let wrong = || Error::Reply { expected: "ranges of slots and their nodes" };
        let Value::Array(ranges) = reply else { return Err(wrong()) };
        let mut topology = Self::unknown();
        for range in ranges {
            let Value::Array(fields) = range else { return Err(wrong()) };
            let [Value::Int(start), Value::Int(end), master, ..] = &fields[..] else { return Err(wrong()) };
            let (Ok(start), Ok(end)) = (usize::try_from(*start), usize::try_from(*end)) else {
                return Err(wrong());
            };
            let master = topology.place(node(master, asked).ok_or_else(wrong)?);
            topology.owners.get_mut(start..=end).ok_or_else(wrong)?.fill(master);
        }
        Ok(topology)
    }

    /// The owner of a slot.
    pub(crate) fn owner(&self, slot: Option<u16>) -> Option<&Address> {
        self.masters.get(usize::from(*self.owners.get(usize::from(slot?))?))
    }

    /// A node for a command without a key, or for a slot without an owner: its answer says more. Each `turn` chooses
    /// another one.
    pub(crate) fn any(&self, turn: usize) -> Option<&Address> {
        self.masters.get(turn.checked_rem(self.masters.len())?)
    }

    /// All nodes that own a slot.
    pub(crate) fn masters(&self) -> &[Address] {
        &self.masters
    }

    /// The same topology with another owner of one slot.
    pub(crate) fn with_owner(&self, slot: u16, owner: Address) -> Self {
        let mut topology = self.clone();
        let owner = topology.place(owner);
        if let Some(place) = topology.owners.get_mut(usize::from(slot)) {
            *place = owner;
        }
        topology
    }

    fn place(&mut self, master: Address) -> u16 {
        let known = self.masters.iter().position(|known| *known == master);
        let place = known.unwrap_or_else(|| {
            self.masters.push(master);
            self.masters.len() - 1
        });
        // A cluster has at most as many masters as slots; a higher number is nobody.
        u16::try_from(place).unwrap_or(NOBODY)
    }
}

/// A node in `CLUSTER SLOTS`. One that does not know its own name is the node that was asked.
fn node(value: &Value, asked: &Address) -> Option<Address> {
    let Value::Array(fields) = value else { return None };
    let [host, Value::Int(port), ..] = &fields[..] else { return None };
    let port = u16::try_from(*port).ok()?;
    match host {
        Value::BulkString(host) if !matches!(&host[..], b"" | b"?") => {
            Some(Address::Tcp(std::str::from_utf8(host).ok()?.into(), port))
        }
        Value::BulkString(_) | Value::Nil => Some(asked.with_port(port)),
        _ => None,
    }
}

/// The most redirects that a command follows before one is its result.
pub(crate) const REDIRECTS: u32 = 8;
/// The number of redirects that it follows without a pause: nodes that disagree need time.
pub(crate) const AT_ONCE: u32 = 2;

/// The answer of a node that did not execute a command, because another node must be asked, or the same one later.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Redirect {
    /// The slot has another owner.
    Moved { slot: u16, owner: Address },
    /// The slot is moving there, and the command's keys have arrived.
    Ask(Address),
    /// The command's keys are on both ends of such a move.
    Later,
    /// Some slot has no owner.
    Down,
}

impl Redirect {
    /// Reads an error from `asked`. Only words that Redis uses before it executes anything count: a script may raise an
    /// error of any code after it has written.
    pub(crate) fn read(error: &Error, asked: &Address) -> Option<Self> {
        let Error::Server { code, detail } = error else { return None };
        match &**code {
            "TRYAGAIN" => says(detail, "Multiple keys request").then_some(Self::Later),
            "CLUSTERDOWN" => (says(detail, "The cluster is down") || says(detail, "Hash slot not served"))
                .then_some(Self::Down),
            "MOVED" => target(detail, asked).map(|(slot, owner)| Self::Moved { slot, owner }),
            "ASK" => target(detail, asked).map(|(_, owner)| Self::Ask(owner)),
            _ => None,
        }
    }
}

/// Whether Redis itself says so: a script's error has the script's name behind it.
pub(crate) fn says(detail: &str, words: &str) -> bool {
    detail.starts_with(words) && !detail.contains("@user_")
}

/// Reads `slot host:port`, where the host may be missing, and an IPv6 address has no brackets.
fn target(detail: &str, asked: &Address) -> Option<(u16, Address)> {
    let mut words = detail.split_ascii_whitespace();
    let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    if words.next().is_some() {
        return None;
    }
    let port = port.parse().ok()?;
    let address = match host.trim_start_matches('[').trim_end_matches(']') {
        "" | "?" => asked.with_port(port),
        host => Address::Tcp(host.into(), port),
    };
    Some((slot, address))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::address;

    fn at(text: &str) -> Address {
        address::address(text, 0).unwrap()
    }

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn range(start: i64, end: i64, host: Value, port: i64) -> Value {
        let node = Value::Array(vec![host, Value::Int(port), bulk("id"), Value::Array(Vec::new())]);
        let replica = Value::Array(vec![bulk("replica"), Value::Int(1), bulk("id")]);
        Value::Array(vec![Value::Int(start), Value::Int(end), node, replica])
    }

    #[test]
    fn owners_are_read_and_changed_one_by_one() {
        let reply = Value::Array(vec![
            range(0, 99, bulk("a"), 1),
            range(100, 100, Value::Nil, 2),
            range(101, 200, bulk("?"), 3),
            range(300, 16_383, bulk("a"), 1),
        ]);
        let topology = Topology::parse(&reply, &at("asked:9")).unwrap();
        let owner = |topology: &Topology, slot| topology.owner(Some(slot)).map(ToString::to_string);
        for (slot, expected) in
            [(0, "a:1"), (99, "a:1"), (100, "asked:2"), (101, "asked:3"), (300, "a:1"), (16_383, "a:1")]
        {
            assert_eq!(owner(&topology, slot).as_deref(), Some(expected), "{slot}");
        }
        assert_eq!(owner(&topology, 250), None);
        assert_eq!(topology.masters(), [at("a:1"), at("asked:2"), at("asked:3")]);
        assert_eq!((topology.owner(None), topology.any(0)), (None, Some(&at("a:1"))));
        assert_eq!(topology.any(4), Some(&at("asked:2")));

        let moved = topology.with_owner(250, at("b:4")).with_owner(0, at("asked:2"));
        assert_eq!((owner(&moved, 250), owner(&moved, 0)), (Some("b:4".into()), Some("asked:2".into())));
        assert_eq!(owner(&moved, 1).as_deref(), Some("a:1"));
        assert_eq!(Topology::unknown().any(7), None);
    }

    #[test]
    fn a_malformed_topology_is_refused() {
        for reply in [
            Value::Nil,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![range(5, 16_384, bulk("a"), 1)]),
            Value::Array(vec![range(-1, 5, bulk("a"), 1)]),
            Value::Array(vec![range(7, 5, bulk("a"), 1)]),
            Value::Array(vec![range(0, 5, bulk("a"), 70_000)]),
            Value::Array(vec![range(0, 5, Value::Int(1), 1)]),
        ] {
            assert!(matches!(Topology::parse(&reply, &at("a:1")), Err(Error::Reply { .. })), "{reply:?}");
        }
    }

    #[test]
    fn redirects_say_where_to_go() {
        let read = |code: &str, detail: &str| {
            Redirect::read(&Error::Server { code: code.into(), detail: detail.into() }, &at("asked:9"))
        };
        let moved = |slot, owner| Some(Redirect::Moved { slot, owner: at(owner) });
        assert_eq!(read("MOVED", "3999 10.0.0.1:6381"), moved(3999, "10.0.0.1:6381"));
        assert_eq!(read("MOVED", "1 :6381"), moved(1, "asked:6381"));
        assert_eq!(read("MOVED", "1 ::1:6381"), moved(1, "[::1]:6381"));
        assert_eq!(read("ASK", "1 host:7"), Some(Redirect::Ask(at("host:7"))));
        assert_eq!(read("TRYAGAIN", "Multiple keys request during rehashing of slot"), Some(Redirect::Later));
        assert_eq!(read("CLUSTERDOWN", "Hash slot not served"), Some(Redirect::Down));
        for (code, detail) in [
            ("MOVED", ""),
            ("MOVED", "99999 a:1"),
            ("ASK", "1 a"),
            ("ERR", "MOVED 1 a:1"),
            ("MOVED", "1 a:1 script: 0f, on @user_script:1."),
            ("TRYAGAIN", "mine"),
            ("CLUSTERDOWN", "mine"),
            ("TRYAGAIN", "Multiple keys request script: 0f, on @user_script:1."),
        ] {
            assert_eq!(read(code, detail), None, "{code} {detail}");
        }
    }
}
