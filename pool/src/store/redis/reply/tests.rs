#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::model::id::Revision;

fn bulk(text: &str) -> Value {
    Value::BulkString(text.into())
}

fn reply(values: Vec<Value>) -> Reply {
    Reply::of("route", Value::Array(values)).unwrap()
}

fn cause(error: StoreError) -> String {
    match error {
        StoreError::Damaged(source) => source.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn codes_become_refusals() {
    let refused = |values| match reply(values).ok().map(|_| ()) {
        Err(StoreError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(vec![bulk("NOPOOL")]), Refusal::NoPool);
    assert_eq!(refused(vec![bulk("STALERING"), bulk("17")]), Refusal::StaleRing(Revision(17)));
    assert_eq!(refused(vec![bulk("STALERING"), bulk("x")]), Refusal::StaleRing(Revision::UNREADABLE));
    assert_eq!(refused(vec![bulk("MEMBERS"), Value::Int(3)]), Refusal::Members(3));
    let setting = refused(vec![bulk("SETTING"), bulk("worker_ttl"), bulk("1"), bulk("2")]);
    assert_eq!(setting, Refusal::Setting { name: "worker_ttl".into(), theirs: "1".into(), ours: "2".into() });
}

#[test]
fn a_strange_answer_names_the_script_and_is_quoted_in_part() {
    let error = cause(reply(vec![bulk("PERHAPS")]).ok().map(|_| ()).unwrap_err());
    assert!(error.starts_with("route answered") && error.contains("PERHAPS"), "{error}");
    let error = cause(Reply::of("sweep", Value::Okay).map(|_| ()).unwrap_err());
    assert!(error.contains("sweep") && error.contains("a list"), "{error}");
    let error = cause(reply(vec![bulk("MEMBERS"), bulk("x")]).ok().map(|_| ()).unwrap_err());
    assert!(error.contains("a number"), "{error}");
    let long = Value::Array(vec![bulk(&"é".repeat(5_000))]);
    assert!(cause(Reply::of("take", Value::Set(vec![long])).map(|_| ()).unwrap_err()).len() < 1_000);
}

#[test]
fn a_batch_needs_one_value_for_each_item() {
    assert!(reply(vec![bulk("OK"), bulk("A"), bulk("B")]).items(2).is_ok());
    let error = cause(reply(vec![bulk("OK"), bulk("A")]).items(2).map(|_| ()).unwrap_err());
    assert!(error.contains("one value for each item"), "{error}");
}

#[test]
fn numbers_come_as_integers_and_as_text() {
    let mut values =
        reply(vec![bulk("OK"), Value::Int(4), bulk("5"), bulk(""), Value::Int(-1)]).ok().unwrap();
    assert_eq!(values.number().unwrap(), 4);
    assert_eq!(values.number_or_empty().unwrap(), Some(5));
    assert_eq!(values.number_or_empty().unwrap(), None);
    assert!(values.number().is_err(), "negative");
    assert!(values.number().is_err(), "nothing left");
}

#[test]
fn errors_keep_what_became_of_the_call() {
    use tenure_connection::Error;
    let server = |code: &str| Error::Server { code: code.into(), detail: "".into() };
    assert!(matches!(failed(server("OOM")), StoreError::NotExecuted(_)));
    assert!(failed(server("OOM")).is_full() && !failed(server("READONLY")).is_full());
    assert!(matches!(failed(server("MISCONF")), StoreError::NotExecuted(_)));
    assert!(matches!(failed(server("WRONGTYPE")), StoreError::Damaged(_)));
    assert!(matches!(failed(server("ERR")), StoreError::Damaged(_)));
    assert!(matches!(failed(server("NOPERM")), StoreError::Unusable(_)));
    for words in ["The user executing the script can't run this command", "ACL failure in script: no"] {
        let lacking = failed(Error::Server { code: "ERR".into(), detail: words.into() });
        assert!(matches!(lacking, StoreError::Unusable(_)) && lacking.is_forbidden(), "{lacking:?}");
    }
    let unsuitable = Error::Unsuitable { code: "ERR".into(), detail: "cluster support disabled".into() };
    assert!(matches!(failed(unsuitable), StoreError::Unusable(_)));
    assert!(matches!(failed(Error::TimedOut(std::time::Duration::ZERO)), StoreError::Unanswered(_)));
    assert!(matches!(
        failed(Error::OtherServer { run_id: "a".into() }),
        StoreError::OtherServer { run_id } if run_id == "a"
    ));
}

#[test]
fn letters_have_what_belongs_to_them_and_nothing_else() {
    tenure_steps::letters! {
        #[derive(Debug, PartialEq)]
        enum Answer { b'a': Nothing, b'o': Said(String) }
    }
    let read = |values: Vec<Value>| reply(values).ok()?.letters::<Answer>(3, "letters");
    let said = |text: &str| Answer::Said(text.to_owned());
    let sound = vec![bulk("OK"), bulk("oao"), bulk("1"), bulk("2")];
    assert_eq!(read(sound.clone()).unwrap(), [said("1"), Answer::Nothing, said("2")]);
    for (count, text) in [(3, "oao"), (4, "oaa"), (4, "oa"), (4, "oaoa"), (4, "oax")] {
        let mut values = sound.clone();
        values.truncate(count);
        values[1] = bulk(text);
        assert!(matches!(read(values), Err(StoreError::Damaged(_))), "{text}");
    }
}

#[test]
fn a_letter_has_a_text_of_its_own() {
    tenure_steps::letters! {
        #[derive(Debug, PartialEq)]
        enum Answer { b'a': Nothing }
    }
    let read = |text: &str| reply(vec![bulk("OK"), bulk(text)]).ok()?.letter::<Answer>("a letter");
    assert_eq!(read("a").unwrap(), Answer::Nothing);
    for strange in ["", "b", "aa", "é"] {
        assert!(cause(read(strange).unwrap_err()).contains("a letter"), "{strange}");
    }
}

/// A wrong answer would start a job that no stop reaches.
#[test]
fn begin_answers_only_for_the_requested_jobs() {
    use crate::model::id::{JobKey, Token, WorkerId};
    use crate::store::WorkerBegins;
    let job = |token| vec![(JobKey::try_from("k").unwrap(), Token(token))];
    let begins =
        |worker, token| WorkerBegins { worker: WorkerId(worker), finished: vec![], jobs: job(token) };
    let asked = [begins(4, 1), begins(5, 7), begins(6, 9)];
    let read = |record: &str| {
        let answer = ["OK", "FOO", "BB", "1|R|5|7|1|1|1|n.a|1||0|", "payload", record, "payload"].map(bulk);
        let reply = Reply::of("begin", Value::Array(answer.into())).unwrap();
        super::super::ownership::begun_all(reply, &asked)
    };
    let right = read("1|R|6|9|1|1|1|n.b|1||0|").unwrap();
    assert!(right[0].is_err() && right[1].is_ok() && right[2].is_ok());
    for wrong in ["1|R|6|8|1|1|1|n.b|1||0|", "1|R|5|9|1|1|1|n.b|1||0|", "1|Q||9|1|1|1|n.b|1||0|"] {
        let error = cause(read(wrong).unwrap_err());
        assert!(error.contains("the record that was asked for"), "{error}");
    }
}

#[test]
fn unreadable_parts_of_a_list_are_skipped_and_noted() {
    let list = |texts: &[&str]| Value::Array(texts.iter().map(|text| bulk(text)).collect());
    let long = "x".repeat(65);
    let pairs = list(&["n.a", "ok", "no id", "ok", &format!("n.{long}"), "ok", "n.!b", "e:no", "n.c"]);
    let mut values = reply(vec![bulk("OK"), pairs, bulk("7")]).ok().unwrap();
    let read: Vec<_> = values.outcomes().unwrap().into_iter().map(|(id, _)| id.to_string()).collect();
    assert_eq!(read, ["n.a", "n.!b"]);
    assert_eq!(values.strange().len(), 3, "{:?}", values.strange());
    assert_eq!(values.number().unwrap(), 7);
}
