//! A random life of a log directory: appends of all sizes, waits, rolls, truncations, deletions of old segments, on two
//! cores, ended by the death of the process at a random moment or by a clean stop, again and again. Whatever was promised
//! is found, in order and with the right bytes, and nothing is found that was not appended.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use base::{CoreId, Offset, Prng};
use bytes::Bytes;
use reactor::{Class, Either, race, spawn};
use records::BatchHeader;

use super::kit::*;
use crate::{Durability, Log, LogConfig, LogCore, open_dir};

/// What one partition must hold.
#[derive(Default)]
pub struct Partition {
    /// Base offset, epoch and bytes of everything appended and not cut off again.
    batches: RefCell<Vec<(Offset, i32, Bytes)>>,
    /// Records before this were promised.
    promised: Cell<Offset>,
    start: Cell<Offset>,
    epoch: Cell<i32>,
}

impl Partition {
    fn cut(&self, end: Offset) {
        self.batches.borrow_mut().retain(|(base, _, bytes)| base + delta(bytes) < end);
        self.promised.set(self.promised.get().min(end));
    }

    /// Where the last batch ends that lies before `cut`.
    fn whole_before(&self, cut: Offset) -> Option<Offset> {
        let batches = self.batches.borrow();
        batches.iter().map(|(base, _, bytes)| base + delta(bytes) + 1).filter(|end| *end <= cut).max()
    }

    /// Compares with a log that was just opened, and forgets what did not survive and was not promised.
    async fn check_opened(&self, log: &Log, told: &Told, context: &str) {
        let end = log.end_offset();
        let promised = self.promised.get();
        assert!(end >= promised, "{context}: the log ends at {end}, {promised} was promised");
        let found = read_all(log, log.start_offset(), end, 40_000).await;
        let behind = found.iter().filter(|batch| batch.header.next_offset() > log.start_offset());
        let from = told.snapshot.as_ref().map_or(log.start_offset(), |(offset, _)| *offset);
        let replayed = behind.filter(|batch| batch.header.next_offset() > from).count();
        assert_eq!(told.batches.len(), replayed, "{context}: batches told from {from}");
        self.check(&found, log.start_offset(), end, context);
        self.cut(end);
        self.promised.set(end);
    }

    fn check(&self, found: &[records::Batch], from: Offset, end: Offset, context: &str) {
        let batches = self.batches.borrow();
        let mut expected = batches.iter().skip_while(|(base, _, bytes)| base + delta(bytes) < from);
        let mut at = from;
        for batch in found {
            let Some((base, epoch, bytes)) = expected.next() else { panic!("{context}: more than was appended") };
            assert_eq!((batch.header.base_offset, batch.header.leader_epoch), (*base, *epoch), "{context}");
            assert!(batch.bytes[16..] == bytes[16..], "{context}: the batch at {base} has other bytes");
            at = batch.header.next_offset();
        }
        assert_eq!(at, end, "{context}: what can be read from {from} on ends early");
    }
}

fn delta(bytes: &Bytes) -> i64 {
    i64::from(BatchHeader::parse(bytes).unwrap().last_offset_delta)
}

/// The whole directory's model; survives the crashes.
pub struct World {
    pub dir: PathBuf,
    pub rung: Durability,
    pub partitions: Vec<Partition>,
    pub config: LogConfig,
}

const PARTITIONS: usize = 4;

impl World {
    pub fn new(dir: &Path, rung: Durability, prng: &mut Prng) -> Rc<World> {
        let config = LogConfig {
            segment_bytes: 50_000 + prng.below(400_000) as u32,
            index_interval_bytes: 1 + prng.below(5000) as u32,
            file_delete_delay_ms: 0,
            retention_bytes: if prng.chance(1, 2) { 600_000 } else { -1 },
            retention_ms: -1,
            ..LogConfig::default()
        };
        let partitions = (0..PARTITIONS).map(|_| Partition::default()).collect();
        Rc::new(World { dir: dir.to_owned(), rung, partitions, config })
    }

    /// Opens everything and checks it against the model.
    async fn open(&self, prng: &mut Prng, context: &str) -> (Vec<LogCore>, Vec<Log>) {
        let start = open_dir(&self.dir).await.unwrap();
        let mut cores = Vec::new();
        for core in 0..2 {
            let mut config = core_config(&self.dir, self.rung, start.clone());
            config.core = CoreId(core);
            // Little memory on some runs, so that chunks are evicted while they are wanted.
            config.tail_bytes_max = if prng.chance(1, 2) { 300 << 10 } else { 64 << 20 };
            cores.push(LogCore::open(config).await.unwrap());
        }
        let mut logs = Vec::new();
        // Which core a partition lives on may differ from run to run.
        let shift = prng.below(2) as usize;
        for (i, partition) in self.partitions.iter().enumerate() {
            let core = &cores[(i + shift) % 2];
            let (log, told) = open(core, i as i32, &self.config).await;
            let context = format!("{context} partition {i}");
            partition.check_opened(&log, &told, &context).await;
            partition.start.set(log.start_offset());
            log.set_producer_source(Box::new(Vec::new));
            logs.push(log);
        }
        (cores, logs)
    }

    async fn step(self: &Rc<World>, i: usize, log: &Log, prng: &mut Prng) {
        let partition = &self.partitions[i];
        match prng.below(100) {
            0..=79 => {
                let len = match prng.below(10) {
                    0 => prng.below(150_000),
                    1 => prng.below(20_000),
                    _ => prng.below(600),
                };
                let records = 1 + prng.below(3) as usize;
                let bytes = batch(records, len as usize / records, prng.below(1 << 40) as i64, prng.next_u64());
                let base = log.end_offset();
                if let Ok(end) = try_append(log, &bytes, partition.epoch.get()) {
                    partition.batches.borrow_mut().push((base, partition.epoch.get(), bytes));
                    if prng.chance(1, 2) {
                        self.note_promise(i, log, end);
                    }
                }
            }
            80..=89 => {
                let from = log.start_offset();
                let span = (log.end_offset() - from) as u64;
                let from = from + prng.below(span + 1) as i64;
                let upper = from + prng.below(span + 1) as i64;
                // Retention may take the segment away between the look at the start and the read.
                if let Ok((bytes, _)) = read(log, request(from, prng.below(60_000) as usize, upper)).await {
                    for found in records::BatchIter::new(bytes) {
                        found.unwrap().verify_crc().unwrap();
                    }
                }
            }
            90..=92 => {
                let limit = log.promised_end();
                log.apply_retention(limit).await.unwrap();
                partition.start.set(log.start_offset());
            }
            93 => {
                partition.epoch.set(partition.epoch.get() + 1);
            }
            94..=95 => {
                let (start, end) = (log.start_offset(), log.end_offset());
                let cut = end - prng.below((end - start) as u64 / 4 + 1) as i64;
                // Promises that come in from now on are not counted: the cut may come before the death, or not.
                partition.epoch.set(partition.epoch.get() + 1);
                let whole = partition.whole_before(cut).unwrap_or(start);
                partition.promised.set(partition.promised.get().min(whole));
                log.truncate_to(cut).await.unwrap();
                partition.cut(log.end_offset());
            }
            _ => reactor::sleep(Duration::from_micros(prng.below(5000))).await,
        }
    }

    fn note_promise(self: &Rc<World>, i: usize, log: &Log, end: Offset) {
        let (world, log, epoch) = (Rc::clone(self), log.clone(), self.partitions[i].epoch.get());
        spawn(Class::Normal, async move {
            // Cut off meanwhile: then an offset this large may be promised of other records later.
            if log.wait_promised(end).await.is_ok() && world.partitions[i].epoch.get() == epoch {
                let partition = &world.partitions[i];
                partition.promised.set(partition.promised.get().max(end.min(log.end_offset())));
            }
        })
        .detach();
    }

    /// One run of the process: opens, lives for at most `life_us`, and is stopped cleanly or just ends.
    pub async fn run(self: Rc<World>, mut prng: Prng, life_us: u64, clean: bool, context: String) {
        let (cores, logs) = self.open(&mut prng, &context).await;
        let mut tasks = Vec::new();
        for (i, log) in logs.iter().enumerate() {
            let (world, log, mut prng) = (Rc::clone(&self), log.clone(), Prng::new(prng.next_u64()));
            tasks.push(async move {
                loop {
                    world.step(i, &log, &mut prng).await;
                    reactor::yield_now().await;
                }
            });
        }
        let lives = reactor::join_all(tasks);
        let end = reactor::sleep(Duration::from_micros(life_us));
        match race(lives, end).await {
            Either::Left(never) => drop::<Vec<()>>(never),
            Either::Right(()) => {}
        }
        if clean {
            let mut entries = Vec::new();
            for core in &cores {
                core.close_clean().await.unwrap();
                entries.extend(core.checkpoint());
            }
            crate::write_checkpoints(&self.dir, entries).await.unwrap();
            crate::write_clean_shutdown(&self.dir, 1).await.unwrap();
            for (i, log) in logs.iter().enumerate() {
                self.partitions[i].promised.set(log.end_offset());
            }
        } else if prng.chance(1, 2) {
            let entries: Vec<_> = cores.iter().flat_map(LogCore::checkpoint).collect();
            crate::write_checkpoints(&self.dir, entries).await.unwrap();
        }
    }
}

#[test]
fn processes_die_at_random_moments() {
    for seed in 0..6 {
        let dir = tempfile::TempDir::new().unwrap();
        let mut prng = Prng::new(seed);
        let rung = if prng.chance(1, 2) { Durability::Durable } else { Durability::Written };
        let world = World::new(dir.path(), rung, &mut prng);
        for life in 0..6 {
            let context = format!("seed {seed} life {life} {rung:?}");
            let (life_us, clean) = (prng.below(60_000), prng.chance(1, 4));
            reactor::block_on(Rc::clone(&world).run(Prng::new(prng.next_u64()), life_us, clean, context));
        }
    }
}

/// The same under simulation: the death comes between any two steps of the program, and under the `durable` rung it may be
/// a power cut.
#[test]
fn simulated_processes_and_machines_die_at_random_moments() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("ODRADEK_LOG_SEED").unwrap_or(0);
    for seed in first..first + number("ODRADEK_LOG_SEEDS").unwrap_or(25) {
        simulated_life(seed);
    }
}

fn simulated_life(seed: u64) {
    let mut sim = reactor::sim::Sim::new(seed);
    let mut prng = Prng::new(seed);
    let rung = if prng.chance(3, 4) { Durability::Durable } else { Durability::Written };
    let node = sim.add_client();
    let world = World::new(Path::new("/data"), rung, &mut prng);
    for life in 0..10 {
        let context = format!("seed {seed} life {life} {rung:?}");
        let (life_us, clean) = (prng.below(40_000), prng.chance(1, 5));
        let run = Rc::clone(&world).run(Prng::new(prng.next_u64()), life_us, clean, context);
        let task = sim.spawn(node, CoreId(0), run);
        // Mostly the death comes while the log lives, sometimes while it is recovered or closed.
        let bound = Duration::from_micros(if prng.chance(1, 2) { 1 + prng.below(60_000) } else { 10_000_000 });
        sim.run_until(bound, || task.is_finished());
        drop(task);
        if rung == Durability::Durable && prng.chance(1, 2) {
            sim.crash(node);
        } else {
            sim.kill(node);
        }
        sim.restart(node);
    }
}
