//! Batches of the metadata log and its snapshots: records to bytes and back.

use base::Offset;
use bytes::Bytes;
use metadata::VersionedRecord;
use raft::ControlRecord;
use records::{Batch, BatchBuilder, RecordData, Scratch};
use wire::begin_transaction_record::BeginTransactionRecord;
use wire::end_transaction_record::EndTransactionRecord;
use wire::metadata_record::MetadataRecord;

/// Largest batch that readers of the metadata log accept, in bytes (Kafka's bound of the same name).
pub(crate) const BATCH_BYTES_MAX: usize = 8 << 20;

/// Where and when a batch is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) base_offset: Offset,
    pub(crate) epoch: i32,
    pub(crate) timestamp_ms: i64,
}

/// A batch would be larger than readers accept, or a record cannot be encoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unwritable(pub(crate) String);

/// Records after which a batch is closed: more than any client's request makes, so that only what the controller does by
/// itself to a great many partitions is ever divided.
const RECORDS_PER_BATCH_MAX: usize = 12_000;

/// Bytes after which a batch is closed, well below what readers accept.
const BYTES_PER_BATCH: usize = 4 << 20;

/// Divides the records of one decision into batches that may be written. When there are several, a transaction around
/// them makes them one again for every reader, also one that finds only the first of them after a crash (KIP-868).
pub(crate) fn split(records: Vec<VersionedRecord<'static>>, transactions: bool) -> Vec<Vec<VersionedRecord<'static>>> {
    let mut batches = Vec::new();
    let mut batch = Vec::new();
    let mut bytes = 0;
    for record in records {
        // A record that cannot be encoded is reported when its batch is made.
        let size = record.0.encode(record.1).map_or(0, |value| value.len());
        if batch.len() == RECORDS_PER_BATCH_MAX || (bytes + size > BYTES_PER_BATCH && !batch.is_empty()) {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += size;
        batch.push(record);
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    if let [first, .., last] = &mut batches[..]
        && transactions
    {
        first.insert(0, (BeginTransactionRecord { name: Some("large decision".into()) }.into(), 0));
        last.push((EndTransactionRecord {}.into(), 0));
    }
    batches
}

/// One batch of metadata records.
pub(crate) fn data_batch(stamp: Stamp, records: &[VersionedRecord<'_>]) -> Result<Bytes, Unwritable> {
    let mut builder = BatchBuilder::new(stamp.base_offset).leader_epoch(stamp.epoch);
    for (record, version) in records {
        append(&mut builder, stamp.timestamp_ms, record, *version)?;
    }
    finish(&builder)
}

/// Adds one metadata record to a batch.
pub(crate) fn append(
    builder: &mut BatchBuilder,
    timestamp: i64,
    record: &MetadataRecord<'_>,
    version: i16,
) -> Result<(), Unwritable> {
    let value = record.encode(version).map_err(|error| Unwritable(format!("{}: {error}", record.name())))?;
    builder.append(&RecordData { timestamp, key: None, value: Some(&value), headers: &[] });
    Ok(())
}

/// The bytes of a batch that may be written.
pub(crate) fn finish(builder: &BatchBuilder) -> Result<Bytes, Unwritable> {
    let batch = builder.build().map_err(|error| Unwritable(error.to_string()))?;
    if batch.len() > BATCH_BYTES_MAX {
        return Err(Unwritable(format!("a batch of {} bytes exceeds {BATCH_BYTES_MAX}", batch.len())));
    }
    Ok(batch)
}

/// One control batch.
pub(crate) fn control_batch(stamp: Stamp, records: &[ControlRecord]) -> Result<Bytes, Unwritable> {
    let mut builder = BatchBuilder::new(stamp.base_offset).leader_epoch(stamp.epoch).control();
    for record in records {
        let (key, value) = record.encode();
        let timestamp = stamp.timestamp_ms;
        builder.append(&RecordData { timestamp, key: Some(&key), value: Some(&value), headers: &[] });
    }
    finish(&builder)
}

/// A record of the metadata log.
pub(crate) enum LogRecord<'a> {
    /// Of a control batch.
    Control(ControlRecord),
    /// Of a data batch.
    Data(MetadataRecord<'a>),
}

/// Calls `visit` with every record of a batch and its offset.
///
/// # Errors
/// What cannot be decoded, and what `visit` returns.
pub(crate) fn for_each_record(
    batch: &Batch,
    scratch: &mut Scratch,
    mut visit: impl FnMut(Offset, LogRecord<'_>) -> Result<(), String>,
) -> Result<(), (Offset, String)> {
    let base = batch.header.base_offset;
    let records = batch.records(scratch, BATCH_BYTES_MAX).map_err(|error| (base, error.to_string()))?;
    for record in records {
        let record = record.map_err(|error| (base, error.to_string()))?;
        let offset = record.offset;
        let value = record.value.unwrap_or_default();
        let outcome = if batch.header.is_control() {
            match ControlRecord::decode(record.key.unwrap_or_default(), value) {
                Ok(Some(control)) => visit(offset, LogRecord::Control(control)),
                Ok(None) => Ok(()),
                Err(error) => Err(error.to_string()),
            }
        } else {
            match MetadataRecord::decode(value) {
                Ok((data, _)) => visit(offset, LogRecord::Data(data)),
                Err(error) => Err(error.to_string()),
            }
        };
        outcome.map_err(|reason| (offset, reason))?;
    }
    Ok(())
}
