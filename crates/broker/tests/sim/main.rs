//! A whole broker under simulation: produce, crash, recover, fetch. Everything follows from a seed.

mod client;
mod groups;
mod known;
mod members;

use base::{CoreId, Prng, Uuid};
use broker::assembly::{run_core, seats};
use broker::{Endpoint, FormattedDir, Layout, Setup, StartError};
use bytes::Bytes;
use client::Client;
use config::{BrokerConfig, Properties};
use reactor::sim::{Latencies, NodeId, Sim};
use records::{BatchBuilder, BatchIter, RecordData, Scratch};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use wire::ErrorCode;

/// Virtual time after which something that should end has hung.
const LIMIT: Duration = Duration::from_secs(900);
/// Where the broker keeps its data.
const DIR: &str = "/data";
/// Where it listens.
const PORT: u16 = 9092;
/// Topics and their partitions.
const TOPICS: [(&str, i32); 2] = [("a", 3), ("b", 1)];
/// Uncompressed records of a test batch stay below this, in bytes.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// What clients know: acknowledged records by partition and offset, and every value that was ever sent.
#[derive(Default)]
struct Known {
    acknowledged: BTreeMap<(&'static str, i32, i64), Vec<u8>>,
    sent: u64,
}

fn config(durability: &str, more: &[(&str, &str)]) -> BrokerConfig {
    let mut properties = Properties::new();
    let all = [
        ("node.id", "1"),
        ("process.roles", "broker,controller"),
        ("controller.quorum.voters", "1@localhost:9093"),
        ("listeners", "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"),
        ("controller.listener.names", "CONTROLLER"),
        ("log.dirs", DIR),
        ("odradek.durability", durability),
        ("odradek.journal.file.bytes", "1048576"),
        ("odradek.tail.cache.bytes", "4194304"),
    ];
    for (name, value) in all.iter().chain(more) {
        properties.set(*name, *value);
    }
    BrokerConfig::from_properties(properties).expect("a valid configuration")
}

/// Adds a broker with the given cores; it starts whenever the node starts.
fn add_broker(sim: &mut Sim, layout: Layout, durability: &'static str, more: &'static [(&str, &str)]) -> NodeId {
    let ready_to_name = std::net::IpAddr::from([0, 0, 0, 0]);
    sim.add_node(usize::from(layout.cores()), move || {
        let id = Uuid::from_u128(0x1234_5678_9abc_4def_8123_4567_89ab_cdef);
        let setup = Arc::new(Setup {
            config: Arc::new(config(durability, more)),
            cluster_id: "MkU3OEVBNTcwNTJENDM2Qk".into(),
            dirs: vec![FormattedDir { path: DIR.into(), id }],
            metadata_dir_id: id,
            endpoints: vec![Endpoint { name: "PLAINTEXT".into(), addr: SocketAddr::new(ready_to_name, PORT) }],
            metrics_addr: None,
            layout,
            on_ready: Box::new(|_| {}),
        });
        let seats = seats(layout);
        let counts = setup.connection_counts();
        move |core: CoreId| {
            let (setup, counts, seat) = (setup.clone(), counts.clone(), seats.take(core));
            async move {
                if core.0 == 0 {
                    reactor::fs::create_dir_all(DIR).await.expect("the disk works");
                    reactor::fs::sync_dir("/").await.expect("the disk works");
                }
                match run_core(core, setup, counts, seat).await {
                    // A broker that is told to stop while it starts ends early.
                    Ok(()) | Err(StartError::Elsewhere) => {}
                    Err(error) => panic!("core {core}: {error}"),
                }
            }
        }
    })
}

fn batch(value: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new(0);
    builder.append(&RecordData { value: Some(value), timestamp: 1, ..RecordData::default() });
    builder.build().expect("a batch")
}

/// A connection, as soon as there is one to be had.
async fn connected(addr: SocketAddr) -> Client {
    loop {
        match Client::connect(addr).await {
            Ok(client) => return client,
            Err(_) => reactor::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// A client that appends until its connection breaks, and connects again; aborted with the broker's life.
async fn produce(addr: SocketAddr, known: Rc<RefCell<Known>>, seed: u64) {
    let mut prng = Prng::new(seed);
    loop {
        let mut client = connected(addr).await;
        let Ok(errors) = client.create_topics(&TOPICS).await else { continue };
        for error in errors {
            assert!(matches!(error, ErrorCode::NONE | ErrorCode::TOPIC_ALREADY_EXISTS), "{error}");
        }
        loop {
            let (topic, partitions) = TOPICS[prng.below(2) as usize];
            let partition = prng.below(partitions as u64) as i32;
            let number = {
                let mut known = known.borrow_mut();
                known.sent += 1;
                known.sent
            };
            let size = [10, 200, 3000, 40_000][prng.below(4) as usize];
            let mut value = number.to_be_bytes().to_vec();
            value.resize(8 + prng.below(size) as usize, number as u8);
            match client.produce(topic, partition, batch(&value)).await {
                Ok(Ok(offset)) => {
                    let before = known.borrow_mut().acknowledged.insert((topic, partition, offset), value);
                    assert_eq!(before, None, "offset {offset} of {topic}-{partition} was acknowledged twice");
                }
                // Not acknowledged: it may be there or not.
                Ok(Err(error)) => assert!(error.is_retriable(), "{error}"),
                Err(_) => break,
            }
        }
    }
}

/// Reads everything, and looks for every acknowledged record where it was acknowledged.
async fn check(addr: SocketAddr, known: Rc<RefCell<Known>>) {
    let mut client = connected(addr).await;
    let mut found = BTreeMap::new();
    for (topic, partitions) in TOPICS {
        for partition in 0..partitions {
            let mut offset = 0;
            loop {
                let fetched = client.fetch(topic, partition, offset).await.expect("the broker answers");
                if fetched == Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) {
                    break;
                }
                let (bytes, high_watermark) = fetched.expect("a readable partition");
                if bytes.is_empty() {
                    assert_eq!(offset, high_watermark, "{topic}-{partition} ends");
                    break;
                }
                for one in BatchIter::new(bytes) {
                    let one = one.expect("whole batches");
                    one.verify_crc().expect("what was appended");
                    let mut scratch = Scratch::new();
                    for record in one.records(&mut scratch, BATCH_BYTES_MAX).expect("a readable batch") {
                        let record = record.expect("a readable record");
                        assert_eq!(record.offset, offset, "offsets follow one another");
                        offset += 1;
                        found.insert((topic, partition, record.offset), record.value.expect("a value").to_vec());
                    }
                }
            }
        }
    }
    for (place, value) in &known.borrow().acknowledged {
        assert_eq!(found.get(place), Some(value), "acknowledged at {place:?}");
    }
    let mut numbers: Vec<&[u8]> = found.values().map(|value| &value[..8]).collect();
    numbers.sort_unstable();
    assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]), "a record is there twice");
}

/// Some lives that end by force while clients append, then one in which all is read; gives the hash of all that happened.
fn story(seed: u64) -> u64 {
    let mut prng = Prng::new(seed);
    let mut sim = Sim::new(seed);
    let data_cores = 1 + prng.below(3) as u16;
    let controller_core = if prng.chance(1, 2) { CoreId(data_cores) } else { CoreId(0) };
    // What was only written survives a kill but no power cut.
    let durability = if prng.chance(1, 3) { "written" } else { "durable" };
    let broker = add_broker(&mut sim, Layout { data_cores, controller_core }, durability, &[]);
    let clients = sim.add_client();
    let addr = SocketAddr::new(sim.ip(broker), PORT);
    let known = Rc::new(RefCell::new(Known::default()));
    for life in 0..4 {
        let producers: Vec<_> = (0..3)
            .map(|n| sim.spawn(clients, CoreId(0), produce(addr, known.clone(), seed * 100 + life * 10 + n)))
            .collect();
        let longest = [20_000, 200_000, 3_000_000][prng.below(3) as usize];
        sim.run_for(Duration::from_micros(prng.below(longest)));
        match (prng.below(4), durability) {
            (0, _) => {
                sim.stop(broker);
                assert!(sim.run_until_ended(broker, LIMIT), "seed {seed}: the broker does not stop");
            }
            (1, _) | (_, "written") => sim.kill(broker),
            _ => sim.crash(broker),
        }
        producers.into_iter().for_each(|producer| producer.abort());
        sim.restart(broker);
    }
    sim.run(clients, LIMIT, check(addr, known.clone()));
    sim.trace_hash()
}

/// Seeds to try: `usual` many, or as many as `ODRADEK_SIM_SEEDS` says, from `ODRADEK_SIM_FIRST_SEED` on.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("ODRADEK_SIM_FIRST_SEED").unwrap_or(0);
    first..first + number("ODRADEK_SIM_SEEDS").unwrap_or(usual)
}

#[test]
fn what_was_acknowledged_is_there_after_any_end() {
    for seed in seeds(6) {
        println!("seed {seed}");
        story(seed);
    }
}

/// A disk that takes longer than an append may: it is answered in its time, with an error, and the broker goes on when the disk
/// does.
#[test]
fn an_append_whose_promise_takes_too_long_is_answered_with_an_error() {
    for seed in seeds(3) {
        let mut sim = Sim::new(seed);
        let layout = Layout { data_cores: 2, controller_core: CoreId(2) };
        let broker = add_broker(&mut sim, layout, "durable", &[]);
        let clients = sim.add_client();
        let addr = SocketAddr::new(sim.ip(broker), PORT);
        let mut client = sim.run(clients, LIMIT, async move {
            let mut client = connected(addr).await;
            client.create_topics(&TOPICS).await.expect("the broker answers");
            assert_eq!(client.produce("b", 0, batch(b"number 1")).await.expect("an answer"), Ok(0));
            client
        });
        let minute = Duration::from_secs(60).as_nanos() as u64;
        sim.set_latencies(Latencies { sync_ns: (minute, minute), ..Latencies::default() });
        let mut client = sim.run(clients, LIMIT, async move {
            let began = reactor::now();
            let answer = client.produce("b", 0, batch(b"number 2")).await.expect("an answer");
            let waited_ms = reactor::now().mono_ms() - began.mono_ms();
            assert_eq!(answer, Err(ErrorCode::REQUEST_TIMED_OUT), "seed {seed}");
            assert!((30_000..31_000).contains(&waited_ms), "seed {seed}: asked for 30 s, after {waited_ms} ms");
            client
        });
        sim.set_latencies(Latencies::default());
        sim.run_for(Duration::from_nanos(2 * minute));
        sim.run(clients, LIMIT, async move {
            // What was given up is in the log all the same: nobody said that it is not.
            assert_eq!(client.produce("b", 0, batch(b"number 3")).await.expect("an answer"), Ok(2), "seed {seed}");
            let known = Rc::new(RefCell::new(Known::default()));
            for (offset, value) in [(0, b"number 1"), (1, b"number 2"), (2, b"number 3")] {
                known.borrow_mut().acknowledged.insert(("b", 0, offset), value.to_vec());
            }
            check(addr, known).await;
        });
    }
}

#[test]
fn a_seed_tells_the_same_story_twice() {
    assert_eq!(story(1), story(1));
}
