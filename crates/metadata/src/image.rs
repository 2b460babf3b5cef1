use base::{Offset, ProducerId};

use crate::cluster::ClusterImage;
use crate::configs::ConfigsImage;
use crate::features::FeaturesImage;
use crate::security::{AclsImage, ClientQuotasImage, DelegationTokensImage, ScramImage};
use crate::topics::TopicsImage;

/// Up to where in the metadata log an image reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Provenance {
    /// Offset of the last record applied; -1 for none.
    pub last_offset: Offset,
    /// Quorum epoch of that record; -1 for none.
    pub last_epoch: i32,
    /// Append time of its batch, ms since the epoch; -1 for none.
    pub last_timestamp_ms: i64,
}

impl Default for Provenance {
    fn default() -> Provenance {
        Provenance { last_offset: -1, last_epoch: -1, last_timestamp_ms: -1 }
    }
}

/// The next producer id to hand out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerIdsImage {
    /// First id of the next block; -1 before the first block.
    pub next_producer_id: ProducerId,
}

impl Default for ProducerIdsImage {
    fn default() -> ProducerIdsImage {
        ProducerIdsImage { next_producer_id: -1 }
    }
}

/// Everything the cluster has agreed on, at one offset of the metadata log. Cloning is cheap: all parts are persistent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MetadataImage {
    /// Where in the log the image stands.
    pub provenance: Provenance,
    /// Feature levels.
    pub features: FeaturesImage,
    /// Brokers and controllers.
    pub cluster: ClusterImage,
    /// Topics and partitions.
    pub topics: TopicsImage,
    /// Dynamic configuration.
    pub configs: ConfigsImage,
    /// Producer id blocks.
    pub producer_ids: ProducerIdsImage,
    /// Client quotas.
    pub client_quotas: ClientQuotasImage,
    /// Access control entries.
    pub acls: AclsImage,
    /// SCRAM credentials.
    pub scram: ScramImage,
    /// Delegation tokens.
    pub delegation_tokens: DelegationTokensImage,
}

impl MetadataImage {
    /// True when both images hold the same metadata, wherever in the log they stand.
    pub fn same_content(&self, other: &MetadataImage) -> bool {
        let aligned = MetadataImage { provenance: self.provenance, ..other.clone() };
        *self == aligned
    }
}
