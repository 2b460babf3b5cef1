//! What a large group takes.

use super::*;

/// Members of the group.
const MEMBERS: usize = 1_000;

/// What a member may take, bytes: a fifth of what it takes in Kafka, whose objects and hash maps for one come to some 2.5 KiB.
const MEMBER_BYTES_MAX: usize = 500;

#[test]
fn a_member_of_a_large_group_is_small_and_its_heartbeat_writes_nothing() {
    let mut world = World::with("group.consumer.assignment.interval.ms=0");
    world.create_topic("wide", topic_id(200), 10 * MEMBERS as i32);
    let ids: Vec<String> = (0..MEMBERS).map(|n| format!("consumer-{n:022}")).collect();
    // One assignment for all: a thousand of them take long in a debug build.
    let mut patient = World::with("group.consumer.assignment.interval.ms=15000");
    std::mem::swap(&mut world.config, &mut patient.config);
    for id in &ids {
        join(id, &["wide"]).send_unchecked(&mut world);
    }
    world.pass_ms(15_000);
    let mut epochs = vec![0; MEMBERS];
    for _ in 0..3 {
        for (id, epoch) in ids.iter().zip(&mut epochs) {
            let owns: &[(u8, &[i32])] = &[];
            let answer = if *epoch == 0 { join(id, &["wide"]) } else { beat(id, *epoch).owns(owns) };
            *epoch = answer.send_unchecked(&mut world).epoch;
        }
    }
    check(&world);
    assert_eq!(world.group_state().0, "Stable");
    let records = world.log.len();
    for (id, epoch) in ids.iter().zip(&epochs) {
        assert_eq!(beat(id, *epoch).send_unchecked(&mut world).error, ErrorCode::NONE);
    }
    assert_eq!(world.log.len(), records);
    let Some(Group::Consumer(group)) = world.shell.machine().groups.get(GROUP) else { panic!("a group") };
    let own =
        |(id, member): (&std::sync::Arc<str>, &crate::consumer::member::Member)| id.len() + 16 + member.heap_bytes();
    let heap: usize = group.members().map(own).sum();
    let inline = size_of::<crate::consumer::group::Seat>() + size_of::<std::sync::Arc<str>>();
    // B-tree nodes are two thirds full on average.
    let each = heap / MEMBERS + inline * 3 / 2;
    println!("{each} bytes a member with ten partitions, {inline} of them in the tree");
    assert!(each <= MEMBER_BYTES_MAX, "{each} bytes");
}
