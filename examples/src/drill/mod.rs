//! A measured rolling deploy: every node of a pool is replaced by a new one, one after the other, while all jobs run.
//!
//! ```text
//!  conductor ──dispatch──► pool ◄──join── node-1 … node-10      one worker each, times as by default
//!      │  starts node-11, then asks node-1 to leave; and so on     │
//!      └── reads and judges ◄── history ◄── started, stopped ◄─────┘
//! ```
//!
//! Handlers only record when they start and stop. So a gap is the time that the pool needs to move a job, and nothing
//! else.

pub mod cli;
pub mod deploy;
pub mod node;
pub mod verdict;
