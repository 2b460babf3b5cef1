use super::*;

#[test]
fn a_clean_restart_keeps_records_epochs_and_producers() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[]).await;
        produced(&partition, plain(&["a"])).await;
        produced(&partition, idempotent(0, 0, 2)).await;
        produced(&partition, idempotent(0, 2, 2)).await;
        rig.close().await;
        assert_eq!(code(produce(&partition, plain(&["too late"])).await), ErrorCode::NOT_LEADER_OR_FOLLOWER);
        drop((rig, partition));

        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 2, &[]).await;
        assert_eq!(partition.bounds(Isolation::ReadUncommitted).high_watermark, 5);
        assert_eq!(fetch(&partition, 0).await.len(), 5);
        assert_eq!(produced(&partition, idempotent(0, 2, 2)).await, 3, "a duplicate of the last batch");
        assert_eq!(produced(&partition, idempotent(0, 4, 1)).await, 5);
        let ends = |epoch| partition.offset_for_epoch(None, epoch).map(|a| (a.leader_epoch, a.end_offset));
        assert_eq!((ends(0), ends(1), ends(2)), (Ok((0, 5)), Ok((0, 5)), Ok((2, 6))));
    });
}

#[test]
fn the_window_of_duplicates_survives_a_clean_restart() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[]).await;
        for i in 0..8 {
            produced(&partition, idempotent(0, 2 * i, 2)).await;
            produced(&partition, plain(&["between"])).await;
        }
        rig.close().await;
        drop((rig, partition));

        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 1, &[]).await;
        // As a client does that got none of the last answers: all at once, in order, and a new one behind them.
        let now = reactor::now();
        let append = |i| partition.append(now, &idempotent(0, 2 * i, 2), &AppendRequest::client(-1)).expect("taken");
        let retries: Vec<_> = (3..9).map(append).collect();
        let mut offsets = Vec::new();
        for retry in retries {
            offsets.push(retry.wait().await.expect("promised").base_offset);
        }
        assert_eq!(offsets, [9, 12, 15, 18, 21, 24]);
        assert_eq!(code(produce(&partition, idempotent(0, 4, 2)).await), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        assert_eq!(partition.bounds(Isolation::LogEnd).upper, 26);
    });
}

#[test]
fn a_restart_without_closing_keeps_what_was_promised() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[]).await;
        for i in 0..7 {
            assert_eq!(produced(&partition, idempotent(0, i, 1)).await, Offset::from(i));
        }
        drop((rig, partition));
        settle().await;

        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 1, &[]).await;
        assert_eq!(fetch(&partition, 0).await.len(), 7);
        for i in 2..7 {
            assert_eq!(produced(&partition, idempotent(0, i, 1)).await, Offset::from(i), "the window of five survived");
        }
        assert_eq!(code(produce(&partition, idempotent(0, 1, 1)).await), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        assert_eq!(produced(&partition, idempotent(0, 7, 1)).await, 7);
    });
}
