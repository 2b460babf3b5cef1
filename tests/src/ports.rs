//! Ports for brokers that tests start.
//!
//! A port that the kernel picks for a socket, and that is let go again, can be picked again at once: for the next question, or
//! for any connection that somebody opens before the broker listens. So ports are counted through below those that the kernel
//! picks from, each process from another place.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below it lie ports of services (9092 among them).
const FIRST: u32 = 10_240;

/// Where Linux begins to pick ports itself, if it does not say.
const PICKED_FROM: u32 = 32_768;

/// Processes that start one after the other begin so far apart, and two that run at once do not meet soon.
const APART: u32 = 191;

/// How many ports this process has looked at.
static LOOKED_AT: AtomicU32 = AtomicU32::new(0);

/// A port that nobody listens on now, and that no other call in this process returns.
///
/// # Panics
/// When no port is left.
pub fn free_port() -> u16 {
    let end = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .filter(|first: &u32| *first > FIRST + 1_000)
        .unwrap_or(PICKED_FROM);
    let count = end - FIRST;
    let first = std::process::id().wrapping_mul(APART) % count;
    loop {
        let step = LOOKED_AT.fetch_add(1, Ordering::Relaxed);
        assert!(step < count, "all {count} ports from {FIRST} were looked at");
        let port = FIRST + (first + step) % count;
        let port = u16::try_from(port).expect("the range lies below 65,536");
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::TcpListener;

    use super::free_port;

    #[test]
    fn a_port_is_given_once_and_never_while_somebody_listens() {
        let taken = free_port();
        let next = TcpListener::bind(("127.0.0.1", taken + 1));
        let threads: Vec<_> =
            (0..4).map(|_| std::thread::spawn(|| (0..50).map(|_| free_port()).collect::<Vec<_>>())).collect();
        let all: Vec<u16> = threads.into_iter().flat_map(|thread| thread.join().expect("ports")).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "{all:?}");
        assert!(!all.contains(&taken));
        assert!(next.is_err() || !all.contains(&(taken + 1)));
    }
}
