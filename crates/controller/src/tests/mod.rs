//! The controller with several brokers, without a log: what is decided is applied at once.

mod brokers;
mod configs;
mod harness;
mod partitions;
