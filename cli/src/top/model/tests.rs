#![allow(clippy::unwrap_used)]

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::act::Verb;
use crate::top::sample::{key, model, picture, press, simulated, start};

fn asked(model: &Model) -> String {
    model.question.as_ref().map(|question| question.act.title()).unwrap_or_default()
}

#[test]
fn a_screen_asks_only_for_what_it_shows() {
    let mut model = model();
    assert_eq!(model.wanted(), Wanted::default());
    press(&mut model, "2");
    assert_eq!(model.wanted(), Wanted { jobs: Some(String::new()), ..Wanted::default() });
    press(&mut model, ">");
    assert_eq!(model.wanted(), Wanted { explained: Some(key("acme")), ..Wanted::default() });
    press(&mut model, "<3");
    assert_eq!(model.wanted(), Wanted { parked: Some(String::new()), ..Wanted::default() });
    press(&mut model, "5/acme>");
    assert_eq!(model.wanted(), Wanted { ring: true, chain: Some(key("acme")), ..Wanted::default() });
    press(&mut model, " 1");
    assert_eq!(model.wanted(), Wanted { paused: true, ..Wanted::default() });
}

#[test]
fn a_worker_opens_its_jobs_and_a_job_its_explanation() {
    let mut model = model();
    press(&mut model, "jj>");
    assert_eq!((model.screen, model.filter(Screen::Jobs)), (Screen::Jobs, "worker:42"));
    assert!(model.jobs().is_empty(), "those of another filter are not shown");
    press(&mut model, "1n>");
    assert_eq!(model.filter(Screen::Jobs), "node:feeds-7d9-c");
    press(&mut model, "<j>");
    assert_eq!(model.detail, Some(key("bücher-日本")));
    press(&mut model, "4>");
    assert_eq!(model.detail, Some(key("initech/eu")), "the newest event names it");
    press(&mut model, "<jj>");
    assert_eq!(model.detail, None, "this event names no key");
}

#[test]
fn a_wrong_filter_is_refused_where_it_is_typed() {
    let mut model = model();
    press(&mut model, "2/state:odd>");
    let prompt = model.prompt.as_ref().unwrap();
    assert_eq!((&*prompt.typed, prompt.error.as_deref()), ("state:odd", Some("odd is no state")));
    assert_eq!(model.filter(Screen::Jobs), "");
    press(&mut model, "<");
    assert!(model.prompt.is_none());
    press(&mut model, "/state:parked >");
    assert_eq!(model.filter(Screen::Jobs), "state:parked");
}

#[test]
fn nothing_is_done_before_a_yes() {
    let mut model = model();
    press(&mut model, "2");
    for verb in ["x", "p", "r", "b", "P"] {
        for no in ["n", "<", ">", "q"] {
            assert_eq!(press(&mut model, verb), None);
            assert!(!asked(&model).is_empty());
            assert_eq!(press(&mut model, no), None, "{verb}{no}");
            assert!(model.question.is_none() && model.acting.is_none());
        }
    }
    assert_eq!(press(&mut model, "x"), None);
    assert_eq!(asked(&model), "stop acme");
    let stop = Act::Jobs { verb: Verb::STOP, keys: vec![key("acme")] };
    assert_eq!(press(&mut model, "y"), Some(Effect::Act(stop)));
    assert_eq!(press(&mut model, "x"), None);
    assert_eq!(asked(&model), "", "one change at a time");
    model.update(Msg::Done(Err("it has gone".to_owned())));
    assert!(model.said.as_ref().is_some_and(|(_, tone, text)| *tone == Tone::Bad && text == "it has gone"));
}

#[test]
fn a_paused_job_is_resumed_and_another_one_paused() {
    let mut model = model();
    press(&mut model, "2P");
    assert_eq!(asked(&model), "pause acme");
    let pause = Act::Jobs { verb: Verb::Pause("paused by hand".to_owned(), None), keys: vec![key("acme")] };
    assert_eq!(press(&mut model, "y"), Some(Effect::Act(pause)));
    model.update(Msg::Done(Ok("acme is paused".to_owned())));
    let mut later = picture();
    later.jobs.as_mut().unwrap().jobs[0].paused = Some(("anna".to_owned(), "their move".to_owned(), None));
    later.explained.as_mut().unwrap().paused = true;
    model.update(Msg::Read(Box::new(later)));
    for keys in ["P", "<>P"] {
        press(&mut model, keys);
        assert_eq!(asked(&model), "resume acme", "{keys}");
        press(&mut model, "n");
    }
    press(&mut model, "<jP");
    assert_eq!(asked(&model), "pause bücher-日本");
}

#[test]
fn a_drain_takes_the_typed_name_and_shows_its_forecast() {
    let mut model = model();
    let named = Named::Worker { shard: None, id: tenure_pool::WorkerId(17) };
    assert_eq!(press(&mut model, "d"), Some(Effect::Forecast(named.clone())));
    let forecast = Forecast { gets: vec![(Some(41), 540), (Some(42), 272)], more: false };
    model.update(Msg::Forecast(Named::Node("other".to_owned()), Ok(Forecast::default())));
    model.update(Msg::Forecast(named.clone(), Ok(forecast)));
    let question = model.question.as_ref().unwrap();
    let text = ["workers that leave the ring: 1; jobs that move: 812", "41 +540  42 +272"];
    assert_eq!(question.text, text);
    assert_eq!(press(&mut model, "18>"), None);
    assert!(model.question.is_some(), "that is another worker");
    model.update(Msg::Key(KeyCode::Backspace));
    assert_eq!(press(&mut model, "7>"), Some(Effect::Act(Act::Drain(named))));
    assert_eq!(press(&mut model, "q"), None, "it is under way");
    assert_eq!(press(&mut model, "q"), Some(Effect::Quit));
}

#[test]
fn a_cordon_is_lifted_where_there_is_one() {
    let mut model = model();
    press(&mut model, "c");
    assert_eq!(asked(&model), "uncordon node feeds-7d9-b");
    press(&mut model, "<jc");
    assert_eq!(asked(&model), "cordon node feeds-7d9-a");
}

#[test]
fn many_parked_jobs_are_retried_by_their_number() {
    let mut model = model();
    press(&mut model, "3R");
    assert_eq!(asked(&model), "retry 2 jobs");
    let keys = vec![key("umbrella"), key("zenith")];
    assert_eq!(press(&mut model, "y>"), None);
    model.update(Msg::Key(KeyCode::Backspace));
    assert_eq!(press(&mut model, "2>"), Some(Effect::Act(Act::Jobs { verb: Verb::Retry, keys })));
}

#[test]
fn a_reader_changes_nothing() {
    let mut model = model();
    model.called.read_only = true;
    for keys in ["d", "c", "2x", "p", "r", "b", "P", "3R", "r"] {
        assert_eq!(press(&mut model, keys), None);
        assert!(model.question.is_none(), "{keys}");
    }
}

#[test]
fn silence_is_seen_and_the_last_picture_stays() {
    let mut model = model();
    assert_eq!(model.silent_for(), None);
    let later = model.now + Duration::from_secs(6);
    model.update(Msg::Tick(later));
    assert_eq!(model.silent_for(), Some(Duration::from_secs(6)), "a read that hangs says nothing");
    model.update(Msg::Silent("connection refused".to_owned()));
    model.update(Msg::Tick(later + Duration::from_secs(1)));
    assert_eq!(model.silent_for(), Some(Duration::from_secs(7)));
    assert_eq!(model.workers().len(), 5);
    model.update(Msg::Read(Box::new(picture())));
    assert_eq!(model.silent_for(), None);
}

#[test]
fn a_frozen_screen_takes_no_picture() {
    let mut model = model();
    press(&mut model, " ");
    model.update(Msg::Read(Box::default()));
    assert_eq!(model.workers().len(), 5);
    model.update(Msg::Tick(model.now + Duration::from_secs(60)));
    assert_eq!(model.silent_for(), None);
    press(&mut model, " ");
    model.update(Msg::Read(Box::default()));
    assert_eq!(model.workers().len(), 0);
}

#[test]
fn a_node_that_says_nothing_new_is_silent() {
    let model = model();
    assert_eq!(model.silent(0, "feeds-7d9-a"), Some(Duration::ZERO));
    assert_eq!(model.silent(0, "feeds-7d9-b"), Some(Duration::from_secs(4)));
    let mut fresh = Model::new(model.called.clone(), start());
    fresh.update(Msg::Read(Box::new(picture())));
    assert_eq!(fresh.silent(0, "feeds-7d9-a"), None, "it may have been silent for long");
}

#[test]
fn a_list_is_sorted_and_its_choice_stays() {
    let mut model = model();
    let first = |model: &Model| model.workers().first().map(|worker| worker.id);
    assert_eq!(first(&model), Some(17));
    press(&mut model, "s");
    assert_eq!((first(&model), model.chosen()), (Some(41), 3), "the choice is worker 17 still");
    press(&mut model, "s");
    assert_eq!((first(&model), model.chosen()), (Some(17), 0));
}

#[test]
fn events_are_searched_by_their_words() {
    let mut model = model();
    press(&mut model, "4/HOOLI moved>");
    assert_eq!(model.happenings().len(), 1);
    press(&mut model, "<");
    assert_eq!(model.happenings().len(), 4);
}

#[test]
fn what_is_supposed_is_asked_for_and_nothing_else() {
    let mut model = model();
    press(&mut model, "6");
    assert_eq!(model.wanted(), Wanted::default(), "nothing is supposed");
    press(&mut model, "j-++");
    let supposed = Supposed { goes: [(0, 41)].into(), joins: 2 };
    assert_eq!(model.wanted().supposed.as_ref(), Some(&supposed));
    // The forecast of something else is not shown.
    let other = simulated(&Supposed { joins: 1, ..Supposed::default() });
    model.update(Msg::Read(Box::new(Picture { simulated: Some(other), ..picture() })));
    assert!(model.simulated().is_none() && model.supposed_rows().len() == 5);
    let own = simulated(&supposed);
    model.update(Msg::Read(Box::new(Picture { simulated: Some(own), ..picture() })));
    let rows = model.supposed_rows();
    let what: Vec<_> = rows.iter().map(|row| row.what).collect();
    assert_eq!(what, [If::Drains, If::Goes, If::Stays, If::Stays, If::Stays, If::Joins, If::Joins]);
    // A supposed worker goes by the same key.
    press(&mut model, "G-");
    assert_eq!(model.supposed.joins, 1);
    press(&mut model, "<");
    assert!(model.supposed.is_nothing());
    // All of a node, and back.
    press(&mut model, "gjN");
    assert_eq!(model.supposed.goes, [(0, 41), (0, 42)].into());
    press(&mut model, "N");
    assert!(model.supposed.is_nothing());
    // From the first screen: the chosen worker, or node.
    press(&mut model, "1gw");
    assert_eq!((model.screen, &model.supposed.goes), (Screen::Simulate, &[(0, 17)].into()));
    press(&mut model, "1nw");
    assert_eq!(model.supposed.goes, [(0, 41), (0, 42)].into());
    press(&mut model, "2");
    assert_eq!(model.wanted().supposed, None);
}

#[test]
fn no_key_at_any_place_breaks_anything() {
    let mut random = StdRng::seed_from_u64(7);
    for _ in 0..200 {
        let mut model = model();
        for _ in 0..60 {
            let keys = "123456jkgGs/nhdcxprbPRyw-+N<>? q17*:";
            let at = random.random_range(0..keys.chars().count());
            let key = keys.chars().nth(at).map(String::from).unwrap_or_default();
            press(&mut model, &key);
            match random.random_range(0..12) {
                0 => drop(model.update(Msg::Read(Box::new(picture())))),
                1 => drop(model.update(Msg::Read(Box::default()))),
                2 => drop(model.update(Msg::Silent("gone".to_owned()))),
                3 => drop(model.update(Msg::Done(Ok("done".to_owned())))),
                4 => drop(model.update(Msg::Key(KeyCode::PageDown))),
                _ => {}
            }
            let at = model.chosen();
            assert!(at == 0 || at < model.ids().len(), "a row is chosen that is not there");
        }
    }
}
