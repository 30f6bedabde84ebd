//! All letters of the protocol in one table of `docs/protocol/data.md`, so that nobody gives a letter two meanings.

use std::fmt::Write as _;

use bytes::Bytes;
use tenure_steps::{File, Letters};

use crate::model::member::MemberState;
use crate::model::record::JobState;
use crate::model::why::Cause;
use crate::store::redis::ownership::mode_letter;
use crate::store::redis::script::Scripts;
use crate::store::{ReleaseMode, Said, Way};

const STATES: [JobState; 5] =
    [JobState::Queued, JobState::Assigned, JobState::Running, JobState::Stopping, JobState::Parked];

const MODES: [ReleaseMode; 7] = [
    ReleaseMode::Delete,
    ReleaseMode::HandOff,
    ReleaseMode::GiveBack,
    ReleaseMode::Refuse,
    ReleaseMode::Elsewhere { workers: 1 },
    ReleaseMode::Fail,
    ReleaseMode::Park,
];

/// The events of a worker's stream, by the first field of their entries.
const EVENTS: [(u8, &str); 7] = [
    (b't', "start"),
    (b'g', "grant"),
    (b'w', "stop"),
    (b'a', "ask"),
    (b'u', "update"),
    (b'r', "steer"),
    (b'n', "notify"),
];

const HEAD: &str = "| letter | job | member | why | way | release | event | word for an ask | answer of |
|---|---|---|---|---|---|---|---|---|
";

/// A variant's name in words.
fn words(variant: &impl std::fmt::Debug) -> String {
    let name = format!("{variant:?}");
    let name = name.split([' ', '(', '{']).next().unwrap_or_default();
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// The word for an ask with this letter.
fn said(letter: u8) -> Option<Said> {
    let own = [Said::Answer(Bytes::new()), Said::Refused(Bytes::new())];
    Said::of_letter(letter).or_else(|| own.into_iter().find(|said| said.letter() == letter))
}

/// The scripts that answer this letter.
fn answering(letter: u8) -> String {
    let files = Scripts::FILES.iter().filter(|file| file.answers().iter().any(|list| list.contains(&letter)));
    files.map(File::script).collect::<Vec<_>>().join(", ")
}

/// A row for each letter that means something.
fn table() -> String {
    let mut table = HEAD.to_owned();
    for letter in (b'A'..=b'Z').chain(b'a'..=b'z') {
        let (sign, text) = (char::from(letter), char::from(letter).to_string());
        let cells = [
            STATES.iter().find(|state| state.letter() == sign).map(words),
            MemberState::from_letter(&text).as_ref().map(words),
            Cause::ALL.iter().find(|cause| cause.letter() == text).map(words),
            Way::of_letter(letter).as_ref().map(words),
            MODES.iter().find(|mode| mode_letter(**mode) == text).map(words),
            EVENTS.iter().find(|(event, _)| *event == letter).map(|(_, name)| (*name).to_owned()),
            said(letter).as_ref().map(words),
            Some(answering(letter)),
        ];
        let cells: Vec<_> = cells.map(Option::unwrap_or_default).into();
        if cells.iter().any(|cell| !cell.is_empty()) {
            writeln!(table, "| `{sign}` | {} |", cells.join(" | ")).unwrap();
        }
    }
    table
}

#[test]
fn the_events_are_those_that_a_worker_reads() {
    let source = include_str!("../../events/mod.rs");
    let arms = source.lines().filter_map(|line| line.trim().strip_prefix("b\"")?.split_once("\" => "));
    let letters = arms.filter_map(|(letter, _)| letter.bytes().next());
    assert_eq!(letters.collect::<Vec<_>>(), EVENTS.map(|(letter, _)| letter));
}

#[test]
fn all_letters_stand_in_the_page_of_the_data() {
    let page = include_str!("../../../../../../docs/protocol/data.md");
    assert!(page.contains(&table()), "docs/protocol/data.md must have this table:\n{}", table());
}

#[test]
fn no_letter_means_two_things_in_one_place() {
    let lists = [
        STATES.map(|state| state.letter().to_string()).to_vec(),
        Cause::ALL.map(|cause| cause.letter().to_owned()).to_vec(),
        MODES.map(|mode| mode_letter(mode).to_owned()).to_vec(),
        Way::LETTERS.iter().map(|letter| char::from(*letter).to_string()).collect(),
        Said::LETTERS.iter().map(|letter| char::from(*letter).to_string()).collect(),
    ];
    for mut list in lists {
        let all = list.len();
        list.sort();
        list.dedup();
        assert_eq!(list.len(), all, "{list:?}");
    }
    for list in Scripts::FILES.iter().flat_map(File::answers) {
        let mut letters = list.to_vec();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), list.len(), "{:?}", String::from_utf8_lossy(list));
    }
}
