//! What a process used and what a disk did between two moments, from `/proc`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::args::Run;
use crate::report::Usages;

/// Ticks of `/proc/PID/stat` in a second: USER_HZ, which Linux fixes at 100 on every architecture it shows to users.
const TICKS_PER_S: f64 = 100.0;
/// Bytes of a sector in `/proc/diskstats`, whatever the disk's own are.
const SECTOR_BYTES: u64 = 512;

/// A process at one moment.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(crate) struct Usage {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    /// Bytes it caused to be written to disks; none where the system does not tell.
    write_bytes: Option<u64>,
    read_bytes: Option<u64>,
    switches_voluntary: u64,
    switches_forced: u64,
    minor_faults: u64,
    rss_bytes: u64,
    rss_peak_bytes: u64,
    threads: u64,
    open_files: Option<u64>,
}

impl Usage {
    /// The process `pid`; `None` when there is none.
    pub(crate) fn of(pid: &str) -> Option<Usage> {
        let folder = Path::new("/proc").join(pid);
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        let (_, behind_name) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = behind_name.split_whitespace().collect();
        let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
        let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
        let io = fs::read_to_string(folder.join("io")).unwrap_or_default();
        let mut usage = Usage {
            user_s: ticks(11) as f64 / TICKS_PER_S,
            system_s: ticks(12) as f64 / TICKS_PER_S,
            write_bytes: number_behind(&io, "write_bytes:"),
            read_bytes: number_behind(&io, "read_bytes:"),
            minor_faults: ticks(7),
            rss_bytes: number_behind(&status, "VmRSS:").unwrap_or(0) * 1024,
            rss_peak_bytes: number_behind(&status, "VmHWM:").unwrap_or(0) * 1024,
            threads: number_behind(&status, "Threads:").unwrap_or(0),
            open_files: fs::read_dir(folder.join("fd")).ok().map(|files| files.count() as u64),
            ..Usage::default()
        };
        for task in fs::read_dir(folder.join("task")).ok()?.flatten() {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            usage.switches_voluntary += number_behind(&status, "voluntary_ctxt_switches:").unwrap_or(0);
            usage.switches_forced += number_behind(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
        }
        Some(usage)
    }

    /// This process.
    pub(crate) fn own() -> Usage {
        Usage::of("self").unwrap_or_default()
    }

    /// What was used since `before`, as JSON.
    pub(crate) fn since(&self, before: &Usage) -> Value {
        let less = |now: Option<u64>, then: Option<u64>| now.zip(then).map(|(now, then)| now.saturating_sub(then));
        json!({
            "user_s": hundredths(self.user_s - before.user_s),
            "system_s": hundredths(self.system_s - before.system_s),
            "write_bytes": less(self.write_bytes, before.write_bytes),
            "read_bytes": less(self.read_bytes, before.read_bytes),
            "context_switches_voluntary": self.switches_voluntary.saturating_sub(before.switches_voluntary),
            "context_switches_forced": self.switches_forced.saturating_sub(before.switches_forced),
            "minor_faults": self.minor_faults.saturating_sub(before.minor_faults),
            "rss_bytes": self.rss_bytes,
            "rss_peak_bytes": self.rss_peak_bytes,
            "threads": self.threads,
            "open_files": self.open_files,
        })
    }
}

/// A disk at one moment.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(crate) struct Disk {
    writes: u64,
    written_bytes: u64,
    /// Orders to make everything written before durable; an fsync causes one, or shares it with another.
    flushes: u64,
}

impl Disk {
    /// The disk below `folder`; `None` where the system does not tell, as for a file system of several disks.
    pub(crate) fn below(folder: &Path) -> Option<Disk> {
        let device = fs::metadata(folder).ok()?.dev();
        Disk::find(&fs::read_to_string("/proc/diskstats").ok()?, device)
    }

    fn find(diskstats: &str, device: u64) -> Option<Disk> {
        // How Linux packs the two numbers of a device into one.
        let major = (device >> 8) & 0xfff | (device >> 32) & !0xfff;
        let minor = device & 0xff | (device >> 12) & !0xff;
        let mut whole = None;
        for line in diskstats.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let number = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok());
            let disk =
                Disk { writes: number(7)?, written_bytes: number(9)? * SECTOR_BYTES, flushes: number(18).unwrap_or(0) };
            // Flushes are counted for whole disks alone; a partition's line follows that of its disk.
            let is_partition = number(0) == Some(major)
                && whole.as_ref().is_some_and(|(name, _): &(String, Disk)| fields[2].starts_with(name.as_str()));
            if !is_partition {
                whole = Some((fields[2].to_owned(), disk));
            }
            if number(0) == Some(major) && number(1) == Some(minor) {
                return whole.map(|(_, of_disk)| Disk { flushes: of_disk.flushes, ..disk });
            }
        }
        None
    }

    /// What was done since `before`, as JSON.
    pub(crate) fn since(&self, before: &Disk) -> Value {
        json!({
            "writes": self.writes.saturating_sub(before.writes),
            "written_bytes": self.written_bytes.saturating_sub(before.written_bytes),
            "flushes": self.flushes.saturating_sub(before.flushes),
        })
    }
}

/// What processes and disk had used at one moment.
pub(crate) struct Snapshot {
    own: Usage,
    watched: Option<Usage>,
    disk: Option<Disk>,
}

impl Snapshot {
    /// Now, of whatever `run` says is to be watched.
    pub(crate) fn take(run: &Run) -> Snapshot {
        Snapshot {
            own: Usage::own(),
            watched: run.watch_pid.and_then(|pid| Usage::of(&pid.to_string())),
            disk: run.watch_disk.as_deref().and_then(Disk::below),
        }
    }

    /// Resident memory of the watched process.
    pub(crate) fn rss_bytes(&self) -> Option<u64> {
        self.watched.map(|usage| usage.rss_bytes)
    }

    /// What was used since `before`.
    pub(crate) fn since(&self, before: &Snapshot) -> Usages {
        Usages {
            own: Some(self.own.since(&before.own)),
            watched: before.watched.as_ref().zip(self.watched.as_ref()).map(|(then, now)| now.since(then)),
            disk: before.disk.as_ref().zip(self.disk.as_ref()).map(|(then, now)| now.since(then)),
        }
    }
}

fn hundredths(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}

fn number_behind(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_and_an_impossible_one_is_not() {
        let own = Usage::own();
        assert!(own.rss_bytes > 0 && own.threads > 0 && own.rss_peak_bytes >= own.rss_bytes);
        assert_eq!(Usage::of("0"), None);
        assert_eq!(own.since(&own)["context_switches_forced"], 0);
    }

    #[test]
    fn a_partition_has_the_flushes_of_its_disk() {
        let text = "\
 253       0 vda 10 0 80 1 20 0 160 1 0 1 1 0 0 0 0 7 3
 253       1 vda1 1 0 8 1 2 0 16 1 0 1 1 0 0 0 0 0 0
   8       0 sda 10 0 80 1 30 0 800 1 0 1 1 0 0 0 0 9 3
";
        let device = |major: u64, minor: u64| (major & 0xfff) << 8 | minor & 0xff;
        assert_eq!(Disk::find(text, device(253, 1)), Some(Disk { writes: 2, written_bytes: 16 * 512, flushes: 7 }));
        assert_eq!(Disk::find(text, device(8, 0)), Some(Disk { writes: 30, written_bytes: 800 * 512, flushes: 9 }));
        assert_eq!(Disk::find(text, device(9, 9)), None);
    }
}
