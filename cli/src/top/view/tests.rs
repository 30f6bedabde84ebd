#![allow(clippy::unwrap_used)]

mod svg;

use std::time::Duration;

use ratatui::backend::TestBackend;
use ratatui::{Terminal, buffer::Buffer};

use super::*;
use crate::top::model::{Model, Msg};
use crate::top::picture::Picture;
use crate::top::sample::{model, picture, press, simulated};

const LOOK: Look = Look { colour: true, ascii: false };

fn drawn(model: &Model, look: Look, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(model, look, frame.area(), frame.buffer_mut())).unwrap();
    terminal.backend().buffer().clone()
}

/// The signs of a buffer, line by line.
fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            if skip == 0 {
                line.push_str(symbol);
                skip = unicode_width::UnicodeWidthStr::width(symbol);
            }
            skip = skip.saturating_sub(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Compares a screen at two sizes with what it looked like.
fn compare(name: &str, model: &Model) {
    for (width, height) in [(80, 24), (120, 40)] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = path.join(format!("src/top/view/screens/{name}-{width}x{height}.txt"));
        let expected = snapbox::Data::read_from(&path, None).raw();
        snapbox::Assert::new()
            .action_env("SNAPSHOTS")
            .eq(snapbox::Data::text(text(&drawn(model, LOOK, width, height))), expected);
    }
}

fn after(keys: &str) -> Model {
    let mut model = model();
    press(&mut model, keys);
    model
}

/// A test for each row: the screen of this model is that of the file.
macro_rules! screens {
    ($($name:ident: $file:literal, $model:expr;)*) => {
        $(#[test] fn $name() { compare($file, &$model); })*
    };
}

screens! {
    the_screen_of_the_pool_is_as_it_was: "pool", model();
    the_screen_of_the_nodes_is_as_it_was: "nodes", after("n");
    the_screen_of_jobs_is_as_it_was: "jobs", after("2j");
    the_screen_of_a_job_is_as_it_was: "explained", after("2>");
    the_screen_of_parked_jobs_is_as_it_was: "parked", after("3");
    the_screen_of_events_is_as_it_was: "events", after("4");
    the_screen_of_the_ring_is_as_it_was: "ring", after("5/acme>");
    the_screen_of_a_supposition_is_as_it_was: "simulate", supposing("6jN+");
    the_help_is_as_it_was: "help", after("?");
    a_question_is_as_it_was: "drain", after("d");
    a_prompt_is_as_it_was: "filter", after("2/state:odd>");
}

/// The last screen, with the forecast of what is supposed there.
fn supposing(keys: &str) -> Model {
    let mut model = after(keys);
    let simulated = Some(simulated(&model.supposed));
    model.update(Msg::Read(Box::new(Picture { simulated, news: Vec::new(), ..picture() })));
    model
}

#[test]
fn a_silent_redis_is_said_over_the_last_picture() {
    let mut model = model();
    model.update(Msg::Silent("connection refused".to_owned()));
    model.update(Msg::Tick(model.now + Duration::from_secs(4)));
    compare("silent", &model);
    let buffer = drawn(&model, LOOK, 80, 24);
    assert!(buffer[(2, 5)].modifier.contains(Modifier::DIM), "what is old looks so");
}

#[test]
fn the_first_picture_is_waited_for() {
    let model = Model::new(model().called, crate::top::sample::start());
    let text = text(&drawn(&model, LOOK, 80, 24));
    assert!(text.contains("reading the pool") && !text.contains("silent"), "{text}");
}

#[test]
fn a_pool_without_anything_is_shown() {
    let mut model = Model::new(model().called, crate::top::sample::start());
    model.update(Msg::Read(Box::default()));
    for keys in ["", "n", "2", ">", "3", "4", "5", "6", "-", "+", "N"] {
        press(&mut model, keys);
        drawn(&model, LOOK, 80, 24);
    }
    press(&mut model, "1");
    assert!(text(&drawn(&model, LOOK, 80, 24)).contains("no worker takes jobs"));
}

#[test]
fn no_screen_breaks_at_any_size() {
    let sizes = (0..30).chain([37, 58, 80, 81, 109, 110, 131]);
    for keys in ["", "n", "2", "2>", "2/failing", "3R", "4", "5", "5/acme>", "6", "w+", "d", "?"] {
        let model = after(keys);
        for width in sizes.clone() {
            for height in (0..14).chain([24, 40]) {
                let area = Rect::new(0, 0, width, height);
                draw(&model, LOOK, area, &mut Buffer::empty(area));
            }
        }
    }
}

#[test]
fn without_colour_no_cell_has_one() {
    let look = Look { colour: false, ascii: false };
    for keys in ["", "2", "3", "4", "d"] {
        let buffer = drawn(&after(keys), look, 120, 40);
        let plain = ratatui::style::Color::Reset;
        assert!(buffer.content.iter().all(|cell| cell.fg == plain && cell.bg == plain), "{keys}");
    }
}

#[test]
fn with_ascii_nothing_else_is_drawn() {
    let look = Look { ascii: true, ..LOOK };
    for keys in ["", "n", "3", "4", "5", "w+", "?", "d"] {
        let text = text(&drawn(&after(keys), look, 60, 20));
        assert!(text.is_ascii(), "{text}");
    }
}

#[test]
fn the_chosen_row_is_seen_in_a_long_list() {
    let mut model = model();
    let mut picture = Picture { workers: Vec::new(), ..crate::top::sample::picture() };
    let one = crate::top::sample::picture().workers.remove(0);
    picture.workers = (1_000..1_300).map(|id| crate::top::picture::Worker { id, ..one.clone() }).collect();
    model.update(Msg::Read(Box::new(picture)));
    press(&mut model, "G");
    assert!(text(&drawn(&model, LOOK, 80, 24)).contains("1299"));
    press(&mut model, "g");
    assert!(text(&drawn(&model, LOOK, 80, 24)).contains("1000"));
}

#[test]
fn the_picture_of_the_readme_is_this_screen() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/images/top.svg");
    let expected = snapbox::Data::read_from(&path, None).raw();
    let picture = svg::of(&drawn(&model(), LOOK, 102, 21));
    snapbox::Assert::new().action_env("SNAPSHOTS").eq(snapbox::Data::text(picture), expected);
}
