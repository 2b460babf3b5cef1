use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use base::{BrokerId, CoreId, PartitionKey, Uuid};
use config::{BrokerConfig, TopicConfig};
use log::{LogCore, LogError, LogId};
use metadata::{ConfigResource, ConfigResourceType, LocalReplica, MetadataDelta, MetadataImage, PartitionRegistration};
use replica::{EpochCache, EpochEntry, Leadership, Replica, ReplicaInit};
use wire::ErrorCode;

use crate::bytes_ahead::BytesAhead;
use crate::error::PartitionError;
use crate::fetch_wait::{FetchWait, WaitOn};
use crate::offset_waiters::OffsetWaiters;
use crate::partition::{Inner, Partition, State};
use crate::pending::KeptToken;
use crate::recovery::ProducerRecovery;
use crate::settings::{Settings, topic_config};
use crate::shared::Shared;
use crate::strays;

/// Logs opened, removed or closed at the same time. Enough to keep a disk busy, few enough that recovery of many large
/// logs does not hold all their buffers at once.
const LOGS_AT_ONCE: usize = 32;

/// Attempts to open a log whose directory still belongs to another topic id. Its home may be another core, which
/// renames it while it applies the same delta.
const PREDECESSOR_ATTEMPTS_MAX: u32 = 200;
/// Pause between those attempts.
const PREDECESSOR_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// One log directory on this core.
pub struct LogDir {
    /// `directory.id` of `meta.properties`.
    pub id: Uuid,
    /// The core's logs in it.
    pub logs: LogCore,
}

/// What a core needs to host partitions.
pub struct PartitionCoreConfig {
    /// `node.id`.
    pub broker_id: BrokerId,
    /// This core.
    pub core: CoreId,
    /// Number of data cores.
    pub cores: u16,
    /// The broker's static configuration; dynamic options are taken from the images.
    pub broker: Arc<BrokerConfig>,
    /// The log directories; at least one.
    pub dirs: Vec<LogDir>,
}

/// The partitions of one core. A cheap handle; belongs to that core.
#[derive(Clone)]
pub struct PartitionCore(pub(crate) Rc<CoreInner>);

/// A partition whose home is this core, or why there is none.
enum Hosted {
    Open { partition: Partition, dir: usize },
    Failed { reason: String },
}

pub(crate) struct CoreInner {
    config: PartitionCoreConfig,
    /// The broker's configuration with the dynamic options of the image.
    broker: RefCell<Arc<BrokerConfig>>,
    image: RefCell<Arc<MetadataImage>>,
    hosted: RefCell<BTreeMap<PartitionKey, Hosted>>,
    pub shared: Rc<Shared>,
    /// The topic whose configuration was worked out last, since the partitions of a topic come one after the other.
    resolved: RefCell<Option<(Arc<str>, Rc<TopicConfig>)>>,
    /// The first image was applied.
    settled: Cell<bool>,
    /// What runs by the clock.
    pub tasks: RefCell<Vec<reactor::Task<()>>>,
}

impl PartitionCore {
    /// A core without partitions; the first delta brings them.
    pub fn new(config: PartitionCoreConfig) -> PartitionCore {
        assert!(!config.dirs.is_empty(), "a broker has at least one log directory");
        PartitionCore(Rc::new(CoreInner {
            broker: RefCell::new(config.broker.clone()),
            config,
            image: RefCell::new(Arc::new(MetadataImage::default())),
            hosted: RefCell::new(BTreeMap::new()),
            shared: Rc::new(Shared::new()),
            resolved: RefCell::new(None),
            settled: Cell::new(false),
            tasks: RefCell::new(Vec::new()),
        }))
    }

    /// Has `keeper` told of appends that were given it to keep ([`crate::PendingAppend::keep`]). It is called outside of any
    /// borrow and may look at their outcomes, but not append. One keeper per core.
    pub fn keep_with(&self, keeper: Rc<dyn Fn(KeptToken)>) {
        *self.0.shared.keeper.borrow_mut() = Some(keeper);
    }

    /// The image that was applied last.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.0.image.borrow().clone()
    }

    /// The broker's configuration as of that image.
    pub fn broker_config(&self) -> Arc<BrokerConfig> {
        self.0.broker.borrow().clone()
    }

    /// A partition by topic id and index.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION when no such partition exists (by id, that is UNKNOWN_TOPIC_ID to a client),
    /// NOT_LEADER_OR_FOLLOWER when it lives elsewhere, KAFKA_STORAGE_ERROR when its log could not be opened.
    pub fn partition(&self, key: PartitionKey) -> Result<Partition, PartitionError> {
        match self.0.hosted.borrow().get(&key) {
            Some(Hosted::Open { partition, .. }) => return Ok(partition.clone()),
            Some(Hosted::Failed { reason }) => {
                let message = format!("partition {key} is offline: {reason}");
                return Err(PartitionError::new(ErrorCode::KAFKA_STORAGE_ERROR, message));
            }
            None => {}
        }
        let known = self.0.image.borrow().topics.partition(key.topic_id, key.partition).is_some();
        Err(if known {
            PartitionError::new(ErrorCode::NOT_LEADER_OR_FOLLOWER, format!("partition {key} is not on this broker"))
        } else {
            PartitionError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("partition {key} does not exist"))
        })
    }

    /// All open partitions of this core, in the order of their keys.
    pub fn partitions(&self) -> Vec<Partition> {
        self.0.hosted.borrow().values().filter_map(Hosted::open).map(|(partition, _)| partition.clone()).collect()
    }

    /// All open partitions with the index of their log directory, for DescribeLogDirs.
    pub fn partitions_by_dir(&self) -> Vec<(usize, Partition)> {
        let hosted = self.0.hosted.borrow();
        hosted.values().filter_map(Hosted::open).map(|(partition, dir)| (dir, partition.clone())).collect()
    }

    /// Waits until the reads behind `waits` would together give `min_bytes` (or as many as their limits allow), a
    /// partition changes, or `deadline_mono_ns` is reached. Bytes that arrive between a read and this call count.
    ///
    /// A fetch whose partitions live on several cores waits on each; with `n` of them, asking each for an `n`th of what
    /// is missing wakes at least one in time.
    pub fn wait_for_bytes(&self, waits: &[WaitOn], min_bytes: u64, deadline_mono_ns: u64) -> FetchWait {
        FetchWait::new(&self.0.shared.fetches, min_bytes, waits, deadline_mono_ns)
    }

    /// Applies what lies between the last image and `image`, which is `delta.image()`: removes, opens and changes the
    /// partitions whose home this core is. When it returns, all of them serve; one that could not be opened answers
    /// KAFKA_STORAGE_ERROR. To be called with one delta after the other, beginning with one that holds everything there
    /// is: directories of partitions it does not know are set aside.
    pub async fn apply(&self, image: &Arc<MetadataImage>, delta: &MetadataDelta) {
        if !self.0.settled.replace(true) {
            strays::set_aside(&self.0.config, image).await;
        }
        self.follow_broker_config(image, delta);
        *self.0.resolved.borrow_mut() = None;
        let changes = delta.local_changes(self.0.config.broker_id);
        // A deleted topic's successor of the same name takes its directory, so the deletions come first.
        for_each_of(changes.deleted, |replica| self.remove(replica)).await;
        let mine = changes.leading.into_iter().chain(changes.following).filter(|r| self.is_home_of(r.key)).collect();
        for_each_of(mine, |replica| self.open_or_update(image, replica)).await;
        self.follow_topic_configs(image, delta).await;
        *self.0.image.borrow_mut() = image.clone();
    }

    fn is_home_of(&self, key: PartitionKey) -> bool {
        key.home_core(self.0.config.cores) == self.0.config.core
    }

    async fn remove(&self, replica: LocalReplica) {
        let removed = self.0.hosted.borrow_mut().remove(&replica.key);
        if let Some(Hosted::Open { partition, .. }) = removed {
            partition.leave(State::Closed);
            if let Err(error) = partition.log().delete().await {
                tracing::warn!(partition = %partition.id().dir_name(), %error, "the log could not be removed");
            }
        }
    }

    async fn open_or_update(&self, image: &Arc<MetadataImage>, replica: LocalReplica) {
        let known = match self.0.hosted.borrow().get(&replica.key) {
            Some(Hosted::Open { partition, .. }) => Some(partition.clone()),
            Some(Hosted::Failed { .. }) => return,
            None => None,
        };
        if let Some(partition) = known {
            partition.set_leadership(leadership(&replica.registration));
            return;
        }
        let id = LogId { topic: replica.topic.clone(), key: replica.key };
        let hosted = match self.open(image, id.clone(), &replica.registration).await {
            Ok((partition, dir)) => Hosted::Open { partition, dir },
            Err(reason) => {
                tracing::error!(partition = %id.dir_name(), %reason, "the partition is offline");
                Hosted::Failed { reason }
            }
        };
        self.0.hosted.borrow_mut().insert(replica.key, hosted);
    }

    async fn open(
        &self,
        image: &Arc<MetadataImage>,
        id: LogId,
        registration: &PartitionRegistration,
    ) -> Result<(Partition, usize), String> {
        let settings = self.settings(image, &id);
        let dir = self.dir_of(&id, registration);
        let logs = &self.0.config.dirs[dir].logs;
        let mut attempts = 0;
        let (log, recovery) = loop {
            let mut recovery = ProducerRecovery::new(reactor::now());
            match logs.open_log(id.clone(), settings.log.clone(), &mut recovery).await {
                Ok(log) => break (log, recovery),
                Err(LogError::TopicId { .. }) if attempts < PREDECESSOR_ATTEMPTS_MAX => attempts += 1,
                Err(error) => return Err(error.to_string()),
            }
            reactor::sleep(PREDECESSOR_PAUSE).await;
        };
        let (log_start, log_end) = (log.start_offset(), log.end_offset());
        let own_end = log.promised_end().clamp(log_start, log_end);
        let epochs = log.leader_epochs().into_iter();
        let epochs = epochs.map(|e| EpochEntry { epoch: e.epoch, start_offset: e.start_offset });
        let brain = Replica::new(ReplicaInit {
            local_id: self.0.config.broker_id,
            config: settings.replica,
            log_start,
            log_end,
            own_end,
            high_watermark: log_start,
            epochs: EpochCache::from_entries(epochs),
            producers: recovery.finish(),
        });
        let partition = Partition(Rc::new(Inner {
            shared: self.0.shared.clone(),
            id,
            log,
            state: Cell::new(State::Online),
            brain: RefCell::new(brain),
            settings: RefCell::new(Rc::new(settings)),
            bytes: RefCell::new(BytesAhead::new(log_start, log_end)),
            written: RefCell::new(OffsetWaiters::default()),
            visible: RefCell::new(OffsetWaiters::default()),
        }));
        partition.set_leadership(leadership(registration));
        partition.attach();
        Ok((partition, dir))
    }

    /// The directory the controller assigned; if it left that open, the one in which the partition was found at the
    /// start, or the first.
    fn dir_of(&self, id: &LogId, registration: &PartitionRegistration) -> usize {
        let dirs = &self.0.config.dirs;
        let assigned = registration.directory(self.0.config.broker_id);
        let is_here = |dir: &LogDir| {
            let found = &dir.logs.config().start.found;
            found.iter().any(|f| f.topic_id == Some(id.key.topic_id) && f.partition == id.key.partition)
        };
        let assigned = dirs.iter().position(|dir| Some(dir.id) == assigned);
        assigned.or_else(|| (dirs.len() > 1).then(|| dirs.iter().position(is_here))?).unwrap_or(0)
    }

    fn settings(&self, image: &MetadataImage, id: &LogId) -> Settings {
        let known = self.0.resolved.borrow().as_ref().filter(|(topic, _)| *topic == id.topic).map(|(_, c)| c.clone());
        let config = known.unwrap_or_else(|| {
            let config = Rc::new(self.resolve(image, &id.topic));
            *self.0.resolved.borrow_mut() = Some((id.topic.clone(), config.clone()));
            config
        });
        Settings::new(&id.dir_name(), &config)
    }

    fn resolve(&self, image: &MetadataImage, topic: &str) -> TopicConfig {
        let broker = self.broker_config();
        let config = topic_config(image, topic, &broker.values).or_else(|error| {
            tracing::error!(topic, %error, "the topic's configuration is ignored");
            topic_config(&MetadataImage::default(), topic, &broker.values)
        });
        // The broker's own values were validated when it started and when they changed.
        config.expect("the broker's values give a valid configuration for a topic without overrides")
    }

    /// Lays the image's dynamic broker options over the static ones, if they changed.
    fn follow_broker_config(&self, image: &MetadataImage, delta: &MetadataDelta) {
        if !delta.configs().iter().any(|resource| resource.kind == ConfigResourceType::Broker) {
            return;
        }
        let default = image.configs.overrides(&ConfigResource::default_broker());
        let own = image.configs.overrides(&ConfigResource::broker(self.0.config.broker_id));
        match self.0.config.broker.with_dynamic([default, own]) {
            Ok(broker) => *self.0.broker.borrow_mut() = Arc::new(broker),
            Err(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                tracing::error!(errors = %errors.join("; "), "dynamic broker options are ignored");
            }
        }
    }

    /// Gives open partitions the settings of the image where those may have changed.
    async fn follow_topic_configs(&self, image: &MetadataImage, delta: &MetadataDelta) {
        let all = delta.configs().iter().any(|resource| resource.kind == ConfigResourceType::Broker);
        let topic_changed =
            |partition: &Partition| all || delta.configs().contains(&ConfigResource::topic(&partition.id().topic));
        if !all && !delta.configs().iter().any(|resource| resource.kind == ConfigResourceType::Topic) {
            return;
        }
        for partition in self.partitions().iter().filter(|partition| topic_changed(partition)) {
            partition.set_settings(self.settings(image, partition.id()));
            // The default of all brokers concerns every partition; requests go on in between.
            reactor::yield_now().await;
        }
    }

    /// Ends every wait for bytes on this core: the fetches are answered with what there is. For a stop, which would have to
    /// wait for their time otherwise.
    pub fn end_fetch_waits(&self) {
        for partition in self.partitions() {
            partition.0.shared.fetches.changed(partition.key());
        }
    }

    /// Stops taking appends, writes and answers what was taken, and closes the logs, which leaves plain Kafka
    /// directories, producer snapshots included. The caller then writes what one core writes for a whole directory.
    ///
    /// # Errors
    /// The first failure; the others are logged.
    pub async fn close(&self) -> Result<(), LogError> {
        self.0.stop_tasks();
        let partitions = self.partitions();
        for partition in partitions.iter().filter(|partition| partition.0.state.get() == State::Online) {
            partition.0.state.set(State::Closing);
        }
        let mut result = Ok(());
        for dir in &self.0.config.dirs {
            if let Err(error) = dir.logs.close_clean().await {
                tracing::error!(directory = %dir.logs.config().dir.display(), %error, "not closed cleanly");
                result = result.and(Err(error));
            }
        }
        for partition in &partitions {
            partition.leave(State::Closed);
        }
        result
    }
}

impl CoreInner {
    fn stop_tasks(&self) {
        for task in self.tasks.borrow_mut().drain(..) {
            task.abort();
        }
    }
}

impl Drop for CoreInner {
    fn drop(&mut self) {
        self.stop_tasks();
    }
}

impl Hosted {
    fn open(&self) -> Option<(&Partition, usize)> {
        match self {
            Hosted::Open { partition, dir } => Some((partition, *dir)),
            Hosted::Failed { .. } => None,
        }
    }
}

fn leadership(registration: &PartitionRegistration) -> Leadership {
    Leadership {
        leader: registration.leader,
        leader_epoch: registration.leader_epoch,
        partition_epoch: registration.partition_epoch,
        replicas: registration.replicas.clone(),
        isr: registration.isr.clone(),
    }
}

/// Runs `action` for every item, a bounded number at a time.
async fn for_each_of<T, F: Future<Output = ()>>(items: Vec<T>, action: impl Fn(T) -> F) {
    let mut items = items.into_iter();
    loop {
        let batch: Vec<F> = items.by_ref().take(LOGS_AT_ONCE).map(&action).collect();
        if batch.is_empty() {
            return;
        }
        reactor::join_all(batch).await;
    }
}
