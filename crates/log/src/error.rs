use base::Offset;

/// Why a log operation failed. Retriable ones ([`LogError::is_retriable`]) left nothing behind.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LogError {
    /// The file system is full. Nothing was appended; appends succeed again once space is freed.
    #[error("no space left for log {log}")]
    NoSpace {
        /// Name of the partition's directory.
        log: String,
    },
    /// More unwritten bytes than the core's budget allows. Nothing was appended.
    #[error("{unwritten} bytes of log data wait to be written, the core's bound is {bound}")]
    Overloaded {
        /// Bytes that wait.
        unwritten: usize,
        /// `LogCoreConfig::unwritten_bytes_max`.
        bound: usize,
    },
    /// A disk or checksum error closed this log (or its whole directory) until the broker restarts.
    #[error("log {log} is fenced: {reason}")]
    Fenced {
        /// Name of the partition's directory.
        log: String,
        /// What happened, with the path and the system's error.
        reason: String,
    },
    /// The log was closed or deleted.
    #[error("log {log} is closed")]
    Closed {
        /// Name of the partition's directory.
        log: String,
    },
    /// The offset lies before the log's start or behind its end.
    #[error("offset {offset} is out of range of log {log}, which holds {start}..{end}")]
    OutOfRange {
        /// Name of the partition's directory.
        log: String,
        /// What was asked for.
        offset: Offset,
        /// Log start offset.
        start: Offset,
        /// Log end offset (exclusive).
        end: Offset,
    },
    /// Stored bytes do not pass their checksum or do not parse.
    #[error("corrupt data in {file} at {position}: {reason}")]
    Corrupt {
        /// The file.
        file: String,
        /// Where in it, in bytes.
        position: u64,
        /// What is wrong.
        reason: String,
    },
    /// The system refused a file operation.
    #[error("{operation} {file}: {error}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which path.
        file: String,
        /// The system's words.
        error: String,
    },
    /// The directory exists and belongs to another incarnation of the topic.
    #[error("directory {log} belongs to topic id {found}, not {expected}")]
    TopicId {
        /// Name of the partition's directory.
        log: String,
        /// Id in `partition.metadata`.
        found: base::Uuid,
        /// Id asked for.
        expected: base::Uuid,
    },
}

impl LogError {
    /// True when the same append may succeed later and nothing was kept of this one.
    pub fn is_retriable(&self) -> bool {
        matches!(self, LogError::NoSpace { .. } | LogError::Overloaded { .. })
    }
}
