use super::*;

const NOW: Now = Now { mono_ns: 0, wall_ms: 1_000 };

fn key(id: i32) -> ReplicaKey {
    ReplicaKey { id, directory_id: Uuid::from_u128(1_000 + id as u128) }
}

fn endpoints() -> Vec<Endpoint> {
    vec![Endpoint { name: "CONTROLLER".to_owned(), host: "h".to_owned(), port: 9093 }]
}

fn static_voters(ids: &[i32]) -> VoterSet {
    VoterSet::new(ids.iter().map(|id| Voter::new(ReplicaKey { id: *id, directory_id: Uuid::ZERO }, endpoints())))
}

fn raft(static_voters: VoterSet) -> Raft {
    Raft::new(RaftConfig { node_id: 1, directory_id: key(1).directory_id, static_voters, endpoints: endpoints() })
}

const EMPTY: LogPosition = LogPosition { start: 0, end: 0, last_epoch: 0 };

fn append(raft: &mut Raft, records: i64) -> Vec<Action> {
    let end = raft.log_end() + records;
    assert!(raft.step(NOW, Event::Appended { end }).is_empty());
    raft.step(NOW, Event::Durable { end })
}

#[test]
fn a_single_static_voter_elects_itself_and_commits_what_is_durable() {
    let mut raft = raft(static_voters(&[1]));
    let actions = raft.start(NOW, None, EMPTY, None).expect("starts");
    let elected = ElectionState { epoch: 1, leader_id: Some(1), voted: None, voters: vec![1] };
    assert_eq!(
        actions,
        vec![
            Action::PersistElection { state: elected, version: 0 },
            Action::BecameLeader { epoch: 1, start: 0 },
            Action::AppendControl {
                base_offset: 0,
                epoch: 1,
                timestamp_ms: 1_000,
                records: vec![ControlRecord::LeaderChange { leader_id: 1, voters: vec![1] }],
            },
        ]
    );
    assert_eq!(raft.high_watermark(), None);
    assert_eq!(append(&mut raft, 1), vec![Action::Committed { high_watermark: 1 }]);
    raft.step(NOW, Event::Appended { end: 5 });
    assert_eq!(raft.high_watermark(), Some(1), "what is not durable is not committed");
    assert_eq!(raft.step(NOW, Event::Durable { end: 5 }), vec![Action::Committed { high_watermark: 5 }]);
    assert_eq!(raft.step(NOW, Event::Durable { end: 5 }), vec![]);
    assert_eq!(raft.view().voters[0].log_end, 5);
}

#[test]
fn every_start_begins_a_term_above_all_seen() {
    for (file_epoch, log_epoch, expect) in [(None, 0, 1), (Some(3), 0, 4), (Some(3), 7, 8), (None, 7, 8)] {
        let mut raft = raft(static_voters(&[1]));
        let election = file_epoch.map(|epoch| ElectionState { epoch, leader_id: Some(1), ..ElectionState::default() });
        let log = LogPosition { start: 0, end: 40, last_epoch: log_epoch };
        raft.start(NOW, election, log, None).expect("starts");
        assert_eq!(raft.epoch(), expect, "file {file_epoch:?}, log {log_epoch}");
        assert_eq!(raft.step(NOW, Event::Durable { end: 40 }), vec![], "old terms do not commit by themselves");
        assert_eq!(append(&mut raft, 1), vec![Action::Committed { high_watermark: 41 }]);
    }
}

#[test]
fn dynamic_voters_of_the_first_snapshot_are_written_to_the_log_once() {
    let own = Voter::new(key(1), endpoints());
    let boot = |raft: &mut Raft| {
        raft.replay(-1, &ControlRecord::KraftVersion(1));
        raft.replay(-1, &ControlRecord::Voters(VoterSet::new([own.clone()])));
    };
    let mut first = raft(VoterSet::default());
    boot(&mut first);
    let actions = first.start(NOW, None, EMPTY, None).expect("starts");
    let Action::AppendControl { records, .. } = &actions[2] else { panic!("{actions:?}") };
    assert_eq!(records.len(), 3);
    assert!(matches!(&actions[0], Action::PersistElection { version: 1, .. }));
    append(&mut first, 3);

    let mut second = raft(VoterSet::default());
    boot(&mut second);
    second.replay(1, &records[1]);
    second.replay(2, &records[2]);
    let log = LogPosition { start: 0, end: 3, last_epoch: 1 };
    let actions = second.start(NOW, None, log, None).expect("starts");
    let Action::AppendControl { records, .. } = &actions[2] else { panic!("{actions:?}") };
    assert_eq!(records.len(), 1, "the voters are in the log and unchanged");
    assert_eq!(second.quorum_at(0), (1, Some(VoterSet::new([own]))));
}

#[test]
fn a_voter_whose_listeners_moved_says_so() {
    let mut raft = raft(VoterSet::default());
    let old = Endpoint { name: "CONTROLLER".to_owned(), host: "elsewhere".to_owned(), port: 1 };
    raft.replay(1, &ControlRecord::KraftVersion(1));
    raft.replay(2, &ControlRecord::Voters(VoterSet::new([Voter::new(key(1), vec![old])])));
    let log = LogPosition { start: 0, end: 3, last_epoch: 1 };
    let actions = raft.start(NOW, None, log, None).expect("starts");
    let Action::AppendControl { records, .. } = &actions[2] else { panic!("{actions:?}") };
    assert_eq!(records[2], ControlRecord::Voters(VoterSet::new([Voter::new(key(1), endpoints())])));
}

#[test]
fn static_voters_are_moved_into_the_log_by_an_upgrade() {
    let mut raft = raft(static_voters(&[1]));
    raft.start(NOW, None, EMPTY, None).expect("starts");
    append(&mut raft, 1);
    assert_eq!(raft.quorum_at(1), (0, None));
    let actions = raft.step(NOW, Event::UpgradeToDynamicVoters);
    let voters = VoterSet::new([Voter::new(key(1), endpoints())]);
    let records = vec![ControlRecord::KraftVersion(1), ControlRecord::Voters(voters.clone())];
    assert_eq!(actions, vec![Action::AppendControl { base_offset: 1, epoch: 1, timestamp_ms: 1_000, records }]);
    append(&mut raft, 2);
    assert_eq!(raft.quorum_at(1), (0, None), "an earlier snapshot keeps the earlier quorum");
    assert_eq!(raft.quorum_at(3), (1, Some(voters)));
    assert_eq!(raft.step(NOW, Event::UpgradeToDynamicVoters), vec![]);
}

#[test]
fn quorums_it_cannot_run_are_refused() {
    let start = |mut raft: Raft| raft.start(NOW, None, EMPTY, None).expect_err("refused").to_string();
    assert!(start(raft(VoterSet::default())).contains("no voters"));
    assert!(start(raft(static_voters(&[2]))).contains("not one of the voters [2]"));
    assert!(start(raft(static_voters(&[1, 2, 3]))).contains("[1, 2, 3] are more than one"));
    let mut other_directory = raft(VoterSet::default());
    let foreign = ReplicaKey { id: 1, directory_id: Uuid::from_u128(9_999) };
    other_directory.replay(-1, &ControlRecord::KraftVersion(1));
    other_directory.replay(-1, &ControlRecord::Voters(VoterSet::new([Voter::new(foreign, endpoints())])));
    assert!(start(other_directory).contains("not one of the voters"));
    let mut last = raft(static_voters(&[1]));
    let election = ElectionState { epoch: i32::MAX, ..ElectionState::default() };
    assert_eq!(last.start(NOW, Some(election), EMPTY, None), Err(RaftError::EpochExhausted(i32::MAX)));
}

#[test]
fn trimming_keeps_what_the_start_needs() {
    let mut raft = raft(static_voters(&[1]));
    raft.start(NOW, None, EMPTY, None).expect("starts");
    append(&mut raft, 1);
    raft.step(NOW, Event::UpgradeToDynamicVoters);
    append(&mut raft, 10);
    let id = OffsetAndEpoch { offset: 8, epoch: 1 };
    raft.step(NOW, Event::SnapshotTaken(id));
    raft.step(NOW, Event::LogTrimmed { start: 8 });
    assert_eq!((raft.latest_snapshot(), raft.log_start()), (Some(id), 8));
    assert_eq!(raft.quorum_at(8).0, 1);
}
