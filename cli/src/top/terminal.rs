//! The terminal: taken for the screens, and given back as it was, whatever ends them.

use std::io::{self, Stdout, Write, stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::backend::CrosstermBackend;

use super::model::Model;
use super::view::{Look, draw};

/// The terminal is ours. There is one in a process.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while it shows the screens. It is given back when this is dropped, and before a panic is reported.
pub(super) struct Terminal {
    inner: ratatui::Terminal<CrosstermBackend<Stdout>>,
    /// The panic of another thread.
    panicked: Arc<Mutex<Option<String>>>,
}

impl Terminal {
    /// Takes the terminal, for this thread.
    ///
    /// # Errors
    /// It is none, or cannot be written to.
    pub(super) fn take() -> io::Result<Self> {
        let panicked = Arc::new(Mutex::new(None));
        watch_panics(panicked.clone());
        take()?;
        // From here on it is given back by the drop.
        let inner = ratatui::Terminal::new(CrosstermBackend::new(stdout())).inspect_err(|_| give_back())?;
        Ok(Self { inner, panicked })
    }

    /// Draws the model. While the terminal is not ours, nothing is drawn.
    ///
    /// # Errors
    /// It cannot be written to.
    pub(super) fn draw(&mut self, model: &Model, look: Look) -> io::Result<()> {
        if !TAKEN.load(Ordering::SeqCst) {
            return Ok(());
        }
        // Not by `draw` of the inner terminal: after that, its drop shows the cursor, and panics if standard error has gone with the
        // terminal. The cursor is hidden here from the start.
        self.inner.autoresize()?;
        let mut frame = self.inner.get_frame();
        let area = frame.area();
        draw(model, look, area, frame.buffer_mut());
        self.inner.flush()?;
        self.inner.swap_buffers();
        self.inner.backend_mut().flush()
    }

    /// How many lines it has.
    pub(super) fn lines(&self) -> u16 {
        self.inner.size().map_or(24, |size| size.height)
    }

    /// Takes it again, or draws it anew.
    ///
    /// # Errors
    /// It cannot be written to.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        take()?;
        execute!(stdout(), Clear(ClearType::All))?;
        // This one knows of no former frame, so it draws everything.
        self.inner = ratatui::Terminal::new(CrosstermBackend::new(stdout()))?;
        Ok(())
    }

    /// Gives it back for good. Returns what another thread has said when it panicked.
    pub(super) fn leave(self) -> Option<String> {
        give_back();
        self.panicked.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let taken = enable_raw_mode().and_then(|()| execute!(stdout(), EnterAlternateScreen, Hide));
    taken.inspect_err(|_| give_back())
}

/// Gives the terminal back, for a while or for good. Does nothing if it is not ours. The terminal may have gone, and then
/// nobody has to know.
pub(super) fn give_back() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let _ = execute!(stdout(), Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
    let _ = stdout().flush();
}

/// A panic of this thread is reported on the terminal as it was before. One of another thread is kept, because this one
/// may be drawing: it ends what this thread waits for.
fn watch_panics(panicked: Arc<Mutex<Option<String>>>) {
    let (owner, before) = (thread::current().id(), panic::take_hook());
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() == owner {
            give_back();
            before(info);
        } else {
            *panicked.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.to_string());
        }
    }));
}

#[cfg(test)]
mod tests;
