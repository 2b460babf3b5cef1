use super::*;
use base::{Prng, Uuid};

const LIMITS: CacheLimits = CacheLimits { slots: 2, eviction_ms: 1000, modulus: 4, residue: 3 };

fn ask(fetch_offset: Offset) -> PartitionAsk {
    PartitionAsk {
        fetch_offset,
        current_leader_epoch: -1,
        last_fetched_epoch: -1,
        log_start_offset: -1,
        max_bytes: 1000,
    }
}

fn fetch(topic: &str, partition: i32, offset: Offset) -> PartitionFetch {
    let name: Arc<str> = Arc::from(topic);
    PartitionFetch { topic: TopicKey::Name(name.clone()), name: Some(name), partition, ask: ask(offset) }
}

fn quiet(high_watermark: Offset) -> PartitionAnswer {
    PartitionAnswer { error: 0, high_watermark, log_start_offset: 0, has_content: false, has_records: false }
}

fn with_records(high_watermark: Offset) -> PartitionAnswer {
    PartitionAnswer { has_content: true, has_records: true, ..quiet(high_watermark) }
}

fn cache() -> SessionCache {
    SessionCache::new(LIMITS, Prng::new(1))
}

fn of(n: i32) -> Vec<(PartitionFetch, PartitionAnswer)> {
    (0..n).map(|p| (fetch("t", p, 0), quiet(5))).collect()
}

fn taken(cache: &mut SessionCache, id: i32, epoch: i32) -> Box<Session> {
    match cache.take(id, epoch, false, 1) {
        Taken::Session(session) => session,
        other => panic!("no session: {other:?}"),
    }
}

#[test]
fn epochs_advance_and_wrap_past_the_reserved_ones() {
    assert_eq!([next_epoch(0), next_epoch(7), next_epoch(i32::MAX), next_epoch(-1)], [1, 8, 1, -1]);
}

#[test]
fn only_the_expected_epoch_gets_the_session_and_only_once_at_a_time() {
    let mut cache = cache();
    let id = cache.create(of(1), false, false, 0);
    assert_eq!(id % 4, 3);
    assert!(matches!(cache.take(id + 4, 1, false, 0), Taken::NotFound));
    assert!(matches!(cache.take(id, 2, false, 0), Taken::WrongEpoch));
    assert!(matches!(cache.take(id, 1, true, 0), Taken::TopicIdsDiffer));
    let session = taken(&mut cache, id, 1);
    assert!(matches!(cache.take(id, 2, false, 0), Taken::WrongEpoch), "in use");
    cache.put_back(session, 2);
    assert!(matches!(cache.take(id, 1, false, 0), Taken::WrongEpoch), "a repeated epoch");
    let session = taken(&mut cache, id, 2);
    cache.remove(id);
    cache.put_back(session, 3);
    assert!(cache.is_empty(), "ended while in use");
}

#[test]
fn only_changes_are_answered() {
    let mut cache = cache();
    let id = cache.create(of(1), false, false, 0);
    let mut session = taken(&mut cache, id, 1);
    let key = TopicKey::Name(Arc::from("t"));
    assert!(!session.answered(&key, 0, &quiet(5)), "nothing new");
    assert!(session.answered(&key, 0, &quiet(6)), "a new high watermark");
    assert!(session.answered(&key, 0, &PartitionAnswer { log_start_offset: 2, ..quiet(6) }), "a new log start");
    let failed = PartitionAnswer { error: 3, high_watermark: -1, log_start_offset: -1, ..quiet(0) };
    assert!(session.answered(&key, 0, &failed) && session.answered(&key, 0, &failed), "errors always");
    assert!(session.answered(&key, 0, &quiet(6)) && !session.answered(&key, 0, &quiet(6)), "recovery once");
    assert!(session.answered(&key, 0, &with_records(6)) && session.answered(&key, 0, &with_records(6)));
}

#[test]
fn partitions_that_returned_records_go_to_the_end() {
    let mut cache = cache();
    let id = cache.create(of(3), false, false, 0);
    let mut session = taken(&mut cache, id, 1);
    let key = TopicKey::Name(Arc::from("t"));
    session.answered(&key, 0, &with_records(9));
    session.answered(&key, 1, &quiet(9));
    let order: Vec<i32> = session.partitions(|_| None).iter().map(|one| one.partition).collect();
    assert_eq!(order, [1, 2, 0]);
}

#[test]
fn partitions_are_added_changed_and_forgotten() {
    let mut cache = cache();
    let id = cache.create(of(2), false, false, 0);
    let mut session = taken(&mut cache, id, 1);
    let key = TopicKey::Name(Arc::from("t"));
    session.update(&[fetch("t", 1, 40), fetch("u", 0, 7)], &[(key.clone(), 0), (key, 99)]);
    let all = session.partitions(|_| None);
    let seen: Vec<_> = all.iter().map(|one| (one.name.as_deref(), one.partition, one.ask.fetch_offset)).collect();
    assert_eq!(seen, [(Some("t"), 1, 40), (Some("u"), 0, 7)]);
    session.update(&[], &[(TopicKey::Name(Arc::from("t")), 1), (TopicKey::Name(Arc::from("u")), 0)]);
    cache.put_back(session, 5);
    assert!(cache.is_empty(), "an empty session ends");
}

#[test]
fn the_name_of_an_id_is_resolved_once() {
    let id = Uuid::from_u128(77);
    let one = PartitionFetch { topic: TopicKey::Id(id), name: None, partition: 0, ask: ask(0) };
    let mut cache = cache();
    let session_id = cache.create(vec![(one, quiet(-1))], true, false, 0);
    let Taken::Session(mut session) = cache.take(session_id, 1, true, 0) else { panic!("no session") };
    assert_eq!(session.partitions(|_| None)[0].name, None);
    assert_eq!(session.partitions(|_| Some(Arc::from("old")))[0].name.as_deref(), Some("old"));
    assert_eq!(session.partitions(|_| Some(Arc::from("new")))[0].name.as_deref(), Some("old"));
}

#[test]
fn a_full_cache_evicts_by_the_rules_and_never_grows() {
    let mut cache = cache();
    let small = cache.create(of(1), false, false, 0);
    let big = cache.create(of(5), false, false, 0);
    assert_eq!(cache.create(of(9), false, false, 500), NO_SESSION, "all are young");
    assert!(matches!(cache.take(small, 1, false, 1600), Taken::Session(_)));
    assert!(matches!(cache.take(big, 1, false, 1600), Taken::Session(_)));
    assert_eq!(cache.create(of(1), false, false, 1700), NO_SESSION, "settled ones are not smaller");
    assert_ne!(cache.create(of(2), false, false, 1700), NO_SESSION, "the smallest settled one goes");
    assert!(matches!(cache.take(small, 2, false, 1700), Taken::NotFound));
    assert_ne!(cache.create(of(1), false, true, 1700), NO_SESSION, "a follower displaces a young consumer");
    assert_ne!(cache.create(of(1), false, false, 9000), NO_SESSION, "unused for long");
    assert_eq!(cache.len(), 2);
}

#[test]
fn throw_away_sessions_do_not_grow_the_cache() {
    let mut cache = SessionCache::new(CacheLimits { slots: 10, ..LIMITS }, Prng::new(3));
    let mut made = 0;
    for now in 0..5000 {
        made += usize::from(cache.create(of(1), false, false, now) != NO_SESSION);
        assert!(cache.len() <= 10);
    }
    assert!((10..100).contains(&made), "made {made}");
}
