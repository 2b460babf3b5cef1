//! Kernel, limits and memory.

use super::{Demand, Finding, Machine, minor, serious};

/// Kernel with DEFER_TASKRUN, SINGLE_ISSUER and MSG_RING.
const KERNEL_MIN: (u32, u32) = (6, 1);
/// What Kafka's operators set.
const OPEN_FILES_MIN: u64 = 100_000;
/// Below this a hundred partitions and their clients may not fit.
const OPEN_FILES_SERIOUS: u64 = 4096;
/// What Kafka's operators set; here few maps are needed.
const MAX_MAP_COUNT_MIN: u64 = 65_530;
/// Highest value at which the kernel swaps only to avoid killing.
const SWAPPINESS_MAX: u64 = 1;
/// Bytes of a socket's send buffer for a fast link with a round trip of a millisecond.
const WMEM_MAX_MIN: u64 = 2_097_152;

impl Machine {
    pub(super) fn io_uring(&self) -> Option<Finding> {
        if self.io_uring_disabled == "2" || self.io_uring_disabled == "1" {
            return serious("kernel.io_uring_disabled is not 0: this process may get no ring; see tuning/sysctl.conf");
        }
        None
    }

    pub(super) fn kernel(&self) -> Option<Finding> {
        let mut parts = self.kernel.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse::<u32>().ok());
        let version = (parts.next()?, parts.next()?);
        if version >= KERNEL_MIN {
            return None;
        }
        let (major, minor) = KERNEL_MIN;
        serious(format!("release {} is older than {major}.{minor}, which has what the rings need", self.kernel))
    }

    pub(super) fn open_files(&self) -> Option<Finding> {
        let limit = self.limit("Max open files")?;
        if limit >= OPEN_FILES_MIN {
            return None;
        }
        let advice = format!(
            "{limit} files may be open, and every segment and connection is one; {OPEN_FILES_MIN} is advised, see \
             tuning/limits.conf"
        );
        if limit < OPEN_FILES_SERIOUS { serious(advice) } else { minor(advice) }
    }

    pub(super) fn huge_pages(&self) -> Option<Finding> {
        if !self.huge_pages.contains("[never]") {
            return None;
        }
        minor(
            "transparent huge pages are off, and a direct write from small pages takes several times the CPU time: \
             echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )
    }

    pub(super) fn memory_maps(&self) -> Option<Finding> {
        let count: u64 = self.max_map_count.parse().ok()?;
        let advice = format!("vm.max_map_count is {count}, {MAX_MAP_COUNT_MIN} is advised; see tuning/sysctl.conf");
        if count >= MAX_MAP_COUNT_MIN { None } else { minor(advice) }
    }

    pub(super) fn swap(&self) -> Option<Finding> {
        let swappiness: u64 = self.swappiness.parse().ok()?;
        if self.swaps.lines().count() < 2 || swappiness <= SWAPPINESS_MAX {
            return None;
        }
        minor(format!(
            "there is swap space and vm.swappiness is {swappiness}; {SWAPPINESS_MAX} is advised, see tuning/sysctl.conf"
        ))
    }

    pub(super) fn backlog(&self, demand: &Demand) -> Option<Finding> {
        let most: u64 = self.somaxconn.parse().ok()?;
        if most >= u64::from(demand.backlog) {
            return None;
        }
        minor(format!(
            "net.core.somaxconn {most} cuts socket.listen.backlog.size {} short; see tuning/sysctl.conf",
            demand.backlog
        ))
    }

    pub(super) fn socket_buffers(&self) -> Option<Finding> {
        let most: u64 = self.wmem_max.parse().ok()?;
        let advice = format!("net.core.wmem_max is {most}, {WMEM_MAX_MIN} is advised; see tuning/sysctl.conf");
        if most >= WMEM_MAX_MIN { None } else { minor(advice) }
    }
}
