//! Looks at the machine before a start, and for `odradek check-machine`, and says where it falls short of what `tuning/`
//! advises. Nothing is changed, and nothing stops the broker: it runs with what there is. One check is one row of [`CHECKS`].

mod block;
mod cpus;
mod mounts;
mod system;

use std::fs;
use std::path::{Path, PathBuf};

use config::BrokerConfig;

pub(crate) use cpus::usable as usable_cpus;

use block::Disk;
use mounts::Mount;

/// How much something matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Weight {
    /// Worth trying where the broker has the machine to itself; not told at a start.
    Optional,
    /// It costs something.
    Minor,
    /// It will be felt.
    Serious,
}

/// Something that could be better.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    /// What is, and what it should be, and where to change it.
    pub(crate) advice: String,
    /// How much it matters.
    pub(crate) weight: Weight,
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Checked {
    /// What it was.
    pub(crate) what: &'static str,
    /// What falls short there.
    pub(crate) findings: Vec<Finding>,
}

type Check = fn(&Machine, &Demand) -> Vec<Finding>;

/// Everything that is looked at.
const CHECKS: [(&str, Check); 19] = [
    ("io_uring", |m, _| one(m.io_uring())),
    ("kernel", |m, _| one(m.kernel())),
    ("cores", |_, d| one(d.too_many_cores())),
    ("CPU quota", |m, _| one(m.cpu_quota())),
    ("stolen CPU time", |m, _| one(m.stolen_time())),
    ("CPU frequency", |m, _| one(m.governor())),
    ("clock", |m, _| one(m.clock())),
    ("CPU isolation", |m, d| one(m.isolation(d))),
    ("interrupts", |m, d| one(m.interrupts(d))),
    ("open files", |m, _| one(m.open_files())),
    ("huge pages", |m, _| one(m.huge_pages())),
    ("memory maps", |m, _| one(m.memory_maps())),
    ("swap", |m, _| one(m.swap())),
    ("listen backlog", |m, d| one(m.backlog(d))),
    ("socket buffers", |m, _| one(m.socket_buffers())),
    ("file system", |m, d| of_dirs(m, d, |mount, dir| one(mounts::check(mount, dir)))),
    ("discard", |m, d| of_dirs(m, d, |mount, dir| one(mounts::discard(mount, dir)))),
    ("I/O scheduler", |m, d| of_disks(m, d, Disk::scheduler)),
    ("disk requests", |m, d| of_disks(m, d, Disk::request_size)),
];

fn one(finding: Option<Finding>) -> Vec<Finding> {
    finding.into_iter().collect()
}

fn of_dirs(machine: &Machine, demand: &Demand, check: impl Fn(&Mount, &Path) -> Vec<Finding>) -> Vec<Finding> {
    let look = |dir: &PathBuf| Mount::of(&machine.mounts, dir).map(|mount| check(&mount, dir));
    demand.log_dirs.iter().filter_map(look).flatten().collect()
}

/// Asks every disk once, however many log directories lie on it.
fn of_disks(machine: &Machine, demand: &Demand, check: fn(&Disk) -> Option<Finding>) -> Vec<Finding> {
    let mut devices: Vec<String> = Vec::new();
    for mount in demand.log_dirs.iter().filter_map(|dir| Mount::of(&machine.mounts, dir)) {
        if !devices.contains(&mount.device) {
            devices.push(mount.device);
        }
    }
    let found = devices.iter().filter_map(|device| machine.disks.iter().find(|disk| disk.device == *device));
    found.filter_map(check).collect()
}

/// What the machine says, as the texts of its files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// `/proc/self/limits`
    limits: String,
    /// `/proc/self/mountinfo`
    mounts: String,
    /// `/proc/swaps`
    swaps: String,
    /// `/proc/sys/kernel/osrelease`
    kernel: String,
    /// `/proc/sys/kernel/io_uring_disabled`
    io_uring_disabled: String,
    /// `/proc/sys/vm/swappiness`
    swappiness: String,
    /// `/proc/sys/vm/max_map_count`
    max_map_count: String,
    /// `/proc/sys/net/core/somaxconn`
    somaxconn: String,
    /// `/proc/sys/net/core/wmem_max`
    wmem_max: String,
    /// `/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor`
    governor: String,
    /// `/proc/stat`
    stat: String,
    /// `/sys/devices/system/clocksource/clocksource0/current_clocksource`
    clock: String,
    /// `/sys/devices/system/cpu/isolated`
    isolated: String,
    /// `/sys/kernel/mm/transparent_hugepage/enabled`
    huge_pages: String,
    /// `cpu.max` of the cgroup of this process and of those around it: quota and period in microseconds.
    quotas: Vec<String>,
    /// Names of the processes that run, as in `/proc/PID/comm`; none unless they were asked for.
    processes: Vec<String>,
    /// The disks that file systems lie on.
    disks: Vec<Disk>,
}

/// What the configuration asks of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// All cores, the controller's included.
    cores: u16,
    /// CPUs the process may run on.
    cpus: usize,
    /// `socket.listen.backlog.size`.
    backlog: u32,
    /// Log directories.
    log_dirs: Vec<PathBuf>,
}

impl Demand {
    /// What a node of this configuration asks for, on this machine's CPUs.
    pub(crate) fn of(config: &BrokerConfig) -> Demand {
        let cpus = cpus::usable();
        let (data_cores, dedicated) = config.own.layout(cpus);
        let cores = data_cores + u16::from(dedicated);
        Demand { cores, cpus, backlog: config.net.backlog, log_dirs: config.log_dirs.clone() }
    }
}

impl Machine {
    /// Reads this machine's files; those that are not there are empty.
    pub(crate) fn read() -> Machine {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim_end().to_owned();
        let mounts = text("/proc/self/mountinfo");
        Machine {
            disks: mounts::devices(&mounts).iter().filter_map(|device| Disk::read(device)).collect(),
            mounts,
            limits: text("/proc/self/limits"),
            swaps: text("/proc/swaps"),
            kernel: text("/proc/sys/kernel/osrelease"),
            io_uring_disabled: text("/proc/sys/kernel/io_uring_disabled"),
            swappiness: text("/proc/sys/vm/swappiness"),
            max_map_count: text("/proc/sys/vm/max_map_count"),
            somaxconn: text("/proc/sys/net/core/somaxconn"),
            wmem_max: text("/proc/sys/net/core/wmem_max"),
            governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            stat: text("/proc/stat"),
            clock: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            isolated: text("/sys/devices/system/cpu/isolated"),
            huge_pages: text("/sys/kernel/mm/transparent_hugepage/enabled"),
            quotas: cpus::quotas(&text("/proc/self/cgroup")),
            processes: Vec::new(),
        }
    }

    /// With the names of all processes, which takes a file each and tells nothing that is told at a start.
    pub(crate) fn with_processes(self) -> Machine {
        Machine { processes: cpus::processes(), ..self }
    }

    /// Looks at everything, in the order of [`CHECKS`].
    pub(crate) fn check(&self, demand: &Demand) -> Vec<Checked> {
        CHECKS.iter().map(|(what, check)| Checked { what, findings: check(self, demand) }).collect()
    }

    /// The soft limit of a line of `/proc/self/limits`.
    fn limit(&self, name: &str) -> Option<u64> {
        let line = self.limits.lines().find(|line| line.starts_with(name))?;
        match line[name.len()..].split_whitespace().next()? {
            "unlimited" => Some(u64::MAX),
            number => number.parse().ok(),
        }
    }
}

fn finding(weight: Weight, advice: impl Into<String>) -> Option<Finding> {
    Some(Finding { advice: advice.into(), weight })
}

fn serious(advice: impl Into<String>) -> Option<Finding> {
    finding(Weight::Serious, advice)
}

fn minor(advice: impl Into<String>) -> Option<Finding> {
    finding(Weight::Minor, advice)
}

fn optional(advice: impl Into<String>) -> Option<Finding> {
    finding(Weight::Optional, advice)
}

#[cfg(test)]
mod tests;
