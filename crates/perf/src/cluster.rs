//! What is asked of a cluster beside the load: versions, leaders, topics, offsets, producer ids.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use base::Uuid;
use bytes::Bytes;
use wire::api_versions_request::ApiVersionsRequest;
use wire::api_versions_response::ApiVersionsResponse;
use wire::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use wire::create_topics_response::CreateTopicsResponse;
use wire::delete_topics_request::DeleteTopicsRequest;
use wire::delete_topics_response::DeleteTopicsResponse;
use wire::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest};
use wire::incremental_alter_configs_response::IncrementalAlterConfigsResponse;
use wire::init_producer_id_request::InitProducerIdRequest;
use wire::init_producer_id_response::InitProducerIdResponse;
use wire::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use wire::list_offsets_response::ListOffsetsResponse;
use wire::metadata_request::{MetadataRequest, MetadataRequestTopic};
use wire::metadata_response::MetadataResponse;
use wire::{ApiKey, Encode, ErrorCode};

use crate::conn::{Asking, answer, resolve};
use crate::plan::{Plan, TopicPlan};

/// Questions for leaders, and the like, until a cluster counts as broken: some five minutes, as thousands of new partitions
/// take a broker that long.
pub(crate) const LEADER_STEPS_MAX: u32 = 300;
/// The first pause between two of them; each one is twice as long, up to [`LEADER_PAUSE_MS_MAX`], so that asking does not keep
/// the broker from what is waited for.
const LEADER_PAUSE_MS_MIN: u64 = 10;
/// The longest pause.
const LEADER_PAUSE_MS_MAX: u64 = 1000;
/// Partitions created by one request, and topics deleted or groups set by one: brokers refuse a change of more than 10,000 records.
const PARTITIONS_PER_REQUEST_MAX: usize = 1000;

/// Settings of groups in IncrementalAlterConfigs.
const RESOURCE_TYPE_GROUP: i8 = 32;
/// The operation that gives a setting a value.
const OPERATION_SET: i8 = 0;

/// The versions that the brokers speak.
#[derive(Clone, Debug, Default)]
pub(crate) struct Versions(BTreeMap<i16, (i16, i16)>);

impl Versions {
    /// The highest version of `key`, up to `top`, that both sides speak.
    pub(crate) fn pick(&self, key: ApiKey, top: i16) -> Result<i16, String> {
        let Some((min, max)) = self.0.get(&key.code()) else {
            return Err(format!("the broker does not serve {key}"));
        };
        let version = top.min(*max).min(key.info().max_stable);
        if version < *min || version < key.info().min {
            return Err(format!("the broker serves {key} in versions {min} to {max}, none of which is known here"));
        }
        Ok(version)
    }
}

/// Versions of the requests that carry the load, chosen once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadVersions {
    pub(crate) produce: i16,
    pub(crate) fetch: i16,
}

impl LoadVersions {
    pub(crate) fn of(versions: &Versions) -> Result<LoadVersions, String> {
        Ok(LoadVersions { produce: versions.pick(ApiKey::Produce, 13)?, fetch: versions.pick(ApiKey::Fetch, 17)? })
    }
}

/// Who leads what.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// Addresses by node id.
    pub(crate) brokers: BTreeMap<i32, SocketAddr>,
    /// The topics of the plan, in its order.
    pub(crate) topics: Vec<TopicView>,
}

/// A topic.
#[derive(Clone, Debug, Default)]
pub(crate) struct TopicView {
    pub(crate) name: String,
    pub(crate) id: Uuid,
    /// Leader of each partition.
    pub(crate) leaders: Vec<i32>,
}

impl View {
    /// Every partition as (topic, partition).
    pub(crate) fn partitions(&self) -> Vec<(usize, i32)> {
        let topics = self.topics.iter().enumerate();
        topics.flat_map(|(t, topic)| (0..topic.leaders.len() as i32).map(move |p| (t, p))).collect()
    }

    /// The address of the leader of a partition.
    pub(crate) fn leader(&self, topic: usize, partition: i32) -> Option<(i32, SocketAddr)> {
        let id = *self.topics.get(topic)?.leaders.get(usize::try_from(partition).ok()?)?;
        Some((id, *self.brokers.get(&id)?))
    }
}

/// A connection for questions, to any broker.
pub(crate) struct Admin {
    asking: Asking,
    versions: Versions,
}

impl Admin {
    /// Connects to the first of `addresses` that answers.
    pub(crate) async fn connect(addresses: &[SocketAddr]) -> Result<Admin, String> {
        let mut last = "no bootstrap server was given".to_owned();
        for address in addresses {
            match Admin::connect_to(*address).await {
                Ok(admin) => return Ok(admin),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn connect_to(address: SocketAddr) -> Result<Admin, String> {
        let mut asking = Asking::connect(address).await?;
        let (key, version) = (ApiKey::ApiVersions, 3);
        let request = hello();
        let (frame, id) = asking.ask_soon(key, version, &request).await?;
        let said: ApiVersionsResponse<'_> = answer(&frame, key, version, id)?;
        check(said.error_code, || format!("{address} refuses ApiVersions"))?;
        let versions = said.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version)));
        Ok(Admin { versions: Versions(versions.collect()), asking })
    }

    /// The versions this broker speaks.
    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Asks and waits.
    pub(crate) async fn ask(&mut self, key: ApiKey, version: i16, body: &impl Encode) -> Result<(Bytes, i32), String> {
        self.asking.ask_soon(key, version, body).await
    }

    /// Asks once for `topics`. Topics that do not exist, and those that have a partition without a leader, stand there
    /// without partitions.
    pub(crate) async fn view(&mut self, topics: &[TopicPlan]) -> Result<View, String> {
        let key = ApiKey::Metadata;
        let version = self.versions.pick(key, 13)?;
        let wanted =
            topics.iter().map(|t| MetadataRequestTopic { name: Some(t.name.as_str().into()), ..Default::default() });
        let request = MetadataRequest {
            topics: Some(wanted.collect()),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let (frame, id) = self.asking.ask_soon(key, version, &request).await?;
        let said: MetadataResponse<'_> = answer(&frame, key, version, id)?;
        check(said.error_code, || "Metadata".to_owned())?;
        let mut view = View::default();
        for broker in &said.brokers {
            let port = u16::try_from(broker.port)
                .map_err(|_| format!("broker {} has port {}", broker.node_id, broker.port))?;
            view.brokers.insert(broker.node_id, resolve(&broker.host, port)?);
        }
        let by_name: BTreeMap<&str, _> = said.topics.iter().filter_map(|t| Some((t.name.as_deref()?, t))).collect();
        for topic in topics {
            let mut found = TopicView { name: topic.name.clone(), ..TopicView::default() };
            if let Some(told) = by_name.get(topic.name.as_str()) {
                match ErrorCode(told.error_code) {
                    ErrorCode::NONE => {
                        found.id = told.topic_id;
                        found.leaders = leaders(&told.partitions);
                    }
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::LEADER_NOT_AVAILABLE => {}
                    error => return Err(format!("topic {}: {error}", topic.name)),
                }
            }
            view.topics.push(found);
        }
        Ok(view)
    }

    /// The topics of the plan with a leader for each partition; those that are missing are created if the plan says so.
    pub(crate) async fn prepare(&mut self, plan: &Plan) -> Result<View, String> {
        let view = self.view(&plan.topics).await?;
        let absent = |t: &&TopicPlan| view.topics.iter().any(|found| found.name == t.name && found.leaders.is_empty());
        let missing: Vec<&TopicPlan> = plan.topics.iter().filter(absent).collect();
        if let Some(first) = missing.first()
            && !plan.create
        {
            return Err(format!("topic {} does not exist; create it, or pass --create", first.name));
        }
        for some in missing.chunks(per_request(plan.partitions)) {
            self.create(plan, some).await?;
        }
        let view = self.wait_for_leaders(&plan.topics).await?;
        for topic in &view.topics {
            if let Some(partitions) = plan.partitions.filter(|n| *n as usize != topic.leaders.len()) {
                let have = topic.leaders.len();
                return Err(format!("topic {} has {have} partitions, not the {partitions} asked for", topic.name));
            }
        }
        Ok(view)
    }

    /// Waits until every topic has all its leaders.
    pub(crate) async fn wait_for_leaders(&mut self, topics: &[TopicPlan]) -> Result<View, String> {
        for step in 0..LEADER_STEPS_MAX {
            let view = self.view(topics).await?;
            if view.topics.iter().all(|t| !t.leaders.is_empty()) {
                return Ok(view);
            }
            pause(step).await;
        }
        Err("the topics exist, but some partitions have no leader".to_owned())
    }

    /// Deletes the topics of the plan.
    pub(crate) async fn delete(&mut self, topics: &[TopicPlan]) -> Result<(), String> {
        let key = ApiKey::DeleteTopics;
        let version = self.versions.pick(key, 5)?;
        for some in topics.chunks(PARTITIONS_PER_REQUEST_MAX) {
            let names = some.iter().map(|topic| topic.name.as_str().into());
            let request = DeleteTopicsRequest {
                topic_names: names.collect(),
                timeout_ms: 60_000,
                ..DeleteTopicsRequest::default()
            };
            let (frame, id) = self.asking.ask_soon(key, version, &request).await?;
            let said: DeleteTopicsResponse<'_> = answer(&frame, key, version, id)?;
            for topic in &said.responses {
                let name = topic.name.as_deref().unwrap_or("");
                check(topic.error_code, || format!("deleting topic {name}"))?;
            }
        }
        Ok(())
    }

    /// Gives each of the groups the settings; they need not exist.
    pub(crate) async fn configure(&mut self, groups: &[String], configs: &[(String, String)]) -> Result<(), String> {
        if configs.is_empty() {
            return Ok(());
        }
        let key = ApiKey::IncrementalAlterConfigs;
        let version = self.versions.pick(key, 1)?;
        let set = |(name, value): &(String, String)| AlterableConfig {
            name: name.clone().into(),
            config_operation: OPERATION_SET,
            value: Some(value.clone().into()),
        };
        for some in groups.chunks(PARTITIONS_PER_REQUEST_MAX) {
            let resources = some.iter().map(|group| AlterConfigsResource {
                resource_type: RESOURCE_TYPE_GROUP,
                resource_name: group.into(),
                configs: configs.iter().map(set).collect(),
            });
            let request = IncrementalAlterConfigsRequest { resources: resources.collect(), validate_only: false };
            let (frame, id) = self.asking.ask_soon(key, version, &request).await?;
            let said: IncrementalAlterConfigsResponse<'_> = answer(&frame, key, version, id)?;
            for told in &said.responses {
                check(told.error_code, || {
                    let why = told.error_message.as_deref().unwrap_or("");
                    format!("settings of group {}: {why}", told.resource_name)
                })?;
            }
        }
        Ok(())
    }

    async fn create(&mut self, plan: &Plan, topics: &[&TopicPlan]) -> Result<(), String> {
        let key = ApiKey::CreateTopics;
        let version = self.versions.pick(key, 7)?;
        let configs = plan.topic_configs.iter();
        let configs: Vec<_> =
            configs.map(|(k, v)| CreatableTopicConfig { name: k.into(), value: Some(v.into()) }).collect();
        let topics = topics.iter().map(|topic| CreatableTopic {
            name: topic.name.as_str().into(),
            num_partitions: plan.partitions.unwrap_or(-1),
            replication_factor: plan.replication_factor,
            configs: configs.clone(),
            ..CreatableTopic::default()
        });
        let request = CreateTopicsRequest { topics: topics.collect(), timeout_ms: 60_000, validate_only: false };
        let (frame, id) = self.asking.ask_soon(key, version, &request).await?;
        let said: CreateTopicsResponse<'_> = answer(&frame, key, version, id)?;
        for topic in &said.topics {
            if ErrorCode(topic.error_code) == ErrorCode::TOPIC_ALREADY_EXISTS {
                continue;
            }
            check(topic.error_code, || {
                let why = topic.error_message.as_deref().unwrap_or("");
                format!("creating topic {}: {why}", topic.name)
            })?;
        }
        Ok(())
    }
}

/// A pause before step number `step` of asking again.
pub(crate) async fn pause(step: u32) {
    let ms = LEADER_PAUSE_MS_MIN << step.min(10);
    reactor::sleep(Duration::from_millis(ms.min(LEADER_PAUSE_MS_MAX))).await;
}

/// Topics of so many partitions that one request may create.
fn per_request(partitions: Option<i32>) -> usize {
    let partitions = partitions.and_then(|n| usize::try_from(n).ok()).unwrap_or(1).max(1);
    (PARTITIONS_PER_REQUEST_MAX / partitions).max(1)
}

/// The leaders, or none where a partition lacks one.
fn leaders(partitions: &[wire::metadata_response::MetadataResponsePartition]) -> Vec<i32> {
    let mut found = vec![-1; partitions.len()];
    for partition in partitions {
        if let Some(place) = usize::try_from(partition.partition_index).ok().and_then(|i| found.get_mut(i)) {
            *place = partition.leader_id;
        }
    }
    if found.contains(&-1) { Vec::new() } else { found }
}

/// The offset of every partition in the order of [`View::partitions`]: -2 asks for the first, -1 for the end. Waits for
/// brokers that say who leads a partition before that one does.
pub(crate) async fn offsets(view: &View, versions: &Versions, timestamp: i64) -> Result<Vec<i64>, String> {
    let mut steps = 0;
    loop {
        match offsets_now(view, versions, timestamp).await {
            Ok(found) => return Ok(found),
            Err((error, why)) if !is_moved(error) || steps == LEADER_STEPS_MAX => return Err(why),
            Err(_) => steps += 1,
        }
        pause(steps).await;
    }
}

/// True for errors that a new look at the leaders, or time, may mend.
pub(crate) fn is_moved(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::NOT_LEADER_OR_FOLLOWER
            | ErrorCode::LEADER_NOT_AVAILABLE
            | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode::UNKNOWN_TOPIC_ID
            | ErrorCode::FENCED_LEADER_EPOCH
            | ErrorCode::UNKNOWN_LEADER_EPOCH
            | ErrorCode::REPLICA_NOT_AVAILABLE
            | ErrorCode::KAFKA_STORAGE_ERROR
    )
}

async fn offsets_now(view: &View, versions: &Versions, timestamp: i64) -> Result<Vec<i64>, (ErrorCode, String)> {
    let plain = |why: String| (ErrorCode::NONE, why);
    let key = ApiKey::ListOffsets;
    let version = versions.pick(key, 7).map_err(plain)?;
    let all = view.partitions();
    let mut found = vec![-1; all.len()];
    for (node, address) in &view.brokers {
        let mine = |(t, p): &(usize, i32)| view.leader(*t, *p).is_some_and(|(id, _)| id == *node);
        let mut asked = BTreeMap::<usize, Vec<ListOffsetsPartition>>::new();
        for (topic, partition) in all.iter().copied().filter(mine) {
            let part = ListOffsetsPartition { partition_index: partition, timestamp, ..Default::default() };
            asked.entry(topic).or_default().push(part);
        }
        if asked.is_empty() {
            continue;
        }
        let topics = asked
            .into_iter()
            .map(|(t, partitions)| ListOffsetsTopic { name: view.topics[t].name.as_str().into(), partitions });
        let request = ListOffsetsRequest { replica_id: -1, topics: topics.collect(), ..Default::default() };
        let mut asking = Asking::connect(*address).await.map_err(plain)?;
        let (frame, id) = asking.ask_soon(key, version, &request).await.map_err(plain)?;
        let said: ListOffsetsResponse<'_> = answer(&frame, key, version, id).map_err(plain)?;
        for topic in &said.topics {
            for part in &topic.partitions {
                let what = || format!("ListOffsets of {}-{}", topic.name, part.partition_index);
                check(part.error_code, what).map_err(|why| (ErrorCode(part.error_code), why))?;
                let at = |(t, p): &(usize, i32)| view.topics[*t].name == topic.name && *p == part.partition_index;
                if let Some(index) = all.iter().position(at) {
                    found[index] = part.offset;
                }
            }
        }
    }
    Ok(found)
}

/// A fresh producer id and epoch.
pub(crate) async fn producer_id(address: SocketAddr, versions: &Versions) -> Result<(i64, i16), String> {
    let key = ApiKey::InitProducerId;
    let version = versions.pick(key, 4)?;
    let request = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: i32::MAX,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    let mut asking = Asking::connect(address).await?;
    for step in 0..LEADER_STEPS_MAX {
        let (frame, id) = asking.ask_soon(key, version, &request).await?;
        let said: InitProducerIdResponse = answer(&frame, key, version, id)?;
        match ErrorCode(said.error_code) {
            ErrorCode::NONE => return Ok((said.producer_id, said.producer_epoch)),
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                pause(step).await;
            }
            error => return Err(format!("InitProducerId: {error}")),
        }
    }
    Err("the broker gives no producer id".to_owned())
}

/// The request that opens a connection.
pub(crate) fn hello() -> impl Encode {
    ApiVersionsRequest {
        client_software_name: "odradek-perf".into(),
        client_software_version: env!("CARGO_PKG_VERSION").into(),
        ..Default::default()
    }
}

/// An error code as a sentence.
pub(crate) fn check(code: i16, what: impl FnOnce() -> String) -> Result<(), String> {
    let error = ErrorCode(code);
    if error.is_none() { Ok(()) } else { Err(format!("{}: {error} ({})", what(), error.message())) }
}
