use std::borrow::Cow;

use wire::ErrorCode;

/// Why a request, or one item of it, was refused: Kafka's code and the text that goes with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiError {
    /// The code.
    pub code: ErrorCode,
    /// The text; `None` leaves it to the client, which then shows the code's own.
    pub message: Option<Cow<'static, str>>,
}

impl ApiError {
    /// An error with a text of its own.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> ApiError {
        ApiError { code, message: Some(message.into()) }
    }

    /// An error that is sent without a text.
    pub fn bare(code: ErrorCode) -> ApiError {
        ApiError { code, message: None }
    }

    /// An error that is sent with the text that Kafka has for its code.
    pub fn usual(code: ErrorCode) -> ApiError {
        let text = match code {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => "This server does not host this topic-partition.",
            ErrorCode::UNKNOWN_TOPIC_ID => "This server does not host this topic ID.",
            ErrorCode::ELECTION_NOT_NEEDED => "Leader election not needed for topic partition.",
            ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE => "The preferred leader was not available.",
            ErrorCode::ELIGIBLE_LEADERS_NOT_AVAILABLE => "Eligible topic partition leaders are not available.",
            ErrorCode::NOT_CONTROLLER => "This is not the correct controller for this cluster.",
            ErrorCode::UNSUPPORTED_VERSION => "The version of API is not supported.",
            _ => return ApiError::bare(code),
        };
        ApiError::new(code, text)
    }

    /// The number on the wire.
    pub fn code(&self) -> i16 {
        self.code.code()
    }
}

impl From<config::ConfigError> for ApiError {
    fn from(error: config::ConfigError) -> ApiError {
        let code = match error.kind {
            config::ErrorKind::InvalidConfig => ErrorCode::INVALID_CONFIG,
            config::ErrorKind::InvalidRequest => ErrorCode::INVALID_REQUEST,
        };
        ApiError::new(code, error.to_string())
    }
}

/// Code and text of an outcome as a response holds them.
pub(crate) fn code_and_message<T>(outcome: &Result<T, ApiError>) -> (i16, Option<Cow<'static, str>>) {
    match outcome {
        Ok(_) => (ErrorCode::NONE.code(), None),
        Err(error) => (error.code(), error.message.clone()),
    }
}
