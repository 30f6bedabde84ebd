//! The pool's books: records, lists and counts must agree at every moment, in every case.

use crate::ground::key;

/// Lists everything that disagrees at one moment.
const DISAGREEMENTS: &str = r"
local function name(key) return ARGV[1] .. key end
local call, wrong = redis.call, {}
local function expect(ok, what) if not ok then wrong[#wrong + 1] = what end end
local count, never_begun = { Q = 0, A = 0, R = 0, S = 0, P = 0 }, 0
local jobs = call('HGETALL', name('jobs'))
for i = 1, #jobs, 2 do
  local key = jobs[i]
  local state, owner, begun = string.match(jobs[i + 1], '^1|([QARSP])|(%d*)|%d+|%d+|([012])|')
  if not state then
    wrong[#wrong + 1] = key .. ' has no record that can be read'
  else
    count[state] = count[state] + 1
    if begun == '0' then never_begun = never_begun + 1 end
    local queued = call('ZSCORE', name('queue'), key) and true or false
    local owned = call('ZSCORE', name('owners'), owner .. ':' .. key) and true or false
    local parked = call('ZSCORE', name('parked'), key) and true or false
    local has_owner = state == 'A' or state == 'R' or state == 'S'
    expect(queued == (state == 'Q' or state == 'A' or state == 'S'), key .. ' is ' .. state .. ', in the queue or not')
    expect((owner ~= '') == has_owner, key .. ' is ' .. state .. ', with an owner or without')
    expect(owned == has_owner, key .. ' is ' .. state .. ', in its worker\'s list or not')
    expect(parked == (state == 'P'), key .. ' is ' .. state .. ', among the parked or not')
    expect(call('HEXISTS', name('payloads'), key) == 1, key .. ' has no payload')
  end
end
expect(call('HLEN', name('payloads')) == #jobs / 2, 'payloads of nobody')
expect(call('ZCARD', name('queue')) == count.Q + count.A + count.S, 'the queue lists jobs that are gone')
expect(call('ZCARD', name('owners')) == count.A + count.R + count.S, 'a worker\'s list has jobs that are not its own')
expect(call('ZCARD', name('parked')) == count.P, 'jobs are listed as parked that are not')
expect(tonumber(call('HGET', name('pool'), 'queued') or '0') == never_begun, 'queued is not the number of jobs never begun')
return wrong
";

/// The present disagreements in the pool's data. None if the server does not answer.
pub(crate) fn disagreements(redis: &mut redis::Connection) -> Vec<String> {
    redis::Script::new(DISAGREEMENTS).arg(key("")).invoke(redis).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn books_that_disagree_are_found() {
    let ground = crate::ground::Ground::sound();
    let node = ground.node_with("a", 1).await;
    ground.dispatch_one(&node, "job").await;
    let mut redis = ground.redis();
    assert_eq!(disagreements(&mut redis), Vec::<String>::new());
    let listed: Vec<String> =
        redis::cmd("ZRANGE").arg(key("owners")).arg(&[0, -1]).query(&mut redis).unwrap();
    redis::cmd("DEL").arg(key("owners")).exec(&mut redis).unwrap();
    assert_eq!(disagreements(&mut redis).len(), 2);
    redis::cmd("ZADD").arg(key("owners")).arg(0).arg(&listed[0]).exec(&mut redis).unwrap();
    redis::cmd("HINCRBY").arg(key("pool")).arg("queued").arg(1).exec(&mut redis).unwrap();
    assert_eq!(disagreements(&mut redis), ["queued is not the number of jobs never begun"]);
    redis::cmd("HINCRBY").arg(key("pool")).arg("queued").arg(-1).exec(&mut redis).unwrap();
}
