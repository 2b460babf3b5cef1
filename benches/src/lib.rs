//! Benchmarks: `bench/` measures whole brokers side by side, `runtime_patterns` compares the reactor with other ways of doing the same,
//! `micro` times and counts single steps.
//!
//! Runs on development machines alone; no product crate knows of it.

pub mod micro;
