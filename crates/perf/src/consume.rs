//! Consumers of assigned partitions, each with one connection per leader and a fetch session on it (KIP-227).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use base::Uuid;
use reactor::{Class, Either, now, spawn};
use records::{Batch, BatchError, BatchIter, RecordIter};
use wire::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use wire::fetch_response::{FetchResponse, PartitionData};
use wire::{ApiKey, ErrorCode, Records};

use crate::cluster::{View, is_moved};
use crate::conn::{Asking, Broken, answer};
use crate::core::Core;
use crate::plan::ReadPlan;
use crate::template::read_stamp;

/// First version of Fetch that names topics by their id.
const TOPIC_IDS_FROM: i16 = 13;

/// A partition being read.
struct Reading {
    topic: usize,
    partition: i32,
    /// The offset that comes next.
    position: Cell<i64>,
    /// Where it ended at the start.
    end: i64,
}

/// One consumer.
struct Consumer {
    core: Rc<Core>,
    readings: Vec<Rc<Reading>>,
    /// A lane has failed: the others end too, and all are opened anew.
    failed: Cell<bool>,
}

/// A consumer's connection to one leader.
struct Lane {
    consumer: Rc<Consumer>,
    view: Rc<View>,
    readings: Vec<Rc<Reading>>,
    /// Where each partition stands in `readings`: by topic and partition.
    places: BTreeMap<(usize, i32), usize>,
    /// Places of topics in the view, by what answers call them.
    ids: BTreeMap<Uuid, usize>,
    names: BTreeMap<String, usize>,
    session: Cell<(i32, i32)>,
    /// Partitions that the session does not know at their present position.
    changed: RefCell<Vec<bool>>,
}

/// Runs consumer `index` of its set to the end.
pub(crate) async fn run(core: Rc<Core>, index: usize) {
    let plan = core.read();
    let mine = |(place, _): &(usize, (usize, i32))| place % plan.consumers == index % plan.consumers;
    let all = core.shared.view.partitions().into_iter().enumerate().filter(mine);
    let readings = all.map(|(place, (topic, partition))| {
        let (begin, end) = (core.shared.begins[place], core.shared.ends[place]);
        Rc::new(Reading { topic, partition, position: Cell::new(begin), end })
    });
    let consumer = Rc::new(Consumer { readings: readings.collect(), core: Rc::clone(&core), failed: Cell::new(false) });
    let mut lanes = match consumer.open().await {
        Ok(lanes) => lanes,
        Err(why) => {
            core.give_up(why);
            Vec::new()
        }
    };
    core.wait_for_start().await;
    loop {
        let running: Vec<_> = lanes.drain(..).map(|(lane, asking)| spawn(Class::Normal, lane.run(asking))).collect();
        for lane in running {
            lane.await;
        }
        if !consumer.failed.replace(false) || core.read_is_over() {
            return;
        }
        core.refresh().await;
        match consumer.open().await {
            Ok(opened) => lanes = opened,
            Err(why) => {
                core.broke(why);
                consumer.failed.set(true);
            }
        }
    }
}

impl Core {
    fn read(&self) -> &ReadPlan {
        self.shared.plan.read.as_ref().expect("consumers run only where something is read")
    }
}

impl Consumer {
    async fn open(self: &Rc<Consumer>) -> Result<Vec<(Rc<Lane>, Asking)>, Broken> {
        let view = Rc::clone(&self.core.view.borrow());
        let mut by_leader = BTreeMap::<i32, (SocketAddr, Vec<Rc<Reading>>)>::new();
        for reading in &self.readings {
            let (node, address) = view
                .leader(reading.topic, reading.partition)
                .ok_or_else(|| format!("partition {} has no leader", reading.partition))?;
            by_leader.entry(node).or_insert((address, Vec::new())).1.push(Rc::clone(reading));
        }
        let mut lanes = Vec::with_capacity(by_leader.len());
        for (address, readings) in by_leader.into_values() {
            let places = readings.iter().enumerate().map(|(i, r)| ((r.topic, r.partition), i)).collect();
            let lane = Lane {
                consumer: Rc::clone(self),
                places,
                ids: view.topics.iter().enumerate().map(|(i, t)| (t.id, i)).collect(),
                names: view.topics.iter().enumerate().map(|(i, t)| (t.name.clone(), i)).collect(),
                view: Rc::clone(&view),
                session: Cell::new((0, 0)),
                changed: RefCell::new(vec![true; readings.len()]),
                readings,
            };
            lanes.push((Rc::new(lane), Asking::connect(address).await?));
        }
        Ok(lanes)
    }
}

impl Lane {
    async fn run(self: Rc<Lane>, mut asking: Asking) {
        let core = Rc::clone(&self.consumer.core);
        let version = core.shared.load_versions.fetch;
        while !core.read_is_over() && !self.consumer.failed.get() && !self.is_at_end() {
            let request = self.request(version);
            let sent_ns = now().mono_ns;
            let asked = reactor::race(asking.ask(ApiKey::Fetch, version, &request), core.read_end()).await;
            let outcome = match asked {
                Either::Right(()) => return,
                Either::Left(Err(why)) => Err(why),
                Either::Left(Ok((frame, id))) => answer::<FetchResponse<'_>>(&frame, ApiKey::Fetch, version, id)
                    .and_then(|said| self.answered(&said, version, sent_ns)),
            };
            if let Err(why) = outcome {
                if !self.consumer.failed.replace(true) {
                    core.broke(why);
                }
                return;
            }
        }
    }

    fn is_at_end(&self) -> bool {
        let stop = self.consumer.core.read().stop_at_end;
        stop && self.readings.iter().all(|reading| reading.position.get() >= reading.end)
    }

    fn request(&self, version: i16) -> FetchRequest<'_> {
        let plan = self.consumer.core.read();
        let (session_id, session_epoch) = self.session.get();
        let mut topics: Vec<FetchTopic<'_>> = Vec::new();
        let mut last = None;
        let mut changed = self.changed.borrow_mut();
        for (reading, changed) in self.readings.iter().zip(changed.iter_mut()) {
            if session_epoch > 0 && !*changed {
                continue;
            }
            *changed = false;
            if last != Some(reading.topic) {
                let topic = &self.view.topics[reading.topic];
                let mut asked = FetchTopic::default();
                if version >= TOPIC_IDS_FROM {
                    asked.topic_id = topic.id
                } else {
                    asked.topic = topic.name.as_str().into()
                }
                topics.push(asked);
                last = Some(reading.topic);
            }
            topics.last_mut().expect("just pushed").partitions.push(FetchPartition {
                partition: reading.partition,
                fetch_offset: reading.position.get(),
                partition_max_bytes: plan.partition_max_bytes,
                ..FetchPartition::default()
            });
        }
        FetchRequest {
            max_wait_ms: plan.max_wait_ms,
            min_bytes: plan.min_bytes,
            max_bytes: plan.max_bytes,
            session_id,
            session_epoch,
            topics,
            ..FetchRequest::default()
        }
    }

    fn answered(&self, said: &FetchResponse<'_>, version: i16, sent_ns: u64) -> Result<(), Broken> {
        let core = &self.consumer.core;
        let error = ErrorCode(said.error_code);
        if !error.is_none() {
            core.meters.borrow_mut().read.fail(error.code(), 1);
            let forgotten = [ErrorCode::FETCH_SESSION_ID_NOT_FOUND, ErrorCode::INVALID_FETCH_SESSION_EPOCH];
            if !forgotten.contains(&error) {
                return Err(format!("Fetch: {error}"));
            }
            self.session.set((0, 0));
            return Ok(());
        }
        // A broker without room for sessions gives none: every request is then a full one.
        let epoch = if said.session_id == 0 { 0 } else { self.session.get().1.checked_add(1).unwrap_or(1) };
        self.session.set((said.session_id, epoch));
        let mut records = 0;
        for topic in &said.responses {
            let place =
                if version >= TOPIC_IDS_FROM { self.ids.get(&topic.topic_id) } else { self.names.get(&*topic.topic) };
            let place = *place.ok_or("an answer for a topic that was not asked for")?;
            for part in &topic.partitions {
                let index = self.places.get(&(place, part.partition_index));
                let index = *index.ok_or("an answer for a partition that was not asked for")?;
                records += self.partition(index, part)?;
            }
        }
        let mut meters = core.meters.borrow_mut();
        let now_ns = now().mono_ns;
        if now_ns < core.measure_ns.get() {
            return Ok(());
        }
        meters.read.requests += 1;
        if records > 0 && core.shared.plan.load.is_none() {
            meters.read.note(now_ns - sent_ns, 1);
        }
        Ok(())
    }

    /// Reads what came of one partition; gives the number of records.
    fn partition(&self, index: usize, part: &PartitionData) -> Result<u64, Broken> {
        let (core, reading) = (&self.consumer.core, &self.readings[index]);
        let error = ErrorCode(part.error_code);
        if !error.is_none() {
            core.meters.borrow_mut().read.fail(error.code(), 1);
            if error == ErrorCode::OFFSET_OUT_OF_RANGE && part.log_start_offset > reading.position.get() {
                reading.position.set(part.log_start_offset);
                self.changed.borrow_mut()[index] = true;
                return Ok(0);
            }
            let what = format!("Fetch of {}-{}: {error}", self.view.topics[reading.topic].name, reading.partition);
            return if is_moved(error) { self.look_again(what) } else { Err(what) };
        }
        let bytes = match &part.records {
            None => return Ok(0),
            Some(Records::Bytes(bytes)) => bytes.clone(),
            Some(_) => return Err("records that are not in memory".to_owned()),
        };
        let mut found = 0;
        for batch in BatchIter::new(bytes) {
            match batch {
                Ok(batch) => found += self.batch(reading, &batch),
                // An answer may end within a batch.
                Err(BatchError::Truncated { .. }) => break,
                Err(error) => {
                    core.meters.borrow_mut().invalid += 1;
                    return Err(format!(
                        "a batch of partition {} at {}: {error}",
                        reading.partition,
                        reading.position.get()
                    ));
                }
            }
        }
        if found > 0 {
            self.changed.borrow_mut()[index] = true;
        }
        Ok(found)
    }

    fn look_again(&self, what: String) -> Result<u64, Broken> {
        self.consumer.failed.set(true);
        self.consumer.core.meters.borrow_mut().trouble(what);
        Ok(0)
    }

    fn batch(&self, reading: &Reading, batch: &Batch) -> u64 {
        let core = &self.consumer.core;
        let (position, next) = (reading.position.get(), batch.header.next_offset());
        if next <= position {
            return 0;
        }
        let mut meters = core.meters.borrow_mut();
        if batch.header.base_offset > position {
            meters.invalid += 1;
            let base = batch.header.base_offset;
            meters.trouble(format!("partition {}: offsets {position} to {} are missing", reading.partition, base - 1));
        }
        if core.read().check_crc
            && let Err(error) = batch.verify_crc()
        {
            meters.invalid += 1;
            meters.trouble(format!("partition {} at {position}: {error}", reading.partition));
        }
        reading.position.set(next);
        let time = now();
        let records = batch.header.record_count.max(0) as u64;
        meters.read.wire_bytes += batch.bytes.len() as u64;
        if core.shared.plan.load.is_some() {
            self.stamps(batch, time.mono_ns, &mut meters);
        } else if time.mono_ns < core.measure_ns.get() {
            meters.read.warm_records += records;
        } else {
            core.shared.budget.fetch_sub(records as i64, Ordering::Relaxed);
            meters.read.records += records;
            meters.read.bytes += batch.bytes.len() as u64;
            meters.read.batches += 1;
            meters.read.last_ns = time.mono_ns;
            meters.read.note_age(time.wall_ms - batch.header.max_timestamp, records);
        }
        records
    }

    /// Notes how long the records of this run were under way.
    fn stamps(&self, batch: &Batch, now_ns: u64, meters: &mut crate::meter::Meters) {
        let shared = &self.consumer.core.shared;
        let measure_ns = self.consumer.core.measure_ns.get();
        let (mut seen, mut measured) = (0, 0);
        for record in RecordIter::new(&batch.header, batch.payload()) {
            let Ok(record) = record else {
                meters.invalid += 1;
                break;
            };
            let Some((run, intended_ns)) = record.value.and_then(read_stamp) else { continue };
            if run != shared.run_id {
                continue;
            }
            seen += 1;
            if intended_ns >= measure_ns {
                measured += 1;
                meters.read.bytes += record.value.map_or(0, <[u8]>::len) as u64;
                meters.read.note(now_ns.saturating_sub(intended_ns), 1);
            }
        }
        shared.seen.fetch_add(seen, Ordering::Relaxed);
        meters.read.records += measured;
        meters.read.warm_records += seen - measured;
        if measured > 0 {
            meters.read.batches += 1;
            meters.read.last_ns = now_ns;
        }
    }
}
