//! Static members (KIP-345).

use wire::ErrorCode;

use super::world::{Known, World, join};

#[test]
fn a_static_member_comes_back_without_a_rebalance() {
    for (version, leads) in [(5, true), (5, false), (9, true), (9, false)] {
        let mut world = World::new();
        let mut members = world.stable(&[join("g").instance("i0"), join("g").instance("i1")]);
        let place = usize::from(!leads);
        let instance = ["i0", "i1"][place];
        let (error, response) = world.join_now(&join("g").instance(instance).version(version));
        assert_eq!((error, response.generation_id), (ErrorCode::NONE, 1));
        assert_ne!(response.member_id, members[place].id);
        assert_eq!(world.state("g"), "Stable");
        world.check_replay();
        // A leader that comes back is told to keep the assignment, or, in older versions, that it does not lead.
        let told_leader = leads && version == 9;
        assert_eq!((response.skip_assignment, response.members.len()), (told_leader, if told_leader { 2 } else { 0 }));
        assert_eq!(response.leader == response.member_id, told_leader);
        let fenced = world.heartbeat("g", &members[place].id, 1);
        assert_eq!(fenced, ErrorCode::UNKNOWN_MEMBER_ID);
        members[place].id = response.member_id.to_string();
        let token = world.sync("g", &members[place].clone(), &[]);
        assert_eq!(*world.synced(token).expect("stable").assignment, [place as u8]);
        world.restart();
        assert_eq!(world.heartbeat("g", &members[place].id, 1), ErrorCode::NONE);
    }
}

#[test]
fn a_static_member_with_another_protocol_starts_a_rebalance() {
    let mut world = World::new();
    world.stable(&[join("g").instance("i0").protocols(&[("range", b""), ("sticky", b"")])]);
    let back = join("g").instance("i0").protocols(&[("sticky", b"")]);
    let (error, response) = world.join_now(&back);
    assert_eq!((error, response.generation_id), (ErrorCode::NONE, 2));
    assert_eq!(response.protocol_name.as_deref(), Some("sticky"));
}

#[test]
fn new_metadata_of_a_static_member_is_kept() {
    let mut world = World::new();
    world.stable(&[join("g").instance("i0"), join("g").instance("i1")]);
    let (error, _) = world.join_now(&join("g").instance("i1").protocols(&[("range", b"new")]).session_ms(20_000));
    assert_eq!(error, ErrorCode::NONE);
    world.check_replay();
    let text = super::world::digest(&world.loaded());
    assert!(text.contains(&format!("{:?}", b"new")) && text.contains(" 20000 "), "{text}");
}

#[test]
fn whoever_waits_under_the_old_id_is_fenced() {
    let mut world = World::new();
    let members = world.stable(&[join("g").instance("i0"), join("g").instance("i1")]);
    let waiting = join("g").instance("i0").member(&members[0].id).send(&mut world);
    assert_eq!(world.state("g"), "PreparingRebalance");
    let back = join("g").instance("i0").send(&mut world);
    let fenced = world.joined(waiting).expect("fenced");
    assert_eq!((ErrorCode(fenced.error_code), &*fenced.member_id), (ErrorCode::FENCED_INSTANCE_ID, &*members[0].id));
    let other = join("g").instance("i1").member(&members[1].id).send(&mut world);
    let response = world.joined(back).expect("all joined");
    assert_eq!((response.error_code, world.joined(other).map(|response| response.error_code)), (0, Some(0)));

    let follower = Known { id: members[1].id.clone(), generation: 2, leads: false };
    let waiting = world.sync("g", &follower, &[]);
    let back = join("g").instance("i1").send(&mut world);
    let fenced = world.synced(waiting).expect("fenced");
    assert_eq!(ErrorCode(fenced.error_code), ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!((world.state("g"), world.joined(back)), ("PreparingRebalance", None));
}

#[test]
fn an_instance_id_belongs_to_one_member() {
    let mut world = World::new();
    let members = world.stable(&[join("g").instance("i0"), join("g").instance("i1")]);
    let cases = [
        ("i0", &*members[1].id, ErrorCode::FENCED_INSTANCE_ID),
        ("i0", "nobody", ErrorCode::FENCED_INSTANCE_ID),
        ("i2", &*members[0].id, ErrorCode::UNKNOWN_MEMBER_ID),
    ];
    for (instance, member, expected) in cases {
        let (error, _) = world.join_now(&join("g").instance(instance).member(member));
        assert_eq!(error, expected, "{instance} {member}");
        let left = world.leave("g", &[(member, Some(instance))]);
        assert_eq!(ErrorCode(left.members[0].error_code), expected, "{instance} {member}");
    }
    assert_eq!(world.state("g"), "Stable");
    let left = world.leave("g", &[("", Some("i0")), ("", Some("i0"))]);
    let codes: Vec<ErrorCode> = left.members.iter().map(|member| ErrorCode(member.error_code)).collect();
    assert_eq!(codes, [ErrorCode::NONE, ErrorCode::UNKNOWN_MEMBER_ID], "an administrator removes by instance id");
}

#[test]
fn static_members_outlast_a_rebalance_they_miss() {
    let mut world = World::new();
    let long = |instance: &str| join("g").instance(instance).session_ms(120_000).rebalance_ms(10_000);
    let members = world.stable(&[long("i0"), long("i1")]);
    let token = long("i0").member(&members[0].id).send(&mut world);
    world.pass_ms(10_001);
    let response = world.joined(token).expect("the time is up");
    assert_eq!((response.generation_id, response.members.len()), (2, 2), "the missing one is still a member");
    let leader = Known { id: members[0].id.clone(), generation: 2, leads: true };
    let token = world.sync("g", &leader, &[]);
    assert_eq!(world.synced(token).expect("the leader decides").error_code, 0);
    world.pass_ms(10_001);
    assert_eq!(world.state("g"), "PreparingRebalance", "it did not sync, and is out now");
}
