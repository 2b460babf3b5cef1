//! Errors of the consumer protocol.

use std::borrow::Cow;

use wire::ErrorCode;

use crate::records::TooLong;

/// Why a request is refused, with the text that goes with the error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// The error.
    pub error: ErrorCode,
    /// The text for the client.
    pub message: Cow<'static, str>,
}

impl Refusal {
    /// An error with its text.
    pub fn new(error: ErrorCode, message: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { error, message: message.into() }
    }
}

impl From<TooLong> for Refusal {
    fn from(TooLong: TooLong) -> Refusal {
        Refusal::new(
            ErrorCode::UNKNOWN_SERVER_ERROR,
            "What there is to store is too large for a record of the offsets topic.",
        )
    }
}
