//! Appends to one core's logs on real files: rate, latency of the promise, and CPU per append and per GiB.
//!
//! `cargo bench -p odradek-log` runs every row on both rungs in the directory named by `ODRADEK_BENCH_DIR` (default: the
//! system's temporary directory). Figures depend on the device; compare rows of one run only.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use base::{CoreId, Offset, PartitionKey, Uuid};
use bytes::Bytes;
use log::{
    AbortedTxn, AppendBatch, Durability, Log, LogConfig, LogCore, LogCoreConfig, LogError, LogId, ProducerEntry,
    RecoverySink, open_dir,
};
use reactor::{Class, spawn};
use records::{BatchBuilder, BatchHeader, RecordData};

struct Row {
    partitions: usize,
    batch: usize,
    /// Appends of one partition that wait for their promise at a time.
    in_flight: usize,
}

const ROWS: [Row; 9] = [
    Row { partitions: 1, batch: 1 << 10, in_flight: 1 },
    Row { partitions: 16, batch: 1 << 10, in_flight: 1 },
    Row { partitions: 64, batch: 1 << 10, in_flight: 1 },
    Row { partitions: 64, batch: 1 << 10, in_flight: 5 },
    Row { partitions: 1, batch: 16 << 10, in_flight: 16 },
    Row { partitions: 16, batch: 16 << 10, in_flight: 5 },
    Row { partitions: 1, batch: 128 << 10, in_flight: 8 },
    Row { partitions: 4, batch: 256 << 10, in_flight: 4 },
    Row { partitions: 4, batch: 1 << 20, in_flight: 2 },
];

/// Each row runs this long, ms.
const RUN_MS: u64 = 3000;

struct Nothing;

impl RecoverySink for Nothing {
    fn producer_snapshot(&mut self, _: Offset, _: Vec<ProducerEntry>) {}
    fn batch(&mut self, _: &BatchHeader, _: Option<&[u8]>) -> Option<AbortedTxn> {
        None
    }
}

fn batch(len: usize) -> Bytes {
    let value: Vec<u8> = (0..len.saturating_sub(80)).map(|i| (i * 31) as u8).collect();
    let mut builder = BatchBuilder::new(0);
    builder.append(&RecordData { timestamp: 1, value: Some(&value), ..RecordData::default() });
    builder.build().expect("a batch of one record")
}

/// CPU time of the process, user and system, in ms.
fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("procfs");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a command").split_whitespace().collect();
    let ticks = |i: usize| fields[i].parse::<u64>().expect("ticks");
    (ticks(11) + ticks(12)) * 10
}

async fn produce(
    log: Log,
    bytes: Bytes,
    header: BatchHeader,
    until_ns: u64,
    latencies: Rc<std::cell::RefCell<Vec<u32>>>,
) {
    loop {
        let began = reactor::now().mono_ns;
        if began >= until_ns {
            return;
        }
        let base_offset = log.end_offset();
        let append = AppendBatch { bytes: bytes.clone(), header, base_offset, leader_epoch: 0 };
        match log.append(&append) {
            Ok(()) => {}
            Err(LogError::Overloaded { .. }) => {
                reactor::sleep(std::time::Duration::from_millis(1)).await;
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        log.wait_promised(base_offset + 1).await.expect("a promise");
        latencies.borrow_mut().push(((reactor::now().mono_ns - began) / 1000) as u32);
    }
}

fn run(dir: PathBuf, durability: Durability, row: &Row) {
    let (partitions, in_flight, bytes) = (row.partitions, row.in_flight, batch(row.batch));
    let (latencies, cpu, wall, memory) = reactor::block_on(async move {
        let start = open_dir(&dir).await.expect("a directory");
        let core = LogCore::open(LogCoreConfig::new(dir, CoreId(0), durability, start)).await.expect("a core");
        let config = Rc::new(LogConfig::default());
        let mut logs = Vec::new();
        for partition in 0..partitions as i32 {
            let key = PartitionKey { topic_id: Uuid::from_u128(77), partition };
            let id = LogId { topic: Arc::from("bench"), key };
            logs.push(core.open_log(id, Rc::clone(&config), &mut Nothing).await.expect("a log"));
        }
        let header = BatchHeader::parse(&bytes).expect("a header");
        let latencies = Rc::new(std::cell::RefCell::new(Vec::new()));
        let (cpu, began) = (cpu_ms(), reactor::now().mono_ns);
        let until = began + RUN_MS * 1_000_000;
        let mut tasks = Vec::new();
        for log in &logs {
            for _ in 0..in_flight {
                tasks.push(spawn(
                    Class::Normal,
                    produce(log.clone(), bytes.clone(), header, until, Rc::clone(&latencies)),
                ));
            }
        }
        for task in tasks {
            task.await;
        }
        let memory = core.memory();
        core.close_clean().await.expect("a clean close");
        let wall = reactor::now().mono_ns - began;
        (latencies.take(), cpu_ms() - cpu, wall, memory)
    });
    report(row, durability, latencies, cpu, wall, memory);
}

fn report(
    row: &Row,
    durability: Durability,
    mut latencies: Vec<u32>,
    cpu_ms: u64,
    wall_ns: u64,
    memory: (usize, usize),
) {
    latencies.sort_unstable();
    let at = |q: f64| latencies[((latencies.len() - 1) as f64 * q) as usize];
    let count = latencies.len() as f64;
    let (seconds, cpu) = (wall_ns as f64 / 1e9, cpu_ms as f64 / 1e3);
    let gib = count * row.batch as f64 / f64::from(1 << 30);
    println!(
        "{durability:?}: {} x {} KiB, {} in flight: {:.0} appends/s, {:.0} MiB/s, p50 {} us, p99 {} us, {:.2} us CPU an append, {:.2} CPU s/GiB, tail {} MiB, unwritten {} KiB",
        row.partitions,
        row.batch >> 10,
        row.in_flight,
        count / seconds,
        gib * 1024.0 / seconds,
        at(0.5),
        at(0.99),
        cpu * 1e6 / count,
        cpu / gib,
        memory.0 >> 20,
        memory.1 >> 10,
    );
}

fn main() {
    let base = std::env::var_os("ODRADEK_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    for durability in [Durability::Durable, Durability::Written] {
        for row in &ROWS {
            let dir = tempfile::TempDir::new_in(&base).expect("a directory");
            run(dir.path().to_owned(), durability, row);
        }
    }
}
