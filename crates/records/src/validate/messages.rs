//! The texts clients see. Those of single records, and of the batch they make fail, are Kafka's to the letter, as
//! client-side tests compare them; Kafka sends no text with the other errors.

use super::{RECORD_ERRORS_MAX, RecordError, RecordErrorKind, ValidationConfig};
use crate::BatchHeader;
use crate::scan::RecordMeta;

/// How many record errors the text of the batch repeats.
const SHOWN_MAX: usize = 3;

pub(super) fn plain(kind: RecordErrorKind, message: String) -> RecordError {
    RecordError { kind, message, record_errors: Vec::new() }
}

fn invalid(message: String) -> RecordError {
    plain(RecordErrorKind::InvalidRecord, message)
}

pub(super) fn base_offset(offset: i64, config: &ValidationConfig) -> RecordError {
    let name = &config.topic_partition;
    invalid(format!("The baseOffset of the record batch in the append to {name} should be 0, but it is {offset}"))
}

pub(super) fn too_large(bytes: usize, config: &ValidationConfig) -> RecordError {
    let (name, limit) = (&config.topic_partition, config.batch_bytes_max);
    let text = format!("The record batch in the append to {name} has {bytes} bytes and the limit is {limit}");
    plain(RecordErrorKind::MessageTooLarge, text)
}

pub(super) fn too_large_after_conversion(bytes: usize, config: &ValidationConfig) -> RecordError {
    let (name, limit) = (&config.topic_partition, config.batch_bytes_max);
    let text = format!("The record batch in the append to {name} has {bytes} bytes after conversion, limit {limit}");
    plain(RecordErrorKind::MessageTooLarge, text)
}

pub(super) fn offset_range(header: &BatchHeader, config: &ValidationConfig) -> RecordError {
    let (first, last) = (header.base_offset, header.last_offset());
    invalid(format!("Invalid offset range [{first}, {last}] in topic partition {}", config.topic_partition))
}

pub(super) fn record_count(header: &BatchHeader, config: &ValidationConfig) -> RecordError {
    invalid(format!("Invalid record count {} in topic partition {}", header.record_count, config.topic_partition))
}

pub(super) fn offsets_and_count(header: &BatchHeader, config: &ValidationConfig) -> RecordError {
    let (first, last, count) = (header.base_offset, header.last_offset(), header.record_count);
    let name = &config.topic_partition;
    invalid(format!("Offset range [{first}, {last}] and record count {count} disagree in topic partition {name}"))
}

pub(super) fn control(config: &ValidationConfig) -> RecordError {
    invalid(format!("Clients may not write control records in topic partition {}", config.topic_partition))
}

pub(super) fn sequence(header: &BatchHeader, config: &ValidationConfig) -> RecordError {
    let (sequence, id, name) = (header.base_sequence, header.producer_id, &config.topic_partition);
    invalid(format!("Invalid sequence number {sequence} of producer {id} in topic partition {name}"))
}

pub(super) fn misnumbered(index: i32, delta: i32, config: &ValidationConfig) -> RecordError {
    let name = &config.topic_partition;
    invalid(format!("Record {index} of a compressed batch has offset delta {delta} in topic partition {name}"))
}

/// The errors of single records, in order.
#[derive(Debug, Default)]
pub(super) struct RecordErrors {
    list: Vec<(i32, String)>,
    total: usize,
    any_timestamp: bool,
}

impl RecordErrors {
    fn push(&mut self, index: i32, text: impl FnOnce() -> String) {
        self.total += 1;
        if self.list.len() < RECORD_ERRORS_MAX {
            self.list.push((index, text()));
        }
    }

    #[cold]
    pub fn no_key(&mut self, index: i32, config: &ValidationConfig) {
        let name = &config.topic_partition;
        self.push(index, || format!("Compacted topic cannot accept message without key in topic partition {name}"));
    }

    #[cold]
    pub fn timestamp(&mut self, index: i32, timestamp: i64, offset: i64, now_ms: i64, config: &ValidationConfig) {
        self.any_timestamp = true;
        let from = now_ms.wrapping_sub(config.timestamp_before_max_ms);
        let to = now_ms.wrapping_add(config.timestamp_after_max_ms);
        self.push(index, || {
            format!(
                "Timestamp {timestamp} of message with offset {offset} is out of range. The timestamp should be within \
                 [{from}, {to}]"
            )
        });
    }

    #[cold]
    pub fn timestamp_type(&mut self, index: i32, timestamp: i64, meta: &RecordMeta, offset: i64, partial: bool) {
        self.any_timestamp = true;
        let class = if partial { "PartialDefaultRecord" } else { "DefaultRecord" };
        let shown = |len: i32| if partial { len } else { len.max(0) };
        let (key, value) = (shown(meta.key_len), shown(meta.value_len));
        self.push(index, || {
            format!(
                "Invalid timestamp type in message {class}(offset={offset}, timestamp={timestamp}, key={key} bytes, \
                 value={value} bytes). Producer should not set timestamp type to LogAppendTime."
            )
        });
    }

    pub fn into_result(self) -> Result<(), RecordError> {
        if self.total == 0 {
            return Ok(());
        }
        let (kind, message) = if self.any_timestamp {
            let text = "One or more records have been rejected due to invalid timestamp";
            (RecordErrorKind::InvalidTimestamp, text.to_owned())
        } else {
            let shown: Vec<String> = (self.list.iter().take(SHOWN_MAX))
                .map(|(index, text)| format!("RecordError(batchIndex={index}, message='{text}')"))
                .collect();
            let text = format!(
                "One or more records have been rejected due to {} record errors in total, and only showing the first \
                 three errors at most: [{}]",
                self.total,
                shown.join(", ")
            );
            (RecordErrorKind::InvalidRecord, text)
        };
        Err(RecordError { kind, message, record_errors: self.list })
    }
}
