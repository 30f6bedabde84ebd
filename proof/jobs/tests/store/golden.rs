//! The data in Redis, byte by byte. Nodes of other versions read and write them, so they may change only by additions. A
//! change that breaks a line here needs another version of the records.

use tenure_jobs::store::{Adding, Data, Kind, NewJob, Settle, Steer, Taking};

use super::lab::{Lab, Which, fail, group, id, node, queue, retry, with_result};

/// A set with a job in each state, and all that can belong to one.
async fn set(which: Which) -> Lab {
    let lab = Lab::new(
        which,
        &[
            ("mail", "max=2 lease=5000 keep=2000"),
            ("g", "g glimit=2/1000 gconc=3 terms=300,,1000,60000,next"),
            ("tree", ""),
        ],
    )
    .await;
    lab.listen("n1").await;
    lab.add("mail", &["ready"]).await;
    let mut kind = Kind::new(queue("mail"));
    (kind.due, kind.priority, kind.max, kind.flow) = (lab.now() + 5_000, 2, 9, "join".to_owned());
    (kind.correlation, kind.deadline) = ("req-7".to_owned(), lab.now() + 60_000);
    let mut delayed = NewJob::new(id("delayed"), "data", kind);
    delayed.lookups = vec!["user=7".to_owned(), "role=x".to_owned()];
    lab.add_all(&Adding::new(vec![delayed])).await;
    lab.add_one("g", "grouped", |kind| kind.group = group("t1")).await;
    lab.take("g").await;
    lab.settle("grouped", Settle::Limited(lab.now() + 700)).await;
    // A dead letter, one that has succeeded and is kept, and one that is tried again.
    for (job, keep) in [("dead", 0), ("kept", -1), ("again", 0)] {
        lab.add_one("mail", job, |kind| (kind.keep, kind.priority) = (Some(keep), 9)).await;
        lab.take_n("mail", 1).await;
        let settle = match job {
            "dead" => fail("no such address"),
            "kept" => with_result("sent"),
            _ => retry(300, "busy"),
        };
        lab.settle(job, settle).await;
    }
    // A parent with a child that has ended, and one that runs.
    lab.add_one("mail", "parent", |kind| (kind.priority, kind.fails_fast) = (9, true)).await;
    lab.take_n("mail", 1).await;
    let token = lab.token.get();
    lab.spawn("g", "parent", Some(token), "parent.1").await;
    lab.spawn("g", "parent", Some(token), "parent.2").await;
    lab.settle_as("parent", token, Settle::Wait(0, Data::Keep)).await;
    lab.take_n("g", 1).await;
    lab.settle("parent.1", with_result("one")).await;
    lab.take_n("g", 1).await;
    // A parent that runs, and will run again. It fails with its child once it comes to wait.
    lab.add_one("tree", "hasty", |kind| kind.fails_fast = true).await;
    lab.take_n("tree", 1).await;
    let hasty = lab.token.get();
    lab.spawn("tree", "hasty", Some(hasty), "hasty.1").await;
    lab.take_n("tree", 1).await;
    lab.settle("hasty.1", fail("lost")).await;
    lab.settle_as("hasty", hasty, Settle::Resubmit(lab.now() + 900)).await;
    // Somebody watches, and somebody waits.
    lab.watch("n1", "parent").await;
    let mut wish = Taking::new(node("n1"), queue("g"), 5);
    wish.slots = 5;
    lab.take_as(&wish).await;
    lab.tick().await;
    // A parent that was removed, and its child that the next tick takes along.
    lab.add_one("tree", "former", |_| {}).await;
    lab.take_n("tree", 1).await;
    lab.spawn("tree", "former", Some(lab.token.get()), "former.1").await;
    lab.steer("former", Steer::Remove).await;
    // One that waits for early jobs only.
    let mut wish = Taking::new(node("n1"), queue("mail"), 1);
    (wish.slots, wish.until) = (1, Some(1_700_000_000_000));
    lab.take_as(&wish).await;
    // One whose handler has noted something.
    lab.add_one("tree", "noted", |kind| kind.priority = 9).await;
    lab.take_n("tree", 1).await;
    lab.settle("noted", Settle::Note("page 3".into())).await;
    lab
}

const GOLDEN: &[&str] = &[
    "bodies again = b",
    "bodies dead = b",
    "bodies delayed = data",
    "bodies former.1 = b",
    "bodies grouped = b",
    "bodies hasty = b",
    "bodies hasty.1 = b",
    "bodies kept = b",
    "bodies noted = b",
    "bodies parent = b",
    "bodies parent.2 = b",
    "bodies ready = body-ready",
    "counts g|done = 1",
    "counts g|kind = 1",
    "counts g|running = 1",
    "counts g|turn = 100",
    "counts mail|delayed = 2",
    "counts mail|done = 1",
    "counts mail|failed = 1",
    "counts mail|running = 0",
    "counts mail|waiting = 1",
    "counts tree|failed = 1",
    "counts tree|running = 2",
    "extras b:hasty#1a3185c5000011000 = hasty.1",
    "extras c:hasty#1a3185c5000011000|hasty.1 = Flost",
    "extras c:parent#1a3185c500000b000|parent.1 = Cone",
    "extras l:delayed = user=7\\nrole=x",
    "extras n:noted = page 3",
    "extras r:again = busy",
    "extras r:dead = no such address",
    "extras r:hasty.1 = lost",
    "extras r:kept = sent",
    "extras s:parent = n1#1",
    "groups g| = 0|1|200|1800000000000|2|0|-|||||",
    "groups g|t1 = 1|0|100|1800000000000|1|1800000000700|b|||||",
    "index c:hasty#1a3185c5000011000|hasty.1 = 0",
    "index c:parent#1a3185c500000b000|parent.1 = 0",
    "index f:mail|1a3185412a0005000dead = 0",
    "index f:tree|1a3185c5000013000hasty.1 = 0",
    "index k:role=x|delayed = 0",
    "index k:user=7|delayed = 0",
    "index o:former#1a3185c5000016000|former.1 = 0",
    "index o:parent#1a3185c500000b000|parent.2 = 0",
    "jobs again = 1|D|263415398400010|1|||j||0|0|mail||1a3185412a0009000|9|0|1800000000300|1a3185c5000009000|0|",
    "jobs dead = 1|F|263415398400006|1|||j||0|0|mail||1a3185412a0005000|9|0|0|1a3185c5000005000|0|",
    "jobs delayed = 1|D|0|0|||dl||0|0|mail||1a3185a8ec8002000|2|9|1800000005000|1a3185c5000002000|0|join|req-7",
    "jobs former.1 = 1|Q|0|0||||former#1a3185c5000016000|0|0|tree||1a3185c5000018000|0|0|0|1a3185c5000018000|0|",
    "jobs grouped = 1|Q|263415398400004|0|||||0|0|g|t1|1a3185c5000003000|0|0|0|1a3185c5000003000|0|",
    "jobs hasty = 1|R|263415398400018|1|n1|1800000000900|fchb||0|0|tree||1a3185c5000011000|0|0|0|1a3185c5000011000|0|",
    "jobs hasty.1 = 1|F|263415398400020|1|||ej|hasty#1a3185c5000011000|0|0|tree||1a3185c5000013000|0|0|0|1a3185c5000013000|0|",
    "jobs kept = 1|C|263415398400008|1|||j||0|-1|mail||1a3185412a0007000|9|0|0|1a3185c5000007000|0|",
    "jobs noted = 1|R|263415398400027|1|n1||n||0|0|tree||1a3185412a001a000|9|0|0|1a3185c500001a000|0|",
    "jobs parent = 1|W|263415398400012|0|||fcw||1|0|mail||1a3185412a000b000|9|0|0|1a3185c500000b000|0|",
    "jobs parent.2 = 1|R|263415398400016|1|n1|||parent#1a3185c500000b000|0|0|g||1a3185c500000e000|0|0|0|1a3185c500000e000|0|",
    "jobs ready = 1|Q|0|0|||||0|0|mail||1a3185c5000001000|0|0|0|1a3185c5000001000|0|",
    "lane:an1  = 35|263415398400027| noted",
    "lane:p  = 34|A",
    "lane:s  = 36|U",
    "leases hasty = 1800000030000",
    "leases noted = 1800000030000",
    "leases parent.2 = 1800000030000",
    "meta armed = 1800000000000",
    "meta duty = n1",
    "meta grace = 0",
    "meta hold = 0",
    "meta incarnation = 1800000000000",
    "meta ticked = 1800000000000",
    "meta token = 263415398400027",
    "queues g = g|30000|300,,1000,60000,next|0|-1|0|0|60000|0|0|0|2|1000|3",
    "queues mail = -|5000||2|2000|0|0|60000|0|0|0|0|0|0",
    "queues tree = -|30000||0|-1|0|0|60000|0|0|0|0|0|0",
    "ready g|t1|1a3185c5000003000grouped = 0",
    "ready mail|1a3185c5000001000ready = 0",
    "ready tree|1a3185c5000018000former.1 = 0",
    "timers d:again = 1800000000300",
    "timers d:delayed = 1800000005000",
    "timers g:g|t1 = 1800000000700",
    "timers r:dead = 1800000002000",
    "timers r:delayed = 1800000060000",
    "timers x:former#1a3185c5000016000 = 1800000000000",
    "waiting g|00ef932d400015|n1|5 = 0",
    "waiting mail|f674301a980000ef932d400019|n1|1 = 0",
];

#[tokio::test]
async fn the_data_in_redis_are_these_bytes() {
    let lines = set(Which::Redis).await.dump().await.lines();
    assert!(lines == GOLDEN, "{lines:#?}");
}

#[tokio::test]
async fn the_data_in_memory_are_the_same() {
    let lines = set(Which::Memory).await.dump().await.lines();
    assert!(lines == GOLDEN, "{lines:#?}");
}

#[tokio::test]
async fn the_keys_have_these_names() {
    let lab = set(Which::Redis).await;
    let Some(redis::Value::Array(names)) = lab.raw("KEYS", "*", &[]).await else { panic!() };
    let text = |name| match name {
        redis::Value::BulkString(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    };
    let mut names: Vec<_> = names.into_iter().map(text).collect();
    names.sort();
    let kinds = [
        "bodies", "clock", "counts", "extras", "groups", "index", "jobs", "lane:an1", "lane:p", "lane:s",
        "leases", "meta", "queues", "ready", "timers", "waiting",
    ];
    let set = names[0].split(['{', '}']).nth(1).unwrap();
    assert_eq!(names, kinds.map(|kind| format!("tenure:{{{set}}}:q:{kind}")));
}
