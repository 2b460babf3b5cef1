use thiserror::Error;

/// Why bytes are no message. The bytes come from outside, so this is an answer and not a fault of ours: the connection
/// that sent them is closed, as Kafka does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{kind} at byte {position} of the frame")]
pub struct DecodeError {
    /// What is wrong.
    pub kind: DecodeErrorKind,
    /// Bytes from the start of what the reader was given.
    pub position: u32,
}

/// What is wrong with the bytes. Like every reading method's result it is moved often, hence a tag of four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[repr(u32)]
pub enum DecodeErrorKind {
    /// More bytes are announced or needed than there are.
    #[error("the data ends too early")]
    Truncated,
    /// A length or count above what the type allows.
    #[error("a length is out of range")]
    BadLength,
    /// A null where the version does not allow one.
    #[error("a value that cannot be null is null")]
    NullNotAllowed,
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    InvalidUtf8,
    /// A varint of more than 32 bits.
    #[error("a varint is too long")]
    BadVarint,
    /// A tagged field whose value does not fill the size given for it.
    #[error("a tagged field has another size than announced")]
    TagSize,
    /// A tag that exists, but not in this version.
    #[error("a tagged field does not exist in this version")]
    TagNotInVersion,
    /// The message would take more memory than its bytes justify.
    #[error("the message would take too much memory for its size")]
    TooExpensive,
    /// The message has no such version.
    #[error("the message has no such version")]
    UnsupportedVersion,
    /// There is no record of this type.
    #[error("unknown record type")]
    UnknownRecordType,
    /// A frame version other than 1 in front of a record.
    #[error("unknown frame version of a record")]
    UnknownFrameVersion,
    /// Bytes are left where the message should have ended.
    #[error("the data goes on after its end")]
    TrailingBytes,
}

/// Why a message cannot be written in a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum EncodeError {
    /// The message has no such version.
    #[error("{message} has no version {version}")]
    UnsupportedVersion {
        /// The schema's name.
        message: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// A field is set that the version lacks and that must not be dropped silently.
    #[error("field {field} is set but does not exist in version {version}")]
    NotInVersion {
        /// The field's name in the schema.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// A field is null in a version in which it must not be.
    #[error("field {field} must not be null")]
    NullNotAllowed {
        /// The field's name in the schema.
        field: &'static str,
    },
    /// Text of more than 32767 bytes, or bytes or an array of more than 2^31-1.
    #[error("a value of {length} bytes or items is too long for the protocol")]
    TooLong {
        /// Length of the value.
        length: usize,
    },
}
