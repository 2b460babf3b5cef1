//! Kafka's wire formats: every request and response of Kafka 4.4, every record that Kafka keeps in its own logs, headers,
//! API versions and error codes.
//!
//! Lives on every core; nothing here has state. It does not know of sockets, files, record batches (to it, records are
//! bytes) or of what any message means. Messages are generated from `schemas/`, one module each, named after the schema:
//! [`fetch_request::FetchRequest`]. Decoding borrows text and bytes from the frame and never allocates more than the
//! received bytes justify; encoding gives [`Segment`]s, in which record bytes are referred to and not copied.

mod api;
mod codec;
pub mod control_record;
mod error;
mod error_code;
mod error_text;
pub mod header;
mod reader;
mod record_frame;
pub mod schemas;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

pub use api::{ApiInfo, info};
pub use codec::{Bin, Decode, Encode, Message, Str};
pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use error_code::ErrorCode;
pub use reader::{DECODED_BYTES_FREE, DECODED_BYTES_PER_WIRE_BYTE_MAX, Reader};
pub use record_frame::TypedRecord;
pub use segment::{Records, Segment};
pub use writer::Writer;

include!(concat!(env!("OUT_DIR"), "/library.rs"));
