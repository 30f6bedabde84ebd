#![doc = include_str!("../README.md")]

pub mod core;
pub mod error;
pub mod memory;
pub mod model;
pub mod mutation;
pub mod step;
