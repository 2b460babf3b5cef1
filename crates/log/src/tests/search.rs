//! Searches by timestamp, in memory, in files, and after a restart.

use bytes::Bytes;
use reactor::block_on;
use records::{BatchBuilder, Codec, RecordData};
use tempfile::TempDir;

use super::kit::*;
use crate::{Durability, Log, LogConfig};

fn timed(codec: Codec, timestamps: &[i64]) -> Bytes {
    let mut builder = BatchBuilder::new(0).compression(codec, None);
    for &timestamp in timestamps {
        builder.append(&RecordData { timestamp, value: Some(&[7; 50]), ..RecordData::default() });
    }
    builder.build().unwrap()
}

async fn find(log: &Log, timestamp: i64, upper: i64) -> Option<(i64, i64)> {
    log.find_timestamp(timestamp, upper).await.unwrap().map(|found| (found.offset, found.timestamp))
}

#[test]
fn the_first_record_at_or_after_a_time() {
    for codec in Codec::ALL {
        let dir = TempDir::new().unwrap();
        let path = dir.path().to_owned();
        block_on(async move {
            let core = open_core(&path, Durability::Written).await;
            // Every batch in a segment of its own.
            let config = LogConfig { segment_bytes: 1, ..LogConfig::default() };
            for (partition, config) in [(0, LogConfig::default()), (1, config)] {
                let (log, _) = open(&core, partition, &config).await;
                assert_eq!((find(&log, 0, 0).await, log.max_timestamp().await.unwrap()), (None, None));
                for timestamps in [&[2, 4, 6, 8][..], &[5, 20, 3], &[-1], &[20, 30, 30]] {
                    append(&log, &timed(codec, timestamps), 0);
                }
                log.wait_promised(11).await.unwrap();
                check(&log).await;
            }
            stop(&path, &core).await;
            let core = open_core(&path, Durability::Written).await;
            for partition in [0, 1] {
                let (log, _) = open(&core, partition, &LogConfig::default()).await;
                check(&log).await;
                log.advance_start_offset(5).await.unwrap();
                assert_eq!(find(&log, 1, 11).await, Some((5, 20)));
            }
        });
    }
}

async fn check(log: &Log) {
    for (timestamp, expect) in [
        (-1, Some((0, 2))),
        (1, Some((0, 2))),
        (2, Some((0, 2))),
        (3, Some((1, 4))),
        (7, Some((3, 8))),
        (9, Some((5, 20))),
        (20, Some((5, 20))),
        (21, Some((9, 30))),
        (30, Some((9, 30))),
        (31, None),
        (i64::MAX, None),
    ] {
        assert_eq!(find(log, timestamp, 11).await, expect, "{timestamp}");
    }
    assert_eq!(find(log, 9, 5).await, None, "the record lies at the bound");
    assert_eq!(find(log, 9, 6).await, Some((5, 20)));
    let max = log.max_timestamp().await.unwrap().unwrap();
    assert_eq!((max.offset, max.timestamp), (9, 30));
}

#[test]
fn times_that_go_back_do_not_confuse() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().to_owned();
    block_on(async move {
        let now = 1_700_000_000_000;
        let month = 30 * 24 * 3600 * 1000;
        let core = open_core(&path, Durability::Written).await;
        let (log, _) = open(&core, 0, &LogConfig { index_interval_bytes: 1, ..LogConfig::default() }).await;
        for timestamp in [now, now - month, 0, -1, now + 5, now - 1] {
            append(&log, &timed(Codec::None, &[timestamp]), 0);
        }
        log.wait_promised(6).await.unwrap();
        for run in 0..2 {
            let log = if run == 0 {
                log.clone()
            } else {
                stop(&path, &core).await;
                let core = open_core(&path, Durability::Written).await;
                open(&core, 0, &LogConfig::default()).await.0
            };
            let max = log.max_timestamp().await.unwrap().unwrap();
            assert_eq!((max.offset, max.timestamp), (4, now + 5));
            for (timestamp, expect) in [(0, 0), (now - month, 0), (now, 0), (now + 1, 4)] {
                assert_eq!(find(&log, timestamp, 6).await.map(|f| f.0), Some(expect), "{timestamp}");
            }
        }
    });
}
