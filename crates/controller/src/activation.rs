//! The first records of a controller that begins to lead.

use std::borrow::Cow;

use metadata::VersionedRecord;
use metadata::features::{self, MetadataVersion};
use thiserror::Error;
use wire::abort_transaction_record::AbortTransactionRecord;
use wire::begin_transaction_record::BeginTransactionRecord;
use wire::end_transaction_record::EndTransactionRecord;
use wire::feature_level_record::FeatureLevelRecord;
use wire::metadata_record::MetadataRecord;

use crate::controller::{Controller, Decision};
use crate::feature_updates::config_record;

/// The log or the bootstrap records cannot be worked with.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ActivationError {
    /// The bootstrap records set no metadata version, or one that is not supported.
    #[error("the bootstrap records set metadata.version to {0:?}, which is not one of 7 to 33")]
    MetadataVersion(Option<i16>),
    /// A transaction is open in a log whose metadata version has none.
    #[error("a metadata transaction is open, but metadata.version {0} has no transactions")]
    Transaction(&'static str),
}

/// What a directory that was formatted without bootstrap records starts with.
pub fn default_bootstrap() -> Vec<VersionedRecord<'static>> {
    vec![level_record(features::METADATA_VERSION, MetadataVersion::MAX.level())]
}

fn level_record(name: &'static str, feature_level: i16) -> VersionedRecord<'static> {
    (FeatureLevelRecord { name: Cow::Borrowed(name), feature_level }.into(), 0)
}

impl Controller {
    /// Records to write before the first request: those that the cluster was formatted with when the log has no metadata
    /// yet, and the end of a transaction that a predecessor left open.
    ///
    /// # Errors
    /// When the records or the log do not fit this software.
    pub fn activation_records(
        &mut self,
        bootstrap: Vec<VersionedRecord<'static>>,
    ) -> Result<Decision<()>, ActivationError> {
        let mut records = Vec::new();
        let open = self.in_transaction();
        let abort = AbortTransactionRecord { reason: Some(Cow::Borrowed("Controller failover")) };
        // Inside a bootstrap transaction the version is provisional: the log counts as empty.
        if self.committed_version().is_some() {
            if open {
                records.push((abort.into(), 0));
            }
            return Ok(Decision::new(records, ()));
        }
        let version = bootstrap_level(&bootstrap, features::METADATA_VERSION);
        let supported = version.and_then(MetadataVersion::from_level);
        let supported = supported.ok_or(ActivationError::MetadataVersion(version))?;
        if open {
            if !supported.has_transactions() {
                return Err(ActivationError::Transaction(supported.name()));
            }
            records.push((abort.into(), 0));
        }
        if supported.has_transactions() {
            records.push((BeginTransactionRecord { name: Some(Cow::Borrowed("Bootstrap records")) }.into(), 0));
        }
        let with_elr = bootstrap_level(&bootstrap, features::ELR_VERSION).is_some_and(|level| level > 0);
        records.extend(bootstrap);
        if with_elr {
            // Eligible leaders need one minimum for the whole cluster.
            let min_isr = self.layered().fixed.values.int("min.insync.replicas");
            records.push(config_record("", "min.insync.replicas", Some(min_isr.to_string())));
        }
        if supported.has_transactions() {
            records.push((EndTransactionRecord {}.into(), 0));
        }
        Ok(Decision::new(records, ()))
    }
}

/// The last level that the records set for a feature.
fn bootstrap_level(records: &[VersionedRecord<'static>], name: &str) -> Option<i16> {
    records.iter().rev().find_map(|(record, _)| match record {
        MetadataRecord::FeatureLevel(level) if level.name == name => Some(level.feature_level),
        _ => None,
    })
}
