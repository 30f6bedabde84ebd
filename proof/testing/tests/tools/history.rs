//! The checker finds each fault in a history that has it, and none in a good one.

use std::{fs, thread, time::Duration};

use tenure_testing::history::{
    Event, Expect, Fault, History, Holder, Percentiles, Report, boottime_ns, check,
};

/// Parses one line per event: its moment, its kind, the key, and for a handler the token and the worker; or the worker
/// alone.
fn history(text: &str) -> History {
    let history = History::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<_> = line.split_whitespace().collect();
        let name = || words[2].to_owned();
        let (key, worker) = (name, name);
        let token = || words[3].parse().unwrap();
        let event = match words[1] {
            "start" => Event::Started { key: key(), token: token(), worker: words[4].into() },
            "stop" => Event::Stopped { key: key(), token: token(), worker: words[4].into() },
            "submitted" => Event::Submitted { key: key() },
            "accepted" => Event::Accepted { key: key() },
            "stop-requested" => Event::StopRequested { key: key() },
            "begun" => Event::Begun { key: key(), token: token(), executed: words[4].parse().unwrap() },
            "stop-recorded" => Event::StopRecorded { key: key() },
            "stop-acknowledged" => Event::StopAcknowledged { key: key() },
            "paused" => Event::Paused { worker: worker() },
            "resumed" => Event::Resumed { worker: worker() },
            "dead" => Event::WorkerDead { worker: worker() },
            "freed" => Event::Freed { key: key() },
            "existed" => Event::Existed { key: key(), asked: token() },
            "not-found" => Event::NotFound { key: key(), asked: token() },
            "notify" => {
                let asked = words[4].parse().unwrap();
                Event::NotifyAccepted { key: key(), number: token(), asked }
            }
            "notified" => Event::Notified { key: key(), number: token() },
            "rolled-back" | "wiped" => {
                let moment = |index: usize| words[index].parse().unwrap();
                let (lost, since) = (moment(2), moment(3));
                let back = words.get(4).map_or(lost, |back| back.parse().unwrap());
                Event::DataLost { lost, since, back, wiped: words[1] == "wiped" }
            }
            "settled" => Event::Settled,
            other => panic!("{other}"),
        };
        history.record_at(words[0].parse().unwrap(), event);
    }
    history
}

fn report(text: &str) -> Report {
    check(&history(text), &Expect::default())
}

fn with_lease(text: &str, nanos: u64) -> Report {
    check(&history(text), &Expect { lease: Some(Duration::from_nanos(nanos)), ..Expect::default() })
}

fn with_grace(text: &str, lease: u64, grace: u64) -> Report {
    let (lease, grace) = (Some(Duration::from_nanos(lease)), Duration::from_nanos(grace));
    check(&history(text), &Expect { lease, grace, ..Expect::default() })
}

fn holder(worker: &str, token: u64) -> Holder {
    Holder { worker: worker.into(), token }
}

const GOOD: &str = "
    1 submitted a
    2 accepted a
    3 start a 10 w1
    4 accepted b
    5 start b 11 w1
    10 stop a 10 w1
    14 start a 12 w2
    15 settled
    20 dead w1
    40 start b 13 w2
    50 stop-requested a
    51 stop a 12 w2
    52 stop-acknowledged a
    53 settled
    60 submitted a
    61 start a 14 w1
    62 accepted a
";

#[test]
fn a_good_history_is_clean() {
    let report = report(GOOD);
    report.assert_clean();
    assert_eq!((report.keys, report.starts), (2, 5));
    let gaps: Vec<_> = report.gaps.iter().map(|gap| (gap.key.as_str(), gap.from, gap.to)).collect();
    assert_eq!(gaps, [("a", 10, 14), ("b", 20, 40)], "the time after a stop is no gap");
    let expected = Percentiles {
        p50: Duration::from_nanos(4),
        p99: Duration::from_nanos(20),
        max: Duration::from_nanos(20),
    };
    assert_eq!(report.gap_percentiles(), expected);
    assert_eq!(report.to_string(), "2 keys, 5 starts, gaps p50 4ns, p99 20ns, max 20ns, 0 faults");
}

#[test]
fn an_overlap_is_reported_with_both_holders_and_its_time() {
    let report = report("1 start a 1 w1 \n 5 start a 2 w2 \n 8 stop a 1 w1");
    let (first, second) = (holder("w1", 1), holder("w2", 2));
    assert_eq!(report.faults, [Fault::Overlap { key: "a".into(), first, second, from: 5, to: 8 }]);
    assert!(report.to_string().contains("a: w1 with token 1 and w2 with token 2 both ran from 5 to 8"));
}

#[test]
fn an_overlap_with_a_run_that_never_stopped_is_reported() {
    let report = report("1 start a 1 w1 \n 5 start a 2 w2");
    assert!(matches!(report.faults[..], [Fault::Overlap { from: 5, to: u64::MAX, .. }]), "{report}");
}

#[test]
fn an_overlap_with_a_run_that_started_long_before_is_reported() {
    let report =
        report("1 start a 1 w1 \n 2 start a 2 w2 \n 3 stop a 2 w2 \n 5 start a 3 w3 \n 6 stop a 1 w1");
    let seconds: Vec<_> = report
        .faults
        .iter()
        .map(|fault| match fault {
            Fault::Overlap { first, second, .. } => (first.token, second.token),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(seconds, [(1, 2), (1, 3)]);
}

#[test]
fn a_start_at_the_moment_of_the_stop_is_no_overlap() {
    report("1 start a 1 w1 \n 5 stop a 1 w1 \n 5 start a 2 w2").assert_clean();
}

#[test]
fn the_same_key_started_twice_by_one_worker_overlaps() {
    let report = report("1 start a 1 w1 \n 5 start a 2 w1");
    assert!(matches!(report.faults[..], [Fault::Overlap { .. }]), "{report}");
}

#[test]
fn keys_do_not_overlap_with_each_other() {
    report("1 start a 1 w1 \n 2 start b 2 w2").assert_clean();
}

#[test]
fn a_lower_token_in_a_later_start_is_reported() {
    let report = report("1 start a 7 w1 \n 2 stop a 7 w1 \n 3 start a 6 w2");
    let (earlier, later) = (holder("w1", 7), holder("w2", 6));
    assert_eq!(report.faults, [Fault::TokenOrder { key: "a".into(), earlier, later }]);
}

#[test]
fn a_token_used_twice_is_reported_even_with_another_in_between() {
    let report =
        report("1 start a 7 w1 \n 2 stop a 7 w1 \n 3 start a 8 w2 \n 4 stop a 8 w2 \n 5 start a 7 w1");
    let (first, second) = (holder("w1", 7), holder("w1", 7));
    assert_eq!(report.faults, [Fault::TokenReused { key: "a".into(), first, second }]);
}

#[test]
fn keys_may_share_a_token() {
    report("1 start a 7 w1 \n 2 start b 7 w1").assert_clean();
}

#[test]
fn an_accepted_job_that_does_not_run_at_the_end_is_lost() {
    let never_started = report("1 accepted a");
    assert_eq!(never_started.faults, [Fault::Lost { key: "a".into(), accepted: 1, at: 1 }]);
    let not_taken_over = report("1 accepted a \n 2 start a 1 w1 \n 3 dead w1 \n 9 start b 1 w2");
    assert_eq!(not_taken_over.faults, [Fault::Lost { key: "a".into(), accepted: 1, at: 9 }]);
    let stopped_without_request = report("1 accepted a \n 2 start a 1 w1 \n 3 stop a 1 w1");
    assert_eq!(stopped_without_request.faults, [Fault::Lost { key: "a".into(), accepted: 1, at: 3 }]);
}

#[test]
fn a_job_lost_at_rest_is_reported_even_if_it_returns() {
    let report = report("1 accepted a \n 5 settled \n 9 start a 1 w1");
    assert_eq!(report.faults, [Fault::Lost { key: "a".into(), accepted: 1, at: 5 }]);
}

#[test]
fn a_job_accepted_again_after_its_stop_must_run() {
    let report = report(
        "1 accepted a \n 2 start a 1 w1 \n 3 stop-requested a \n 4 stop a 1 w1 \n 5 stop-acknowledged a
         6 submitted a \n 7 accepted a",
    );
    assert_eq!(report.faults, [Fault::Lost { key: "a".into(), accepted: 7, at: 7 }]);
}

#[test]
fn a_job_whose_stop_was_asked_for_is_not_lost() {
    report("1 accepted a \n 2 start a 1 w1 \n 3 stop-requested a \n 4 stop a 1 w1").assert_clean();
    report("1 submitted a \n 2 stop-requested a \n 3 accepted a").assert_clean();
}

#[test]
fn a_history_that_ends_with_a_shutdown_has_lost_nothing() {
    let history = history("1 accepted a \n 2 start a 1 w1 \n 3 settled \n 4 stop a 1 w1");
    assert!(!check(&history, &Expect::default()).is_clean());
    check(&history, &Expect { running_at_end: false, ..Expect::default() }).assert_clean();
}

#[test]
fn a_start_after_an_acknowledged_stop_is_a_resurrection() {
    let report = report(
        "1 accepted a \n 2 start a 1 w1 \n 3 stop-requested a \n 4 stop a 1 w1 \n 5 stop-acknowledged a
         8 start a 2 w2",
    );
    let (key, holder) = ("a".into(), holder("w2", 2));
    assert_eq!(report.faults, [Fault::Resurrected { key, holder, acknowledged: 5, started: 8 }]);
}

#[test]
fn a_start_after_a_stop_that_was_not_acknowledged_is_fine() {
    report("1 accepted a \n 2 start a 1 w1 \n 3 stop-requested a \n 4 stop a 1 w1 \n 8 start a 2 w2")
        .assert_clean();
}

#[test]
fn no_job_is_begun_after_its_stop_was_recorded() {
    let stopped = |begun: &str, end: &str| {
        let text = "1 accepted a \n 5 stop-requested a \n 7 stop-recorded a";
        report(&format!("{text} \n 9 {begun} \n 9 start a 2 w2 \n {end}")).faults
    };
    let resurrected =
        [Fault::Resurrected { key: "a".into(), holder: holder("w2", 2), acknowledged: 7, started: 9 }];
    let ends = "11 stop a 2 w2";
    // A job that begins before the stop and starts after it is fine, and so is an unknown begin.
    assert_eq!(stopped("begun a 2 7", ends), []);
    assert_eq!(stopped("paused w9", ends), []);
    assert_eq!(stopped("begun a 2 8", ends), resurrected);
    // Events of other keys and starts, and another submission, do not count.
    assert_eq!(stopped("begun b 2 8", ends), []);
    assert_eq!(stopped("begun a 1 8", ends), []);
    assert_eq!(stopped("submitted a \n 9 begun a 2 9", ends), []);
    // If another worker runs the job when the stop is recorded, or later, the next one begins after the stop.
    assert_eq!(stopped("begun a 2 6 \n 3 start a 1 w1 \n 8 stop a 1 w1", ends), resurrected);
    assert_eq!(stopped("begun a 2 6 \n 3 start a 1 w1 \n 6 stop a 1 w1", ends), []);
    assert_eq!(stopped("begun a 2 6 \n 7 start a 1 w1 \n 8 stop a 1 w1", ends), resurrected);
    // The run must end.
    let still = |at| Fault::StillRunning { key: "a".into(), holder: holder("w2", 2), acknowledged: 7, at };
    assert_eq!(stopped("begun a 2 7", "12 settled"), [still(12)]);
    // A loss may undo the stop: a recent acknowledgement, and everything that the job's runner has not heard of.
    assert_eq!(stopped("begun a 2 8 \n 8 rolled-back 8 7", ends), []);
    assert_eq!(stopped("begun a 2 8 \n 8 rolled-back 8 8", ends), resurrected);
    assert_eq!(stopped("begun a 2 8 \n 8 wiped 8 8", ends), []);
}

#[test]
fn a_stopped_job_that_still_runs_at_rest_is_reported() {
    let report =
        report("1 accepted a \n 2 start a 1 w1 \n 3 stop-requested a \n 5 stop-acknowledged a \n 9 settled");
    let (key, holder) = ("a".into(), holder("w1", 1));
    assert_eq!(report.faults, [Fault::StillRunning { key, holder, acknowledged: 5, at: 9 }]);
}

#[test]
fn a_gap_beyond_the_bound_is_reported() {
    let history = history("1 accepted a \n 2 start a 1 w1 \n 10 dead w1 \n 40 start a 2 w2");
    let within = |nanos| Expect { longest_gap: Some(Duration::from_nanos(nanos)), ..Expect::default() };
    check(&history, &within(30)).assert_clean();
    let report = check(&history, &within(29));
    assert!(
        matches!(&report.faults[..], [Fault::LongGap(gap)] if (gap.from, gap.to) == (10, 40)),
        "{report}"
    );
}

#[test]
fn the_time_after_a_stop_is_no_gap_even_with_a_start_under_way() {
    let gaps = |stop: &str| {
        let text = "1 submitted a \n 5 start a 1 w1 \n 6 stop a 1 w1 \n 20 submitted a \n 21 start a 2 w1";
        report(&format!("{stop} \n {text}")).gaps.len()
    };
    assert_eq!(gaps("3 stop-requested a"), 0);
    assert_eq!(gaps("5 stop-requested a"), 0);
    assert_eq!(gaps("0 stop-requested a"), 1, "that was another job");
}

#[test]
fn a_stop_without_a_start_is_a_hole_in_the_history() {
    let report = report("1 start a 1 w1 \n 2 stop a 1 w2");
    let (key, holder) = ("a".into(), holder("w2", 1));
    assert_eq!(report.faults, [Fault::StopWithoutStart { key, holder, at: 2 }]);
}

#[test]
fn the_death_of_a_worker_ends_its_own_runs_only() {
    report("1 start a 1 w1 \n 2 dead w1 \n 3 start a 2 w2").assert_clean();
    let report = report("1 start a 1 w1 \n 2 dead w3 \n 3 start a 2 w2");
    assert!(matches!(report.faults[..], [Fault::Overlap { .. }]), "{report}");
    let again = "1 start a 1 w1 \n 2 dead w1 \n 3 start a 2 w1 \n 4 start a 3 w2";
    assert!(!self::report(again).is_clean(), "a start after the death is not ended by it");
}

#[test]
fn a_paused_worker_counts_as_stopped_while_it_is_paused() {
    let during =
        "1 start a 1 w1 \n 5 paused w1 \n 6 start a 2 w2 \n 7 stop a 2 w2 \n 8 resumed w1 \n 9 stop a 1 w1";
    report(during).assert_clean();
    let after = "1 start a 1 w1 \n 5 paused w1 \n 6 start a 2 w2 \n 8 resumed w1 \n 9 stop a 1 w1";
    assert!(matches!(report(after).faults[..], [Fault::Overlap { from: 8, to: 9, .. }]));
    let before = "1 start a 1 w1 \n 4 start a 2 w2 \n 5 paused w1";
    assert!(matches!(report(before).faults[..], [Fault::Overlap { from: 4, to: 5, .. }]));
}

#[test]
fn a_pause_that_outlasts_the_lease_ends_the_workers_runs() {
    let history = "1 start a 1 w1 \n 5 paused w1 \n 9 resumed w1 \n 9 start a 2 w2 \n 10 stop a 1 w1";
    with_grace(history, 4, 1).assert_clean();
    assert!(matches!(with_lease(history, 5).faults[..], [Fault::Overlap { from: 9, to: 10, .. }]));
    assert_eq!(
        with_grace(history, 4, 1).gaps.iter().map(|gap| (gap.from, gap.to)).collect::<Vec<_>>(),
        [(5, 9)]
    );
}

#[test]
fn a_run_that_continues_long_after_such_a_pause_acts_again() {
    let paused = "1 start a 1 w1 \n 5 paused w1 \n 8 start a 2 w2 \n 9 resumed w1";
    // A run that never ends, or too late; ended by a stop or by death in time.
    for (end, until) in [("", u64::MAX), ("12 stop a 1 w1", 12), ("20 dead w1", 20)] {
        let report = with_grace(&format!("{paused} \n {end}"), 4, 2);
        let [Fault::Overlap { from: 11, to, .. }] = report.faults[..] else { panic!("{end}: {report}") };
        assert_eq!(to, until, "{end}");
    }
    for end in ["11 stop a 1 w1", "10 dead w1"] {
        with_grace(&format!("{paused} \n {end}"), 4, 2).assert_clean();
    }
}

#[test]
fn a_run_started_after_a_pause_is_not_ended_by_it() {
    let history = "1 start a 1 w1 \n 5 paused w1 \n 9 resumed w1 \n 10 stop a 1 w1 \n 11 start a 2 w1 \n 12 start a 3 w2";
    assert!(matches!(with_grace(history, 4, 1).faults[..], [Fault::Overlap { from: 12, .. }]));
}

#[test]
fn a_worker_killed_while_it_is_paused_ended_with_the_pause() {
    let history = "1 start a 1 w1 \n 5 paused w1 \n 7 dead w1 \n 9 start a 2 w2";
    let report = report(history);
    report.assert_clean();
    assert_eq!(report.gaps.iter().map(|gap| (gap.from, gap.to)).collect::<Vec<_>>(), [(5, 9)]);
}

#[test]
fn a_job_of_a_worker_that_stays_paused_is_lost() {
    let report = report("1 accepted a \n 2 start a 1 w1 \n 3 paused w1 \n 9 settled");
    assert!(matches!(report.faults[..], [Fault::Lost { at: 9, .. }]), "{report}");
}

#[test]
fn an_empty_history_is_clean() {
    let report = report("");
    report.assert_clean();
    assert_eq!(report.gap_percentiles(), Percentiles::default());
}

#[test]
fn percentiles_are_by_nearest_rank() {
    let Percentiles { p50, p99, max } = Percentiles::of((1..=200).map(Duration::from_millis));
    assert_eq!([p50, p99, max].map(|duration| duration.as_millis()), [100, 198, 200]);
}

#[test]
fn threads_and_recorders_share_a_file_without_torn_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history");
    let before = boottime_ns();
    let recorders: Vec<_> = (0..4)
        .map(|worker| {
            let history = History::append_to(&path).unwrap();
            thread::spawn(move || {
                for token in 0..250 {
                    let (key, worker) = (format!("{worker}/{token} \"é\"\n"), format!("w{worker}"));
                    history.started(&key, token, &worker);
                    history.stopped(&key, token, &worker);
                }
            })
        })
        .collect();
    for recorder in recorders {
        recorder.join().unwrap();
    }
    let history = History::load(&path).unwrap();
    let entries = history.entries();
    assert_eq!(entries.len(), 2000);
    assert!(entries.iter().all(|entry| (before..=boottime_ns()).contains(&entry.at)));
    let report = check(&history, &Expect::default());
    report.assert_clean();
    assert_eq!((report.keys, report.starts), (1000, 1000));
}

#[test]
fn every_event_survives_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history");
    let history = self::history(&format!("{GOOD} \n 70 paused w1 \n 71 resumed w1"));
    let file = History::append_to(&path).unwrap();
    history.entries().into_iter().for_each(|entry| file.record_at(entry.at, entry.event));
    assert_eq!(History::load(&path).unwrap().entries(), history.entries());
}

#[test]
fn the_shorthands_record_their_events() {
    let history = History::new();
    history.submitted("a");
    history.accepted("a");
    history.started("a", 1, "w");
    history.paused("w");
    history.resumed("w");
    history.stop_requested("a");
    history.stopped("a", 1, "w");
    history.stop_acknowledged("a");
    history.worker_dead("w");
    history.settled();
    let (key, worker, token) = ("a".to_owned(), "w".to_owned(), 1);
    let events: Vec<_> = history.entries().into_iter().map(|entry| entry.event).collect();
    assert_eq!(
        events,
        [
            Event::Submitted { key: key.clone() },
            Event::Accepted { key: key.clone() },
            Event::Started { key: key.clone(), token, worker: worker.clone() },
            Event::Paused { worker: worker.clone() },
            Event::Resumed { worker: worker.clone() },
            Event::StopRequested { key: key.clone() },
            Event::Stopped { key: key.clone(), token, worker: worker.clone() },
            Event::StopAcknowledged { key },
            Event::WorkerDead { worker },
            Event::Settled,
        ]
    );
}

#[test]
fn a_bad_line_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history");
    fs::write(&path, "{\"at\":1,\"event\":\"settled\"}\n{\"at\":2,\"event\":\"star").unwrap();
    let error = History::load(&path).err().unwrap();
    assert_eq!(error.to_string(), "line 2 of the history is not an event");
}

#[test]
fn an_accepted_job_may_be_lost_with_the_data_unless_it_runs() {
    let queued = |loss| report(&format!("1 submitted a \n 10 accepted a \n {loss} \n 50 settled"));
    // Wiped, or rolled back to before the acceptance, whose answer may have been recorded late.
    for excuse in ["30 wiped 20 20", "30 rolled-back 20 8", "30 rolled-back 8 7"] {
        queued(excuse).assert_clean();
    }
    for none in ["30 rolled-back 20 11", "9 wiped 8 8"] {
        assert_eq!(queued(none).faults, [Fault::Lost { key: "a".into(), accepted: 10, at: 50 }], "{none}");
    }
    let running = history("1 accepted a \n 5 start a 1 w1 \n 30 wiped 20 20 \n 40 dead w1 \n 50 settled");
    assert_eq!(
        check(&running, &Expect::default()).faults,
        [Fault::Lost { key: "a".into(), accepted: 1, at: 50 }]
    );
    check(&running, &Expect { running_survives_loss: false, ..Expect::default() }).assert_clean();
}

#[test]
fn a_job_ended_by_a_loss_is_owed_unless_the_store_was_away_long() {
    let judged = |end: &str, back: u64| {
        let text = format!("1 accepted a \n 5 start a 1 w1 \n {end} \n 30 wiped 20 20 {back} \n 50 settled");
        let (outage, lease) = (Duration::from_nanos(6), Some(Duration::from_nanos(14)));
        check(&history(&text), &Expect { outage, lease, ..Expect::default() })
    };
    let lost = [Fault::Lost { key: "a".into(), accepted: 1, at: 50 }];
    assert_eq!(judged("22 stop a 1 w1", 25).faults, lost);
    assert_eq!(judged("35 stop a 1 w1", 29).faults, lost, "it has outlasted the loss");
    assert_eq!(judged("35 stop a 1 w1", 26).faults, lost, "its lease would have been over by then");
    judged("22 stop a 1 w1", 26).assert_clean();
    judged("33 stop a 1 w1", 26).assert_clean();
    for excuse in ["19 stop a 1 w1", "22 dead w1", "22 paused w1"] {
        judged(excuse, 20).assert_clean();
    }
}

#[test]
fn a_job_lost_with_the_data_and_submitted_again_has_no_gap() {
    let lost = "1 accepted a \n 2 start a 1 w1 \n 5 wiped 4 4 \n 6 stop a 1 w1";
    let again = "8 submitted a \n 9 start a 2 w2 \n 10 accepted a";
    assert_eq!(report(&format!("{lost} \n {again}")).gaps, []);
    assert_eq!(report(&format!("{lost} \n 9 start a 2 w2")).gaps.len(), 1);
}

#[test]
fn an_acknowledged_stop_may_be_lost_with_the_data() {
    let stopped = |stop, loss| {
        report(&format!(
            "1 accepted a \n 2 start a 1 w1 \n 10 stop-requested a \n {stop} \n 15 stop-acknowledged a \n {loss}
             40 start a 2 w2"
        ))
    };
    let resurrected = |report: &Report| matches!(report.faults[..], [Fault::Resurrected { .. }]);
    stopped("12 stop a 1 w1", "30 rolled-back 20 14").assert_clean();
    // The job still ran at the wipe: its runner has not heard of the stop.
    stopped("25 stop a 1 w1", "30 wiped 20 20").assert_clean();
    assert!(resurrected(&stopped("12 stop a 1 w1", "30 rolled-back 20 16")));
    assert!(resurrected(&stopped("12 stop a 1 w1", "30 wiped 20 20")));
}

#[test]
fn an_endless_job_that_the_pool_does_not_know_is_lost() {
    let endless = |text: &str| check(&history(text), &Expect { endless: true, ..Expect::default() });
    let lost = |at| [Fault::Lost { key: "a".into(), accepted: 2, at }];
    let begun = "1 submitted a \n 2 accepted a \n 3 start a 1 w1";
    assert_eq!(endless(&format!("{begun} \n 9 not-found a 7")).faults, lost(9));
    assert_eq!(endless(&format!("{begun} \n 7 submitted a \n 9 accepted a")).faults, lost(9));
    // A stop, or a loss of data between the question and its answer.
    endless(&format!("{begun} \n 4 stop-requested a \n 5 stop a 1 w1 \n 9 not-found a 7")).assert_clean();
    endless(&format!("{begun} \n 8 wiped 8 8 \n 9 not-found a 7")).assert_clean();
    report(&format!("{begun} \n 4 stop a 1 w1 \n 7 submitted a \n 8 start a 2 w1 \n 9 accepted a"))
        .assert_clean();
}

#[test]
fn a_job_that_exists_on_a_free_key_is_a_phantom() {
    let free = "1 accepted a \n 2 start a 1 w1 \n 3 stop-requested a \n 4 stop a 1 w1 \n 5 stop-acknowledged a \n 6 freed a";
    let report_of = |then| report(&format!("{free} \n {then}"));
    let phantom = Fault::Phantom { key: "a".into(), freed: 6, at: 9 };
    assert_eq!(report_of("8 submitted a \n 9 existed a 7").faults, [phantom]);
    report_of("7 submitted a \n 9 existed a 8").assert_clean();
    report("1 accepted a \n 2 start a 1 w1 \n 3 submitted a \n 9 existed a 3").assert_clean();
}

#[test]
fn an_accepted_notification_that_is_not_taken_is_lost() {
    let begun = "1 accepted a \n 2 start a 1 w1";
    let lost = Fault::NotificationLost { key: "a".into(), number: 1, accepted: 5, at: 20 };
    assert_eq!(report(&format!("{begun} \n 5 notify a 1 4 \n 20 settled")).faults, [lost]);
    for fine in ["6 notified a 1", "6 rolled-back 6 5", "6 stop-requested a \n 7 stop a 1 w1"] {
        report(&format!("{begun} \n 5 notify a 1 4 \n {fine} \n 20 settled")).assert_clean();
    }
}

#[test]
fn notifications_are_taken_in_order_and_perhaps_twice() {
    let taken = |order: &[u64]| {
        let taken: Vec<_> =
            order.iter().zip(10..).map(|(number, at)| format!("{at} notified a {number}")).collect();
        let sent = "3 notify a 1 3 \n 4 notify a 2 4 \n 6 notify a 4 6";
        report(&format!("1 accepted a \n 2 start a 1 w1 \n {sent} \n {}", taken.join("\n")))
    };
    taken(&[1, 2, 4]).assert_clean();
    taken(&[1, 1, 2, 1, 2, 4, 2]).assert_clean();
    // Nobody was told that 3 was accepted.
    taken(&[1, 2, 4, 3]).assert_clean();
    let (earlier, later) = (1, 2);
    let fault = Fault::NotificationOrder { key: "a".into(), earlier, later, at: 10 };
    assert_eq!(taken(&[2, 1, 4]).faults, [fault]);
}
