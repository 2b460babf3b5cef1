//! Which file system a directory lies on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Finding, Weight, finding, minor};

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mount {
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// Type of the file system.
    pub(crate) kind: String,
    /// Mount options, then those of the file system.
    pub(crate) options: String,
    /// `major:minor` of the device it lies on.
    pub(crate) device: String,
}

impl Mount {
    fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|found| found == option)
    }

    /// The mount that a directory, or the nearest parent of it that there is, lies on.
    pub(crate) fn of(mountinfo: &str, directory: &Path) -> Option<Mount> {
        let absolute = std::path::absolute(directory).ok()?;
        let mounts = mountinfo.lines().filter_map(parse).filter(|mount| absolute.starts_with(&mount.point));
        // Of mounts at the same point the last one hides the others.
        mounts
            .enumerate()
            .max_by_key(|(index, mount)| (mount.point.components().count(), *index))
            .map(|(_, mount)| mount)
    }
}

/// `id parent major:minor root point options ... - type source super-options`
fn parse(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut fields = left.split(' ').skip(2);
    let device = fields.next()?.to_owned();
    let point = fields.nth(1)?.replace("\\040", " ");
    let mut of_kind = right.split(' ');
    let kind = of_kind.next()?.to_owned();
    let options = format!("{},{}", fields.next()?, of_kind.nth(1).unwrap_or_default());
    Some(Mount { point: PathBuf::from(point), kind, options, device })
}

/// The devices of all mounts, each once.
pub(super) fn devices(mountinfo: &str) -> BTreeSet<String> {
    mountinfo.lines().filter_map(parse).map(|mount| mount.device).collect()
}

/// What speaks against keeping logs there.
pub(super) fn check(mount: &Mount, directory: &Path) -> Option<Finding> {
    let (weight, why) = match mount.kind.as_str() {
        "ext4" | "xfs" if mount.has("noatime") || mount.has("relatime") => return None,
        "ext4" | "xfs" => (Weight::Minor, "is mounted without noatime, so that reads cause writes".to_owned()),
        "tmpfs" | "ramfs" => {
            (Weight::Serious, format!("is a {}: nothing on it survives a restart of the machine", mount.kind))
        }
        "nfs" | "nfs4" | "cifs" | "9p" | "fuse.sshfs" => (
            Weight::Serious,
            format!("is a {}: what is flushed may not be durable, and locks may not hold", mount.kind),
        ),
        "overlay" => (Weight::Minor, "is an overlay, which adds a layer to every operation; use a volume".to_owned()),
        "btrfs" | "zfs" => {
            (Weight::Minor, format!("is a {}, which copies on write; ext4 or xfs is advised", mount.kind))
        }
        other => (Weight::Minor, format!("is a {other}, which is not tested; ext4 or xfs is advised")),
    };
    finding(weight, format!("{} on {} {why}; see tuning/README.md", directory.display(), mount.point.display()))
}

/// Whether segments that are deleted keep everything else from the disk.
pub(super) fn discard(mount: &Mount, directory: &Path) -> Option<Finding> {
    if !mount.has("discard") {
        return None;
    }
    minor(format!(
        "{} on {} is mounted with discard: when segments are deleted nothing else is written until the device has let go of \
         them, up to a second; mount it without and run fstrim by a timer",
        directory.display(),
        mount.point.display()
    ))
}
