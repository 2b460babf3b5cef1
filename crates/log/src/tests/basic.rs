//! Real files on io_uring: append, read, close, recover.

use base::Prng;
use reactor::block_on;
use tempfile::TempDir;

use super::kit::*;
use crate::{Durability, LogConfig, LogCore, LogError, ReadOutcome, open_dir};

const RUNGS: [Durability; 2] = [Durability::Durable, Durability::Written];

fn small_segments() -> LogConfig {
    LogConfig { segment_bytes: 300_000, ..LogConfig::default() }
}

#[test]
fn what_is_promised_is_there_after_the_process_dies_and_after_a_clean_stop() {
    for rung in RUNGS {
        let dir = TempDir::new().unwrap();
        let path = dir.path().to_owned();
        let model = Model::default();
        let written = model.clone();
        let promised = block_on({
            let path = path.clone();
            async move {
                let core = open_core(&path, rung).await;
                let (log, told) = open(&core, 0, &LogConfig::default()).await;
                assert!(told.batches.is_empty() && log.end_offset() == 0);
                let mut end = 0;
                for i in 0..100 {
                    end = written.append(&log, &batch(3, 200, 1000 + i, i as u64), 5);
                    if i % 10 == 0 {
                        log.wait_promised(end).await.unwrap();
                    }
                }
                written.append(&log, &batch(10, 30_000, 2000, 77), 5);
                end += 10;
                log.wait_promised(end).await.unwrap();
                assert_eq!(log.progress().written_end, end);
                written.check(&read_all(&log, 0, end, 5000).await, 0, end, "in memory");
                end
            }
        });
        assert_eq!(promised, 310);
        for (run, clean) in [(0, false), (1, true), (2, true)] {
            let (path, model) = (path.clone(), model.clone());
            block_on(async move {
                let core = open_core(&path, rung).await;
                assert_eq!(core.config().start.clean, run == 2);
                let (log, told) = open(&core, 0, &LogConfig::default()).await;
                assert_eq!(log.end_offset(), promised, "{rung:?} run {run}");
                assert_eq!(told.batches.len(), if run == 2 { 0 } else { 101 }, "batches behind the snapshot");
                assert_eq!(log.leader_epochs().len(), 1);
                model.check(&read_all(&log, 0, promised, 9000).await, 0, promised, "on disk");
                log.set_producer_source(Box::new(Vec::new));
                if clean {
                    stop(&path, &core).await;
                    let names: Vec<_> = std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name()).collect();
                    assert!(names.iter().all(|n| !n.to_string_lossy().contains("journal")), "{names:?}");
                }
            });
        }
    }
}

#[test]
fn segments_roll_and_older_ones_are_read_from_their_files() {
    for rung in RUNGS {
        let dir = TempDir::new().unwrap();
        let path = dir.path().to_owned();
        block_on(async move {
            let core = open_core(&path, rung).await;
            let (log, _) = open(&core, 0, &small_segments()).await;
            let model = Model::default();
            let mut prng = Prng::new(4);
            let mut end = 0;
            for i in 0..200u64 {
                let len = if prng.chance(1, 20) { 90_000 } else { prng.below(3000) as usize };
                end = model.append(&log, &batch(1 + prng.below(4) as usize, len, 1000, i), 0);
                if prng.chance(1, 3) {
                    log.wait_promised(end - 1).await.unwrap();
                }
            }
            log.wait_promised(end).await.unwrap();
            let segments = std::fs::read_dir(path.join("orders-0")).unwrap().count();
            assert!(segments > 5, "{segments} files");
            model.check(&read_all(&log, 0, end, 20_000).await, 0, end, "before");
            assert!(core.memory().1 < 400_000, "{:?}", core.memory());
            stop(&path, &core).await;
            assert_eq!(core.memory().1, 0);

            let core = open_core(&path, rung).await;
            let (log, told) = open(&core, 0, &small_segments()).await;
            assert_eq!((log.end_offset(), told.snapshot), (end, None));
            for from in 0..end {
                let (bytes, memory) = read(&log, request(from, 1, end)).await.unwrap();
                let header = records::BatchHeader::parse(&bytes).unwrap();
                assert!(!memory && header.base_offset <= from && header.last_offset() >= from);
                assert_eq!(header.size(), bytes.len(), "one batch");
            }
            model.check(&read_all(&log, 0, end, 20_000).await, 0, end, "after");
        });
    }
}

/// Readers that never read their answers: what they hold is bounded, and others read on.
#[test]
fn memory_that_readers_hold_is_bounded() {
    for rung in RUNGS {
        let dir = TempDir::new().unwrap();
        let path = dir.path().to_owned();
        block_on(async move {
            let mut config = core_config(&path, rung, open_dir(&path).await.unwrap());
            config.tail_bytes_max = 1 << 20;
            let core = LogCore::open(config).await.unwrap();
            let (log, _) = open(&core, 0, &LogConfig::default()).await;
            let model = Model::default();
            let (mut held, mut copies, mut from_file) = (Vec::new(), 0, 0);
            let mut end = 0;
            for i in 0..400u64 {
                let from = end;
                end = model.append(&log, &batch(1, 30_000, 0, i), 0);
                log.wait_promised(end).await.unwrap();
                // One that is never let go of, of whatever was appended last.
                match log.read(request(from, 1, end)).unwrap() {
                    ReadOutcome::Tail { chunks, len, first_offset, next_offset } => {
                        assert_eq!((first_offset, next_offset, chunks.concat().len()), (from, end, len));
                        copies += usize::from(chunks.len() == 1 && chunks[0].is_unique());
                        held.push(chunks);
                    }
                    ReadOutcome::Cold(cold) => {
                        from_file += 1;
                        assert!(!log.read_cold(cold).await.unwrap().is_empty());
                    }
                    ReadOutcome::Empty => panic!("nothing at {from} of {end}"),
                }
            }
            // 12 MB went through a tail of 1 MiB.
            assert!(copies + from_file > 200, "{rung:?}: {copies} copies, {from_file} from the file");
            // As much as the tail, what was in the tail when that much was held, and a chunk.
            assert!(core.pinned_bytes() <= (2 << 20) + (256 << 10), "{rung:?}: {} bytes", core.pinned_bytes());
            model.check(&read_all(&log, 0, end, 100_000).await, 0, end, "while they are held");
            drop(held);
            assert_eq!(core.pinned_bytes(), 0);
            let (_, memory) = read(&log, request(end - 1, 1, end)).await.unwrap();
            assert!(memory, "{rung:?}: read from memory again");
            stop(&path, &core).await;
        });
    }
}

#[test]
fn reads_keep_their_bounds() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().to_owned();
    block_on(async move {
        let core = open_core(&path, Durability::Written).await;
        let (log, _) = open(&core, 0, &LogConfig::default()).await;
        // Batches 0..=9 and 10..=19.
        let one = batch(10, 500, 0, 1);
        append(&log, &one, 0);
        append(&log, &batch(10, 500, 0, 2), 0);
        let len = one.len();
        for (from, max, min_one, upper, expect) in [
            (0, usize::MAX, true, 20, Some((0, 20))),
            (5, usize::MAX, true, 20, Some((0, 20))),
            (9, len, true, 20, Some((0, 10))),
            (9, 2 * len - 1, true, 20, Some((0, 10))),
            (9, 2 * len, true, 20, Some((0, 20))),
            (10, usize::MAX, true, 20, Some((10, 20))),
            (15, 1, true, 20, Some((10, 20))),
            (19, 1, true, 20, Some((10, 20))),
            (15, 1, false, 20, None),
            (20, 1000, true, 20, None),
            (0, usize::MAX, true, 19, Some((0, 10))),
            (0, usize::MAX, true, 10, Some((0, 10))),
            (0, usize::MAX, true, 9, None),
            (10, usize::MAX, true, 10, None),
        ] {
            let request = crate::ReadRequest { from, max_bytes: max, min_one_batch: min_one, upper };
            let got = match log.read(request).unwrap() {
                ReadOutcome::Tail { first_offset, next_offset, .. } => Some((first_offset, next_offset)),
                ReadOutcome::Empty => None,
                ReadOutcome::Cold(_) => panic!("{request:?} is in memory"),
            };
            assert_eq!(got, expect, "{request:?}");
        }
        for from in [-1, 21] {
            assert!(matches!(log.read(request(from, 1, 30)), Err(LogError::OutOfRange { start: 0, end: 20, .. })));
        }
    });
}

/// Small appends cost no operation on the rung that only promises what the kernel has, and one on the other.
#[test]
fn a_commit_is_a_copy_where_power_loss_does_not_matter() {
    for rung in RUNGS {
        let dir = TempDir::new().unwrap();
        let path = dir.path().to_owned();
        let model = Model::default();
        let written = model.clone();
        // More than the journal's files hold, so that they are used again.
        let (count, len) = (300, 20_000);
        block_on({
            let path = path.clone();
            async move {
                let core = open_core(&path, rung).await;
                let (log, _) = open(&core, 0, &LogConfig::default()).await;
                let end = written.append(&log, &batch(1, 100, 0, 1), 5);
                log.wait_promised(end).await.unwrap();
                let before = reactor::counters().ops;
                for i in 0..100 {
                    let end = written.append(&log, &batch(1, 500, 0, i), 5);
                    log.wait_promised(end).await.unwrap();
                }
                let ops = reactor::counters().ops - before;
                // The file of the leader epochs is still being written beside.
                assert!(if rung == Durability::Written { ops < 50 } else { ops >= 100 }, "{rung:?}: {ops}");
                for i in 0..count {
                    let end = written.append(&log, &batch(1, len, 0, i), 5);
                    log.wait_promised(end).await.unwrap();
                }
            }
        });
        block_on(async move {
            let core = open_core(&path, rung).await;
            let (log, _) = open(&core, 0, &LogConfig::default()).await;
            let end = 101 + count as i64;
            assert_eq!(log.end_offset(), end, "{rung:?}");
            model.check(&read_all(&log, 0, end, 90_000).await, 0, end, "after the process died");
        });
    }
}

/// Fills the budget of unwritten bytes with small batches for many logs, none of which has enough to be written by itself.
fn fill(logs: &[crate::Log]) {
    let bytes = batch(1, 10_000, 1000, 1);
    let header = records::BatchHeader::parse(&bytes).unwrap();
    for i in 0.. {
        let log = &logs[i % logs.len()];
        let batch = crate::AppendBatch { bytes: bytes.clone(), header, base_offset: log.end_offset(), leader_epoch: 5 };
        match log.append(&batch) {
            Ok(()) => assert!(i < 1_000, "the budget has no end"),
            Err(LogError::Overloaded { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn an_append_that_is_refused_for_want_of_memory_has_room_made() {
    for rung in RUNGS {
        let dir = TempDir::new().unwrap();
        let path = dir.path().to_owned();
        block_on(async move {
            let start = crate::open_dir(&path).await.unwrap();
            let mut config = core_config(&path, rung, start);
            config.unwritten_bytes_max = 1 << 20;
            let core = crate::LogCore::open(config).await.unwrap();
            let mut logs = Vec::new();
            for partition in 0..16 {
                logs.push(open(&core, partition, &LogConfig::default()).await.0);
            }
            // The second time it is full before anybody would have looked again.
            for _ in 0..20 {
                fill(&logs);
                assert!(logs.iter().any(|log| log.inner.writing.get()), "{rung:?}: refused, and nobody writes");
                while let Some(log) = logs.iter().find(|log| log.inner.writing.get()) {
                    log.inner.writer_stopped.notified().await;
                }
            }
        });
    }
}
