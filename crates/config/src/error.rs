//! What is wrong with an option.

use std::fmt;

/// Which of Kafka's error codes a refused change is answered with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// `INVALID_CONFIG`: the option or its value is not acceptable.
    InvalidConfig,
    /// `INVALID_REQUEST`: the request as such is not acceptable.
    InvalidRequest,
}

/// An option that is unknown or set to something it does not accept. `Display` gives the text Kafka prints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The option, when it is about one.
    pub option: Option<String>,
    /// Class of the error.
    pub kind: ErrorKind,
    message: String,
}

impl ConfigError {
    /// "Invalid value v for configuration o: why".
    pub fn invalid(option: &str, value: impl fmt::Display, why: impl fmt::Display) -> ConfigError {
        ConfigError {
            option: Some(option.to_owned()),
            kind: ErrorKind::InvalidConfig,
            message: format!("Invalid value {value} for configuration {option}: {why}"),
        }
    }

    /// An error about one option with a text of its own.
    pub fn about(option: &str, message: impl Into<String>) -> ConfigError {
        ConfigError { option: Some(option.to_owned()), kind: ErrorKind::InvalidConfig, message: message.into() }
    }

    /// An error about no single option.
    pub fn general(message: impl Into<String>) -> ConfigError {
        ConfigError { option: None, kind: ErrorKind::InvalidConfig, message: message.into() }
    }

    /// An error about the request.
    pub fn request(message: impl Into<String>) -> ConfigError {
        ConfigError { option: None, kind: ErrorKind::InvalidRequest, message: message.into() }
    }

    /// The same text, answered as another class.
    pub fn as_request(mut self) -> ConfigError {
        self.kind = ErrorKind::InvalidRequest;
        self
    }

    /// The text.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {}
