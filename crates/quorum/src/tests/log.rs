//! What the files hold, and what comes back from them.

use std::fs;
use std::path::{Path, PathBuf};

use base::Prng;
use metadata::features;
use reactor::block_on;

use super::harness::{Node, config, metadata_dir};
use crate::Quorum;

fn files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(metadata_dir(dir)).expect("the directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

fn segment(dir: &Path) -> PathBuf {
    metadata_dir(dir).join("00000000000000000000.log")
}

#[test]
fn a_new_directory_gets_kafkas_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    block_on(async move {
        let node = Node::start(config(&path, &[])).await;
        assert_eq!(node.image().features.metadata_version(), Some(features::MetadataVersion::MAX));
        node.stop().await;
    });
    assert_eq!(
        files(dir.path()),
        [
            "00000000000000000000.index",
            "00000000000000000000.log",
            "00000000000000000000.timeindex",
            "leader-epoch-checkpoint",
            "partition.metadata",
            "quorum-state",
        ]
    );
    let text = |name| fs::read_to_string(metadata_dir(dir.path()).join(name)).expect("a file");
    assert_eq!(text("partition.metadata"), "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ");
    assert_eq!(text("leader-epoch-checkpoint"), "0\n1\n1 0\n");
    assert_eq!(
        text("quorum-state"),
        r#"{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}"#
    );
}

#[test]
fn a_restart_rebuilds_everything() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    block_on(async move {
        let mut topics = Vec::new();
        for round in 0..4 {
            let node = Node::start(config(&path, &[])).await;
            let image = node.image();
            assert_eq!(topics, image.topics.iter().map(|topic| topic.id).collect::<Vec<_>>(), "round {round}");
            assert_eq!(node.create(&[&format!("topic-{round}")], 3).await, [0]);
            topics = node.image().topics.iter().map(|topic| topic.id).collect();
            let leaders = node.image().topics.iter().all(|t| t.partitions().all(|(_, p)| p.leader == 1));
            assert!(leaders, "every partition is led again");
            if round % 2 == 0 { node.stop().await } else { node.abandon() }
        }
    });
    let epochs = fs::read_to_string(metadata_dir(dir.path()).join("leader-epoch-checkpoint")).expect("a file");
    assert!(epochs.starts_with("0\n4\n1 0\n2 "), "{epochs:?}");
}

#[test]
fn an_interrupted_write_is_cut_and_nothing_before_it() {
    for seed in 0..12 {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_owned();
        let (before, after) = block_on(async move {
            let node = Node::start(config(&path, &[])).await;
            assert_eq!(node.create(&["kept"], 2).await, [0]);
            let before = fs::metadata(segment(&path)).expect("a file").len();
            assert_eq!(node.create(&["torn"], 2).await, [0]);
            node.abandon();
            (before, fs::metadata(segment(&path)).expect("a file").len())
        });
        let prng = &mut Prng::new(seed);
        let mut bytes = fs::read(segment(dir.path())).expect("a file");
        match seed % 3 {
            // Cut off, overwritten with zeroes, or one bit wrong.
            0 => bytes.truncate((before + 1 + prng.below(after - before - 1)) as usize),
            1 => bytes[(before + prng.below(after - before)) as usize..].fill(0),
            _ => bytes[(before + 20 + prng.below(after - before - 20)) as usize] ^= 1 << prng.below(8),
        }
        fs::write(segment(dir.path()), &bytes).expect("written");
        let path = dir.path().to_owned();
        block_on(async move {
            let node = Node::start(config(&path, &[])).await;
            let names: Vec<String> = node.image().topics.iter().map(|topic| topic.name.to_string()).collect();
            assert_eq!(names, ["kept"], "seed {seed}");
            assert_eq!(node.create(&["torn"], 2).await, [0], "seed {seed}: the name is free again");
            node.stop().await;
        });
    }
}

#[test]
fn damage_that_no_crash_makes_stops_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    // The option for tests allows small segments.
    let small = "internal.metadata.log.segment.bytes=2000";
    block_on(async move {
        let node = Node::start(config(&path, &[small])).await;
        for n in 0..20 {
            assert_eq!(node.create(&[&format!("t{n}")], 4).await, [0]);
        }
        node.stop().await;
    });
    let segments: Vec<String> = files(dir.path()).into_iter().filter(|name| name.ends_with(".log")).collect();
    assert!(segments.len() > 3, "{segments:?}");
    let second = metadata_dir(dir.path()).join(&segments[1]);
    let mut bytes = fs::read(&second).expect("a file");
    bytes[100] ^= 1;
    fs::write(&second, bytes).expect("written");
    let path = dir.path().to_owned();
    block_on(async move {
        let error = Quorum::start(config(&path, &[]), super::harness::Kept::default()).await.err().expect("refused");
        assert!(error.to_string().contains(&segments[1]), "{error}");
    });
}

#[test]
fn snapshots_replace_the_log_before_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    let more = [
        "internal.metadata.log.segment.bytes=3000",
        "metadata.log.max.record.bytes.between.snapshots=4000",
        "metadata.max.retention.bytes=12000",
        "metadata.max.idle.interval.ms=0",
    ];
    let expected = block_on(async move {
        let node = Node::start(config(&path, &more)).await;
        for n in 0..120 {
            assert_eq!(node.create(&[&format!("t{n:03}")], 2).await, [0]);
        }
        // The last snapshot may still be in the making.
        reactor::sleep(std::time::Duration::from_millis(50)).await;
        let ids: Vec<_> = node.image().topics.iter().map(|topic| topic.id).collect();
        node.abandon();
        ids
    });
    let names = files(dir.path());
    let snapshots = names.iter().filter(|name| name.ends_with(".checkpoint")).count();
    assert!((1..=3).contains(&snapshots), "{names:?}");
    assert!(!names.contains(&"00000000000000000000.log".to_owned()), "old segments are gone: {names:?}");
    let newest = names.iter().rfind(|name| name.ends_with(".checkpoint")).expect("a snapshot").clone();
    let path = dir.path().to_owned();
    let ids = expected.clone();
    block_on(async move {
        let node = Node::start(config(&path, &more)).await;
        assert_eq!(node.image().topics.iter().map(|topic| topic.id).collect::<Vec<_>>(), ids);
        node.stop().await;
    });
    if snapshots > 1 {
        // A damaged snapshot is passed over while an older one and the log hold everything.
        let file = metadata_dir(dir.path()).join(newest);
        let mut bytes = fs::read(&file).expect("a file");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&file, bytes).expect("written");
        let path = dir.path().to_owned();
        block_on(async move {
            let node = Node::start(config(&path, &more)).await;
            assert_eq!(node.image().topics.iter().map(|topic| topic.id).collect::<Vec<_>>(), expected);
            node.stop().await;
        });
    }
}
