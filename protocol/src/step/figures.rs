//! The answer of figures.

/// How many jobs there are, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The server's clock, ms.
    pub now: u64,
    /// All jobs.
    pub jobs: u64,
    /// Those that were never begun.
    pub queued: u64,
    /// Those that a worker owns.
    pub owned: u64,
    /// Those that are parked.
    pub parked: u64,
    /// Server time, ms, at which the oldest new job was accepted, of the jobs that were looked at. New are jobs that were
    /// never begun, and `returned`.
    pub oldest: Option<u64>,
    /// Not all new jobs were looked at.
    pub more: bool,
    /// Jobs that were looked at and wait for their first start, although workers have begun them: refused or handed on, with
    /// no attempt that counts.
    pub returned: u64,
    /// The jobs of each worker that was asked about, in order.
    pub of_workers: Vec<u64>,
}
