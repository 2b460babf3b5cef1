//! The controller core on real files.

mod crash;
mod harness;
mod log;
mod requests;
