//! Dynamic configuration in the controller's own decisions, and records that follow from it.

use wire::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use wire::create_topics_response::CreateTopicsResponse;
use wire::delete_topics_request::DeleteTopicsRequest;
use wire::delete_topics_response::DeleteTopicsResponse;
use wire::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest};
use wire::incremental_alter_configs_response::IncrementalAlterConfigsResponse;
use wire::metadata_record::MetadataRecord;
use wire::{ApiKey, Decode, ErrorCode, Reader};

use super::harness::World;

fn alter(world: &mut World, kind: i8, name: &str, option: &str, op: i8, value: Option<&str>) -> ErrorCode {
    let config = AlterableConfig { name: option.into(), config_operation: op, value: value.map(Into::into) };
    let resource = AlterConfigsResource { resource_type: kind, resource_name: name.into(), configs: vec![config] };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
    let answer = world.ask(ApiKey::IncrementalAlterConfigs, 1, &request);
    let response = IncrementalAlterConfigsResponse::decode(&mut Reader::new(&answer), 1).expect("a response");
    ErrorCode(response.responses[0].error_code)
}

fn create(world: &mut World, topics: Vec<CreatableTopic<'_>>) -> Vec<ErrorCode> {
    let request = CreateTopicsRequest { topics, ..CreateTopicsRequest::default() };
    let answer = world.ask(ApiKey::CreateTopics, 7, &request);
    let response = CreateTopicsResponse::decode(&mut Reader::new(&answer), 7).expect("a response");
    response.topics.iter().map(|topic| ErrorCode(topic.error_code)).collect()
}

fn topic(name: &str, num_partitions: i32, replication_factor: i16) -> CreatableTopic<'_> {
    CreatableTopic { name: name.into(), num_partitions, replication_factor, ..CreatableTopic::default() }
}

#[test]
fn every_operation_on_everything_is_answered() {
    let mut world = World::new(true).with_brokers(1);
    world.topic("t", &[1]);
    let names = ["", "1", "t", "-1", "9999999999", "a b", "\u{1f600}"];
    let options =
        ["cleanup.policy", "retention.ms", "min.insync.replicas", "metrics", "", "nonsense", "log.retention.ms"];
    for kind in [i8::MIN, 0, 2, 4, 8, 16, 32, i8::MAX] {
        for name in names {
            for option in options {
                for op in [-1, 0, 1, 2, 3, 4, 127] {
                    for value in [None, Some(""), Some("1"), Some(",,"), Some("compact,delete")] {
                        alter(&mut world, kind, name, option, op, value);
                    }
                }
            }
        }
    }
    assert_eq!(alter(&mut world, 2, "t", "retention.ms", 0, Some("5")), ErrorCode::NONE);
}

#[test]
fn a_new_minimum_voids_eligible_leaders() {
    let mut world = World::new(true).with_brokers(1);
    world.topic("t", &[1]);
    let cleared = |world: &World| {
        world.written.iter().find_map(|(record, _)| match record {
            MetadataRecord::ClearElr(clear) => Some(clear.topic_name.to_string()),
            _ => None,
        })
    };
    assert_eq!(alter(&mut world, 2, "t", "min.insync.replicas", 0, Some("1")), ErrorCode::NONE);
    assert_eq!(cleared(&world), Some("t".to_owned()));
    assert_eq!(alter(&mut world, 4, "", "min.insync.replicas", 0, Some("2")), ErrorCode::NONE);
    assert_eq!(cleared(&world), Some(String::new()));
    let mut without = World::new(false).with_brokers(1);
    without.topic("t", &[1]);
    assert_eq!(alter(&mut without, 2, "t", "min.insync.replicas", 0, Some("1")), ErrorCode::NONE);
    assert_eq!(cleared(&without), None);
}

#[test]
fn defaults_for_topics_come_from_the_file() {
    let mut world = World::with_properties(false, "num.partitions=5\ndefault.replication.factor=2").with_brokers(3);
    assert_eq!(create(&mut world, vec![topic("t", -1, -1)]), [ErrorCode::NONE]);
    let image = world.image();
    let created = image.topics.by_name("t").expect("created");
    assert_eq!(created.partition_count(), 5);
    assert!(created.partitions().all(|(_, partition)| partition.replicas.len() == 2));
}

#[test]
fn deletion_can_be_switched_off() {
    let mut world = World::with_properties(false, "delete.topic.enable=false").with_brokers(1);
    world.topic("t", &[1]);
    let request = DeleteTopicsRequest { topic_names: vec!["t".into()], ..DeleteTopicsRequest::default() };
    for (version, expect) in [(2, ErrorCode::INVALID_REQUEST), (3, ErrorCode::TOPIC_DELETION_DISABLED)] {
        let answer = world.ask(ApiKey::DeleteTopics, version, &request);
        let response = DeleteTopicsResponse::decode(&mut Reader::new(&answer), version).expect("a response");
        assert_eq!(ErrorCode(response.responses[0].error_code), expect);
    }
    assert!(world.image().topics.by_name("t").is_some());
}

#[test]
fn ten_thousand_partitions_are_one_request_and_no_more() {
    let mut world = World::new(false).with_brokers(3);
    assert_eq!(create(&mut world, vec![topic("big", 10_001, 1)]), [ErrorCode::POLICY_VIOLATION]);
    let halves = vec![topic("a", 5_000, 1), topic("b", 5_001, 1)];
    assert_eq!(create(&mut world, halves), [ErrorCode::POLICY_VIOLATION; 2]);
    assert_eq!(create(&mut world, vec![topic("big", 9_999, 3)]), [ErrorCode::NONE]);
    assert_eq!(world.image().topics.partition_count(), 9_999);
}

#[test]
fn unclean_elections_happen_where_a_topic_allows_them() {
    let mut world = World::new(false).with_brokers(2);
    world.topic("t", &[1, 2]);
    world.beat(2, |request| request.want_fence = true);
    world.beat(2, |_| {});
    assert_eq!(world.partition("t").isr, [1]);
    world.beat(1, |request| request.want_fence = true);
    assert_eq!(world.partition("t").leader, -1);
    world.pass(301_000, &[2]);
    assert_eq!(world.partition("t").leader, -1, "not allowed");
    assert_eq!(alter(&mut world, 2, "t", "unclean.leader.election.enable", 0, Some("true")), ErrorCode::NONE);
    world.pass(301_000, &[2]);
    assert_eq!((world.partition("t").leader, world.partition("t").leader_recovery_state.value()), (2, 1));
}
