use super::*;
use crate::{AbortedLookup, OffsetAnswer, OffsetQuery, WaitOn, Woken, timestamp};

#[test]
fn a_fetch_inside_a_batch_gets_the_whole_batch() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[]).await;
        let ten: Vec<String> = (0..10).map(|i| i.to_string()).collect();
        let ten: Vec<&str> = ten.iter().map(String::as_str).collect();
        produced(&partition, plain(&ten)).await;
        produced(&partition, plain(&ten)).await;
        let size = fetch_bytes(&partition, &read_all(10)).await.expect("readable").len();
        for (from, min_one_batch, max_bytes, bases) in [
            (0, true, 1 << 20, &[0, 10][..]),
            (5, true, 1 << 20, &[0, 10]),
            (9, false, size, &[0]),
            (10, true, 1, &[10]),
            (15, true, 1 << 20, &[10]),
            (19, true, 1 << 20, &[10]),
            (19, false, 1, &[]),
            (20, true, 1 << 20, &[]),
        ] {
            let request = ReadRequest { min_one_batch, max_bytes, ..read_all(from) };
            let bytes = fetch_bytes(&partition, &request).await.expect("readable");
            let found: Vec<_> = BatchIter::new(bytes).map(|b| b.expect("whole").header.base_offset).collect();
            assert_eq!(found, bases, "from {from}");
        }
        assert_eq!(code(partition.read(&read_all(21))), ErrorCode::OFFSET_OUT_OF_RANGE);
        assert_eq!(code(partition.read(&read_all(-1))), ErrorCode::OFFSET_OUT_OF_RANGE);
        let committed = ReadRequest { isolation: Isolation::ReadCommitted, ..read_all(3) };
        let committed = partition.read(&committed).expect("readable");
        assert_eq!(committed.aborted, AbortedLookup::Range(3, 20));
        assert_eq!(partition.aborted_in(3, 20).await.expect("readable"), []);
    });
}

#[test]
fn leader_epochs_guard_reads() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 2, &[]).await;
        produced(&partition, plain(&["a", "b"])).await;
        rig.change(|delta| {
            delta.set_partition(topic_id("t"), 0, led_by(BROKER, 5));
        })
        .await;
        produced(&partition, plain(&["c"])).await;
        let read = |epoch, last| {
            partition.read(&ReadRequest { current_leader_epoch: epoch, last_fetched_epoch: last, ..read_all(2) })
        };
        assert_eq!(code(read(Some(4), None)), ErrorCode::FENCED_LEADER_EPOCH);
        assert_eq!(code(read(Some(6), None)), ErrorCode::UNKNOWN_LEADER_EPOCH);
        assert!(read(Some(5), Some(2)).expect("fits").diverging.is_none());
        let parted = read(Some(5), Some(3)).expect("an answer").diverging.expect("epoch 3 never was");
        assert_eq!((parted.epoch, parted.end_offset), (2, 2));
        let ends = |epoch| partition.offset_for_epoch(None, epoch).map(|a| (a.leader_epoch, a.end_offset));
        assert_eq!(ends(2), Ok((2, 2)));
        assert_eq!(ends(4), Ok((2, 2)));
        assert_eq!(ends(5), Ok((5, 3)));
        assert_eq!(ends(6), Ok((-1, -1)));
        let bytes = fetch_bytes(&partition, &read_all(0)).await.expect("readable");
        let epochs: Vec<_> = BatchIter::new(bytes).map(|b| b.expect("whole").header.leader_epoch).collect();
        assert_eq!(epochs, [2, 5]);
    });
}

#[test]
fn offsets_are_found_by_time() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 4, &[]).await;
        let ask = |timestamp| {
            let partition = partition.clone();
            async move {
                let isolation = Isolation::ReadUncommitted;
                let query = OffsetQuery { timestamp, isolation, current_leader_epoch: None };
                partition.list_offsets(&query).await.expect("an answer")
            }
        };
        let answer = |timestamp, offset, leader_epoch| OffsetAnswer { timestamp, offset, leader_epoch };
        assert_eq!(ask(timestamp::LATEST).await, answer(-1, 0, 4));
        assert_eq!(ask(timestamp::EARLIEST).await, answer(-1, 0, 4));
        assert_eq!(ask(timestamp::MAX_TIMESTAMP).await, OffsetAnswer::NONE);
        assert_eq!(ask(0).await, OffsetAnswer::NONE);
        produced(&partition, batch_at(None, &[("a", 2), ("b", 4), ("c", 6), ("d", 8)])).await;
        for (time, expect) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2), (7, 3), (8, 3)] {
            assert_eq!(ask(time).await, answer(2 * expect + 2, expect, 4), "time {time}");
        }
        assert_eq!(ask(9).await, OffsetAnswer::NONE);
        produced(&partition, batch_at(None, &[("late", 20)])).await;
        produced(&partition, batch_at(None, &[("old", 1)])).await;
        assert_eq!(ask(9).await, answer(20, 4, 4));
        assert_eq!(ask(timestamp::MAX_TIMESTAMP).await, answer(20, 4, 4));
        assert_eq!(ask(timestamp::LATEST).await, answer(-1, 6, 4));
        assert_eq!(ask(timestamp::EARLIEST_LOCAL).await, answer(-1, 0, 4));
        assert_eq!(ask(timestamp::LATEST_TIERED).await, OffsetAnswer::NONE);
        assert_eq!(ask(timestamp::EARLIEST_PENDING_UPLOAD).await, OffsetAnswer::NONE);
    });
}

#[test]
fn records_are_deleted_up_to_the_high_watermark() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[]).await;
        for i in 0..5 {
            produced(&partition, plain(&[&i.to_string(), "x"])).await;
        }
        assert_eq!(code(partition.delete_records(11).await), ErrorCode::OFFSET_OUT_OF_RANGE);
        assert_eq!(code(partition.delete_records(-2).await), ErrorCode::OFFSET_OUT_OF_RANGE);
        assert_eq!(partition.delete_records(0).await, Ok(0));
        assert_eq!(partition.delete_records(5).await, Ok(5));
        assert_eq!(partition.delete_records(3).await, Ok(5));
        assert_eq!(code(partition.read(&read_all(4))), ErrorCode::OFFSET_OUT_OF_RANGE);
        assert_eq!(fetch(&partition, 5).await.len(), 5);
        assert_eq!(partition.delete_records(-1).await, Ok(10));
        assert_eq!(partition.bounds(Isolation::LogEnd).log_start, 10);
        assert_eq!(produced(&partition, plain(&["y"])).await, 10);

        let compacted = rig.create("c", 0, &[("cleanup.policy", "compact")]).await;
        assert_eq!(code(compacted.delete_records(0).await), ErrorCode::POLICY_VIOLATION);
    });
}

/// A wait for bytes behind a read at the end of the log.
fn wait(rig: &Rig, partitions: &[&Partition], min_bytes: u64, max_bytes: u64, ms: u64) -> Running<Option<Woken>> {
    let on: Vec<WaitOn> = partitions
        .iter()
        .map(|partition| {
            let from = partition.bounds(Isolation::ReadUncommitted).high_watermark;
            let mark = partition.read(&read_all(from)).expect("readable").mark;
            WaitOn { partition: (*partition).clone(), mark, max_bytes }
        })
        .collect();
    let deadline = reactor::now().mono_ns + ms * 1_000_000;
    Running::start(rig.core.wait_for_bytes(&on, min_bytes, deadline))
}

#[test]
fn a_waiting_fetch_is_woken_by_bytes_it_may_see() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let (a, b) = (rig.create("a", 0, &[]).await, rig.create("b", 0, &[]).await);
        assert_eq!(wait(&rig, &[&a, &b], 1, 1000, 5).done().await, None, "the deadline");
        assert_eq!(wait(&rig, &[&a], 0, 1000, 60_000).done().await, Some(Woken::Bytes(0)), "nothing was wanted");

        let one = wait(&rig, &[&a, &b], 1, 1000, 60_000);
        let both = wait(&rig, &[&a, &b], 130, 1000, 60_000);
        let other = wait(&rig, &[&b], 1, 1000, 60_000);
        let pending = a.append(reactor::now(), &plain(&["x"]), &AppendRequest::client(-1)).expect("taken");
        settle_briefly().await;
        assert!(one.take().is_none() || a.bounds(Isolation::ReadUncommitted).high_watermark == 1);
        pending.wait().await.expect("promised");
        let Some(Woken::Bytes(bytes)) = one.done().await else { panic!("woken by bytes") };
        assert!((61..140).contains(&bytes), "{bytes}");
        assert!(both.take().is_none() && other.take().is_none());
        produced(&b, plain(&["x"])).await;
        assert_eq!(both.done().await, Some(Woken::Bytes(2 * bytes)));
        assert_eq!(other.done().await, Some(Woken::Bytes(bytes)));
    });
}

async fn settle_briefly() {
    reactor::yield_now().await;
}

#[test]
fn a_wait_ends_when_limits_or_changes_make_it_pointless() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let a = rig.create("a", 0, &[]).await;
        // The partition may give ten bytes only, so a megabyte will never come together.
        let limited = wait(&rig, &[&a], 1 << 20, 10, 60_000);
        produced(&a, plain(&["x"])).await;
        assert_eq!(limited.done().await, Some(Woken::Bytes(10)));

        // Bytes that came between the read and the wait count.
        let mark = a.read(&read_all(1)).expect("readable").mark;
        produced(&a, plain(&["y"])).await;
        let on = [WaitOn { partition: a.clone(), mark, max_bytes: 1000 }];
        let late = Running::start(rig.core.wait_for_bytes(&on, 1, u64::MAX));
        assert!(matches!(late.done().await, Some(Woken::Bytes(61..))));

        // So does what a limit kept back.
        let mark = a.read(&ReadRequest { max_bytes: 1, ..read_all(0) }).expect("readable").mark;
        let on = [WaitOn { partition: a.clone(), mark, max_bytes: 1000 }];
        let kept_back = Running::start(rig.core.wait_for_bytes(&on, 500, u64::MAX));
        assert_eq!(kept_back.done().await, Some(Woken::Bytes(1000)));

        let changed = wait(&rig, &[&a], 1, 1000, 60_000);
        let appending = a.append(reactor::now(), &plain(&["z"]), &AppendRequest::client(-1)).expect("taken");
        let appending = Running::start(appending.wait());
        rig.change(|delta| {
            delta.set_partition(topic_id("a"), 0, led_by(9, 1));
        })
        .await;
        assert!(matches!(changed.done().await, Some(Woken::Changed | Woken::Bytes(_))));
        assert!(matches!(
            appending.done().await,
            Ok(_) | Err(PartitionError { code: ErrorCode::NOT_LEADER_OR_FOLLOWER, .. })
        ));
        assert_eq!(code(a.read(&read_all(0))), ErrorCode::NOT_LEADER_OR_FOLLOWER);
        assert_eq!(code(produce(&a, plain(&["q"])).await), ErrorCode::NOT_LEADER_OR_FOLLOWER);
        assert_eq!(wait(&rig, &[], 1, 1000, 60_000).done().await, Some(Woken::Bytes(0)), "waiting for nothing");
    });
}
