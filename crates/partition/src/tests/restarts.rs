use super::*;

#[test]
fn a_clean_restart_keeps_records_epochs_and_producers() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[]).await;
        produced(&partition, plain(&["a"])).await;
        produced(&partition, idempotent(0, 0, 2)).await;
        produced(&partition, idempotent(0, 2, 2)).await;
        rig.core.close().await.expect("closed");
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
