//! Side files that are gone, cut or garbled while the broker was down; journals that do not belong to what is there.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::{Offset, Prng};
use reactor::block_on;
use tempfile::TempDir;

use super::kit::*;
use crate::{Durability, LogConfig, ProducerEntry};

fn config() -> LogConfig {
    LogConfig { segment_bytes: 40_000, index_interval_bytes: 500, ..LogConfig::default() }
}

fn producer(id: i64) -> ProducerEntry {
    ProducerEntry {
        producer_id: id,
        producer_epoch: 0,
        last_sequence: 0,
        last_offset: 0,
        offset_delta: 0,
        timestamp: 0,
        coordinator_epoch: -1,
        current_txn_first_offset: -1,
    }
}

/// Writes a log of some segments and epochs, and stops.
fn write(path: &Path, clean: bool) -> (Model, Offset) {
    let model = Model::default();
    let (path, written) = (path.to_owned(), model.clone());
    let end = block_on(async move {
        let core = open_core(&path, Durability::Durable).await;
        let (log, _) = open(&core, 0, &config()).await;
        log.set_producer_source(Box::new(|| vec![producer(9)]));
        let mut end = 0;
        for i in 0..100u64 {
            end = written.append(&log, &batch(2, 600, 1000 + i as i64, i), (i / 40) as i32);
        }
        log.wait_promised(end).await.unwrap();
        if clean {
            stop(&path, &core).await;
        }
        end
    });
    (model, end)
}

/// Opens the log and compares it with what was written; gives back what recovery told.
fn check(path: &Path, model: &Model, end: Offset, context: &str) -> Told {
    let (path, model, context) = (path.to_owned(), model.clone(), context.to_owned());
    block_on(async move {
        let core = open_core(&path, Durability::Durable).await;
        let (log, told) = open(&core, 0, &config()).await;
        assert_eq!(log.end_offset(), end, "{context}");
        model.check(&read_all(&log, 0, end, 3000).await, 0, end, &context);
        for from in (0..end).step_by(7) {
            let (bytes, _) = read(&log, request(from, 1, end)).await.unwrap();
            let header = records::BatchHeader::parse(&bytes).unwrap();
            assert!(header.base_offset <= from && from <= header.last_offset(), "{context}: {from}");
        }
        let epochs: Vec<_> = log.leader_epochs().iter().map(|e| (e.epoch, e.start_offset)).collect();
        assert_eq!(epochs, [(0, 0), (1, 80), (2, 160)], "{context}");
        let found = log.find_timestamp(1050, end).await.unwrap().unwrap();
        assert_eq!((found.offset, found.timestamp), (99, 1050), "{context}");
        log.set_producer_source(Box::new(Vec::new));
        stop(&path, &core).await;
        told
    })
}

fn damage(file: &Path, how: u64, prng: &mut Prng) {
    let mut bytes = std::fs::read(file).unwrap();
    match how {
        0 => return std::fs::remove_file(file).unwrap(),
        1 => bytes.truncate(bytes.len() / 2),
        2 => bytes.iter_mut().for_each(|byte| *byte = prng.next_u64() as u8),
        3 => bytes.clear(),
        _ => bytes.iter_mut().for_each(|byte| *byte = 0),
    }
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn side_files_are_hints() {
    let mut prng = Prng::new(5);
    for clean in [true, false] {
        for (name, which) in [
            ("index", ".index"),
            ("time index", ".timeindex"),
            ("snapshot", ".snapshot"),
            ("epochs", "leader-epoch-checkpoint"),
            ("everything", ""),
        ] {
            for how in 0..5 {
                let dir = TempDir::new().unwrap();
                let (model, end) = write(dir.path(), clean);
                let files = std::fs::read_dir(dir.path().join("orders-0")).unwrap().map(|e| e.unwrap().path());
                let wanted = |file: &PathBuf| {
                    let name = file.file_name().unwrap().to_string_lossy().into_owned();
                    name.ends_with(which) && !name.ends_with(".log") && name != "partition.metadata"
                };
                files.filter(wanted).for_each(|file| damage(&file, how, &mut prng));
                if which.is_empty() {
                    for name in ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"] {
                        let file = dir.path().join(name);
                        if file.exists() {
                            damage(&file, how, &mut prng);
                        }
                    }
                }
                let told = check(dir.path(), &model, end, &format!("{name} {how} clean {clean}"));
                if which == ".snapshot" || which.is_empty() || !clean {
                    // Without a recovery point every segment is read and told.
                    assert_eq!((told.snapshot, told.batches.len()), (None, 100), "{name} {how}");
                } else if which == "leader-epoch-checkpoint" {
                    let expect = Some((end, vec![producer(9)]));
                    assert_eq!((told.snapshot, told.batches.len()), (expect, 0), "{name} {how}");
                } else {
                    // A segment that had to be read whole is told again from the snapshot at its begin.
                    assert!(told.snapshot.is_some() && told.batches.len() < 30, "{name} {how}");
                }
            }
        }
    }
}

#[test]
fn a_damaged_batch_cuts_the_log_there() {
    for (segment, at) in [(0, 100), (60, 3000)] {
        let dir = TempDir::new().unwrap();
        let (_, end) = write(dir.path(), false);
        let mut segments: Vec<_> = std::fs::read_dir(dir.path().join("orders-0"))
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == "log"))
            .collect();
        segments.sort();
        let file = &segments[if segment == 0 { 0 } else { 1 }];
        let mut bytes = std::fs::read(file).unwrap();
        bytes[at] ^= 1;
        std::fs::write(file, bytes).unwrap();
        let path = dir.path().to_owned();
        block_on(async move {
            let core = open_core(&path, Durability::Durable).await;
            let (log, _) = open(&core, 0, &config()).await;
            let cut = log.end_offset();
            assert!(cut < end && (cut == 0) == (segment == 0), "cut at {cut}");
            let next = append(&log, &batch(1, 100, 0, 0), 3);
            log.wait_promised(next).await.unwrap();
            assert_eq!(read_all(&log, 0, next, 5000).await.last().unwrap().header.base_offset, cut);
        });
    }
}

/// Files of the journal with their bytes.
fn journals(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path());
    let journals = files.filter(|file| file.extension().is_some_and(|e| e == "wal"));
    journals.map(|file| (file.clone(), std::fs::read(&file).unwrap())).collect()
}

/// Appends without leaving anything in the segment, and dies. `first` tells batches of one call from those of another.
fn journal_only(path: &Path, count: u64, first: u64, epoch: i32, model: &Model) {
    let (path, model) = (path.to_owned(), model.clone());
    block_on(async move {
        let core = open_core(&path, Durability::Durable).await;
        let (log, _) = open(&core, 0, &LogConfig::default()).await;
        for i in 0..count {
            let end = model.append(&log, &batch(2, 300, 1000, first + i), epoch);
            log.wait_promised(end).await.unwrap();
        }
    });
}

fn end_of(path: &Path) -> Offset {
    let path = path.to_owned();
    block_on(async move {
        let core = open_core(&path, Durability::Durable).await;
        open(&core, 0, &LogConfig::default()).await.0.end_offset()
    })
}

#[test]
fn a_journal_of_an_older_run_is_never_applied() {
    let dir = TempDir::new().unwrap();
    let path = dir.path();
    journal_only(path, 10, 0, 0, &Model::default());
    let old = journals(path);
    let put_back = || old.iter().for_each(|(file, bytes)| std::fs::write(file, bytes).unwrap());
    // The directory goes back to before the batches, as if another broker had cut it, and goes on with others.
    std::fs::remove_dir_all(path.join("orders-0")).unwrap();
    let model = Model::default();
    journal_only(path, 4, 100, 1, &model);
    assert_eq!(end_of(path), 8);
    // The old journal alone: its batches 4..10 would begin exactly at the end.
    put_back();
    assert_eq!(end_of(path), 8);
    // A clean stop in between: journals are not even looked at.
    put_back();
    std::fs::write(path.join(".kafka_cleanshutdown"), "{\"version\":0,\"brokerEpoch\":1}").unwrap();
    assert_eq!(end_of(path), 8);
    // The old journal beside a newer one.
    journal_only(path, 3, 200, 1, &model);
    let newer = journals(path);
    put_back();
    for (file, bytes) in &newer {
        let name = file.file_name().unwrap().to_string_lossy().replace("-000-", "-007-");
        std::fs::write(path.join(name), bytes).unwrap();
    }
    assert_eq!(end_of(path), 14);
    let path = path.to_owned();
    block_on(async move {
        let core = open_core(&path, Durability::Durable).await;
        let (log, _) = open(&core, 0, &LogConfig::default()).await;
        model.check(&read_all(&log, 0, 14, 1000).await, 0, 14, "the newer batches");
    });
}

#[test]
fn an_epoch_that_began_elsewhere_refuses_the_journal() {
    let dir = TempDir::new().unwrap();
    let path = dir.path();
    journal_only(path, 3, 0, 5, &Model::default());
    // Another broker led the partition since, from offset 0 on, and wrote nothing.
    std::fs::write(path.join("orders-0/leader-epoch-checkpoint"), "0\n1\n6 0\n").unwrap();
    assert_eq!(end_of(path), 0);
}

#[test]
fn damaged_journals_end_at_the_damage() {
    let mut prng = Prng::new(11);
    for round in 0..30 {
        let dir = TempDir::new().unwrap();
        let path = dir.path();
        let model = Model::default();
        journal_only(path, 12, 0, 0, &model);
        for (file, mut bytes) in journals(path) {
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
            if used > 0 {
                let at = prng.below(used as u64) as usize;
                bytes[at] ^= 1 << prng.below(8);
                std::fs::write(file, bytes).unwrap();
            }
        }
        let path = path.to_owned();
        let model = Rc::new(model);
        block_on(async move {
            let core = open_core(&path, Durability::Durable).await;
            let (log, _) = open(&core, 0, &LogConfig::default()).await;
            let end = log.end_offset();
            model.check(&read_all(&log, 0, end, 1000).await, 0, end, &format!("round {round}"));
        });
    }
}
