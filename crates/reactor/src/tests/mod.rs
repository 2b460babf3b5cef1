//! The same expectations for both backends, and what only one of them can show.

mod cores;
mod dropped;
mod files;
mod process;
mod real;
mod simulated;
mod sockets;
mod stress;
mod tasks;
mod turns;

use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::CoreId;

use crate::sim::Sim;
use crate::{OnPanic, Runtime, RuntimeConfig, block_on};

/// Virtual time a simulated case may take.
pub(super) const LIMIT: Duration = Duration::from_secs(3600);
/// Seeds each simulated case runs with.
pub(super) const SEEDS: u64 = 10;

/// A fresh directory on the real disk, removed at the end.
pub(super) struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("reactor-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A test that is not done by then hangs: the process ends and says which, instead of waiting for ever. Far above what the
/// slowest one takes on a busy machine.
const HANG: Duration = Duration::from_secs(300);

/// Ends the process when it is not dropped in time.
pub(super) struct Watchdog(#[expect(dead_code)] std::sync::mpsc::Sender<()>);

impl Watchdog {
    pub fn new() -> Watchdog {
        let (alive, watched) = std::sync::mpsc::channel::<()>();
        let test = std::thread::current().name().unwrap_or("?").to_owned();
        std::thread::spawn(move || {
            if watched.recv_timeout(HANG) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{test} hangs");
                std::process::abort();
            }
        });
        Watchdog(alive)
    }
}

/// Runs a one-core case on both backends; it is given a directory of its own.
pub(super) fn on_both<F: Future<Output = ()> + 'static>(case: impl Fn(PathBuf) -> F) {
    let _watchdog = Watchdog::new();
    let scratch = Scratch::new();
    block_on(case(scratch.0.clone()));
    for seed in 0..SEEDS {
        let mut sim = Sim::new(seed);
        let node = sim.add_client();
        sim.run(node, LIMIT, case(PathBuf::from("/")));
    }
}

/// Runs a case of several cores on both backends; `boot` is called once per run.
pub(super) fn on_both_cores<M, F>(cores: usize, boot: impl Fn() -> M + Clone + 'static)
where
    M: Fn(CoreId) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + 'static,
{
    let _watchdog = Watchdog::new();
    let mut config = RuntimeConfig::with_cores(cores);
    config.on_panic = OnPanic::Resume;
    Runtime::start(config, boot()).unwrap().join();
    for seed in 0..SEEDS {
        let mut sim = Sim::new(seed);
        let node = sim.add_node(cores, boot.clone());
        assert!(sim.run_until_ended(node, LIMIT), "seed {seed}: the node did not end");
    }
}

/// Bytes that differ by position and seed.
pub(super) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut prng = base::Prng::new(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&prng.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
