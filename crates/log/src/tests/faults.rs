//! Disks that fill up or break, under simulation.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use reactor::sim::{Fault, FaultOn, NodeId, Sim};

use super::kit::*;
use crate::{Durability, Log, LogConfig, LogCore, LogError};

const EIO: i32 = 5;
const LONG: Duration = Duration::from_secs(60);

fn dir() -> &'static Path {
    Path::new("/data")
}

/// A node with a core of two open logs.
fn start(sim: &mut Sim) -> (NodeId, LogCore, [Log; 2]) {
    let node = sim.add_client();
    let opened = sim.run(node, LONG, async {
        let core = open_core(dir(), Durability::Durable).await;
        let config = LogConfig { segment_bytes: 400_000, file_delete_delay_ms: 0, ..LogConfig::default() };
        let (a, _) = open(&core, 0, &config).await;
        let (b, _) = open(&core, 1, &config).await;
        (core, [a, b])
    });
    (node, opened.0, opened.1)
}

#[test]
fn a_full_disk_refuses_appends_until_there_is_room() {
    for seed in 0..20 {
        let mut sim = Sim::new(seed);
        let (node, core, [log, other]) = start(&mut sim);
        let model = Rc::new(Model::default());
        sim.set_disk_capacity(node, 2_000_000);
        let (writer, written) = (log.clone(), Rc::clone(&model));
        let refused = sim.run(node, LONG, async move {
            let mut kept = 0;
            for i in 0..4000u64 {
                let bytes = batch(2, if i % 3 == 0 { 60_000 } else { 700 }, 0, i);
                match try_append(&writer, &bytes, 0) {
                    Ok(end) => {
                        let base = end - 2;
                        written.batches.borrow_mut().push((base, 0, bytes));
                        match writer.wait_promised(end).await {
                            Ok(()) => kept = end,
                            Err(error) => assert!(matches!(error, LogError::NoSpace { .. }), "{error}"),
                        }
                    }
                    Err(error) => return (error, kept),
                }
            }
            panic!("the disk never filled up");
        });
        assert!(refused.0.is_retriable() && matches!(refused.0, LogError::NoSpace { .. }), "{}", refused.0);
        let reader = log.clone();
        let readable = sim.run(node, LONG, async move { read_all(&reader, 0, reader.end_offset(), 100_000).await });
        model.check(&readable, 0, refused.1, "while full");

        // Room comes back, for example because another partition was deleted.
        sim.set_disk_capacity(node, 50_000_000);
        let (writer, written) = (log.clone(), Rc::clone(&model));
        let end = sim.run(node, LONG, async move {
            reactor::sleep(Duration::from_secs(2)).await;
            let end = written.append(&writer, &batch(1, 100, 0, 9), 0);
            writer.wait_promised(end).await.unwrap();
            let more = append(&other, &batch(1, 100, 0, 9), 0);
            other.wait_promised(more).await.unwrap();
            end
        });
        drop((core, log));
        sim.crash(node);
        sim.restart(node);
        let found = sim.run(node, LONG, async {
            let core = open_core(dir(), Durability::Durable).await;
            let (log, _) = open(&core, 0, &LogConfig::default()).await;
            read_all(&log, 0, log.end_offset(), 100_000).await
        });
        model.check(&found, 0, end, &format!("seed {seed}"));
    }
}

#[test]
fn a_write_error_fences_one_partition_and_leaves_the_other() {
    let mut sim = Sim::new(1);
    let (node, core, [log, other]) = start(&mut sim);
    sim.inject_fault(node, Fault { path_contains: "orders-0".into(), on: FaultOn::Write, errno: EIO, times: None });
    sim.run(node, LONG, async move {
        let end = append(&log, &batch(1, 200_000, 0, 1), 0);
        let error = log.wait_promised(end).await.unwrap_err();
        assert!(matches!(&error, LogError::Fenced { log, .. } if log == "orders-0"), "{error}");
        assert!(!error.is_retriable());
        assert_eq!(try_append(&log, &batch(1, 10, 0, 1), 0).unwrap_err(), error);
        assert!(log.fenced().is_some() && log.read(request(0, 1, 1)).is_err());
        let end = append(&other, &batch(1, 200_000, 0, 1), 0);
        other.wait_promised(end).await.unwrap();
        assert_eq!((other.fenced(), core.fenced()), (None, None));
    });
}

#[test]
fn a_journal_error_fences_the_directory_of_this_core() {
    let mut sim = Sim::new(2);
    let (node, core, logs) = start(&mut sim);
    sim.inject_fault(
        node,
        Fault { path_contains: "odradek-journal".into(), on: FaultOn::Write, errno: EIO, times: None },
    );
    sim.run(node, LONG, async move {
        let end = append(&logs[0], &batch(1, 100, 0, 1), 0);
        assert!(logs[0].wait_promised(end).await.is_err());
        assert!(core.fenced().unwrap().contains("journal"));
        for log in &logs {
            assert!(matches!(try_append(log, &batch(1, 100, 0, 1), 0), Err(LogError::Fenced { .. })));
        }
        let config = Rc::new(LogConfig::default());
        assert!(core.open_log(log_id(5), config, &mut Told::default()).await.is_err());
        assert!(core.close_clean().await.is_err(), "a fenced directory is not clean");
    });
}

#[test]
fn a_flipped_bit_in_a_cold_segment_is_not_served_as_a_batch() {
    let mut sim = Sim::new(3);
    let (node, core, [log, _]) = start(&mut sim);
    let writer = log.clone();
    sim.run(node, LONG, async move {
        for i in 0..20 {
            append(&writer, &batch(1, 30_000, 0, i), 0);
        }
        writer.wait_promised(20).await.unwrap();
        core.close_clean().await.unwrap();
        crate::write_clean_shutdown(dir(), 1).await.unwrap();
    });
    drop(log);
    sim.kill(node);
    // The magic of the first batch.
    sim.corrupt(node, "/data/orders-0/00000000000000000000.log", 16, 0xff);
    sim.restart(node);
    let error = sim.run(node, LONG, async {
        let core = open_core(dir(), Durability::Durable).await;
        let (log, _) = open(&core, 0, &LogConfig::default()).await;
        read(&log, request(0, 1000, 20)).await.unwrap_err()
    });
    assert!(matches!(error, LogError::Corrupt { position: 0, .. }), "{error}");
}
