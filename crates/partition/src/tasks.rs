use std::rc::Rc;
use std::time::Duration;

use config::BrokerConfig;
use reactor::Class;

use crate::core::PartitionCore;
use crate::partition::{Partition, State};

/// A pause this short at least lies between two rounds, whatever the options say.
const ROUND_PAUSE_MIN: Duration = Duration::from_millis(10);

impl PartitionCore {
    /// Starts what runs by the clock: retention every `log.retention.check.interval.ms`, the expiry of producers every
    /// `producer.id.expiration.check.interval.ms`. Changed intervals count from the next round on. The tasks end with
    /// [`PartitionCore::close`] or when the core is dropped.
    pub fn start_tasks(&self) {
        self.0.tasks.borrow_mut().push(self.0.shared.fetches.start());
        let initial = Duration::from_millis(self.broker_config().log.initial_task_delay_ms);
        self.every(
            "retention",
            initial,
            |c| c.log.retention_check_interval_ms,
            |core| async move {
                for partition in core.partitions() {
                    partition.apply_retention().await;
                    reactor::yield_now().await;
                }
            },
        );
        // `log.initial.task.delay.ms` is for what reads and writes files; this is not.
        let check_interval = Duration::from_millis(self.broker_config().log.producer_id_expiration_check_interval_ms);
        self.every(
            "producer expiry",
            check_interval,
            |c| c.log.producer_id_expiration_check_interval_ms,
            |core| async move {
                let expiration_ms = core.broker_config().log.producer_id_expiration_ms;
                for partition in core.partitions() {
                    partition.expire_producers(expiration_ms);
                    reactor::yield_now().await;
                }
            },
        );
    }

    /// Runs `round` again and again, after `initial` and then with the pause that `interval_ms` finds in the
    /// configuration.
    fn every<F>(
        &self,
        name: &'static str,
        initial: Duration,
        interval_ms: fn(&BrokerConfig) -> u64,
        round: impl Fn(PartitionCore) -> F + 'static,
    ) where
        F: Future<Output = ()> + 'static,
    {
        let weak = Rc::downgrade(&self.0);
        let task = reactor::spawn(Class::Background, async move {
            reactor::sleep(initial).await;
            while let Some(core) = weak.upgrade().map(PartitionCore) {
                let pause = Duration::from_millis(interval_ms(&core.broker_config())).max(ROUND_PAUSE_MIN);
                round(core).await;
                tracing::trace!(task = name, "a round is done");
                reactor::sleep(pause).await;
            }
        });
        self.0.tasks.borrow_mut().push(task);
    }
}

impl Partition {
    /// Removes what retention no longer keeps, up to the high watermark.
    pub(crate) async fn apply_retention(&self) {
        if self.0.state.get() != State::Online {
            return;
        }
        let limit = self.brain().high_watermark();
        match self.0.log.apply_retention(limit).await {
            Ok(0) => {}
            Ok(segments) => {
                self.follow_log_start();
                let log_start = self.brain().log_start();
                tracing::debug!(partition = %self.id().dir_name(), segments, log_start, "retention removed segments");
            }
            Err(error) => {
                let error = self.failed(error);
                tracing::warn!(partition = %self.id().dir_name(), %error, "retention failed");
            }
        }
    }

    /// Forgets producers idle for `expiration_ms`.
    pub(crate) fn expire_producers(&self, expiration_ms: u64) {
        let expiration_ms = i64::try_from(expiration_ms).unwrap_or(i64::MAX);
        let expired = self.0.brain.borrow_mut().expire_producers(reactor::now(), expiration_ms);
        if expired > 0 {
            tracing::debug!(partition = %self.id().dir_name(), expired, "idle producers were forgotten");
        }
    }
}
