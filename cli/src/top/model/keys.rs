//! The meaning of each key.

use crossterm::event::KeyCode;
use tenure_pool::JobKey;

use super::{Act, Answer, Effect, Id, Model, Prompt, Question, Screen, Supposed};
use crate::act::Verb;
use crate::args::Named;
use crate::out::Tone;
use crate::top::key::{INTERRUPT, SUSPEND};
use crate::top::picture::Worker;

/// The longest text that can be typed, characters.
const TYPED: usize = 256;
/// The most workers that are supposed to join.
const JOINS: u32 = 64;

impl Model {
    pub(super) fn press(&mut self, key: KeyCode) -> Option<Effect> {
        match key {
            INTERRUPT => return self.quit(),
            SUSPEND => return Some(Effect::Suspend),
            _ => {}
        }
        if self.question.is_some() {
            return self.answer(key);
        }
        if self.prompt.is_some() {
            self.write(key);
            return None;
        }
        if self.help {
            self.help = false;
            return None;
        }
        self.command(key)
    }

    fn quit(&mut self) -> Option<Effect> {
        match &self.acting {
            Some(act) if !self.leaving => {
                let text = format!("{act} is under way; once more leaves it as it is");
                self.say(Tone::Warn, text);
                self.leaving = true;
                None
            }
            _ => Some(Effect::Quit),
        }
    }

    fn command(&mut self, key: KeyCode) -> Option<Effect> {
        let page = isize::try_from(self.lines.saturating_sub(8).max(1)).unwrap_or(1);
        match key {
            KeyCode::Char('q') => return self.quit(),
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char(c @ '1'..='6') => self.go(Screen::ALL[usize::from(c as u8 - b'1')]),
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(Screen::ALL.len() - 1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-page),
            KeyCode::PageDown => self.step(page),
            KeyCode::Home | KeyCode::Char('g') => self.step(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.step(isize::MAX),
            KeyCode::Enter => self.open(),
            KeyCode::Esc => self.back(),
            KeyCode::Char(c @ ('-' | '+' | 'N')) if self.screen == Screen::Simulate => self.suppose(c),
            KeyCode::Char('w') if self.screen == Screen::Pool => self.suppose_chosen(),
            KeyCode::Char('/')
                if self.detail.is_none() && !matches!(self.screen, Screen::Pool | Screen::Simulate) =>
            {
                let typed = match self.screen {
                    Screen::Ring => String::new(),
                    screen => self.filter(screen).to_owned(),
                };
                self.prompt = Some(Prompt { typed, error: None });
            }
            KeyCode::Char('s') if self.detail.is_none() => {
                let sort = &mut self.sorts[self.screen as usize];
                *sort = (*sort + 1) % self.screen.orders().len();
                self.settle();
            }
            KeyCode::Char('n') if self.screen == Screen::Pool && self.detail.is_none() => {
                self.by_node = !self.by_node;
                self.settle();
            }
            KeyCode::Char(c) => return self.ask(c),
            _ => {}
        }
        None
    }

    fn go(&mut self, screen: Screen) {
        (self.screen, self.detail) = (screen, None);
        self.settle();
    }

    fn turn(&mut self, by: usize) {
        self.go(Screen::ALL[(self.screen as usize + by) % Screen::ALL.len()]);
    }

    /// Shows more of the chosen row.
    fn open(&mut self) {
        match self.chosen_id() {
            Some(Id::Worker(shard, id)) => {
                let is_sharded = self.workers().iter().any(|worker| worker.shard > 0);
                let filter = if is_sharded { format!("worker:{shard}:{id}") } else { format!("worker:{id}") };
                self.show_jobs(filter);
            }
            Some(Id::Node(name)) => self.show_jobs(format!("node:{name}")),
            Some(Id::Job(key)) => self.detail = Some(key),
            Some(Id::Supposed(_)) => self.say(Tone::Dim, "this worker is only supposed"),
            Some(Id::Event(_)) => match self.chosen_key() {
                Some(key) => self.detail = Some(key),
                None => self.say(Tone::Dim, "this event names no key"),
            },
            None => {}
        }
    }

    fn show_jobs(&mut self, filter: String) {
        self.filters[Screen::Jobs as usize] = filter;
        self.go(Screen::Jobs);
    }

    fn back(&mut self) {
        if self.detail.take().is_none() {
            self.filters[self.screen as usize].clear();
            self.chain = None;
            if self.screen == Screen::Simulate {
                self.supposed = Supposed::default();
            }
        }
        self.settle();
    }

    /// Supposes that the chosen worker goes or stays, its whole node does, or another worker joins.
    fn suppose(&mut self, c: char) {
        let chosen = match self.chosen_id() {
            Some(Id::Worker(shard, id)) => Some((shard, id)),
            _ => None,
        };
        let goes = &mut self.supposed.goes;
        match (c, chosen) {
            ('+', _) => self.supposed.joins = (self.supposed.joins + 1).min(JOINS),
            ('-', Some(worker)) => {
                if !goes.remove(&worker) {
                    goes.insert(worker);
                }
            }
            ('N', Some(worker)) => self.suppose_node(worker),
            // One that is only supposed goes again.
            _ => self.supposed.joins = self.supposed.joins.saturating_sub(1),
        }
        self.settle();
    }

    /// Supposes that all workers of this one's node go. They stay if all of them went.
    fn suppose_node(&mut self, worker: (usize, u64)) {
        let Some(picture) = &self.picture else { return };
        let find = |other: &&Worker| (other.shard, other.id) == worker;
        let Some(node) = picture.workers.iter().find(find).map(|found| &found.node) else { return };
        let own = picture.workers.iter().filter(|other| other.node == *node);
        let own: Vec<_> = own.map(|other| (other.shard, other.id)).collect();
        let goes = &mut self.supposed.goes;
        if own.iter().all(|worker| goes.contains(worker)) {
            goes.retain(|worker| !own.contains(worker));
        } else {
            goes.extend(own);
        }
    }

    /// Leads to what would happen if only the chosen worker or node went.
    fn suppose_chosen(&mut self) {
        let goes = match self.chosen_id() {
            Some(Id::Worker(shard, id)) => [(shard, id)].into(),
            Some(Id::Node(name)) => {
                let workers = self.picture.iter().flat_map(|picture| &picture.workers);
                workers.filter(|worker| worker.node == name).map(|worker| (worker.shard, worker.id)).collect()
            }
            _ => return,
        };
        self.supposed = Supposed { goes, joins: 0 };
        self.go(Screen::Simulate);
    }

    fn chosen_id(&self) -> Option<Id> {
        if let Some(key) = &self.detail {
            return Some(Id::Job(key.clone()));
        }
        self.ids().into_iter().nth(self.chosen())
    }

    /// The job of the chosen row.
    fn chosen_key(&self) -> Option<JobKey> {
        match self.chosen_id()? {
            Id::Job(key) => Some(key),
            Id::Event(number) => {
                let (_, event) = self.events.iter().find(|(other, _)| *other == number)?;
                event.keys.first().cloned()
            }
            _ => None,
        }
    }

    /// Whether the job of the chosen row is paused, as far as it is seen.
    fn is_paused(&self) -> bool {
        match (&self.detail, &self.picture) {
            (Some(key), Some(picture)) => {
                picture.explained.as_ref().is_some_and(|seen| seen.key == *key && seen.paused)
            }
            _ => self
                .chosen_key()
                .is_some_and(|key| self.jobs().into_iter().any(|job| job.key == key && job.paused.is_some())),
        }
    }

    /// A key that changes the pool: asks first.
    fn ask(&mut self, c: char) -> Option<Effect> {
        let verb = match c {
            'x' => Some(Verb::STOP),
            'p' => Some(Verb::park()),
            'r' | 'R' => Some(Verb::Retry),
            'b' => Some(Verb::Bounce),
            'P' if self.is_paused() => Some(Verb::Resume),
            'P' => Some(Verb::Pause("paused by hand".to_owned(), None)),
            _ => None,
        };
        let question = match (c, verb) {
            ('R', _) if self.screen == Screen::Parked && self.detail.is_none() => {
                let keys: Vec<_> = self.jobs().into_iter().map(|job| job.key.clone()).collect();
                (!keys.is_empty()).then(|| Question::jobs(Verb::Retry, keys))
            }
            ('R', _) => None,
            (_, Some(verb)) => self.chosen_key().map(|key| Question::jobs(verb, vec![key])),
            ('d' | 'c', None) if self.screen == Screen::Pool => self.ask_fleet(c),
            _ => None,
        }?;
        if self.called.read_only {
            self.say(Tone::Warn, "nothing is changed with --read-only");
            return None;
        }
        if let Some(act) = &self.acting {
            let text = format!("{act} is under way");
            self.say(Tone::Warn, text);
            return None;
        }
        let effect = match &question.act {
            Act::Drain(named) => Some(Effect::Forecast(named.clone())),
            _ => None,
        };
        self.question = Some(question);
        effect
    }

    fn ask_fleet(&self, c: char) -> Option<Question> {
        let id = self.chosen_id()?;
        let workers = &self.picture.as_ref()?.workers;
        let (named, node) = match &id {
            Id::Worker(shard, id) => {
                let worker = workers.iter().find(|worker| (worker.shard, worker.id) == (*shard, *id))?;
                // Its id is its own in a pool without shards.
                let is_sharded = workers.iter().any(|worker| worker.shard > 0);
                let shard = is_sharded.then_some(*shard);
                (Named::Worker { shard, id: tenure_pool::WorkerId(*id) }, worker.node.clone())
            }
            Id::Node(name) => (Named::Node(name.clone()), name.clone()),
            _ => return None,
        };
        if c == 'c' {
            let is_cordoned = workers.iter().any(|worker| worker.node == node && worker.cordoned);
            return Some(Question::cordon(node, !is_cordoned));
        }
        let leaving = workers.iter().filter(|worker| match &id {
            Id::Worker(shard, id) => (worker.shard, worker.id) == (*shard, *id),
            _ => worker.node == node,
        });
        let (count, jobs) = leaving.fold((0, 0), |(count, jobs), worker| (count + 1, jobs + worker.jobs));
        Some(Question::drain(named, count, jobs))
    }

    /// A key that answers the question.
    fn answer(&mut self, key: KeyCode) -> Option<Effect> {
        let question = self.question.as_mut()?;
        let is_yes = match (&mut question.answer, key) {
            (Answer::Yes, KeyCode::Char('y' | 'Y')) => true,
            (_, KeyCode::Esc) | (Answer::Yes, KeyCode::Char(_) | KeyCode::Enter) => {
                self.question = None;
                self.say(Tone::Dim, "nothing was done");
                return None;
            }
            (Answer::Word { typed, .. }, KeyCode::Char(c)) => {
                if typed.chars().count() < TYPED {
                    typed.push(c);
                }
                false
            }
            (Answer::Word { typed, .. }, KeyCode::Backspace) => {
                typed.pop();
                false
            }
            (Answer::Word { word, typed }, KeyCode::Enter) => word == typed,
            _ => false,
        };
        if !is_yes {
            return None;
        }
        let act = self.question.take()?.act;
        self.acting = Some(act.title());
        Some(Effect::Act(act))
    }

    /// A key that is typed into the prompt.
    fn write(&mut self, key: KeyCode) {
        let Some(prompt) = &mut self.prompt else { return };
        prompt.error = None;
        match key {
            KeyCode::Char(c) if prompt.typed.chars().count() < TYPED => prompt.typed.push(c),
            KeyCode::Backspace => {
                prompt.typed.pop();
            }
            KeyCode::Esc => self.prompt = None,
            KeyCode::Enter => self.take_typed(),
            _ => {}
        }
    }

    fn take_typed(&mut self) {
        let Some(prompt) = self.prompt.take() else { return };
        let typed = prompt.typed.trim().to_owned();
        let error = if self.screen == Screen::Ring {
            match JobKey::new(typed.clone()) {
                _ if typed.is_empty() => {
                    self.chain = None;
                    None
                }
                Ok(key) => {
                    self.chain = Some(key);
                    None
                }
                Err(error) => Some(error.to_string()),
            }
        } else {
            self.check(&typed)
        };
        if error.is_some() {
            self.prompt = Some(Prompt { error, ..prompt });
            return;
        }
        if self.screen != Screen::Ring {
            self.filters[self.screen as usize] = typed;
        }
        self.settle();
    }
}
