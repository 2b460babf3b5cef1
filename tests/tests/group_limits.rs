//! What clients are told where a group's records are too large for the offsets topic, and of groups that do not exist. Every
//! expectation holds for Apache Kafka too: `ODRADEK_TEST_PEER=kafka`.

use odradek_tests::{Client, Node, Peer, Tool};
use wire::find_coordinator_request::FindCoordinatorRequest;
use wire::find_coordinator_response::FindCoordinatorResponse;
use wire::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::join_group_response::JoinGroupResponse;
use wire::offset_commit_request::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::offset_commit_response::OffsetCommitResponse;
use wire::offset_delete_request::{OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use wire::offset_delete_response::OffsetDeleteResponse;
use wire::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use wire::sync_group_response::SyncGroupResponse;
use wire::{ApiKey, ErrorCode};

/// The offsets topic takes no more than this in these tests, in bytes.
const MESSAGE_BYTES_MAX: usize = 600;

fn connect(node: &Node) -> Client {
    let mut client = Client::connect(node);
    client.create_topic("t", 40, &[]);
    let request = FindCoordinatorRequest { coordinator_keys: vec!["g".into()], ..Default::default() };
    loop {
        let answer: FindCoordinatorResponse<'static> = client.call(ApiKey::FindCoordinator, 4, &request);
        let found = answer.coordinators[0].error_code == 0;
        if found && commit(&mut client, "ready", 1, "") == [ErrorCode::NONE] {
            return client;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

/// Commits for so many partitions from outside the group; what is said of each, without repetitions.
fn commit(client: &mut Client, group: &str, partitions: i32, metadata: &str) -> Vec<ErrorCode> {
    let partition = |partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: 7,
        committed_metadata: Some(metadata.into()),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: "t".into(),
        partitions: (0..partitions).map(partition).collect(),
        ..Default::default()
    };
    let request = OffsetCommitRequest {
        group_id: group.into(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    };
    let answer: OffsetCommitResponse<'static> = client.call(ApiKey::OffsetCommit, 8, &request);
    let mut said: Vec<ErrorCode> = answer.topics[0].partitions.iter().map(|p| ErrorCode(p.error_code)).collect();
    said.dedup();
    said
}

/// Deletes the offset of partition 0 of each topic: the error of the whole, and those of the topics.
fn delete(client: &mut Client, group: &str, topics: &[&str]) -> Vec<ErrorCode> {
    let topic = |name: &&str| OffsetDeleteRequestTopic {
        name: (*name).to_owned().into(),
        partitions: vec![OffsetDeleteRequestPartition { partition_index: 0 }],
    };
    let request = OffsetDeleteRequest { group_id: group.into(), topics: topics.iter().map(topic).collect() };
    let answer: OffsetDeleteResponse<'static> = client.call(ApiKey::OffsetDelete, 0, &request);
    let each =
        answer.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| ErrorCode(partition.error_code));
    std::iter::once(ErrorCode(answer.error_code)).chain(each).collect()
}

/// A member that is alone in its group stores an assignment of so many bytes.
fn assign(client: &mut Client, group: &str, bytes: usize) -> ErrorCode {
    let request = JoinGroupRequest {
        group_id: group.into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol { name: "p".into(), metadata: b"m"[..].into() }],
        ..Default::default()
    };
    let joined: JoinGroupResponse<'static> = client.call(ApiKey::JoinGroup, 3, &request);
    assert_eq!(ErrorCode(joined.error_code), ErrorCode::NONE, "{joined:?}");
    let assignment =
        SyncGroupRequestAssignment { member_id: joined.member_id.clone(), assignment: vec![7; bytes].into() };
    let request = SyncGroupRequest {
        group_id: group.into(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        assignments: vec![assignment],
        ..Default::default()
    };
    let synced: SyncGroupResponse<'static> = client.call(ApiKey::SyncGroup, 3, &request);
    ErrorCode(synced.error_code)
}

#[test]
fn records_too_large_for_the_offsets_topic() {
    let node = Node::start();
    let mut client = connect(&node);
    let setting = format!("max.message.bytes={MESSAGE_BYTES_MAX}");
    let bootstrap = node.bootstrap();
    let alter = ["--bootstrap-server", &bootstrap, "--alter", "--entity-type", "topics"];
    let what = ["--entity-name", "__consumer_offsets", "--add-config", &setting];
    Tool::kafka("kafka-configs", &[&alter[..], &what].concat()).run().ok();
    let long = "m".repeat(MESSAGE_BYTES_MAX);
    assert_eq!(commit(&mut client, "g", 1, &long), [ErrorCode::UNKNOWN_SERVER_ERROR], "one large record");
    assert_eq!(commit(&mut client, "g", 1, "m"), [ErrorCode::NONE]);
    assert_eq!(commit(&mut client, "g", 40, "m"), [ErrorCode::UNKNOWN_SERVER_ERROR], "many small records");
    assert_eq!(assign(&mut client, "a", MESSAGE_BYTES_MAX), ErrorCode::UNKNOWN_SERVER_ERROR, "a large assignment");
    assert_eq!(assign(&mut client, "b", 10), ErrorCode::NONE);
    for group in ["g", "c", "d", "e"] {
        assert_eq!(commit(&mut client, group, 1, "m"), [ErrorCode::NONE], "{group} goes on");
    }
    if Peer::under_test() == Peer::Odradek {
        assert!(!node.log().contains("are loaded again"), "{}", node.log());
    }
}

#[test]
fn offsets_of_groups_that_do_not_exist() {
    let node = Node::start();
    let mut client = connect(&node);
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    for (topics, each) in [(&[][..], &[][..]), (&["t"], &[ErrorCode::NONE]), (&["missing"], &[unknown])] {
        assert_eq!(delete(&mut client, "missing", topics), [ErrorCode::GROUP_ID_NOT_FOUND], "{topics:?}");
        assert_eq!(delete(&mut client, "", topics), [ErrorCode::INVALID_GROUP_ID], "{topics:?}");
        assert_eq!(delete(&mut client, "ready", topics), [&[ErrorCode::NONE], each].concat(), "{topics:?}");
    }
}
