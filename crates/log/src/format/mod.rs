//! The bytes of every file a log directory holds. Pure: text and slices in, values out, and back.

pub mod checkpoint;
pub mod index;
pub mod journal;
pub mod marker;
pub mod names;
pub mod snapshot;

/// A side file does not hold what its name says. Side files are hints: the answer to this is to rebuild them.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}: {reason}")]
pub struct FormatError {
    /// Kind of file.
    pub what: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

impl FormatError {
    pub(crate) fn new(what: &'static str, reason: impl Into<String>) -> FormatError {
        FormatError { what, reason: reason.into() }
    }
}
