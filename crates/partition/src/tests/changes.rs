use super::*;

#[test]
fn topics_come_and_go_with_the_metadata() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "log.segment.delete.delay.ms=0").await;
        let unknown = rig.core.partition(key("t"));
        assert_eq!(code(unknown), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        let first = rig.create("t", 0, &[]).await;
        produced(&first, plain(&["old"])).await;
        assert_eq!(rig.core.partitions().len(), 1);

        // Deleted and created again under the same name within one delta.
        let new_id = Uuid::from_u128(0x5555);
        rig.change(|delta| {
            assert!(delta.remove_topic(topic_id("t")));
            delta.create_topic("t", new_id);
            delta.set_partition(new_id, 0, led_by(BROKER, 0));
        })
        .await;
        assert_eq!(code(rig.core.partition(key("t"))), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        assert_eq!(code(first.read(&read_all(0))), ErrorCode::NOT_LEADER_OR_FOLLOWER);
        let second = rig.core.partition(PartitionKey { topic_id: new_id, partition: 0 }).expect("opened");
        assert!(fetch(&second, 0).await.is_empty(), "the new topic begins empty");
        assert_eq!(produced(&second, plain(&["new"])).await, 0);
    });
}

#[test]
fn waiting_requests_learn_of_a_deletion() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[]).await;
        let mark = partition.read(&read_all(0)).expect("readable").mark;
        let on = [crate::WaitOn { partition: partition.clone(), mark, max_bytes: 1 }];
        let waiting = Running::start(rig.core.wait_for_bytes(&on, 1, u64::MAX));
        settle().await;
        rig.change(|delta| {
            delta.remove_topic(topic_id("t"));
        })
        .await;
        assert_eq!(waiting.done().await, Some(crate::Woken::Changed));
    });
}

#[test]
fn partitions_elsewhere_are_not_opened() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let id = topic_id("t");
        rig.change(|delta| {
            delta.create_topic("t", id);
            let elsewhere = PartitionRegistration { replicas: vec![9], isr: vec![9], ..led_by(9, 0) };
            delta.set_partition(id, 0, elsewhere);
        })
        .await;
        assert!(rig.core.partitions().is_empty());
        assert_eq!(code(rig.core.partition(key("t"))), ErrorCode::NOT_LEADER_OR_FOLLOWER);
    });
}

#[test]
fn configuration_is_live() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let partition = rig.create("t", 0, &[]).await;
        let big = || plain(&[&"v".repeat(3000)]);
        produced(&partition, big()).await;
        let set = |resource: ConfigResource, name: &'static str, value: Option<&'static str>| {
            move |delta: &mut MetadataDelta| delta.set_config(resource, name, value)
        };
        rig.change(set(ConfigResource::default_broker(), "message.max.bytes", Some("2000"))).await;
        assert_eq!(code(produce(&partition, big()).await), ErrorCode::MESSAGE_TOO_LARGE);
        rig.change(set(ConfigResource::topic("t"), "max.message.bytes", Some("5000"))).await;
        produced(&partition, big()).await;
        rig.change(set(ConfigResource::topic("t"), "max.message.bytes", None)).await;
        assert_eq!(code(produce(&partition, big()).await), ErrorCode::MESSAGE_TOO_LARGE);
        rig.change(set(ConfigResource::broker(BROKER), "message.max.bytes", Some("6000"))).await;
        produced(&partition, big()).await;
        // A value that no controller would let through changes nothing.
        rig.change(set(ConfigResource::broker(BROKER), "message.max.bytes", Some("-7"))).await;
        produced(&partition, big()).await;
    });
}

#[test]
fn idle_producers_are_forgotten_when_the_option_says_so() {
    on_files(|dir| async move {
        let options = "producer.id.expiration.check.interval.ms=10\nlog.initial.task.delay.ms=3600000";
        let rig = Rig::start(&dir, options).await;
        let partition = rig.create("t", 0, &[]).await;
        produced(&partition, idempotent(0, 0, 1)).await;
        reactor::sleep(std::time::Duration::from_millis(50)).await;
        assert_eq!(partition.describe_producers().expect("known").len(), 1);
        rig.change(|delta| {
            delta.set_config(ConfigResource::default_broker(), "producer.id.expiration.ms", Some("20"));
        })
        .await;
        while !partition.describe_producers().expect("known").is_empty() {
            reactor::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert_eq!(produced(&partition, idempotent(0, 77, 1)).await, 1, "an unknown producer starts anywhere");
    });
}

#[test]
fn directories_of_topics_deleted_meanwhile_are_set_aside() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "").await;
        let kept = rig.create("kept", 0, &[]).await;
        let gone = rig.create("gone", 0, &[]).await;
        produced(&kept, plain(&["a"])).await;
        produced(&gone, plain(&["b"])).await;
        rig.close().await;
        drop((rig, kept, gone));
        // The controller's log is nobody's partition and no stray either.
        let metadata_log = dir.join("__cluster_metadata-0");
        std::fs::create_dir(&metadata_log).expect("a directory");
        let id = format!("version: 0\ntopic_id: {}", Uuid::METADATA_TOPIC);
        std::fs::write(metadata_log.join("partition.metadata"), id).expect("a file");

        let rig = Rig::start(&dir, "").await;
        let kept = rig.create("kept", 1, &[]).await;
        assert_eq!(fetch(&kept, 0).await.len(), 1);
        let names: Vec<String> = std::fs::read_dir(&dir)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .collect();
        assert!(names.iter().any(|name| name.starts_with("gone-0.") && name.ends_with("-stray")), "{names:?}");
        assert!(names.contains(&"kept-0".to_owned()) && !names.contains(&"gone-0".to_owned()), "{names:?}");
        assert!(names.contains(&"__cluster_metadata-0".to_owned()), "{names:?}");
        // A topic of that name begins anew.
        let gone = rig.create("gone", 0, &[]).await;
        assert!(fetch(&gone, 0).await.is_empty());
    });
}

#[test]
fn retention_follows_its_options() {
    on_files(|dir| async move {
        let rig = Rig::start(&dir, "log.retention.check.interval.ms=20").await;
        let partition = rig.create("t", 0, &[("segment.bytes", "1048576"), ("retention.ms", "-1")]).await;
        let value = "v".repeat(400_000);
        for _ in 0..8 {
            produced(&partition, plain(&[&value])).await;
        }
        reactor::sleep(std::time::Duration::from_millis(100)).await;
        assert_eq!(partition.bounds(Isolation::LogEnd).log_start, 0, "nothing asks for retention yet");
        let size = partition.log_dir_info().size_bytes;
        assert!(size > 3_200_000, "{size}");
        rig.change(|delta| {
            delta.set_config(ConfigResource::topic("t"), "retention.bytes", Some("1000000"));
        })
        .await;
        while partition.bounds(Isolation::LogEnd).log_start < 4 {
            reactor::sleep(std::time::Duration::from_millis(5)).await;
        }
        let log_start = partition.bounds(Isolation::LogEnd).log_start;
        assert!(partition.log_dir_info().size_bytes < size);
        assert_eq!(code(partition.read(&read_all(0))), ErrorCode::OFFSET_OUT_OF_RANGE);
        assert_eq!(fetch(&partition, log_start).await.len() as Offset, 8 - log_start);
        assert_eq!(partition.offset_for_epoch(None, 0).map(|a| a.end_offset), Ok(8));
    });
}
