use std::collections::VecDeque;
use std::rc::Rc;

use base::{Offset, ProducerId};
use bytes::{Bytes, BytesMut};
use log::ReadOutcome;
use records::{BatchHeader, BatchIter, ValidatedBatch};
use replica::{BatchInfo, BatchMeta, WINDOW_BATCHES};
use wire::ErrorCode;

use crate::append::ProduceResult;
use crate::backlog::Slot;
use crate::error::PartitionError;
use crate::partition::Partition;

/// Searches at the same time on one core; a retry beyond is refused as if nothing had been found, and tried again by
/// its client.
const SEARCHES_MAX: usize = 64;
/// How many offsets back a search goes, in steps: a producer's last batches lie close together unless many producers
/// write between them.
const SPANS: [Offset; 3] = [256, 8_192, 262_144];
/// Bytes one step may read. A step that would need more is given up, and with it the search.
const STEP_BYTES_MAX: usize = 16 << 20;
/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;

/// Looks into the log before a batch is refused with `error`, if it may be a retry of one that was in the window of
/// duplicates before a restart: a snapshot keeps only the last batch of a producer, while its client may have five in
/// flight. The log is searched once for each producer; afterwards its window is as it was. `None` when there is nothing
/// to look for.
pub(crate) fn begin(partition: &Partition, batch: &ValidatedBatch, error: &PartitionError) -> Option<Rc<Slot>> {
    let shared = partition.0.shared.clone();
    let (info, searches) = (BatchInfo::new(&batch.header, None), shared.look_backs.get());
    if error.code != ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER || searches >= SEARCHES_MAX {
        return None;
    }
    let forgotten = partition.brain().producers().forgotten_before(&info)?;
    let slot = Rc::new(Slot::default());
    let (partition, error, answer) = (partition.clone(), error.clone(), slot.clone());
    shared.look_backs.set(searches + 1);
    reactor::spawn(reactor::Class::Normal, async move {
        let mut older = search(&partition, info.producer_id, info.producer_epoch, forgotten.before).await;
        // The window as it was when the retry came; newer batches may have moved it on meanwhile.
        older.drain(..older.len().saturating_sub(forgotten.batches_max));
        let first_attempt = older.iter().find(|meta| meta.is_attempt_of(&info));
        let log_start_offset = partition.brain().log_start();
        answer.decide(match first_attempt {
            Some(meta) => Ok(ProduceResult::of_duplicate(meta, log_start_offset)),
            None => Err(error),
        });
        partition.0.brain.borrow_mut().remember_older(info.producer_id, &older);
        shared.look_backs.set(shared.look_backs.get() - 1);
    })
    .detach();
    Some(slot)
}

/// The last batches of a producer's epoch before an offset, oldest first.
async fn search(partition: &Partition, id: ProducerId, epoch: i16, before: Offset) -> Vec<BatchMeta> {
    let wanted = WINDOW_BATCHES - 1;
    let mut found = Vec::new();
    for span in SPANS {
        let log_start = partition.brain().log_start();
        let from = (before - span).max(log_start);
        match batches_between(partition, id, epoch, from, before).await {
            Some(batches) => found = batches,
            None => return found,
        }
        if found.len() == wanted || from == log_start {
            break;
        }
    }
    found
}

/// The last batches of the producer that begin in `from..before`; `None` when that is too much to read, or fails.
async fn batches_between(
    partition: &Partition,
    id: ProducerId,
    epoch: i16,
    from: Offset,
    before: Offset,
) -> Option<Vec<BatchMeta>> {
    let (mut next, mut bytes_read) = (from, 0);
    let mut found = VecDeque::with_capacity(WINDOW_BATCHES);
    while next < before {
        let bytes = read(partition, next, before).await?;
        bytes_read += bytes.len();
        if bytes.is_empty() || bytes_read > STEP_BYTES_MAX {
            return None;
        }
        for batch in BatchIter::new(bytes) {
            let header = batch.ok()?.header;
            next = header.next_offset();
            let mine = header.producer_id == id && header.producer_epoch == epoch && !header.is_control();
            if !mine || header.base_offset >= before {
                continue;
            }
            if found.len() == WINDOW_BATCHES - 1 {
                found.pop_front();
            }
            found.push_back(meta(&header));
        }
    }
    Some(found.into())
}

fn meta(header: &BatchHeader) -> BatchMeta {
    BatchMeta {
        last_sequence: header.last_sequence(),
        last_offset: header.last_offset(),
        offset_delta: header.last_offset_delta,
        timestamp: header.max_timestamp,
    }
}

async fn read(partition: &Partition, from: Offset, upper: Offset) -> Option<Bytes> {
    let log = partition.log();
    let request = log::ReadRequest { from, max_bytes: READ_BYTES, min_one_batch: true, upper };
    match log.read(request).ok()? {
        ReadOutcome::Tail { chunks, len, .. } => {
            let mut bytes = BytesMut::with_capacity(len);
            chunks.iter().for_each(|chunk| bytes.extend_from_slice(chunk));
            Some(bytes.freeze())
        }
        ReadOutcome::Cold(cold) => log.read_cold(cold).await.ok(),
        ReadOutcome::Empty => None,
    }
}
