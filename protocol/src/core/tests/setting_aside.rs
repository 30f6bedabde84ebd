//! A step fails on the stored data of one job. The batch is halved until the job is alone, and the others go on.

use tenure_steps::Failure;

use super::bench::{Bench, key, millis, secs};
use super::render;
use crate::core::input::{Command, HandlerEvent};
use crate::step::StoreError;

fn damaged() -> StoreError {
    StoreError::Damaged(Failure::new(std::fmt::Error))
}

/// Carries out calls of this kind for less than a second: those that name the bad job fail. Returns the calls and the
/// reports.
fn carried_out(bench: &mut Bench, kind: &str, succeed: impl Fn(&mut Bench)) -> Vec<String> {
    let mut seen = bench.of(&["!", kind]);
    for _ in 0..20 {
        while bench.is_calling(kind) {
            if render::call(&bench.in_flight_call(kind)).contains("bad") {
                bench.fail_with(kind, damaged());
            } else {
                succeed(bench);
            }
            seen.extend(bench.of(&["!", kind]));
        }
        bench.advance(millis(20));
        seen.extend(bench.of(&["!", kind]));
    }
    seen
}

/// The job is tried alone after its pause, without a report, and no other work is left.
fn is_tried_alone(bench: &mut Bench, kind: &str, line: &str, succeed: impl Fn(&mut Bench)) {
    for pause in [1, 2, 4] {
        assert_eq!(bench.after(secs(pause)).of(&["!", kind]), [line], "after {pause} s");
        bench.fail_with(kind, damaged());
    }
    bench.advance(secs(8));
    succeed(bench);
    assert_eq!(bench.of(&["!", kind]), [line]);
    assert_eq!(bench.after(secs(20)).of(&["!", kind]), [""; 0]);
}

#[test]
fn a_release_that_fails_holds_up_no_other() {
    let mut bench = Bench::that_runs(3, &["a", "b", "bad", "c", "d"]);
    bench.all();
    for name in ["a", "b", "bad", "c", "d"] {
        bench.handler(1, name, 3, HandlerEvent::Ended(Ok(())));
    }
    let seen = carried_out(&mut bench, "release", Bench::released);
    let seen: Vec<_> = seen.iter().map(|line| names_in(line)).collect();
    assert_eq!(seen, ["a", "b bad c d", "b bad", "b", "bad c", "bad", "set aside bad", "c", "d"]);
}

/// The names of jobs in a line of releases, or the report.
fn names_in(line: &str) -> String {
    if let Some(report) = line.strip_prefix("! ") {
        return report.to_owned();
    }
    let names = ["a@", "b@", "bad@", "c@", "d@"];
    let words = line.split([' ', ';']).filter(|word| names.iter().any(|name| word.starts_with(name)));
    words.filter_map(|word| word.split('@').next()).collect::<Vec<_>>().join(" ")
}

#[test]
fn begins_of_several_workers_are_halved_together() {
    let mut bench = Bench::with_worker();
    bench.worker(2);
    bench.all();
    bench.assign(1, 5, 7, &["x"]);
    bench.assign(1, 6, 7, &["a", "bad"]);
    bench.assign(2, 5, 8, &["b", "c"]);
    let seen = carried_out(&mut bench, "begin", Bench::begun);
    let alone: Vec<_> = seen.iter().filter(|line| line.contains("bad")).collect();
    assert_eq!(alone.last().unwrap().as_str(), "! set aside bad", "{seen:#?}");
    assert!(alone[alone.len() - 2].starts_with("begin 1: bad@7"), "{seen:#?}");
    assert!(!seen.iter().any(|line| line == "! trouble"), "{seen:#?}");
    for job in ["a@7", "b@8", "c@8"] {
        assert!(seen.iter().any(|line| line.contains(job) && !line.contains("bad")), "{job} in {seen:#?}");
    }
    is_tried_alone(&mut bench, "begin", "begin 1: bad@7", Bench::begun);
}

#[test]
fn a_notification_that_fails_holds_up_no_other() {
    let mut bench = Bench::with_worker();
    let notify = |bench: &mut Bench, name: &str| {
        let (key, deadline) = (key(name), bench.now + secs(100));
        bench.command(|reply| Command::Notify { reply, key, body: "x".into(), start: None, deadline });
    };
    for name in ["a", "b", "bad", "c"] {
        notify(&mut bench, name);
    }
    let seen = carried_out(&mut bench, "notify", kept);
    let reports: Vec<_> = seen.iter().filter(|line| line.starts_with('!')).collect();
    assert_eq!(reports, ["! set aside bad"]);
    for name in ["a", "b", "c"] {
        let is_told = |line: &String| line.contains(&format!(" {name}")) && !line.contains("bad");
        assert!(seen.iter().any(is_told), "{name} in {seen:#?}");
    }
}

fn kept(bench: &mut Bench) {
    bench.answer_each("notify", crate::step::NotifyReply::Kept);
}
