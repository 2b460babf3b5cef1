//! The same requests to Apache Kafka 4.4.0 and to this controller core have the same answers.

mod common;

use std::cell::RefCell;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

use base::Uuid;
use bytes::Bytes;
use common::lifecycle::{BrokerIdentity, BrokerLifecycle};
use common::{CLUSTER_ID, Home, Kafka};
use metadata::{Endpoint, MetadataDelta, MetadataImage};
use quorum::{ControllerHandle, Publisher, Quorum, RequestContext};
use reactor::{Class, block_on};
use wire::alter_configs_request::{
    AlterConfigsRequest, AlterConfigsResource as LegacyResource, AlterableConfig as Legacy,
};
use wire::alter_configs_response::AlterConfigsResponse;
use wire::alter_partition_reassignments_request::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use wire::alter_partition_reassignments_response::AlterPartitionReassignmentsResponse;
use wire::create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic};
use wire::create_partitions_response::CreatePartitionsResponse;
use wire::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use wire::create_topics_response::CreateTopicsResponse;
use wire::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use wire::delete_topics_response::DeleteTopicsResponse;
use wire::describe_quorum_request::{DescribeQuorumRequest, PartitionData, TopicData};
use wire::describe_quorum_response::DescribeQuorumResponse;
use wire::elect_leaders_request::{ElectLeadersRequest, TopicPartitions};
use wire::elect_leaders_response::ElectLeadersResponse;
use wire::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest};
use wire::incremental_alter_configs_response::IncrementalAlterConfigsResponse;
use wire::list_partition_reassignments_request::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics};
use wire::list_partition_reassignments_response::ListPartitionReassignmentsResponse;
use wire::unregister_broker_request::UnregisterBrokerRequest;
use wire::unregister_broker_response::UnregisterBrokerResponse;
use wire::update_features_request::{FeatureUpdateKey, UpdateFeaturesRequest};
use wire::update_features_response::UpdateFeaturesResponse;
use wire::{ApiKey, Decode, Encode, Reader, Writer};

#[derive(Clone, Default)]
struct Kept(Rc<RefCell<Arc<MetadataImage>>>);

impl Publisher for Kept {
    async fn publish(&self, image: Arc<MetadataImage>, _: Arc<MetadataDelta>) {
        *self.0.borrow_mut() = image;
    }
}

/// Both peers, and what they disagreed on.
struct Pair {
    kafka: Kafka,
    handle: ControllerHandle,
    compared: usize,
    differences: Vec<String>,
}

/// An answer as text that does not depend on chance: ids are hidden, lists are sorted where Kafka's order is random.
trait Plain: Debug {
    fn plain(&mut self) {}
}

impl Plain for CreateTopicsResponse<'_> {
    fn plain(&mut self) {
        for topic in &mut self.topics {
            topic.topic_id = Uuid::from_u128(u128::from(!topic.topic_id.is_zero()));
        }
        self.topics.sort_by(|a, b| (&a.name, a.error_code).cmp(&(&b.name, b.error_code)));
    }
}

impl Plain for DeleteTopicsResponse<'_> {
    fn plain(&mut self) {
        for topic in &mut self.responses {
            topic.topic_id = Uuid::from_u128(u128::from(!topic.topic_id.is_zero()));
        }
        self.responses.sort_by_key(|topic| format!("{topic:?}"));
    }
}

impl Plain for CreatePartitionsResponse<'_> {
    fn plain(&mut self) {
        self.results.sort_by_key(|topic| format!("{topic:?}"));
    }
}

impl Plain for ElectLeadersResponse<'_> {
    fn plain(&mut self) {
        self.replica_election_results.sort_by(|a, b| a.topic.cmp(&b.topic));
    }
}

impl Plain for DescribeQuorumResponse<'_> {
    fn plain(&mut self) {
        for partition in self.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            partition.high_watermark = i64::from(partition.high_watermark > 0);
            for voter in &mut partition.current_voters {
                voter.log_end_offset = i64::from(voter.log_end_offset > 0);
                voter.last_fetch_timestamp = i64::from(voter.last_fetch_timestamp > 0);
                voter.last_caught_up_timestamp = i64::from(voter.last_caught_up_timestamp > 0);
            }
        }
        for listener in self.nodes.iter_mut().flat_map(|node| &mut node.listeners) {
            listener.port = 0;
        }
    }
}

impl Plain for AlterConfigsResponse<'_> {}
impl Plain for IncrementalAlterConfigsResponse<'_> {}
impl Plain for UpdateFeaturesResponse<'_> {}
impl Plain for AlterPartitionReassignmentsResponse<'_> {}
impl Plain for ListPartitionReassignmentsResponse<'_> {}
impl Plain for UnregisterBrokerResponse<'_> {}

/// Sends a request to both and compares the answers as the given response.
macro_rules! compare {
    ($pair:expr, $api:expr, $versions:expr, $response:ty, $request:expr) => {
        for version in $versions {
            let body = $pair.body(&$request, version);
            let theirs = $pair.kafka.request($api, version, &body);
            let ours = $pair.ask($api, version, body).await;
            let text = |bytes: &Bytes| {
                let mut response = <$response>::decode(&mut Reader::new(bytes), version).expect("a response");
                response.plain();
                format!("{response:#?}")
            };
            $pair.judge(&format!("{} v{version} {:?}", stringify!($request), $request), text(&theirs), text(&ours));
        }
    };
}

impl Pair {
    fn body(&self, request: &impl Encode, version: i16) -> Bytes {
        let mut writer = Writer::new();
        request.encode(&mut writer, version).expect("encodable");
        writer.into_bytes().unwrap_or_default()
    }

    async fn ask(&self, api: ApiKey, version: i16, body: Bytes) -> Bytes {
        let context = RequestContext { principal: "User:test".to_owned(), client_id: None };
        self.handle.request(context, api, version, body).await.expect("an answer")
    }

    fn judge(&mut self, request: &str, theirs: String, ours: String) {
        self.compared += 1;
        if theirs == ours {
            return;
        }
        let differing = |a: &str, b: &str| {
            let other: Vec<&str> = b.lines().collect();
            let lines = a.lines().enumerate().filter(|(i, line)| other.get(*i) != Some(line));
            lines.map(|(_, line)| line.trim().to_owned()).take(12).collect::<Vec<_>>().join("\n    ")
        };
        let (request, _) = request.split_at(request.len().min(700));
        self.differences.push(format!(
            "{request}\n  Kafka:\n    {}\n  Odradek:\n    {}",
            differing(&theirs, &ours),
            differing(&ours, &theirs)
        ));
    }
}

fn topic(name: &str, partitions: i32, factor: i16) -> CreatableTopic<'_> {
    CreatableTopic { name: name.into(), num_partitions: partitions, replication_factor: factor, ..Default::default() }
}

fn with_configs<'t>(topic: CreatableTopic<'t>, configs: &[(&'t str, Option<&'t str>)]) -> CreatableTopic<'t> {
    let config = |(name, value): &(&'t str, Option<&'t str>)| CreatableTopicConfig {
        name: (*name).into(),
        value: value.map(Into::into),
    };
    CreatableTopic { configs: configs.iter().map(config).collect(), ..topic }
}

fn assigned<'t>(topic: CreatableTopic<'t>, assignments: &[(i32, &[i32])]) -> CreatableTopic<'t> {
    let assignment =
        |(index, ids): &(i32, &[i32])| CreatableReplicaAssignment { partition_index: *index, broker_ids: ids.to_vec() };
    CreatableTopic { assignments: assignments.iter().map(assignment).collect(), ..topic }
}

fn create(topics: Vec<CreatableTopic<'_>>) -> CreateTopicsRequest<'_> {
    CreateTopicsRequest { topics, ..Default::default() }
}

async fn create_topics(pair: &mut Pair) {
    let long = "n".repeat(250);
    let names = ["", ".", "..", "a b", "\u{e4}", "ok", "ok", "dup", "dup", "dup", "__cluster_metadata", "__internal"];
    compare!(
        pair,
        ApiKey::CreateTopics,
        [7],
        CreateTopicsResponse<'_>,
        create(names.iter().map(|name| topic(name, 1, 1)).chain([topic(&long, 1, 1)]).collect())
    );
    compare!(pair, ApiKey::CreateTopics, 2..=7, CreateTopicsResponse<'_>, create(vec![topic("__internal", 1, 1)]));
    let dotted = create(vec![topic("a.b", 1, 1)]);
    compare!(pair, ApiKey::CreateTopics, [7], CreateTopicsResponse<'_>, dotted);
    let colliding = create(vec![topic("a_b", 1, 1), topic("a.b", 1, 1), topic("a_c", 1, 1), topic("a.c", 1, 1)]);
    compare!(pair, ApiKey::CreateTopics, [7], CreateTopicsResponse<'_>, colliding);
    for (partitions, factor) in
        [(0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (1, 100), (-1, -1), (3, -1), (-1, 1), (10_001, 1), (i32::MAX, 1)]
    {
        let name = format!("n{partitions}-{factor}");
        compare!(
            pair,
            ApiKey::CreateTopics,
            [4, 5, 7],
            CreateTopicsResponse<'_>,
            create(vec![topic(&name, partitions, factor)])
        );
    }
}

async fn create_assigned_topics(pair: &mut Pair) {
    let cases: [&[(i32, &[i32])]; 9] = [
        &[(0, &[1])],
        &[(0, &[1]), (1, &[1])],
        &[(0, &[])],
        &[(0, &[2])],
        &[(0, &[1, 1])],
        &[(0, &[1]), (0, &[1])],
        &[(1, &[1])],
        &[(0, &[1]), (2, &[1])],
        &[(0, &[1]), (1, &[1, 2])],
    ];
    for (n, case) in cases.iter().enumerate() {
        let name = format!("assigned{n}");
        compare!(
            pair,
            ApiKey::CreateTopics,
            [7],
            CreateTopicsResponse<'_>,
            create(vec![assigned(topic(&name, -1, -1), case)])
        );
        compare!(
            pair,
            ApiKey::CreateTopics,
            [7],
            CreateTopicsResponse<'_>,
            create(vec![assigned(topic(&name, 1, -1), case)])
        );
        compare!(
            pair,
            ApiKey::CreateTopics,
            [7],
            CreateTopicsResponse<'_>,
            create(vec![assigned(topic(&name, -1, 1), case)])
        );
    }
}

async fn create_configured_topics(pair: &mut Pair) {
    let configs: [&[(&str, Option<&str>)]; 9] = [
        &[("retention.ms", Some("1000")), ("cleanup.policy", Some("compact,delete"))],
        &[("retention.ms", None)],
        &[("retention.ms", None), ("segment.ms", None)],
        &[("no.such.option", Some("1"))],
        &[("retention.ms", Some("x"))],
        &[("retention.ms", Some("-5"))],
        &[("min.insync.replicas", Some("0"))],
        &[("compression.type", Some("zstd")), ("compression.zstd.level", Some("99"))],
        &[("min.insync.replicas", Some("2"))],
    ];
    for (n, case) in configs.iter().enumerate() {
        let name = format!("configured{n}");
        let request = create(vec![with_configs(topic(&name, 1, 1), case)]);
        compare!(
            pair,
            ApiKey::CreateTopics,
            [7],
            CreateTopicsResponse<'_>,
            CreateTopicsRequest { validate_only: true, ..request.clone() }
        );
        compare!(pair, ApiKey::CreateTopics, [7], CreateTopicsResponse<'_>, request);
    }
}

async fn create_partitions(pair: &mut Pair) {
    let setup = create(vec![topic("parts", 2, 1), topic("other", 1, 1)]);
    compare!(pair, ApiKey::CreateTopics, [7], CreateTopicsResponse<'_>, setup);
    let add = |name: &'static str, count, assignments: Option<Vec<Vec<i32>>>| CreatePartitionsTopic {
        name: name.into(),
        count,
        assignments: assignments
            .map(|list| list.into_iter().map(|broker_ids| CreatePartitionsAssignment { broker_ids }).collect()),
    };
    let request = |topics: Vec<CreatePartitionsTopic<'static>>, validate_only| CreatePartitionsRequest {
        topics,
        timeout_ms: 5_000,
        validate_only,
    };
    for (count, assignments) in [
        (1, None),
        (2, None),
        (0, None),
        (-1, None),
        (20_000, None),
        (3, Some(vec![vec![1], vec![1]])),
        (3, Some(vec![vec![2]])),
        (3, Some(vec![vec![1, 1]])),
        (3, Some(vec![vec![]])),
        (4, Some(vec![vec![1], vec![1]])),
    ] {
        for validate_only in [true, false] {
            let asked = vec![add("parts", count, assignments.clone())];
            compare!(
                pair,
                ApiKey::CreatePartitions,
                [3],
                CreatePartitionsResponse<'_>,
                request(asked.clone(), validate_only)
            );
        }
    }
    let many = vec![
        add("parts", 9, None),
        add("nowhere", 3, None),
        add("other", 2, None),
        add("dup", 1, None),
        add("dup", 2, None),
    ];
    compare!(pair, ApiKey::CreatePartitions, 0..=3, CreatePartitionsResponse<'_>, request(many.clone(), true));
    compare!(pair, ApiKey::CreatePartitions, [3], CreatePartitionsResponse<'_>, request(many.clone(), false));
}

async fn delete_topics(pair: &mut Pair) {
    let setup = create(vec![topic("gone1", 1, 1), topic("gone2", 1, 1), topic("gone3", 1, 1)]);
    compare!(pair, ApiKey::CreateTopics, [7], CreateTopicsResponse<'_>, setup);
    let named = |names: &[&'static str]| DeleteTopicsRequest {
        topic_names: names.iter().map(|name| (*name).into()).collect(),
        timeout_ms: 5_000,
        ..Default::default()
    };
    compare!(pair, ApiKey::DeleteTopics, 1..=5, DeleteTopicsResponse<'_>, named(&["nowhere", "dup", "dup", ""]));
    compare!(pair, ApiKey::DeleteTopics, [5, 5], DeleteTopicsResponse<'_>, named(&["gone1"]));
    let state = |name: Option<&'static str>, id: u128| DeleteTopicState {
        name: name.map(Into::into),
        topic_id: Uuid::from_u128(id),
    };
    let states = |topics: Vec<DeleteTopicState<'static>>| DeleteTopicsRequest {
        topics,
        timeout_ms: 5_000,
        ..Default::default()
    };
    for asked in [
        vec![state(None, 0)],
        vec![state(Some("gone2"), 5)],
        vec![state(None, 77)],
        vec![state(None, 77), state(None, 77)],
        vec![state(Some("gone2"), 0), state(Some("gone2"), 0)],
        vec![state(Some("nowhere"), 0), state(Some("gone2"), 0)],
        vec![],
    ] {
        compare!(pair, ApiKey::DeleteTopics, [6], DeleteTopicsResponse<'_>, states(asked.clone()));
    }
}

fn change<'t>(kind: i8, name: &'t str, configs: &[(&'t str, i8, Option<&'t str>)]) -> AlterConfigsResource<'t> {
    let config = |(name, op, value): &(&'t str, i8, Option<&'t str>)| AlterableConfig {
        name: (*name).into(),
        config_operation: *op,
        value: value.map(Into::into),
    };
    AlterConfigsResource {
        resource_type: kind,
        resource_name: name.into(),
        configs: configs.iter().map(config).collect(),
    }
}

async fn incremental_alter_configs(pair: &mut Pair) {
    let setup = create(vec![topic("conf", 1, 1)]);
    compare!(pair, ApiKey::CreateTopics, [7], CreateTopicsResponse<'_>, setup);
    let (topic, broker, logger, metrics, group) = (2, 4, 8, 16, 32);
    let cases: Vec<AlterConfigsResource<'static>> = vec![
        change(topic, "conf", &[("retention.ms", 0, Some("1"))]),
        change(topic, "conf", &[("retention.ms", 1, None)]),
        change(topic, "conf", &[("cleanup.policy", 2, Some("compact"))]),
        change(topic, "conf", &[("cleanup.policy", 3, Some("delete"))]),
        change(topic, "conf", &[("cleanup.policy", 3, Some("compact"))]),
        change(topic, "conf", &[("retention.ms", 2, Some("1"))]),
        change(topic, "conf", &[("retention.ms", 0, None)]),
        change(topic, "conf", &[("retention.ms", 0, Some("1")), ("retention.ms", 1, None)]),
        change(topic, "conf", &[("nonsense", 0, Some("1"))]),
        change(topic, "conf", &[("nonsense", 1, None)]),
        change(topic, "conf", &[("min.insync.replicas", 0, Some("1"))]),
        change(topic, "conf", &[("min.insync.replicas", 1, None)]),
        change(topic, "nowhere", &[("retention.ms", 0, Some("1"))]),
        change(topic, "", &[("retention.ms", 0, Some("1"))]),
        change(topic, "a b", &[("retention.ms", 0, Some("1"))]),
        change(topic, "conf", &[]),
        change(broker, "1", &[("log.cleaner.threads", 0, Some("2"))]),
        change(broker, "", &[("log.cleaner.threads", 0, Some("2"))]),
        change(broker, "1", &[("log.cleaner.threads", 0, Some("x"))]),
        change(broker, "1", &[("node.id", 0, Some("2"))]),
        change(broker, "1", &[("min.insync.replicas", 0, Some("2"))]),
        change(broker, "", &[("min.insync.replicas", 1, None)]),
        change(broker, "", &[("min.insync.replicas", 0, Some("1"))]),
        change(broker, "2", &[("log.cleaner.threads", 0, Some("2"))]),
        change(broker, "x", &[("log.cleaner.threads", 0, Some("2"))]),
        change(broker, "1", &[("log.cleaner.threads", 1, None)]),
        change(broker, "", &[("log.cleaner.threads", 1, None)]),
        change(logger, "1", &[("nowhere.at.all", 0, Some("INFO"))]),
        change(logger, "1", &[("nowhere.at.all", 2, Some("INFO"))]),
        change(metrics, "sub", &[("interval.ms", 0, Some("1000"))]),
        change(metrics, "sub", &[("interval.ms", 0, Some("1"))]),
        change(metrics, "sub", &[("metrics", 0, Some("a,b"))]),
        change(metrics, "sub", &[("metrics", 2, Some("c"))]),
        change(metrics, "sub", &[("match", 0, Some("nonsense=1"))]),
        change(metrics, "sub", &[("nonsense", 0, Some("1"))]),
        change(metrics, "", &[("interval.ms", 0, Some("1000"))]),
        change(group, "g", &[("consumer.session.timeout.ms", 0, Some("50000"))]),
        change(group, "g", &[("consumer.session.timeout.ms", 0, Some("1"))]),
        change(group, "g", &[("nonsense", 0, Some("1"))]),
        change(group, "g", &[("streams.rack.aware.assignment.tags", 2, Some("zone"))]),
        change(group, "g", &[("streams.rack.aware.assignment.tags", 3, Some("zone"))]),
        change(metrics, "sub", &[("metrics", 3, Some("a"))]),
        change(broker, "1", &[("log.cleaner.threads", 2, Some("1"))]),
        change(group, "", &[("consumer.session.timeout.ms", 0, Some("50000"))]),
        change(1, "any", &[("x", 0, Some("1"))]),
        change(99, "any", &[("x", 0, Some("1"))]),
    ];
    for resource in cases {
        for validate_only in [true, false] {
            let request = IncrementalAlterConfigsRequest { resources: vec![resource.clone()], validate_only };
            compare!(pair, ApiKey::IncrementalAlterConfigs, [1], IncrementalAlterConfigsResponse<'_>, request);
        }
    }
    let several = IncrementalAlterConfigsRequest {
        resources: vec![
            change(topic, "conf", &[("segment.ms", 0, Some("70000"))]),
            change(topic, "nowhere", &[("segment.ms", 0, Some("1"))]),
            change(group, "twice", &[]),
            change(group, "twice", &[]),
        ],
        validate_only: false,
    };
    compare!(pair, ApiKey::IncrementalAlterConfigs, 0..=1, IncrementalAlterConfigsResponse<'_>, several);
}

async fn alter_configs(pair: &mut Pair) {
    let resource = |kind, name: &'static str, configs: &[(&'static str, Option<&'static str>)]| LegacyResource {
        resource_type: kind,
        resource_name: name.into(),
        configs: configs.iter().map(|(n, v)| Legacy { name: (*n).into(), value: v.map(Into::into) }).collect(),
    };
    for case in [
        resource(2, "conf", &[("retention.ms", Some("5")), ("segment.ms", Some("60000"))]),
        resource(2, "conf", &[("retention.ms", Some("x"))]),
        resource(2, "conf", &[("retention.ms", None)]),
        resource(2, "conf", &[]),
        resource(2, "nowhere", &[]),
        resource(4, "1", &[]),
        resource(4, "2", &[]),
        resource(8, "1", &[("root", Some("INFO"))]),
        resource(77, "1", &[]),
    ] {
        let request = AlterConfigsRequest { resources: vec![case.clone()], validate_only: false };
        compare!(pair, ApiKey::AlterConfigs, [2], AlterConfigsResponse<'_>, request);
    }
    // Kafka gives no answer at all when a resource is named twice.
    let one = AlterConfigsRequest { resources: vec![resource(2, "conf", &[])], validate_only: false };
    compare!(pair, ApiKey::AlterConfigs, 0..=2, AlterConfigsResponse<'_>, one);
}

async fn update_features(pair: &mut Pair) {
    let update = |name: &'static str, level, kind| FeatureUpdateKey {
        feature: name.into(),
        max_version_level: level,
        upgrade_type: kind,
        ..Default::default()
    };
    let cases = [
        ("metadata.version", 33, 1),
        ("metadata.version", 34, 1),
        ("metadata.version", 6, 2),
        ("metadata.version", 32, 1),
        ("metadata.version", 32, 2),
        ("metadata.version", 32, 3),
        ("metadata.version", 33, 0),
        ("metadata.version", -1, 1),
        ("group.version", 0, 1),
        ("group.version", 0, 2),
        ("group.version", 1, 1),
        ("group.version", 2, 1),
        ("group.version", 1, 3),
        ("eligible.leader.replicas.version", 0, 3),
        ("eligible.leader.replicas.version", 1, 1),
        ("share.version", 3, 1),
        ("transaction.version", 1, 2),
        ("transaction.version", 2, 1),
        ("no.such.feature", 1, 1),
        ("no.such.feature", 0, 2),
        ("kraft.version", 0, 2),
        ("kraft.version", 2, 1),
    ];
    for (name, level, kind) in cases {
        for validate_only in [true, false] {
            let request = UpdateFeaturesRequest {
                feature_updates: vec![update(name, level, kind)],
                validate_only,
                ..Default::default()
            };
            compare!(pair, ApiKey::UpdateFeatures, 1..=2, UpdateFeaturesResponse<'_>, request);
        }
    }
}

async fn leaders_and_moves(pair: &mut Pair) {
    let elect = |kind, topics: Option<Vec<(&'static str, Vec<i32>)>>| ElectLeadersRequest {
        election_type: kind,
        topic_partitions: topics.map(|list| {
            list.into_iter().map(|(topic, partitions)| TopicPartitions { topic: topic.into(), partitions }).collect()
        }),
        timeout_ms: 1_000,
    };
    let some = || Some(vec![("conf", vec![0, 9]), ("nowhere", vec![0])]);
    compare!(pair, ApiKey::ElectLeaders, 1..=2, ElectLeadersResponse<'_>, elect(0, some()));
    compare!(pair, ApiKey::ElectLeaders, 1..=2, ElectLeadersResponse<'_>, elect(1, some()));
    compare!(pair, ApiKey::ElectLeaders, [2], ElectLeadersResponse<'_>, elect(0, None));
    compare!(pair, ApiKey::ElectLeaders, [2], ElectLeadersResponse<'_>, elect(5, some()));
    let moved = |name: &'static str, index, replicas: Option<Vec<i32>>, allow| AlterPartitionReassignmentsRequest {
        timeout_ms: 1_000,
        allow_replication_factor_change: allow,
        topics: vec![ReassignableTopic {
            name: name.into(),
            partitions: vec![ReassignablePartition { partition_index: index, replicas }],
        }],
    };
    for (name, index, replicas) in [
        ("conf", 0, Some(vec![1])),
        ("conf", 0, None),
        ("conf", 5, Some(vec![1])),
        ("conf", 0, Some(vec![2])),
        ("conf", 0, Some(vec![1, 1])),
        ("conf", 0, Some(vec![])),
        ("nowhere", 0, Some(vec![1])),
    ] {
        let asked = replicas.clone();
        compare!(
            pair,
            ApiKey::AlterPartitionReassignments,
            0..=1,
            AlterPartitionReassignmentsResponse<'_>,
            moved(name, index, asked.clone(), true)
        );
        compare!(
            pair,
            ApiKey::AlterPartitionReassignments,
            [1],
            AlterPartitionReassignmentsResponse<'_>,
            moved(name, index, asked.clone(), false)
        );
    }
    let list = |topics: Option<Vec<&'static str>>| ListPartitionReassignmentsRequest {
        timeout_ms: 1_000,
        topics: topics.map(|names| {
            let topic = |name: &'static str| ListPartitionReassignmentsTopics {
                name: name.into(),
                partition_indexes: vec![0, 1],
            };
            names.into_iter().map(topic).collect()
        }),
    };
    compare!(pair, ApiKey::ListPartitionReassignments, [0], ListPartitionReassignmentsResponse<'_>, list(None));
    compare!(
        pair,
        ApiKey::ListPartitionReassignments,
        [0],
        ListPartitionReassignmentsResponse<'_>,
        list(Some(vec!["conf", "nowhere"]))
    );
}

async fn the_rest(pair: &mut Pair) {
    let quorum = |topic: &'static str, indexes: &[i32]| DescribeQuorumRequest {
        topics: vec![TopicData {
            topic_name: topic.into(),
            partitions: indexes.iter().map(|index| PartitionData { partition_index: *index }).collect(),
        }],
    };
    compare!(pair, ApiKey::DescribeQuorum, 0..=2, DescribeQuorumResponse<'_>, quorum("__cluster_metadata", &[0]));
    compare!(pair, ApiKey::DescribeQuorum, 0..=2, DescribeQuorumResponse<'_>, quorum("__cluster_metadata", &[0, 1]));
    compare!(pair, ApiKey::DescribeQuorum, 0..=2, DescribeQuorumResponse<'_>, quorum("other", &[3]));
    compare!(
        pair,
        ApiKey::UnregisterBroker,
        [0],
        UnregisterBrokerResponse<'_>,
        UnregisterBrokerRequest { broker_id: 77 }
    );
}

async fn run(config: quorum::QuorumConfig, directory: Uuid, kafka: Kafka) {
    let kept = Kept::default();
    let (quorum, handle) = Quorum::start(config, kept.clone()).await.expect("starts");
    reactor::spawn(Class::Normal, async move { quorum.run().await.expect("the controller goes on") }).detach();
    let listener = Endpoint { name: "PLAINTEXT".into(), host: "localhost".into(), port: 1, security_protocol: 0 };
    let identity = BrokerIdentity {
        id: 1,
        cluster_id: CLUSTER_ID.to_owned(),
        incarnation_id: Uuid::from_u128(1 << 100),
        listeners: vec![listener],
        rack: None,
        log_dirs: vec![directory],
        previous_epoch: -1,
    };
    let broker = BrokerLifecycle::register(handle.clone(), &identity).await.expect("registered");
    let beats = broker.clone();
    reactor::spawn(Class::Normal, async move {
        loop {
            let offset = kept.0.borrow().provenance.last_offset;
            beats.heartbeat(offset, false, vec![]).await.expect("answered");
            reactor::sleep(std::time::Duration::from_secs(1)).await;
        }
    })
    .detach();
    reactor::sleep(std::time::Duration::from_millis(200)).await;
    let mut pair = Pair { kafka, handle, compared: 0, differences: Vec::new() };
    create_topics(&mut pair).await;
    create_assigned_topics(&mut pair).await;
    create_configured_topics(&mut pair).await;
    create_partitions(&mut pair).await;
    delete_topics(&mut pair).await;
    incremental_alter_configs(&mut pair).await;
    alter_configs(&mut pair).await;
    leaders_and_moves(&mut pair).await;
    the_rest(&mut pair).await;
    update_features(&mut pair).await;
    assert!(pair.compared > 250, "only {} answers were compared", pair.compared);
    let differences = pair.differences.join("\n\n");
    assert!(differences.is_empty(), "{} of {} answers differ:\n\n{differences}", pair.differences.len(), pair.compared);
}

#[test]
fn answers_are_kafkas() {
    let theirs = Home::formatted(false, "");
    let ours = Home::formatted(false, "");
    let kafka = theirs.start_kafka();
    let (config, directory) = (ours.config(), ours.directory_id());
    block_on(run(config, directory, kafka));
}
