//! The keys that `top` hears.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Ctrl-C and Ctrl-Z, as the characters that they stand for.
pub(super) const INTERRUPT: KeyCode = KeyCode::Char('\u{3}');
pub(super) const SUSPEND: KeyCode = KeyCode::Char('\u{1a}');

/// The key that is pressed. `None` for a key that means nothing here.
pub(super) fn pressed(event: KeyEvent) -> Option<KeyCode> {
    let with_control = event.modifiers.contains(KeyModifiers::CONTROL);
    match event.code {
        _ if event.kind == KeyEventKind::Release => None,
        KeyCode::Char('c') if with_control => Some(INTERRUPT),
        KeyCode::Char('z') if with_control => Some(SUSPEND),
        KeyCode::Char(_) if with_control || event.modifiers.contains(KeyModifiers::ALT) => None,
        code => Some(code),
    }
}
