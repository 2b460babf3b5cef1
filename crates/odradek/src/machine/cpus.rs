//! CPUs: how many there are, and who else has a say in them.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Demand, Finding, Machine, minor, optional, serious};

/// Clocks that are read without a system call: the processor's own, and those of hypervisors.
const FAST_CLOCKS: [&str; 5] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen", "arch_sys_counter"];
/// Part of all CPU time, per mille, above which what a hypervisor keeps is told. Less is lost to any neighbour now and then.
const STOLEN_PER_MILLE_MAX: u64 = 5;
/// From so many CPUs on some can be kept for the broker alone.
const ISOLATION_CPUS_MIN: usize = 4;
/// Where the trees of cgroups are, version 2 and version 1.
const CGROUPS: &str = "/sys/fs/cgroup";

/// CPUs this process may run on.
pub(crate) fn usable() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Names of all processes.
pub(super) fn processes() -> Vec<String> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| {
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        Some(fs::read_to_string(entry.path().join("comm")).ok()?.trim_end().to_owned())
    };
    all.filter_map(name).collect()
}

/// Quotas of CPU time that the cgroup in `/proc/self/cgroup` has and those around it, as `cpu.max` of version 2 writes them.
pub(super) fn quotas(own: &str) -> Vec<String> {
    let read = |path: PathBuf| fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned());
    let mut found = Vec::new();
    for line in own.lines() {
        let Some((tree, of)) = tree(line) else { continue };
        for folder in Path::new(&of).ancestors() {
            let folder = tree.join(folder.strip_prefix("/").unwrap_or(folder));
            let of_v1 = || {
                let quota = read(folder.join("cpu.cfs_quota_us"))?;
                Some(format!("{quota} {}", read(folder.join("cpu.cfs_period_us"))?))
            };
            found.extend(read(folder.join("cpu.max")).or_else(of_v1));
        }
    }
    found
}

/// The tree that a line of `/proc/self/cgroup` is about, and the group in it; none for those that have nothing to do with CPU time.
fn tree(line: &str) -> Option<(PathBuf, String)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, group) = (fields.next()?, fields.next()?);
    let is_v2 = controllers.is_empty();
    if !is_v2 && !controllers.split(',').any(|name| name == "cpu") {
        return None;
    }
    let tree = if is_v2 { PathBuf::from(CGROUPS) } else { Path::new(CGROUPS).join(controllers) };
    Some((tree, group.to_owned()))
}

impl Demand {
    pub(super) fn too_many_cores(&self) -> Option<Finding> {
        if usize::from(self.cores) <= self.cpus {
            return None;
        }
        serious(format!("{} cores share {} CPUs; set odradek.cores lower or switch pinning off", self.cores, self.cpus))
    }
}

impl Machine {
    /// The tightest quota. A core that has used it up stands still until the period, by default 100 ms, is over.
    pub(super) fn cpu_quota(&self) -> Option<Finding> {
        let share = |text: &String| {
            let (quota, period) = text.split_once(' ')?;
            let (quota, period) = (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?);
            (quota > 0.0 && period > 0.0).then_some((quota / period, period / 1000.0))
        };
        let tightest = self.quotas.iter().filter_map(share).min_by(|a, b| a.0.total_cmp(&b.0));
        let (cpus, period_ms) = tightest?;
        serious(format!(
            "a cgroup allows {cpus} CPUs' time in every {period_ms} ms, and whoever has used it up stands still until they \
             are over, which p99 shows: give the broker whole CPUs (cpuset) instead of a quota (cpu.max, cpu.cfs_quota_us)"
        ))
    }

    /// What a hypervisor has kept of the CPUs' time since the machine started.
    pub(super) fn stolen_time(&self) -> Option<Finding> {
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
        let line = self.stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|field| field.parse().ok()).collect();
        let (busy, stolen) = (ticks.iter().sum::<u64>() - ticks.get(3)? - ticks.get(4)?, *ticks.get(7)?);
        let per_mille = stolen * 1000 / busy.max(1);
        if per_mille <= STOLEN_PER_MILLE_MAX {
            return None;
        }
        minor(format!(
            "the hypervisor kept {}.{} % of the time in which CPUs had something to do since the machine started, and the \
             broker stands still meanwhile: ask for CPUs of its own",
            per_mille / 10,
            per_mille % 10
        ))
    }

    pub(super) fn governor(&self) -> Option<Finding> {
        if self.governor.is_empty() || self.governor == "performance" {
            return None;
        }
        minor(format!(
            "the governor is {}, performance is advised: cpupower frequency-set -g performance",
            self.governor
        ))
    }

    pub(super) fn clock(&self) -> Option<Finding> {
        if self.clock.is_empty() || FAST_CLOCKS.contains(&self.clock.as_str()) {
            return None;
        }
        minor(format!(
            "the clock is {}, which takes a system call to read, several times a request; see why the kernel gave up the \
             processor's: dmesg | grep -i -e tsc -e clocksource",
            self.clock
        ))
    }

    pub(super) fn isolation(&self, demand: &Demand) -> Option<Finding> {
        if !self.isolated.is_empty() || demand.cpus < ISOLATION_CPUS_MIN {
            return None;
        }
        optional(
            "no CPU is kept from other programs; where the broker has the machine to itself, boot with \
             isolcpus=managed_irq,domain,LIST and run it on that LIST (taskset, or CPUAffinity of systemd)",
        )
    }

    pub(super) fn interrupts(&self, demand: &Demand) -> Option<Finding> {
        if demand.cpus < 2 || !self.processes.iter().any(|name| name == "irqbalance") {
            return None;
        }
        optional(
            "irqbalance moves interrupts between CPUs while cores stay where they are: stop it and place the interrupts of \
             the network card, or keep it from the broker's CPUs with IRQBALANCE_BANNED_CPULIST; see tuning/README.md",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_of_a_cgroup_is_found() {
        for (line, tree_of, group) in [
            ("0::/system.slice/odradek.service", "/sys/fs/cgroup", "/system.slice/odradek.service"),
            ("4:cpu,cpuacct:/docker/a:b", "/sys/fs/cgroup/cpu,cpuacct", "/docker/a:b"),
            ("1:cpu:/", "/sys/fs/cgroup/cpu", "/"),
        ] {
            assert_eq!(tree(line), Some((PathBuf::from(tree_of), group.to_owned())), "{line}");
        }
        for line in ["9:memory:/a", "3:cpuacct:/", "12:cpuset:/", "", "0"] {
            assert_eq!(tree(line), None, "{line}");
        }
    }
}
