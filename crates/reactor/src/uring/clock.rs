//! The clocks of the real backend.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use base::Now;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Monotonic nanoseconds since the first call in this process, counted from 1 so that 0 is always in the past.
pub(crate) fn mono_ns() -> u64 {
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_add(1)
}

pub(crate) fn now() -> Now {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { mono_ns: mono_ns(), wall_ms: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX) }
}
