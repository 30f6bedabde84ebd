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
    /// never begun, and `refused`.
    pub oldest: Option<u64>,
    /// Not all new jobs were looked at.
    pub more: bool,
    /// Jobs that were begun, refused before their first start, and looked at.
    pub refused: u64,
    /// The jobs of each worker that was asked about, in order.
    pub of_workers: Vec<u64>,
}
