use tenure_testing::history::History;

use super::*;

const GRACE: Duration = Duration::from_nanos(4);

fn key() -> String {
    "k".into()
}

fn made(idempotent: bool) -> Event {
    Event::AskMade { key: key(), id: "a".into(), idempotent }
}

fn handed(token: u64) -> Event {
    Event::AskHanded { key: key(), id: "a".into(), token, worker: format!("w{token}") }
}

fn said(token: u64, said: AskWord) -> Event {
    Event::AskSaid { key: key(), id: "a".into(), token, said }
}

fn ended(end: AskEnd) -> Event {
    Event::AskEnded { key: key(), id: "a".into(), end }
}

fn answered(id: &str, token: u64) -> Event {
    ended(AskEnd::Answered(Words { id: id.into(), token, payload: 1 }.to_string()))
}

fn started(token: u64) -> Event {
    Event::Started { key: key(), token, worker: format!("w{token}") }
}

fn lost() -> Event {
    Event::DataLost { lost: 0, since: 0, back: 0, wiped: false }
}

/// The findings in these events, one a nanosecond from 1 on.
fn found(events: &[Event]) -> Vec<String> {
    let history = History::new();
    for (at, event) in (1..).zip(events) {
        history.record_at(at, event.clone());
    }
    let entries = history.entries();
    broken_promises(&entries, &Losses::of(&entries), GRACE)
}

#[test]
fn an_answered_ask_is_fine() {
    assert_eq!(
        found(&[started(3), made(false), handed(3), said(3, AskWord::Answer), answered("a", 3)]),
        [""; 0]
    );
    let refused = ended(AskEnd::Refused("a 3 1".into()));
    assert_eq!(found(&[started(3), made(false), handed(3), said(3, AskWord::Refusal), refused]), [""; 0]);
}

#[test]
fn an_ask_that_was_handed_over_twice_is_found() {
    let twice = [made(false), handed(3), handed(4), answered("a", 4)];
    assert_eq!(found(&twice), ["k: ask a was handed over 2 times, under [3, 4]"]);
    // The words of the first handler do not matter, unless it sends the ask on.
    let with = |word| found(&[made(false), handed(3), said(3, word), handed(4), answered("a", 4)]).len();
    assert_eq!((with(AskWord::Nothing), with(AskWord::Answer), with(AskWord::SentOn)), (1, 1, 0));
    assert_eq!(found(&[&[lost()], &twice[..]].concat()), [""; 0]);
}

#[test]
fn an_idempotent_ask_may_come_to_each_owner_once() {
    assert_eq!(found(&[made(true), handed(3), handed(4), answered("a", 4)]), [""; 0]);
    let again = |word| found(&[made(true), handed(3), said(3, word), handed(3), answered("a", 3)]);
    let twice = "k: ask a is idempotent, and came again to 3, which had neither dropped it nor sent it on";
    assert_eq!(again(AskWord::Answer), [twice]);
    assert_eq!(found(&[made(true), handed(3), handed(3)]), [twice]);
    assert_eq!((again(AskWord::Nothing), again(AskWord::SentOn)), (vec![], vec![]));
}

#[test]
fn an_ask_that_was_handled_does_not_end_as_not_handled() {
    let late = || ended(AskEnd::NotHandled("Late".into()));
    let handled = ["k: ask a ended as not handled (Late), and was handed to 3"];
    assert_eq!(found(&[made(false), handed(3), late()]), handled);
    // Nor is it handed over later.
    assert_eq!(found(&[made(true), late(), handed(3)]), handled);
    assert_eq!(found(&[made(false), handed(3), said(3, AskWord::SentOn), late()]), [""; 0]);
    assert_eq!(found(&[lost(), made(false), handed(3), late()]), [""; 0]);
    assert_eq!(found(&[made(false), handed(3), ended(AskEnd::Unknown)]), [""; 0]);
}

#[test]
fn an_answer_belongs_to_its_ask() {
    let other = |words: &str| vec![format!("k: ask a has the answer '{words}', which no handler gave to it")];
    assert_eq!(found(&[made(false), handed(3), answered("b", 3)]), other("b 3 1"));
    assert_eq!(found(&[made(false), handed(3), answered("a", 4)]), other("a 4 1"));
    assert_eq!(found(&[made(false), answered("a", 3), handed(3)]), other("a 3 1"));
    assert_eq!(found(&[made(false), handed(3), ended(AskEnd::Refused("no".into()))]), other("no"));
}

#[test]
fn a_former_owner_answers_no_ask_that_was_made_later() {
    let events = [started(3), started(4), made(false), handed(3), answered("a", 3)];
    let former = [
        "k: ask a was answered by 3, and 4 had started before it was made",
        "k: ask a was handed to 3 0 ms after the start of 4",
    ];
    assert_eq!(found(&events), former);
    assert_eq!(found(&[started(3), made(false), handed(3), started(4), answered("a", 3)]), [""; 0]);
}

#[test]
fn no_ask_comes_to_a_run_that_another_has_followed() {
    let late = |before: &[Event]| found(&[before, &[made(false), started(4), handed(3)]].concat());
    let pause = [started(3), Event::Paused { worker: "w3".into() }, Event::Resumed { worker: "w3".into() }];
    assert_eq!(late(&[started(3)]), ["k: ask a was handed to 3 0 ms after the start of 4"]);
    assert_eq!(late(&pause), [""; 0]);
    let long_ago = [&pause[..], &[lost(), lost()]].concat();
    assert_eq!(late(&long_ago).len(), 1);
}

#[test]
fn an_ask_comes_after_the_notifications_before_it() {
    let accepted = |asked| Event::NotifyAccepted { key: key(), number: 7, asked };
    let taken = || Event::Notified { key: key(), number: 7 };
    let before = ["k: ask a was handed to 3 before notification 7"];
    assert_eq!(found(&[started(3), accepted(1), made(false), handed(3), taken()]), before);
    assert_eq!(found(&[started(3), accepted(1), made(false), taken(), handed(3)]), [""; 0]);
    // The notification may be one for an earlier owner.
    assert_eq!(found(&[started(3), accepted(0), made(false), handed(3)]), [""; 0]);
    assert_eq!(found(&[started(3), made(false), accepted(2), handed(3)]), [""; 0]);
    assert_eq!(found(&[lost(), started(3), accepted(2), made(false), handed(3)]), [""; 0]);
}
