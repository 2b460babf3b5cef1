//! The disk below a file system.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Finding, minor, optional};

/// Bytes of the largest writes of the broker, in KiB.
const WRITE_KIB: u64 = 1024;

/// What the kernel says of a disk.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Disk {
    /// `major:minor` of what the file system lies on, which may be a partition of it.
    pub(super) device: String,
    /// Name of the disk, such as `nvme0n1`.
    pub(super) name: String,
    /// `queue/rotational`
    pub(super) rotational: String,
    /// `queue/scheduler`, the one in use in brackets.
    pub(super) scheduler: String,
    /// `queue/max_sectors_kb`
    pub(super) request_kib: String,
    /// `queue/max_hw_sectors_kb`
    pub(super) request_kib_max: String,
}

impl Disk {
    /// The disk of a device; none where it is not one of the kernel's block devices.
    pub(super) fn read(device: &str) -> Option<Disk> {
        let folder = fs::canonicalize(Path::new("/sys/dev/block").join(device)).ok()?;
        // A partition lies in the folder of its disk.
        let disk =
            [folder.clone(), folder.parent()?.to_owned()].into_iter().find(|folder| folder.join("queue").is_dir())?;
        let text = |path: PathBuf| fs::read_to_string(path).unwrap_or_default().trim_end().to_owned();
        let of_queue = |name: &str| text(disk.join("queue").join(name));
        Some(Disk {
            device: device.to_owned(),
            name: disk.file_name()?.to_string_lossy().into_owned(),
            rotational: of_queue("rotational"),
            scheduler: of_queue("scheduler"),
            request_kib: of_queue("max_sectors_kb"),
            request_kib_max: of_queue("max_hw_sectors_kb"),
        })
    }

    /// A scheduler sorts what the broker has ordered already; only a disk with a head gains by it.
    pub(super) fn scheduler(&self) -> Option<Finding> {
        let used = self.scheduler.split(['[', ']']).nth(1)?;
        // A virtio disk says that it rotates, whatever is below.
        let has_head = self.rotational == "1" && !self.name.starts_with("vd");
        if used == "none" || has_head || !self.scheduler.contains("none") {
            return None;
        }
        optional(format!(
            "{} has the scheduler {used}, which only adds a queue: echo none > /sys/block/{}/queue/scheduler",
            self.name, self.name
        ))
    }

    pub(super) fn request_size(&self) -> Option<Finding> {
        let (is, may_be) = (self.request_kib.parse::<u64>().ok()?, self.request_kib_max.parse::<u64>().ok()?);
        let wanted = WRITE_KIB.min(may_be);
        if is >= wanted {
            return None;
        }
        minor(format!(
            "{} takes {is} KiB in a request and would take {may_be}, so that large writes are cut to pieces: echo {wanted} > \
             /sys/block/{}/queue/max_sectors_kb",
            self.name, self.name
        ))
    }
}
