//! `tenure top`: the pool on the screen of a terminal. A source reads the pool, and keys are pressed. Both are messages to
//! a model, and a view draws the model. The loop here carries out the effects that the model asks for.

mod act;
mod filter;
mod key;
mod model;
mod picture;
#[cfg(test)]
mod sample;
mod source;
mod terminal;
mod view;

use std::io::{self, IsTerminal};
use std::time::{Duration, SystemTime};

use clap::Args;
use crossterm::event::{Event, EventStream};
use futures::StreamExt;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use tenure_pool::Inspector;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use self::key::pressed;
use self::model::{Called, Effect, Model, Msg};
use self::picture::Wanted;
use self::terminal::Terminal;
use self::view::Look;
use crate::args::time;
use crate::connect::Place;
use crate::connect::Session;
use crate::exit::{Code, Failure};
use crate::signals::Ends;

/// How often the times on the screen are counted on.
const TICK: Duration = Duration::from_millis(500);
/// The least time from picture to picture.
const LEAST: Duration = Duration::from_millis(200);

/// Watch the pool on this terminal: workers, jobs, parked jobs, events, the ring, and what would move
///
/// Its keys are listed by `?`. It reads a bounded part of the pool for each picture, and joins nothing. A change of the pool
/// asks first.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Top {
    /// The time from picture to picture
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2s")]
    every: Duration,
    /// Take no key that changes the pool
    #[arg(long)]
    read_only: bool,
    /// Draw nothing but ASCII
    #[arg(long)]
    ascii: bool,
}

impl Top {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
            let text =
                "top needs a terminal. Elsewhere, `tenure workers -w` and `tenure events -f` print lists";
            return Err(Failure::usage(text));
        }
        let place = session.place()?;
        let pool = place.inspector().await?;
        let look = Look { colour: session.out.colour, ascii: self.ascii };
        let every = self.every.max(LEAST);
        let called = Called { pool: place.pool.clone(), every, read_only: self.read_only };
        let mut signals = Signals::new()?;
        let mut terminal = Terminal::take()?;
        let mut model = Model::new(called, SystemTime::now());
        let (wanted, asked) = watch::channel(Wanted::default());
        let (to, mut from) = mpsc::channel(16);
        let source = tokio::spawn(source::run(pool.clone(), every, asked, to));
        let doer = Doer { pool, place, within: session.global.timeout };
        let ended = watched(&mut terminal, look, &mut model, &mut signals, &wanted, &mut from, &doer).await;
        source.abort();
        match (terminal.leave(), ended) {
            (Some(panic), _) => Err(Failure::new(Code::Failed, panic)),
            (None, ended) => ended,
        }
    }
}

/// Shows the model and hears messages, until somebody wants no more.
async fn watched(
    terminal: &mut Terminal,
    look: Look,
    model: &mut Model,
    signals: &mut Signals,
    wanted: &watch::Sender<Wanted>,
    from: &mut mpsc::Receiver<Msg>,
    doer: &Doer,
) -> Result<Code, Failure> {
    let (mut keys, mut ticks) = (EventStream::new(), interval(TICK));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (to, mut done) = mpsc::channel(16);
    model.update(Msg::Lines(terminal.lines()));
    loop {
        terminal.draw(model, look)?;
        let msg = tokio::select! {
            event = keys.next() => match event {
                Some(Ok(Event::Key(key))) => pressed(key).map(Msg::Key),
                Some(Ok(Event::Resize(_, lines))) => Some(Msg::Lines(lines)),
                Some(Ok(_)) => None,
                // The terminal has gone.
                Some(Err(_)) | None => return Ok(Code::Interrupted),
            },
            read = from.recv() => match read {
                Some(msg) => Some(msg),
                None => return Err(Failure::new(Code::Failed, "what reads the pool has ended")),
            },
            msg = done.recv() => msg,
            _ = ticks.tick() => None,
            signal = signals.next() => match signal {
                Heard::End => return Ok(Code::Interrupted),
                Heard::Stop => {
                    terminal::give_back();
                    signal_hook::low_level::raise(signal_hook::consts::SIGSTOP)?;
                    None
                }
                Heard::Go => {
                    terminal.resume()?;
                    Some(Msg::Lines(terminal.lines()))
                }
            },
        };
        model.update(Msg::Tick(SystemTime::now()));
        let effect = msg.and_then(|msg| model.update(msg));
        match effect {
            Some(Effect::Quit) => return Ok(Code::Done),
            // All of this terminal's group: the shell sees that its command has stopped.
            Some(Effect::Suspend) => {
                rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)
                    .map_err(io::Error::from)?;
            }
            Some(effect) => doer.start(effect, to.clone()),
            None => {}
        }
        let next = model.wanted();
        wanted.send_if_modified(|now| {
            let is_new = *now != next;
            *now = next;
            is_new
        });
    }
}

/// Carries out effects beside the screen.
#[derive(Clone)]
struct Doer {
    pool: Inspector,
    place: Place,
    within: Duration,
}

impl Doer {
    fn start(&self, effect: Effect, to: mpsc::Sender<Msg>) {
        let doer = self.clone();
        tokio::spawn(async move {
            let msg = match effect {
                Effect::Forecast(named) => {
                    let forecast = act::forecast(&doer.pool, &named).await;
                    Msg::Forecast(named, forecast)
                }
                Effect::Act(act) => Msg::Done(act::carry_out(&doer.place, doer.within, act).await),
                Effect::Quit | Effect::Suspend => return,
            };
            // The screen may be closed.
            let _ = to.send(msg).await;
        });
    }
}

/// The meaning of a signal.
enum Heard {
    End,
    Stop,
    Go,
}

struct Signals {
    ends: Ends,
    stop: Signal,
    go: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let of = |number| signal(SignalKind::from_raw(number));
        let ends = Ends::hear([SIGTERM, SIGINT, SIGHUP, SIGQUIT])?;
        Ok(Self { ends, stop: of(SIGTSTP)?, go: of(SIGCONT)? })
    }

    async fn next(&mut self) -> Heard {
        tokio::select! {
            () = self.ends.next() => Heard::End,
            _ = self.stop.recv() => Heard::Stop,
            _ = self.go.recv() => Heard::Go,
        }
    }
}
