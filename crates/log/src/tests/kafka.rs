//! Apache Kafka's own tool reads what a stopped log leaves behind.

use std::path::{Path, PathBuf};
use std::process::Command;

use reactor::block_on;
use records::Codec;
use tempfile::TempDir;

use super::kit::*;
use crate::{AbortedTxn, Durability, LogConfig, ProducerEntry};

/// Where the jars are: `ODRADEK_KAFKA_LIBS`, or where `scripts/install-peers` puts them.
fn kafka_libs() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies in the checkout");
    let libs = std::env::var_os("ODRADEK_KAFKA_LIBS");
    let libs = libs.map_or_else(|| root.join(".cache/kafka-4.4.0/libs"), PathBuf::from);
    assert!(libs.is_dir(), "{} is missing: run scripts/install-peers or set ODRADEK_KAFKA_LIBS", libs.display());
    libs
}

fn dump(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
    let output = Command::new("java")
        .arg("-cp")
        .arg(format!("{}/*", kafka_libs().display()))
        .args(["org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", &names.join(",")])
        .output()
        .expect("java runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text
}

fn producer() -> ProducerEntry {
    ProducerEntry {
        producer_id: 4711,
        producer_epoch: 3,
        last_sequence: 9,
        last_offset: 20,
        offset_delta: 1,
        timestamp: 1_700_000_000_000,
        coordinator_epoch: -1,
        current_txn_first_offset: -1,
    }
}

#[test]
fn dump_log_segments_accepts_every_file() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().to_owned();
    let config = LogConfig { segment_bytes: 200_000, index_interval_bytes: 1000, ..LogConfig::default() };
    let (records, batches) = block_on({
        let path = path.clone();
        async move {
            let core = open_core(&path, Durability::Durable).await;
            let (log, _) = open(&core, 0, &config).await;
            log.set_producer_source(Box::new(|| vec![producer()]));
            let (mut records, mut batches) = (0, 0);
            for i in 0..120u64 {
                let codec = Codec::ALL[i as usize % 5];
                let count = 1 + i as usize % 7;
                let len = if i % 30 == 0 { 40_000 } else { 700 };
                let time = 1_700_000_000_000 + (i as i64 * 37) % 1000;
                let end = append(&log, &batch_with(codec, count, len, time, i), (i / 50) as i32);
                if i % 9 == 0 {
                    log.wait_promised(end).await.unwrap();
                }
                if i == 100 {
                    let last_offset = end - 1;
                    log.note_aborted(AbortedTxn {
                        producer_id: 4711,
                        first_offset: 5,
                        last_offset,
                        last_stable_offset: end,
                    });
                }
                records += count;
                batches += 1;
            }
            stop(&path, &core).await;
            (records, batches)
        }
    });
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(path.join("orders-0")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| !["leader-epoch-checkpoint", "partition.metadata"].iter().any(|name| file.ends_with(name)));
    files.sort();
    let text = dump(&files);
    for extension in ["log", "index", "timeindex", "snapshot", "txnindex"] {
        let count = files.iter().filter(|file| file.extension().is_some_and(|e| e == extension)).count();
        assert!(count >= if extension == "txnindex" { 1 } else { 3 }, "{count} files of .{extension}");
    }
    assert_eq!(text.matches("baseOffset: ").count(), batches, "{text}");
    assert_eq!(text.matches("| offset: ").count(), records, "{text}");
    assert_eq!(text.matches("isvalid: true").count(), batches);
    assert_eq!(text.matches("partitionLeaderEpoch: 2").count(), 20);
    assert!(text.contains("producerId: 4711 producerEpoch: 3"), "{text}");
    assert!(text.contains("firstOffset: 5"), "{text}");
    for complaint in ["ismatch", "isvalid: false", "Found timestamp", "non-consecutive", "corrupt", "Exception"] {
        let line = text.lines().find(|line| line.contains(complaint));
        assert_eq!(line, None, "{complaint}");
    }
}
