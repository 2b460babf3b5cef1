//! The controller core on real files.

mod crash;
mod harness;
mod lifecycle;
mod log;
mod requests;
