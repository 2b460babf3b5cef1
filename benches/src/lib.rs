//! Benchmarks: `bench/` measures whole brokers side by side, `runtime_patterns` compares the reactor with other ways of doing the same.
//!
//! Runs on development machines alone. This library is empty: the programs are in `src/bin`, and no product crate knows of them.
