use std::path::PathBuf;
use std::sync::Arc;

use base::{Now, Offset, Prng};
use bytes::Bytes;
use controller::{Controller, Decision, Env, QuorumChange, RequestError};
use metadata::{MetadataDelta, MetadataImage, Provenance, VersionedRecord, features};
use raft::{Action, Event, OffsetAndEpoch, Raft};
use reactor::sync::oneshot;
use reactor::sync::{Receiver, channel};
use reactor::{Class, fs};
use tracing::{debug, error, info, warn};
use wire::controller_registration_request::{ControllerRegistrationRequest, Feature, Listener};
use wire::no_op_record::NoOpRecord;
use wire::{ApiKey, Encode, Writer};

use crate::batches::{Stamp, control_batch, data_batch, split};
use crate::config::QuorumConfig;
use crate::describe::describe;
use crate::error::{QuorumError, RequestFailure};
use crate::handle::{ControllerHandle, Message, REQUESTS_QUEUED_MAX, RequestContext};
use crate::publish::Publisher;
use crate::segments::SegmentLog;
use crate::store::{self, Store};
use crate::{clean, snapshot};

/// Most requests decided together and written in one go: enough to share one durable write under load, few enough that
/// the first of them does not wait long for the last.
const REQUESTS_PER_WRITE_MAX: usize = 128;

/// Milliseconds between two looks for snapshots and segments that are too old.
const CLEAN_INTERVAL_MS: u64 = 60_000;

/// An answer that waits for its records.
struct Pending {
    reply: oneshot::Sender<Result<Bytes, RequestFailure>>,
    answer: Result<Bytes, RequestFailure>,
}

/// What has been decided and not been written yet.
#[derive(Default)]
struct Unwritten {
    batches: Vec<Bytes>,
    pending: Vec<Pending>,
}

/// The controller core's one task. It decides, writes and publishes in turn, so nothing here is ever seen half done.
pub struct Quorum<P> {
    config: QuorumConfig,
    dir: PathBuf,
    publisher: P,
    messages: Receiver<Message>,
    handle: ControllerHandle,
    prng: Prng,
    log: SegmentLog,
    raft: Raft,
    controller: Controller,
    unwritten: Unwritten,
    /// Time and term of the last batch.
    last_batch: (i64, i32),
    last_write: Now,
    bytes_since_snapshot: u64,
    last_snapshot: Now,
    snapshot_running: bool,
    clean_at_ns: u64,
    published: Arc<MetadataImage>,
}

impl<P: Publisher> Quorum<P> {
    /// Reads the metadata log (making it when the directory is new), elects this node, writes what a new term begins with
    /// and publishes the first image. Requests are answered once [`Quorum::run`] runs.
    ///
    /// # Errors
    /// When the log cannot be read or written, or this node cannot lead.
    pub async fn start(config: QuorumConfig, publisher: P) -> Result<(Quorum<P>, ControllerHandle), QuorumError> {
        let now = reactor::now();
        let Store { dir, log, raft, controller, bootstrap, election, snapshot, last_batch, bytes_since_snapshot } =
            Store::open(&config, now).await?;
        let (messages, receiver) = channel(REQUESTS_QUEUED_MAX);
        let handle = ControllerHandle { messages };
        let mut quorum = Quorum {
            config,
            dir,
            publisher,
            messages: receiver,
            handle: handle.clone(),
            prng: Prng::new(reactor::random_u64()),
            log,
            raft,
            controller,
            unwritten: Unwritten::default(),
            last_batch,
            last_write: now,
            bytes_since_snapshot,
            last_snapshot: now,
            snapshot_running: false,
            clean_at_ns: now.plus_ms(CLEAN_INTERVAL_MS).mono_ns,
            published: Arc::default(),
        };
        let position = quorum.log.position(snapshot.map_or(0, |id| id.epoch));
        let actions = quorum.raft.start(now, election, position, snapshot)?;
        // The first control batch, the bootstrap records and this controller's registration go into one write.
        quorum.perform(actions).await?;
        quorum.activate(bootstrap).await?;
        Ok((quorum, handle))
    }

    /// The first records of the term, and the first image.
    async fn activate(&mut self, bootstrap: Vec<VersionedRecord<'static>>) -> Result<(), QuorumError> {
        let now = reactor::now();
        self.controller.set_voter_ids(self.raft.voters().iter().map(|voter| voter.key.id).collect());
        self.controller.set_kraft_version(self.raft.kraft_version());
        self.controller.activate(now);
        let decision = self.controller.activation_records(bootstrap)?;
        self.take_decision(now, decision).await?;
        self.register_itself(now).await?;
        self.finish_cycle(now).await?;
        let voters = self.raft.voters();
        info!(epoch = self.raft.epoch(), %voters, log_end = self.log.end(), "this node leads the metadata quorum");
        Ok(())
    }

    /// Makes this controller known to the cluster, as far as the metadata version has words for it (KIP-919).
    async fn register_itself(&mut self, now: Now) -> Result<(), QuorumError> {
        if !self.controller.image().features.metadata_version_or_min().has_controller_registration() {
            return Ok(());
        }
        let incarnation = (u128::from(reactor::random_u64()) << 64) | u128::from(reactor::random_u64());
        let listeners = self.config.endpoints.iter().map(|(endpoint, protocol)| Listener {
            name: endpoint.name.as_str().into(),
            host: endpoint.host.as_str().into(),
            port: endpoint.port,
            security_protocol: *protocol,
        });
        let supported = features::SUPPORTED.iter().map(|feature| Feature {
            name: feature.name.into(),
            min_supported_version: feature.min,
            max_supported_version: feature.max,
        });
        let request = ControllerRegistrationRequest {
            controller_id: self.config.node_id,
            incarnation_id: base::Uuid::from_u128(incarnation),
            zk_migration_ready: false,
            listeners: listeners.collect(),
            features: supported.collect(),
        };
        let mut writer = Writer::new();
        request.encode(&mut writer, 0).expect("version 0 holds every field of the request");
        let body = writer.into_bytes().unwrap_or_default();
        let env = self.env(now);
        match self.controller.handle(env, &mut self.prng, ApiKey::ControllerRegistration, 0, &body) {
            Ok(decision) => self.take_decision(now, decision).await.map(drop),
            Err(error) => {
                warn!("the controller could not register itself: {error}");
                Ok(())
            }
        }
    }

    /// Serves requests until [`ControllerHandle::stop`], then writes what is left for a clean end.
    ///
    /// # Errors
    /// When the log fails. The state in memory is ahead of the disk then and is thrown away; requests get no answer.
    pub async fn run(mut self) -> Result<(), QuorumError> {
        let outcome = self.serve().await;
        match &outcome {
            Ok(()) => info!(log_end = self.log.end(), "the controller has stopped"),
            Err(error) => error!("the controller stops: {error}"),
        }
        outcome
    }

    async fn serve(&mut self) -> Result<(), QuorumError> {
        loop {
            let deadline = self.next_deadline_ns();
            let first = match reactor::race(self.messages.recv(), reactor::sleep_until(deadline)).await {
                reactor::Either::Left(Some(message)) => Some(message),
                // Every handle is gone: nobody can ask any more.
                reactor::Either::Left(None) => Some(Message::Stop),
                reactor::Either::Right(()) => None,
            };
            let now = reactor::now();
            let mut stop = false;
            let mut next = first;
            let mut taken = 0;
            while let Some(message) = next.take() {
                stop |= self.take_message(now, message).await?;
                taken += 1;
                if !stop && taken < REQUESTS_PER_WRITE_MAX {
                    next = self.messages.try_recv();
                }
            }
            self.tick(now).await?;
            self.finish_cycle(now).await?;
            self.maybe_snapshot(now);
            self.maybe_clean(now).await?;
            if stop {
                self.log.write_indexes().await?;
                return Ok(());
            }
        }
    }

    /// Decides one message; true when it asks to stop.
    async fn take_message(&mut self, now: Now, message: Message) -> Result<bool, QuorumError> {
        match message {
            Message::Request { context, api, version, body, reply } => {
                let answer = self.decide(now, &context, api, version, &body).await?;
                self.unwritten.pending.push(Pending { reply, answer });
                Ok(false)
            }
            Message::SnapshotDone(result) => {
                self.snapshot_done(now, result).await?;
                Ok(false)
            }
            Message::Stop => Ok(true),
        }
    }

    async fn decide(
        &mut self,
        now: Now,
        context: &RequestContext,
        api: ApiKey,
        version: i16,
        body: &Bytes,
    ) -> Result<Result<Bytes, RequestFailure>, QuorumError> {
        debug!(principal = context.principal, client = context.client_id, %api, version, "controller request");
        if api == ApiKey::DescribeQuorum {
            return Ok(describe(&self.raft.view(), now, version, body));
        }
        let env = self.env(now);
        match self.controller.handle(env, &mut self.prng, api, version, body) {
            Ok(decision) => Ok(Ok(self.take_decision(now, decision).await?)),
            Err(error @ (RequestError::Api(_) | RequestError::Decode(_))) => {
                Ok(Err(RequestFailure::Malformed(error.to_string())))
            }
            Err(error @ RequestError::Encode(_)) => {
                warn!(%api, version, "an answer cannot be encoded: {error}");
                Ok(Err(RequestFailure::Malformed(error.to_string())))
            }
        }
    }

    fn env(&self, now: Now) -> Env {
        Env { now, next_offset: self.raft.log_end(), kraft_version: self.raft.kraft_version() }
    }

    /// Applies a decision to the state in memory and puts its records in line to be written; gives the answer.
    async fn take_decision<R>(&mut self, now: Now, decision: Decision<R>) -> Result<R, QuorumError> {
        if decision.quorum == Some(QuorumChange::UpgradeToDynamicVoters) {
            let actions = self.raft.step(now, Event::UpgradeToDynamicVoters);
            self.perform(actions).await?;
            self.controller.set_kraft_version(self.raft.kraft_version());
        }
        let version = self.controller.image().features.metadata_version_or_min();
        for records in split(decision.records, version.has_transactions()) {
            let base_offset = self.raft.log_end();
            let stamp = Stamp { base_offset, epoch: self.raft.epoch(), timestamp_ms: now.wall_ms };
            let unwritable = |reason| QuorumError::Record { offset: base_offset, reason };
            let batch = data_batch(stamp, &records).map_err(|error| unwritable(error.0))?;
            for (offset, (record, _)) in (base_offset..).zip(&records) {
                let replayed = self.controller.replay(offset, record);
                replayed.map_err(|error| QuorumError::Record { offset, reason: error.to_string() })?;
            }
            self.put_in_line(now, batch, records.len());
        }
        Ok(decision.response)
    }

    fn put_in_line(&mut self, now: Now, batch: Bytes, records: usize) {
        let end = self.raft.log_end() + records as Offset;
        self.unwritten.batches.push(batch);
        // Appending gives the machine nothing to do before the batch is durable.
        let actions = self.raft.step(now, Event::Appended { end });
        assert!(actions.is_empty(), "an append asks for nothing: {actions:?}");
        self.last_batch = (now.wall_ms, self.raft.epoch());
    }

    /// Carries out what the machine asks for, in order.
    async fn perform(&mut self, actions: Vec<Action>) -> Result<(), QuorumError> {
        for action in actions {
            match action {
                Action::PersistElection { state, version } => {
                    let text = state.encode(version);
                    fs::write_atomic_durable(self.dir.join("quorum-state"), text.into_bytes()).await?;
                }
                Action::BecameLeader { epoch, start } => info!(epoch, start, "elected"),
                Action::AppendControl { base_offset, epoch, timestamp_ms, records } => {
                    let stamp = Stamp { base_offset, epoch, timestamp_ms };
                    let batch = control_batch(stamp, &records)
                        .map_err(|error| QuorumError::Record { offset: base_offset, reason: error.0 })?;
                    let now = Now { wall_ms: timestamp_ms, ..reactor::now() };
                    self.put_in_line(now, batch, records.len());
                }
                Action::Committed { high_watermark } => debug!(high_watermark, "committed"),
            }
        }
        Ok(())
    }

    /// Does what is due by the clock.
    async fn tick(&mut self, now: Now) -> Result<(), QuorumError> {
        while let Some(decision) = self.controller.tick(now) {
            self.take_decision(now, decision).await?;
        }
        let idle_ms = self.config.max_idle_interval_ms;
        let idle = idle_ms > 0 && now.mono_ns >= self.last_write.plus_ms(idle_ms).mono_ns;
        if idle && self.unwritten.batches.is_empty() {
            let decision = Decision { records: vec![(NoOpRecord {}.into(), 0)], quorum: None, response: () };
            self.take_decision(now, decision).await?;
        }
        Ok(())
    }

    fn next_deadline_ns(&self) -> u64 {
        let idle_ms = self.config.max_idle_interval_ms;
        let idle = if idle_ms > 0 { self.last_write.plus_ms(idle_ms).mono_ns } else { u64::MAX };
        idle.min(self.controller.next_tick_ns()).min(self.clean_at_ns)
    }

    /// Makes what is in line durable.
    async fn write(&mut self, now: Now) -> Result<(), QuorumError> {
        let batches = std::mem::take(&mut self.unwritten.batches);
        if batches.is_empty() {
            return Ok(());
        }
        let epochs_before = self.log.epoch_count();
        self.bytes_since_snapshot += batches.iter().map(|batch| batch.len() as u64).sum::<u64>();
        self.log.append(now, batches).await?;
        if self.log.epoch_count() != epochs_before {
            self.log.write_epochs().await?;
        }
        self.last_write = now;
        let actions = self.raft.step(now, Event::Durable { end: self.log.end() });
        self.perform(actions).await
    }

    /// Writes, publishes, answers: in this order, so that an answer tells of something that is durable and everywhere.
    async fn finish_cycle(&mut self, now: Now) -> Result<(), QuorumError> {
        let wrote = !self.unwritten.batches.is_empty();
        self.write(now).await?;
        if wrote || self.published.provenance.last_offset < 0 {
            self.publish().await;
        }
        for pending in self.unwritten.pending.drain(..) {
            // A caller that went away does not want the answer any more.
            let _ = pending.reply.send(pending.answer);
        }
        Ok(())
    }

    async fn publish(&mut self) {
        if self.controller.in_transaction() {
            return;
        }
        let (last_timestamp_ms, last_epoch) = self.last_batch;
        let provenance = Provenance { last_offset: self.log.end() - 1, last_epoch, last_timestamp_ms };
        let mut delta = self.controller.take_delta(provenance);
        // What was read from the log and a snapshot has not been handed out yet: the first delta starts from nothing.
        if self.published.provenance.last_offset < 0 {
            delta = MetadataDelta::between(Arc::default(), delta.image().clone());
        }
        self.published = delta.image().clone();
        self.publisher.publish(self.published.clone(), Arc::new(delta)).await;
    }

    /// Begins a snapshot when enough was written, or long enough ago.
    fn maybe_snapshot(&mut self, now: Now) {
        let covered = self.raft.latest_snapshot().map_or(0, |id| id.offset);
        let end = self.published.provenance.last_offset + 1;
        if self.snapshot_running || end <= covered || self.controller.in_transaction() {
            return;
        }
        let by_size = self.bytes_since_snapshot >= self.config.snapshot_bytes;
        let interval = self.config.snapshot_interval_ms;
        let by_time = interval > 0 && now.mono_ns >= self.last_snapshot.plus_ms(interval).mono_ns;
        if !by_size && !by_time {
            return;
        }
        self.snapshot_running = true;
        self.bytes_since_snapshot = 0;
        self.last_snapshot = now;
        let (dir, image, messages) = (self.dir.clone(), self.published.clone(), self.handle.messages.clone());
        let quorum = self.raft.quorum_at(end);
        reactor::spawn(Class::Background, async move {
            let result = snapshot::write(&dir, &image, quorum, now.wall_ms).await;
            // A controller that has stopped meanwhile finds the file at its next start.
            let _ = messages.send(Message::SnapshotDone(result)).await;
        })
        .detach();
    }

    async fn snapshot_done(
        &mut self,
        now: Now,
        result: Result<(OffsetAndEpoch, u64), QuorumError>,
    ) -> Result<(), QuorumError> {
        self.snapshot_running = false;
        match result {
            Ok((id, bytes)) => {
                info!(offset = id.offset, epoch = id.epoch, bytes, "metadata snapshot written");
                self.raft.step(now, Event::SnapshotTaken(id));
                self.clean(now).await
            }
            // The log still holds everything; the next attempt comes with the next interval.
            Err(error) => {
                error!("the metadata snapshot failed: {error}");
                Ok(())
            }
        }
    }

    async fn maybe_clean(&mut self, now: Now) -> Result<(), QuorumError> {
        if now.mono_ns < self.clean_at_ns {
            return Ok(());
        }
        self.clean_at_ns = now.plus_ms(CLEAN_INTERVAL_MS).mono_ns;
        self.clean(now).await
    }

    /// Removes snapshots that are too old or too many, and segments that the oldest one left covers.
    async fn clean(&mut self, now: Now) -> Result<(), QuorumError> {
        let ids = store::snapshots(&self.dir).await?;
        let limits = clean::Limits { bytes: self.config.retention_bytes, ms: self.config.retention_ms };
        if let Some(oldest) = clean::snapshots(&self.dir, ids, self.log.size_bytes(), limits, now).await? {
            let start = self.log.trim(oldest).await?;
            self.raft.step(now, Event::LogTrimmed { start });
        }
        Ok(())
    }
}
