//! One partition of `__consumer_offsets` and the groups in it: carries requests to the machine, its records into the log
//! and its replies back.

use crate::core::DataCore;
use crate::groups::{LOADS_MAX, load};
use base::{LeaderEpoch, PartitionKey, Prng};
use bytes::Bytes;
use coordinator::{Answer, Batch, Shell, State, Token};
use group::{Env, GroupCounts, GroupEvents, GroupShard, Reply, Request};
use metadata::MetadataDelta;
use partition::{AppendRequest, Partition, PartitionError};
use reactor::sync::{Notify, oneshot};
use reactor::{Class, spawn};
use records::{BatchBuilder, RecordData};
use replica::Origin;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use wire::ErrorCode;

/// Bytes of keys and values in one batch: a quarter of the default `max.message.bytes`, so that the framing of many small
/// records fits too; half of a smaller `message.max.bytes`. A single larger record goes alone.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// Most bytes that a record of a batch of such a size takes beside its key and value.
const RECORD_FRAME_BYTES: usize = 16;

/// Bytes of a log from which on its load leaves enough behind, in buffers and in what grew step by step, to give it back.
const LARGE_LOAD_BYTES: usize = 1 << 20;

/// Pause before a partition whose log failed is loaded again, in milliseconds: the first, and the longest.
const RELOAD_PAUSE_MS: (u64, u64) = (100, 10_000);

/// The groups of one partition.
pub struct Host {
    key: PartitionKey,
    leader_epoch: LeaderEpoch,
    shell: RefCell<Shell<GroupShard>>,
    prng: RefCell<Prng>,
    /// Who waits for an answer. Bounded by the requests in flight, each of which holds memory that was admitted.
    waiting: RefCell<HashMap<Token, oneshot::Sender<Answer<Reply>>>>,
    next_token: Cell<Token>,
    /// There is something to append, a timer changed, or the host resigned.
    work: Notify,
    resigned: Cell<Option<ErrorCode>>,
    /// The timer that the pump last waited for, in monotonic ns.
    sleeps_until: Cell<Option<u64>>,
    /// What the machine had counted when [`Host::new_events`] was last called.
    told: Cell<GroupEvents>,
}

/// A request that the machine has taken.
pub enum Submitted {
    /// Answered.
    Done(Answer<Reply>),
    /// To be answered.
    Waiting(oneshot::Receiver<Answer<Reply>>),
}

impl Host {
    /// Begins to load the groups of a partition and to serve them.
    pub fn start(core: &Rc<DataCore>, key: PartitionKey, leader_epoch: LeaderEpoch) -> Rc<Host> {
        let host = Rc::new(Host {
            key,
            leader_epoch,
            shell: RefCell::new(Shell::new(GroupShard::new())),
            prng: RefCell::new(Prng::new(reactor::random_u64())),
            waiting: RefCell::default(),
            next_token: Cell::new(0),
            work: Notify::new(),
            resigned: Cell::new(None),
            sleeps_until: Cell::new(None),
            told: Cell::default(),
        });
        let (core, running) = (core.clone(), host.clone());
        spawn(Class::Normal, async move { running.run(&core).await }).detach();
        host
    }

    /// The partition.
    pub fn key(&self) -> PartitionKey {
        self.key
    }

    /// The epoch of the leadership under which it is hosted.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    /// What the machine has counted since the last call.
    pub fn new_events(&self) -> GroupEvents {
        let now = self.shell.borrow().machine().events();
        now.since(self.told.replace(now))
    }

    /// Whether it serves, and how many groups it has.
    pub fn counts(&self) -> (State, GroupCounts) {
        let shell = self.shell.borrow();
        (shell.state(), shell.machine().counts())
    }

    /// Stops: whoever waits is told `error`.
    pub fn resign(&self, error: ErrorCode) {
        self.resigned.set(Some(error));
        self.shell.borrow_mut().fail(error);
        self.deliver(None);
        self.work.notify_one();
    }

    /// Hands a request to the machine.
    pub fn submit(&self, core: &DataCore, request: Request<'_>) -> Submitted {
        let token = self.next_token.replace(self.next_token.get() + 1);
        self.with_env(core, |shell, env| {
            let wall_ms = env.now.wall_ms;
            shell.submit(env, wall_ms, token, request);
        });
        let answer = self.deliver(Some(token));
        self.wake_if_needed();
        match answer {
            Some(answer) => Submitted::Done(answer),
            None => {
                let (sender, receiver) = oneshot::channel();
                self.waiting.borrow_mut().insert(token, sender);
                Submitted::Waiting(receiver)
            }
        }
    }

    /// Tells the machine of new metadata.
    pub fn metadata_changed(&self, core: &DataCore, delta: &MetadataDelta) {
        self.with_env(core, |shell, env| {
            let wall_ms = env.now.wall_ms;
            shell.metadata_changed(env, wall_ms, delta);
        });
        self.deliver(None);
        self.wake_if_needed();
    }

    /// Wakes the pump when something was decided or the next timer is earlier than the one it sleeps for; most heartbeats
    /// do neither.
    fn wake_if_needed(&self) {
        let shell = self.shell.borrow();
        let earlier = shell.next_timer_ns().is_some_and(|at| self.sleeps_until.get().is_none_or(|until| at < until));
        if shell.decided_bytes() > 0 || earlier {
            self.work.notify_one();
        }
    }

    fn with_env<T>(&self, core: &DataCore, call: impl FnOnce(&mut Shell<GroupShard>, Env<'_>) -> T) -> T {
        let (image, config) = (core.image(), core.groups.config());
        let mut prng = self.prng.borrow_mut();
        let env = Env { now: reactor::now(), prng: &mut prng, image: &image, config: &config };
        call(&mut self.shell.borrow_mut(), env)
    }

    /// Gives answers to those who wait; that of `own` comes back.
    fn deliver(&self, own: Option<Token>) -> Option<Answer<Reply>> {
        let mut found = None;
        let mut shell = self.shell.borrow_mut();
        for (token, answer) in shell.answers() {
            if Some(token) == own {
                found = Some(answer);
            } else if let Some(waiting) = self.waiting.borrow_mut().remove(&token) {
                // Whoever asked may be gone.
                let _ = waiting.send(answer);
            }
        }
        found
    }

    /// Loads, serves, and loads again after a failure, until the host resigns.
    async fn run(&self, core: &Rc<DataCore>) {
        let mut pause_ms = RELOAD_PAUSE_MS.0;
        while self.resigned.get().is_none() {
            let ended = match self.load(core).await {
                Ok(partition) => {
                    pause_ms = RELOAD_PAUSE_MS.0;
                    self.serve(core, &partition).await
                }
                Err(error) => Err(error),
            };
            let Err(error) = ended else { return };
            tracing::warn!(
                partition = self.key.partition, code = %error.code, %error, pause_ms,
                "groups of a partition of __consumer_offsets are loaded again"
            );
            self.shell.borrow_mut().append_failed(coordinator::refusal_of(error.code));
            self.deliver(None);
            reactor::sleep(Duration::from_millis(pause_ms)).await;
            pause_ms = (pause_ms * 2).min(RELOAD_PAUSE_MS.1);
            if self.resigned.get().is_none() {
                core.groups.collect(self);
                self.told.take();
                *self.shell.borrow_mut() = Shell::new(GroupShard::new());
            }
        }
    }

    /// Replays the log.
    async fn load(&self, core: &Rc<DataCore>) -> Result<Partition, PartitionError> {
        let (partition, began) = (core.partitions.partition(self.key)?, reactor::now());
        let loaded = load::replay(core, &partition, &self.shell, || self.resigned.get().is_some()).await?;
        self.with_env(core, |shell, env| {
            let wall_ms = env.now.wall_ms;
            if shell.state() == State::Loading {
                shell.loaded(env, wall_ms, loaded.log_end);
            }
        });
        let ms = reactor::now().mono_ms().saturating_sub(began.mono_ms());
        core.groups.metrics.loaded(ms);
        if loaded.records > 0 && self.resigned.get().is_none() {
            let (_, counts) = self.counts();
            tracing::info!(
                partition = self.key.partition,
                records = loaded.records,
                bytes = loaded.bytes,
                groups = counts.groups(),
                offsets = counts.offsets,
                ms,
                "groups are loaded"
            );
        }
        self.deliver(None);
        if loaded.bytes >= LARGE_LOAD_BYTES && core.groups.loads.available() == LOADS_MAX {
            spawn(Class::Background, reactor::return_freed_memory()).detach();
        }
        Ok(partition)
    }

    /// Appends what is decided, batch by batch: what is decided during one append goes with the next, so batches grow
    /// with the load. Ends with `Ok` when the host resigned.
    async fn serve(&self, core: &Rc<DataCore>, partition: &Partition) -> Result<(), PartitionError> {
        loop {
            if self.resigned.get().is_some() {
                return Ok(());
            }
            let now = reactor::now();
            let due = self.shell.borrow().next_timer_ns().is_some_and(|at| at <= now.mono_ns);
            if due {
                self.with_env(core, |shell, env| shell.expire(env, now.wall_ms));
                self.deliver(None);
            }
            let batch_bytes_max = (core.groups.config().record_bytes_max / 2).min(BATCH_BYTES_MAX);
            let batch = self.shell.borrow_mut().take_batch(batch_bytes_max);
            match batch {
                Some(batch) => self.append(core, partition, batch).await?,
                None if due => reactor::yield_now().await,
                None => self.idle().await,
            }
        }
    }

    async fn append(&self, core: &DataCore, partition: &Partition, batch: Batch) -> Result<(), PartitionError> {
        let bytes = build(&batch)?;
        let request = AppendRequest {
            required_acks: -1,
            origin: Origin::Coordinator,
            expected_leader_epoch: Some(self.leader_epoch),
            transaction_verified: false,
        };
        let now = reactor::now();
        let timeout_ms = core.config().values.count("offsets.commit.timeout.ms");
        let pending = partition.append(now, &bytes, &request)?;
        let result = pending.wait_until(now.plus_ms(u64::from(timeout_ms)).mono_ns).await?;
        {
            let mut shell = self.shell.borrow_mut();
            shell.appended(result.last_offset);
            shell.committed(result.last_offset + 1);
        }
        self.deliver(None);
        Ok(())
    }

    /// Waits for work or for the next timer.
    async fn idle(&self) {
        // A call between the look at the timers and the wait leaves a permit.
        let next = self.shell.borrow().next_timer_ns();
        self.sleeps_until.set(next);
        match next {
            Some(at) => {
                reactor::race(self.work.notified(), reactor::sleep_until(at)).await;
            }
            None => self.work.notified().await,
        }
    }
}

/// The records as a batch without offsets.
fn build(batch: &Batch) -> Result<Bytes, PartitionError> {
    let mut builder = BatchBuilder::new(0);
    builder.reserve(batch.bytes + RECORD_FRAME_BYTES * batch.records.len());
    for record in &batch.records {
        builder.append(&RecordData {
            timestamp: batch.timestamp_ms,
            key: Some(record.key()),
            value: record.value(),
            headers: &[],
        });
    }
    builder.build().map_err(|error| PartitionError::new(ErrorCode::UNKNOWN_SERVER_ERROR, error.to_string()))
}
