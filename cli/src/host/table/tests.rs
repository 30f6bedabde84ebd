//! The words of a host, in and out of turn.
#![allow(clippy::unwrap_used)]
use super::*;

type Jobs = Table<&'static str, &'static str>;

fn say(table: &mut Jobs, line: &str) -> Result<Heard<&'static str, &'static str>, Breach> {
    table.hear(serde_json::from_str(line).unwrap())
}

#[test]
fn a_job_starts_and_ends_once() {
    let mut table = Jobs::new();
    let (job, mut waits) = table.add("a");
    say(&mut table, r#"{"op":"started","job":1}"#).unwrap();
    assert_eq!(waits.began.take().unwrap().try_recv(), Ok(Began::Started));
    let again = say(&mut table, r#"{"op":"started","job":1}"#);
    assert_eq!(again, Err(Breach::Unasked { op: "started", job: 1 }));
    let unasked = say(&mut table, r#"{"op":"stopped","job":1}"#);
    assert_eq!(unasked, Err(Breach::Unasked { op: "stopped", job: 1 }));
    assert!(table.stop(job) && !table.stop(job));
    assert!(table.has(job) && !table.has_only_stuck());
    table.is_stuck(job);
    assert!(table.has_only_stuck());
    say(&mut table, r#"{"op":"stopped","job":1}"#).unwrap();
    assert_eq!((waits.end.try_recv(), table.len()), (Ok(End::Stopped), 0));
    let twice = say(&mut table, r#"{"op":"stopped","job":1}"#);
    assert_eq!(twice, Err(Breach::Twice { op: "stopped", job: 1 }));
}

#[test]
fn an_end_is_told_to_who_waits_or_else_to_all() {
    let mut table = Jobs::new();
    let (to, ends) = std::sync::mpsc::channel();
    let on_end: OnEnd<&'static str> = Arc::new(move |of, end| to.send((*of, end)).unwrap());
    for of in ["a", "b", "c"] {
        let (job, _waits) = table.add(of);
        say(&mut table, &format!(r#"{{"op":"started","job":{job}}}"#)).unwrap();
        assert!(table.lives_on(job, on_end.clone()));
    }
    let mut waits = table.wait(2).unwrap();
    for job in [1, 2] {
        say(&mut table, &format!(r#"{{"op":"ended","job":{job}}}"#)).unwrap();
    }
    table.gone("killed");
    let ended = || End::Ended { error: None, park: false, lost: false };
    assert_eq!(waits.try_recv(), Ok(ended()));
    assert_eq!(ends.try_iter().collect::<Vec<_>>(), [("a", ended()), ("c", End::Gone("killed".into()))]);
    assert!(table.wait(1).is_none() && !table.lives_on(3, on_end));
}

#[test]
fn a_word_for_a_job_that_never_was_is_a_breach() {
    let mut table = Jobs::new();
    table.add("a");
    for (op, line) in [
        ("started", r#"{"op":"started","job":2}"#),
        ("ended", r#"{"op":"ended","job":0}"#),
        ("ack", r#"{"op":"ack","job":9,"n":1}"#),
        ("progress", r#"{"op":"progress","job":9}"#),
    ] {
        let heard = say(&mut table, line);
        assert!(matches!(heard, Err(Breach::UnknownJob { op: it, .. }) if it == op), "{line}");
    }
    assert_eq!(say(&mut table, r#"{"op":"hello","v":[1]}"#), Err(Breach::SecondHello));
}

#[test]
fn words_that_cross_the_end_of_a_job_are_passed_over() {
    let mut table = Jobs::new();
    let (job, _waits) = table.add("a");
    table.note(job).unwrap();
    say(&mut table, r#"{"op":"ended","job":1}"#).unwrap();
    assert!(!table.stop(job) && table.note(job).is_none());
    for line in [
        r#"{"op":"ack","job":1,"n":1}"#,
        r#"{"op":"answer","job":1,"n":1}"#,
        r#"{"op":"progress","job":1}"#,
        r#"{"op":"status","job":1,"text":"x"}"#,
    ] {
        assert_eq!(say(&mut table, line), Ok(Heard::Nothing), "{line}");
    }
    let late = say(&mut table, r#"{"op":"checkpoint","job":1,"rid":4,"body":"x"}"#);
    assert_eq!(late, Ok(Heard::Checkpoint { rid: 4, of: None, state: "x".into() }));
}

#[test]
fn numbers_are_answered_once_and_only_if_they_were_given() {
    let mut table = Jobs::new();
    let (job, _waits) = table.add("a");
    let (n, mut noted) = table.note(job).unwrap();
    let wrong = say(&mut table, r#"{"op":"ack","job":1,"n":2}"#);
    assert_eq!(wrong, Err(Breach::WrongNumber { op: "ack", job: 1, n: 2 }));
    say(&mut table, r#"{"op":"ack","job":1,"n":1,"retry_ms":50}"#).unwrap();
    let retry = Some(Duration::from_millis(50));
    assert_eq!((n, noted.try_recv()), (1, Ok(Noted { retry, error: None })));
    assert_eq!(table.ask(job, "why?", |_| true), Ok(1));
    let answer = say(&mut table, r#"{"op":"answer","job":1,"n":1,"body":"so"}"#);
    assert_eq!(answer, Ok(Heard::Answer("why?", Ok("so".into()))));
    assert_eq!(say(&mut table, r#"{"op":"answer","job":1,"n":1}"#), Ok(Heard::Nothing));
    let wrong = say(&mut table, r#"{"op":"answer","job":1,"n":2}"#);
    assert_eq!(wrong, Err(Breach::WrongNumber { op: "answer", job: 1, n: 2 }));
    assert_eq!(table.ask(job, "where?", |_| true), Ok(2));
    let moved = say(&mut table, r#"{"op":"answer","job":1,"n":2,"moved":true}"#);
    assert_eq!(moved, Ok(Heard::Moved("where?")));
    let (_, mut updated) = table.update(job).unwrap();
    say(&mut table, r#"{"op":"updated","job":1,"n":1,"restart":true}"#).unwrap();
    assert_eq!(updated.try_recv(), Ok(Updated { restart: true, error: None }));
}

#[test]
fn asks_that_nobody_answers_are_bounded() {
    let mut table = Jobs::new();
    let (job, _waits) = table.add("a");
    for n in 0..ASKS {
        assert_eq!(table.ask(job, "late", |_| true), Ok(n as u64 + 1));
    }
    assert_eq!(table.ask(job, "more", |_| true), Err("more"));
    assert!(table.ask(job, "more", |ask| *ask != "late").is_ok());
}

#[test]
fn a_host_that_goes_ends_its_jobs() {
    let mut table = Jobs::new();
    let ((_, new), (_, mut old)) = (table.add("new"), table.add("old"));
    say(&mut table, r#"{"op":"started","job":2}"#).unwrap();
    table.gone("killed");
    let gone = || End::Gone("killed".into());
    assert_eq!((new.began.unwrap().try_recv(), old.end.try_recv()), (Ok(Began::Over(gone())), Ok(gone())));
    let twice = say(&mut table, r#"{"op":"refused","job":1}"#);
    assert_eq!(twice, Err(Breach::Twice { op: "refused", job: 1 }));
}
