//! The APIs this broker serves: one row each. What has no row is not advertised and not answered.

use crate::call::{Answer, Call};
use crate::handlers;
use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use wire::ApiKey;

/// A handler's future.
pub type AnswerFuture = Pin<Box<dyn Future<Output = Answer>>>;

/// How a request is served.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Answered at once from what this core knows.
    Sync(fn(&Call) -> Answer),
    /// Answered after asking other cores, or waiting.
    Async(fn(Call) -> AnswerFuture),
    /// About one group, which every such request begins with: asked of its home core, whose reply becomes the answer.
    Group(fn(&Call, group::Reply) -> Answer),
    /// Produce: its order is fixed when it begins, so the next one may begin before it is answered.
    Produce,
    /// The undecoded body goes to the controller, whose answer goes back.
    Forward,
}

/// One API.
#[derive(Clone, Copy)]
pub struct ApiRow {
    /// The API.
    pub api: ApiKey,
    /// Highest version served; lower than the protocol's only while the rest is missing.
    pub max: i16,
    /// How it is served.
    pub handler: Handler,
    /// What a client should know about this broker's implementation; part of the compatibility table.
    pub note: &'static str,
}

impl ApiRow {
    const fn new(api: ApiKey, handler: Handler) -> ApiRow {
        ApiRow { api, max: api.info().max_stable, handler, note: "" }
    }

    const fn note(self, note: &'static str) -> ApiRow {
        ApiRow { note, ..self }
    }

    /// True when requests of this version are answered.
    pub fn serves(&self, version: i16) -> bool {
        (self.api.info().min..=self.max).contains(&version)
    }

    /// True when controllers' listeners serve it too. Fetch there is for replicas of the metadata log, which there are none
    /// of yet.
    pub fn on_controller(&self) -> bool {
        self.api.info().on_controller && self.api != ApiKey::Fetch
    }

    /// The versions to put into ApiVersions.
    pub fn advertised(&self) -> RangeInclusive<i16> {
        *self.api.info().advertised().start()..=self.max
    }
}

macro_rules! waits {
    ($handler:path) => {
        Handler::Async(|call| Box::pin($handler(call)))
    };
}

/// All rows, by ascending key.
pub static ROWS: &[ApiRow] = &[
    ApiRow::new(ApiKey::Produce, Handler::Produce).note("no transactions yet"),
    ApiRow::new(ApiKey::Fetch, waits!(handlers::fetch::handle)),
    ApiRow::new(ApiKey::ListOffsets, waits!(handlers::list_offsets::handle)),
    ApiRow::new(ApiKey::Metadata, Handler::Sync(handlers::metadata::handle)),
    ApiRow::new(ApiKey::OffsetCommit, Handler::Group(handlers::offset_commit::answer)),
    ApiRow::new(ApiKey::OffsetFetch, waits!(handlers::offset_fetch::handle)),
    ApiRow::new(ApiKey::FindCoordinator, Handler::Sync(handlers::find_coordinator::handle)).note("groups only"),
    ApiRow::new(ApiKey::JoinGroup, Handler::Group(handlers::join_group::answer)),
    ApiRow::new(ApiKey::Heartbeat, Handler::Group(handlers::heartbeat::answer)),
    ApiRow::new(ApiKey::LeaveGroup, Handler::Group(handlers::leave_group::answer)),
    ApiRow::new(ApiKey::SyncGroup, Handler::Group(handlers::sync_group::answer)),
    ApiRow::new(ApiKey::DescribeGroups, waits!(handlers::describe_groups::handle)),
    ApiRow::new(ApiKey::ListGroups, waits!(handlers::list_groups::handle)),
    ApiRow::new(ApiKey::ApiVersions, Handler::Sync(handlers::api_versions::handle)),
    ApiRow::new(ApiKey::CreateTopics, Handler::Forward),
    ApiRow::new(ApiKey::DeleteTopics, Handler::Forward),
    ApiRow::new(ApiKey::DeleteRecords, waits!(handlers::delete_records::handle)),
    ApiRow::new(ApiKey::InitProducerId, waits!(handlers::init_producer_id::handle))
        .note("idempotent producers only, no transactional ids yet"),
    ApiRow::new(ApiKey::OffsetForLeaderEpoch, waits!(handlers::offset_for_leader_epoch::handle)),
    ApiRow::new(ApiKey::DescribeConfigs, Handler::Sync(handlers::describe_configs::handle)),
    ApiRow::new(ApiKey::AlterConfigs, Handler::Forward),
    ApiRow::new(ApiKey::DescribeLogDirs, waits!(handlers::describe_log_dirs::handle)),
    ApiRow::new(ApiKey::CreatePartitions, Handler::Forward),
    ApiRow::new(ApiKey::DeleteGroups, waits!(handlers::delete_groups::handle)),
    ApiRow::new(ApiKey::ElectLeaders, Handler::Forward),
    ApiRow::new(ApiKey::IncrementalAlterConfigs, Handler::Forward),
    ApiRow::new(ApiKey::AlterPartitionReassignments, Handler::Forward).note("no second broker to move to yet"),
    ApiRow::new(ApiKey::ListPartitionReassignments, Handler::Sync(handlers::list_partition_reassignments::handle)),
    ApiRow::new(ApiKey::OffsetDelete, Handler::Group(handlers::offset_delete::answer)),
    ApiRow::new(ApiKey::DescribeQuorum, Handler::Forward),
    ApiRow::new(ApiKey::UpdateFeatures, Handler::Forward),
    ApiRow::new(ApiKey::DescribeCluster, Handler::Sync(handlers::describe_cluster::handle)),
    ApiRow::new(ApiKey::DescribeProducers, waits!(handlers::describe_producers::handle)),
    ApiRow::new(ApiKey::UnregisterBroker, Handler::Forward),
    ApiRow::new(ApiKey::ConsumerGroupHeartbeat, Handler::Group(handlers::consumer_group_heartbeat::answer)),
    ApiRow::new(ApiKey::ConsumerGroupDescribe, waits!(handlers::consumer_group_describe::handle)),
    ApiRow::new(ApiKey::ListConfigResources, Handler::Sync(handlers::list_config_resources::handle)),
    ApiRow::new(ApiKey::DescribeTopicPartitions, Handler::Sync(handlers::describe_topic_partitions::handle)),
];

/// Position in [`ROWS`] of each key, for the request path; [`NO_ROW`] for keys that are not served.
static INDEX: [u8; KEYS_MAX] = index();

const NO_ROW: u8 = u8::MAX;

/// Keys of the protocol are below this.
const KEYS_MAX: usize = 128;

const fn index() -> [u8; KEYS_MAX] {
    let mut index = [NO_ROW; KEYS_MAX];
    let mut i = 0;
    while i < ROWS.len() {
        index[ROWS[i].api as usize] = i as u8;
        i += 1;
    }
    index
}

/// The row of an API and its position in [`ROWS`], if the API is served.
pub fn find(api: ApiKey) -> Option<(usize, &'static ApiRow)> {
    let at = usize::from(*INDEX.get(api as usize)?);
    Some((at, ROWS.get(at)?))
}

/// The row of an API, if it is served.
pub fn row(api: ApiKey) -> Option<&'static ApiRow> {
    find(api).map(|(_, row)| row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controllers_listener_serves_what_the_controller_decides() {
        let served: Vec<&str> = ROWS.iter().filter(|row| row.on_controller()).map(|row| row.api.info().name).collect();
        let expected = "ApiVersions CreateTopics DeleteTopics DescribeConfigs AlterConfigs CreatePartitions ElectLeaders \
                        IncrementalAlterConfigs AlterPartitionReassignments ListPartitionReassignments DescribeQuorum \
                        UpdateFeatures DescribeCluster UnregisterBroker";
        assert_eq!(served.join(" "), expected);
    }

    #[test]
    fn rows_are_in_order_and_advertise_only_stable_versions_of_broker_apis() {
        assert!(ROWS.windows(2).all(|pair| (pair[0].api as u16) < (pair[1].api as u16)));
        for one in ROWS {
            let info = one.api.info();
            assert!(info.on_broker, "{} is not for broker listeners", info.name);
            assert!(info.min <= one.max && one.max <= info.max_stable, "{}", info.name);
            assert!(row(one.api).is_some_and(|found| found.api == one.api));
        }
        assert_eq!(row(ApiKey::Produce).map(ApiRow::advertised), Some(0..=13));
        assert!(row(ApiKey::Produce).is_some_and(|produce| !produce.serves(2) && produce.serves(3)));
    }
}
