//! One partition through many lives of its broker: idempotent producers that retry what was not acknowledged, a
//! consumer that remembers all it has seen, and crashes at any moment.

use super::*;
use base::Prng;
use std::collections::{BTreeMap, VecDeque};

/// Batches a producer has in flight at most, as Kafka's clients.
const IN_FLIGHT_MAX: usize = 5;
const PRODUCERS: usize = 3;

/// What the clients know; it outlives every broker.
#[derive(Default)]
pub(super) struct World {
    producers: Vec<Producer>,
    /// Values by the offset that was acknowledged for them.
    acked: BTreeMap<Offset, String>,
    /// Values by the offset at which a consumer saw them.
    seen: BTreeMap<Offset, String>,
    /// Answers get lost on their way, as before a crash.
    deaf: bool,
}

#[derive(Default)]
struct Producer {
    next_sequence: i32,
    unacked: VecDeque<(i32, Vec<String>)>,
    /// Sequences with the offsets acknowledged for them.
    acked: Vec<(i32, Offset)>,
}

pub(super) type SharedWorld = Rc<RefCell<World>>;

pub(super) fn new_world() -> SharedWorld {
    let producers = (0..PRODUCERS).map(|_| Producer::default()).collect();
    Rc::new(RefCell::new(World { producers, ..World::default() }))
}

fn sequenced(id: usize, sequence: i32, values: &[String]) -> Bytes {
    let now = reactor::now().wall_ms;
    batch_at(Some((id as i64, 0, sequence)), &values.iter().map(|v| (v.as_str(), now)).collect::<Vec<_>>())
}

/// Sends a batch and notes its acknowledgement when that comes, in a task of its own.
fn send(world: &SharedWorld, partition: &Partition, id: usize, sequence: i32, values: Vec<String>, acks: i16) {
    let records = sequenced(id, sequence, &values);
    let pending = partition.append(reactor::now(), &records, &AppendRequest::client(acks)).expect("in order");
    let world = world.clone();
    reactor::spawn(reactor::Class::Normal, async move {
        // A broker that goes down answers nothing or an error; either way the batch is not acknowledged.
        let Ok(result) = pending.wait().await else { return };
        let mut world = world.borrow_mut();
        if world.deaf {
            return;
        }
        for (i, value) in values.iter().enumerate() {
            let before = world.acked.insert(result.base_offset + i as Offset, value.clone());
            assert!(before.is_none_or(|before| before == *value), "two values at {}", result.base_offset);
        }
        let producer = &mut world.producers[id];
        producer.unacked.retain(|(unacked, _)| *unacked != sequence);
        producer.acked.push((sequence, result.base_offset));
    })
    .detach();
}

/// A consumer reads everything there is from `from` on.
async fn consume(world: &SharedWorld, partition: &Partition, from: Offset) {
    for (offset, value) in fetch(partition, from).await {
        let mut world = world.borrow_mut();
        let before = world.seen.insert(offset, value.clone());
        assert!(before.as_ref().is_none_or(|before| *before == value), "{offset} was {before:?}, is {value}");
    }
}

/// Lets the partition's clients do `steps` random things; what is in flight at the end stays unanswered.
async fn live(world: &SharedWorld, partition: &Partition, prng: &mut Prng, steps: usize) {
    world.borrow_mut().deaf = false;
    for id in 0..PRODUCERS {
        let unacked = world.borrow().producers[id].unacked.clone();
        for (sequence, values) in unacked {
            send(world, partition, id, sequence, values, -1);
        }
    }
    for step in 0..steps {
        if step == steps / 2 && prng.chance(1, 2) {
            world.borrow_mut().deaf = true;
        }
        let id = prng.below(PRODUCERS as u64) as usize;
        match prng.below(12) {
            0 => {
                let end = partition.bounds(Isolation::ReadUncommitted).high_watermark as u64;
                consume(world, partition, prng.below(end + 1) as Offset).await;
            }
            1..=3 => reactor::sleep(std::time::Duration::from_micros(prng.below(500))).await,
            4 => reactor::yield_now().await,
            _ => {
                if world.borrow().producers[id].unacked.len() >= IN_FLIGHT_MAX {
                    reactor::sleep(std::time::Duration::from_micros(100)).await;
                    continue;
                }
                let (sequence, values) = next_batch(world, prng, id);
                send(world, partition, id, sequence, values, -1);
            }
        }
    }
}

fn next_batch(world: &SharedWorld, prng: &mut Prng, id: usize) -> (i32, Vec<String>) {
    let producer = &mut world.borrow_mut().producers[id];
    let sequence = producer.next_sequence;
    // Mostly small, sometimes large enough to go around the journal.
    let filler = if prng.chance(1, 20) { prng.below(300_000) } else { prng.below(200) } as usize;
    let count = 1 + prng.below(3) as i32;
    let value = |i| format!("p{id}-{}-{}", sequence + i, "x".repeat(filler));
    let values: Vec<String> = (0..count).map(value).collect();
    producer.next_sequence += count;
    producer.unacked.push_back((sequence, values.clone()));
    (sequence, values)
}

/// Opens the partition for life number `life`. The number of cores changes from life to life, and with it the home.
pub(super) async fn begin(dir: &Path, life: usize) -> (Rig, Partition) {
    let rig = Rig::start_on(&[dir], 1 + life as u16 % 3, "").await;
    let partition = rig.create("lives", life as LeaderEpoch, &[("segment.bytes", "1048576")]).await;
    (rig, partition)
}

/// One life that ends in the middle of things.
pub(super) async fn one_life(dir: PathBuf, world: SharedWorld, seed: u64, life: usize, steps: usize) {
    let mut prng = Prng::new(seed.wrapping_mul(1_000_003).wrapping_add(life as u64));
    let (rig, partition) = begin(&dir, life).await;
    live(&world, &partition, &mut prng, steps).await;
    if prng.chance(1, 3) {
        rig.close().await;
        settle().await;
    }
}

/// The last life: everything is acknowledged, read, and compared.
pub(super) async fn last_life(dir: PathBuf, world: SharedWorld, life: usize) {
    let (rig, partition) = begin(&dir, life).await;
    live(&world, &partition, &mut Prng::new(1), 0).await;
    while world.borrow().producers.iter().any(|p| !p.unacked.is_empty()) {
        reactor::sleep(std::time::Duration::from_millis(1)).await;
    }
    consume(&world, &partition, 0).await;
    rig.close().await;
    let world = world.borrow();
    assert_eq!(world.seen, world.acked, "what was acknowledged is what is there, once");
    for (id, producer) in world.producers.iter().enumerate() {
        let mine = format!("p{id}-");
        let sequences: Vec<i32> = world
            .seen
            .values()
            .filter_map(|value| value.strip_prefix(&mine)?.split('-').next()?.parse().ok())
            .collect();
        assert_eq!(sequences, (0..producer.next_sequence).collect::<Vec<_>>(), "producer {id}");
        assert!(producer.acked.windows(2).all(|w| w[0].1 < w[1].1 || w[0].0 >= w[1].0), "producer {id}");
    }
}

#[test]
fn nothing_acknowledged_or_seen_is_lost_or_doubled_when_brokers_die() {
    for seed in 0..6 {
        let dir = tempfile::tempdir().expect("a directory");
        let world = new_world();
        let lives = 6;
        for life in 0..lives {
            reactor::block_on(one_life(dir.path().to_owned(), world.clone(), seed, life, 60));
        }
        println!("seed {seed}: {} acknowledged", world.borrow().acked.len());
        reactor::block_on(last_life(dir.path().to_owned(), world, lives));
    }
}
