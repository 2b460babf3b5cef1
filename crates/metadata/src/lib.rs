//! The cluster's metadata as values: an immutable [`MetadataImage`] and the [`MetadataDelta`] that leads from one to the
//! next, both made by replaying the records of `__cluster_metadata`; and an image written back as snapshot records.
//!
//! Pure. The controller core replays and every other core holds an `Arc` of the result, so a request reads its image
//! without asking anybody. All collections are persistent maps: an image of 100,000 partitions shares everything with its
//! successor except the paths that changed.
//!
//! It does not know who decides (crate `controller`), how records are stored or agreed on (`raft`, `quorum`), nor what a
//! broker does with a change. Kinds that nothing serves yet (ACLs, SCRAM credentials, client quotas, delegation tokens)
//! are kept complete all the same, so that a snapshot never forgets what a log held.

mod change;
mod cluster;
mod configs;
mod delta;
pub mod directory_id;
pub mod features;
mod image;
mod replay;
mod security;
mod snapshot;
mod topics;

pub use cluster::{BrokerRegistration, ClusterImage, ControllerRegistration, Endpoint, VersionRange};
pub use configs::{ConfigResource, ConfigResourceType, ConfigsImage, Overrides};
pub use delta::{LocalReplica, LocalReplicaChanges, MetadataDelta, TopicChange, TopicChangeKind};
pub use features::FeaturesImage;
pub use image::{MetadataImage, ProducerIdsImage, Provenance};
pub use replay::ReplayError;
pub use security::{
    AccessControlEntry, AclsImage, ClientQuotasImage, DelegationToken, DelegationTokensImage, QuotaEntity,
    ScramCredential, ScramImage,
};
pub use snapshot::VersionedRecord;
pub use topics::{LeaderRecoveryState, NO_LEADER, PartitionRegistration, TopicImage, TopicsImage};
