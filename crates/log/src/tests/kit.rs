//! What the tests of this crate share.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use base::{CoreId, Offset, PartitionKey, Prng, Uuid};
use bytes::Bytes;
use records::{BatchBuilder, BatchHeader, BatchIter, Codec, RecordData};

use crate::{
    AbortedTxn, AppendBatch, Durability, JournalConfig, Log, LogConfig, LogCore, LogCoreConfig, LogError, LogId,
    ProducerEntry, ReadOutcome, ReadRequest, RecoverySink, open_dir, write_checkpoints, write_clean_shutdown,
};

/// What recovery told.
#[derive(Default)]
pub struct Told {
    pub snapshot: Option<(Offset, Vec<ProducerEntry>)>,
    pub batches: Vec<BatchHeader>,
}

impl RecoverySink for Told {
    fn producer_snapshot(&mut self, offset: Offset, entries: Vec<ProducerEntry>) {
        assert!(self.snapshot.is_none() && self.batches.is_empty(), "a snapshot comes once and first");
        self.snapshot = Some((offset, entries));
    }

    fn batch(&mut self, header: &BatchHeader, control: Option<&[u8]>) -> Option<AbortedTxn> {
        assert_eq!(header.is_control(), control.is_some());
        self.batches.push(*header);
        control.map(|_| AbortedTxn {
            producer_id: header.producer_id,
            first_offset: header.base_offset - 1,
            last_offset: header.base_offset,
            last_stable_offset: header.base_offset,
        })
    }
}

pub fn log_id(partition: i32) -> LogId {
    let topic_id = Uuid::from_u128(0x0123_4567_89ab_4def_8123_4567_89ab_cdef);
    LogId { topic: Arc::from("orders"), key: PartitionKey { topic_id, partition } }
}

/// A small journal, so that tests go around it.
pub fn core_config(dir: &Path, durability: Durability, start: crate::DirStart) -> LogCoreConfig {
    let mut config = LogCoreConfig::new(dir.to_owned(), CoreId(0), durability, start);
    config.journal = Some(JournalConfig { file_bytes: 256 << 10, files_max: 3 });
    config
}

pub async fn open_core(dir: &Path, durability: Durability) -> LogCore {
    let start = open_dir(dir).await.unwrap();
    LogCore::open(core_config(dir, durability, start)).await.unwrap()
}

pub async fn open(core: &LogCore, partition: i32, config: &LogConfig) -> (Log, Told) {
    let mut told = Told::default();
    let log = core.open_log(log_id(partition), Rc::new(config.clone()), &mut told).await.unwrap();
    (log, told)
}

/// Stops a directory of one core as a broker does.
pub async fn stop(dir: &Path, core: &LogCore) {
    core.close_clean().await.unwrap();
    write_checkpoints(dir, core.checkpoint()).await.unwrap();
    write_clean_shutdown(dir, 7).await.unwrap();
}

/// A batch of `records` records with a value of `len` bytes each.
pub fn batch(records: usize, len: usize, timestamp: i64, seed: u64) -> Bytes {
    batch_with(Codec::None, records, len, timestamp, seed)
}

pub fn batch_with(codec: Codec, records: usize, len: usize, timestamp: i64, seed: u64) -> Bytes {
    let mut prng = Prng::new(seed);
    let mut builder = BatchBuilder::new(0).compression(codec, None);
    for i in 0..records {
        let value: Vec<u8> = (0..len).map(|_| prng.next_u64() as u8).collect();
        builder.append(&RecordData { timestamp: timestamp + i as i64, value: Some(&value), ..RecordData::default() });
    }
    builder.build().unwrap()
}

/// Appends a batch as leader of epoch `epoch`; gives back the offset behind it.
pub fn try_append(log: &Log, bytes: &Bytes, epoch: i32) -> Result<Offset, LogError> {
    let header = BatchHeader::parse(bytes).unwrap();
    let base_offset = log.end_offset();
    log.append(&AppendBatch { bytes: bytes.clone(), header, base_offset, leader_epoch: epoch })?;
    Ok(base_offset + i64::from(header.last_offset_delta) + 1)
}

pub fn append(log: &Log, bytes: &Bytes, epoch: i32) -> Offset {
    try_append(log, bytes, epoch).unwrap()
}

pub fn request(from: Offset, max_bytes: usize, upper: Offset) -> ReadRequest {
    ReadRequest { from, max_bytes, min_one_batch: true, upper }
}

/// Reads once, from memory or disk; tells whether it was memory.
pub async fn read(log: &Log, request: ReadRequest) -> Result<(Bytes, bool), LogError> {
    Ok(match log.read(request)? {
        ReadOutcome::Tail { chunks, len, .. } => {
            let bytes = Bytes::from(chunks.concat());
            assert_eq!(bytes.len(), len);
            (bytes, true)
        }
        ReadOutcome::Cold(cold) => (log.read_cold(cold).await?, false),
        ReadOutcome::Empty => (Bytes::new(), true),
    })
}

/// Every batch from `from` to `upper`, read in steps of `step` bytes, checked against its checksum.
pub async fn read_all(log: &Log, mut from: Offset, upper: Offset, step: usize) -> Vec<records::Batch> {
    let mut all = Vec::new();
    while from < upper {
        let (bytes, _) = read(log, request(from, step, upper)).await.unwrap();
        if bytes.is_empty() {
            break;
        }
        for batch in BatchIter::new(bytes) {
            let batch = batch.unwrap();
            batch.verify_crc().unwrap();
            from = batch.header.next_offset();
            all.push(batch);
        }
    }
    all
}

/// What a log must hold: base offset, epoch and payload of every batch.
#[derive(Clone, Default)]
pub struct Model {
    pub batches: Rc<RefCell<Vec<(Offset, i32, Bytes)>>>,
}

impl Model {
    pub fn append(&self, log: &Log, bytes: &Bytes, epoch: i32) -> Offset {
        let base = log.end_offset();
        let end = append(log, bytes, epoch);
        self.batches.borrow_mut().push((base, epoch, bytes.clone()));
        end
    }

    /// Checks that `found` is exactly what was appended from `from` on, up to at least `upto`. Gives back where it ends.
    pub fn check(&self, found: &[records::Batch], from: Offset, upto: Offset, context: &str) -> Offset {
        let model = self.batches.borrow();
        let mut expected = model.iter().skip_while(|(base, _, bytes)| {
            base + i64::from(BatchHeader::parse(bytes).unwrap().last_offset_delta) < from
        });
        let mut end = from;
        for batch in found {
            let (base, epoch, bytes) = expected.next().unwrap_or_else(|| panic!("{context}: more than was appended"));
            assert_eq!((batch.header.base_offset, batch.header.leader_epoch), (*base, *epoch), "{context}");
            assert_eq!(batch.bytes[16..], bytes[16..], "{context}: batch at {base}");
            end = batch.header.next_offset();
        }
        assert!(end >= upto, "{context}: ends at {end}, promised was {upto}");
        end
    }
}
