//! Partitions as a broker uses them, on real files.

mod appends;
mod changes;
mod lives;
mod reads;
mod restarts;
mod simulated;
mod transactions;

use std::cell::RefCell;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use base::{CoreId, LeaderEpoch, Offset, PartitionKey, Uuid};
use bytes::{Bytes, BytesMut};
use config::{BrokerConfig, Properties};
use log::{Durability, LogCore, LogCoreConfig};
use metadata::{ConfigResource, MetadataDelta, MetadataImage, PartitionRegistration, Provenance};
use records::{BatchBuilder, BatchIter, RecordData, RecordIter, field};
use replica::Isolation;
use wire::ErrorCode;

use crate::{
    AppendRequest, LogDir, Partition, PartitionCore, PartitionCoreConfig, PartitionError, ProduceResult, ReadRecords,
    ReadRequest,
};

/// This broker.
const BROKER: i32 = 1;

/// The data cores of a broker, all on this one thread.
pub(super) struct Rig {
    /// The first, in most tests the only one.
    pub core: PartitionCore,
    cores: Vec<PartitionCore>,
    /// By directory, then by core.
    logs: Vec<Vec<LogCore>>,
    image: RefCell<Arc<MetadataImage>>,
}

/// Static configuration of the broker, with `more` lines of properties.
fn broker_config(more: &str) -> BrokerConfig {
    let text = format!(
        "process.roles=broker\nnode.id={BROKER}\ncontroller.listener.names=C\nlisteners=PLAINTEXT://:9092\n\
         controller.quorum.voters=2@localhost:9093\nlog.initial.task.delay.ms=0\n{more}\n"
    );
    BrokerConfig::from_properties(Properties::parse(text.as_bytes()).expect("properties"))
        .expect("a valid configuration")
}

impl Rig {
    /// One core and one log directory.
    pub async fn start(dir: &Path, more: &str) -> Rig {
        Rig::start_on(&[dir], 1, more).await
    }

    /// Several cores and log directories; the id of a directory is its place in the list.
    pub async fn start_on(paths: &[&Path], cores: u16, more: &str) -> Rig {
        let mut logs = Vec::new();
        for path in paths {
            let found = log::open_dir(path).await.expect("a usable directory");
            let mut by_core = Vec::new();
            for core in 0..cores {
                let mut config =
                    LogCoreConfig::new(path.to_path_buf(), CoreId(core), Durability::Durable, found.clone());
                config.tail_bytes_max = 16 << 20;
                config.unwritten_bytes_max = 8 << 20;
                by_core.push(LogCore::open(config).await.expect("a journal"));
            }
            logs.push(by_core);
        }
        let broker = Arc::new(broker_config(more));
        let start_core = |core: u16| {
            let dir = |(i, logs): (usize, &Vec<LogCore>)| LogDir {
                id: Uuid::from_u128(i as u128),
                logs: logs[usize::from(core)].clone(),
            };
            let dirs = logs.iter().enumerate().map(dir).collect();
            let (broker, core) = (broker.clone(), CoreId(core));
            let core = PartitionCore::new(PartitionCoreConfig { broker_id: BROKER, core, cores, broker, dirs });
            core.start_tasks();
            core
        };
        let cores: Vec<PartitionCore> = (0..cores).map(start_core).collect();
        Rig { core: cores[0].clone(), cores, logs, image: RefCell::new(Arc::new(MetadataImage::default())) }
    }

    /// Stops cleanly.
    pub async fn close(&self) {
        for core in &self.cores {
            core.close().await.expect("closed");
        }
        for by_core in &self.logs {
            let dir = &by_core[0].config().dir;
            let entries = by_core.iter().flat_map(LogCore::checkpoint).collect();
            log::write_checkpoints(dir, entries).await.expect("written");
            log::write_clean_shutdown(dir, 1).await.expect("written");
        }
    }

    /// An open partition, on whichever core it lives.
    pub fn partition(&self, key: PartitionKey) -> Partition {
        self.cores[key.home_core(self.cores.len() as u16).index()].partition(key).expect("open")
    }

    /// Applies a change of the metadata.
    pub async fn change(&self, change: impl FnOnce(&mut MetadataDelta)) {
        let mut delta = MetadataDelta::new(self.image.borrow().clone());
        change(&mut delta);
        delta.finish(Provenance::default());
        let image = delta.image().clone();
        reactor::join_all(self.cores.iter().map(|core| core.apply(&image, &delta))).await;
        *self.image.borrow_mut() = image;
    }

    /// Creates a topic of one partition, led by this broker in `epoch`, with these overrides.
    pub async fn create(&self, name: &str, epoch: LeaderEpoch, overrides: &[(&str, &str)]) -> Partition {
        let id = topic_id(name);
        self.change(|delta| {
            delta.create_topic(name, id);
            delta.set_partition(id, 0, led_by(BROKER, epoch));
            for (option, value) in overrides {
                delta.set_config(ConfigResource::topic(name), option, Some(value));
            }
        })
        .await;
        self.partition(key(name))
    }
}

fn led_by(leader: i32, leader_epoch: LeaderEpoch) -> PartitionRegistration {
    PartitionRegistration {
        replicas: vec![BROKER],
        isr: vec![BROKER],
        leader,
        leader_epoch,
        partition_epoch: leader_epoch,
        ..PartitionRegistration::default()
    }
}

/// An id made from the name, the same in every run.
fn topic_id(name: &str) -> Uuid {
    let number = name.bytes().fold(0x1234_5678_9abc_4def_8123u128, |n, b| n.wrapping_mul(31).wrapping_add(b.into()));
    Uuid::from_u128(number)
}

fn key(name: &str) -> PartitionKey {
    PartitionKey { topic_id: topic_id(name), partition: 0 }
}

/// A batch as a producer sends it: values, each with its timestamp.
fn batch_at(producer: Option<(i64, i16, i32)>, values: &[(&str, i64)]) -> Bytes {
    let mut builder = BatchBuilder::new(0);
    if let Some((id, epoch, sequence)) = producer {
        builder = builder.producer(id, epoch, sequence);
    }
    for (value, timestamp) in values {
        builder.append(&RecordData { timestamp: *timestamp, key: None, value: Some(value.as_bytes()), headers: &[] });
    }
    builder.build().expect("a small batch")
}

/// A batch without producer.
fn plain(values: &[&str]) -> Bytes {
    let now = reactor::now().wall_ms;
    batch_at(None, &values.iter().map(|v| (*v, now)).collect::<Vec<_>>())
}

/// A batch of idempotent producer 5, `records` records from `sequence` on.
fn idempotent(epoch: i16, sequence: i32, records: usize) -> Bytes {
    let now = reactor::now().wall_ms;
    let values: Vec<String> = (0..records).map(|i| format!("e{epoch}s{}", sequence as usize + i)).collect();
    batch_at(Some((5, epoch, sequence)), &values.iter().map(|v| (v.as_str(), now)).collect::<Vec<_>>())
}

/// Appends and waits for the promise of acks=all.
async fn produce(partition: &Partition, records: Bytes) -> Result<ProduceResult, PartitionError> {
    partition.append(reactor::now(), &records, &AppendRequest::client(-1))?.wait().await
}

/// Base offset of a successful append.
async fn produced(partition: &Partition, records: Bytes) -> Offset {
    produce(partition, records).await.expect("appended").base_offset
}

fn code<T>(result: Result<T, PartitionError>) -> ErrorCode {
    result.err().expect("an error").code
}

/// A read from `from` that takes everything there is.
fn read_all(from: Offset) -> ReadRequest {
    ReadRequest {
        from,
        max_bytes: 1 << 20,
        min_one_batch: true,
        isolation: Isolation::ReadUncommitted,
        current_leader_epoch: None,
        last_fetched_epoch: None,
    }
}

/// The bytes of a read, wherever they are.
async fn fetch_bytes(partition: &Partition, request: &ReadRequest) -> Result<Bytes, PartitionError> {
    match partition.read(request)?.records {
        ReadRecords::None => Ok(Bytes::new()),
        ReadRecords::Tail { chunks, len } => {
            let mut bytes = BytesMut::with_capacity(len);
            chunks.iter().for_each(|chunk| bytes.extend_from_slice(chunk));
            assert_eq!(bytes.len(), len);
            Ok(bytes.freeze())
        }
        ReadRecords::Cold(cold) => partition.read_cold(cold).await,
    }
}

/// Offsets and values from `from` to the high watermark, read in as many steps as it takes.
async fn fetch(partition: &Partition, from: Offset) -> Vec<(Offset, String)> {
    let (mut next, mut found) = (from, Vec::new());
    loop {
        let bytes = fetch_bytes(partition, &read_all(next)).await.expect("readable");
        if bytes.is_empty() {
            return found;
        }
        for batch in BatchIter::new(bytes) {
            let batch = batch.expect("whole batches");
            batch.verify_crc().expect("an intact batch");
            next = batch.header.next_offset();
            for record in RecordIter::new(&batch.header, &batch.bytes[field::RECORDS..]) {
                let record = record.expect("a record");
                let value = String::from_utf8(record.value.expect("a value").to_vec()).expect("text");
                found.push((record.offset, value));
            }
        }
        found.retain(|(offset, _)| *offset >= from);
    }
}

/// Runs `story` on a core of its own with an empty directory.
fn on_files<F: Future<Output = ()> + 'static>(story: impl FnOnce(PathBuf) -> F) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    reactor::block_on(story(path));
}

/// Lets tasks that are ready run.
async fn settle() {
    for _ in 0..20 {
        reactor::yield_now().await;
    }
}

/// Keeps `future` running until it is done and tells whether it is.
struct Running<T>(Rc<RefCell<Option<T>>>);

impl<T: 'static> Running<T> {
    fn start(future: impl Future<Output = T> + 'static) -> Running<T> {
        let slot = Rc::new(RefCell::new(None));
        let result = slot.clone();
        reactor::spawn(reactor::Class::Normal, async move {
            let value = future.await;
            *result.borrow_mut() = Some(value);
        })
        .detach();
        Running(slot)
    }

    fn take(&self) -> Option<T> {
        self.0.borrow_mut().take()
    }

    async fn done(&self) -> T {
        loop {
            if let Some(value) = self.take() {
                return value;
            }
            reactor::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}
