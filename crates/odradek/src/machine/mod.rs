//! Looks at the machine before a start and says where it falls short of what `tuning/` advises. Nothing is changed, and
//! nothing stops the broker: it runs with what there is.

mod mounts;

use std::fs;
use std::path::PathBuf;

use mounts::Mount;

/// Something that could be better.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    /// What was looked at.
    pub(crate) what: String,
    /// What is, and what it should be, and where to change it.
    pub(crate) advice: String,
    /// It will be felt.
    pub(crate) serious: bool,
}

/// What the machine says, as the texts of its files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// `/proc/self/limits`
    pub(crate) limits: String,
    /// `/proc/self/mountinfo`
    pub(crate) mounts: String,
    /// `/proc/swaps`
    pub(crate) swaps: String,
    /// `/proc/sys/kernel/osrelease`
    pub(crate) kernel: String,
    /// `/proc/sys/kernel/io_uring_disabled`
    pub(crate) io_uring_disabled: String,
    /// `/proc/sys/vm/swappiness`
    pub(crate) swappiness: String,
    /// `/proc/sys/vm/max_map_count`
    pub(crate) max_map_count: String,
    /// `/proc/sys/net/core/somaxconn`
    pub(crate) somaxconn: String,
    /// `/proc/sys/net/core/wmem_max`
    pub(crate) wmem_max: String,
    /// `/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor`
    pub(crate) governor: String,
    /// `/proc/irq/default_smp_affinity`
    pub(crate) irq_affinity: String,
}

/// What the configuration asks of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// All cores, the controller's included.
    pub(crate) cores: u16,
    /// CPUs the process may run on.
    pub(crate) cpus: usize,
    /// `odradek.ring.entries`.
    pub(crate) ring_entries: u32,
    /// Bytes of buffers that the cores want to register with their rings.
    pub(crate) registered_bytes: u64,
    /// `socket.listen.backlog.size`.
    pub(crate) backlog: u32,
    /// Log directories.
    pub(crate) log_dirs: Vec<PathBuf>,
}

impl Machine {
    /// Reads this machine's files; those that are not there are empty.
    pub(crate) fn read() -> Machine {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim_end().to_owned();
        Machine {
            limits: text("/proc/self/limits"),
            mounts: text("/proc/self/mountinfo"),
            swaps: text("/proc/swaps"),
            kernel: text("/proc/sys/kernel/osrelease"),
            io_uring_disabled: text("/proc/sys/kernel/io_uring_disabled"),
            swappiness: text("/proc/sys/vm/swappiness"),
            max_map_count: text("/proc/sys/vm/max_map_count"),
            somaxconn: text("/proc/sys/net/core/somaxconn"),
            wmem_max: text("/proc/sys/net/core/wmem_max"),
            governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            irq_affinity: text("/proc/irq/default_smp_affinity"),
        }
    }

    /// Everything that falls short.
    pub(crate) fn check(&self, demand: &Demand) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.extend(self.kernel());
        findings.extend(self.cores(demand));
        findings.extend(self.open_files());
        findings.extend(self.locked_memory(demand));
        findings.extend(self.memory_maps());
        findings.extend(self.swap());
        findings.extend(self.backlog(demand));
        findings.extend(self.socket_buffers());
        findings.extend(self.governor());
        findings.extend(demand.log_dirs.iter().filter_map(|dir| mounts::check(&Mount::of(&self.mounts, dir)?, dir)));
        findings
    }

    fn kernel(&self) -> Option<Finding> {
        if self.io_uring_disabled == "2" || self.io_uring_disabled == "1" {
            return serious(
                "io_uring",
                "kernel.io_uring_disabled is not 0: this process may get no ring; see tuning/sysctl.conf",
            );
        }
        let mut parts = self.kernel.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse::<u32>().ok());
        let version = (parts.next()?, parts.next()?);
        if version >= KERNEL_MIN {
            return None;
        }
        let (major, minor) = KERNEL_MIN;
        serious(
            "kernel",
            format!("release {} is older than {major}.{minor}, which has what the rings need", self.kernel),
        )
    }

    fn cores(&self, demand: &Demand) -> Option<Finding> {
        if usize::from(demand.cores) <= demand.cpus {
            return None;
        }
        serious(
            "cores",
            format!("{} cores share {} CPUs; set odradek.cores lower or switch pinning off", demand.cores, demand.cpus),
        )
    }

    fn open_files(&self) -> Option<Finding> {
        let limit = self.limit("Max open files")?;
        if limit >= OPEN_FILES_MIN {
            return None;
        }
        let advice = format!(
            "{limit} files may be open, and every segment and connection is one; {OPEN_FILES_MIN} is advised, see \
             tuning/limits.conf"
        );
        if limit < OPEN_FILES_SERIOUS { serious("open files", advice) } else { minor("open files", advice) }
    }

    fn locked_memory(&self, demand: &Demand) -> Option<Finding> {
        let limit = self.limit("Max locked memory")?;
        // A ring takes 64 bytes a submission entry and 32 a completion, of which there are twice as many.
        let rings = u64::from(demand.cores) * u64::from(demand.ring_entries) * (64 + 32 * 2);
        let wanted = rings + demand.registered_bytes;
        if limit >= wanted {
            return None;
        }
        minor(
            "locked memory",
            format!(
                "{limit} bytes may be locked, {wanted} would allow all buffers to be registered with the rings, which halves \
                 the CPU time of a write; see tuning/limits.conf"
            ),
        )
    }

    fn memory_maps(&self) -> Option<Finding> {
        let count: u64 = self.max_map_count.parse().ok()?;
        let advice = format!("vm.max_map_count is {count}, {MAX_MAP_COUNT_MIN} is advised; see tuning/sysctl.conf");
        if count >= MAX_MAP_COUNT_MIN { None } else { minor("memory maps", advice) }
    }

    fn swap(&self) -> Option<Finding> {
        let swappiness: u64 = self.swappiness.parse().ok()?;
        if self.swaps.lines().count() < 2 || swappiness <= SWAPPINESS_MAX {
            return None;
        }
        minor(
            "swap",
            format!(
                "there is swap space and vm.swappiness is {swappiness}; {SWAPPINESS_MAX} is advised, see tuning/sysctl.conf"
            ),
        )
    }

    fn backlog(&self, demand: &Demand) -> Option<Finding> {
        let most: u64 = self.somaxconn.parse().ok()?;
        if most >= u64::from(demand.backlog) {
            return None;
        }
        minor(
            "listen backlog",
            format!(
                "net.core.somaxconn {most} cuts socket.listen.backlog.size {} short; see tuning/sysctl.conf",
                demand.backlog
            ),
        )
    }

    fn socket_buffers(&self) -> Option<Finding> {
        let most: u64 = self.wmem_max.parse().ok()?;
        let advice = format!("net.core.wmem_max is {most}, {WMEM_MAX_MIN} is advised; see tuning/sysctl.conf");
        if most >= WMEM_MAX_MIN { None } else { minor("socket buffers", advice) }
    }

    fn governor(&self) -> Option<Finding> {
        if self.governor.is_empty() || self.governor == "performance" {
            return None;
        }
        minor(
            "CPU frequency",
            format!("the governor is {}, performance is advised; see tuning/README.md", self.governor),
        )
    }

    /// The soft limit of a line of `/proc/self/limits`.
    fn limit(&self, name: &str) -> Option<u64> {
        let line = self.limits.lines().find(|line| line.starts_with(name))?;
        match line[name.len()..].split_whitespace().next()? {
            "unlimited" => Some(u64::MAX),
            number => number.parse().ok(),
        }
    }

    /// Which CPUs interrupts go to by default, for the log.
    pub(crate) fn interrupts(&self) -> &str {
        &self.irq_affinity
    }
}

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

fn finding(what: &str, advice: impl Into<String>, serious: bool) -> Option<Finding> {
    Some(Finding { what: what.to_owned(), advice: advice.into(), serious })
}

fn serious(what: &str, advice: impl Into<String>) -> Option<Finding> {
    finding(what, advice, true)
}

fn minor(what: &str, advice: impl Into<String>) -> Option<Finding> {
    finding(what, advice, false)
}

#[cfg(test)]
mod tests;
