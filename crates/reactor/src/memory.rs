//! Memory of the process: how much it takes, and giving back what it does not need. Not on a request path.

use crate::unblock::unblock;
use crate::uring::sys;

/// Gives memory that the process has freed back to the system, after something that took much of it for once. By itself the
/// allocator does that with the end of a heap alone. Takes milliseconds, in which allocations of other cores may wait.
pub async fn return_freed_memory() {
    unblock(sys::trim_heaps).await;
}

/// Memory of the process, in bytes. Without a value where the system or the allocator does not tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProcessMemory {
    /// What of it is in memory, mapped files included.
    pub resident: Option<u64>,
    /// What allocations hold, without memory that was mapped: arenas of buffers, the tails of logs, the journal.
    pub allocated: Option<u64>,
}

/// How much memory the process takes. The allocator walks its free lists for that, in which allocations of other cores may wait.
pub async fn process_memory() -> ProcessMemory {
    unblock(|| ProcessMemory { resident: resident_bytes(), allocated: sys::allocated_bytes() }).await
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
