//! One file per API. Each says at its top which versions there are, what each added, and what is missing here.

pub mod api_versions;
pub mod describe_cluster;
pub mod describe_topic_partitions;
pub mod forward;
pub mod list_partition_reassignments;
pub mod metadata;
pub mod produce;
