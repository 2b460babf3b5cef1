//! The directories of a node: how they are formatted, and how they are verified before a start.

pub(crate) mod bootstrap;
pub(crate) mod features;
pub(crate) mod format;
pub(crate) mod load;
pub(crate) mod voters;

/// Why directories cannot be formatted or used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub(crate) struct StorageError(pub(crate) String);

impl StorageError {
    pub(crate) fn new(message: impl Into<String>) -> StorageError {
        StorageError(message.into())
    }
}
