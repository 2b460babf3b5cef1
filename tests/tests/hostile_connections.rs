//! Connections that cost and bring nothing: thousands that are silent, come all at once, vanish, dawdle, or never take their
//! answers. Others are served beside them, and what each costs the broker stays small.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use odradek_tests::client::{batch, encode, produce_request};
use odradek_tests::watch::GROWTH_KIB_MAX;
use odradek_tests::{Client, FetchLimits, Watch};
use wire::ApiKey;
use wire::fetch_request::{FetchPartition, FetchRequest, FetchTopic};

/// Connections that are held at once. The client's and the broker's ends together stay below the usual limit of files.
const MANY: usize = 3000;
/// What an idle connection may cost, bytes of the resident set: a task, a receive buffer and the entries that name them. The
/// allocator's own rounding and a debug build are in it.
const CONNECTION_BYTES_MAX: u64 = 6 << 10;

/// Connects; a broker whose backlog is full makes the system try again.
fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&addr, Duration::from_secs(60)).expect("the broker accepts");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket option");
    stream
}

/// ApiVersions version 0, the smallest request there is, behind its length.
fn api_versions(correlation: i32) -> Vec<u8> {
    let mut frame = Vec::from(14i32.to_be_bytes());
    frame.extend(18i16.to_be_bytes());
    frame.extend(0i16.to_be_bytes());
    frame.extend(correlation.to_be_bytes());
    frame.extend(4i16.to_be_bytes());
    frame.extend(b"mean");
    frame
}

/// Takes one answer and compares its correlation id.
fn expect_answer(stream: &mut TcpStream, correlation: i32) {
    let mut head = [0; 8];
    stream.read_exact(&mut head).expect("an answer");
    assert_eq!(head[4..], correlation.to_be_bytes());
    let length = i32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    let mut rest = vec![0; usize::try_from(length).expect("a length") - 4];
    stream.read_exact(&mut rest).expect("all of the answer");
}

/// Closes with a reset instead of an end.
fn reset(stream: TcpStream) {
    // Bytes that were not read make the system do so; some arrive for every request.
    let _ = (&stream).write_all(&api_versions(1));
    thread::sleep(Duration::from_millis(1));
    drop(stream);
}

#[test]
fn thousands_that_are_silent() {
    // A backlog that takes what one thread can connect in the time that the broker needs to accept it.
    let mut watch = Watch::start(&[("odradek.cores", "2"), ("socket.listen.backlog.size", "4096")]);
    let addr = watch.node.addr();
    let allowed_kib = MANY as u64 * CONNECTION_BYTES_MAX / 1024 + 4096;
    let rows: [(&str, &[u8]); 4] = [
        ("connections that send nothing", b""),
        ("connections that send half a length", &[0, 0]),
        ("connections that announce 64 MiB and send a byte of it", &[4, 0, 0, 0, 0]),
        ("connections that send half a request", &api_versions(1)[..9]),
    ];
    for (what, bytes) in rows {
        let before = watch.growth_kib();
        let mut held: Vec<TcpStream> = (0..MANY).map(|_| connect(addr)).collect();
        held.iter_mut().for_each(|stream| stream.write_all(bytes).expect("the system takes it"));
        // The last ones are accepted for certain once one that came later is served.
        for _ in 0..4 {
            let mut last = connect(addr);
            last.write_all(&api_versions(7)).expect("the system takes it");
            expect_answer(&mut last, 7);
        }
        let grown = watch.growth_kib().saturating_sub(before);
        println!("{MANY} {what}: {} bytes each", grown * 1024 / MANY as u64);
        watch.check_within(what, allowed_kib);
    }
    watch.check_within("all of them are gone", allowed_kib);
}

#[test]
fn a_storm_of_connections_is_served() {
    let mut watch = Watch::start(&[("odradek.cores", "2")]);
    let addr = watch.node.addr();
    let streams: Vec<TcpStream> = thread::scope(|scope| {
        let storm = (0..32).map(|_| {
            scope.spawn(move || {
                let mut mine: Vec<TcpStream> = (0..MANY / 32).map(|_| connect(addr)).collect();
                for (n, stream) in (0..).zip(&mut mine) {
                    stream.write_all(&api_versions(n)).expect("the system takes it");
                }
                for (n, stream) in (0..).zip(&mut mine) {
                    expect_answer(stream, n);
                }
                mine
            })
        });
        let storm: Vec<_> = storm.collect();
        storm.into_iter().flat_map(|thread| thread.join().expect("everyone is served")).collect()
    });
    println!("{} connections came at once and were served", streams.len());
    watch.check_within("a storm", MANY as u64 * CONNECTION_BYTES_MAX / 1024 + GROWTH_KIB_MAX / 4);
}

#[test]
fn clients_that_vanish() {
    let mut watch = Watch::start(&[]);
    let addr = watch.node.addr();
    let produce = {
        let one = batch(1, &[7; 50_000]).build().expect("a batch");
        let body = encode(&produce_request("kept", 9, one, -1), 11);
        let mut frame = Vec::from((14 + body.len() as i32 + 1).to_be_bytes());
        frame.extend([0, 0, 0, 11, 0, 0, 0, 1, 0, 4]);
        frame.extend(b"mean\0");
        frame.extend(body);
        frame
    };
    for cut in [1, 4, 5, 100, 4096, produce.len() - 1, produce.len()] {
        for n in 0..100 {
            let mut stream = connect(addr);
            stream.write_all(&produce[..cut]).expect("the system takes it");
            match n % 3 {
                0 => drop(stream),
                1 => reset(stream),
                _ => {
                    // The broker sees the end while it may still send.
                    stream.shutdown(Shutdown::Write).expect("an open socket");
                    drop(stream);
                }
            }
        }
        watch.check(&format!("clients that vanish after {cut} bytes of {}", produce.len()));
    }
}

#[test]
fn clients_that_send_byte_by_byte() {
    let mut watch = Watch::start(&[]);
    let addr = watch.node.addr();
    let mut slow: Vec<TcpStream> = (0..500).map(|_| connect(addr)).collect();
    let frame = api_versions(3);
    for at in 0..frame.len() {
        for stream in &mut slow {
            stream.write_all(&frame[at..=at]).expect("the system takes it");
        }
        watch.check_alive("a byte of each");
    }
    slow.iter_mut().for_each(|stream| expect_answer(stream, 3));
    watch.check("clients that send byte by byte");
}

/// A fetch of the first partitions of a topic, from these offsets, that waits for a byte; behind its length.
fn fetch(correlation: i32, topic: &str, offsets: &[i64], max_wait_ms: i32) -> Vec<u8> {
    let part = |(partition, offset): (i32, &i64)| FetchPartition {
        partition,
        fetch_offset: *offset,
        partition_max_bytes: 32 << 20,
        ..FetchPartition::default()
    };
    let partitions = (0..).zip(offsets).map(part).collect();
    let request = FetchRequest {
        max_wait_ms,
        min_bytes: 1,
        max_bytes: 32 << 20,
        session_epoch: -1,
        topics: vec![FetchTopic { topic: topic.into(), partitions, ..FetchTopic::default() }],
        ..FetchRequest::default()
    };
    let body = encode(&request, 12);
    let mut frame = Vec::from((15 + body.len() as i32).to_be_bytes());
    frame.extend((ApiKey::Fetch as i16).to_be_bytes());
    frame.extend(12i16.to_be_bytes());
    frame.extend(correlation.to_be_bytes());
    frame.extend(4i16.to_be_bytes());
    frame.extend(b"mean\0");
    frame.extend(body);
    frame
}

#[test]
fn clients_that_never_take_their_answers() {
    let mut watch = Watch::start(&[("odradek.cores", "2"), ("odradek.tail.cache.bytes", "16777216")]);
    let addr = watch.node.addr();
    watch.client.create_topic("large", 1, &[]);
    for _ in 0..48 {
        let produced = watch.client.produce("large", 0, batch(1, &[5; 1_000_000]).build().expect("a batch"));
        assert_eq!(produced.error, wire::ErrorCode::NONE);
    }
    watch.rss_kib = watch.node.rss_kib();
    let deaf: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = connect(addr);
            stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a socket option");
            for n in 0..10_000 {
                // 48 MB of answers to each: far more than the sockets hold. Small ones pile up behind them.
                let frame = if n < 4 { fetch(n, "large", &[0], 100) } else { api_versions(n) };
                match stream.write_all(&frame) {
                    Ok(()) => {}
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            stream
        })
        .collect();
    let fetched = watch.client.fetch("large", 0, 40, FetchLimits::default());
    assert!(!fetched.records.is_empty(), "others read the same partition");
    watch.check(&format!("{} clients that never take their answers", deaf.len()));
    drop(deaf);
    watch.check("they are gone");
}

#[test]
fn thousands_that_wait_for_records() {
    const PARTITIONS: i32 = 8;
    // An hour: none of them is answered because its time is up.
    const MAX_WAIT_MS: i32 = 3_600_000;
    let mut watch = Watch::start(&[("odradek.cores", "2"), ("socket.listen.backlog.size", "4096")]);
    let addr = watch.node.addr();
    watch.client.create_topic("waited", PARTITIONS, &[]);
    let mut waiting: Vec<TcpStream> = (0..MANY).map(|_| connect(addr)).collect();
    let mut offsets = [0; PARTITIONS as usize];
    for round in 0..2 {
        for stream in &mut waiting {
            stream.write_all(&fetch(round, "waited", &offsets, MAX_WAIT_MS)).expect("the system takes it");
        }
        // Whatever goes from core to core goes on: metadata, appends, reads, on the connection that was there and new ones.
        let mut others = [Client::connect(&watch.node), Client::connect(&watch.node), Client::connect(&watch.node)];
        for (n, other) in others.iter_mut().enumerate() {
            let topic = format!("other-{round}-{n}");
            other.create_topic(&topic, PARTITIONS, &[]);
            for partition in 0..PARTITIONS {
                let produced = other.produce(&topic, partition, batch(1, b"v").build().expect("a batch"));
                assert_eq!(produced.error, wire::ErrorCode::NONE);
                assert_eq!(other.fetch(&topic, partition, 0, FetchLimits::default()).batches(), [(0, 0)]);
            }
        }
        // 1.5 KiB for each partition that each one waits for.
        let allowed_kib = MANY as u64 * (CONNECTION_BYTES_MAX / 1024 + PARTITIONS as u64 * 3 / 2);
        watch.check_within(&format!("{MANY} fetches that wait"), allowed_kib + 4096);
        if round == 0 {
            watch.client.produce("waited", 5, batch(1, b"v").build().expect("a batch"));
            waiting.iter_mut().for_each(|stream| expect_answer(stream, round));
            offsets[5] = 1;
        }
    }
    // A stop does not wait for their time: each is answered with what there is, and then closed.
    watch.node.stop();
    for stream in &mut waiting {
        expect_answer(stream, 1);
        assert_eq!(stream.read(&mut [0]).expect("an orderly end"), 0);
    }
}
