//! UpdateFeatures: levels of features go up, and down where nothing would be lost (KIP-584, KIP-778, KIP-853).

use std::borrow::Cow;
use std::collections::BTreeMap;

use metadata::features::{self, MetadataVersion};
use metadata::{ConfigResource, ConfigResourceType, VersionRange, VersionedRecord};
use wire::ErrorCode;
use wire::config_record::ConfigRecord;
use wire::feature_level_record::FeatureLevelRecord;
use wire::no_op_record::NoOpRecord;
use wire::update_features_request::UpdateFeaturesRequest;
use wire::update_features_response::{UpdatableFeatureResult, UpdateFeaturesResponse};

use crate::controller::{Controller, Decision, Env, QuorumChange};
use crate::error::ApiError;

const MIN_ISR: &str = "min.insync.replicas";

/// How a level may move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum UpgradeType {
    Unknown,
    Upgrade,
    SafeDowngrade,
    UnsafeDowngrade,
}

impl UpgradeType {
    fn from_code(code: i8) -> UpgradeType {
        match code {
            1 => UpgradeType::Upgrade,
            2 => UpgradeType::SafeDowngrade,
            3 => UpgradeType::UnsafeDowngrade,
            _ => UpgradeType::Unknown,
        }
    }
}

/// What one feature's update comes to.
#[derive(Default)]
struct Update {
    record: Option<VersionedRecord<'static>>,
    quorum: Option<QuorumChange>,
}

impl Controller {
    /// UpdateFeatures in all versions. One feature that cannot be changed stops all.
    pub(crate) fn update_features<'r>(
        &mut self,
        env: Env,
        version: i16,
        request: &UpdateFeaturesRequest<'r>,
    ) -> Decision<UpdateFeaturesResponse<'r>> {
        match self.plan_features(env, version, request) {
            Ok((records, quorum)) => {
                let mut response = UpdateFeaturesResponse { error_message: None, ..Default::default() };
                if version <= 1 {
                    let done = |update: &wire::update_features_request::FeatureUpdateKey<'r>| {
                        let error_message = Some(Cow::Borrowed("NONE"));
                        UpdatableFeatureResult { feature: update.feature.clone(), error_code: 0, error_message }
                    };
                    response.results = request.feature_updates.iter().map(done).collect();
                }
                if request.validate_only {
                    return Decision::answer(response);
                }
                Decision { records, quorum, response }
            }
            Err(error) => {
                let reason = error.message.as_deref().unwrap_or("null");
                let text =
                    format!("The update failed for all features since the following feature had an error: {reason}");
                let response = UpdateFeaturesResponse {
                    error_code: error.code(),
                    error_message: Some(Cow::Owned(text)),
                    ..UpdateFeaturesResponse::default()
                };
                Decision::answer(response)
            }
        }
    }

    #[allow(clippy::type_complexity)]
    fn plan_features(
        &mut self,
        env: Env,
        version: i16,
        request: &UpdateFeaturesRequest<'_>,
    ) -> Result<(Vec<VersionedRecord<'static>>, Option<QuorumChange>), ApiError> {
        let mut updates: BTreeMap<&str, (i16, UpgradeType)> = BTreeMap::new();
        for update in &request.feature_updates {
            let kind = match (version, update.allow_downgrade) {
                // Before KIP-778 a flag stood for the kind.
                (0, true) => UpgradeType::SafeDowngrade,
                (0, false) => UpgradeType::Upgrade,
                _ => UpgradeType::from_code(update.upgrade_type),
            };
            updates.insert(&update.feature, (update.max_version_level, kind));
        }
        let mut proposed: BTreeMap<&str, i16> = BTreeMap::new();
        proposed.insert(features::METADATA_VERSION, self.version().level());
        proposed.extend(updates.iter().map(|(name, (level, _))| (*name, *level)));
        let mut records = Vec::new();
        let mut quorum = None;
        for (name, (level, kind)) in &updates {
            let update = self.plan_feature(env, name, *level, *kind, proposed[features::METADATA_VERSION])?;
            records.extend(update.record);
            quorum = quorum.or(update.quorum);
        }
        if updates.get(features::ELR_VERSION).is_some_and(|(level, _)| *level > 0) {
            let mut safety = self.elr_safety_records();
            safety.append(&mut records);
            records = safety;
        }
        Ok((records, quorum))
    }

    fn plan_feature(
        &self,
        env: Env,
        name: &str,
        level: i16,
        kind: UpgradeType,
        proposed_version: i16,
    ) -> Result<Update, ApiError> {
        if kind == UpgradeType::Unknown {
            return Err(invalid(name, level, "The controller does not support the given upgrade type."));
        }
        if level < 0 {
            return Err(invalid(name, level, "A feature version cannot be less than 0."));
        }
        let current = match name {
            features::METADATA_VERSION => self.version().level(),
            features::KRAFT_VERSION => env.kraft_version,
            _ => self.image().features.level(name),
        };
        if let Some(reason) = self.reason_unsupported(name, level) {
            return Err(invalid(name, level, &reason));
        }
        if level < current && kind == UpgradeType::Upgrade {
            let text = "Can't downgrade the version of this feature without setting the upgrade type to either safe or \
                        unsafe downgrade.";
            return Err(invalid(name, level, text));
        }
        if level > current && kind != UpgradeType::Upgrade {
            return Err(invalid(name, level, "Can't downgrade to a newer version."));
        }
        match name {
            features::METADATA_VERSION => self.plan_metadata_version(level, kind),
            features::KRAFT_VERSION => plan_kraft_version(name, level, current, kind),
            _ if features::support(name).is_none() => Err(invalid(name, level, &format!("Feature {name} not found."))),
            _ => {
                check_dependencies(name, level, proposed_version)?;
                Ok(Update { record: Some(level_record(name, level)), quorum: None })
            }
        }
    }

    fn plan_metadata_version(&self, level: i16, kind: UpgradeType) -> Result<Update, ApiError> {
        let current = self.version();
        let Some(target) = MetadataVersion::from_level(level) else {
            let (min, max) = (MetadataVersion::MIN.level(), MetadataVersion::MAX.level());
            let text = format!("Invalid metadata.version {level}. Valid versions are from {min} to {max}.");
            return Err(ApiError::new(ErrorCode::INVALID_UPDATE_VERSION, text));
        };
        if current.downgrade_loses_metadata(target) {
            let why = match kind {
                UpgradeType::UnsafeDowngrade => "Unsafe metadata downgrade is not supported in this version.",
                _ => "Refusing to perform the requested downgrade because it might delete metadata information.",
            };
            let text = format!("Unsupported metadata.version downgrade from {} to {level}. {why}", current.level());
            return Err(ApiError::new(ErrorCode::INVALID_UPDATE_VERSION, text));
        }
        Ok(Update { record: Some(level_record(features::METADATA_VERSION, level)), quorum: None })
    }

    /// Why a node of the cluster could not live with the level.
    fn reason_unsupported(&self, name: &str, level: i16) -> Option<String> {
        let local = features::support(name).map_or(NOT_SUPPORTED, |f| VersionRange { min: f.min, max: f.max });
        reason_for(level, local, || format!("Local controller {}", self.node_id)).or_else(|| {
            let image = self.image();
            let mut unsupported = image.cluster.brokers().filter_map(|broker| {
                let range = broker.features.get(name).copied().unwrap_or(NOT_SUPPORTED);
                reason_for(level, range, || format!("Broker {}", broker.id))
            });
            unsupported.next().or_else(|| self.reason_controllers(name, level))
        })
    }

    fn reason_controllers(&self, name: &str, level: i16) -> Option<String> {
        if !self.version().has_controller_registration() {
            return None;
        }
        let image = self.image();
        for controller in image.cluster.controllers().filter(|controller| controller.id != self.node_id) {
            let range = controller.features.get(name).copied().unwrap_or(NOT_SUPPORTED);
            if let Some(reason) = reason_for(level, range, || format!("Controller {}", controller.id)) {
                return Some(reason);
            }
        }
        let missing = self.voter_ids.iter().find(|id| **id != self.node_id && image.cluster.controller(**id).is_none());
        missing.map(|id| format!("controller {id} has not registered, and may not support this feature"))
    }

    /// With eligible leader replicas `min.insync.replicas` must be the same for all brokers: it moves from the brokers
    /// to the cluster.
    fn elr_safety_records(&mut self) -> Vec<VersionedRecord<'static>> {
        let mut records = Vec::new();
        let default = ConfigResource::default_broker();
        if self.image().configs.value(&default, MIN_ISR).is_none() {
            let fixed = self.layered().fixed.values.int(MIN_ISR);
            records.push(config_record("", MIN_ISR, Some(fixed.to_string())));
        }
        let image = self.image();
        for name in image.configs.names(ConfigResourceType::Broker).filter(|name| !name.is_empty()) {
            let resource = ConfigResource { kind: ConfigResourceType::Broker, name: name.clone() };
            if image.configs.value(&resource, MIN_ISR).is_some() {
                records.push(config_record(name, MIN_ISR, None));
            }
        }
        records
    }
}

/// A record of a broker's configuration, or of all brokers' when `broker` is empty.
pub(crate) fn config_record(broker: &str, name: &str, value: Option<String>) -> VersionedRecord<'static> {
    let record = ConfigRecord {
        resource_type: ConfigResourceType::Broker.code(),
        resource_name: Cow::Owned(broker.to_owned()),
        name: Cow::Owned(name.to_owned()),
        value: value.map(Cow::Owned),
    };
    (record.into(), 0)
}

const NOT_SUPPORTED: VersionRange = VersionRange { min: 0, max: 0 };

fn reason_for(level: i16, range: VersionRange, what: impl FnOnce() -> String) -> Option<String> {
    if range.contains(level) {
        return None;
    }
    let what = what();
    Some(match range.max {
        0 => format!("{what} does not support this feature."),
        _ => format!("{what} only supports versions {range}"),
    })
}

fn plan_kraft_version(name: &str, level: i16, current: i16, kind: UpgradeType) -> Result<Update, ApiError> {
    if kind == UpgradeType::Upgrade {
        let quorum = (level > current).then_some(QuorumChange::UpgradeToDynamicVoters);
        // The level itself is a control record; an empty record carries the request through the log.
        return Ok(Update { record: Some((NoOpRecord {}.into(), 0)), quorum });
    }
    if level != current {
        return Err(invalid(name, level, "Can't downgrade the version of this feature."));
    }
    Ok(Update::default())
}

/// Levels that need a level of another feature.
fn check_dependencies(name: &str, level: i16, metadata_version: i16) -> Result<(), ApiError> {
    /// Metadata version that has the records of eligible leader replicas.
    const ELR_NEEDS: i16 = 23;
    if name == features::ELR_VERSION && level >= 1 && metadata_version < ELR_NEEDS {
        let text =
            format!("{name} could not be set to {level} because it depends on metadata.version level {ELR_NEEDS}");
        return Err(invalid(name, level, &text));
    }
    Ok(())
}

fn level_record(name: &str, level: i16) -> VersionedRecord<'static> {
    (FeatureLevelRecord { name: Cow::Owned(name.to_owned()), feature_level: level }.into(), 0)
}

fn invalid(name: &str, level: i16, why: &str) -> ApiError {
    let text = format!("Invalid update version {level} for feature {name}. {why}");
    ApiError::new(ErrorCode::INVALID_UPDATE_VERSION, text)
}
