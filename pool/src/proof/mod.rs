//! What proves and measures the pool: the simulator, and the cases of the micro-benchmarks.

#[cfg(feature = "micro")]
pub mod micro;
#[cfg(feature = "sim")]
pub mod sim;
