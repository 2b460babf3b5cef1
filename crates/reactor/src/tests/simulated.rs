//! What only the simulation can show: crashes, faults, partitions, determinism.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::sockets::read_all;
use super::{LIMIT, pattern};
use crate::fs::{self, File, OpenOptions};
use crate::net::{BindOptions, TcpListener, TcpStream};
use crate::sim::{Fault, FaultOn, NodeId, Sim};
use crate::{Class, CoreId, join_all, now, random_u64, sleep, spawn, stopping, timeout, yield_now};

const ANY: [u8; 4] = [0, 0, 0, 0];

/// A node with an echo server on every core, on port 9.
fn echo_node(sim: &mut Sim, cores: usize) -> NodeId {
    sim.add_node(cores, || {
        |_| async {
            let options = BindOptions { reuse_port: true, ..BindOptions::default() };
            let listener = TcpListener::bind(SocketAddr::from((ANY, 9)), options).await.unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                spawn(Class::Normal, async move {
                    loop {
                        let (got, buf) = stream.recv(BytesMut::with_capacity(1000)).await;
                        if got.unwrap_or(0) == 0 {
                            return;
                        }
                        if stream.send_all(vec![buf.freeze()]).await.is_err() {
                            return;
                        }
                    }
                })
                .detach();
            }
        }
    })
}

async fn echo_once(address: SocketAddr, message: Vec<u8>) -> std::io::Result<bool> {
    let stream = TcpStream::connect(address).await?;
    stream.send_all(vec![Bytes::from(message.clone())]).await?;
    stream.shutdown_write()?;
    Ok(read_all(&stream).await? == message)
}

/// A busy world: two echo nodes, clients, files, timers, a crash.
fn busy_world(seed: u64) -> (u64, u64) {
    let mut sim = Sim::new(seed);
    let (a, b) = (echo_node(&mut sim, 2), echo_node(&mut sim, 3));
    let client = sim.add_client();
    let targets = [SocketAddr::new(sim.ip(a), 9), SocketAddr::new(sim.ip(b), 9)];
    let sum = Rc::new(Cell::new(0u64));
    let total = Rc::clone(&sum);
    sim.spawn(client, CoreId(0), async move {
        for n in 0..20u64 {
            let echoed = echo_once(targets[(random_u64() % 2) as usize], pattern(n, 3000)).await;
            total.set(total.get() * 3 + u64::from(matches!(echoed, Ok(true))));
            let (wrote, _) = File::open(format!("/f{}", n % 3), OpenOptions::READ_WRITE)
                .await
                .unwrap()
                .write_at(pattern(n, 700), random_u64() % 5000)
                .await;
            wrote.unwrap();
            sleep(Duration::from_micros(random_u64() % 1000)).await;
        }
    })
    .detach();
    sim.run_for(Duration::from_millis(15));
    sim.crash(a);
    sim.run_for(Duration::from_millis(15));
    sim.restart(a);
    sim.run_for(Duration::from_secs(10));
    (sim.trace_hash(), sum.get())
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let mut hashes = BTreeSet::new();
    for seed in 0..20 {
        let first = busy_world(seed);
        assert_eq!(first, busy_world(seed), "seed {seed}");
        hashes.insert(first.0);
    }
    assert!(hashes.len() > 15, "seeds make a difference: {} distinct runs of 20", hashes.len());
}

#[test]
fn a_power_cut_keeps_durable_writes_and_may_lose_or_tear_the_others() {
    let (mut kept, mut lost, mut torn) = (0, 0, 0);
    for seed in 0..200 {
        let mut sim = Sim::new(seed);
        let node = sim.add_client();
        sim.run(node, LIMIT, async {
            let file = File::open("/f", OpenOptions::READ_WRITE).await.unwrap();
            fs::sync_dir("/").await.unwrap();
            file.allocate(0, 65_536).await.unwrap();
            file.write_all_at_durable(pattern(1, 8192), 0).await.0.unwrap();
            file.write_all_at(pattern(2, 8192), 8192).await.0.unwrap();
            file.sync_data().await.unwrap();
            // Over durable bytes, not synced.
            file.write_all_at(pattern(3, 8192), 16_384).await.0.unwrap();
            file.write_all_at_durable(pattern(4, 4096), 32_768).await.0.unwrap();
        });
        sim.crash(node);
        sim.restart(node);
        let found = sim.read_file(node, "/f").unwrap();
        assert_eq!(found.len(), 65_536, "seed {seed}: the sync made the size durable");
        assert!(found[..8192] == pattern(1, 8192)[..], "seed {seed}: durable write");
        assert!(found[8192..16_384] == pattern(2, 8192)[..], "seed {seed}: synced write");
        assert!(found[32_768..36_864] == pattern(4, 4096)[..], "seed {seed}: durable write beside unsynced ones");
        let unsynced = &found[16_384..24_576];
        if unsynced == &pattern(3, 8192)[..] {
            kept += 1;
        } else if unsynced.iter().all(|b| *b == 0) {
            lost += 1;
        } else {
            torn += 1;
        }
    }
    assert!(kept > 20 && lost > 20 && torn > 20, "kept {kept}, lost {lost}, torn {torn}");
}

#[test]
fn a_power_cut_keeps_synced_names_and_may_lose_the_others() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let mut sim = Sim::new(seed);
        let node = sim.add_client();
        sim.run(node, LIMIT, async {
            fs::create_dir_all("/d").await.unwrap();
            fs::sync_dir("/").await.unwrap();
            fs::write_atomic_durable("/d/sure", &b"1"[..]).await.unwrap();
            let file = File::open("/d/maybe", OpenOptions::READ_WRITE).await.unwrap();
            file.write_all_at_durable(vec![b'2'; 1], 0).await.0.unwrap();
            fs::rename("/d/sure", "/d/moved").await.unwrap();
        });
        sim.crash(node);
        let names = sim.list_dir(node, "/d").unwrap();
        let old = names.contains(&"sure".to_owned());
        let new = names.contains(&"moved".to_owned());
        assert!(old != new, "seed {seed}: a rename happened or did not: {names:?}");
        assert_eq!(sim.read_file(node, if old { "/d/sure" } else { "/d/moved" }).unwrap(), b"1");
        assert!(!names.contains(&"sure.tmp".to_owned()), "seed {seed}: {names:?}");
        outcomes.insert(names);
    }
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
}

#[test]
fn a_killed_process_loses_nothing_that_was_written() {
    for seed in 0..50 {
        let mut sim = Sim::new(seed);
        let node = sim.add_client();
        sim.run(node, LIMIT, async move {
            let file = File::open("/f", OpenOptions::READ_WRITE).await.unwrap();
            assert!(file.try_lock().unwrap());
            file.write_all_at(pattern(seed, 5000), 0).await.0.unwrap();
        });
        sim.kill(node);
        sim.restart(node);
        assert!(sim.read_file(node, "/f").unwrap() == pattern(seed, 5000));
        sim.run(node, LIMIT, async {
            let file = File::open("/f", OpenOptions::READ_WRITE).await.unwrap();
            assert!(file.try_lock().unwrap(), "the lock went with the process");
        });
    }
}

/// A log that appends durable records and says which it acknowledged: after any crash at any moment every acknowledged one is
/// there.
#[test]
fn acknowledged_appends_survive_crashes_at_any_moment() {
    const RECORD: usize = 600;
    for seed in 0..150 {
        let mut sim = Sim::new(seed);
        let acknowledged = Rc::new(Cell::new(0u64));
        let acks = Rc::clone(&acknowledged);
        let node = sim.add_node(1, move || {
            let acks = Rc::clone(&acks);
            move |_| {
                let acks = Rc::clone(&acks);
                async move {
                    let file = File::open("/log", OpenOptions::READ_WRITE).await.unwrap();
                    fs::sync_dir("/").await.unwrap();
                    for n in acks.get().. {
                        let (wrote, _) = file.write_all_at_durable(pattern(n, RECORD), n * RECORD as u64).await;
                        wrote.unwrap();
                        acks.set(n + 1);
                    }
                }
            }
        });
        for _ in 0..5 {
            let moment = sim.random_u64() % 30_000_000;
            sim.run_for(Duration::from_nanos(moment));
            sim.crash(node);
            let stored = sim.read_file(node, "/log").unwrap_or_default();
            for n in 0..acknowledged.get() {
                let at = n as usize * RECORD;
                assert!(stored.get(at..at + RECORD) == Some(&pattern(n, RECORD)[..]), "seed {seed}, record {n}");
            }
            sim.restart(node);
        }
    }
}

#[test]
fn faults_hit_the_operations_they_name() {
    let mut sim = Sim::new(1);
    let node = sim.add_client();
    let eio = |on, times| Fault { path_contains: "bad".into(), on, errno: libc::EIO, times };
    sim.run(node, LIMIT, async { drop(File::open("/bad", OpenOptions::READ_WRITE).await.unwrap()) });
    sim.inject_fault(node, eio(FaultOn::Write, Some(1)));
    sim.inject_fault(node, eio(FaultOn::Sync, Some(2)));
    sim.run(node, LIMIT, async {
        let bad = File::open("/bad", OpenOptions::READ_WRITE).await.unwrap();
        let good = File::open("/good", OpenOptions::READ_WRITE).await.unwrap();
        good.write_all_at_durable(vec![1; 10], 0).await.0.unwrap();
        let failed = bad.write_all_at(vec![1; 10], 0).await.0.unwrap_err();
        assert_eq!(fs::os_error(&failed), Some(libc::EIO));
        bad.write_all_at(vec![1; 1000], 0).await.0.unwrap();
        assert!(bad.sync_data().await.is_err());
        assert!(bad.write_all_at_durable(vec![2; 10], 5000).await.0.is_err());
        bad.sync_data().await.unwrap();
    });
    // A sync after a failed one says nothing about what the failed one lost.
    let mut lost = false;
    sim.crash(node);
    if let Some(found) = sim.read_file(node, "/bad") {
        lost |= found.iter().take(1000).all(|b| *b == 0);
    } else {
        lost = true;
    }
    assert!(lost);
    sim.inject_fault(
        node,
        Fault { path_contains: String::new(), on: FaultOn::Names, errno: libc::ENOSPC, times: None },
    );
    sim.restart(node);
    sim.run(node, LIMIT, async {
        let Err(error) = File::open("/new", OpenOptions::READ_WRITE).await else { panic!("opened on a full disk") };
        assert_eq!(fs::os_error(&error), Some(libc::ENOSPC));
    });
    sim.clear_faults(node);
    sim.set_disk_capacity(node, 10_000);
    sim.run(node, LIMIT, async {
        let file = File::open("/new", OpenOptions::READ_WRITE).await.unwrap();
        let full = file.write_all_at(vec![0; 20_000], 0).await.0.unwrap_err();
        assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
        assert!(file.allocate(0, 20_000).await.is_err());
        file.write_all_at(vec![0; 5_000], 0).await.0.unwrap();
    });
    sim.corrupt(node, "/new", 7, 0x80);
    assert_eq!(sim.read_file(node, "/new").unwrap()[7], 0x80);
}

#[test]
fn nodes_talk_and_a_crash_resets_their_connections() {
    for seed in 0..30 {
        let mut sim = Sim::new(seed);
        let server = echo_node(&mut sim, 2);
        let client = sim.add_client();
        let address = SocketAddr::new(sim.ip(server), 9);
        let echoed = sim.run(client, LIMIT, async move {
            let calls = (0..10).map(|n| echo_once(address, pattern(n, 20_000)));
            join_all(calls).await.into_iter().all(|echoed| echoed.unwrap())
        });
        assert!(echoed, "seed {seed}");

        let open = sim.run(client, LIMIT, async move { TcpStream::connect(address).await.unwrap() });
        let waiting = sim.spawn(client, CoreId(0), async move { read_all(&open).await });
        sim.run_for(Duration::from_millis(10));
        sim.crash(server);
        let refused = sim.run(client, LIMIT, TcpStream::connect(address)).err().map(|e| e.kind());
        assert_eq!(refused, Some(std::io::ErrorKind::ConnectionRefused), "seed {seed}");
        let reset = sim.run(client, LIMIT, waiting).err().map(|e| e.kind());
        assert_eq!(reset, Some(std::io::ErrorKind::ConnectionReset), "seed {seed}");
        sim.restart(server);
        sim.run_for(Duration::from_millis(10));
        assert!(sim.run(client, LIMIT, echo_once(address, b"again".to_vec())).unwrap());
    }
}

#[test]
fn a_cut_link_delays_everything_until_it_heals() {
    let mut sim = Sim::new(3);
    let server = echo_node(&mut sim, 1);
    let client = sim.add_client();
    let address = SocketAddr::new(sim.ip(server), 9);
    sim.run_for(Duration::from_millis(5));
    sim.partition(server, client);
    let call = sim.spawn(client, CoreId(0), echo_once(address, pattern(1, 5000)));
    sim.run_for(Duration::from_secs(5));
    assert!(!call.is_finished());
    let patience = sim.run(client, LIMIT, timeout(Duration::from_secs(1), TcpStream::connect(address)));
    assert!(patience.is_err());
    sim.heal(server, client);
    assert!(sim.run(client, LIMIT, call).unwrap());
}

#[test]
fn a_node_ends_by_itself_when_it_is_asked_to_stop() {
    let mut sim = Sim::new(4);
    let log = Rc::new(RefCell::new(Vec::new()));
    let entries = Rc::clone(&log);
    let node = sim.add_node(3, move || {
        let entries = Rc::clone(&entries);
        move |core| {
            let entries = Rc::clone(&entries);
            async move {
                stopping().await;
                File::open(format!("/bye-{core}"), OpenOptions::READ_WRITE).await.unwrap();
                entries.borrow_mut().push(core);
            }
        }
    });
    sim.run_for(Duration::from_secs(1));
    assert!(sim.is_running(node) && log.borrow().is_empty());
    sim.stop(node);
    assert!(sim.run_until_ended(node, LIMIT));
    assert_eq!(log.borrow().len(), 3);
    assert_eq!(sim.list_dir(node, "/").unwrap(), ["bye-0", "bye-1", "bye-2"]);
}

#[test]
fn time_is_virtual_and_clocks_can_differ() {
    let mut sim = Sim::new(5);
    let node = sim.add_client();
    let (start, end) = sim.run(node, LIMIT * 1000, async {
        let start = now();
        sleep(Duration::from_secs(86_400)).await;
        (start, now())
    });
    assert!(end.wall_ms - start.wall_ms >= 86_400_000);
    sim.set_clock_skew(node, -500);
    let skewed = sim.run(node, LIMIT, async { now() });
    assert!(skewed.mono_ns >= end.mono_ns && skewed.wall_ms < end.wall_ms);
}

#[test]
fn a_busy_task_does_not_stop_time() {
    let mut sim = Sim::new(6);
    let node = sim.add_client();
    sim.spawn(node, CoreId(0), async {
        loop {
            yield_now().await;
        }
    })
    .detach();
    sim.run(node, LIMIT, async { sleep(Duration::from_millis(20)).await });
}
