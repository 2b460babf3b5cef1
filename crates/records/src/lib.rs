//! Kafka's record batches (magic 2): views, iteration, builders, checksums, compression, control records, and the
//! validation a leader applies to what producers send.
//!
//! Lives on every core, wherever a batch is looked at. It does not know of offsets being assigned (it only stamps what it
//! is told), of logs, files, producers' state, requests or clocks: the time is an argument, bytes come in and go out.
//!
//! All input is hostile until proven otherwise. Nothing here allocates more than the bytes received justify or a limit
//! given by the caller allows, and nothing panics on input.

mod batch;
mod builder;
mod compress;
mod control;
mod error;
mod header;
mod lookup;
mod record;
mod scan;
mod validate;
mod varint;

pub use base::crc32c;
pub use batch::{Batch, BatchIter, Scratch};
pub use builder::{BatchBuilder, RecordData};
pub use compress::{DecompressStream, Decompressor, compress};
pub use control::{ControlRecordType, EndTxnMarker, TxnMarker, control_batch};
pub use error::{BatchError, BuildError};
pub use header::{Attributes, BatchHeader, Codec, TimestampType, crc_of, field, set_log_append_time, stamp};
pub use lookup::TimestampOffset;
pub use record::{HeaderIter, Headers, Record, RecordHeader, RecordIter};
pub use validate::{
    AppendOrigin, DECOMPRESSED_BYTES_MAX, RECORD_BYTES_MAX, RECORD_ERRORS_MAX, RecordError, RecordErrorKind,
    TargetCompression, ValidatedBatch, ValidationConfig, Validator, check_produce, validate,
};
pub use varint::{put_varint, put_varlong, read_varint, read_varlong, size_of_varint, size_of_varlong};
