//! Reading a partition of `__consumer_offsets` from its first offset to its end, for the machine to replay.

use crate::core::DataCore;
use base::Offset;
use bytes::{Bytes, BytesMut};
use coordinator::{Machine, Marker, Replayed, Shell};
use partition::{Partition, PartitionError, ReadRecords, ReadRequest};
use records::{Batch, BatchIter, ControlRecordType, DECOMPRESSED_BYTES_MAX, Scratch};
use replica::Isolation;
use std::cell::RefCell;
use std::time::Duration;
use wire::ErrorCode;

/// Pause between two log lines about a load that goes on, in milliseconds.
const PROGRESS_MS: u64 = 5_000;

/// Pause between two looks at the high watermark, in milliseconds.
const WATERMARK_PAUSE_MS: u64 = 5;

/// What was replayed.
pub struct Loaded {
    /// End of the log then.
    pub log_end: Offset,
    /// Records, all batches together.
    pub records: u64,
    /// Bytes of the batches as stored.
    pub bytes: usize,
}

/// Replays the whole log, and returns once everything below that is committed: so nothing the machine knows can
/// be taken back. Gives up early when `stop` says so.
pub async fn replay<M: Machine>(
    core: &DataCore,
    partition: &Partition,
    shell: &RefCell<Shell<M>>,
    stop: impl Fn() -> bool,
) -> Result<Loaded, PartitionError> {
    let max_bytes = core.config().values.count("offsets.load.buffer.size") as usize;
    let partition_index = partition.key().partition;
    let bounds = partition.bounds(Isolation::LogEnd);
    let (mut from, end) = (bounds.log_start, bounds.log_end);
    let (mut bytes_read, mut records, mut told_ms) = (0, 0, reactor::now().mono_ms());
    let mut scratch = Scratch::new();
    let turn = core.groups.loads.acquire().await;
    while from < end && !stop() {
        let chunk = read(partition, from, max_bytes).await?;
        // The host may have resigned during the read, and what it resigned from takes no more records.
        if chunk.is_empty() || stop() {
            break;
        }
        bytes_read += chunk.len();
        for batch in BatchIter::new(chunk) {
            let batch = batch.map_err(|error| corrupt(&error))?;
            let next = batch.header.last_offset() + 1;
            if next > from {
                records += replay_batch(&batch, &mut scratch, &mut shell.borrow_mut())?;
                from = next;
            }
        }
        let now_ms = reactor::now().mono_ms();
        if now_ms >= told_ms + PROGRESS_MS {
            told_ms = now_ms;
            tracing::info!(
                partition = partition_index,
                at = from,
                end,
                records,
                bytes = bytes_read,
                "groups are being loaded"
            );
        }
        reactor::yield_now().await;
    }
    drop(turn);
    while partition.bounds(Isolation::LogEnd).high_watermark < end && !stop() {
        reactor::sleep(Duration::from_millis(WATERMARK_PAUSE_MS)).await;
    }
    Ok(Loaded { log_end: end, records, bytes: bytes_read })
}

async fn read(partition: &Partition, from: Offset, max_bytes: usize) -> Result<Bytes, PartitionError> {
    let request = ReadRequest {
        from,
        max_bytes,
        min_one_batch: true,
        isolation: Isolation::LogEnd,
        current_leader_epoch: None,
        last_fetched_epoch: None,
    };
    match partition.read(&request)?.records {
        ReadRecords::None => Ok(Bytes::new()),
        ReadRecords::Cold(cold) => partition.read_cold(cold).await,
        ReadRecords::Tail { mut chunks, len } => match chunks.len() {
            1 => Ok(chunks.swap_remove(0)),
            _ => {
                let mut all = BytesMut::with_capacity(len);
                chunks.iter().for_each(|chunk| all.extend_from_slice(chunk));
                Ok(all.freeze())
            }
        },
    }
}

fn replay_batch<M: Machine>(batch: &Batch, scratch: &mut Scratch, shell: &mut Shell<M>) -> Result<u64, PartitionError> {
    let header = &batch.header;
    let producer = header.attributes.is_transactional().then_some((header.producer_id, header.producer_epoch));
    let mut count = 0;
    for record in batch.records(scratch, DECOMPRESSED_BYTES_MAX).map_err(|error| corrupt(&error))? {
        let record = record.map_err(|error| corrupt(&error))?;
        let key = record.key.unwrap_or_default();
        if header.attributes.is_control() {
            let commit = match ControlRecordType::parse(key) {
                Some(ControlRecordType::Commit) => true,
                Some(ControlRecordType::Abort) => false,
                _ => continue,
            };
            let marker = Marker { producer_id: header.producer_id, producer_epoch: header.producer_epoch, commit };
            shell.load_marker(record.offset, &marker);
        } else {
            let timestamp_ms = record.timestamp;
            shell.load(&Replayed { offset: record.offset, timestamp_ms, producer, key, value: record.value });
        }
        count += 1;
    }
    Ok(count)
}

fn corrupt(error: &dyn std::fmt::Display) -> PartitionError {
    PartitionError::new(ErrorCode::CORRUPT_MESSAGE, error.to_string())
}
