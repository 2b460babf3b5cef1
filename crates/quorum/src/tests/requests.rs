//! Requests through the handle.

use reactor::block_on;
use wire::describe_quorum_request::{DescribeQuorumRequest, PartitionData, TopicData};
use wire::describe_quorum_response::DescribeQuorumResponse;
use wire::update_features_request::{FeatureUpdateKey, UpdateFeaturesRequest};
use wire::update_features_response::UpdateFeaturesResponse;
use wire::{ApiKey, Decode, ErrorCode, Reader};

use super::harness::{Node, config};
use crate::{RequestContext, RequestFailure};

#[test]
fn an_answer_tells_of_what_every_core_has_applied() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    block_on(async move {
        let node = Node::start(config(&path, &[])).await;
        for n in 0..50 {
            let name = format!("t{n}");
            assert_eq!(node.create(&[&name], 1).await, [0]);
            assert!(node.image().topics.by_name(&name).is_some(), "{name} is published before the answer");
        }
        node.stop().await;
    });
}

#[test]
fn requests_in_one_write_see_each_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    block_on(async move {
        let node = std::rc::Rc::new(Node::start(config(&path, &[])).await);
        let before = node.image().provenance.last_offset;
        let create = |_| {
            let node = node.clone();
            reactor::spawn(reactor::Class::Normal, async move { node.create(&["same"], 1).await[0] })
        };
        let tasks: Vec<_> = (0..20).map(create).collect();
        let mut codes = reactor::join_all(tasks).await;
        codes.sort_unstable();
        let exists = ErrorCode::TOPIC_ALREADY_EXISTS.code();
        assert_eq!(codes, [vec![0], vec![exists; 19]].concat());
        assert!(node.image().provenance.last_offset - before < 10, "the topic was created once");
    });
}

#[test]
fn malformed_requests_are_no_answer_and_no_harm() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    block_on(async move {
        let node = Node::start(config(&path, &[])).await;
        let context = || RequestContext { principal: "User:test".to_owned(), client_id: None };
        let mut prng = base::Prng::new(3);
        for api in
            [ApiKey::CreateTopics, ApiKey::IncrementalAlterConfigs, ApiKey::UpdateFeatures, ApiKey::DescribeQuorum]
        {
            for _ in 0..200 {
                let bytes: Vec<u8> = (0..prng.below(40)).map(|_| prng.next_u64() as u8).collect();
                let _ = node.handle.request(context(), api, 0, bytes.clone().into()).await;
                let version = wire::info(api).max_stable;
                let _ = node.handle.request(context(), api, version, bytes.into()).await;
            }
        }
        let refused = node.handle.request(context(), ApiKey::Fetch, 12, Default::default()).await;
        assert!(matches!(refused, Err(RequestFailure::Malformed(_))));
        assert_eq!(node.create(&["fine"], 1).await, [0]);
        node.stop().await;
    });
}

#[test]
fn the_quorum_describes_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    block_on(async move {
        let node = Node::start(config(&path, &[])).await;
        let ask = |topic: &'static str, partition_index| DescribeQuorumRequest {
            topics: vec![TopicData { topic_name: topic.into(), partitions: vec![PartitionData { partition_index }] }],
        };
        for version in 0..=2 {
            let answer = node.request(ApiKey::DescribeQuorum, version, &ask("__cluster_metadata", 0)).await;
            let response = DescribeQuorumResponse::decode(&mut Reader::new(&answer), version).expect("a response");
            let partition = &response.topics[0].partitions[0];
            assert_eq!((partition.error_code, partition.leader_id, partition.leader_epoch), (0, 1, 1));
            assert_eq!(partition.high_watermark, node.image().provenance.last_offset + 1);
            assert_eq!(partition.current_voters.len(), 1);
            assert_eq!(response.nodes.len(), usize::from(version >= 2));
        }
        let answer = node.request(ApiKey::DescribeQuorum, 2, &ask("other", 0)).await;
        let response = DescribeQuorumResponse::decode(&mut Reader::new(&answer), 2).expect("a response");
        assert_eq!(response.topics[0].partitions[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());
        node.stop().await;
    });
}

#[test]
fn static_voters_are_upgraded_to_dynamic_ones() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    block_on(async move {
        let node = Node::start(config(&path, &[])).await;
        let update = |level, upgrade_type| UpdateFeaturesRequest {
            feature_updates: vec![FeatureUpdateKey {
                feature: "kraft.version".into(),
                max_version_level: level,
                upgrade_type,
                ..FeatureUpdateKey::default()
            }],
            ..UpdateFeaturesRequest::default()
        };
        let answer = node.request(ApiKey::UpdateFeatures, 2, &update(1, 1)).await;
        let response = UpdateFeaturesResponse::decode(&mut Reader::new(&answer), 2).expect("a response");
        assert_eq!((response.error_code, response.error_message), (0, None));
        assert_eq!(node.image().features.level("kraft.version"), 1);
        let answer = node.request(ApiKey::UpdateFeatures, 2, &update(0, 2)).await;
        let response = UpdateFeaturesResponse::decode(&mut Reader::new(&answer), 2).expect("a response");
        assert_eq!(response.error_code, ErrorCode::INVALID_UPDATE_VERSION.code());
        node.stop().await;
        // The voters are in the log now: the configuration need not name them any more.
        let mut dynamic = config(&path, &[]);
        dynamic.static_voters = raft::VoterSet::default();
        let node = Node::start(dynamic).await;
        assert_eq!(node.image().features.level("kraft.version"), 1);
        node.stop().await;
    });
}
