//! Brokers and controllers come, report and leave.

use std::borrow::Cow;
use std::collections::BTreeSet;

use base::{BrokerId, Offset};
use metadata::{BrokerRegistration, VersionRange, VersionedRecord, directory_id, features};
use wire::ErrorCode;
use wire::allocate_producer_ids_request::AllocateProducerIdsRequest;
use wire::allocate_producer_ids_response::AllocateProducerIdsResponse;
use wire::broker_heartbeat_request::BrokerHeartbeatRequest;
use wire::broker_heartbeat_response::BrokerHeartbeatResponse;
use wire::broker_registration_change_record::BrokerRegistrationChangeRecord;
use wire::broker_registration_request::BrokerRegistrationRequest;
use wire::broker_registration_response::BrokerRegistrationResponse;
use wire::controller_registration_request::ControllerRegistrationRequest;
use wire::controller_registration_response::ControllerRegistrationResponse;
use wire::producer_ids_record::ProducerIdsRecord;
use wire::register_broker_record::{BrokerEndpoint, BrokerFeature, RegisterBrokerRecord};
use wire::register_controller_record::{ControllerEndpoint, ControllerFeature, RegisterControllerRecord};
use wire::unregister_broker_record::UnregisterBrokerRecord;
use wire::unregister_broker_request::UnregisterBrokerRequest;
use wire::unregister_broker_response::UnregisterBrokerResponse;
use wire::unregister_controller_record::UnregisterControllerRecord;
use wire::unregister_controller_request::UnregisterControllerRequest;
use wire::unregister_controller_response::UnregisterControllerResponse;

use crate::controller::{Controller, Decision, Env};
use crate::elections::Standing;
use crate::error::ApiError;
use crate::heartbeat::{BrokerState, Wish};

/// Producer ids that one broker gets at a time.
pub(crate) const PRODUCER_IDS_PER_BLOCK: i64 = 1_000;

/// Value of the fencing field for "fence" and "unfence".
const FENCE: i8 = 1;
const UNFENCE: i8 = -1;
/// Value of the shutdown field for "shutting down".
const SHUTTING_DOWN: i8 = 1;

/// First version of BrokerRegistration in which a broker can say that it stopped cleanly (KIP-966).
const CLEAN_SHUTDOWN_KNOWN_FROM: i16 = 3;

impl Controller {
    /// The broker's registration, if it has this epoch.
    ///
    /// # Errors
    /// STALE_BROKER_EPOCH when the broker is unknown or registered anew since.
    pub(crate) fn check_broker_epoch(&self, id: BrokerId, epoch: i64) -> Result<BrokerRegistration, ApiError> {
        let stale = |text| ApiError::new(ErrorCode::STALE_BROKER_EPOCH, text);
        let broker = self.image().cluster.broker(id);
        let broker = broker.ok_or_else(|| stale(format!("No broker registration found for broker id {id}")))?;
        if broker.epoch != epoch {
            return Err(stale(format!("Expected broker epoch {}, but got broker epoch {epoch}", broker.epoch)));
        }
        Ok(BrokerRegistration::clone(broker))
    }

    /// BrokerRegistration: a new incarnation gets a new epoch, the offset of the decision's first record; the same
    /// incarnation amends what it said.
    pub(crate) fn register_broker(
        &mut self,
        env: Env,
        version: i16,
        request: &BrokerRegistrationRequest<'_>,
    ) -> Result<Decision<BrokerRegistrationResponse>, ApiError> {
        let existing = self.image().cluster.broker(request.broker_id).cloned();
        self.check_registration(env, request, existing.as_deref())?;
        let version_of_log = self.version();
        let mut record = registration_record(request);
        if version_of_log.has_directory_assignment() {
            record.log_dirs = request.log_dirs.clone();
        }
        let mut records = Vec::new();
        match existing.as_deref().filter(|existing| existing.incarnation_id == request.incarnation_id) {
            Some(same) => {
                record.fenced = same.fenced;
                record.in_controlled_shutdown = same.in_controlled_shutdown;
                record.broker_epoch = same.epoch;
            }
            None => {
                let known = existing.as_deref().is_some_and(|existing| existing.epoch == request.previous_broker_epoch);
                let clean = version >= CLEAN_SHUTDOWN_KNOWN_FROM && known;
                self.forget_incarnation(request.broker_id, clean, &mut records);
                record.broker_epoch = env.next_offset;
                self.heartbeats.remove(request.broker_id);
            }
        }
        let broker_epoch = record.broker_epoch;
        records.push((record.into(), version_of_log.register_broker_record()));
        Ok(Decision::new(records, BrokerRegistrationResponse { broker_epoch, ..Default::default() }))
    }

    fn check_registration(
        &self,
        env: Env,
        request: &BrokerRegistrationRequest<'_>,
        existing: Option<&BrokerRegistration>,
    ) -> Result<(), ApiError> {
        if request.cluster_id != self.cluster_id {
            let text = format!("Expected cluster ID {}, but got cluster ID {}", self.cluster_id, request.cluster_id);
            return Err(ApiError::new(ErrorCode::INCONSISTENT_CLUSTER_ID, text));
        }
        if let Some(existing) = existing
            && existing.incarnation_id != request.incarnation_id
            && self.heartbeats.has_session(existing.id, existing.epoch, env.now)
        {
            return Err(ApiError::new(
                ErrorCode::DUPLICATE_BROKER_REGISTRATION,
                "Another broker is registered with that broker id. If the broker was recently restarted this should \
                 self-resolve once the heartbeat manager expires the broker's session.",
            ));
        }
        if request.is_migrating_zk_broker {
            return Err(ApiError::new(
                ErrorCode::BROKER_ID_NOT_REGISTERED,
                "Controller does not support registering ZK brokers.",
            ));
        }
        if self.version().has_directory_assignment() {
            self.check_directories(request)?;
        }
        self.check_features(request)
    }

    fn check_directories(&self, request: &BrokerRegistrationRequest<'_>) -> Result<(), ApiError> {
        let invalid = |text: String| Err(ApiError::new(ErrorCode::INVALID_REGISTRATION, text));
        if request.log_dirs.is_empty() {
            return invalid("No directories specified in request".to_owned());
        }
        if request.log_dirs.iter().any(|directory| directory_id::is_reserved(*directory)) {
            return invalid("Reserved directory ID in request".to_owned());
        }
        let distinct: BTreeSet<_> = request.log_dirs.iter().collect();
        if distinct.len() != request.log_dirs.len() {
            return invalid("Duplicate directory ID in request".to_owned());
        }
        for other in self.image().cluster.brokers().filter(|other| other.id != request.broker_id) {
            if let Some(directory) = other.directories.iter().find(|directory| distinct.contains(directory)) {
                return invalid(format!("Broker {} is already registered with directory {directory}", other.id));
            }
        }
        Ok(())
    }

    /// Every finalized feature has to lie in what the broker supports; a feature it does not name is one it lacks.
    fn check_features(&self, request: &BrokerRegistrationRequest<'_>) -> Result<(), ApiError> {
        if !request.features.iter().any(|feature| feature.name == features::METADATA_VERSION) {
            return Err(ApiError::new(
                ErrorCode::INVALID_REGISTRATION,
                "Request features do not contain 'metadata.version'",
            ));
        }
        let image = self.image();
        let level_of = |name: &str| match name {
            features::METADATA_VERSION => self.version().level(),
            // The controller does not count the quorum's own feature among those a broker has to match.
            features::KRAFT_VERSION => 0,
            _ => image.features.level(name),
        };
        let check = |name: &str, range: VersionRange| {
            let finalized = level_of(name);
            if range.contains(finalized) {
                return Ok(());
            }
            let text = format!(
                "Unable to register because the broker does not support finalized version {finalized} of {name}. The \
                 broker wants a version between {} and {}, inclusive.",
                range.min, range.max
            );
            Err(ApiError::new(ErrorCode::UNSUPPORTED_VERSION, text))
        };
        for feature in &request.features {
            check(
                &feature.name,
                VersionRange { min: feature.min_supported_version, max: feature.max_supported_version },
            )?;
        }
        for (name, _) in image.features.others() {
            if !request.features.iter().any(|feature| feature.name == **name) {
                check(name, VersionRange { min: 0, max: 0 })?;
            }
        }
        Ok(())
    }

    /// Takes the leaderships of an incarnation that is gone. One that did not stop cleanly may have lost what it had, so
    /// with eligible leader replicas it is none of them either.
    fn forget_incarnation(&mut self, id: BrokerId, clean: bool, records: &mut Vec<VersionedRecord<'static>>) {
        if self.image().features.elr_enabled() && !clean {
            let standing = Standing { unclean: Some(id), ..Standing::default() };
            self.standing_changes(standing, |p| p.isr.contains(&id) || p.elr.contains(&id), records);
        } else {
            let standing = Standing { leaving: Some(id), ..Standing::default() };
            self.standing_changes(standing, |p| p.isr.contains(&id), records);
        }
    }

    /// BrokerHeartbeat: keeps the session, and moves the broker between fenced, serving and shutting down.
    pub(crate) fn broker_heartbeat(
        &mut self,
        env: Env,
        request: &BrokerHeartbeatRequest,
    ) -> Result<Decision<BrokerHeartbeatResponse>, ApiError> {
        let id = request.broker_id;
        let broker = self.check_broker_epoch(id, request.broker_epoch)?;
        self.heartbeats.contact(id, broker.epoch, env.now);
        let registered_at = self.registered_at(id);
        let wish = Wish {
            metadata_offset: request.current_metadata_offset,
            want_fence: request.want_fence,
            want_shut_down: request.want_shut_down,
        };
        let current = self.heartbeats.state(id);
        let next = self.heartbeats.next_state(id, wish, registered_at, || self.leads_anything(id));
        let mut records = Vec::new();
        if next != current {
            match next {
                BrokerState::Fenced | BrokerState::ShutdownNow => self.fence(&broker, &mut records),
                BrokerState::Unfenced => self.unfence(&broker, &mut records),
                BrokerState::ControlledShutdown => self.begin_controlled_shutdown(&broker, &mut records),
            }
        }
        self.heartbeats.touch(id, next.is_fenced(), request.current_metadata_offset);
        self.note_directories(&broker, request, &mut records);
        if next == BrokerState::ShutdownNow {
            self.heartbeats.end_session(id);
        }
        if next == BrokerState::ControlledShutdown {
            let last = env.next_offset + records.len() as Offset - 1;
            self.heartbeats.begin_shutdown(id, last);
        }
        let response = BrokerHeartbeatResponse {
            is_caught_up: request.current_metadata_offset >= registered_at,
            is_fenced: next.is_fenced(),
            should_shut_down: next == BrokerState::ShutdownNow,
            ..BrokerHeartbeatResponse::default()
        };
        Ok(Decision::new(records, response))
    }

    pub(crate) fn fence(&mut self, broker: &BrokerRegistration, records: &mut Vec<VersionedRecord<'static>>) {
        let id = broker.id;
        let standing = Standing { leaving: Some(id), ..Standing::default() };
        self.standing_changes(standing, |partition| partition.isr.contains(&id), records);
        records.push((change_of(broker, |change| change.fenced = FENCE), 0));
    }

    fn unfence(&mut self, broker: &BrokerRegistration, records: &mut Vec<VersionedRecord<'static>>) {
        records.push((change_of(broker, |change| change.fenced = UNFENCE), 0));
        let standing = Standing { joining: Some(broker.id), ..Standing::default() };
        self.standing_changes(standing, |partition| !partition.has_leader(), records);
    }

    fn begin_controlled_shutdown(&mut self, broker: &BrokerRegistration, records: &mut Vec<VersionedRecord<'static>>) {
        let id = broker.id;
        if !broker.in_controlled_shutdown {
            records.push((change_of(broker, |change| change.in_controlled_shutdown = SHUTTING_DOWN), 1));
        }
        let standing = Standing { leaving: Some(id), ..Standing::default() };
        self.standing_changes(standing, |partition| partition.isr.contains(&id), records);
    }

    /// Takes in which log directories the broker has lost and which take no new replicas.
    fn note_directories(
        &mut self,
        broker: &BrokerRegistration,
        request: &BrokerHeartbeatRequest,
        records: &mut Vec<VersionedRecord<'static>>,
    ) {
        let (id, version) = (broker.id, self.version());
        if version.has_directory_assignment() {
            let lost: Vec<_> =
                broker.directories.iter().copied().filter(|dir| request.offline_log_dirs.contains(dir)).collect();
            for directory in &lost {
                let standing = Standing { leaving: Some(id), ..Standing::default() };
                self.standing_changes(standing, |partition| partition.directory(id) == Some(*directory), records);
            }
            if !lost.is_empty() {
                let left = broker.directories.iter().copied().filter(|dir| !lost.contains(dir)).collect();
                records.push((change_of(broker, |change| change.log_dirs = left), 2));
            }
        }
        if version.has_cordoned_log_dirs() {
            let cordoned = request.cordoned_log_dirs.clone().map(|mut dirs| {
                dirs.sort();
                dirs
            });
            if cordoned.is_some() && cordoned != broker.cordoned_directories {
                records.push((change_of(broker, |change| change.cordoned_log_dirs = cordoned), 3));
            }
        }
    }

    /// UnregisterBroker: forgets a broker that will not come back.
    pub(crate) fn unregister_broker(
        &mut self,
        request: &UnregisterBrokerRequest,
    ) -> Result<Decision<UnregisterBrokerResponse<'static>>, ApiError> {
        let id = request.broker_id;
        let Some(broker) = self.image().cluster.broker(id).cloned() else {
            let text = format!("Broker ID {id} is not currently registered");
            return Err(ApiError::new(ErrorCode::BROKER_ID_NOT_REGISTERED, text));
        };
        let mut records = Vec::new();
        let standing = Standing { leaving: Some(id), ..Standing::default() };
        self.standing_changes(standing, |p| p.isr.contains(&id) || p.elr.contains(&id), &mut records);
        records.push((UnregisterBrokerRecord { broker_id: id, broker_epoch: broker.epoch }.into(), 0));
        Ok(Decision::new(records, UnregisterBrokerResponse::default()))
    }

    /// ControllerRegistration (KIP-919).
    pub(crate) fn register_controller(
        &mut self,
        request: &ControllerRegistrationRequest<'_>,
    ) -> Result<Decision<ControllerRegistrationResponse<'static>>, ApiError> {
        if !self.version().has_controller_registration() {
            return Err(ApiError::new(
                ErrorCode::UNSUPPORTED_VERSION,
                "The current MetadataVersion is too old to support controller registrations.",
            ));
        }
        let end_points = request.listeners.iter().map(|listener| ControllerEndpoint {
            name: owned(&listener.name),
            host: owned(&listener.host),
            port: listener.port,
            security_protocol: listener.security_protocol,
        });
        let features = request.features.iter().map(|feature| ControllerFeature {
            name: owned(&feature.name),
            min_supported_version: feature.min_supported_version,
            max_supported_version: feature.max_supported_version,
        });
        let record = RegisterControllerRecord {
            controller_id: request.controller_id,
            incarnation_id: request.incarnation_id,
            zk_migration_ready: false,
            end_points: end_points.collect(),
            features: features.collect(),
        };
        Ok(Decision::new(vec![(record.into(), 0)], ControllerRegistrationResponse::default()))
    }

    /// UnregisterController (KIP-1312).
    pub(crate) fn unregister_controller(
        &mut self,
        request: &UnregisterControllerRequest,
    ) -> Result<Decision<UnregisterControllerResponse<'static>>, ApiError> {
        let id = request.controller_id;
        if id == self.node_id {
            return Err(ApiError::new(
                ErrorCode::INVALID_REQUEST,
                "Controller cannot unregister itself while it is active.",
            ));
        }
        if !self.version().has_controller_unregistration() {
            return Err(ApiError::new(
                ErrorCode::UNSUPPORTED_VERSION,
                "The current MetadataVersion is too old to support controller unregistration.",
            ));
        }
        if self.image().cluster.controller(id).is_none() {
            let text = format!("Controller ID {id} is not currently registered.");
            return Err(ApiError::new(ErrorCode::CONTROLLER_ID_NOT_REGISTERED, text));
        }
        let record = UnregisterControllerRecord { controller_id: id };
        Ok(Decision::new(vec![(record.into(), 0)], UnregisterControllerResponse::default()))
    }

    /// AllocateProducerIds: the next block of ids (KIP-730).
    pub(crate) fn allocate_producer_ids(
        &mut self,
        request: &AllocateProducerIdsRequest,
    ) -> Result<Decision<AllocateProducerIdsResponse>, ApiError> {
        self.check_broker_epoch(request.broker_id, request.broker_epoch)?;
        let first = self.image().producer_ids.next_producer_id.max(0);
        let Some(next_producer_id) = first.checked_add(PRODUCER_IDS_PER_BLOCK) else {
            return Err(ApiError::new(
                ErrorCode::UNKNOWN_SERVER_ERROR,
                "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
            ));
        };
        let record =
            ProducerIdsRecord { broker_id: request.broker_id, broker_epoch: request.broker_epoch, next_producer_id };
        let response = AllocateProducerIdsResponse {
            producer_id_start: first,
            producer_id_len: PRODUCER_IDS_PER_BLOCK as i32,
            ..AllocateProducerIdsResponse::default()
        };
        Ok(Decision::new(vec![(record.into(), 0)], response))
    }
}

fn registration_record(request: &BrokerRegistrationRequest<'_>) -> RegisterBrokerRecord<'static> {
    let end_points = request.listeners.iter().map(|listener| BrokerEndpoint {
        name: owned(&listener.name),
        host: owned(&listener.host),
        port: listener.port,
        security_protocol: listener.security_protocol,
    });
    let features = request.features.iter().map(|feature| BrokerFeature {
        name: owned(&feature.name),
        min_supported_version: feature.min_supported_version,
        max_supported_version: feature.max_supported_version,
    });
    RegisterBrokerRecord {
        broker_id: request.broker_id,
        incarnation_id: request.incarnation_id,
        end_points: end_points.collect(),
        features: features.collect(),
        rack: request.rack.as_deref().map(|rack| Cow::Owned(rack.to_owned())),
        ..RegisterBrokerRecord::default()
    }
}

fn change_of(
    broker: &BrokerRegistration,
    set: impl FnOnce(&mut BrokerRegistrationChangeRecord),
) -> wire::metadata_record::MetadataRecord<'static> {
    let mut change = BrokerRegistrationChangeRecord {
        broker_id: broker.id,
        broker_epoch: broker.epoch,
        ..BrokerRegistrationChangeRecord::default()
    };
    set(&mut change);
    change.into()
}

fn owned(text: &str) -> Cow<'static, str> {
    Cow::Owned(text.to_owned())
}
