//! Records of the metadata log applied to a delta.

use std::sync::Arc;

use base::{BrokerId, Uuid};
use thiserror::Error;
use wire::broker_registration_change_record::BrokerRegistrationChangeRecord;
use wire::client_quota_record::ClientQuotaRecord;
use wire::delegation_token_record::DelegationTokenRecord;
use wire::metadata_record::MetadataRecord;
use wire::partition_change_record::PartitionChangeRecord;
use wire::partition_record::PartitionRecord;
use wire::register_broker_record::RegisterBrokerRecord;
use wire::register_controller_record::RegisterControllerRecord;
use wire::unregister_broker_record::UnregisterBrokerRecord;
use wire::user_scram_credential_record::UserScramCredentialRecord;

use crate::cluster::{BrokerRegistration, ControllerRegistration, Endpoint, VersionRange};
use crate::configs::{ConfigResource, ConfigResourceType};
use crate::delta::MetadataDelta;
use crate::directory_id::MIGRATING;
use crate::features;
use crate::security::{AccessControlEntry, DelegationToken, ScramCredential};
use crate::topics::{LeaderRecoveryState, PartitionRegistration};

/// A committed record that does not fit the metadata before it. The log is broken or was written by newer software; going
/// on would mean to serve something else than the cluster agreed on.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{record} cannot be applied: {reason}")]
pub struct ReplayError {
    /// Name of the record's schema.
    pub record: &'static str,
    /// What is wrong.
    pub reason: String,
}

type Outcome = Result<(), String>;

impl MetadataDelta {
    /// Applies one record. Between BeginTransaction and its end the records count provisionally: AbortTransaction takes
    /// them back (KIP-868).
    ///
    /// # Errors
    /// When the record refers to something that is not there, or holds a value without meaning. The delta is then
    /// unusable.
    pub fn replay(&mut self, record: &MetadataRecord<'_>) -> Result<(), ReplayError> {
        self.apply(record).map_err(|reason| ReplayError { record: record.name(), reason })
    }

    fn apply(&mut self, record: &MetadataRecord<'_>) -> Outcome {
        match record {
            MetadataRecord::Topic(r) => self.create_topic(&r.name, r.topic_id),
            MetadataRecord::Partition(r) => return self.apply_partition(r),
            MetadataRecord::PartitionChange(r) => return self.apply_partition_change(r),
            MetadataRecord::RemoveTopic(r) => {
                return found(self.remove_topic(r.topic_id), || format!("topic {}", r.topic_id));
            }
            MetadataRecord::ClearElr(r) => return self.apply_clear_elr(&r.topic_name),
            MetadataRecord::Config(r) => {
                let kind = ConfigResourceType::from_code(r.resource_type)
                    .ok_or_else(|| format!("resource type {} is unknown", r.resource_type))?;
                let resource = ConfigResource { kind, name: Arc::from(&*r.resource_name) };
                self.set_config(resource, &r.name, r.value.as_deref());
            }
            // The quorum's own feature is agreed on by control records; older software may have left a record of it.
            MetadataRecord::FeatureLevel(r) if r.name == features::KRAFT_VERSION => {}
            MetadataRecord::FeatureLevel(r) => return self.apply_feature(&r.name, r.feature_level),
            MetadataRecord::ProducerIds(r) => self.set_next_producer_id(r.next_producer_id),
            MetadataRecord::RegisterBroker(r) => self.set_broker(broker_of(r)),
            MetadataRecord::UnregisterBroker(r) => return self.apply_unregister_broker(r),
            MetadataRecord::BrokerRegistrationChange(r) => return self.apply_registration_change(r),
            MetadataRecord::FenceBroker(r) => return self.set_fenced(r.id, r.epoch, true),
            MetadataRecord::UnfenceBroker(r) => return self.set_fenced(r.id, r.epoch, false),
            MetadataRecord::RegisterController(r) => self.set_controller(controller_of(r)),
            MetadataRecord::UnregisterController(r) => {
                return found(self.remove_controller(r.controller_id), || format!("controller {}", r.controller_id));
            }
            MetadataRecord::BeginTransaction(_) => return self.begin_transaction(),
            MetadataRecord::EndTransaction(_) => return self.end_transaction(),
            MetadataRecord::AbortTransaction(_) => return self.abort_transaction(),
            // A migration from ZooKeeper is over in every cluster that 4.x can open.
            MetadataRecord::NoOp(_) | MetadataRecord::ZkMigrationState(_) => {}
            _ => return self.apply_security(record),
        }
        Ok(())
    }

    fn apply_security(&mut self, record: &MetadataRecord<'_>) -> Outcome {
        match record {
            MetadataRecord::ClientQuota(r) => self.apply_client_quota(r),
            MetadataRecord::UserScramCredential(r) => self.set_scram(r.mechanism, &r.name, credential_of(r)),
            MetadataRecord::RemoveUserScramCredential(r) => {
                return found(self.remove_scram(r.mechanism, &r.name), || format!("credential of {}", r.name));
            }
            MetadataRecord::AccessControlEntry(r) => {
                let entry = AccessControlEntry {
                    resource_type: r.resource_type,
                    resource_name: Arc::from(&*r.resource_name),
                    pattern_type: r.pattern_type,
                    principal: Arc::from(&*r.principal),
                    host: Arc::from(&*r.host),
                    operation: r.operation,
                    permission_type: r.permission_type,
                };
                self.set_acl(r.id, entry);
            }
            MetadataRecord::RemoveAccessControlEntry(r) => {
                return found(self.remove_acl(r.id), || format!("access control entry {}", r.id));
            }
            MetadataRecord::DelegationToken(r) => self.set_delegation_token(&r.token_id, token_of(r)),
            MetadataRecord::RemoveDelegationToken(r) => {
                return found(self.remove_delegation_token(&r.token_id), || format!("delegation token {}", r.token_id));
            }
            _ => return Err("no rule for this record".to_owned()),
        }
        Ok(())
    }

    fn apply_feature(&mut self, name: &str, level: i16) -> Outcome {
        let known = features::support(name);
        // Level 0 of a feature that this software has never heard of is what it has anyway.
        let (min, max) = known.map_or((0, 0), |feature| (feature.min, feature.max));
        let supported = level == 0 && name != features::METADATA_VERSION || (min..=max).contains(&level);
        if !supported {
            return Err(format!("level {level} of {name} is not supported here, only {min} to {max}"));
        }
        self.set_feature(name, level);
        Ok(())
    }

    fn apply_partition(&mut self, r: &PartitionRecord) -> Outcome {
        let registration = PartitionRegistration {
            directories: directories_of(r.directories.clone(), r.replicas.len())?,
            replicas: r.replicas.clone(),
            isr: r.isr.clone(),
            removing_replicas: r.removing_replicas.clone(),
            adding_replicas: r.adding_replicas.clone(),
            elr: r.eligible_leader_replicas.clone().unwrap_or_default(),
            last_known_elr: r.last_known_elr.clone().unwrap_or_default(),
            leader: r.leader,
            leader_recovery_state: recovery_state(r.leader_recovery_state)?,
            leader_epoch: r.leader_epoch,
            partition_epoch: r.partition_epoch,
        };
        found(self.set_partition(r.topic_id, r.partition_id, registration), || format!("topic {}", r.topic_id))
    }

    fn apply_partition_change(&mut self, r: &PartitionChangeRecord) -> Outcome {
        let name = || format!("partition {}-{}", r.topic_id, r.partition_id);
        let current = self.image().topics.partition(r.topic_id, r.partition_id).cloned();
        let current = current.ok_or_else(|| format!("{} is unknown", name()))?;
        let next = current.merge(r)?;
        found(self.set_partition(r.topic_id, r.partition_id, next), name)
    }

    fn apply_clear_elr(&mut self, topic: &str) -> Outcome {
        let image = self.image().clone();
        if topic.is_empty() {
            for topic in image.topics.iter() {
                self.clear_elr(topic);
            }
            return Ok(());
        }
        let topic = image.topics.by_name(topic).ok_or_else(|| format!("topic {topic} is unknown"))?;
        self.clear_elr(topic);
        Ok(())
    }

    fn clear_elr(&mut self, topic: &crate::TopicImage) {
        for (index, partition) in topic.partitions() {
            if partition.elr.is_empty() && partition.last_known_elr.is_empty() {
                continue;
            }
            let mut next = PartitionRegistration::clone(partition);
            next.elr.clear();
            next.last_known_elr.clear();
            next.partition_epoch += 1;
            self.set_partition(topic.id, index, next);
        }
    }

    fn registered(&self, id: BrokerId, epoch: i64) -> Result<BrokerRegistration, String> {
        let broker = self.image().cluster.broker(id).ok_or_else(|| format!("broker {id} is not registered"))?;
        if broker.epoch != epoch {
            return Err(format!("broker {id} has epoch {}, not {epoch}", broker.epoch));
        }
        Ok(BrokerRegistration::clone(broker))
    }

    fn apply_unregister_broker(&mut self, r: &UnregisterBrokerRecord) -> Outcome {
        self.registered(r.broker_id, r.broker_epoch)?;
        found(self.remove_broker(r.broker_id), || format!("broker {}", r.broker_id))
    }

    fn set_fenced(&mut self, id: BrokerId, epoch: i64, fenced: bool) -> Outcome {
        let broker = self.registered(id, epoch)?;
        self.set_broker(BrokerRegistration { fenced, ..broker });
        Ok(())
    }

    fn apply_registration_change(&mut self, r: &BrokerRegistrationChangeRecord) -> Outcome {
        let current = self.registered(r.broker_id, r.broker_epoch)?;
        let mut next = current.clone();
        match r.fenced {
            0 => {}
            1 => next.fenced = true,
            -1 => next.fenced = false,
            other => return Err(format!("{other} is no change of fencing")),
        }
        match r.in_controlled_shutdown {
            0 => {}
            1 => next.in_controlled_shutdown = true,
            other => return Err(format!("{other} is no change of the controlled shutdown")),
        }
        if !r.log_dirs.is_empty() {
            next.directories = sorted(r.log_dirs.clone());
        }
        if let Some(cordoned) = &r.cordoned_log_dirs {
            next.cordoned_directories = Some(sorted(cordoned.clone()));
        }
        if next != current {
            self.set_broker(next);
        }
        Ok(())
    }

    fn apply_client_quota(&mut self, r: &ClientQuotaRecord<'_>) {
        let entity =
            r.entity.iter().map(|e| (Arc::from(&*e.entity_type), e.entity_name.as_deref().map(Arc::from))).collect();
        self.set_client_quota(entity, &r.key, (!r.remove).then_some(r.value));
    }
}

impl PartitionRegistration {
    /// This registration after a change record: fields that the record leaves out stay, a named leader begins a new
    /// leader epoch, and the partition epoch grows.
    ///
    /// # Errors
    /// When the record's lists do not fit together.
    pub fn merge(&self, r: &PartitionChangeRecord) -> Result<PartitionRegistration, String> {
        /// Value of the leader field that stands for "unchanged".
        const UNCHANGED_LEADER: BrokerId = -2;
        /// Value of the recovery state field that stands for "unchanged".
        const UNCHANGED_STATE: i8 = -1;
        let pick = |new: &Option<Vec<BrokerId>>, old: &Vec<BrokerId>| new.as_ref().unwrap_or(old).clone();
        let replicas = pick(&r.replicas, &self.replicas);
        let directories =
            directories_of(r.directories.clone().unwrap_or_else(|| self.directories.clone()), replicas.len());
        let new_leader = r.leader != UNCHANGED_LEADER;
        let state = r.leader_recovery_state;
        Ok(PartitionRegistration {
            directories: directories?,
            replicas,
            isr: pick(&r.isr, &self.isr),
            removing_replicas: pick(&r.removing_replicas, &self.removing_replicas),
            adding_replicas: pick(&r.adding_replicas, &self.adding_replicas),
            elr: pick(&r.eligible_leader_replicas, &self.elr),
            last_known_elr: pick(&r.last_known_elr, &self.last_known_elr),
            leader: if new_leader { r.leader } else { self.leader },
            leader_recovery_state: if state == UNCHANGED_STATE {
                self.leader_recovery_state
            } else {
                recovery_state(state)?
            },
            leader_epoch: self.leader_epoch.saturating_add(i32::from(new_leader)),
            partition_epoch: self.partition_epoch.saturating_add(1),
        })
    }
}

fn found(found: bool, what: impl FnOnce() -> String) -> Outcome {
    if found { Ok(()) } else { Err(format!("{} is unknown", what())) }
}

fn sorted(mut ids: Vec<Uuid>) -> Vec<Uuid> {
    ids.sort();
    ids
}

fn recovery_state(value: i8) -> Result<LeaderRecoveryState, String> {
    LeaderRecoveryState::from_value(value).ok_or_else(|| format!("{value} is no leader recovery state"))
}

/// Directories for `replicas` replicas; records older than directory assignment name none.
fn directories_of(directories: Vec<Uuid>, replicas: usize) -> Result<Vec<Uuid>, String> {
    if directories.iter().all(|directory| *directory == MIGRATING) {
        return Ok(vec![MIGRATING; replicas]);
    }
    if directories.len() != replicas {
        return Err(format!("{} directories for {replicas} replicas", directories.len()));
    }
    Ok(directories)
}

fn broker_of(r: &RegisterBrokerRecord<'_>) -> BrokerRegistration {
    let endpoints = r.end_points.iter().map(|e| (&*e.name, &*e.host, e.port, e.security_protocol));
    BrokerRegistration {
        id: r.broker_id,
        epoch: r.broker_epoch,
        incarnation_id: r.incarnation_id,
        listeners: listeners_of(endpoints),
        features: r
            .features
            .iter()
            .map(|f| feature_of(&f.name, f.min_supported_version, f.max_supported_version))
            .collect(),
        rack: r.rack.as_deref().map(Arc::from),
        fenced: r.fenced,
        in_controlled_shutdown: r.in_controlled_shutdown,
        is_migrating_zk_broker: r.is_migrating_zk_broker,
        directories: sorted(r.log_dirs.clone()),
        cordoned_directories: r.cordoned_log_dirs.clone().map(sorted),
    }
}

fn controller_of(r: &RegisterControllerRecord<'_>) -> ControllerRegistration {
    let endpoints = r.end_points.iter().map(|e| (&*e.name, &*e.host, e.port, e.security_protocol));
    ControllerRegistration {
        id: r.controller_id,
        incarnation_id: r.incarnation_id,
        zk_migration_ready: r.zk_migration_ready,
        listeners: listeners_of(endpoints),
        features: r
            .features
            .iter()
            .map(|f| feature_of(&f.name, f.min_supported_version, f.max_supported_version))
            .collect(),
    }
}

fn listeners_of<'r>(endpoints: impl Iterator<Item = (&'r str, &'r str, u16, i16)>) -> imbl::OrdMap<Arc<str>, Endpoint> {
    endpoints
        .map(|(name, host, port, security_protocol)| {
            let name: Arc<str> = Arc::from(name);
            (name.clone(), Endpoint { name, host: Arc::from(host), port, security_protocol })
        })
        .collect()
}

fn feature_of(name: &str, min: i16, max: i16) -> (Arc<str>, VersionRange) {
    (Arc::from(name), VersionRange { min, max })
}

fn credential_of(r: &UserScramCredentialRecord<'_>) -> ScramCredential {
    ScramCredential {
        salt: Arc::from(&*r.salt),
        stored_key: Arc::from(&*r.stored_key),
        server_key: Arc::from(&*r.server_key),
        iterations: r.iterations,
    }
}

fn token_of(r: &DelegationTokenRecord<'_>) -> DelegationToken {
    DelegationToken {
        owner: Arc::from(&*r.owner),
        requester: Arc::from(&*r.requester),
        renewers: r.renewers.iter().map(|renewer| Arc::from(&**renewer)).collect(),
        issue_timestamp: r.issue_timestamp,
        max_timestamp: r.max_timestamp,
        expiration_timestamp: r.expiration_timestamp,
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
