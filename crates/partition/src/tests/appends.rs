use super::*;
use crate::KeptToken;
use records::Codec;

#[test]
fn offsets_follow_the_order_of_calls_and_each_ack_waits_for_its_promise() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[]).await;
        let now = reactor::now();
        let append =
            |records: Bytes, acks| partition.append(now, &records, &AppendRequest::client(acks)).expect("taken");
        let all = append(plain(&["a", "b"]), -1);
        let one = append(plain(&["c"]), 1);
        let none = append(plain(&["d"]), 0);
        assert_eq!([all.result(), one.result(), none.result()].map(|r| r.base_offset), [0, 2, 3]);
        assert_eq!(partition.bounds(Isolation::ReadUncommitted).high_watermark, 0, "nothing is promised yet");
        assert_eq!(partition.bounds(Isolation::LogEnd).upper, 4);
        assert!(fetch(&partition, 0).await.is_empty(), "consumers do not see what is not promised");

        let none = none.wait().await.expect("answered at once");
        assert_eq!(none.log_append_time_ms, -1);
        assert_eq!(one.wait().await.expect("written").base_offset, 2);
        let all = all.wait().await.expect("promised");
        assert_eq!((all.base_offset, all.last_offset, all.log_start_offset), (0, 1, 0));
        assert!(partition.bounds(Isolation::ReadUncommitted).high_watermark >= 2);
        assert_eq!(produced(&partition, plain(&["e"])).await, 4);
        let values: Vec<String> = fetch(&partition, 0).await.into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["a", "b", "c", "d", "e"]);
    });
}

#[test]
fn refusals_have_kafkas_codes_and_append_nothing() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let overrides = [("max.message.bytes", "200"), ("cleanup.policy", "compact"), ("segment.bytes", "1048576")];
        let partition = rig.create("t", 3, &overrides).await;
        let now = reactor::now();
        let try_append = |records: Bytes, request: AppendRequest| code(partition.append(now, &records, &request));
        let client = AppendRequest::client(-1);
        let keyed = |value: &[u8]| {
            let mut batch = BatchBuilder::new(0);
            batch.append(&RecordData { timestamp: now.wall_ms, key: Some(b"k"), value: Some(value), headers: &[] });
            batch.build().expect("a batch")
        };
        let two = Bytes::from([keyed(b"x"), keyed(b"y")].concat());
        let mut torn = keyed(b"x").to_vec();
        *torn.last_mut().expect("bytes") ^= 1;
        let late = AppendRequest { expected_leader_epoch: Some(2), ..client };
        let early = AppendRequest { expected_leader_epoch: Some(4), ..client };
        for (records, request, expect) in [
            (Bytes::new(), client, ErrorCode::INVALID_RECORD),
            (two, client, ErrorCode::INVALID_RECORD),
            (plain(&["no key"]), client, ErrorCode::INVALID_RECORD),
            (Bytes::from(torn), client, ErrorCode::CORRUPT_MESSAGE),
            (keyed(&[7; 300]), client, ErrorCode::MESSAGE_TOO_LARGE),
            (keyed(b"x"), AppendRequest::client(2), ErrorCode::INVALID_REQUIRED_ACKS),
            (keyed(b"x"), late, ErrorCode::FENCED_LEADER_EPOCH),
            (keyed(b"x"), early, ErrorCode::UNKNOWN_LEADER_EPOCH),
        ] {
            assert_eq!(try_append(records, request), expect);
        }
        let error = partition.append(now, &plain(&["no key"]), &client).err().expect("refused");
        assert_eq!(error.record_errors.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0]);
        assert_eq!(error.log_start_offset, 0);
        assert_eq!(partition.bounds(Isolation::LogEnd).upper, 0);
        assert_eq!(produced(&partition, keyed(b"x")).await, 0);
    });
}

#[test]
fn a_batch_larger_than_a_segment_is_refused() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[("segment.bytes", "1048576"), ("max.message.bytes", "4000000")]).await;
        let value = "v".repeat(1_048_576);
        assert_eq!(code(produce(&partition, plain(&[&value])).await), ErrorCode::RECORD_LIST_TOO_LARGE);
        assert_eq!(produced(&partition, plain(&[&value[..1_000_000]])).await, 0);
    });
}

#[test]
fn duplicates_get_the_first_answer() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[]).await;
        produced(&partition, plain(&["x"])).await;
        let batches: Vec<Bytes> = (0..6).map(|i| idempotent(0, 2 * i, 2)).collect();
        for (i, batch) in batches.iter().enumerate() {
            assert_eq!(produced(&partition, batch.clone()).await, 1 + 2 * i as Offset);
        }
        for (i, batch) in batches.iter().enumerate().skip(1) {
            let again = produce(&partition, batch.clone()).await.expect("a duplicate is no error");
            assert_eq!((again.base_offset, again.last_offset), (1 + 2 * i as Offset, 2 + 2 * i as Offset));
            assert!(again.log_append_time_ms > 0, "a duplicate has its batch's timestamp");
        }
        assert_eq!(code(produce(&partition, batches[0].clone()).await), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        assert_eq!(code(produce(&partition, idempotent(0, 14, 1)).await), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        assert_eq!(code(produce(&partition, idempotent(1, 4, 1)).await), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        assert_eq!(produced(&partition, idempotent(1, 0, 1)).await, 13);
        let old = produce(&partition, idempotent(0, 12, 1)).await;
        assert_eq!(code(old), ErrorCode::INVALID_PRODUCER_EPOCH);
        assert_eq!(fetch(&partition, 0).await.len(), 14);
        let producers = partition.describe_producers().expect("the leader knows");
        assert_eq!(producers.len(), 1);
        assert_eq!((producers[0].producer_id, producers[0].producer_epoch, producers[0].last_sequence), (5, 1, 0));
    });
}

#[test]
fn topic_options_change_what_is_stored() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let overrides = [("message.timestamp.type", "LogAppendTime"), ("compression.type", "zstd")];
        let partition = rig.create("t", 0, &overrides).await;
        let before = reactor::now().wall_ms;
        let result = produce(&partition, batch_at(None, &[("a", 5), ("b", 6)])).await.expect("appended");
        assert!(result.log_append_time_ms >= before, "{result:?}");
        let bytes = fetch_bytes(&partition, &read_all(0)).await.expect("readable");
        let batch = records::Batch::parse(&bytes).expect("a batch");
        batch.verify_crc().expect("recomputed");
        assert_eq!(batch.header.attributes.codec(), Ok(Codec::Zstd));
        assert_eq!(batch.header.max_timestamp, result.log_append_time_ms);
        assert_eq!(batch.header.attributes.timestamp_type(), records::TimestampType::LogAppendTime);
    });
}

#[test]
fn a_dropped_wait_leaves_nothing_behind() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[]).await;
        for acks in [1, -1] {
            let pending =
                partition.append(reactor::now(), &plain(&["a"]), &AppendRequest::client(acks)).expect("taken");
            let task = reactor::spawn(reactor::Class::Normal, pending.wait());
            settle_once().await;
            task.abort();
            settle().await;
        }
        let waiting = partition.0.written.borrow().len() + partition.0.visible.borrow().len();
        assert_eq!(waiting, 0);
        assert_eq!(produced(&partition, plain(&["b"])).await, 2);
    });
}

async fn settle_once() {
    reactor::yield_now().await;
}

/// The rig's core may hold 8 MiB of unwritten bytes; these are 40 MiB at once.
#[test]
fn appends_beyond_the_unwritten_budget_queue_up_in_order() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[]).await;
        let value = "v".repeat(1_000_000);
        let now = reactor::now();
        let appends: Vec<_> = (0..40)
            .map(|i| {
                let batch = batch_at(Some((5, 0, i)), &[(&value, now.wall_ms)]);
                partition.append(now, &batch, &AppendRequest::client(-1)).expect("taken")
            })
            .collect();
        let small = partition.append(now, &idempotent(0, 40, 1), &AppendRequest::client(1)).expect("taken");
        for (i, append) in appends.into_iter().enumerate() {
            assert_eq!(append.wait().await.expect("promised").base_offset, i as Offset);
        }
        assert_eq!(small.wait().await.expect("written").base_offset, 40);
    });
}

#[test]
fn an_append_times_out_when_the_promise_never_comes() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[]).await;
        // Another replica is in sync, which never fetches.
        rig.change(|delta| {
            let registration =
                PartitionRegistration { replicas: vec![BROKER, 9], isr: vec![BROKER, 9], ..led_by(BROKER, 1) };
            delta.set_partition(topic_id("t"), 0, registration);
        })
        .await;
        let now = reactor::now();
        let append = || partition.append(now, &plain(&["a"]), &AppendRequest::client(-1)).expect("taken");
        let timed_out = append().wait_until(now.mono_ns + 5_000_000).await;
        assert_eq!(code(timed_out), ErrorCode::REQUEST_TIMED_OUT);
        let waiting = Running::start(append().wait());
        settle().await;
        assert!(waiting.take().is_none());
        // It drops out of sync: the append is complete.
        rig.change(|delta| {
            let registration = PartitionRegistration { replicas: vec![BROKER, 9], ..led_by(BROKER, 2) };
            delta.set_partition(topic_id("t"), 0, registration);
        })
        .await;
        assert_eq!(waiting.done().await.expect("promised").base_offset, 1);
    });
}

#[test]
fn the_keeper_is_told_when_an_append_is_worth_a_look() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[]).await;
        let told = Rc::new(RefCell::new(Vec::new()));
        let keeper = told.clone();
        rig.core.keep_with(Rc::new(move |token: KeptToken| keeper.borrow_mut().push(token.part)));
        let led_in = |epoch, isr: &[i32]| PartitionRegistration {
            replicas: vec![BROKER, 9],
            isr: isr.to_vec(),
            ..led_by(BROKER, epoch)
        };
        // Another replica is in sync, which never fetches.
        rig.change(|delta| _ = delta.set_partition(topic_id("t"), 0, led_in(1, &[BROKER, 9]))).await;
        let keep = |part: u32, acks: i16| {
            let request = AppendRequest::client(acks);
            let append = partition.append(reactor::now(), &plain(&["a"]), &request).expect("taken");
            assert!(append.outcome().is_none() && !append.is_undecided(), "nothing is promised yet");
            assert!(append.keep(KeptToken { slot: 0, generation: 0, part }));
            append
        };
        let appends = [keep(0, -1), keep(1, 1), keep(2, -1)];
        while told.borrow().is_empty() {
            settle().await;
        }
        assert_eq!(told.take(), [1], "acks=1 waits for nobody else");
        assert_eq!(appends[1].outcome().expect("written").expect("taken").base_offset, 1);
        // It drops out of sync: the others are complete.
        rig.change(|delta| _ = delta.set_partition(topic_id("t"), 0, led_in(2, &[BROKER]))).await;
        assert_eq!(told.take(), [0, 2]);
        for (append, offset) in appends.iter().zip(0..) {
            assert_eq!(append.outcome().expect("promised").expect("taken").base_offset, offset);
        }
        // Another leads: everybody who is kept looks, and learns it.
        rig.change(|delta| _ = delta.set_partition(topic_id("t"), 0, led_in(3, &[BROKER, 9]))).await;
        let append = keep(3, -1);
        rig.change(|delta| {
            delta.set_partition(topic_id("t"), 0, PartitionRegistration { leader: 9, ..led_in(4, &[BROKER, 9]) });
        })
        .await;
        assert!(told.take().contains(&3));
        assert_eq!(code(append.outcome().expect("known")), ErrorCode::NOT_LEADER_OR_FOLLOWER);
    });
}
