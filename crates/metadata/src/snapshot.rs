//! An image written back as records: the content of a snapshot.

use std::borrow::Cow;
use std::sync::Arc;

use base::{PartitionIndex, TopicId};
use wire::access_control_entry_record::AccessControlEntryRecord;
use wire::client_quota_record::{ClientQuotaRecord, EntityData};
use wire::config_record::ConfigRecord;
use wire::delegation_token_record::DelegationTokenRecord;
use wire::feature_level_record::FeatureLevelRecord;
use wire::metadata_record::MetadataRecord;
use wire::partition_record::PartitionRecord;
use wire::producer_ids_record::ProducerIdsRecord;
use wire::register_broker_record::{BrokerEndpoint, BrokerFeature, RegisterBrokerRecord};
use wire::register_controller_record::{ControllerEndpoint, ControllerFeature, RegisterControllerRecord};
use wire::topic_record::TopicRecord;
use wire::user_scram_credential_record::UserScramCredentialRecord;

use crate::cluster::{BrokerRegistration, ControllerRegistration};
use crate::features::{METADATA_VERSION, MetadataVersion};
use crate::image::MetadataImage;
use crate::topics::PartitionRegistration;

/// A record and the version of its schema in which it is to be written.
pub type VersionedRecord<'a> = (MetadataRecord<'a>, i16);

impl MetadataImage {
    /// The records that make this image out of nothing, in the order in which Kafka writes a snapshot: feature levels
    /// first, because they say how to read the rest. What the image's metadata version cannot say is left out.
    pub fn records(&self) -> impl Iterator<Item = VersionedRecord<'_>> {
        let version = self.features.metadata_version_or_min();
        self.feature_records()
            .chain(self.cluster.brokers().map(move |broker| broker.to_record(version)))
            .chain(self.controller_records(version))
            .chain(self.topic_records(version))
            .chain(self.config_records())
            .chain(self.quota_records())
            .chain(self.producer_id_records())
            .chain(self.acl_records())
            .chain(self.scram_records(version))
            .chain(self.token_records(version))
    }

    fn feature_records(&self) -> impl Iterator<Item = VersionedRecord<'_>> {
        let level = self.features.metadata_version().map(|version| (METADATA_VERSION, version.level()));
        let others = self.features.others().map(|(name, level)| (&**name, level));
        level
            .into_iter()
            .chain(others)
            .map(|(name, feature_level)| (FeatureLevelRecord { name: Cow::Borrowed(name), feature_level }.into(), 0))
    }

    fn controller_records(&self, version: MetadataVersion) -> impl Iterator<Item = VersionedRecord<'_>> {
        let supported = version.has_controller_registration();
        self.cluster.controllers().filter(move |_| supported).map(|controller| controller.to_record())
    }

    fn topic_records(&self, version: MetadataVersion) -> impl Iterator<Item = VersionedRecord<'_>> {
        self.topics.iter_by_id().flat_map(move |topic| {
            let head = TopicRecord { name: Cow::Borrowed(&topic.name), topic_id: topic.id };
            let partitions =
                topic.partitions().map(move |(index, partition)| partition.to_record(topic.id, index, version));
            std::iter::once((head.into(), 0)).chain(partitions)
        })
    }

    fn config_records(&self) -> impl Iterator<Item = VersionedRecord<'_>> {
        self.configs.iter().flat_map(|(resource, values)| {
            values.iter().map(|(name, value)| {
                let record = ConfigRecord {
                    resource_type: resource.kind.code(),
                    resource_name: Cow::Borrowed(&resource.name),
                    name: Cow::Borrowed(name),
                    value: Some(Cow::Borrowed(value)),
                };
                (record.into(), 0)
            })
        })
    }

    fn quota_records(&self) -> impl Iterator<Item = VersionedRecord<'_>> {
        self.client_quotas.iter().flat_map(|(entity, values)| {
            values.iter().map(|(key, bits)| {
                let parts = entity.iter().map(|(kind, name)| EntityData {
                    entity_type: Cow::Borrowed(kind),
                    entity_name: name.as_deref().map(Cow::Borrowed),
                });
                let record = ClientQuotaRecord {
                    entity: parts.collect(),
                    key: Cow::Borrowed(key),
                    value: f64::from_bits(*bits),
                    remove: false,
                };
                (record.into(), 0)
            })
        })
    }

    fn producer_id_records(&self) -> impl Iterator<Item = VersionedRecord<'_>> {
        let next_producer_id = self.producer_ids.next_producer_id;
        let record = ProducerIdsRecord { broker_id: -1, broker_epoch: -1, next_producer_id };
        (next_producer_id >= 0).then(|| (record.into(), 0)).into_iter()
    }

    fn acl_records(&self) -> impl Iterator<Item = VersionedRecord<'_>> {
        self.acls.iter().map(|(id, entry)| {
            let record = AccessControlEntryRecord {
                id: *id,
                resource_type: entry.resource_type,
                resource_name: Cow::Borrowed(&entry.resource_name),
                pattern_type: entry.pattern_type,
                principal: Cow::Borrowed(&entry.principal),
                host: Cow::Borrowed(&entry.host),
                operation: entry.operation,
                permission_type: entry.permission_type,
            };
            (record.into(), 0)
        })
    }

    fn scram_records(&self, version: MetadataVersion) -> impl Iterator<Item = VersionedRecord<'_>> {
        self.scram.iter().filter(move |_| version.has_scram()).map(|((mechanism, name), credential)| {
            let record = UserScramCredentialRecord {
                name: Cow::Borrowed(name),
                mechanism: *mechanism,
                salt: Cow::Borrowed(&credential.salt),
                stored_key: Cow::Borrowed(&credential.stored_key),
                server_key: Cow::Borrowed(&credential.server_key),
                iterations: credential.iterations,
            };
            (record.into(), 0)
        })
    }

    fn token_records(&self, version: MetadataVersion) -> impl Iterator<Item = VersionedRecord<'_>> {
        self.delegation_tokens.iter().filter(move |_| version.has_delegation_tokens()).map(|(id, token)| {
            let record = DelegationTokenRecord {
                owner: Cow::Borrowed(&token.owner),
                requester: Cow::Borrowed(&token.requester),
                renewers: token.renewers.iter().map(|renewer: &Arc<str>| Cow::Borrowed(&**renewer)).collect(),
                issue_timestamp: token.issue_timestamp,
                max_timestamp: token.max_timestamp,
                expiration_timestamp: token.expiration_timestamp,
                token_id: Cow::Borrowed(id),
            };
            (record.into(), 0)
        })
    }
}

impl PartitionRegistration {
    /// The record that creates this partition.
    pub fn to_record(
        &self,
        topic_id: TopicId,
        partition_id: PartitionIndex,
        version: MetadataVersion,
    ) -> VersionedRecord<'static> {
        let elr = |list: &Vec<i32>| (version.has_elr() && !list.is_empty()).then(|| list.clone());
        let record = PartitionRecord {
            partition_id,
            topic_id,
            replicas: self.replicas.clone(),
            isr: self.isr.clone(),
            removing_replicas: self.removing_replicas.clone(),
            adding_replicas: self.adding_replicas.clone(),
            leader: self.leader,
            leader_recovery_state: self.leader_recovery_state.value(),
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            directories: if version.has_directory_assignment() { self.directories.clone() } else { Vec::new() },
            eligible_leader_replicas: elr(&self.elr),
            last_known_elr: elr(&self.last_known_elr),
        };
        (record.into(), version.partition_record())
    }
}

impl BrokerRegistration {
    /// The record that registers this broker.
    pub fn to_record(&self, version: MetadataVersion) -> VersionedRecord<'_> {
        let endpoints = self.listeners.values().map(|endpoint| BrokerEndpoint {
            name: Cow::Borrowed(&endpoint.name),
            host: Cow::Borrowed(&endpoint.host),
            port: endpoint.port,
            security_protocol: endpoint.security_protocol,
        });
        let features = self.features.iter().map(|(name, range)| BrokerFeature {
            name: Cow::Borrowed(name),
            min_supported_version: range.min,
            max_supported_version: range.max,
        });
        let record_version = version.register_broker_record();
        let record = RegisterBrokerRecord {
            broker_id: self.id,
            is_migrating_zk_broker: self.is_migrating_zk_broker && record_version >= 2,
            incarnation_id: self.incarnation_id,
            broker_epoch: self.epoch,
            end_points: endpoints.collect(),
            features: features.collect(),
            rack: self.rack.as_deref().map(Cow::Borrowed),
            fenced: self.fenced,
            in_controlled_shutdown: self.in_controlled_shutdown,
            log_dirs: if version.has_directory_assignment() { self.directories.clone() } else { Vec::new() },
            cordoned_log_dirs: self.cordoned_directories.clone().filter(|_| version.has_cordoned_log_dirs()),
        };
        (record.into(), record_version)
    }
}

impl ControllerRegistration {
    /// The record that registers this controller.
    pub fn to_record(&self) -> VersionedRecord<'_> {
        let endpoints = self.listeners.values().map(|endpoint| ControllerEndpoint {
            name: Cow::Borrowed(&endpoint.name),
            host: Cow::Borrowed(&endpoint.host),
            port: endpoint.port,
            security_protocol: endpoint.security_protocol,
        });
        let features = self.features.iter().map(|(name, range)| ControllerFeature {
            name: Cow::Borrowed(name),
            min_supported_version: range.min,
            max_supported_version: range.max,
        });
        let record = RegisterControllerRecord {
            controller_id: self.id,
            incarnation_id: self.incarnation_id,
            zk_migration_ready: self.zk_migration_ready,
            end_points: endpoints.collect(),
            features: features.collect(),
        };
        (record.into(), 0)
    }
}
