//! `max.connections`, of all and of one listener, `max.connection.creation.rate`, `max.connections.per.ip` with its overrides
//! and `connections.max.idle.ms`: over the whole broker, as in Apache Kafka, however many cores share the connections.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use odradek_tests::raw::Raw;
use odradek_tests::{Node, Peer};

/// How long it is looked whether a connection is answered that should wait. Longer only makes a failure surer.
const LOOK: Duration = Duration::from_millis(300);

/// A connection that the broker serves, or `None` when it closes it.
fn served(node: &Node) -> Option<Raw> {
    let mut raw = Raw::connect(node.addr()).ok()?;
    match raw.request(18, 0, false, &[]) {
        Ok(_) => Some(raw),
        Err(error) => {
            let closed = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
            assert!(closed.contains(&error.kind()), "{error}");
            None
        }
    }
}

/// As [`served`], trying again while earlier connections are being forgotten.
fn served_in_the_end(node: &Node) -> Raw {
    for _ in 0..500 {
        if let Some(raw) = served(node) {
            return raw;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("no connection is let in");
}

#[test]
fn connections_of_one_address() {
    type Row = (&'static str, &'static [(&'static str, &'static str)], usize);
    let rows: [Row; 3] = [
        ("the limit of all addresses", &[("max.connections.per.ip", "7")], 7),
        (
            "an override of this address",
            &[("max.connections.per.ip", "3"), ("max.connections.per.ip.overrides", "10.1.1.1:2,127.0.0.1:9")],
            9,
        ),
        (
            "an override where others get none",
            &[("max.connections.per.ip", "0"), ("max.connections.per.ip.overrides", "127.0.0.1:4")],
            4,
        ),
    ];
    for (what, properties, limit) in rows {
        let mut all = properties.to_vec();
        if Peer::under_test() == Peer::Odradek {
            all.push(("odradek.cores", "3"));
        }
        let node = Node::start_with(&all);
        for round in 0..3 {
            let mut held = Vec::new();
            while held.len() < limit {
                held.push(served_in_the_end(&node));
            }
            for extra in 0..10 {
                assert!(served(&node).is_none(), "{what}, round {round}: connection {} is served", limit + 1 + extra);
            }
            // Those inside notice nothing, and one that leaves makes room for exactly one.
            held.iter_mut().for_each(|raw| drop(raw.request(18, 0, false, &[]).expect("still served")));
            drop(held.pop());
            held.push(served_in_the_end(&node));
            assert!(served(&node).is_none(), "{what}, round {round}: one more than one that left");
        }
        println!("{what}: exactly {limit}");
    }
}

#[test]
fn connections_of_the_broker() {
    connections_wait_for_room("max.connections");
}

#[test]
fn connections_of_a_listener() {
    connections_wait_for_room("listener.name.plaintext.max.connections");
}

fn connections_wait_for_room(option: &'static str) {
    const LIMIT: usize = 6;
    let mut all = vec![(option, "6")];
    if Peer::under_test() == Peer::Odradek {
        all.push(("odradek.cores", "3"));
    }
    let node = Node::start_with(&all);
    let mut held: Vec<Raw> = (0..LIMIT).map(|_| served_in_the_end(&node)).collect();
    // Further ones wait, however they are spread over cores.
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let addr = node.addr();
            let stream = TcpStream::connect(addr).expect("the system takes it");
            stream.set_read_timeout(Some(LOOK)).expect("a socket option");
            stream
        })
        .collect();
    for stream in &waiting {
        let result = (&*stream).read(&mut [0]);
        let waits = result.as_ref().is_err_and(|e| matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
        assert!(waits, "a connection above max.connections: {result:?}");
    }
    held.iter_mut().for_each(|raw| drop(raw.request(18, 0, false, &[]).expect("still served")));
    // Every one that leaves lets one in.
    let served = thread::scope(|scope| {
        let asking: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(|| {
                    let mut raw = Raw::connect(node.addr()).expect("the system takes it");
                    raw.request(18, 0, false, &[]).expect("served in its turn");
                })
            })
            .collect();
        drop(waiting);
        held.truncate(1);
        asking.into_iter().map(|one| one.join().expect("served")).count()
    });
    println!("{option}: {served} connections were served one after the other through {} places", LIMIT - 1);
}

#[test]
fn connections_that_come_too_fast() {
    // An average over two windows of a second: so many seconds' worth of connections may come at once.
    const RATE: f64 = 5.0;
    const BURST_S: f64 = 2.0;
    const CONNECTIONS: usize = 25;
    for option in ["max.connection.creation.rate", "listener.name.plaintext.max.connection.creation.rate"] {
        let mut all = vec![(option, "5"), ("quota.window.num", "3"), ("quota.window.size.seconds", "1")];
        if Peer::under_test() == Peer::Odradek {
            all.push(("odradek.cores", "3"));
        }
        let node = Node::start_with(&all);
        let began = Instant::now();
        let mut served_at: Vec<f64> = thread::scope(|scope| {
            let ask = || {
                let mut raw = Raw::connect(node.addr()).expect("the system takes it");
                raw.request(18, 0, false, &[]).expect("served in its turn");
                began.elapsed().as_secs_f64()
            };
            let asking: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(ask)).collect();
            asking.into_iter().map(|one| one.join().expect("served")).collect()
        });
        served_at.sort_by(f64::total_cmp);
        // Apache Kafka waits before each connection for a window at most, and then lets it in.
        let slack = if Peer::under_test() == Peer::Kafka { RATE * 2.0 } else { 1.0 };
        for (before, at) in served_at.iter().enumerate() {
            let allowed = (BURST_S + at) * RATE + slack;
            assert!((before as f64) < allowed, "{option}: {} connections after {at:.2} s", before + 1);
        }
        println!("{option}: {CONNECTIONS} connections within {:.1} s", served_at.last().expect("some"));
    }
}

#[test]
fn connections_that_are_idle() {
    let node = Node::start_with(&[("connections.max.idle.ms", "3000")]);
    let (mut silent, mut once) = (node.raw(), node.raw());
    once.request(18, 0, false, &[]).expect("an answer");
    assert!(silent.is_closed_by_peer(), "a connection that never sent anything");
    assert!(once.is_closed_by_peer(), "a connection that was used once");
    // One that is used stays.
    let mut used = node.raw();
    for _ in 0..50 {
        used.request(18, 0, false, &[]).expect("an answer");
        thread::sleep(Duration::from_millis(100));
    }
    used.request(18, 0, false, &[]).expect("an answer");
}
