//! Feature levels (KIP-584) and what a metadata version allows in records.

use std::sync::Arc;

use imbl::OrdMap;

/// Name of the feature that versions the metadata log itself.
pub const METADATA_VERSION: &str = "metadata.version";
/// Name of the quorum's feature (KIP-853). It lives in control records of the metadata log, never in a feature record.
pub const KRAFT_VERSION: &str = "kraft.version";
/// Transactions protocol level (KIP-890).
pub const TRANSACTION_VERSION: &str = "transaction.version";
/// Consumer group protocol (KIP-848).
pub const GROUP_VERSION: &str = "group.version";
/// Eligible leader replicas (KIP-966).
pub const ELR_VERSION: &str = "eligible.leader.replicas.version";
/// Share groups (KIP-932; 2 adds dead letter queues, KIP-1191).
pub const SHARE_VERSION: &str = "share.version";
/// Streams groups (KIP-1071).
pub const STREAMS_VERSION: &str = "streams.version";

/// One feature this software supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeatureSupport {
    /// The feature's name.
    pub name: &'static str,
    /// Lowest level supported.
    pub min: i16,
    /// Highest level supported.
    pub max: i16,
    /// Level a cluster of the newest release is formatted with.
    pub formatted: i16,
}

/// Every feature of Kafka 4.4 with its levels.
pub const SUPPORTED: [FeatureSupport; 7] = [
    FeatureSupport { name: METADATA_VERSION, min: 7, max: 33, formatted: 33 },
    FeatureSupport { name: KRAFT_VERSION, min: 0, max: 1, formatted: 1 },
    FeatureSupport { name: TRANSACTION_VERSION, min: 0, max: 2, formatted: 2 },
    FeatureSupport { name: GROUP_VERSION, min: 0, max: 1, formatted: 1 },
    FeatureSupport { name: ELR_VERSION, min: 0, max: 1, formatted: 1 },
    FeatureSupport { name: SHARE_VERSION, min: 0, max: 2, formatted: 2 },
    FeatureSupport { name: STREAMS_VERSION, min: 0, max: 1, formatted: 1 },
];

/// Looks a feature up by name.
pub fn support(name: &str) -> Option<&'static FeatureSupport> {
    SUPPORTED.iter().find(|feature| feature.name == name)
}

/// Finalized feature levels of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FeaturesImage {
    metadata_version: Option<MetadataVersion>,
    finalized: OrdMap<Arc<str>, i16>,
    kraft_version: i16,
}

impl FeaturesImage {
    /// The metadata version, once a record has set one.
    pub fn metadata_version(&self) -> Option<MetadataVersion> {
        self.metadata_version
    }

    /// The metadata version for writing records; before the first record the lowest that 4.x supports.
    pub fn metadata_version_or_min(&self) -> MetadataVersion {
        self.metadata_version.unwrap_or(MetadataVersion::MIN)
    }

    /// Finalized level of any feature, `metadata.version` and `kraft.version` included; 0 means "not finalized".
    pub fn level(&self, name: &str) -> i16 {
        match name {
            METADATA_VERSION => self.metadata_version.map_or(0, |version| version.level()),
            KRAFT_VERSION => self.kraft_version,
            _ => self.finalized.get(name).copied().unwrap_or(0),
        }
    }

    /// Finalized features other than `metadata.version` and `kraft.version`, by name; levels are never 0.
    pub fn others(&self) -> impl Iterator<Item = (&Arc<str>, i16)> {
        self.finalized.iter().map(|(name, level)| (name, *level))
    }

    /// Everything that ApiVersions lists as finalized: (name, level), levels above 0, sorted by name.
    pub fn finalized(&self) -> Vec<(Arc<str>, i16)> {
        let mut all: Vec<(Arc<str>, i16)> = self.finalized.iter().map(|(name, level)| (name.clone(), *level)).collect();
        if let Some(version) = self.metadata_version {
            all.push((Arc::from(METADATA_VERSION), version.level()));
        }
        if self.kraft_version > 0 {
            all.push((Arc::from(KRAFT_VERSION), self.kraft_version));
        }
        all.sort();
        all
    }

    /// True when eligible leader replicas are kept (KIP-966).
    pub fn elr_enabled(&self) -> bool {
        self.level(ELR_VERSION) >= 1
    }

    pub(crate) fn set_level(&mut self, name: &str, level: i16) {
        if name == METADATA_VERSION {
            self.metadata_version = Some(MetadataVersion(level));
        } else if level == 0 {
            self.finalized.remove(name);
        } else {
            self.finalized.insert(Arc::from(name), level);
        }
    }

    pub(crate) fn set_kraft_version(&mut self, level: i16) {
        self.kraft_version = level;
    }
}

/// A level of `metadata.version`. Each method names what the level changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MetadataVersion(i16);

impl MetadataVersion {
    /// 3.3-IV3, the lowest that 4.x runs on.
    pub const MIN: MetadataVersion = MetadataVersion(7);
    /// 4.4-IV2, the newest stable level.
    pub const MAX: MetadataVersion = MetadataVersion(33);

    /// The level if this software supports it.
    pub fn from_level(level: i16) -> Option<MetadataVersion> {
        (Self::MIN.0..=Self::MAX.0).contains(&level).then_some(MetadataVersion(level))
    }

    /// The numeric level.
    pub fn level(self) -> i16 {
        self.0
    }

    /// The release name of the level, as tools print it.
    pub fn name(self) -> &'static str {
        let index = usize::try_from(i32::from(self.0) - i32::from(Self::MIN.0)).unwrap_or(usize::MAX);
        METADATA_VERSION_NAMES.get(index).copied().unwrap_or("unknown")
    }

    /// SCRAM credentials are records (3.5-IV2).
    pub fn has_scram(self) -> bool {
        self.0 >= 11
    }

    /// A leader epoch is not bumped when only the ISR shrinks (3.6-IV0).
    pub fn skips_epoch_bump_on_isr_shrink(self) -> bool {
        self.0 >= 12
    }

    /// Metadata transactions (3.6-IV1).
    pub fn has_transactions(self) -> bool {
        self.0 >= 13
    }

    /// Delegation tokens are records (3.6-IV2).
    pub fn has_delegation_tokens(self) -> bool {
        self.0 >= 14
    }

    /// Controllers register themselves (3.7-IV0).
    pub fn has_controller_registration(self) -> bool {
        self.0 >= 15
    }

    /// Replicas are assigned to log directories (3.7-IV2).
    pub fn has_directory_assignment(self) -> bool {
        self.0 >= 17
    }

    /// ELR fields exist in partition records (4.0-IV1).
    pub fn has_elr(self) -> bool {
        self.0 >= 23
    }

    /// Log directories can be cordoned (4.3-IV0).
    pub fn has_cordoned_log_dirs(self) -> bool {
        self.0 >= 30
    }

    /// Controllers can be unregistered (4.4-IV2).
    pub fn has_controller_unregistration(self) -> bool {
        self.0 >= 33
    }

    /// Version of `RegisterBrokerRecord` to write.
    pub fn register_broker_record(self) -> i16 {
        match self.0 {
            30.. => 4,
            17.. => 3,
            8.. => 2,
            _ => 1,
        }
    }

    /// Version of `BrokerRegistrationChangeRecord` to write.
    pub fn broker_registration_change_record(self) -> i16 {
        match self.0 {
            30.. => 3,
            17.. => 2,
            _ => 1,
        }
    }

    /// Version of `PartitionRecord` and `PartitionChangeRecord` to write.
    pub fn partition_record(self) -> i16 {
        match self.0 {
            23.. => 2,
            17.. => 1,
            _ => 0,
        }
    }

    /// True when going from `self` down to `target` would lose records, so that a safe downgrade is refused.
    pub fn downgrade_loses_metadata(self, target: MetadataVersion) -> bool {
        LEVELS_THAT_CHANGE_RECORDS.iter().any(|level| target.0 < *level && *level <= self.0)
    }
}

/// Levels whose introduction changed the meaning or the shape of records.
const LEVELS_THAT_CHANGE_RECORDS: [i16; 11] = [7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33];

const METADATA_VERSION_NAMES: [&str; 27] = [
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1",
    "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0",
    "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0", "4.4-IV1", "4.4-IV2",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_the_names_of_their_release() {
        for (level, name) in
            [(7, "3.3-IV3"), (17, "3.7-IV2"), (21, "3.9-IV0"), (25, "4.0-IV3"), (30, "4.3-IV0"), (33, "4.4-IV2")]
        {
            assert_eq!(MetadataVersion::from_level(level).map(MetadataVersion::name), Some(name));
        }
        assert_eq!(MetadataVersion::from_level(6), None);
        assert_eq!(MetadataVersion::from_level(34), None);
    }

    #[test]
    fn a_downgrade_across_a_record_change_is_lossy() {
        let v = |level| MetadataVersion::from_level(level).expect("supported");
        assert!(v(33).downgrade_loses_metadata(v(32)));
        assert!(!v(29).downgrade_loses_metadata(v(24)));
        assert!(v(29).downgrade_loses_metadata(v(22)));
    }

    #[test]
    fn level_zero_is_not_finalized() {
        let mut features = FeaturesImage::default();
        features.set_level(METADATA_VERSION, 33);
        features.set_level(GROUP_VERSION, 1);
        features.set_level(SHARE_VERSION, 2);
        features.set_level(SHARE_VERSION, 0);
        assert_eq!(features.finalized(), vec![(Arc::from(GROUP_VERSION), 1), (Arc::from(METADATA_VERSION), 33)]);
        assert_eq!(features.level(SHARE_VERSION), 0);
    }
}
