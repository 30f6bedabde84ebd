#![doc = include_str!("../README.md")]

mod class;
mod entry;
mod file;
mod letters;
mod parts;
mod patch;
mod scored;
mod step;
mod unexpected;
mod unused;

pub use class::{Class, Failure};
pub use entry::{EntryId, EntryIdError};
pub use file::File;
pub use letters::{Letters, More, ReadLetters, strange_letters};
pub use parts::Parts;
pub use patch::{ScriptPatch, patched};
pub use scored::Scored;
pub use step::Step;
pub use unexpected::Unexpected;
pub use unused::without_unused_functions;
