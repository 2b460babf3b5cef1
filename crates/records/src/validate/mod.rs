//! The checks a leader applies to a batch before it appends it.

mod types;

pub use types::{
    AppendOrigin, DECOMPRESSED_BYTES_MAX, RecordError, RecordErrorKind, TargetCompression, ValidatedBatch,
    ValidationConfig,
};
