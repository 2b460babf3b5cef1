//! The controller core on real files.

mod harness;
mod log;
mod requests;
