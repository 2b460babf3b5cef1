use super::*;
use crate::batch::{EndTxnMarker, NO_SEQUENCE};
use base::Prng;

/// A data batch `(epoch, first sequence, records)` of producer 7 with a timestamp equal to its first sequence.
fn data(epoch: i16, base_sequence: i32, records: i32) -> BatchInfo {
    BatchInfo {
        producer_id: 7,
        producer_epoch: epoch,
        base_sequence,
        last_offset_delta: records - 1,
        max_timestamp: i64::from(base_sequence),
        transactional: false,
        control: false,
        marker: None,
    }
}

fn txn(producer_id: ProducerId, epoch: i16, base_sequence: i32, records: i32) -> BatchInfo {
    BatchInfo { producer_id, transactional: true, ..data(epoch, base_sequence, records) }
}

fn marker(producer_id: ProducerId, epoch: i16, commit: bool, coordinator_epoch: i32) -> BatchInfo {
    BatchInfo {
        producer_id,
        producer_epoch: epoch,
        base_sequence: NO_SEQUENCE,
        last_offset_delta: 0,
        max_timestamp: 99,
        transactional: true,
        control: true,
        marker: Some(EndTxnMarker { commit, coordinator_epoch }),
    }
}

/// Outcome of one step, short enough for tables.
fn step(states: &mut ProducerStates, batch: BatchInfo, verified: bool) -> String {
    let offset = states.end_offset();
    match states.check(Origin::Client, &batch, offset, verified) {
        Ok(ProducerCheck::Fresh) => {
            states.replay(1_000, offset, &batch);
            format!("ok {offset}")
        }
        Ok(ProducerCheck::Duplicate(meta)) => format!("dup {}@{}", meta.first_offset(), meta.timestamp),
        Err(ProducerError::InvalidEpoch { .. }) => "epoch".to_owned(),
        Err(ProducerError::NewEpochNotAtZero { .. }) => "new epoch".to_owned(),
        Err(ProducerError::OutOfOrderSequence { last, .. }) => format!("order {last}"),
        Err(ProducerError::NoOngoingTxn { .. }) => "no txn".to_owned(),
        Err(ProducerError::ExpectedTransactional { .. }) => "expected txn".to_owned(),
        Err(ProducerError::CoordinatorFenced { .. }) => "fenced".to_owned(),
    }
}

fn run(steps: &[(BatchInfo, &str)]) {
    let mut states = ProducerStates::new(0, 100);
    for (i, (batch, expect)) in steps.iter().enumerate() {
        assert_eq!(step(&mut states, *batch, true), *expect, "step {i}: {batch:?}");
    }
}

#[test]
fn window_of_five_batches() {
    run(&[
        (data(0, 0, 1), "ok 0"),
        (data(0, 1, 2), "ok 1"),
        (data(0, 3, 3), "ok 3"),
        (data(0, 6, 1), "ok 6"),
        (data(0, 7, 1), "ok 7"),
        (data(0, 0, 1), "dup 0@0"),
        (data(0, 1, 2), "dup 1@1"),
        (data(0, 8, 1), "ok 8"),
        // The oldest batch left the window; its retry looks like a step backwards.
        (data(0, 0, 1), "order 8"),
        (data(0, 1, 2), "dup 1@1"),
        // Same first sequence but other length is no retry.
        (data(0, 3, 2), "order 8"),
        (data(0, 10, 1), "order 8"),
        (data(0, 9, 1), "ok 9"),
    ]);
}

#[test]
fn epochs() {
    run(&[
        (data(3, 0, 2), "ok 0"),
        (data(2, 2, 1), "epoch"),
        (data(4, 2, 1), "new epoch"),
        (data(4, 0, 1), "ok 2"),
        // The old epoch's batches are no duplicates any more, they are fenced.
        (data(3, 0, 2), "epoch"),
        (data(4, 0, 1), "dup 2@0"),
        (data(4, 1, 1), "ok 3"),
    ]);
}

#[test]
fn an_unknown_producer_may_start_anywhere_and_sequences_wrap() {
    run(&[
        (data(0, i32::MAX - 1, 2), "ok 0"),
        (data(0, i32::MAX - 1, 2), "dup 0@2147483646"),
        (data(0, 1, 1), "order 2147483647"),
        (data(0, 0, 3), "ok 2"),
        (data(0, 3, 1), "ok 5"),
    ]);
    run(&[
        (data(0, i32::MAX, 3), "ok 0"),
        (data(0, i32::MAX, 3), "dup 0@2147483647"),
        (data(0, 2, 1), "ok 3"),
        (data(0, 3, 1), "ok 4"),
    ]);
}

#[test]
fn batches_without_producer_only_move_the_end() {
    let mut states = ProducerStates::new(0, 1);
    let plain = BatchInfo::plain(4, 0);
    assert_eq!(states.check(Origin::Client, &plain, 0, false), Ok(ProducerCheck::Fresh));
    assert_eq!(states.replay(0, 0, &plain), None);
    assert_eq!((states.end_offset(), states.len()), (4, 0));
}

#[test]
fn coordinators_are_not_held_to_sequences_and_replicas_to_nothing() {
    let mut states = ProducerStates::new(0, 10);
    states.replay(0, 0, &data(5, 0, 1));
    let (gap, old) = (data(5, 9, 1), data(4, 9, 1));
    assert_eq!(states.check(Origin::Coordinator, &gap, 1, false), Ok(ProducerCheck::Fresh));
    assert!(matches!(states.check(Origin::Coordinator, &old, 1, false), Err(ProducerError::InvalidEpoch { .. })));
    assert_eq!(states.check(Origin::Replication, &old, 1, false), Ok(ProducerCheck::Fresh));
    states.replay(0, 1, &old);
    assert_eq!(states.get(7).map(|e| (e.epoch(), e.last_sequence())), Some((4, 9)));
}

#[test]
fn transactions_open_end_and_hold_back_readers() {
    let mut states = ProducerStates::new(0, 10);
    assert_eq!(step(&mut states, txn(1, 0, 0, 2), false), "no txn");
    assert_eq!(step(&mut states, txn(1, 0, 0, 2), true), "ok 0");
    assert_eq!(step(&mut states, txn(1, 0, 2, 1), false), "ok 2");
    assert_eq!(step(&mut states, BatchInfo { producer_id: 1, ..data(0, 3, 1) }, true), "expected txn");
    assert_eq!(step(&mut states, txn(2, 0, 0, 1), true), "ok 3");
    assert_eq!(states.first_unstable_offset(), Some(0));

    let done = states.replay(0, 4, &marker(1, 0, false, 5));
    let expect =
        CompletedTxn { producer_id: 1, first_offset: 0, last_offset: 4, committed: false, last_stable_offset: 3 };
    assert_eq!(done, Some(expect));
    // Until the marker itself is below the high watermark, its transaction counts as open.
    assert_eq!(states.first_unstable_offset(), Some(0));
    states.on_high_watermark(4);
    assert_eq!(states.first_unstable_offset(), Some(0));
    states.on_high_watermark(5);
    assert_eq!(states.first_unstable_offset(), Some(3));

    let old = marker(1, 0, true, 4);
    assert!(matches!(states.check(Origin::Coordinator, &old, 5, false), Err(ProducerError::CoordinatorFenced { .. })));
    let late_epoch = marker(2, -1, true, 5);
    assert!(matches!(
        states.check(Origin::Coordinator, &late_epoch, 5, false),
        Err(ProducerError::InvalidEpoch { .. })
    ));
    let done = states.replay(0, 5, &marker(2, 1, true, 5)).expect("a transaction was open");
    assert_eq!((done.committed, done.last_stable_offset), (true, 6));
    assert_eq!(states.replay(0, 6, &marker(2, 1, true, 5)), None, "an empty transaction completes nothing");
    // The marker raised the epoch, so the producer begins at 0 again.
    assert_eq!(step(&mut states, txn(2, 1, 1, 1), true), "order -1");
    assert_eq!(step(&mut states, txn(2, 1, 0, 1), true), "ok 7");
}

#[test]
fn idle_producers_expire_unless_their_transaction_is_open() {
    let mut states = ProducerStates::new(0, 10);
    states.replay(1_000, 0, &data(0, 0, 1));
    states.replay(1_000, 1, &txn(8, 0, 0, 1));
    assert_eq!(states.expire(1_099, 100), 0, "the batch's timestamp is old, the batch is not");
    assert_eq!(states.expire(1_100, 100), 1);
    assert!(states.get(7).is_none() && states.get(8).is_some());
    assert_eq!(step(&mut states, data(0, 55, 1), false), "ok 2");
    let mut ahead = data(0, 56, 1);
    ahead.max_timestamp = 5_000;
    assert_eq!(step(&mut states, ahead, false), "ok 3");
    assert_eq!(states.expire(5_099, 100), 0, "a timestamp in the future keeps the producer until then");
    assert_eq!(states.expire(5_100, 100), 1);
}

#[test]
fn a_full_table_forgets_the_producers_idle_for_longest() {
    let mut states = ProducerStates::new(0, 32);
    for id in 0..32 {
        states.replay(100 + id, id, &BatchInfo { producer_id: id, ..data(0, 0, 1) });
    }
    states.replay(100, 32, &txn(0, 0, 1, 1));
    states.replay(500, 33, &BatchInfo { producer_id: 99, ..data(0, 0, 1) });
    let held: Vec<_> = states.iter().map(|(id, _)| id).collect();
    assert_eq!(held.len(), 31);
    assert!(held.contains(&0) && !held.contains(&1) && !held.contains(&2) && held.contains(&3), "{held:?}");
}

#[test]
fn snapshots_keep_the_last_batch() {
    let mut states = ProducerStates::new(0, 10);
    states.replay(0, 0, &data(2, 0, 3));
    states.replay(0, 3, &data(2, 3, 2));
    states.replay(0, 5, &txn(9, 1, 0, 1));
    states.replay(0, 6, &marker(4, 6, true, 3));
    let entry = |producer_id, producer_epoch, last_sequence, last_offset, offset_delta| SnapshotEntry {
        producer_id,
        producer_epoch,
        last_sequence,
        last_offset,
        offset_delta,
        timestamp: 0,
        coordinator_epoch: -1,
        current_txn_first_offset: -1,
    };
    let expect = vec![
        SnapshotEntry { timestamp: 99, coordinator_epoch: 3, ..entry(4, 6, -1, -1, 0) },
        SnapshotEntry { timestamp: 3, ..entry(7, 2, 4, 4, 1) },
        SnapshotEntry { current_txn_first_offset: 5, ..entry(9, 1, 0, 5, 0) },
    ];
    assert_eq!(states.snapshot(), expect);

    let mut loaded = ProducerStates::new(0, 10);
    loaded.load(0, 7, expect.clone());
    assert_eq!(loaded.snapshot(), expect);
    assert_eq!((loaded.end_offset(), loaded.first_unstable_offset()), (7, Some(5)));
    assert_eq!(step(&mut loaded, data(2, 3, 2), false), "dup 3@3");
    assert_eq!(step(&mut loaded, data(2, 0, 3), false), "order 4");
    assert_eq!(step(&mut loaded, data(2, 5, 1), false), "ok 7");
}

#[test]
fn what_a_snapshot_forgot_can_be_learned_from_the_log() {
    let mut states = ProducerStates::new(0, 10);
    let batches: Vec<(Offset, BatchInfo)> = (0..6).map(|i| (2 * i, data(2, (2 * i) as i32, 2))).collect();
    for (offset, batch) in &batches {
        states.replay(0, *offset, batch);
    }
    let full = *states.get(7).expect("known");
    let mut loaded = ProducerStates::new(0, 10);
    loaded.load(0, 12, states.snapshot());
    let forgotten = Forgotten { before: 10, batches_max: 4 };
    assert_eq!(loaded.forgotten_before(&batches[3].1), Some(forgotten));
    for (batch, why) in [
        (data(2, 10, 2), "the remembered one"),
        (data(2, 12, 2), "the next one"),
        (data(2, 14, 2), "one from the future"),
        (data(1, 6, 2), "another epoch"),
        (BatchInfo { producer_id: 8, ..data(2, 6, 2) }, "another producer"),
    ] {
        assert_eq!(loaded.forgotten_before(&batch), None, "{why}");
    }
    let older = |from: usize, to: usize| -> Vec<BatchMeta> {
        let meta = |(offset, batch): &(Offset, BatchInfo)| BatchMeta {
            last_sequence: batch.last_sequence(),
            last_offset: offset + 1,
            offset_delta: 1,
            timestamp: batch.max_timestamp,
        };
        batches[from..to].iter().map(meta).collect()
    };
    let mut gap = loaded.clone();
    gap.remember_older(7, &older(0, 4));
    assert_eq!(gap.get(7).map(|e| e.batches().len()), Some(1), "batch 4 is missing in between");
    assert_eq!(gap.forgotten_before(&batches[3].1), None, "asked once");
    loaded.remember_older(7, &older(0, 5));
    assert_eq!(loaded.get(7).map(ProducerEntry::batches), Some(full.batches()));
    assert_eq!(step(&mut loaded, data(2, 2, 2), false), "dup 2@2");
    assert_eq!(step(&mut loaded, data(2, 0, 2), false), "order 11");
    assert_eq!(step(&mut loaded, data(2, 12, 2), false), "ok 12");
    assert_eq!(step(&mut loaded, data(2, 2, 2), false), "order 13");
}

#[test]
fn hostile_snapshot_entries_do_no_harm() {
    let mut prng = Prng::new(11);
    let extreme = [i64::MIN, -1, 0, 1, i64::MAX];
    for _ in 0..2_000 {
        let mut pick = || extreme[prng.below(5) as usize];
        let entry = SnapshotEntry {
            producer_id: pick(),
            producer_epoch: pick() as i16,
            last_sequence: pick() as i32,
            last_offset: pick(),
            offset_delta: pick() as i32,
            timestamp: pick(),
            coordinator_epoch: pick() as i32,
            current_txn_first_offset: pick(),
        };
        let mut states = ProducerStates::new(0, 10);
        states.load(0, 5, [entry]);
        states.expire(i64::MAX, 1);
        states.load(0, 5, [entry]);
        let batch = BatchInfo { producer_id: entry.producer_id.max(0), ..data(0, 0, 1) };
        if states.check(Origin::Client, &batch, 5, false) == Ok(ProducerCheck::Fresh) {
            states.replay(0, 5, &batch);
        }
        states.snapshot();
    }
}

/// One accepted batch, as the naive model remembers it.
struct Written {
    epoch: i16,
    base_sequence: i32,
    records: i32,
    base_offset: Offset,
}

/// Decides from the whole history of one producer, by counting instead of by ring arithmetic.
fn model(history: &[Written], batch: &BatchInfo, next_offset: Offset) -> String {
    let records = batch.last_offset_delta + 1;
    let Some(last) = history.last() else { return format!("ok {next_offset}") };
    let same_epoch: Vec<_> = history.iter().rev().take_while(|w| w.epoch == batch.producer_epoch).take(5).collect();
    for w in &same_epoch {
        if w.base_sequence == batch.base_sequence && w.records == records {
            return format!("dup {}@{}", w.base_offset, w.base_sequence);
        }
    }
    if batch.producer_epoch < last.epoch {
        return "epoch".to_owned();
    }
    if batch.producer_epoch > last.epoch {
        return if batch.base_sequence == 0 { format!("ok {next_offset}") } else { "new epoch".to_owned() };
    }
    let next = (i64::from(last.base_sequence) + i64::from(last.records)) % (1 << 31);
    if next == i64::from(batch.base_sequence) {
        format!("ok {next_offset}")
    } else {
        format!("order {}", (next + (1 << 31) - 1) % (1 << 31))
    }
}

#[test]
fn agrees_with_a_model_that_keeps_all_history() {
    for seed in 0..400 {
        let mut prng = Prng::new(seed);
        let mut states = ProducerStates::new(0, 100);
        let mut history: Vec<Vec<Written>> = (0..3).map(|_| Vec::new()).collect();
        for i in 0..200 {
            let producer = prng.below(3) as usize;
            let past = &history[producer];
            let records = 1 + prng.below(4) as i32;
            let next = past.last().map_or(i32::MAX - 9, |w| crate::batch::sequence_after(w.base_sequence, w.records));
            let epoch = past.last().map_or(0, |w| w.epoch);
            let retry = past.len().checked_sub(1 + prng.below(7) as usize);
            let batch = match (prng.below(10), retry) {
                (0..=4, _) => data(epoch, next, records),
                (5..=7, Some(i)) => data(past[i].epoch, past[i].base_sequence, past[i].records),
                (8, _) => data(epoch + 1 - prng.below(3) as i16, [0, next][prng.below(2) as usize], records),
                _ => data(epoch, (next.wrapping_add(prng.below(9) as i32 - 4)) & i32::MAX, records),
            };
            let batch = BatchInfo { producer_id: producer as ProducerId, ..batch };
            if batch.producer_epoch < 0 {
                continue;
            }
            let offset = states.end_offset();
            let expect = model(past, &batch, offset);
            assert_eq!(step(&mut states, batch, false), expect, "seed {seed} step {i} {batch:?}");
            if expect.starts_with("ok") {
                let (epoch, base_sequence) = (batch.producer_epoch, batch.base_sequence);
                let records = batch.last_offset_delta + 1;
                history[producer].push(Written { epoch, base_sequence, records, base_offset: offset });
            }
        }
    }
}

/// A snapshot taken anywhere, with the batches behind it replayed, knows what the uninterrupted state knows, except
/// for window places older than the last batch before the snapshot.
#[test]
fn snapshot_and_replay_rebuild_the_state() {
    for seed in 0..200 {
        let mut prng = Prng::new(seed);
        let mut states = ProducerStates::new(0, 100);
        let mut log: Vec<(Offset, BatchInfo)> = Vec::new();
        let snapshot_at = prng.below(60) as usize;
        let (mut snapshot, mut snapshot_offset) = (Vec::new(), 0);
        let mut next = [0i32; 4];
        for i in 0..60 {
            if i == snapshot_at {
                (snapshot, snapshot_offset) = (states.snapshot(), states.end_offset());
            }
            let producer = prng.below(4);
            let id = producer as ProducerId;
            let open = states.get(id).is_some_and(|e| e.txn_first_offset().is_some());
            let batch = match producer {
                3 => BatchInfo::plain(2, 0),
                2 if open && prng.chance(1, 3) => marker(id, 0, prng.chance(1, 2), 1),
                2 => txn(id, 0, next[2], 2),
                _ => BatchInfo { producer_id: id, ..data(0, next[producer as usize], 2) },
            };
            if !batch.control {
                next[producer as usize] += 2;
            }
            let offset = states.end_offset();
            states.replay(0, offset, &batch);
            log.push((offset, batch));
        }
        let mut rebuilt = ProducerStates::new(0, 100);
        rebuilt.load(0, snapshot_offset, snapshot);
        for (offset, batch) in log.iter().filter(|(offset, _)| *offset >= snapshot_offset) {
            rebuilt.replay(0, *offset, batch);
        }
        assert_eq!(rebuilt.snapshot(), states.snapshot(), "seed {seed}");
        rebuilt.on_high_watermark(rebuilt.end_offset());
        states.on_high_watermark(states.end_offset());
        assert_eq!(rebuilt.first_unstable_offset(), states.first_unstable_offset(), "seed {seed}");
        for (id, entry) in rebuilt.iter() {
            let full = states.get(id).expect("known before").batches();
            // The file holds one timestamp, of the last batch or marker, so a batch from it may carry the marker's.
            let place = |b: &BatchMeta| (b.first_sequence(), b.last_sequence, b.first_offset(), b.last_offset);
            let (all, kept): (Vec<_>, Vec<_>) =
                (full.iter().map(place).collect(), entry.batches().iter().map(place).collect());
            assert!(all.ends_with(&kept), "seed {seed} producer {id}");
            let since = full.iter().filter(|b| b.last_offset >= snapshot_offset).count();
            assert!(entry.batches().len() >= since, "seed {seed} producer {id}");
        }
    }
}
