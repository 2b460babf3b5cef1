//! What is measured of the process as a whole, when somebody asks.

use metrics::{Desc, Registry, Snapshot, Unit};

static RESIDENT: Desc = Desc::new(
    "process_resident_memory_bytes",
    "Memory of the process that is in use, mapped files included.",
    Unit::Bytes,
);
static ALLOCATED: Desc = Desc::new(
    "odradek_allocated_bytes",
    "Memory that allocations hold: requests, connections, groups, metadata. Not the tails of logs nor buffers for I/O, which are \
     mapped.",
    Unit::Bytes,
);

/// Both as of now. What the system does not tell is left out.
pub async fn snapshot() -> Snapshot {
    let memory = reactor::process_memory().await;
    let registry = Registry::new(&[]);
    for (desc, bytes) in [(&RESIDENT, memory.resident), (&ALLOCATED, memory.allocated)] {
        if let Some(bytes) = bytes {
            registry.gauge(desc, &[]).set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }
    registry.snapshot()
}
