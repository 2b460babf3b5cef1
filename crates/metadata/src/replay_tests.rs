//! Images made of records: what a random history of valid records leaves behind survives a snapshot, whatever it was.

use std::borrow::Cow;
use std::sync::Arc;

use base::{Prng, Uuid};
use wire::abort_transaction_record::AbortTransactionRecord;
use wire::access_control_entry_record::AccessControlEntryRecord;
use wire::begin_transaction_record::BeginTransactionRecord;
use wire::broker_registration_change_record::BrokerRegistrationChangeRecord;
use wire::clear_elr_record::ClearElrRecord;
use wire::client_quota_record::{ClientQuotaRecord, EntityData};
use wire::config_record::ConfigRecord;
use wire::delegation_token_record::DelegationTokenRecord;
use wire::end_transaction_record::EndTransactionRecord;
use wire::feature_level_record::FeatureLevelRecord;
use wire::metadata_record::MetadataRecord;
use wire::no_op_record::NoOpRecord;
use wire::partition_change_record::PartitionChangeRecord;
use wire::partition_record::PartitionRecord;
use wire::producer_ids_record::ProducerIdsRecord;
use wire::register_broker_record::{BrokerEndpoint, BrokerFeature, RegisterBrokerRecord};
use wire::register_controller_record::{ControllerEndpoint, RegisterControllerRecord};
use wire::remove_access_control_entry_record::RemoveAccessControlEntryRecord;
use wire::remove_delegation_token_record::RemoveDelegationTokenRecord;
use wire::remove_topic_record::RemoveTopicRecord;
use wire::remove_user_scram_credential_record::RemoveUserScramCredentialRecord;
use wire::topic_record::TopicRecord;
use wire::unregister_broker_record::UnregisterBrokerRecord;
use wire::unregister_controller_record::UnregisterControllerRecord;
use wire::user_scram_credential_record::UserScramCredentialRecord;

use crate::{ConfigResource, MetadataDelta, MetadataImage, Provenance};

fn text(prefix: &str, n: u64) -> Cow<'static, str> {
    Cow::Owned(format!("{prefix}{n}"))
}

fn uuid(prng: &mut Prng) -> Uuid {
    Uuid::from_u128((u128::from(prng.next_u64()) << 64) | u128::from(prng.next_u64()))
}

fn ids(prng: &mut Prng, max: u64) -> Vec<i32> {
    (0..prng.below(max + 1)).map(|_| prng.below(9) as i32).collect()
}

fn pick<T: Clone>(prng: &mut Prng, items: &[T]) -> Option<T> {
    (!items.is_empty()).then(|| items[prng.below(items.len() as u64) as usize].clone())
}

/// A record that fits the image, or none when the chosen kind has nothing to refer to.
fn record_for(prng: &mut Prng, image: &MetadataImage) -> Option<MetadataRecord<'static>> {
    match prng.below(10) {
        0 | 1 => topic_record(prng, image),
        2 => partition_record(prng, image),
        3 => partition_change(prng, image),
        4 | 5 => Some(config_or_feature(prng)),
        6 => broker_record(prng, image),
        7 => controller_record(prng, image),
        8 => security_record(prng, image),
        _ => Some(small_record(prng)),
    }
}

fn topic_record(prng: &mut Prng, image: &MetadataImage) -> Option<MetadataRecord<'static>> {
    let topics: Vec<_> = image.topics.iter().cloned().collect();
    if prng.chance(1, 3) {
        return Some(RemoveTopicRecord { topic_id: pick(prng, &topics)?.id }.into());
    }
    let name = text("topic", prng.below(30));
    if image.topics.by_name(&name).is_some() {
        return Some(
            ClearElrRecord { topic_name: if prng.chance(1, 2) { name } else { text("", 0).replace('0', "").into() } }
                .into(),
        );
    }
    Some(TopicRecord { name, topic_id: uuid(prng) }.into())
}

fn partition_record(prng: &mut Prng, image: &MetadataImage) -> Option<MetadataRecord<'static>> {
    let topics: Vec<_> = image.topics.iter().cloned().collect();
    let topic = pick(prng, &topics)?;
    let replicas = ids(prng, 4);
    let elr = ids(prng, 2);
    let record = PartitionRecord {
        partition_id: topic.partition_count() as i32,
        topic_id: topic.id,
        directories: replicas.iter().map(|_| uuid(prng)).collect(),
        isr: ids(prng, 4),
        removing_replicas: ids(prng, 1),
        adding_replicas: ids(prng, 1),
        leader: prng.below(5) as i32 - 1,
        leader_recovery_state: prng.below(2) as i8,
        leader_epoch: prng.below(100) as i32,
        partition_epoch: prng.below(100) as i32,
        eligible_leader_replicas: (!elr.is_empty()).then_some(elr),
        last_known_elr: None,
        replicas,
    };
    Some(record.into())
}

fn partition_change(prng: &mut Prng, image: &MetadataImage) -> Option<MetadataRecord<'static>> {
    let partitions: Vec<_> =
        image.topics.iter().flat_map(|t| t.partitions().map(|(index, p)| (t.id, index, p.replicas.len()))).collect();
    let (topic_id, partition_id, replicas) = pick(prng, &partitions)?;
    let mut maybe = |list: Vec<i32>| prng.chance(1, 2).then_some(list);
    let (isr, elr) = (maybe(vec![1]), maybe(vec![2, 3]));
    let record = PartitionChangeRecord {
        partition_id,
        topic_id,
        isr,
        eligible_leader_replicas: elr,
        last_known_elr: maybe(vec![7]),
        adding_replicas: maybe(vec![4]),
        removing_replicas: maybe(vec![]),
        directories: maybe(vec![]).map(|_| (0..replicas).map(|_| uuid(prng)).collect()),
        leader: prng.below(4) as i32 - 2,
        leader_recovery_state: prng.below(3) as i8 - 1,
        ..PartitionChangeRecord::default()
    };
    Some(record.into())
}

fn config_or_feature(prng: &mut Prng) -> MetadataRecord<'static> {
    if prng.chance(1, 4) {
        let (name, max) =
            [("group.version", 1), ("share.version", 2), ("transaction.version", 2)][prng.below(3) as usize];
        return FeatureLevelRecord { name: Cow::Borrowed(name), feature_level: prng.below(max + 1) as i16 }.into();
    }
    let (resource_type, resource_name) =
        [(2, "topic1"), (2, "topic2"), (4, ""), (4, "1"), (16, "sub"), (32, "group")][prng.below(6) as usize];
    let record = ConfigRecord {
        resource_type,
        resource_name: Cow::Borrowed(resource_name),
        name: text("key", prng.below(5)),
        value: prng.chance(2, 3).then(|| text("value", prng.below(100))),
    };
    record.into()
}

fn broker_record(prng: &mut Prng, image: &MetadataImage) -> Option<MetadataRecord<'static>> {
    let brokers: Vec<_> = image.cluster.brokers().cloned().collect();
    match prng.below(4) {
        0 => {
            let broker = pick(prng, &brokers)?;
            Some(UnregisterBrokerRecord { broker_id: broker.id, broker_epoch: broker.epoch }.into())
        }
        1 => {
            let broker = pick(prng, &brokers)?;
            let record = BrokerRegistrationChangeRecord {
                broker_id: broker.id,
                broker_epoch: broker.epoch,
                fenced: prng.below(3) as i8 - 1,
                in_controlled_shutdown: prng.below(2) as i8,
                log_dirs: (0..prng.below(3)).map(|_| uuid(prng)).collect(),
                cordoned_log_dirs: prng.chance(1, 2).then(|| (0..prng.below(3)).map(|_| uuid(prng)).collect()),
            };
            Some(record.into())
        }
        _ => Some(register_broker(prng)),
    }
}

fn register_broker(prng: &mut Prng) -> MetadataRecord<'static> {
    let endpoint = |name: &'static str, prng: &mut Prng| BrokerEndpoint {
        name: Cow::Borrowed(name),
        host: text("host", prng.below(9)),
        port: prng.below(65_536) as u16,
        security_protocol: prng.below(4) as i16,
    };
    let feature =
        BrokerFeature { name: Cow::Borrowed("metadata.version"), min_supported_version: 7, max_supported_version: 33 };
    let record = RegisterBrokerRecord {
        broker_id: prng.below(9) as i32,
        incarnation_id: uuid(prng),
        broker_epoch: prng.below(1_000) as i64,
        end_points: vec![endpoint("A", prng), endpoint("B", prng)],
        features: vec![feature],
        rack: prng.chance(1, 2).then(|| text("rack", prng.below(3))),
        fenced: prng.chance(1, 2),
        log_dirs: (0..prng.below(3)).map(|_| uuid(prng)).collect(),
        ..RegisterBrokerRecord::default()
    };
    record.into()
}

fn controller_record(prng: &mut Prng, image: &MetadataImage) -> Option<MetadataRecord<'static>> {
    let controllers: Vec<_> = image.cluster.controllers().map(|c| c.id).collect();
    if prng.chance(1, 3) {
        return Some(UnregisterControllerRecord { controller_id: pick(prng, &controllers)? }.into());
    }
    let endpoint = ControllerEndpoint { name: text("C", 0), host: text("h", 1), port: 1, security_protocol: 0 };
    let record = RegisterControllerRecord {
        controller_id: prng.below(3) as i32,
        incarnation_id: uuid(prng),
        end_points: vec![endpoint],
        ..RegisterControllerRecord::default()
    };
    Some(record.into())
}

fn security_record(prng: &mut Prng, image: &MetadataImage) -> Option<MetadataRecord<'static>> {
    let user = text("user", prng.below(4));
    let record = match prng.below(7) {
        0 => {
            let entity_name = prng.chance(1, 2).then(|| user.clone());
            let mut entity = vec![EntityData { entity_type: Cow::Borrowed("user"), entity_name }];
            if prng.chance(1, 2) {
                entity.insert(0, EntityData { entity_type: text("client-id", 0), entity_name: None });
            }
            let value = prng.below(1_000) as f64 / 8.0;
            ClientQuotaRecord { entity, key: text("rate", prng.below(2)), value, remove: prng.chance(1, 3) }.into()
        }
        1 => UserScramCredentialRecord {
            name: user,
            mechanism: 1 + prng.below(2) as i8,
            salt: Cow::Owned(vec![1, 2]),
            stored_key: Cow::Owned(vec![prng.below(256) as u8]),
            server_key: Cow::Owned(vec![]),
            iterations: 4096,
        }
        .into(),
        2 => {
            let known: Vec<_> = image.scram.keys().cloned().collect();
            let (mechanism, name) = pick(prng, &known)?;
            RemoveUserScramCredentialRecord { name: Cow::Owned(name.to_string()), mechanism }.into()
        }
        3 => AccessControlEntryRecord {
            id: uuid(prng),
            resource_type: 2,
            resource_name: user.clone(),
            pattern_type: 3,
            principal: user,
            host: Cow::Borrowed("*"),
            operation: prng.below(12) as i8,
            permission_type: 2,
        }
        .into(),
        4 => {
            let known: Vec<_> = image.acls.keys().copied().collect();
            RemoveAccessControlEntryRecord { id: pick(prng, &known)? }.into()
        }
        5 => DelegationTokenRecord {
            owner: user.clone(),
            requester: user.clone(),
            renewers: vec![user],
            issue_timestamp: 1,
            max_timestamp: 2,
            expiration_timestamp: prng.below(1_000) as i64,
            token_id: text("token", prng.below(5)),
        }
        .into(),
        _ => {
            let known: Vec<_> = image.delegation_tokens.keys().cloned().collect();
            RemoveDelegationTokenRecord { token_id: Cow::Owned(pick(prng, &known)?.to_string()) }.into()
        }
    };
    Some(record)
}

fn small_record(prng: &mut Prng) -> MetadataRecord<'static> {
    if prng.chance(1, 2) {
        return NoOpRecord {}.into();
    }
    ProducerIdsRecord { broker_id: 1, broker_epoch: 1, next_producer_id: prng.below(1_000_000) as i64 }.into()
}

fn level(level: i16) -> MetadataRecord<'static> {
    FeatureLevelRecord { name: Cow::Borrowed("metadata.version"), feature_level: level }.into()
}

/// An image rebuilt from the bytes of the snapshot of another.
fn rebuilt(image: &MetadataImage) -> MetadataImage {
    let mut delta = MetadataDelta::new(Arc::default());
    for (record, version) in image.records() {
        let bytes = record.encode(version).expect("a snapshot record is encodable");
        let (decoded, found) = MetadataRecord::decode(&bytes).expect("and decodable");
        assert_eq!(found, version);
        delta.replay(&decoded).expect("and applicable");
    }
    MetadataImage::clone(delta.image())
}

#[test]
fn an_image_survives_its_own_snapshot_after_any_history() {
    for seed in 0..60 {
        let prng = &mut Prng::new(seed);
        let mut image = Arc::<MetadataImage>::default();
        for _ in 0..8 {
            let mut delta = MetadataDelta::new(image.clone());
            if image.features.metadata_version().is_none() {
                delta.replay(&level(33)).expect("supported");
            }
            for _ in 0..prng.below(60) {
                let Some(record) = record_for(prng, delta.image()) else { continue };
                let bytes = record.encode(record.version_max()).expect("encodable");
                let (decoded, _) = MetadataRecord::decode(&bytes).expect("decodable");
                delta.replay(&decoded).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
            delta.finish(Provenance { last_offset: 1, last_epoch: 1, last_timestamp_ms: 1 });
            check_delta(&delta, seed);
            check_delta(&MetadataDelta::between(delta.base().clone(), delta.image().clone()), seed);
            image = delta.image().clone();
        }
        assert!(rebuilt(&image).same_content(&image), "seed {seed}");
    }
}

/// Every difference between the two images of a delta is one that the delta mentions.
fn check_delta(delta: &MetadataDelta, seed: u64) {
    let (base, image) = (delta.base(), delta.image());
    for topic in base.topics.iter().chain(image.topics.iter()) {
        let (old, new) = (base.topics.by_id(topic.id), image.topics.by_id(topic.id));
        assert!(old == new || delta.topics().contains_key(&topic.id), "seed {seed}: topic {}", topic.name);
    }
    for broker in base.cluster.brokers().chain(image.cluster.brokers()) {
        let same = base.cluster.broker(broker.id) == image.cluster.broker(broker.id);
        assert!(same || delta.brokers().contains(&broker.id), "seed {seed}: broker {}", broker.id);
    }
    for (resource, _) in base.configs.iter().chain(image.configs.iter()) {
        let same = base.configs.overrides(resource) == image.configs.overrides(resource);
        assert!(same || delta.configs().contains(resource), "seed {seed}: {resource}");
    }
    assert!(base.features == image.features || delta.features_changed());
    assert!(base.acls == image.acls || delta.acls_changed());
    assert!(base.scram == image.scram || delta.scram_changed());
    assert!(base.client_quotas == image.client_quotas || delta.client_quotas_changed());
    assert!(base.delegation_tokens == image.delegation_tokens || delta.delegation_tokens_changed());
    assert!(base.producer_ids == image.producer_ids || delta.producer_ids_changed());
    for topic in image.topics.iter() {
        let indexes: Vec<i32> = topic.partitions().map(|(index, _)| index).collect();
        let gapless = (0..indexes.len() as i32).eq(indexes.iter().copied());
        assert_eq!(topic.dense_count(), gapless.then_some(indexes.len() as i32), "seed {seed}: {indexes:?}");
    }
    let names: usize = image.topics.iter().map(|topic| topic.partition_count()).sum();
    assert_eq!(names, image.topics.partition_count(), "seed {seed}");
}

#[test]
fn an_old_metadata_version_writes_what_it_can_say() {
    for mv in 7..=33 {
        let mut delta = MetadataDelta::new(Arc::default());
        delta.replay(&level(mv)).expect("supported");
        let prng = &mut Prng::new(mv as u64);
        for _ in 0..300 {
            let Some(record) = record_for(prng, delta.image()) else { continue };
            delta.replay(&record).unwrap_or_else(|error| panic!("version {mv}: {error}"));
        }
        let copy = rebuilt(delta.image());
        assert_eq!(copy.topics.partition_count(), delta.image().topics.partition_count());
        assert_eq!(copy.configs, delta.image().configs);
        assert!(rebuilt(&copy).same_content(&copy), "version {mv}");
    }
}

#[test]
fn an_aborted_transaction_leaves_nothing_behind() {
    let mut delta = MetadataDelta::new(Arc::default());
    delta.set_config(ConfigResource::topic("kept"), "k", Some("v"));
    let before = delta.image().clone();
    let begin = MetadataRecord::from(BeginTransactionRecord::default());
    let end = MetadataRecord::from(EndTransactionRecord {});
    let abort = MetadataRecord::from(AbortTransactionRecord::default());
    let topic = MetadataRecord::from(TopicRecord { name: text("t", 0), topic_id: Uuid::from_u128(500) });

    delta.replay(&begin).expect("opens");
    delta.replay(&topic).expect("applies");
    assert!(delta.in_transaction());
    assert!(delta.replay(&begin).is_err());
    delta.replay(&abort).expect("aborts");
    assert_eq!((delta.image(), delta.topics().len()), (&before, 0));
    assert!(delta.replay(&end).is_err() && delta.replay(&abort).is_err());

    delta.replay(&begin).expect("opens");
    delta.replay(&topic).expect("applies");
    delta.replay(&end).expect("ends");
    assert!(!delta.in_transaction());
    assert_eq!(delta.topics().len(), 1);
}

#[test]
fn records_that_do_not_fit_are_refused() {
    let unknown = Uuid::from_u128(99);
    let partition = PartitionRecord { topic_id: unknown, ..PartitionRecord::default() };
    let wrong: Vec<(MetadataRecord<'_>, &str)> = vec![
        (level(34), "level 34 of metadata.version"),
        (level(6), "level 6 of metadata.version"),
        (RemoveTopicRecord { topic_id: unknown }.into(), "is unknown"),
        (partition.into(), "is unknown"),
        (PartitionChangeRecord { topic_id: unknown, ..Default::default() }.into(), "is unknown"),
        (UnregisterBrokerRecord { broker_id: 3, broker_epoch: 1 }.into(), "broker 3 is not registered"),
        (ConfigRecord { resource_type: 5, ..Default::default() }.into(), "resource type 5"),
        (UnregisterControllerRecord { controller_id: 1 }.into(), "controller 1 is unknown"),
        (FeatureLevelRecord { name: text("no.such", 0), feature_level: 1 }.into(), "no.such0"),
    ];
    for (record, reason) in wrong {
        let error = MetadataDelta::new(Arc::default()).replay(&record).expect_err("refused").to_string();
        assert!(error.contains(reason) && error.contains(record.name()), "{error}");
    }
}
