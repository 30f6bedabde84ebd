//! Proofs and measurements of the pool: the simulator, and the cases of the micro-benchmarks.

#[cfg(feature = "micro")]
pub mod micro;
#[cfg(feature = "sim")]
pub mod sim;
