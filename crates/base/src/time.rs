/// The present moment, read once by the reactor and handed down. Pure code never reads a clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Now {
    /// Monotonic nanoseconds since an arbitrary start; for deadlines and durations.
    pub mono_ns: u64,
    /// Milliseconds since the Unix epoch; for timestamps that leave the process.
    pub wall_ms: i64,
}

impl Now {
    /// The same moment `ms` later on both clocks.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Now {
        Now {
            mono_ns: self.mono_ns.saturating_add(ms.saturating_mul(1_000_000)),
            wall_ms: self.wall_ms.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)),
        }
    }

    /// Monotonic milliseconds, for coarse timers.
    pub fn mono_ms(self) -> u64 {
        self.mono_ns / 1_000_000
    }
}
