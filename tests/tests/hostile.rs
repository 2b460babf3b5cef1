//! Frames that lie. The broker answers with the protocol's error or closes the connection; its memory stays flat, other
//! connections notice nothing and stored records stay what they were.

use std::io;
use std::thread;
use std::time::Duration;

use base::Prng;
use odradek_tests::client::batch;
use odradek_tests::watch::GROWTH_KIB_MAX;
use odradek_tests::{Client, FetchLimits, Node, Watch};
use wire::ApiKey;

/// Sends `body` as a request and reports whether the broker answered; a closed connection is an answer too.
fn provoke(node: &Node, key: i16, version: i16, flexible: bool, body: &[u8]) {
    let mut raw = node.raw();
    match raw.request(key, version, flexible, body) {
        Ok(_) => {}
        Err(error) => {
            let closed = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
            assert!(closed.contains(&error.kind()), "key {key} v{version} body {body:02x?}: {error}");
        }
    }
}

#[test]
fn lengths_that_lie_in_every_request() {
    let mut watch = Watch::start(&[]);
    let classic: [&[u8]; 6] =
        [&[0xff, 0xff, 0xff, 0xfe], &[0x7f, 0xff, 0xff, 0xff], &[0x80, 0, 0, 0], &[0, 0, 0, 9], &[0x7f, 0xff], &[]];
    let flexible: [&[u8]; 5] =
        [&[0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff, 0xff, 0xff, 0xff, 0x7f], &[0x80; 12], &[9], &[]];
    for key in 0..=95i16 {
        let Some(api) = ApiKey::from_i16(key) else {
            provoke(&watch.node, key, 0, false, &[]);
            continue;
        };
        let info = api.info();
        for version in [*info.advertised().start(), *info.advertised().end(), *info.advertised().end() + 1] {
            let is_flexible = info.is_flexible(version);
            let lies = if is_flexible { &flexible[..] } else { &classic[..] };
            for lie in lies {
                // The lie at the very start, and behind a few bytes that may pass for small fields.
                for prefix in [0usize, 1, 4, 12] {
                    provoke(&watch.node, key, version, is_flexible, &[&vec![0u8; prefix][..], lie].concat());
                }
            }
        }
        if key % 16 == 0 {
            watch.check(&format!("key {key}"));
        }
    }
    watch.check("every key");
}

#[test]
fn random_bodies_and_random_frames() {
    let mut watch = Watch::start(&[]);
    let seed = 0xbad5eed;
    let mut prng = Prng::new(seed);
    for _ in 0..1500 {
        let body: Vec<u8> = (0..prng.below(200)).map(|_| prng.next_u64() as u8).collect();
        let (key, version) = (prng.below(95) as i16, prng.below(15) as i16);
        let flexible = ApiKey::from_i16(key).is_some_and(|k| k.info().is_flexible(version));
        // Requests that wait on purpose (a long Fetch) would only slow the test down.
        if key != 1 {
            provoke(&watch.node, key, version, flexible, &body);
        }
    }
    watch.check(&format!("random bodies, seed {seed:#x}"));
    for first in
        [[0xff; 4], [0x7f, 0xff, 0xff, 0xff], [0x80, 0, 0, 0], *b"GET ", [0, 0, 0, 0], [0, 0, 0, 3], [22, 3, 1, 2]]
    {
        let mut raw = watch.node.raw();
        let _ = raw.send_bytes(&[&first[..], b"/ HTTP/1.1\r\n\r\n"].concat());
        assert!(raw.is_closed_by_peer(), "a frame that begins with {first:02x?} should close the connection");
    }
    watch.check("frames of other protocols");
}

#[test]
fn sixty_four_clients_pushing_large_frames_stay_within_the_budget() {
    let mut watch = Watch::start(&[("queued.max.request.bytes", "134217728"), ("odradek.cores", "2")]);
    let bytes = 64 << 20;
    let pushers: Vec<_> = (0..64)
        .map(|_| {
            let mut raw = watch.node.raw();
            thread::spawn(move || {
                let chunk = vec![0u8; 1 << 20];
                raw.send_bytes(&i32::to_be_bytes(bytes))?;
                for _ in 0..(bytes / (1 << 20)) {
                    raw.send_bytes(&chunk)?;
                }
                io::Result::Ok(())
            })
        })
        .collect();
    let limit_kib = watch.rss_kib + (128 << 10) + GROWTH_KIB_MAX;
    let mut highest = 0;
    while pushers.iter().any(|p| !p.is_finished()) {
        highest = highest.max(watch.node.rss_kib());
        assert!(highest < limit_kib, "the broker holds {highest} KiB, the limit is {limit_kib} KiB");
        thread::sleep(Duration::from_millis(20));
    }
    pushers.into_iter().for_each(|p| drop(p.join().expect("a pusher does not panic")));
    println!("highest resident set: {highest} KiB");
    let fetched = watch.client.fetch("kept", 0, 0, FetchLimits::default());
    assert_eq!(fetched.batches(), [(0, 2)]);
}

#[test]
fn side_files_that_lie_are_rebuilt() {
    let mut watch = Watch::start(&[("log.segment.bytes", "1048576"), ("log.index.interval.bytes", "512")]);
    for _ in 0..300 {
        watch.client.produce("kept", 0, batch(8, &[9; 900]).build().expect("a batch"));
    }
    let before =
        watch.client.fetch("kept", 0, 0, FetchLimits { partition_max_bytes: 64 << 20, ..FetchLimits::default() });
    let dir = watch.node.data_dir().join("kept-0");
    let mut prng = Prng::new(0x51de);
    for round in ["deleted", "emptied", "garbled"] {
        watch.node.stop();
        for entry in std::fs::read_dir(&dir).expect("the partition's folder") {
            let path = entry.expect("an entry").path();
            let side = ["index", "timeindex", "snapshot"].map(std::ffi::OsStr::new);
            let is_side = path.extension().is_some_and(|e| side.contains(&e));
            if !is_side && path.file_name() != Some("leader-epoch-checkpoint".as_ref()) {
                continue;
            }
            match round {
                "deleted" => std::fs::remove_file(&path).expect("can be removed"),
                "emptied" => std::fs::write(&path, b"").expect("can be written"),
                _ => {
                    let noise: Vec<u8> = (0..240).map(|_| prng.next_u64() as u8).collect();
                    std::fs::write(&path, noise).expect("can be written");
                }
            }
        }
        watch.node.run();
        watch.client = Client::connect(&watch.node);
        let all = FetchLimits { partition_max_bytes: 64 << 20, ..FetchLimits::default() };
        let after = watch.client.fetch("kept", 0, 0, all);
        assert!(after.records == before.records, "the records differ after side files were {round}");
        let last = watch.client.fetch("kept", 0, before.high_watermark - 1, all);
        assert_eq!(last.batches().last().map(|b| b.1), Some(before.high_watermark - 1), "{round}");
        assert_eq!(watch.client.list_offset("kept", 0, 1).2, 0, "by time after {round}");
    }
}
