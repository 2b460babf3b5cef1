//! The story of many lives under simulation: power cuts and kills at any moment of virtual time, every run given by its
//! seed.

use super::lives::{SharedWorld, last_life, new_world, one_life};
use super::*;
use base::Prng;
use reactor::sim::{Fault, FaultOn, NodeId, Sim};
use std::time::Duration;

/// Virtual time for a life that is allowed to end by itself.
const LIMIT: Duration = Duration::from_secs(600);

fn data_dir() -> PathBuf {
    PathBuf::from("/data")
}

/// A node that does nothing by itself.
fn idle_node(sim: &mut Sim) -> NodeId {
    let node = sim.add_node(1, || |_core| std::future::pending());
    sim.run(node, LIMIT, async { reactor::fs::create_dir_all(data_dir()).await.expect("an empty disk") });
    sim.run(node, LIMIT, async { reactor::fs::sync_dir("/").await.expect("an empty disk") });
    node
}

/// Some lives with violent ends, then one in which everything is compared. Returns the hash of all that happened.
fn story(seed: u64, lives: usize) -> u64 {
    let mut prng = Prng::new(seed);
    let mut sim = Sim::new(seed);
    let node = idle_node(&mut sim);
    let world: SharedWorld = new_world();
    for life in 0..lives {
        let task = sim.spawn(node, CoreId(0), one_life(data_dir(), world.clone(), seed, life, 200));
        // Mostly in the middle of appends, sometimes during recovery, sometimes when all is quiet.
        let longest = [2_000, 20_000, 200_000][prng.below(3) as usize];
        let until = Duration::from_micros(prng.below(longest));
        sim.run_until(until, || task.is_finished());
        match prng.below(3) {
            0 => sim.kill(node),
            _ => sim.crash(node),
        }
        sim.restart(node);
    }
    sim.run(node, LIMIT, last_life(data_dir(), world, lives));
    sim.trace_hash()
}

/// Seeds to try; more in `ODRADEK_SIM_SEEDS` for a longer run.
fn seeds() -> u64 {
    std::env::var("ODRADEK_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

#[test]
fn nothing_acknowledged_or_seen_is_lost_or_doubled_by_power_cuts() {
    for seed in 0..seeds() {
        println!("seed {seed}");
        story(seed, 8);
    }
}

#[test]
fn a_seed_gives_the_same_story_twice() {
    assert_eq!(story(4711, 4), story(4711, 4));
}

/// `EIO`.
const IO_ERROR: i32 = 5;
/// `ENOSPC`.
const NO_SPACE: i32 = 28;

fn fault(path_contains: &str, on: FaultOn, errno: i32) -> Fault {
    Fault { path_contains: path_contains.to_owned(), on, errno, times: None }
}

/// A broker with two directories, topic `a` in the first and `b` in the second.
async fn two_directories() -> (Rig, Partition, Partition) {
    let paths = [data_dir(), PathBuf::from("/more")];
    reactor::fs::create_dir_all(&paths[1]).await.expect("a disk");
    let rig = Rig::start_on(&[&paths[0], &paths[1]], 1, "").await;
    rig.change(|delta| {
        for (i, name) in ["a", "b"].into_iter().enumerate() {
            let directories = vec![Uuid::from_u128(i as u128)];
            delta.create_topic(name, topic_id(name));
            delta.set_partition(topic_id(name), 0, PartitionRegistration { directories, ..led_by(BROKER, 0) });
        }
    })
    .await;
    let (a, b) = (rig.partition(key("a")), rig.partition(key("b")));
    (rig, a, b)
}

#[test]
fn a_failing_disk_takes_its_directory_only() {
    let mut sim = Sim::new(3);
    let node = idle_node(&mut sim);
    let (rig, a, b) = sim.run(node, LIMIT, two_directories());
    let (a2, b2) = (a.clone(), b.clone());
    let waiting = sim.run(node, LIMIT, async move {
        produced(&a2, plain(&["x"])).await;
        produced(&b2, plain(&["x"])).await;
        let on = [crate::WaitOn {
            partition: a2.clone(),
            mark: a2.read(&read_all(1)).expect("readable").mark,
            max_bytes: 9,
        }];
        Running::start(rig.core.wait_for_bytes(&on, 1, u64::MAX))
    });
    for on in [FaultOn::Write, FaultOn::Sync] {
        sim.inject_fault(node, fault("/data", on, IO_ERROR));
    }
    sim.run(node, LIMIT, async move {
        for _ in 0..3 {
            assert_eq!(code(produce(&a, plain(&["y"])).await), ErrorCode::KAFKA_STORAGE_ERROR);
        }
        assert_eq!(waiting.done().await, Some(crate::Woken::Changed));
        assert_eq!(code(a.read(&read_all(0))), ErrorCode::KAFKA_STORAGE_ERROR);
        let query = crate::OffsetQuery {
            timestamp: crate::timestamp::LATEST,
            isolation: Isolation::ReadUncommitted,
            current_leader_epoch: None,
        };
        assert_eq!(code(a.list_offsets(&query).await), ErrorCode::KAFKA_STORAGE_ERROR);
        assert_eq!(produced(&b, plain(&["y"])).await, 1);
        assert_eq!(fetch(&b, 0).await.len(), 2);
    });
}

#[test]
fn a_full_disk_refuses_until_there_is_space_and_loses_nothing() {
    let mut sim = Sim::new(4);
    let node = idle_node(&mut sim);
    let (_rig, partition) = sim.run(node, LIMIT, async {
        let rig = Rig::start(&data_dir(), "").await;
        let partition = rig.create("t", 0, &[]).await;
        (rig, partition)
    });
    sim.inject_fault(node, fault("t-0", FaultOn::Write, NO_SPACE));
    let writer = partition.clone();
    let acked = sim.run(node, LIMIT, async move {
        let mut acked = Vec::new();
        for i in 0..200 {
            let value = format!("{i} {}", "x".repeat(100_000));
            let now = reactor::now();
            let append = writer.append(now, &plain(&[&value]), &AppendRequest::client(-1));
            let outcome = match append {
                Ok(pending) => pending.wait_until(now.plus_ms(500).mono_ns).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(result) => acked.push((result.base_offset, value)),
                // What was taken before the disk was full waits for space, what comes later is refused.
                Err(error) => {
                    let retriable = [ErrorCode::KAFKA_STORAGE_ERROR, ErrorCode::REQUEST_TIMED_OUT];
                    assert!(retriable.contains(&error.code), "{error}");
                    reactor::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        acked
    });
    assert!(acked.len() < 200, "the disk was full");
    sim.clear_faults(node);
    sim.run(node, LIMIT, async move {
        let mut tries = 0;
        while produce(&partition, plain(&["after"])).await.is_err() {
            tries += 1;
            assert!(tries < 1000, "appends go on when there is space");
            reactor::sleep(Duration::from_millis(100)).await;
        }
        let found = fetch(&partition, 0).await;
        let lost: Vec<_> = acked.iter().filter(|record| !found.contains(record)).map(|(offset, _)| offset).collect();
        assert!(lost.is_empty(), "{lost:?} of {}", acked.len());
    });
}
