//! How many connections the process has, over all cores: `max.connections` and `max.connections.per.ip`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The count all cores share. An atomic number, not a lock: it is touched when a connection opens and closes only.
#[derive(Debug, Clone, Default)]
pub struct ConnectionCounts {
    total: Arc<AtomicUsize>,
}

impl ConnectionCounts {
    /// A count of zero.
    pub fn new() -> ConnectionCounts {
        ConnectionCounts::default()
    }

    /// Counts one more connection unless there are `max` already.
    pub fn try_add(&self, max: usize) -> bool {
        let raised =
            self.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| if n < max { Some(n + 1) } else { None });
        raised.is_ok()
    }

    /// Counts one connection less.
    pub fn remove(&self) {
        let before = self.total.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a connection closed that was never counted");
    }

    /// Connections open now, over all cores.
    pub fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }
}

/// Connections of each address on one core. Empty when nothing is limited by address, which is Kafka's default.
#[derive(Debug, Default)]
pub(crate) struct PerIp {
    open: HashMap<IpAddr, usize>,
}

impl PerIp {
    /// Counts one more connection of `ip` unless it has `max` already.
    pub(crate) fn try_add(&mut self, ip: IpAddr, max: usize) -> bool {
        let open = self.open.entry(ip).or_insert(0);
        if *open >= max {
            if *open == 0 {
                self.open.remove(&ip);
            }
            return false;
        }
        *open += 1;
        true
    }

    /// Counts one connection of `ip` less.
    pub(crate) fn remove(&mut self, ip: IpAddr) {
        if let Some(open) = self.open.get_mut(&ip) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(&ip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_and_a_closed_connection_makes_room() {
        let counts = ConnectionCounts::new();
        assert!(counts.try_add(2) && counts.clone().try_add(2) && !counts.try_add(2));
        counts.remove();
        assert_eq!(counts.total(), 1);
        let mut per_ip = PerIp::default();
        let ip = IpAddr::from([127, 0, 0, 1]);
        assert!(per_ip.try_add(ip, 1) && !per_ip.try_add(ip, 1));
        per_ip.remove(ip);
        assert!(per_ip.open.is_empty() && !per_ip.try_add(ip, 0) && per_ip.open.is_empty());
    }
}
