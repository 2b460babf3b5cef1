//! What the controller does by itself, by the clock.

use base::Now;
use config::LayeredConfig;

use crate::controller::{Controller, Decision};

/// Most leaderships that one step moves; a longer list is gone through in several batches.
const ELECTIONS_PER_STEP_MAX: usize = 1_000;

/// How often leaders are sought for partitions without any, where a topic allows unclean elections, in ms
/// (`unclean.leader.election.interval.ms`).
const UNCLEAN_INTERVAL_MS: u64 = 300_000;

/// When which task is due, monotonic ns.
#[derive(Clone, Debug)]
pub(crate) struct Periodic {
    /// Milliseconds between two looks at the leaders' balance; `None` when it is switched off.
    balance_interval_ms: Option<u64>,
    balance_at_ns: u64,
    unclean_at_ns: u64,
}

impl Periodic {
    pub(crate) fn new(config: &LayeredConfig, now: Now) -> Periodic {
        let values = config.values();
        let seconds = values.limit("leader.imbalance.check.interval.seconds").unwrap_or(0);
        let balance_interval_ms = values.boolean("auto.leader.rebalance.enable").then(|| (seconds * 1_000).max(1_000));
        Periodic {
            balance_interval_ms,
            balance_at_ns: now.plus_ms(balance_interval_ms.unwrap_or(0)).mono_ns,
            unclean_at_ns: now.plus_ms(UNCLEAN_INTERVAL_MS).mono_ns,
        }
    }
}

impl Controller {
    /// When [`Controller::tick`] should be called next, monotonic ns.
    pub fn next_tick_ns(&self) -> u64 {
        let balance = self.periodic.balance_interval_ms.map(|_| self.periodic.balance_at_ns);
        let expiry = self.heartbeats.next_expiry_ns();
        [balance, expiry].into_iter().flatten().fold(self.periodic.unclean_at_ns, u64::min)
    }

    /// Does the one task that is due, if any: fences a silent broker, moves leaderships to preferred replicas, or elects
    /// leaders uncleanly where topics allow it. The caller calls again until there is nothing to do.
    pub fn tick(&mut self, now: Now) -> Option<Decision<()>> {
        if let Some((id, epoch)) = self.heartbeats.take_expired(now) {
            let broker =
                self.image().cluster.broker(id).filter(|broker| broker.epoch == epoch && !broker.fenced).cloned();
            let mut records = Vec::new();
            if let Some(broker) = broker {
                self.fence(&broker, &mut records);
            }
            return Some(Decision::new(records, ()));
        }
        if let Some(interval) = self.periodic.balance_interval_ms
            && now.mono_ns >= self.periodic.balance_at_ns
        {
            let decision = self.balance_leaders(ELECTIONS_PER_STEP_MAX);
            if !decision.response {
                self.periodic.balance_at_ns = now.plus_ms(interval).mono_ns;
            }
            return Some(decision.map(drop));
        }
        if now.mono_ns >= self.periodic.unclean_at_ns {
            let decision = self.elect_unclean(ELECTIONS_PER_STEP_MAX);
            if !decision.response {
                self.periodic.unclean_at_ns = now.plus_ms(UNCLEAN_INTERVAL_MS).mono_ns;
            }
            return Some(decision.map(drop));
        }
        None
    }
}
