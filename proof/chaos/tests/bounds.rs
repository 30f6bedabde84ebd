//! The figures from histories of crashes and drains, compared with the bounds.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use tenure_chaos::bounds::{Figures, Round, bounds};
use tenure_testing::history::{Entry, History};

const MS: u64 = 1_000_000;

/// Three jobs of `n1`, two of which run when it goes at 100 ms. `n2` starts each of these at the given moment.
fn history(ends: Option<[u64; 2]>, starts: [u64; 2]) -> Vec<Entry> {
    let history = History::new();
    let at = |ms: u64, key: &str, token: u64, worker: &str| {
        let started =
            tenure_testing::history::Event::Started { key: key.into(), token, worker: worker.into() };
        history.record_at(ms * MS, started);
    };
    let end = |ms: u64, key: &str| {
        let (key, worker) = (key.into(), "n1/0".into());
        history.record_at(ms * MS, tenure_testing::history::Event::Stopped { key, token: 1, worker });
    };
    for key in ["a", "b", "c"] {
        at(1, key, 1, "n1/0");
    }
    end(50, "c");
    at(60, "c", 2, "n2/0");
    for (index, key) in ["a", "b"].into_iter().enumerate() {
        if let Some(ends) = ends {
            end(ends[index], key);
        }
        at(starts[index], key, 3, "n2/0");
    }
    history.entries()
}

fn figures(crashed: bool, entries: &[Entry]) -> Figures {
    let round = Round::of(crashed, 100 * MS, &["n1/0".to_owned()], entries).unwrap();
    assert_eq!(round.moved(), 2);
    let mut figures = Figures::new(Duration::from_secs(5), 2);
    figures.add(round);
    figures
}

#[test]
fn a_crash_is_measured_from_the_kill() {
    let good = figures(true, &history(None, [5_000, 6_600]));
    assert_eq!(bounds(&good), Vec::<String>::new());
    let json: serde_json::Value = serde_json::from_str(&good.json(7, true)).unwrap();
    assert_eq!(
        (&json["crash_gap_worst_ttls"], &json["crashes"], &json["drains"]),
        (&1.3.into(), &1.into(), &0.into())
    );
    let late = figures(true, &history(None, [5_000, 6_601]));
    assert_eq!(bounds(&late), ["the worst gap of a crash: 6501 ms, and 6500 ms are promised"]);
}

#[test]
fn a_drain_is_measured_from_each_end_to_the_next_start() {
    let good = figures(false, &history(Some([110, 2_000]), [360, 2_110]));
    assert_eq!(bounds(&good), Vec::<String>::new());
    let json: serde_json::Value = serde_json::from_str(&good.json(7, true)).unwrap();
    assert_eq!(
        (&json["drain_ms"], &json["drain_gap_p50_ms"], &json["drain_gap_max_ms"]),
        (&2_000.into(), &110.into(), &250.into())
    );
    let slow = figures(false, &history(Some([110, 2_000]), [361, 2_111]));
    let wrong = bounds(&slow);
    assert!(
        wrong.len() == 2 && wrong[0].starts_with("a drain, ") && wrong[1].contains("251 ms"),
        "{wrong:?}"
    );
}

#[test]
fn a_node_whose_jobs_have_not_moved_shows_nothing() {
    let entries = history(None, [5_000, 6_600]);
    assert_eq!(Round::of(true, 100 * MS, &["n3/0".to_owned()], &entries), None);
}
