//! Producers: each with one connection per leader, its share of the rate, and its share of the records.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use reactor::sync::Notify;
use reactor::{Class, now, spawn};
use wire::api_versions_response::ApiVersionsResponse;
use wire::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::produce_response::ProduceResponse;
use wire::{ApiKey, ErrorCode, Records};

use crate::args::Acks;
use crate::cluster::{View, hello, is_moved, producer_id};
use crate::conn::{Broken, Frames, Sender, answer, connect, request};
use crate::core::Core;
use crate::plan::LoadPlan;
use crate::schedule::{Pace, Pick, Schedule, Step};
use crate::template::Label;

/// Bytes that are gathered for one system call while requests are due.
const GATHERED_BYTES_MAX: usize = 256 << 10;
/// How long a lane sleeps at most before it looks whether it should end.
const LOOK_NS: u64 = 100_000_000;
/// How long an answer may take beyond the request timeout.
const DRAIN_NS: u64 = 5_000_000_000;
/// Version of ApiVersions, the question behind the last record.
const LAST_VERSION: i16 = 3;
/// First version of Produce that names topics by their id.
const TOPIC_IDS_FROM: i16 = 13;

/// One producer.
struct Producer {
    core: Rc<Core>,
    index: usize,
    /// Records it may still send, warm-up aside.
    quota: Cell<u64>,
    /// Its id and epoch, or -1 twice.
    id: Cell<(i64, i16)>,
    /// A lane has failed: the others end too, and all are opened anew.
    failed: Cell<bool>,
}

/// A producer's connection to one leader.
struct Lane {
    producer: Rc<Producer>,
    view: Rc<View>,
    targets: Vec<Target>,
    sender: Sender,
    flights: RefCell<VecDeque<Flight>>,
    /// A flight has landed, or the connection is broken.
    landed: Notify,
    closing: Cell<bool>,
    correlation: Cell<i32>,
}

/// A partition of a lane.
struct Target {
    topic: usize,
    partition: i32,
    sequence: Cell<i32>,
}

/// A request that waits for its answer; without batches it is the question that ends a connection without
/// acknowledgements.
struct Flight {
    correlation: i32,
    sent_ns: u64,
    picks: Vec<Pick>,
}

/// Runs producer `index` to the end of its records or of its time.
pub(crate) async fn run(core: Rc<Core>, index: usize) {
    let plan = &core.shared.plan;
    let producers = core.load().producers as u64;
    let quota = plan.records.map_or(u64::MAX, |all| all / producers + u64::from((index as u64) < all % producers));
    let producer = Rc::new(Producer {
        core: Rc::clone(&core),
        index,
        quota: Cell::new(quota),
        id: Cell::new((-1, -1)),
        failed: Cell::new(false),
    });
    let mut lanes = match producer.open().await {
        Ok(lanes) => lanes,
        Err(why) => {
            core.give_up(why);
            Vec::new()
        }
    };
    core.wait_for_start().await;
    let mut start_ns = producer.first_ns();
    while !reactor::is_stopping() {
        let running: Vec<_> =
            lanes.drain(..).map(|(lane, frames)| spawn(Class::Normal, lane.run(frames, start_ns))).collect();
        let mut behind = Vec::new();
        for lane in running {
            behind.extend(lane.await);
        }
        if !producer.failed.get() || now().mono_ns >= core.deadline_ns.get() {
            break;
        }
        start_ns = behind.into_iter().min().unwrap_or(start_ns);
        producer.failed.set(false);
        core.refresh().await;
        match producer.open().await {
            Ok(opened) => lanes = opened,
            Err(why) => {
                core.broke(why);
                producer.failed.set(true);
            }
        }
    }
    core.shared.sending.fetch_sub(1, Ordering::SeqCst);
}

impl Core {
    fn load(&self) -> &LoadPlan {
        self.shared.plan.load.as_ref().expect("producers run only with a load")
    }
}

impl Producer {
    /// Opens a connection to each leader, and gets a producer id where one is wanted.
    async fn open(self: &Rc<Producer>) -> Result<Vec<(Rc<Lane>, Frames)>, Broken> {
        let view = Rc::clone(&self.core.view.borrow());
        let mut by_leader = BTreeMap::<i32, (SocketAddr, Vec<Target>)>::new();
        for (topic, partition) in view.partitions() {
            let (node, address) =
                view.leader(topic, partition).ok_or_else(|| format!("partition {partition} has no leader"))?;
            let target = Target { topic, partition, sequence: Cell::new(0) };
            by_leader.entry(node).or_insert((address, Vec::new())).1.push(target);
        }
        if self.core.load().idempotent {
            let any = *view.brokers.values().next().ok_or("the cluster lists no broker")?;
            self.id.set(producer_id(any, &self.core.shared.versions).await?);
        }
        let mut lanes = Vec::with_capacity(by_leader.len());
        for (address, targets) in by_leader.into_values() {
            let (sender, frames) = connect(address).await?;
            let lane = Lane {
                producer: Rc::clone(self),
                view: Rc::clone(&view),
                targets,
                sender,
                flights: RefCell::default(),
                landed: Notify::new(),
                closing: Cell::new(false),
                correlation: Cell::new(0),
            };
            lanes.push((Rc::new(lane), frames));
        }
        Ok(lanes)
    }

    /// When its first record is due: producers do not send at the same moments.
    fn first_ns(&self) -> u64 {
        let begin_ns = self.core.begin_ns.get();
        self.core.load().rate.map_or(begin_ns, |rate| begin_ns + (self.index as f64 * 1e9 / rate as f64) as u64)
    }
}

impl Lane {
    /// Sends until the end; gives the moment of the first record that it could not send, if records have moments.
    async fn run(self: Rc<Lane>, frames: Frames, start_ns: u64) -> Option<u64> {
        let landing = spawn(Class::Latency, Rc::clone(&self).land(frames));
        let mut schedule = self.schedule(start_ns);
        if let Err(why) = self.send(&mut schedule).await {
            self.fail(why);
        }
        if self.load().acks == Acks::None
            && !self.producer.failed.get()
            && let Err(why) = self.ask_last().await
        {
            self.fail(why);
        }
        let limit_ns = now().mono_ns.saturating_add(self.patience_ns());
        while !self.flights.borrow().is_empty() && !self.producer.failed.get() && now().mono_ns < limit_ns {
            self.wait_for_landing().await;
        }
        self.closing.set(true);
        self.sender.close();
        landing.await;
        let lost: usize = self.flights.borrow_mut().drain(..).flat_map(|f| f.picks).map(|pick| pick.count).sum();
        if lost > 0 {
            self.core().meters.borrow_mut().sent.fail(ErrorCode::NETWORK_EXCEPTION.code(), lost as u64);
        }
        self.count_unsent(&schedule);
        schedule.behind_since()
    }

    fn core(&self) -> &Core {
        &self.producer.core
    }

    fn load(&self) -> &LoadPlan {
        self.core().load()
    }

    fn schedule(&self, start_ns: u64) -> Schedule {
        let (load, slots) = (self.load(), self.targets.len());
        let Some(rate) = load.rate else { return Schedule::closed(slots, self.producer.index) };
        // The lane's part of the rate is its part of the partitions.
        let share = slots as f64 / self.view.partitions().len() as f64 / load.producers as f64;
        Schedule::paced(Pace {
            start_ns,
            interval_ns: 1e9 / (rate as f64 * share),
            linger_ns: load.linger_ns,
            records_max: self.template().borrow().records_max(),
            slots,
            turn: self.producer.index,
            by_record: load.by_record,
        })
    }

    fn template(&self) -> &RefCell<crate::template::Template> {
        self.core().template.as_ref().expect("a core with a load has a template")
    }

    async fn send(&self, schedule: &mut Schedule) -> Result<(), Broken> {
        let core = self.core();
        loop {
            let now_ns = now().mono_ns;
            let over = self.producer.failed.get() || reactor::is_stopping() || self.producer.quota.get() == 0;
            if over || now_ns >= core.deadline_ns.get() {
                return Ok(());
            }
            if self.flights.borrow().len() >= self.load().in_flight {
                self.wait_for_landing().await;
                self.check_oldest(now_ns)?;
                continue;
            }
            let (parts, wait_ns) = self.fill(schedule);
            if parts.is_empty() {
                reactor::sleep_until(wait_ns.min(now_ns + LOOK_NS).min(core.deadline_ns.get())).await;
                continue;
            }
            let bytes: usize = parts.iter().map(Bytes::len).sum();
            self.sender.send(parts).await?;
            core.meters.borrow_mut().sent.wire_bytes += bytes as u64;
            if self.load().acks == Acks::None {
                let now_ns = now().mono_ns;
                let gone = std::mem::take(&mut *self.flights.borrow_mut());
                if self.counts_requests(now_ns) {
                    core.meters.borrow_mut().sent.requests += gone.len() as u64;
                }
                gone.iter().flat_map(|flight| &flight.picks).for_each(|pick| self.settle(pick, now_ns));
            }
        }
    }

    /// Without acknowledgements records count as sent once the kernel has them. A question behind the last one is answered
    /// when the broker has taken them all, which is the end of the run.
    async fn ask_last(&self) -> Result<(), Broken> {
        let correlation = self.correlation.get().wrapping_add(1);
        self.flights.borrow_mut().push_back(Flight { correlation, sent_ns: now().mono_ns, picks: Vec::new() });
        self.sender.send(request(ApiKey::ApiVersions, LAST_VERSION, correlation, &hello())).await
    }

    /// A broker that takes far longer than it was allowed to has lost the request.
    fn check_oldest(&self, now_ns: u64) -> Result<(), Broken> {
        let oldest_ns = self.flights.borrow().front().map_or(now_ns, |flight| flight.sent_ns);
        if now_ns.saturating_sub(oldest_ns) <= self.patience_ns() {
            return Ok(());
        }
        let seconds = self.patience_ns() / 1_000_000_000;
        Err(format!("no answer to a Produce request in {seconds} s"))
    }

    fn patience_ns(&self) -> u64 {
        u64::try_from(self.load().request_timeout.as_nanos()).unwrap_or(u64::MAX).saturating_add(DRAIN_NS)
    }

    async fn wait_for_landing(&self) {
        reactor::race(self.landed.notified(), reactor::sleep(Duration::from_nanos(LOOK_NS))).await;
    }

    /// Makes the requests that are due, as many as the connection may have in flight and one system call should carry;
    /// and tells when the next one is due.
    fn fill(&self, schedule: &mut Schedule) -> (Vec<Bytes>, u64) {
        let (mut parts, mut bytes, mut wait_ns) = (Vec::new(), 0, u64::MAX);
        while bytes < GATHERED_BYTES_MAX && self.flights.borrow().len() < self.load().in_flight {
            let (picks, wait) = self.due(schedule);
            wait_ns = wait;
            if picks.is_empty() {
                break;
            }
            let correlation = self.correlation.get().wrapping_add(1);
            self.correlation.set(correlation);
            let request = self.request(&picks, correlation);
            bytes += request.iter().map(Bytes::len).sum::<usize>();
            parts.extend(request);
            self.flights.borrow_mut().push_back(Flight { correlation, sent_ns: now().mono_ns, picks });
        }
        (parts, wait_ns)
    }

    /// The batches of the next request, or when there will be one.
    fn due(&self, schedule: &mut Schedule) -> (Vec<Pick>, u64) {
        let (mut picks, mut taken) = (Vec::new(), Vec::new());
        let (quota, measure_ns) = (&self.producer.quota, self.core().measure_ns.get());
        while picks.len() < self.load().batches_per_request && quota.get() > 0 {
            let fit = |due: usize| {
                let left = usize::try_from(quota.get()).unwrap_or(usize::MAX);
                self.template().borrow().fitting(due.min(left))
            };
            match schedule.next(now().mono_ns, &taken, fit) {
                Step::Send(pick) => {
                    if pick.first_ns >= measure_ns {
                        quota.set(quota.get().saturating_sub(pick.count as u64));
                    }
                    taken.push(pick.slot);
                    picks.push(pick);
                }
                Step::Wait(until) => return (picks, until),
                Step::Later => break,
            }
        }
        (picks, now().mono_ns)
    }

    fn request(&self, picks: &[Pick], correlation: i32) -> Vec<Bytes> {
        let version = self.core().shared.load_versions.produce;
        let mut topics: Vec<TopicProduceData<'_>> = Vec::new();
        let mut last = None;
        for pick in picks {
            let target = &self.targets[pick.slot];
            if last != Some(target.topic) {
                let topic = &self.view.topics[target.topic];
                let mut data = TopicProduceData::default();
                if version >= TOPIC_IDS_FROM {
                    data.topic_id = topic.id
                } else {
                    data.name = topic.name.as_str().into()
                }
                topics.push(data);
                last = Some(target.topic);
            }
            let records = Some(Records::Chain(self.batch(pick, target).to_vec()));
            let data = PartitionProduceData { index: target.partition, records };
            topics.last_mut().expect("just pushed").partition_data.push(data);
        }
        let load = self.load();
        let request = ProduceRequest {
            transactional_id: None,
            acks: load.acks.code(),
            timeout_ms: i32::try_from(load.request_timeout.as_millis()).unwrap_or(i32::MAX),
            topic_data: topics,
        };
        request_of(version, correlation, &request)
    }

    fn batch(&self, pick: &Pick, target: &Target) -> [Bytes; 2] {
        let (id, epoch) = self.producer.id.get();
        let sequence = target.sequence.get();
        let producer = if id < 0 { (-1, -1, -1) } else { (id, epoch, sequence) };
        // Sequence numbers go from the largest back to 0.
        target.sequence.set(((i64::from(sequence) + pick.count as i64) & i64::from(i32::MAX)) as i32);
        let label = Label { timestamp_ms: now().wall_ms, producer };
        let mut template = self.template().borrow_mut();
        if self.load().stamped {
            template.stamped(pick.count, label, self.core().shared.run_id, |i| pick.intended_ns(i))
        } else {
            template.batch(pick.count, label)
        }
    }

    /// Receives answers until the connection ends.
    async fn land(self: Rc<Lane>, mut frames: Frames) {
        loop {
            let frame = match frames.next().await {
                Ok(frame) => frame,
                Err(_) if self.closing.get() => return,
                Err(why) => return self.fail(why),
            };
            let Some(flight) = self.flights.borrow_mut().pop_front() else {
                return self.fail("an answer that nothing was asked for".to_owned());
            };
            let landed = self.answered(&frame, &flight);
            self.landed.notify_one();
            if let Err(why) = landed {
                return self.fail(why);
            }
        }
    }

    fn answered(&self, frame: &Bytes, flight: &Flight) -> Result<(), Broken> {
        let now_ns = now().mono_ns;
        let version = self.core().shared.load_versions.produce;
        if flight.picks.is_empty() {
            let _: ApiVersionsResponse<'_> = answer(frame, ApiKey::ApiVersions, LAST_VERSION, flight.correlation)?;
            self.core().meters.borrow_mut().sent.last_ns = now_ns;
            return Ok(());
        }
        let said: ProduceResponse<'_> = answer(frame, ApiKey::Produce, version, flight.correlation)?;
        if self.counts_requests(now_ns) {
            self.core().meters.borrow_mut().sent.requests += 1;
        }
        let mut settled = 0;
        for topic in &said.responses {
            for part in &topic.partition_responses {
                let asked = |pick: &&Pick| {
                    let target = &self.targets[pick.slot];
                    let view = &self.view.topics[target.topic];
                    let same =
                        if version >= TOPIC_IDS_FROM { view.id == topic.topic_id } else { view.name == topic.name };
                    target.partition == part.index && same
                };
                let pick = flight.picks.iter().find(asked).ok_or("an answer for a partition that was not asked for")?;
                settled += 1;
                self.told(pick, ErrorCode(part.error_code), now_ns);
            }
        }
        if settled == flight.picks.len() { Ok(()) } else { Err("an answer that leaves partitions out".to_owned()) }
    }

    fn counts_requests(&self, now_ns: u64) -> bool {
        let in_time = self.load().rate.is_some() || now_ns <= self.core().deadline_ns.get();
        now_ns >= self.core().measure_ns.get() && in_time
    }

    fn told(&self, pick: &Pick, error: ErrorCode, now_ns: u64) {
        if error.is_none() {
            return self.settle(pick, now_ns);
        }
        let mut meters = self.core().meters.borrow_mut();
        meters.sent.fail(error.code(), pick.count as u64);
        // With sequence numbers one failure makes all that follows fail: a new id starts afresh.
        if is_moved(error) || self.load().idempotent {
            self.producer.failed.set(true);
        }
    }

    fn settle(&self, pick: &Pick, now_ns: u64) {
        let count = pick.count as u64;
        self.core().shared.acked.fetch_add(count, Ordering::Relaxed);
        let mut meters = self.core().meters.borrow_mut();
        let meter = &mut meters.sent;
        let (first, measured) = self.measured(pick, now_ns);
        meter.warm_records += first as u64;
        if measured == 0 {
            return;
        }
        meter.records += measured as u64;
        meter.bytes += measured as u64 * self.load().recipe.record_size as u64;
        meter.batches += 1;
        meter.last_ns = now_ns;
        if pick.step_ns == 0.0 {
            meter.note(now_ns.saturating_sub(pick.first_ns), measured as u64);
        } else {
            (first..pick.count).for_each(|i| meter.note(now_ns.saturating_sub(pick.intended_ns(i)), 1));
        }
    }

    /// How many records of a batch belong to the warm-up, and how many behind them to the measurement. Records with moments
    /// belong where their moments lie. A closed loop that time ends counts what was answered in that time, as what was sent
    /// in it would take a slow broker long beyond the end.
    fn measured(&self, pick: &Pick, now_ns: u64) -> (usize, usize) {
        let (measure_ns, deadline_ns) = (self.core().measure_ns.get(), self.core().deadline_ns.get());
        if pick.step_ns > 0.0 {
            let warm = (0..pick.count).take_while(|i| pick.intended_ns(*i) < measure_ns).count();
            return (warm, pick.count - warm);
        }
        let by_time = deadline_ns < u64::MAX;
        let moment_ns = if by_time { now_ns } else { pick.first_ns };
        match moment_ns {
            before if before < measure_ns => (pick.count, 0),
            behind if by_time && behind > deadline_ns => (0, 0),
            _ => (0, pick.count),
        }
    }

    /// At the end of the time, records whose moment has passed and that were not sent tell that the rate was too high.
    fn count_unsent(&self, schedule: &Schedule) {
        let deadline_ns = self.core().deadline_ns.get();
        let Some(since_ns) = schedule.behind_since().filter(|_| now().mono_ns >= deadline_ns) else { return };
        let rate = self.load().rate.unwrap_or(0) as f64 / self.load().producers as f64;
        let share = self.targets.len() as f64 / self.view.partitions().len() as f64;
        let late = deadline_ns.saturating_sub(since_ns).saturating_sub(self.load().linger_ns);
        self.core().meters.borrow_mut().sent.unsent += (late as f64 / 1e9 * rate * share) as u64;
    }

    fn fail(&self, why: Broken) {
        if !self.producer.failed.replace(true) {
            self.core().broke(why);
        }
        self.landed.notify_one();
    }
}

fn request_of(version: i16, correlation: i32, body: &ProduceRequest<'_>) -> Vec<Bytes> {
    request(ApiKey::Produce, version, correlation, body)
}
