//! Names of topics, groups, members and clients that would break a line of the log, or a terminal that shows it.

use odradek_tests::client::encode;
use odradek_tests::{Client, Watch};
use wire::ApiKey;
use wire::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use wire::create_topics_response::CreateTopicsResponse;
use wire::find_coordinator_request::FindCoordinatorRequest;
use wire::find_coordinator_response::FindCoordinatorResponse;
use wire::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::metadata_request::{MetadataRequest, MetadataRequestTopic};
use wire::metadata_response::MetadataResponse;

/// What they try to put into the log.
const FORGED: &str = "FORGED";
const FORGED_TIME: &str = "2001-01-01T00:00:00.000000Z";

/// Groups can be used from here on.
fn find_coordinator(client: &mut Client) {
    loop {
        let request = FindCoordinatorRequest { coordinator_keys: vec!["any".into()], ..Default::default() };
        let answer: FindCoordinatorResponse<'_> = client.call(ApiKey::FindCoordinator, 6, &request);
        if answer.coordinators[0].error_code == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn control_characters_in_names_stay_out_of_the_log() {
    let mut watch = Watch::start(&[]);
    find_coordinator(&mut watch.client);
    let names = [
        format!("a\n{FORGED}"),
        format!("a\r{FORGED}"),
        format!("a\r\n{FORGED_TIME} ERROR {FORGED}"),
        format!("\u{1b}[2J\u{1b}[31m{FORGED}"),
        format!("a\u{9b}31m{FORGED}"),
        format!("a\0{FORGED}"),
        format!("a\u{2028}{FORGED}"),
        format!("a\u{7f}\u{8}\u{8}{FORGED}"),
        format!("a\u{202e}{FORGED}"),
    ];
    for name in &names {
        let topic =
            CreatableTopic { name: name.into(), num_partitions: 1, replication_factor: 1, ..Default::default() };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
        let answer: CreateTopicsResponse<'_> = watch.client.call(ApiKey::CreateTopics, 7, &request);
        assert_eq!(answer.topics[0].error_code, wire::ErrorCode::INVALID_TOPIC_EXCEPTION.0, "{name:?}");
        let topic = MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
        let request =
            MetadataRequest { topics: Some(vec![topic]), allow_auto_topic_creation: true, ..Default::default() };
        let answer: MetadataResponse<'_> = watch.client.call(ApiKey::Metadata, 12, &request);
        assert_eq!(answer.topics[0].error_code, wire::ErrorCode::INVALID_TOPIC_EXCEPTION.0, "{name:?}");
        // A group and a member may be called so; the log speaks of both.
        let protocol = JoinGroupRequestProtocol { name: name.into(), metadata: b"".as_slice().into() };
        let join = JoinGroupRequest {
            group_id: name.into(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 10_000,
            group_instance_id: Some(name.into()),
            protocol_type: name.into(),
            protocols: vec![protocol],
            reason: Some(name.into()),
            ..JoinGroupRequest::default()
        };
        let _: wire::join_group_response::JoinGroupResponse<'_> = watch.client.call(ApiKey::JoinGroup, 9, &join);
        // A client, and what it says its software is.
        let mut raw = watch.node.raw();
        let mut frame = [0, 11, 0, 9, 0, 0, 0, 1].to_vec();
        frame.extend(i16::try_from(name.len()).expect("short").to_be_bytes());
        frame.extend(name.as_bytes());
        frame.push(0);
        frame.extend(encode(&join, 9));
        raw.send_frame(&frame).expect("the broker reads");
        raw.recv_frame().expect("an answer");
        // And a request that cannot be decoded, which is logged with what is known of it.
        let mut raw = watch.node.raw();
        raw.send_frame(&frame[..frame.len() - 20]).expect("the broker reads");
        let _ = raw.recv_frame();
    }
    watch.check("names with control characters");
    watch.node.stop();
    let log = watch.node.log();
    let about = log.lines().filter(|line| line.contains(FORGED)).count();
    println!("{about} lines of the log name them");
    assert!(about >= names.len(), "the log does not tell of them at all, so nothing is shown");
    for line in log.lines() {
        let bad =
            line.chars().find(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}'));
        assert_eq!(bad, None, "in the line {line:?}");
        assert!(!line.starts_with(FORGED) && !line.starts_with(FORGED_TIME), "a line of the log is forged: {line:?}");
    }
}
