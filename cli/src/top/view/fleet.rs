//! Workers, nodes and the ring.

use std::time::Duration;

use ratatui::layout::Rect;
use tenure_pool::inspect::MemberState;

use super::canvas::{Canvas, Look, number};
use crate::out::when::brief;
use crate::out::{Cell, Column, Tone, shown};
use crate::top::model::Model;
use crate::top::picture::Worker;
use crate::view::fleet::{percent, state};

/// The widest bar of a share, and the width of a screen that has room for it.
const BAR: u16 = 14;
const ROOM: u16 = 96;

/// How long ago a node was last heard of, a second at least. It renews its lease five times within T.
fn heard(silent: Option<Duration>, ttl: Duration) -> Cell {
    let Some(silent) = silent else { return Cell::maybe(None::<String>) };
    let tone = match () {
        () if silent > ttl => Tone::Bad,
        () if silent > ttl / 2 => Tone::Warn,
        () => Tone::Plain,
    };
    Cell::new(brief(silent.max(Duration::from_secs(1)))).tone(tone)
}

fn some(n: u64, tone: Tone) -> Cell {
    Cell::new(number(n)).tone(if n > 0 { tone } else { Tone::Dim })
}

/// The share of the jobs, as a bar as wide as the largest share allows.
fn share((look, area): (Look, Rect), jobs: u64, all: u64, most: u64) -> Cell {
    let width = if area.width < ROOM { BAR / 2 } else { BAR };
    let bar = look.bar(jobs as f64 / most.max(1) as f64, width);
    let pad = usize::from(width).saturating_sub(bar.chars().count());
    Cell::new(format!("{bar}{:pad$} {:>5.1} %", "", percent(jobs, all)))
}

pub(super) fn workers(canvas: &mut Canvas<'_>, model: &Model, area: Rect) {
    const COLUMNS: &[Column] = &[
        Column::new("WORKER").right(),
        Column::new("NODE"),
        Column::new("STATE"),
        Column::new("JOBS").right(),
        Column::new("SHARE"),
        Column::new("HEARD").right(),
        Column::new("STUCK").right(),
        Column::new("START").right(),
        Column::new("MOVE").right(),
        Column::new("AGE").right().wide(),
        Column::new("HOST").wide(),
        Column::new("VERSION").wide(),
    ];
    let workers = model.workers();
    let ttl = model.picture.as_ref().map_or(Duration::ZERO, |picture| picture.ttl);
    let (all, most) = shares(workers.iter().map(|worker| worker.jobs));
    let is_sharded = workers.iter().any(|worker| worker.shard > 0);
    let look = canvas.look;
    let row = |at: usize| {
        let Some(worker) = workers.get(at) else { return Vec::new() };
        let Worker { shard, id, .. } = worker;
        let name = if is_sharded { format!("{shard}:{id}") } else { id.to_string() };
        let said = worker.said.as_ref();
        let n =
            |figure: Option<u64>, tone| figure.map_or_else(|| Cell::maybe(None::<u64>), |n| some(n, tone));
        let text = |text: Option<&String>| Cell::maybe(text.filter(|text| !text.is_empty()));
        vec![
            Cell::new(name),
            Cell::new(shown::plain(&worker.node)),
            state(worker.state, worker.cordoned),
            Cell::new(number(worker.jobs)),
            share((look, area), worker.jobs, all, most),
            heard(model.silent(worker.shard, &worker.node), ttl),
            n(said.map(|said| said.stuck), Tone::Bad),
            n(said.map(|said| said.to_start), Tone::Warn),
            n(said.map(|said| said.to_move), Tone::Warn),
            Cell::maybe(said.map(|said| brief(said.up))),
            text(said.map(|said| &said.host)),
            text(said.map(|said| &said.version)),
        ]
    };
    canvas.table(area, COLUMNS, (workers.len(), Some(model.chosen())), row);
}

/// The sum, and the largest.
fn shares(jobs: impl Iterator<Item = u64>) -> (u64, u64) {
    jobs.fold((0, 0), |(all, most), jobs| (all + jobs, most.max(jobs)))
}

pub(super) fn nodes(canvas: &mut Canvas<'_>, model: &Model, area: Rect) {
    const COLUMNS: &[Column] = &[
        Column::new("NODE"),
        Column::new("WORKERS").right(),
        Column::new("STATE"),
        Column::new("JOBS").right(),
        Column::new("SHARE"),
        Column::new("HEARD").right(),
        Column::new("STUCK").right(),
        Column::new("AGE").right(),
        Column::new("HOST").wide(),
        Column::new("PID").right().wide(),
        Column::new("VERSION").wide(),
    ];
    let nodes = model.nodes();
    let ttl = model.picture.as_ref().map_or(Duration::ZERO, |picture| picture.ttl);
    let (all, most) = shares(nodes.iter().map(|node| node.jobs));
    let look = canvas.look;
    let row = |at: usize| {
        let Some(node) = nodes.get(at) else { return Vec::new() };
        let text = |text: &String| Cell::maybe(Some(text).filter(|text| !text.is_empty()));
        let word = match node {
            node if node.draining == node.workers => MemberState::Draining,
            node if node.up > 0 => MemberState::Up,
            _ => MemberState::Standby,
        };
        vec![
            Cell::new(shown::plain(&node.name)),
            Cell::of(node.workers),
            state(word, node.cordoned),
            Cell::new(number(node.jobs)),
            share((look, area), node.jobs, all, most),
            heard(node.silent, ttl),
            some(node.stuck, Tone::Bad),
            Cell::maybe(node.age.map(brief)),
            text(&node.host),
            Cell::maybe(node.pid),
            text(&node.version),
        ]
    };
    canvas.table(area, COLUMNS, (nodes.len(), Some(model.chosen())), row);
}

pub(super) fn ring(canvas: &mut Canvas<'_>, model: &Model, area: Rect) {
    let Some(picture) = &model.picture else { return };
    let node = |shard: usize, id: u64| {
        let worker = picture.workers.iter().find(|worker| (worker.shard, worker.id) == (shard, id));
        worker.map_or("", |worker| worker.node.as_str())
    };
    let mut line = 0;
    if let Some(key) = &model.chain {
        let mut words = vec![Cell::new(format!(" {} is asked of", shown::key(key)))];
        match picture.chain.as_ref().filter(|chain| chain.key == *key) {
            Some(chain) if chain.workers.is_empty() => words.push(Cell::new(" nobody: no worker is up")),
            Some(chain) => {
                words.extend(chain.workers.iter().enumerate().map(|(turn, worker)| {
                    let tone = if turn == 0 { Tone::Good } else { Tone::Plain };
                    Cell::new(format!("  {worker} ({})", shown::plain(node(chain.shard, *worker)))).tone(tone)
                }));
            }
            None => words.push(Cell::new("  (being read)")),
        }
        canvas.line(area, line, &words);
        line += 2;
    }
    for (shard, slots) in picture.rings.iter().enumerate() {
        let holes = slots.iter().filter(|slot| slot.is_none()).count();
        let up = slots.len() - holes;
        let name = if picture.rings.len() > 1 { format!(" shard {shard}: ") } else { " ".to_owned() };
        let even =
            if up > 0 { format!("  an even share is {:.1} %", 100.0 / up as f64) } else { String::new() };
        let head = format!("{name}slots: {}, holes: {holes}{even}", slots.len());
        canvas.line(area, line, &[Cell::new(head).tone(Tone::Dim)]);
        line += 1;
        let cells: Vec<_> = slots.iter().enumerate().map(|(slot, worker)| seat(slot, *worker)).collect();
        let width = cells.iter().map(|cell| cell.text.chars().count()).max().unwrap_or(1).max(1);
        let width = u16::try_from(width + 2).unwrap_or(u16::MAX);
        let in_line = usize::from((area.width.saturating_sub(1) / width).max(1));
        for row in cells.chunks(in_line) {
            for (at, cell) in row.iter().enumerate() {
                let x = area.x.saturating_add(1).saturating_add(width.saturating_mul(at as u16));
                let style = canvas.look.style(cell.tone);
                canvas.write(area, line, x, &cell.text, style);
            }
            line = line.saturating_add(1);
        }
        line = line.saturating_add(1);
    }
}

/// A slot and who has it.
fn seat(slot: usize, worker: Option<u64>) -> Cell {
    match worker {
        Some(worker) => Cell::new(format!("{slot:>3} {worker}")),
        None => Cell::new(format!("{slot:>3} hole")).tone(Tone::Warn),
    }
}
