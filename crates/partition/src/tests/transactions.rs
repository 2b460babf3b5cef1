//! Transactions as far as a partition is concerned: what later a coordinator will write, and what readers make of it.

use super::*;
use crate::{AbortedLookup, Origin};
use records::TxnMarker;

fn transactional(producer_id: i64, sequence: i32, value: &str) -> Bytes {
    let mut builder = BatchBuilder::new(0).producer(producer_id, 0, sequence).transactional();
    let timestamp = reactor::now().wall_ms;
    builder.append(&RecordData { timestamp, key: None, value: Some(value.as_bytes()), headers: &[] });
    builder.build().expect("a small batch")
}

fn marker(producer_id: i64, commit: bool) -> Bytes {
    let marker = TxnMarker { producer_id, producer_epoch: 0, commit, coordinator_epoch: 0 };
    marker.build(0, 0, reactor::now().wall_ms).expect("a marker")
}

async fn append(partition: &Partition, records: Bytes, origin: Origin, transaction_verified: bool) -> Offset {
    let request = AppendRequest { origin, transaction_verified, ..AppendRequest::client(-1) };
    let append = partition.append(reactor::now(), &records, &request).expect("taken");
    append.wait().await.expect("promised").base_offset
}

async fn end(partition: &Partition, producer_id: i64, commit: bool) -> Offset {
    append(partition, marker(producer_id, commit), Origin::Coordinator, false).await
}

/// What a reader of committed records sees from offset 0: the end it reads to, and the aborted transactions.
async fn committed(partition: &Partition) -> (Offset, Vec<(i64, Offset)>) {
    let (mut next, mut aborted) = (0, Vec::new());
    loop {
        let request = ReadRequest { isolation: Isolation::ReadCommitted, ..read_all(next) };
        let result = partition.read(&request).expect("readable");
        let AbortedLookup::Range(from, upper) = result.aborted else {
            assert_eq!(next, result.bounds.last_stable_offset);
            return (next, aborted);
        };
        for txn in partition.aborted_in(from, upper).await.expect("readable") {
            if !aborted.contains(&(txn.producer_id, txn.first_offset)) {
                aborted.push((txn.producer_id, txn.first_offset));
            }
        }
        let bytes = fetch_bytes(partition, &request).await.expect("readable");
        next = BatchIter::new(bytes).last().expect("batches").expect("whole").header.next_offset();
    }
}

#[test]
fn open_transactions_hide_what_follows_and_aborted_ones_are_listed() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[]).await;
        let refused = partition.append(reactor::now(), &transactional(1, 0, "a"), &AppendRequest::client(-1));
        assert_eq!(code(refused), ErrorCode::INVALID_TXN_STATE);
        assert_eq!(append(&partition, transactional(1, 0, "a"), Origin::Client, true).await, 0);
        assert_eq!(append(&partition, transactional(1, 1, "b"), Origin::Client, false).await, 1);
        assert_eq!(produced(&partition, plain(&["c"])).await, 2);
        assert_eq!(append(&partition, transactional(2, 0, "d"), Origin::Client, true).await, 3);
        assert_eq!(committed(&partition).await, (0, vec![]));
        assert_eq!(end(&partition, 2, true).await, 4);
        assert_eq!(committed(&partition).await, (0, vec![]), "the first one is still open");
        assert_eq!(end(&partition, 1, false).await, 5);
        assert_eq!(committed(&partition).await, (6, vec![(1, 0)]));
        assert_eq!(append(&partition, transactional(2, 1, "e"), Origin::Client, true).await, 6);
        assert_eq!(committed(&partition).await, (6, vec![(1, 0)]));
        assert_eq!(fetch(&partition, 6).await.len(), 1, "others see it");
        let producers = partition.describe_producers().expect("known");
        let open: Vec<_> = producers.iter().map(|p| (p.producer_id, p.current_txn_start_offset)).collect();
        assert_eq!(open, [(1, -1), (2, 6)]);
    });
}

#[test]
fn transactions_survive_both_kinds_of_stop() {
    for clean in [true, false] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_owned();
        reactor::block_on(async move {
            let rig = Rig::start(&path, "").await;
            let partition = rig.create("t", 0, &[]).await;
            append(&partition, transactional(1, 0, "a"), Origin::Client, true).await;
            end(&partition, 1, false).await;
            append(&partition, transactional(2, 0, "b"), Origin::Client, true).await;
            if clean {
                rig.close().await;
            }
        });
        let path = dir.path().to_owned();
        reactor::block_on(async move {
            let rig = Rig::start(&path, "").await;
            let partition = rig.create("t", 1, &[]).await;
            assert_eq!(committed(&partition).await, (2, vec![(1, 0)]), "clean: {clean}");
            assert_eq!(end(&partition, 2, false).await, 3);
            assert_eq!(committed(&partition).await, (4, vec![(1, 0), (2, 2)]), "clean: {clean}");
        });
    }
}
