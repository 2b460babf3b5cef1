use super::*;
use crate::batch::EndTxnMarker;
use crate::error::ProducerError;
use base::Prng;

const NOW: Now = Now { mono_ns: 0, wall_ms: 1_000 };

fn context(acks: i16) -> AppendContext {
    AppendContext {
        origin: Origin::Client,
        required_acks: acks,
        expected_leader_epoch: None,
        transaction_verified: false,
    }
}

fn empty(min_insync_replicas: usize) -> Replica {
    Replica::new(ReplicaInit {
        local_id: 1,
        config: ReplicaConfig { min_insync_replicas },
        log_start: 0,
        log_end: 0,
        own_end: 0,
        high_watermark: 0,
        epochs: EpochCache::default(),
        producers: ProducerStates::new(0, 100),
    })
}

fn led_by(leader: BrokerId, epoch: LeaderEpoch, isr: &[BrokerId]) -> Leadership {
    Leadership {
        leader,
        leader_epoch: epoch,
        partition_epoch: epoch,
        replicas: if isr == [1] { vec![1] } else { vec![1, 2, 3] },
        isr: isr.to_vec(),
    }
}

fn leader(isr: &[BrokerId], min_isr: usize) -> Replica {
    let mut replica = empty(min_isr);
    assert_eq!(replica.set_leadership(led_by(1, 0, isr)), Some((0, 0)));
    replica
}

fn append(replica: &mut Replica, batch: BatchInfo) -> Offset {
    match replica.prepare_append(&batch, &context(1)) {
        Ok(AppendDecision::Append(plan)) => {
            replica.commit_append(NOW, &plan);
            plan.base_offset
        }
        other => panic!("{batch:?} gave {other:?}"),
    }
}

fn idempotent(sequence: i32, records: i32) -> BatchInfo {
    BatchInfo {
        producer_id: 5,
        producer_epoch: 0,
        base_sequence: sequence,
        ..BatchInfo::plain(records, i64::from(sequence))
    }
}

#[test]
fn a_single_replica_shows_a_record_when_the_promise_holds() {
    let mut replica = leader(&[1], 1);
    append(&mut replica, BatchInfo::plain(3, 0));
    assert_eq!((replica.log_end(), replica.high_watermark()), (3, 0));
    assert!(replica.advance_own_end(2));
    assert!(!replica.advance_own_end(1), "a late report moves nothing back");
    assert_eq!(replica.high_watermark(), 2);
    let check = |isolation| replica.bounds(isolation).upper;
    assert_eq!(check(Isolation::LogEnd), 3);
    assert_eq!(check(Isolation::ReadUncommitted), 2);
    assert_eq!(check(Isolation::ReadCommitted), 2);
}

#[test]
fn the_high_watermark_waits_for_the_slowest_in_sync_replica() {
    let mut replica = leader(&[1, 2, 3], 2);
    append(&mut replica, BatchInfo::plain(10, 0));
    replica.advance_own_end(10);
    assert_eq!(replica.high_watermark(), 0);
    assert!(!replica.follower_fetched(2, 7));
    assert!(replica.follower_fetched(3, 4));
    assert_eq!(replica.high_watermark(), 4);
    assert!(!replica.follower_fetched(9, 10), "not a replica");
    // Replica 3 drops out: the next slowest counts.
    replica.set_leadership(led_by(1, 0, &[1, 2]));
    assert_eq!(replica.high_watermark(), 7);
    // Below min.insync.replicas nothing more becomes visible, and acks=all is refused.
    replica.set_leadership(led_by(1, 0, &[1]).with_replicas(&[1, 2, 3]));
    assert!(replica.under_min_isr());
    assert_eq!(replica.high_watermark(), 7);
    let refused = replica.prepare_append(&BatchInfo::plain(1, 0), &context(-1));
    assert_eq!(refused, Err(AppendError::NotEnoughReplicas { isr_size: 1, min_isr: 2 }));
    assert!(replica.prepare_append(&BatchInfo::plain(1, 0), &context(1)).is_ok());
    replica.set_config(ReplicaConfig { min_insync_replicas: 1 });
    assert_eq!(replica.high_watermark(), 10);
}

impl Leadership {
    fn with_replicas(mut self, replicas: &[BrokerId]) -> Leadership {
        self.replicas = replicas.to_vec();
        self
    }
}

#[test]
fn min_isr_never_asks_for_more_than_there_are() {
    let replica = leader(&[1], 3);
    assert_eq!(replica.effective_min_isr(), 1);
    assert!(replica.prepare_append(&BatchInfo::plain(1, 0), &context(-1)).is_ok());
}

#[test]
fn appends_are_refused_for_the_first_reason_that_holds() {
    let mut replica = leader(&[1], 1);
    replica.set_leadership(led_by(1, 4, &[1]));
    let batch = BatchInfo::plain(1, 0);
    let with_epoch = |epoch| AppendContext { expected_leader_epoch: Some(epoch), ..context(1) };
    for (context, expect) in [
        (context(2), AppendError::InvalidRequiredAcks { acks: 2 }),
        (context(-2), AppendError::InvalidRequiredAcks { acks: -2 }),
        (with_epoch(3), AppendError::Leadership(LeadershipError::FencedLeaderEpoch { epoch: 3, current: 4 })),
        (with_epoch(5), AppendError::Leadership(LeadershipError::UnknownLeaderEpoch { epoch: 5, current: 4 })),
    ] {
        assert_eq!(replica.prepare_append(&batch, &context), Err(expect));
    }
    assert!(replica.prepare_append(&batch, &with_epoch(4)).is_ok());
    replica.set_leadership(led_by(2, 5, &[1, 2]));
    let refused = replica.prepare_append(&batch, &context(1));
    assert_eq!(refused, Err(AppendError::Leadership(LeadershipError::NotLeader { broker: 1, leader: 2, epoch: 5 })));
}

#[test]
fn stale_decisions_of_the_controller_are_ignored() {
    let mut replica = leader(&[1], 1);
    replica.set_leadership(led_by(1, 4, &[1]));
    assert_eq!(replica.set_leadership(led_by(2, 3, &[2])), None);
    assert!(replica.is_leader());
    assert_eq!(replica.leadership().leader_epoch, 4);
}

#[test]
fn offsets_do_not_overflow() {
    let mut replica = empty(1);
    replica.log_end = Offset::MAX - 3;
    replica.set_leadership(led_by(1, 0, &[1]));
    let refused = replica.prepare_append(&BatchInfo::plain(4, 0), &context(1));
    assert_eq!(refused, Err(AppendError::OffsetsExhausted { log_end: Offset::MAX - 3, records: 4 }));
    assert!(replica.prepare_append(&BatchInfo::plain(3, 0), &context(1)).is_ok());
}

#[test]
fn duplicates_get_the_first_answer_and_change_nothing() {
    let mut replica = leader(&[1], 1);
    append(&mut replica, BatchInfo::plain(10, 0));
    append(&mut replica, idempotent(0, 3));
    let before = replica.clone();
    match replica.prepare_append(&idempotent(0, 3), &context(-1)) {
        Ok(AppendDecision::Duplicate(meta)) => {
            assert_eq!((meta.first_offset(), meta.last_offset, meta.timestamp), (10, 12, 0));
        }
        other => panic!("{other:?}"),
    }
    let refused = replica.prepare_append(&idempotent(4, 1), &context(-1));
    let expect = ProducerError::OutOfOrderSequence { producer_id: 5, sequence: 4, last: 2, offset: 13 };
    assert_eq!(refused, Err(AppendError::Producer(expect)));
    assert_eq!(replica, before);
}

#[test]
fn a_new_leader_epoch_begins_at_the_log_end() {
    let mut replica = leader(&[1], 1);
    append(&mut replica, BatchInfo::plain(5, 0));
    assert_eq!(replica.set_leadership(led_by(1, 2, &[1])), Some((2, 5)));
    assert_eq!(replica.set_leadership(led_by(1, 2, &[1])), None, "the same epoch again is no news");
    append(&mut replica, BatchInfo::plain(5, 0));
    for (epoch, expect) in [(0, Some((0, 5))), (1, Some((0, 5))), (2, Some((2, 10))), (3, None), (-1, None)] {
        assert_eq!(replica.end_of_epoch(epoch).map(|e| (e.epoch, e.end_offset)), expect, "epoch {epoch}");
    }
}

#[test]
fn offsets_are_not_available_until_the_new_epoch_is_visible() {
    let mut replica = leader(&[1], 1);
    append(&mut replica, BatchInfo::plain(5, 0));
    assert_eq!(replica.check_offsets_available(), Ok(()));
    replica.set_leadership(led_by(1, 1, &[1]));
    let expect = ReadError::OffsetNotAvailable { high_watermark: 0, epoch_start: 5, epoch: 1 };
    assert_eq!(replica.check_offsets_available(), Err(expect));
    replica.advance_own_end(5);
    assert_eq!(replica.check_offsets_available(), Ok(()));
}

#[test]
fn fetches_are_bounded_and_checked() {
    let mut replica = leader(&[1], 1);
    append(&mut replica, BatchInfo::plain(10, 0));
    replica.set_leadership(led_by(1, 2, &[1]));
    append(&mut replica, BatchInfo::plain(10, 0));
    replica.advance_own_end(15);
    replica.advance_log_start(4);
    let check = |offset, epoch, last_epoch| {
        let verdict = replica.check_fetch(&FetchCheck {
            offset,
            current_leader_epoch: epoch,
            last_fetched_epoch: last_epoch,
            isolation: Isolation::ReadUncommitted,
            leader_only: true,
        });
        match verdict {
            Ok(FetchVerdict::Read(bounds)) => format!("read {}", bounds.upper),
            Ok(FetchVerdict::Diverging(end, _)) => format!("diverging {} {}", end.epoch, end.end_offset),
            Err(ReadError::OffsetOutOfRange { .. }) => "range".to_owned(),
            Err(ReadError::UnknownFetchedEpoch { .. }) => "unknown".to_owned(),
            Err(ReadError::Leadership(error)) => format!("{error:?}"),
            Err(other) => format!("{other:?}"),
        }
    };
    for (offset, epoch, last_epoch, expect) in [
        (3, None, None, "range"),
        (4, None, None, "read 15"),
        (15, None, None, "read 15"),
        (20, None, None, "read 15"),
        (21, None, None, "range"),
        (4, Some(2), None, "read 15"),
        (4, Some(1), None, "FencedLeaderEpoch { epoch: 1, current: 2 }"),
        (4, Some(3), None, "UnknownLeaderEpoch { epoch: 3, current: 2 }"),
        (10, None, Some(0), "read 15"),
        (11, None, Some(0), "diverging 0 10"),
        (11, None, Some(1), "diverging 0 10"),
        (9, None, Some(1), "diverging 0 10"),
        (11, None, Some(2), "read 15"),
        (21, None, Some(2), "diverging 2 20"),
        (11, None, Some(7), "unknown"),
        (3, None, Some(0), "range"),
    ] {
        assert_eq!(check(offset, epoch, last_epoch), expect, "offset {offset} epoch {epoch:?} last {last_epoch:?}");
    }
}

#[test]
fn open_transactions_hold_back_committed_readers() {
    let mut replica = leader(&[1], 1);
    append(&mut replica, BatchInfo::plain(2, 0));
    let context = AppendContext { transaction_verified: true, ..context(-1) };
    let batch = BatchInfo { transactional: true, ..idempotent(0, 2) };
    let Ok(AppendDecision::Append(plan)) = replica.prepare_append(&batch, &context) else { panic!() };
    replica.commit_append(NOW, &plan);
    append(&mut replica, BatchInfo::plain(2, 0));
    replica.advance_own_end(6);
    assert_eq!((replica.last_stable_offset(), replica.high_watermark()), (2, 6));
    let marker = BatchInfo {
        control: true,
        base_sequence: -1,
        last_offset_delta: 0,
        marker: Some(EndTxnMarker { commit: false, coordinator_epoch: 0 }),
        ..batch
    };
    let context = AppendContext { origin: Origin::Coordinator, ..context };
    let Ok(AppendDecision::Append(plan)) = replica.prepare_append(&marker, &context) else { panic!() };
    let done = replica.commit_append(NOW, &plan).expect("the transaction ended");
    assert_eq!((done.first_offset, done.last_offset, done.last_stable_offset), (2, 6, 7));
    assert_eq!(replica.last_stable_offset(), 2, "the marker is not visible yet");
    replica.advance_own_end(7);
    assert_eq!(replica.last_stable_offset(), 7);
}

#[test]
fn followers_follow_the_leaders_high_watermark() {
    let mut replica = empty(1);
    replica.set_leadership(led_by(2, 1, &[1, 2]));
    replica.replay(NOW, 0, 1, &BatchInfo::plain(10, 0));
    replica.advance_own_end(8);
    assert_eq!(replica.high_watermark(), 0);
    assert!(replica.follow_high_watermark(9));
    assert_eq!(replica.high_watermark(), 8);
    replica.truncate_end(6, ProducerStates::new(6, 100));
    assert_eq!((replica.log_end(), replica.own_end(), replica.high_watermark()), (6, 6, 6));
}

/// Random walks: whatever happens, the offsets stay in order and the watermarks of a leader do not move back.
#[test]
fn offsets_stay_in_order() {
    for seed in 0..300 {
        let mut prng = Prng::new(seed);
        let mut replica = leader(&[1, 2, 3], 1 + prng.below(3) as usize);
        let mut epoch = 0;
        let mut seen = (0, 0);
        for step in 0..200 {
            match prng.below(9) {
                0..=3 => {
                    append(&mut replica, BatchInfo::plain(1 + prng.below(5) as i32, 0));
                }
                4 => {
                    let range = replica.log_end() - replica.own_end() + 1;
                    replica.advance_own_end(replica.own_end() + prng.below(range as u64) as Offset);
                }
                5..=6 => {
                    let id = 2 + prng.below(2) as BrokerId;
                    replica.follower_fetched(id, prng.below(replica.log_end() as u64 + 3) as Offset);
                }
                7 => {
                    let isr = [&[1][..], &[1, 2], &[1, 3], &[1, 2, 3]][prng.below(4) as usize];
                    epoch += prng.below(2) as LeaderEpoch;
                    replica.set_leadership(led_by(1, epoch, isr).with_replicas(&[1, 2, 3]));
                }
                _ => {
                    let range = replica.high_watermark() - replica.log_start() + 1;
                    replica.advance_log_start(replica.log_start() + prng.below(range as u64) as Offset);
                }
            }
            let bounds = replica.bounds(Isolation::ReadCommitted);
            let ordered = [bounds.log_start, bounds.last_stable_offset, bounds.high_watermark, bounds.log_end];
            assert!(ordered.is_sorted(), "seed {seed} step {step} {ordered:?}");
            assert!(bounds.high_watermark <= replica.own_end().max(bounds.log_start), "seed {seed} step {step}");
            let now = (bounds.high_watermark, bounds.last_stable_offset);
            assert!(now.0 >= seen.0 && now.1 >= seen.1, "seed {seed} step {step} from {seen:?} to {now:?}");
            seen = now;
        }
    }
}
