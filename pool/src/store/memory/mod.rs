//! The store in memory.

/// The pool's steps in the memory of one process.
#[derive(Debug)]
pub struct MemoryStore;
