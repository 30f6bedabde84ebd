#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;

fn fields(words: &[&str]) -> Values {
    let words = words.iter().map(|word| Value::BulkString((*word).into())).collect();
    Values::of("XREAD", Value::Array(words)).unwrap()
}

fn key(text: &str) -> JobKey {
    JobKey::try_from(text).unwrap()
}

#[test]
fn start_events_carry_the_strikes() {
    assert_eq!(strikes(b"s"), Some(0));
    assert_eq!(strikes(b"s12"), Some(12));
    assert_eq!(strikes(b"x"), None);
    assert_eq!(strikes(b"s-1"), None);
    let entry = |id: &str, words: &[&str]| {
        let words = words.iter().map(|word| Value::BulkString((*word).into())).collect();
        Value::Array(vec![Value::BulkString(id.into()), Value::Array(words)])
    };
    let mut entries = Values::of(
        "XREADGROUP",
        Value::Array(vec![entry("5-1", &["s", "a", "s3", "b", "z", "c"]), entry("5-2", &["later", "1"])]),
    )
    .unwrap();
    let mut events = Vec::new();
    pool_events(&mut entries, &mut events).unwrap();
    assert_eq!(events[0].entry, EntryId { ms: 5, seq: 1 });
    assert_eq!(events[0].jobs, [(key("a"), 0), (key("b"), 3)]);
    assert_eq!(events[1].jobs, [], "an entry without jobs is kept, so that it is acknowledged");
}

#[test]
fn of_a_start_event_that_no_step_writes_a_step_is_taken() {
    let names: Vec<_> = (0..=BATCH_MAX).flat_map(|i| ["s".to_owned(), format!("k{i}")]).collect();
    let words = names.into_iter().map(|word| Value::BulkString(word.into())).collect();
    let entry = Value::Array(vec![Value::BulkString("5-1".into()), Value::Array(words)]);
    let mut events = Vec::new();
    pool_events(&mut Values::of("XREADGROUP", Value::Array(vec![entry])).unwrap(), &mut events).unwrap();
    assert_eq!(events[0].jobs.len(), BATCH_MAX);
}

#[test]
fn worker_events_have_one_kind() {
    assert_eq!(
        worker_event(fields(&["t", "9", "s", "a", "s", "t"])).unwrap(),
        WorkerEvent::Start { token: Token(9), keys: vec![key("a"), key("t")] }
    );
    assert_eq!(
        worker_event(fields(&["w", "n1", "x", "a", "t", "9"])).unwrap(),
        WorkerEvent::Stop {
            waiting: Some(NodeName::new("n1").unwrap()),
            jobs: vec![(key("a"), Token(9), None)]
        },
        "an older one"
    );
    let (id, own) = ("n1.01ABC".parse().ok(), "n1.!b".parse().ok());
    assert_eq!(
        worker_event(fields(&[
            "w", "", "x", "a", "t", "9", "i", "n1.01ABC", "x", "b", "t", "8", "i", "n1.!b"
        ]))
        .unwrap(),
        WorkerEvent::Stop { waiting: None, jobs: vec![(key("a"), Token(9), id), (key("b"), Token(8), own)] }
    );
    assert_eq!(
        worker_event(fields(&["w", "", "x", "a", "t", "9"])).unwrap(),
        WorkerEvent::Stop { waiting: None, jobs: vec![(key("a"), Token(9), None)] }
    );
    assert_eq!(
        worker_event(fields(&["n", "a", "t", "9", "n", "b", "t", "8"])).unwrap(),
        WorkerEvent::Notify { jobs: vec![(key("a"), Token(9)), (key("b"), Token(8))] }
    );
    let (plain, moved) = ("1|R|7|9|1|0|5|n1.a|5||0|", "1|R|7|9|1|2|5|n1.b|4||0||3");
    let kept = Checkpoint { token: Token(4), number: 2, at: 8, bytes: "state".into() };
    let job = |name: &str, record: &str, awaited, checkpoint: Option<Checkpoint>| GrantedJob {
        key: key(name),
        awaited,
        job: BegunJob {
            record: Record::parse(record.as_bytes()).unwrap(),
            waiting: name == "q",
            payload: "body".into(),
            checkpoint: checkpoint.map(Box::new),
        },
    };
    let granted = Granted {
        token: Token(9),
        incarnation: Incarnation(3),
        jobs: vec![job("p", plain, true, None), job("q", moved, false, Some(kept))],
    };
    let header = "1|4|2|8";
    let grant = ["g", "9", "i", "3", "p", plain, "B", "body", "q", moved, "d", "body", header, "state"];
    assert_eq!(worker_event(fields(&grant)).unwrap(), WorkerEvent::Grant(granted));
    for damaged in ["none", "1|R|7|8|1|0|5|n1.a|5||0|", "1|R|7|9|1|0|5|n1.a|5||99999999999|"] {
        let asked = WorkerEvent::Start { token: Token(9), keys: vec![key("p"), key("q")] };
        let words = ["g", "9", "i", "3", "p", plain, "B", "body", "q", damaged, "B", "body"];
        assert_eq!(worker_event(fields(&words)).unwrap(), asked, "the worker asks for all: {damaged}");
    }
    let head = "7|?5.3|f|name";
    let ask = WorkerEvent::Ask {
        asker: NodeName::new("n1").unwrap(),
        asks: vec![(key("a"), AskEvent::parse(head.as_bytes(), Token(9), "body".into()).unwrap())],
    };
    assert_eq!(worker_event(fields(&["a", "n1", "a", head, "9", "body"])).unwrap(), ask);
    let strange: [&[&str]; 15] = [
        &grant[..6],
        &["g", "9", "p", plain, "B", "body"],
        &["g", "9", "i", "3", "p", plain, "Q", "body"],
        &["g", "9", "i", "3", "p", plain, "C", "body"],
        &["a", "n.1", "a", head, "9", "body"],
        &["a", "n1", "a", head],
        &["a", "n1", "a", "7|?5.3|f", "9", "body"],
        &["w", "", "x", "a", "t", "9", "i", "none"],
        &["w", "", "x", "a", "t", "9", "y", "n1.a"],
        &["q", "1"],
        &["t", "x", "s", "a"],
        &["t", "9", "z", "a"],
        &["w", "n.1", "x", "a", "t", "9"],
        &["n", "a"],
        &["w", "", "x", "a", "t", "nine"],
    ];
    for words in strange {
        assert_eq!(worker_event(fields(words)).unwrap(), WorkerEvent::Unknown, "{words:?}");
    }
}

#[test]
fn entries_without_an_outcome_are_skipped() {
    let mut replies = Vec::new();
    assert_eq!(outcomes(fields(&["open", "1"]), &mut replies).unwrap(), []);
    let words = ["n1.a", "ok", "?5.3", "ayes", "?5.4", "zebra", "?5", "m", "n1.!b", "e:no"];
    let read = outcomes(fields(&words), &mut replies).unwrap();
    assert_eq!(
        read.iter().map(|(id, o)| (id.as_str(), o.as_str())).collect::<Vec<_>>(),
        [("n1.a", "ok"), ("n1.!b", "e:no")]
    );
    assert_eq!(replies, [(AskId { life: 5, number: 3 }, Said::Answer("yes".into()))]);
}

#[test]
fn a_block_of_nothing_does_not_wait_for_ever() {
    let mut command = redis::cmd("XREAD");
    hold(&mut command, Duration::from_micros(500));
    assert_eq!(command.args_iter().count(), 1);
}
