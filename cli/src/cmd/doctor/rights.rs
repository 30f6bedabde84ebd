//! The rights of the Redis user, as the server judges them. Nothing is written: a script asks about every command.

use tenure_connection::{Class, Script};

use super::Finding;
use crate::connect::Place;
use crate::exit::{Code, Failure};

const CHECK: &str = "server.rights";
/// The page that lists all rights.
const PAGE: &str = "docs/protocol/limits.md, section 13, lists all rights";

/// The rights that a node needs besides its keys and its channel, as docs/protocol/limits.md lists them.
const NODE: &str = "
evalsha script|load info time select ssubscribe spublish
exists del unlink pexpire pexpiretime
hdel hexists hget hgetall hincrby hkeys hlen hmget hscan hset hstrlen hvals
xack xadd xautoclaim xdel xgroup|create xgroup|delconsumer xinfo|consumers xinfo|stream xlen xrange xread xreadgroup
zadd zcard zlexcount zmscore zrange zrangebylex zrangebyscore zrem zscan zscore";

/// Those of a user who only looks.
const LOOK: &str = "
evalsha script|load info time select ssubscribe
hexists hget hgetall hlen hmget hscan hstrlen pexpiretime xrange xread zcard zlexcount
zmscore zrange zrangebylex zscan zscore";

/// Its arguments are commands, in order: the number of words, then the words. Answers a letter for each: `y` if the user
/// of this connection may run the command, or `n`.
const SCRIPT: &str = "#!lua flags=no-writes,allow-oom,allow-stale
local answers, at = {}, 1
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  local may = redis.acl_check_cmd(unpack(ARGV, at + 1, at + words))
  answers[#answers + 1] = may and 'y' or 'n'
  at = at + words + 1
end
return table.concat(answers)";

/// Checks the rights of the user for the pool. `shards`: how many the pool has, if that is known.
///
/// # Errors
/// The server does not answer.
pub(super) async fn check(place: &Place, shards: Option<usize>) -> Result<Finding, Failure> {
    let forms: &[&str] = match shards {
        Some(0 | 1) => &[""],
        Some(_) => &["#0"],
        None => &["", "#0"],
    };
    let mut least: Option<Vec<&str>> = None;
    for form in forms {
        let pool = format!("{}{form}", place.pool);
        match missing(place, &pool).await {
            Ok(missing) if least.as_ref().is_none_or(|least| missing.len() < least.len()) => {
                least = Some(missing);
            }
            Ok(_) => {}
            Err(error) if error.class() == Class::Forbidden => {
                let text = format!("the user may not call scripts, so no other right is known: {error}");
                return Ok(Finding::fail(CHECK, text, format!("grant +evalsha and +script|load; {PAGE}")));
            }
            Err(error) => return Err(Failure::new(Code::Redis, error.to_string())),
        }
    }
    Ok(judged(&least.unwrap_or_default(), &place.pool))
}

/// The rights that the user lacks for a node of this pool, or of this shard.
async fn missing(place: &Place, pool: &str) -> Result<Vec<&'static str>, tenure_connection::Error> {
    let (key, channel) = (format!("tenure:{{{pool}}}:pool"), format!("tenure:{{{pool}}}:changes"));
    let script = Script::new("rights", SCRIPT);
    let mut call = script.call::<&str>(&[]);
    for right in NODE.split_whitespace() {
        let words = example(right, &key, &channel);
        call.arg(words.len());
        call.args(words);
    }
    let answer = place.client.commands().without_retries().call(&call).await?;
    let letters: String = redis::from_redis_value(answer)
        .map_err(|_| tenure_connection::Error::Reply { expected: "a letter for each right" })?;
    let rights = NODE.split_whitespace().zip(letters.chars());
    Ok(rights.filter(|(_, letter)| *letter != 'y').map(|(right, _)| right).collect())
}

/// A command that needs the right, with the pool's key or channel.
fn example(right: &str, key: &str, channel: &str) -> Vec<String> {
    let mut words: Vec<String> = right.split('|').map(str::to_uppercase).collect();
    let rest: &[&str] = match right {
        "info" | "time" => &[],
        "select" => &["0"],
        "script|load" => &["return 1"],
        "evalsha" => &["0000000000000000000000000000000000000000", "1", key],
        "ssubscribe" => &[channel],
        "spublish" => &[channel, "x"],
        "xread" => &["STREAMS", key, "0"],
        "xreadgroup" => &["GROUP", "g", "c", "STREAMS", key, ">"],
        // All of their words are keys.
        "exists" | "del" | "unlink" => &[key],
        _ => &[key, "x"],
    };
    words.extend(rest.iter().map(|&word| word.to_owned()));
    words
}

/// Whether the command of this right names a key.
fn has_key(right: &str) -> bool {
    !matches!(right, "info" | "time" | "select" | "script|load" | "ssubscribe" | "spublish")
}

fn judged(missing: &[&str], pool: &str) -> Finding {
    if missing.is_empty() {
        return Finding::ok(CHECK, "the user has all rights that a node needs");
    }
    let lacks = |right: &&str| missing.contains(right);
    if NODE.split_whitespace().filter(|right| has_key(right)).all(|right| lacks(&right)) {
        let text = format!("the user has no right to the keys of the pool, tenure:{{{pool}}}:*");
        return Finding::fail(CHECK, text, format!("ACL SETUSER NAME ~tenure:{{{pool}}}:*; {PAGE}"));
    }
    let looks = |right: &str| LOOK.split_whitespace().any(|look| look == right);
    if NODE.split_whitespace().all(|right| looks(right) != missing.contains(&right)) {
        return Finding::ok(CHECK, "the user may look at the pool, and change nothing");
    }
    let mut named: Vec<_> = missing.iter().map(|right| format!("+{right}")).collect();
    if ["ssubscribe", "spublish"].iter().any(lacks) {
        // The channel may be the missing part.
        named.push(format!("&tenure:{{{pool}}}:changes"));
    }
    Finding::fail(
        CHECK,
        format!("the user lacks rights that a node needs: {}", missing.join(", ")),
        format!("ACL SETUSER NAME {}; {PAGE}", named.join(" ")),
    )
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn the_rights_are_those_that_the_page_lists() {
        let page = include_str!("../../../../docs/protocol/limits.md");
        let lists = page.split("```acl\n").skip(1).filter_map(|after| after.split_once("```"));
        let commands = |list: &str| {
            let rights = list.split_whitespace().filter_map(|right| right.strip_prefix('+'));
            rights.map(str::to_owned).collect::<Vec<_>>()
        };
        let listed: Vec<_> = lists.map(|(list, _)| commands(list)).collect();
        let ours =
            [NODE, LOOK].map(|rights| rights.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(listed, ours);
    }

    #[test]
    fn a_user_who_only_looks_lacks_nothing() {
        let of = |missing: &[&str]| judged(missing, "feeds");
        assert_eq!(of(&[]).severity, Severity::Ok);
        let looks: Vec<_> = NODE
            .split_whitespace()
            .filter(|right| !LOOK.split_whitespace().any(|look| look == *right))
            .collect();
        assert_eq!(of(&looks).severity, Severity::Ok);
        let one = of(&["xadd"]);
        assert_eq!(one.severity, Severity::Fail);
        assert!(one.text.ends_with(": xadd") && one.remedy.is_some_and(|remedy| remedy.contains("+xadd;")));
        let all: Vec<_> = NODE.split_whitespace().filter(|right| has_key(right)).collect();
        assert!(of(&all).text.contains("tenure:{feeds}:*"));
    }
}
