use base::{LeaderEpoch, Offset};
use bytes::Bytes;
use log::{AbortedTxn, ColdRead, LogError, ReadOutcome};
use replica::{EpochEnd, FetchBounds, FetchCheck, FetchVerdict, Isolation};

use crate::error::PartitionError;
use crate::fetch_wait::FetchMark;
use crate::partition::{Partition, State};

/// What a fetch wants of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadRequest {
    /// First offset wanted; the batch that contains it comes whole.
    pub from: Offset,
    /// Bytes wanted at most: what is left of the response's and the partition's limit.
    pub max_bytes: usize,
    /// Return the first batch even if it is larger than `max_bytes` (KIP-74): for the first partition that has data.
    pub min_one_batch: bool,
    /// How far the reader may look.
    pub isolation: Isolation,
    /// Leader epoch the reader knows, `None` for -1.
    pub current_leader_epoch: Option<LeaderEpoch>,
    /// Epoch of the last record the reader has, `None` for -1 (Fetch v12+).
    pub last_fetched_epoch: Option<LeaderEpoch>,
}

/// Where the records of a read are.
#[derive(Clone, Debug)]
pub enum ReadRecords {
    /// There are none, or the first batch does not fit.
    None,
    /// In memory: whole batches, one after the other; a batch may begin in one element and end in the next.
    Tail {
        /// The bytes.
        chunks: Vec<Bytes>,
        /// Their number.
        len: usize,
    },
    /// In a segment file: [`Partition::read_cold`] reads them, or the log finds the range for a splice.
    Cold(ColdRead),
}

/// Whether a reader of committed records has aborted ones to skip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AbortedLookup {
    /// It did not ask for committed records only, so no list is sent.
    NotAsked,
    /// None: an empty list is sent.
    Nothing,
    /// [`Partition::aborted_in`] tells, for these offsets (from, behind the last).
    Range(Offset, Offset),
}

/// The answer to a [`ReadRequest`].
#[derive(Clone, Debug)]
pub struct ReadResult {
    /// The records.
    pub records: ReadRecords,
    /// Offsets of the partition at this moment.
    pub bounds: FetchBounds,
    /// The reader's log and ours part ways here; there are no records then.
    pub diverging: Option<EpochEnd>,
    /// Aborted transactions among the records.
    pub aborted: AbortedLookup,
    /// For a wait that begins where this read ended, see [`crate::PartitionCore::wait_for_bytes`].
    pub mark: FetchMark,
}

impl ReadResult {
    /// Bytes that came, or for a cold read will come at most.
    pub fn len(&self) -> usize {
        match &self.records {
            ReadRecords::None => 0,
            ReadRecords::Tail { len, .. } => *len,
            ReadRecords::Cold(cold) => cold.request.max_bytes,
        }
    }

    /// True when no records came.
    pub fn is_empty(&self) -> bool {
        matches!(self.records, ReadRecords::None)
    }
}

impl Partition {
    /// Reads whole batches, without waiting: what is not in memory comes back as a plan.
    ///
    /// # Errors
    /// Wrong leader or epoch, an offset out of range, or a failed log.
    pub fn read(&self, request: &ReadRequest) -> Result<ReadResult, PartitionError> {
        self.check_online()?;
        let check = FetchCheck {
            offset: request.from,
            current_leader_epoch: request.current_leader_epoch,
            last_fetched_epoch: request.last_fetched_epoch,
            isolation: request.isolation,
            leader_only: true,
        };
        let verdict = self.brain().check_fetch(&check)?;
        let (bounds, diverging) = match verdict {
            FetchVerdict::Read(bounds) => (bounds, None),
            FetchVerdict::Diverging(end, bounds) => (bounds, Some(end)),
        };
        let outcome = match diverging {
            Some(_) => ReadOutcome::Empty,
            None => self.read_log(request, bounds.upper)?,
        };
        // A cold read may stop anywhere, so for the list of aborted transactions it counts as going to the end.
        let (records, next_offset, all) = match outcome {
            ReadOutcome::Tail { chunks, len, next_offset, .. } => {
                (ReadRecords::Tail { chunks, len }, next_offset, next_offset >= bounds.upper)
            }
            ReadOutcome::Cold(cold) => (ReadRecords::Cold(cold), bounds.upper, false),
            ReadOutcome::Empty => (ReadRecords::None, request.from, request.from >= bounds.upper),
        };
        let aborted = self.aborted_lookup(request, next_offset);
        let mut result = ReadResult { records, bounds, diverging, aborted, mark: FetchMark::default() };
        // What a limit kept back is there too: a wait has nothing to wait for in this partition.
        let readable = if all { result.len() as u64 } else { u64::MAX };
        result.mark = FetchMark::new(self, request.isolation, readable);
        Ok(result)
    }

    fn read_log(&self, request: &ReadRequest, upper: Offset) -> Result<ReadOutcome, PartitionError> {
        if request.from >= upper {
            return Ok(ReadOutcome::Empty);
        }
        let (from, max_bytes, min_one_batch) = (request.from, request.max_bytes, request.min_one_batch);
        self.0.log.read(log::ReadRequest { from, max_bytes, min_one_batch, upper }).map_err(|e| self.failed(e))
    }

    fn aborted_lookup(&self, request: &ReadRequest, next_offset: Offset) -> AbortedLookup {
        if request.isolation != Isolation::ReadCommitted {
            AbortedLookup::NotAsked
        } else if next_offset <= request.from {
            AbortedLookup::Nothing
        } else {
            AbortedLookup::Range(request.from, next_offset)
        }
    }

    /// Reads the batches of a cold read into memory.
    ///
    /// # Errors
    /// OFFSET_OUT_OF_RANGE when retention took the segment meanwhile, KAFKA_STORAGE_ERROR.
    pub async fn read_cold(&self, read: ColdRead) -> Result<Bytes, PartitionError> {
        self.0.log.read_cold(read).await.map_err(|error| self.failed(error))
    }

    /// The aborted transactions that overlap `from..upper`, ordered by first offset.
    ///
    /// # Errors
    /// KAFKA_STORAGE_ERROR.
    pub async fn aborted_in(&self, from: Offset, upper: Offset) -> Result<Vec<AbortedTxn>, PartitionError> {
        let mut found = self.0.log.aborted_in(from, upper).await.map_err(|error| self.failed(error))?;
        found.sort_by_key(|txn| txn.first_offset);
        Ok(found)
    }

    /// Translates an error of the log, and stops serving if the log did.
    pub(crate) fn failed(&self, error: LogError) -> PartitionError {
        if self.check_online().is_ok() && self.log_failed() {
            self.leave(State::Fenced);
        }
        error.into()
    }
}
