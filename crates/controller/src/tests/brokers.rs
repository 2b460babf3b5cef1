//! Brokers come, fall silent, leave.

use wire::allocate_producer_ids_request::AllocateProducerIdsRequest;
use wire::allocate_producer_ids_response::AllocateProducerIdsResponse;
use wire::unregister_broker_request::UnregisterBrokerRequest;
use wire::{ApiKey, Decode, ErrorCode, Reader};

use super::harness::{World, directory};

#[test]
fn a_silent_broker_is_fenced_and_its_leaderships_move() {
    let mut world = World::new(false).with_brokers(3);
    world.topic("t", &[1, 2, 3]);
    world.pass(12_000, &[2, 3]);
    let image = world.image();
    assert!(image.cluster.broker(1).expect("still known").fenced);
    assert!(image.cluster.is_unfenced(2) && image.cluster.is_unfenced(3));
    let partition = world.partition("t");
    assert_eq!((partition.leader, partition.leader_epoch), (2, 1));
    assert_eq!(partition.isr, [2, 3]);
    assert!(!world.beat(1, |_| {}).is_fenced, "it comes back when it is heard from");
}

#[test]
fn another_incarnation_waits_for_the_end_of_the_session() {
    let mut world = World::new(false).with_brokers(1);
    let duplicate = ErrorCode::DUPLICATE_BROKER_REGISTRATION.code();
    assert_eq!(world.register(1, 999, -1).error_code, duplicate);
    world.pass(4_000, &[]);
    assert_eq!(world.register(1, 999, -1).error_code, duplicate);
    let epoch = world.epoch(1);
    assert_eq!(world.register(1, 101, -1).broker_epoch, epoch, "the same incarnation amends its registration");
    world.pass(10_000, &[]);
    let response = world.register(1, 999, -1);
    assert_eq!(response.error_code, 0);
    assert!(response.broker_epoch > epoch);
    assert_eq!(response.broker_epoch, world.epoch(1));
}

#[test]
fn an_old_epoch_is_stale() {
    let mut world = World::new(false).with_brokers(1);
    let stale = ErrorCode::STALE_BROKER_EPOCH.code();
    assert_eq!(world.beat(1, |request| request.broker_epoch -= 1).error_code, stale);
    assert_eq!(world.beat(1, |request| request.broker_id = 9).error_code, stale);
    let request = AllocateProducerIdsRequest { broker_id: 1, broker_epoch: 0 };
    let answer = world.ask(ApiKey::AllocateProducerIds, 0, &request);
    let response = AllocateProducerIdsResponse::decode(&mut Reader::new(&answer), 0).expect("a response");
    assert_eq!(response.error_code, stale);
}

#[test]
fn a_broker_serves_only_when_it_has_applied_its_registration() {
    let mut world = World::new(false);
    world.register(1, 7, -1);
    let behind = world.beat(1, |request| request.current_metadata_offset = 0);
    assert!(behind.is_fenced && !behind.is_caught_up);
    let ahead = world.beat(1, |_| {});
    assert!(!ahead.is_fenced && ahead.is_caught_up);
    assert!(world.beat(1, |request| request.want_fence = true).is_fenced);
}

#[test]
fn an_orderly_leave_moves_leaderships_first() {
    let mut world = World::new(false).with_brokers(2);
    world.topic("t", &[1, 2]);
    let leaving = world.beat(1, |request| request.want_shut_down = true);
    assert!(!leaving.should_shut_down && !leaving.is_fenced);
    assert_eq!((world.partition("t").leader, world.partition("t").isr), (2, vec![2]));
    assert!(world.image().cluster.broker(1).expect("known").in_controlled_shutdown);
    let behind = world.beat(1, |request| request.want_shut_down = true);
    assert!(!behind.should_shut_down, "broker 2 has not applied the change yet");
    world.beat(2, |_| {});
    let done = world.beat(1, |request| request.want_shut_down = true);
    assert!(done.should_shut_down && done.is_fenced);
    assert!(world.image().cluster.broker(1).expect("known").fenced);
}

#[test]
fn the_last_broker_may_leave_too() {
    let mut world = World::new(true).with_brokers(1);
    world.topic("t", &[1]);
    assert!(!world.beat(1, |request| request.want_shut_down = true).should_shut_down);
    let partition = world.partition("t");
    assert_eq!((partition.leader, partition.isr, partition.elr), (-1, vec![], vec![1]));
    assert!(world.beat(1, |request| request.want_shut_down = true).should_shut_down);
    // It comes back knowing that it kept everything: a clean election.
    let epoch = world.epoch(1);
    assert_eq!(world.register(1, 8, epoch).error_code, 0);
    assert!(!world.beat(1, |_| {}).is_fenced);
    let partition = world.partition("t");
    assert_eq!((partition.leader, partition.isr.clone(), partition.elr.clone()), (1, vec![1], vec![]));
    assert_eq!(partition.leader_recovery_state.value(), 0);
}

#[test]
fn a_broker_that_may_have_lost_data_is_no_clean_leader() {
    let mut world = World::new(true).with_brokers(1);
    world.topic("t", &[1]);
    world.pass(12_000, &[]);
    assert_eq!(world.partition("t").elr, [1], "fenced, but it has everything");
    assert_eq!(world.register(1, 8, -1).error_code, 0);
    assert_eq!(world.partition("t").elr, Vec::<i32>::new(), "it does not know what it has");
    assert!(!world.beat(1, |_| {}).is_fenced);
    let partition = world.partition("t");
    assert_eq!(
        (partition.leader, partition.leader_recovery_state.value()),
        (1, 1),
        "the last leader is the best there is"
    );
}

#[test]
fn registrations_are_judged() {
    use wire::broker_registration_request::{BrokerRegistrationRequest, Feature};
    let mut world = World::new(false).with_brokers(1);
    let feature = |name: &'static str, min, max| Feature {
        name: name.into(),
        min_supported_version: min,
        max_supported_version: max,
    };
    let good = BrokerRegistrationRequest {
        broker_id: 5,
        cluster_id: "cluster".into(),
        features: vec![feature("metadata.version", 7, 33)],
        log_dirs: vec![directory(5)],
        ..BrokerRegistrationRequest::default()
    };
    let dir = |id| vec![id];
    let cases = [
        (BrokerRegistrationRequest { cluster_id: "other".into(), ..good.clone() }, ErrorCode::INCONSISTENT_CLUSTER_ID),
        (BrokerRegistrationRequest { log_dirs: vec![], ..good.clone() }, ErrorCode::INVALID_REGISTRATION),
        (
            BrokerRegistrationRequest { log_dirs: dir(base::Uuid::from_u128(1)), ..good.clone() },
            ErrorCode::INVALID_REGISTRATION,
        ),
        (BrokerRegistrationRequest { log_dirs: dir(directory(1)), ..good.clone() }, ErrorCode::INVALID_REGISTRATION),
        (
            BrokerRegistrationRequest { log_dirs: vec![directory(5); 2], ..good.clone() },
            ErrorCode::INVALID_REGISTRATION,
        ),
        (BrokerRegistrationRequest { features: vec![], ..good.clone() }, ErrorCode::INVALID_REGISTRATION),
        (
            BrokerRegistrationRequest { features: vec![feature("metadata.version", 7, 32)], ..good.clone() },
            ErrorCode::UNSUPPORTED_VERSION,
        ),
        (
            BrokerRegistrationRequest { is_migrating_zk_broker: true, ..good.clone() },
            ErrorCode::BROKER_ID_NOT_REGISTERED,
        ),
        (good, ErrorCode::NONE),
    ];
    for (request, expect) in cases {
        let answer = world.ask(ApiKey::BrokerRegistration, 4, &request);
        let response =
            wire::broker_registration_response::BrokerRegistrationResponse::decode(&mut Reader::new(&answer), 4);
        assert_eq!(ErrorCode(response.expect("a response").error_code), expect, "{request:?}");
    }
}

#[test]
fn blocks_of_producer_ids_do_not_overlap() {
    let mut world = World::new(false).with_brokers(2);
    let mut next = 0;
    for id in [1, 2, 1, 1, 2] {
        let request = AllocateProducerIdsRequest { broker_id: id, broker_epoch: world.epoch(id) };
        let answer = world.ask(ApiKey::AllocateProducerIds, 0, &request);
        let response = AllocateProducerIdsResponse::decode(&mut Reader::new(&answer), 0).expect("a response");
        assert_eq!((response.error_code, response.producer_id_start, response.producer_id_len), (0, next, 1_000));
        next += 1_000;
    }
    assert_eq!(world.image().producer_ids.next_producer_id, next);
}

#[test]
fn an_unregistered_broker_is_forgotten() {
    let mut world = World::new(false).with_brokers(2);
    world.topic("t", &[2, 1]);
    world.ask(ApiKey::UnregisterBroker, 0, &UnregisterBrokerRequest { broker_id: 2 });
    assert!(world.image().cluster.broker(2).is_none());
    assert_eq!((world.partition("t").leader, world.partition("t").isr), (1, vec![1]));
}

#[test]
fn an_offline_directory_takes_its_replicas_out() {
    let mut world = World::new(false).with_brokers(2);
    world.topic("t", &[1, 2]);
    world.beat(1, |request| request.offline_log_dirs = vec![directory(1)]);
    let partition = world.partition("t");
    assert_eq!((partition.leader, partition.isr), (2, vec![2]));
}
