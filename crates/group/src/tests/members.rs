//! Who may join: ids, sizes, timeouts, protocols.

use wire::ErrorCode;

use super::world::{Known, World, join};

#[test]
fn a_dynamic_member_is_given_an_id_first() {
    let mut world = World::new();
    let (error, response) = world.join_now(&join("g").version(4));
    assert_eq!(error, ErrorCode::MEMBER_ID_REQUIRED);
    let id = response.member_id.to_string();
    assert!(id.starts_with("client-") && id.len() == "client-".len() + 36, "{id}");
    assert_eq!(response.protocol_name.as_deref(), Some(""), "version 4 cannot say null");
    assert_eq!(world.state("g"), "Empty");
    world.check_replay();
    let token = join("g").version(9).member(&id).send(&mut world);
    world.pass_ms(3_001);
    let response = world.joined(token).expect("joined");
    assert_eq!((&*response.member_id, response.error_code), (&*id, 0));
}

#[test]
fn an_id_that_is_not_used_in_time_is_forgotten() {
    let mut world = World::new();
    let members = world.stable(&[join("g").session_ms(60_000)]);
    let (_, response) = world.join_now(&join("g").version(4));
    let id = response.member_id.to_string();
    // Whoever was given an id is waited for.
    let token = join("g").session_ms(60_000).member(&members[0].id).send(&mut world);
    assert!(world.joined(token).is_none());
    world.pass_ms(10_001);
    assert_eq!(world.joined(token).expect("nobody else is expected").members.len(), 1);
    let (error, _) = world.join_now(&join("g").version(4).member(&id));
    assert_eq!(error, ErrorCode::UNKNOWN_MEMBER_ID);
    let (_, response) = world.join_now(&join("g").version(4));
    let left = world.leave("g", &[(&response.member_id, None)]);
    assert_eq!(left.members[0].error_code, 0, "an id can be given back");
}

#[test]
fn joining_is_refused() {
    let mut world = World::with("group.min.session.timeout.ms=6000\ngroup.max.session.timeout.ms=30000");
    let members = world.stable(&[join("g")]);
    let cases = [
        (join(""), ErrorCode::INVALID_GROUP_ID),
        (join("g").session_ms(5_999), ErrorCode::INVALID_SESSION_TIMEOUT),
        (join("g").session_ms(30_001), ErrorCode::INVALID_SESSION_TIMEOUT),
        (join("g").member("nobody"), ErrorCode::UNKNOWN_MEMBER_ID),
        (join("other").member("nobody"), ErrorCode::UNKNOWN_MEMBER_ID),
        (join("g").protocol_type("connect"), ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        (join("g").protocol_type(""), ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        (join("g").protocols(&[("sticky", b"")]), ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        (join("g").protocols(&[]), ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        (join("new").protocols(&[]), ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        (join("new").protocol_type(""), ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        (join("g").member(&members[0].id).instance("i"), ErrorCode::UNKNOWN_MEMBER_ID),
    ];
    for (case, expected) in cases {
        let (error, response) = world.join_now(&case);
        assert_eq!(error, expected, "{:?}", case.request);
        assert_eq!(response.generation_id, -1);
        assert_eq!(world.state("g"), "Stable", "{:?}", case.request);
    }
    let (_, response) = world.join_now(&join("g").version(7).protocols(&[]));
    assert_eq!(response.protocol_name, None, "version 7 says null");
}

#[test]
fn a_group_is_no_larger_than_its_bound() {
    let mut world = World::with("group.max.size=2");
    let tokens: Vec<_> = (0..3).map(|_| join("g").send(&mut world)).collect();
    world.pass_ms(7_000);
    let errors: Vec<ErrorCode> =
        tokens.iter().map(|token| ErrorCode(world.joined(*token).expect("answered").error_code)).collect();
    assert_eq!(errors, [ErrorCode::NONE, ErrorCode::NONE, ErrorCode::GROUP_MAX_SIZE_REACHED]);
    let (error, _) = world.join_now(&join("g"));
    assert_eq!(error, ErrorCode::GROUP_MAX_SIZE_REACHED);
}

#[test]
fn a_loaded_group_above_the_bound_shrinks() {
    let mut world = World::new();
    let members = world.stable(&[join("g"), join("g"), join("g")]);
    world.config.members_max = 2;
    world.restart();
    assert_eq!(world.state("g"), "PreparingRebalance");
    let tokens: Vec<_> = members.iter().map(|member| join("g").member(&member.id).send(&mut world)).collect();
    let last = world.joined(tokens[2]).expect("refused at once");
    assert_eq!(ErrorCode(last.error_code), ErrorCode::GROUP_MAX_SIZE_REACHED);
    let errors: Vec<i16> = tokens[..2].iter().map(|token| world.joined(*token).expect("joined").error_code).collect();
    assert_eq!(errors, [0, 0]);
}

#[test]
fn a_join_given_up_for_another_one_does_not_hang() {
    let mut world = World::new();
    let members = world.stable(&[join("g"), join("g")]);
    let first = join("g").member(&members[0].id).send(&mut world);
    let second = join("g").member(&members[0].id).send(&mut world);
    let response = world.joined(first).expect("its place was taken");
    assert_eq!(ErrorCode(response.error_code), ErrorCode::REBALANCE_IN_PROGRESS);
    assert!(world.joined(second).is_none());
}

#[test]
fn a_newcomer_waits_five_minutes_at_most() {
    let mut world = World::new();
    let members = world.stable(&[join("g").rebalance_ms(400_000).session_ms(1_000_000)]);
    let token = join("g").send(&mut world);
    world.pass_ms(299_000);
    assert!(world.joined(token).is_none());
    assert_eq!(world.heartbeat("g", &members[0].id, 1), ErrorCode::REBALANCE_IN_PROGRESS);
    world.pass_ms(2_000);
    let response = world.joined(token).expect("taken for gone");
    assert_eq!((ErrorCode(response.error_code), &*response.member_id), (ErrorCode::UNKNOWN_MEMBER_ID, ""));
}

#[test]
fn an_assignment_too_large_for_a_record_is_refused_and_the_neighbours_go_on() {
    let mut world = World::new();
    let neighbours = world.stable(&[join("n")]);
    world.config.record_bytes_max = 10_000;
    let token = join("g").send(&mut world);
    world.pass_ms(3_001);
    let id = world.joined(token).expect("joined").member_id.to_string();
    let member = Known { id: id.clone(), generation: 1, leads: true };
    let token = world.sync("g", &member, &[(&id, &[7; 20_000])]);
    let response = world.synced(token).expect("refused");
    assert_eq!(ErrorCode(response.error_code), ErrorCode::UNKNOWN_SERVER_ERROR);
    assert_eq!(world.state("g"), "PreparingRebalance");
    assert_eq!(world.heartbeat("n", &neighbours[0].id, 1), ErrorCode::NONE);
    let token = join("g").member(&id).send(&mut world);
    assert_eq!(world.joined(token).expect("it may try again").generation_id, 2);
}

#[test]
fn texts_at_the_limit_of_the_protocol_are_survived() {
    use wire::{Encode, Writer};
    let long: &'static str = Box::leak("x".repeat(32_767).into_boxed_str());
    let mut world = World::new();
    let mut hostile = join(long);
    hostile.client_id = long;
    assert_eq!(world.join_now(&hostile).0, ErrorCode::UNKNOWN_SERVER_ERROR);
    assert_eq!(world.join_now(&join(long).instance(long)).0, ErrorCode::UNKNOWN_SERVER_ERROR);
    world.stable(&[join(long)]);
    world.restart();
    assert_eq!(world.state(long), "Stable");
    let missing = format!("{}y", &long[1..]);
    let crate::Reply::DescribeGroup(group) =
        world.ask(crate::Request::DescribeGroup { group_id: &missing, version: 6 })
    else {
        panic!("another reply")
    };
    let response =
        wire::describe_groups_response::DescribeGroupsResponse { groups: vec![*group], ..Default::default() };
    assert_eq!(response.encode(&mut Writer::new(), 6), Ok(()), "what is said can be sent");
}
