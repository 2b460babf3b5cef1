//! Four patterns of a broker's core, each on the project's reactor, on a plain baseline and, with `--features glommio`, on
//! glommio: small requests on many connections, a sink of large frames, a message to another core and back, and direct appends.
//!
//! Runs are interleaved, medians are reported, and every figure is given as a ratio to the reactor's, because absolute figures
//! of a small shared machine mean little. The load comes from threads of this process on the second CPU.
//!
//! `cargo run --release -p odradek-benches --features glommio --bin runtime_patterns -- --rounds 5 --seconds 2 --dir /some/dir`
//! and `--only echo,sink` for some of them.

mod baseline;
#[cfg(feature = "glommio")]
mod glommio_side;
mod load;
mod own;
mod report;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use report::{Outcome, Table};

/// CPU of the server's core.
pub const SERVER_CPU: usize = 0;
/// CPU of the load, and of the second core where there are two.
pub const LOAD_CPU: usize = 1;
/// Bytes of a small request and of its answer.
pub const REQUEST_BYTES: usize = 100;
/// Connections of the small-request pattern.
pub const CONNECTIONS: usize = 64;
/// Bytes of a large frame.
pub const FRAME_BYTES: usize = 1 << 20;
/// Connections that send large frames.
pub const SINK_CONNECTIONS: usize = 4;
/// Bytes of one append.
pub const APPEND_BYTES: usize = 128 << 10;
/// Appends in flight.
pub const APPEND_DEPTH: usize = 8;
/// Bytes of the file that is appended to.
pub const APPEND_FILE_BYTES: u64 = 512 << 20;
/// Round trips between two cores in one run.
pub const ROUND_TRIPS: usize = 3000;
/// Pause before each, so that both cores are asleep.
pub const ROUND_TRIP_PAUSE: Duration = Duration::from_micros(200);

/// A server that runs until it is dropped.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// Ends it and waits for that.
    pub stop: Option<Box<dyn FnOnce()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop();
        }
    }
}

/// One way of doing the four patterns.
pub struct Contender {
    /// Its row in the tables.
    pub name: &'static str,
    /// Answers every request with its own bytes.
    pub echo: Option<fn() -> Server>,
    /// Takes frames and drops them.
    pub sink: Option<fn() -> Server>,
    /// Latencies of round trips in nanoseconds.
    pub round_trips: Option<fn() -> Vec<u64>>,
    /// Writes the whole file once.
    pub append: Option<fn(&Path)>,
}

struct Arguments {
    rounds: usize,
    seconds: f64,
    dir: PathBuf,
    /// Of the four patterns (echo, sink, trips, append) those whose name is contained; all when empty.
    only: String,
}

impl Arguments {
    fn wants(&self, pattern: &str) -> bool {
        self.only.is_empty() || self.only.contains(pattern)
    }
}

fn arguments() -> Arguments {
    let mut parsed = Arguments { rounds: 5, seconds: 2.0, dir: std::env::temp_dir(), only: String::new() };
    let mut words = std::env::args().skip(1);
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        match name.as_str() {
            "--rounds" => parsed.rounds = value.parse().expect("a number of rounds"),
            "--seconds" => parsed.seconds = value.parse().expect("a number of seconds"),
            "--dir" => parsed.dir = value.into(),
            "--only" => parsed.only = value,
            _ => panic!("unknown argument {name}"),
        }
    }
    parsed
}

fn main() {
    let arguments = arguments();
    let duration = Duration::from_secs_f64(arguments.seconds);
    let mut contenders = own::contenders();
    contenders.extend(baseline::contenders());
    #[cfg(feature = "glommio")]
    contenders.extend(glommio_side::contenders());

    let mut echo = Table::new("100 B requests on 64 connections", "requests/s", "CPU us/request");
    let mut sink = Table::new("sink of 1 MiB frames", "MB/s", "CPU s/GB");
    let mut trips = Table::new("round trip to another core, both asleep", "p50 us", "p99 us");
    let mut append = Table::new("direct appends of 128 KiB, preallocated, 8 in flight", "MB/s", "CPU s/GB");
    for round in 0..arguments.rounds {
        // Nobody is always the first.
        for turn in 0..contenders.len() {
            let contender = &contenders[(round + turn) % contenders.len()];
            if let Some(start) = contender.echo.filter(|_| arguments.wants("echo")) {
                echo.add(contender.name, load::small_requests(&start(), duration));
            }
            if let Some(start) = contender.sink.filter(|_| arguments.wants("sink")) {
                sink.add(contender.name, load::large_frames(&start(), duration));
            }
            if let Some(run) = contender.round_trips.filter(|_| arguments.wants("trips")) {
                trips.add(contender.name, Outcome::of_latencies(run()));
            }
            if let Some(run) = contender.append.filter(|_| arguments.wants("append")) {
                let path = arguments.dir.join("runtime_patterns.data");
                append.add(contender.name, load::appends(&path, run));
                let _ = std::fs::remove_file(&path);
            }
        }
    }
    for table in [echo, sink, trips, append] {
        println!("{table}");
    }
}
