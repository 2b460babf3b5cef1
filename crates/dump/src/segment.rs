//! Segments and snapshots: batches and their records.

use crate::Findings;
use crate::json::{Malformed, Reader, message_json};
use crate::payload::{Decoder, Schemas, contents};
use base::Offset;
use records::{Batch, ControlRecordType, EndTxnMarker, Record, Scratch};
use std::fmt::Write as _;

/// What is shown of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SegmentOptions {
    /// Records too, not batches only.
    pub deep: bool,
    /// Keys and values of records.
    pub contents: bool,
    /// Leaves out everything of a record but its contents.
    pub skip_record_metadata: bool,
    /// How contents are shown.
    pub decoder: Decoder,
}

/// Bytes of a batch's records when decompressed; above it the batch is shown without records.
const RECORDS_BYTES_MAX: usize = 1 << 30;

/// Shows a segment batch by batch.
#[derive(Debug)]
pub struct SegmentDump<'n> {
    file: &'n str,
    options: SegmentOptions,
    schemas: Schemas,
    scratch: Scratch,
    last_offset: Offset,
    position: u64,
}

/// The line in front of a segment or snapshot with this file name; `None` for names that are neither.
pub fn segment_heading(name: &str) -> Option<String> {
    if name == "bootstrap.checkpoint" {
        return Some("KRaft bootstrap snapshot".to_owned());
    }
    if let Some(stem) = name.strip_suffix(".log") {
        return stem.parse::<i64>().ok().map(|offset| format!("Log starting offset: {offset}"));
    }
    let (offset, epoch) = name.strip_suffix(".checkpoint")?.split_once('-')?;
    let (offset, epoch) = (offset.parse::<i64>().ok()?, epoch.parse::<i32>().ok()?);
    Some(format!("Snapshot end offset: {offset}, epoch: {epoch}"))
}

impl<'n> SegmentDump<'n> {
    /// For the segment with the path `file`, from its start.
    pub fn new(file: &'n str, options: SegmentOptions) -> SegmentDump<'n> {
        SegmentDump { file, options, schemas: Schemas::load(), scratch: Scratch::new(), last_offset: -1, position: 0 }
    }

    /// Bytes of the batches shown so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Appends the lines of the next batch to `out`.
    pub fn batch(&mut self, batch: &Batch, out: &mut String, findings: &mut Findings) {
        batch_line(batch, self.position, out);
        self.position += batch.bytes.len() as u64;
        if self.options.deep {
            self.records(batch, out, findings);
        }
    }

    /// Appends the line about what follows the last batch of a file of `file_bytes` bytes.
    pub fn end(&self, file_bytes: u64, out: &mut String) {
        let name = self.file.rsplit('/').next().unwrap_or(self.file);
        if file_bytes > self.position {
            let _ = writeln!(out, "Found {} invalid bytes at the end of {name}", file_bytes - self.position);
        }
    }

    fn records(&mut self, batch: &Batch, out: &mut String, findings: &mut Findings) {
        let SegmentDump { file, options, schemas, scratch, last_offset, .. } = self;
        let records = match batch.records(scratch, RECORDS_BYTES_MAX) {
            Ok(records) => records,
            Err(e) => {
                let _ = writeln!(out, "| the records cannot be read: {e}");
                return;
            }
        };
        for record in records {
            let record = match record {
                Ok(record) => record,
                Err(e) => {
                    let _ = writeln!(out, "| the rest of the records cannot be read: {e}");
                    return;
                }
            };
            if record.offset != last_offset.wrapping_add(1) {
                let line = format!("  {last_offset} is followed by {}", record.offset);
                findings.add(format!("Non-consecutive offsets in {file}"), line);
            }
            *last_offset = record.offset;
            if !options.skip_record_metadata {
                record_line(schemas, batch, &record, out);
            }
            if options.contents && !batch.header.is_control() {
                let mut prefix = if options.skip_record_metadata { "| " } else { " " };
                let contents = contents(schemas, options.decoder, &record);
                if let Some(key) = contents.key {
                    let _ = write!(out, "{prefix}key: {key}");
                    prefix = " ";
                }
                if let Some(value) = contents.value {
                    let _ = write!(out, "{prefix}payload: {value}");
                }
            }
            out.push('\n');
        }
    }
}

/// A number that may be missing, as Java shows it.
pub(crate) fn optional_long(value: Option<i64>) -> String {
    value.map_or("OptionalLong.empty".to_owned(), |v| format!("OptionalLong[{v}]"))
}

fn batch_line(batch: &Batch, position: u64, out: &mut String) {
    let h = &batch.header;
    let _ = write!(out, "baseOffset: {} lastOffset: {} count: {}", h.base_offset, h.last_offset(), h.record_count);
    let _ = write!(out, " baseSequence: {} lastSequence: {}", h.base_sequence, h.last_sequence());
    let _ = write!(out, " producerId: {} producerEpoch: {}", h.producer_id, h.producer_epoch);
    let _ = write!(out, " partitionLeaderEpoch: {} isTransactional: {}", h.leader_epoch, h.is_transactional());
    let horizon = optional_long(h.delete_horizon_ms());
    let _ = write!(out, " isControl: {} deleteHorizonMs: {horizon} position: {position}", h.is_control());
    let codec = h.attributes.codec().map_or("unknown", |c| c.name());
    let _ = write!(out, " {}: {}", h.attributes.timestamp_type().name(), h.max_timestamp);
    let _ = write!(out, " size: {} magic: 2 compresscodec: {codec} crc: {}", batch.bytes.len(), h.crc);
    let _ = writeln!(out, " isvalid: {}", batch.verify_crc().is_ok());
}

fn record_line(schemas: &Schemas, batch: &Batch, record: &Record<'_>, out: &mut String) {
    let size = |bytes: Option<&[u8]>| bytes.map_or(-1, |b| b.len() as i64);
    let timestamps = batch.header.attributes.timestamp_type().name();
    let _ = write!(out, "| offset: {} {timestamps}: {}", record.offset, record.timestamp);
    let _ = write!(out, " keySize: {} valueSize: {}", size(record.key), size(record.value));
    let names: Vec<_> = record.headers.iter().map(|h| String::from_utf8_lossy(h.key)).collect();
    let _ = write!(out, " sequence: {} headerKeys: [{}]", record.sequence, names.join(","));
    if batch.header.is_control() {
        out.push_str(&control(schemas, record).unwrap_or_else(|e| format!(" (unreadable: {})", e.0)));
    }
}

fn control(schemas: &Schemas, record: &Record<'_>) -> Result<String, Malformed> {
    let missing = || Malformed("no type".to_owned());
    let kind = ControlRecordType::parse(record.key.unwrap_or_default()).ok_or_else(missing)?;
    let value = record.value.unwrap_or_default();
    let json = |title: &str, schema: &str| {
        let message = schemas.named("control", schema).ok_or_else(missing)?;
        Ok(format!(" {title} {}", message_json(message, 0, &mut Reader::new(value))?))
    };
    match kind {
        ControlRecordType::Abort | ControlRecordType::Commit => {
            let marker = EndTxnMarker::parse(value).ok_or_else(|| Malformed("no marker".to_owned()))?;
            Ok(format!(" endTxnMarker: {} coordinatorEpoch: {}", kind.name(), marker.coordinator_epoch))
        }
        ControlRecordType::LeaderChange => json("LeaderChange:", "LeaderChangeMessage"),
        ControlRecordType::SnapshotHeader => json("SnapshotHeader", "SnapshotHeaderRecord"),
        ControlRecordType::SnapshotFooter => json("SnapshotFooter", "SnapshotFooterRecord"),
        ControlRecordType::KRaftVersion => json("KRaftVersion", "KRaftVersionRecord"),
        ControlRecordType::KRaftVoters => json("KRaftVoters", "VotersRecord"),
        ControlRecordType::Unknown(id) => Ok(format!(" controlType: {}({id})", kind.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_by_file_name() {
        let check = |name: &str, expect: Option<&str>| assert_eq!(segment_heading(name).as_deref(), expect);
        check("00000000000000000042.log", Some("Log starting offset: 42"));
        check("00000000000000000007-0000000003.checkpoint", Some("Snapshot end offset: 7, epoch: 3"));
        check("bootstrap.checkpoint", Some("KRaft bootstrap snapshot"));
        check("x.log", None);
        check("00000000000000000042.index", None);
        check("leader-epoch-checkpoint", None);
    }
}
