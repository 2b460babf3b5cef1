//! Removal from both ends, under simulated time.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use reactor::sim::{NodeId, Sim};

use super::kit::*;
use crate::{Durability, Log, LogConfig, LogCore, LogError};

const LONG: Duration = Duration::from_secs(600);

fn dir() -> &'static Path {
    Path::new("/data")
}

fn start(sim: &mut Sim, config: LogConfig) -> (NodeId, LogCore, Log) {
    let node = sim.add_client();
    let (core, log) = sim.run(node, LONG, async move {
        let core = open_core(dir(), Durability::Durable).await;
        let log = open(&core, 0, &config).await.0;
        (core, log)
    });
    (node, core, log)
}

fn segments(sim: &Sim, node: NodeId, ending: &str) -> Vec<i64> {
    let names = sim.list_dir(node, "/data/orders-0").unwrap();
    let bases = names.iter().filter_map(|name| name.strip_suffix(ending)).map(|digits| digits.parse().unwrap());
    bases.collect()
}

/// Ten batches of one record and 10 KB each, a second apart, two in a segment.
async fn fill(log: &Log) {
    for i in 0..10u64 {
        append(log, &batch(1, 10_000, reactor::now().wall_ms, i), 0);
        reactor::sleep(Duration::from_secs(1)).await;
    }
    log.wait_promised(10).await.unwrap();
}

fn config() -> LogConfig {
    LogConfig { segment_bytes: 25_000, retention_ms: -1, file_delete_delay_ms: 30_000, ..LogConfig::default() }
}

#[test]
fn retention_by_size_keeps_what_is_needed_and_deletes_late() {
    let mut sim = Sim::new(1);
    let (node, _core, log) = start(&mut sim, config());
    let kept = log.clone();
    sim.run(node, LONG, async move {
        fill(&kept).await;
        assert_eq!(kept.apply_retention(10).await.unwrap(), 0, "no limit");
        kept.set_config(Rc::new(LogConfig { retention_bytes: 45_000, ..config() }));
        assert_eq!(kept.apply_retention(3).await.unwrap(), 1, "no segment that reaches the limit goes");
        assert_eq!((kept.start_offset(), kept.end_offset()), (2, 10));
        assert_eq!(kept.apply_retention(10).await.unwrap(), 1);
        assert_eq!(kept.start_offset(), 4);
        assert!(kept.size_bytes() > 45_000);
        assert!(matches!(kept.read(request(3, 1, 10)), Err(LogError::OutOfRange { start: 4, .. })));
        assert_eq!(read_all(&kept, 4, 10, 100_000).await.len(), 6);
    });
    assert_eq!(segments(&sim, node, ".log"), [4, 6, 8]);
    assert_eq!(segments(&sim, node, ".log.deleted"), [0, 2]);
    sim.run_for(Duration::from_secs(31));
    assert_eq!(segments(&sim, node, ".log.deleted"), [] as [i64; 0]);
    drop(log);
}

#[test]
fn retention_by_time_takes_the_last_segment_too() {
    let mut sim = Sim::new(2);
    let (node, _core, log) = start(&mut sim, config());
    let kept = log.clone();
    sim.run(node, LONG, async move {
        fill(&kept).await;
        kept.set_config(Rc::new(LogConfig { retention_ms: 5500, ..config() }));
        kept.apply_retention(10).await.unwrap();
        assert_eq!(kept.start_offset(), 4, "segments whose newest record is older than 5.5 s are gone");
        reactor::sleep(Duration::from_secs(20)).await;
        kept.apply_retention(9).await.unwrap();
        assert_eq!(kept.start_offset(), 8, "the last segment reaches behind the high watermark");
        kept.apply_retention(10).await.unwrap();
        assert_eq!((kept.start_offset(), kept.end_offset(), kept.size_bytes()), (10, 10, 0));
        let end = append(&kept, &batch(1, 10, reactor::now().wall_ms, 1), 0);
        kept.wait_promised(end).await.unwrap();
    });
    drop(log);
    sim.crash(node);
    sim.restart(node);
    sim.run(node, LONG, async {
        let core = open_core(dir(), Durability::Durable).await;
        let log = open(&core, 0, &config()).await.0;
        assert_eq!((log.start_offset(), log.end_offset()), (10, 11));
    });
}

#[test]
fn the_start_moves_on_request_and_stays_where_it_was_put() {
    let mut sim = Sim::new(3);
    let (node, core, log) = start(&mut sim, config());
    let kept = log.clone();
    sim.run(node, LONG, async move {
        fill(&kept).await;
        kept.advance_start_offset(5).await.unwrap();
        kept.advance_start_offset(3).await.unwrap();
        assert_eq!(kept.start_offset(), 5);
        assert!(kept.advance_start_offset(11).await.is_err());
        assert_eq!(kept.apply_retention(10).await.unwrap(), 2, "segments before the start are removed");
        crate::write_checkpoints(dir(), core.checkpoint()).await.unwrap();
    });
    drop(log);
    sim.crash(node);
    sim.restart(node);
    sim.run(node, LONG, async {
        let core = open_core(dir(), Durability::Durable).await;
        let log = open(&core, 0, &config()).await.0;
        assert_eq!((log.start_offset(), log.end_offset()), (5, 10));
        assert!(log.read(request(4, 1, 10)).is_err());
        assert!(read(&log, request(5, 1, 10)).await.unwrap().0.len() > 10_000);
    });
}

#[test]
fn a_cut_log_goes_on_at_the_cut() {
    for (cut, expect) in [(10, 10), (9, 9), (8, 8), (5, 5), (1, 1), (0, 0)] {
        let mut sim = Sim::new(4);
        let (node, _core, log) = start(&mut sim, config());
        let kept = log.clone();
        sim.run(node, LONG, async move {
            fill(&kept).await;
            let waiter = reactor::spawn(reactor::Class::Normal, {
                let kept = kept.clone();
                async move { kept.wait_written(11).await }
            });
            kept.truncate_to(cut).await.unwrap();
            assert_eq!((kept.end_offset(), kept.promised_end()), (expect, expect));
            assert!(waiter.await.is_err());
            let end = append(&kept, &batch(2, 50, 0, 99), 1);
            kept.wait_promised(end).await.unwrap();
            assert_eq!(kept.leader_epochs().last().unwrap().start_offset, expect);
        });
        drop(log);
        sim.crash(node);
        sim.restart(node);
        sim.run(node, LONG, async move {
            let core = open_core(dir(), Durability::Durable).await;
            let log = open(&core, 0, &config()).await.0;
            assert_eq!(log.end_offset(), expect + 2, "cut at {cut}");
            let found = read_all(&log, 0, expect + 2, 50_000).await;
            assert_eq!(found.last().unwrap().header.leader_epoch, 1);
        });
    }
}

#[test]
fn a_log_that_begins_anew_elsewhere() {
    let mut sim = Sim::new(5);
    let (node, _core, log) = start(&mut sim, config());
    let kept = log.clone();
    sim.run(node, LONG, async move {
        fill(&kept).await;
        kept.truncate_fully_and_start_at(1000).await.unwrap();
        assert_eq!((kept.start_offset(), kept.end_offset(), kept.size_bytes()), (1000, 1000, 0));
        let end = append(&kept, &batch(1, 50, 0, 99), 7);
        kept.wait_promised(end).await.unwrap();
    });
    drop(log);
    sim.crash(node);
    sim.restart(node);
    sim.run(node, LONG, async {
        let core = open_core(dir(), Durability::Durable).await;
        let log = open(&core, 0, &config()).await.0;
        assert_eq!((log.start_offset(), log.end_offset()), (1000, 1001));
    });
}

#[test]
fn a_deleted_partition_is_gone_at_once_and_its_files_later() {
    for delay_ms in [30_000, 0] {
        let mut sim = Sim::new(6);
        let (node, core, log) = start(&mut sim, LogConfig { file_delete_delay_ms: delay_ms, ..config() });
        let gone = log.clone();
        let again = core.clone();
        sim.run(node, LONG, async move {
            fill(&gone).await;
            let waiter = reactor::spawn(reactor::Class::Normal, {
                let gone = gone.clone();
                async move { gone.wait_written(11).await }
            });
            reactor::yield_now().await;
            append(&gone, &batch(1, 50, 0, 99), 0);
            gone.delete().await.unwrap();
            gone.delete().await.unwrap();
            let _ = waiter.await;
            assert!(matches!(try_append(&gone, &batch(1, 50, 0, 99), 0), Err(LogError::Closed { .. })));
            assert!(gone.read(request(0, 1, 10)).is_err() && again.log(&gone.id().key).is_none());
            assert_eq!(again.memory(), (0, 0));
            // The same name again, before the old files are unlinked.
            let (fresh, told) = open(&again, 0, &config()).await;
            assert_eq!((fresh.end_offset(), told.batches.len()), (0, 0));
        });
        drop((core, log));
        sim.run_for(Duration::from_secs(31));
        let names = sim.list_dir(node, "/data").unwrap();
        assert_eq!(names.iter().filter(|name| name.ends_with("-delete")).count(), 0, "{names:?}");
        sim.crash(node);
        sim.restart(node);
        sim.run(node, LONG, async {
            let core = open_core(dir(), Durability::Durable).await;
            assert_eq!(open(&core, 0, &config()).await.0.end_offset(), 0);
        });
    }
}

#[test]
fn a_checkpoint_of_an_earlier_log_of_the_same_name_is_not_believed() {
    for advanced in [false, true] {
        let mut sim = Sim::new(7);
        let (node, _core, log) = start(&mut sim, config());
        let kept = log.clone();
        sim.run(node, LONG, async move {
            fill(&kept).await;
            if advanced {
                kept.advance_start_offset(5).await.unwrap();
            }
            for (name, offset) in [("log-start-offset-checkpoint", 5), ("recovery-point-offset-checkpoint", 99)] {
                let text = format!("0\n1\norders 0 {offset}\n");
                reactor::fs::write_atomic_durable(dir().join(name), text).await.unwrap();
            }
        });
        drop(log);
        sim.crash(node);
        sim.restart(node);
        sim.run(node, LONG, async move {
            let core = open_core(dir(), Durability::Durable).await;
            let log = open(&core, 0, &config()).await.0;
            assert_eq!((log.start_offset(), log.end_offset()), (if advanced { 5 } else { 0 }, 10));
        });
    }
}

#[test]
fn lines_of_partitions_that_are_not_open_stay_in_the_checkpoints() {
    let mut sim = Sim::new(8);
    let (node, core, log) = start(&mut sim, config());
    sim.run(node, LONG, async move {
        fill(&log).await;
        log.set_high_watermark(9);
        let (other, _) = open(&core, 1, &config()).await;
        let end = append(&other, &batch(1, 50, 0, 99), 0);
        other.wait_promised(end).await.unwrap();
        crate::write_checkpoints(dir(), core.checkpoint()).await.unwrap();
        other.delete().await.unwrap();
        // As a start does that has opened nothing yet.
        crate::write_checkpoints(dir(), Vec::new()).await.unwrap();
    });
    let read = |name: &str| String::from_utf8(sim.read_file(node, format!("/data/{name}")).unwrap()).unwrap();
    assert_eq!(read("replication-offset-checkpoint"), "0\n1\norders 0 9\n");
    assert_eq!(read("log-start-offset-checkpoint"), "0\n1\norders 0 0\n");
    assert!(read("recovery-point-offset-checkpoint").starts_with("0\n1\norders 0 "));
}

#[test]
fn a_directory_has_one_user() {
    let real = tempfile::TempDir::new().unwrap();
    let path = real.path().join("deep/data");
    reactor::block_on(async move {
        let lock = crate::lock_dir(&path).await.unwrap();
        let Err(error) = crate::lock_dir(&path).await else { panic!("two users") };
        assert!(error.to_string().contains("another process holds the lock"), "{error}");
        drop(lock);
        crate::lock_dir(&path).await.unwrap();
    });
}
