//! In-sync replicas, elections and moves.

use wire::alter_partition_reassignments_request::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use wire::alter_partition_reassignments_response::AlterPartitionReassignmentsResponse;
use wire::alter_partition_request::{AlterPartitionRequest, BrokerState, PartitionData, TopicData};
use wire::alter_partition_response::AlterPartitionResponse;
use wire::elect_leaders_request::{ElectLeadersRequest, TopicPartitions};
use wire::elect_leaders_response::ElectLeadersResponse;
use wire::list_partition_reassignments_request::ListPartitionReassignmentsRequest;
use wire::list_partition_reassignments_response::ListPartitionReassignmentsResponse;
use wire::{ApiKey, Decode, ErrorCode, Reader};

use super::harness::World;

/// The leader proposes an ISR; gives the error code of the partition.
fn propose(world: &mut World, leader: i32, isr: &[i32], set: impl FnOnce(&mut PartitionData)) -> ErrorCode {
    let partition = world.partition("t");
    let member = |id: &i32| BrokerState { broker_id: *id, broker_epoch: -1 };
    let mut data = PartitionData {
        partition_index: 0,
        leader_epoch: partition.leader_epoch,
        new_isr_with_epochs: isr.iter().map(member).collect(),
        partition_epoch: partition.partition_epoch,
        ..PartitionData::default()
    };
    set(&mut data);
    let topic_id = world.image().topics.by_name("t").expect("a topic").id;
    let request = AlterPartitionRequest {
        broker_id: leader,
        broker_epoch: world.epoch(leader),
        topics: vec![TopicData { topic_id, partitions: vec![data] }],
    };
    let answer = world.ask(ApiKey::AlterPartition, 3, &request);
    let response = AlterPartitionResponse::decode(&mut Reader::new(&answer), 3).expect("a response");
    assert_eq!(response.error_code, 0);
    ErrorCode(response.topics[0].partitions[0].error_code)
}

#[test]
fn an_isr_shrinks_and_grows_as_its_leader_says() {
    let mut world = World::new(false).with_brokers(3);
    world.topic("t", &[1, 2, 3]);
    assert_eq!(propose(&mut world, 1, &[1, 3], |_| {}), ErrorCode::NONE);
    let partition = world.partition("t");
    assert_eq!((partition.isr, partition.leader_epoch, partition.partition_epoch), (vec![1, 3], 0, 1));
    assert_eq!(propose(&mut world, 1, &[1, 3, 2], |_| {}), ErrorCode::NONE);
    assert_eq!(propose(&mut world, 1, &[1, 3, 2], |_| {}), ErrorCode::NONE, "nothing changes");
    assert_eq!(world.partition("t").partition_epoch, 2);
}

#[test]
fn proposals_that_do_not_fit_are_refused() {
    let mut world = World::new(false).with_brokers(3);
    world.topic("t", &[1, 2, 3]);
    world.beat(3, |request| request.want_fence = true);
    assert_eq!(world.partition("t").isr, [1, 2]);
    assert_eq!(propose(&mut world, 1, &[1, 2, 3], |_| {}), ErrorCode::INELIGIBLE_REPLICA);
    assert_eq!(propose(&mut world, 1, &[2], |_| {}), ErrorCode::INVALID_REQUEST, "without the leader");
    assert_eq!(propose(&mut world, 1, &[1, 1], |_| {}), ErrorCode::INVALID_REQUEST);
    assert_eq!(propose(&mut world, 1, &[1, 9], |_| {}), ErrorCode::INVALID_REQUEST);
    assert_eq!(propose(&mut world, 1, &[], |_| {}), ErrorCode::INVALID_REQUEST);
    assert_eq!(propose(&mut world, 2, &[1, 2], |_| {}), ErrorCode::INVALID_REQUEST, "not from the leader");
    assert_eq!(propose(&mut world, 1, &[1], |data| data.leader_epoch += 1), ErrorCode::NOT_CONTROLLER);
    assert_eq!(propose(&mut world, 1, &[1], |data| data.leader_epoch -= 1), ErrorCode::FENCED_LEADER_EPOCH);
    assert_eq!(propose(&mut world, 1, &[1], |data| data.partition_epoch -= 1), ErrorCode::INVALID_UPDATE_VERSION);
    assert_eq!(propose(&mut world, 1, &[1], |data| data.partition_index = 4), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(propose(&mut world, 1, &[1], |data| data.leader_recovery_state = 1), ErrorCode::INVALID_REQUEST);
    let stale = |data: &mut PartitionData| data.new_isr_with_epochs[1].broker_epoch = 1;
    assert_eq!(propose(&mut world, 1, &[1, 2], stale), ErrorCode::INELIGIBLE_REPLICA);
    assert_eq!(world.partition("t").isr, [1, 2]);
}

#[test]
fn members_that_leave_below_the_minimum_stay_eligible() {
    let mut world = World::with_properties(true, "min.insync.replicas=2").with_brokers(3);
    world.topic("t", &[1, 2, 3]);
    assert_eq!(propose(&mut world, 1, &[1, 2], |_| {}), ErrorCode::NONE);
    assert!(world.partition("t").elr.is_empty(), "the ISR has its minimum");
    assert_eq!(propose(&mut world, 1, &[1], |_| {}), ErrorCode::NONE);
    assert_eq!(world.partition("t").elr, [2]);
    // The leader dies: an eligible replica takes over cleanly.
    world.beat(1, |request| request.want_fence = true);
    let partition = world.partition("t");
    assert_eq!((partition.leader, partition.isr.clone(), partition.elr.clone()), (2, vec![2], vec![1]));
    assert_eq!(partition.leader_recovery_state.value(), 0);
    assert_eq!(propose(&mut world, 2, &[2, 3], |_| {}), ErrorCode::NONE);
    assert!(world.partition("t").elr.is_empty());
}

fn elect(world: &mut World, kind: i8) -> ErrorCode {
    let topics = vec![TopicPartitions { topic: "t".into(), partitions: vec![0] }];
    let request = ElectLeadersRequest { election_type: kind, topic_partitions: Some(topics), timeout_ms: 1_000 };
    let answer = world.ask(ApiKey::ElectLeaders, 2, &request);
    let response = ElectLeadersResponse::decode(&mut Reader::new(&answer), 2).expect("a response");
    ErrorCode(response.replica_election_results[0].partition_result[0].error_code)
}

#[test]
fn elections_on_request() {
    let mut world = World::new(false).with_brokers(2);
    world.topic("t", &[1, 2]);
    assert_eq!(elect(&mut world, 0), ErrorCode::ELECTION_NOT_NEEDED);
    world.beat(1, |request| request.want_fence = true);
    assert_eq!(world.partition("t").leader, 2);
    assert_eq!(elect(&mut world, 0), ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE);
    assert!(!world.beat(1, |_| {}).is_fenced);
    assert_eq!(elect(&mut world, 0), ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE, "it is not in sync yet");
    assert_eq!(propose(&mut world, 2, &[2, 1], |_| {}), ErrorCode::NONE);
    assert_eq!(elect(&mut world, 0), ErrorCode::NONE);
    assert_eq!(world.partition("t").leader, 1);
    // Now both are gone but the one that is behind comes back.
    assert_eq!(propose(&mut world, 1, &[1], |_| {}), ErrorCode::NONE);
    world.beat(1, |request| request.want_fence = true);
    assert_eq!((world.partition("t").leader, world.partition("t").isr), (-1, vec![1]));
    assert_eq!(elect(&mut world, 1), ErrorCode::NONE);
    let partition = world.partition("t");
    assert_eq!((partition.leader, partition.isr, partition.leader_recovery_state.value()), (2, vec![2], 1));
}

#[test]
fn leaderships_go_back_to_preferred_replicas_by_themselves() {
    let mut world = World::new(false).with_brokers(2);
    world.topic("t", &[1, 2]);
    world.beat(1, |request| request.want_fence = true);
    world.beat(1, |_| {});
    assert_eq!(propose(&mut world, 2, &[2, 1], |_| {}), ErrorCode::NONE);
    assert_eq!(world.partition("t").leader, 2);
    world.pass(301_000, &[1, 2]);
    assert_eq!(world.partition("t").leader, 1);
}

fn reassign(world: &mut World, replicas: Option<Vec<i32>>) -> ErrorCode {
    let partition = ReassignablePartition { partition_index: 0, replicas };
    let request = AlterPartitionReassignmentsRequest {
        topics: vec![ReassignableTopic { name: "t".into(), partitions: vec![partition] }],
        ..AlterPartitionReassignmentsRequest::default()
    };
    let answer = world.ask(ApiKey::AlterPartitionReassignments, 1, &request);
    let response = AlterPartitionReassignmentsResponse::decode(&mut Reader::new(&answer), 1).expect("a response");
    ErrorCode(response.responses[0].partitions[0].error_code)
}

fn running(world: &mut World) -> usize {
    let answer = world.ask(ApiKey::ListPartitionReassignments, 0, &ListPartitionReassignmentsRequest::default());
    let response = ListPartitionReassignmentsResponse::decode(&mut Reader::new(&answer), 0).expect("a response");
    response.topics.len()
}

#[test]
fn replicas_move_by_way_of_both_sets() {
    let mut world = World::new(false).with_brokers(4);
    world.topic("t", &[1, 2]);
    assert_eq!(reassign(&mut world, Some(vec![3, 4])), ErrorCode::NONE);
    let partition = world.partition("t");
    assert_eq!((partition.replicas.clone(), partition.adding_replicas.clone()), (vec![3, 4, 1, 2], vec![3, 4]));
    assert_eq!((partition.removing_replicas, partition.leader), (vec![1, 2], 1));
    assert_eq!(running(&mut world), 1);
    assert_eq!(propose(&mut world, 1, &[1, 2, 3], |_| {}), ErrorCode::NONE);
    assert_eq!(running(&mut world), 1, "one new replica is still behind");
    assert_eq!(propose(&mut world, 1, &[1, 2, 3, 4], |_| {}), ErrorCode::NEW_LEADER_ELECTED);
    let partition = world.partition("t");
    assert_eq!((partition.replicas.clone(), partition.isr.clone()), (vec![3, 4], vec![3, 4]));
    assert_eq!((partition.leader, partition.is_reassigning()), (3, false));
    assert_eq!(partition.directories.len(), 2);
    assert_eq!(running(&mut world), 0);
}

#[test]
fn a_move_can_be_taken_back() {
    let mut world = World::new(false).with_brokers(3);
    world.topic("t", &[1, 2]);
    assert_eq!(reassign(&mut world, None), ErrorCode::NO_REASSIGNMENT_IN_PROGRESS);
    assert_eq!(reassign(&mut world, Some(vec![3, 2])), ErrorCode::NONE);
    assert_eq!(propose(&mut world, 1, &[1, 2], |_| {}), ErrorCode::NONE);
    assert_eq!(reassign(&mut world, None), ErrorCode::NONE);
    let partition = world.partition("t");
    assert_eq!((partition.replicas.clone(), partition.isr.clone()), (vec![2, 1], vec![1, 2]));
    assert!(!partition.is_reassigning());
}
