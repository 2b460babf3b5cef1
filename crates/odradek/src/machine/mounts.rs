//! Which file system a directory lies on.

use std::path::{Path, PathBuf};

use super::Finding;

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mount {
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// Type of the file system.
    pub(crate) kind: String,
    /// Mount options.
    pub(crate) options: String,
}

impl Mount {
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
    let mut fields = left.split(' ').skip(4);
    let point = fields.next()?.replace("\\040", " ");
    let options = fields.next()?.to_owned();
    Some(Mount { point: PathBuf::from(point), kind: right.split(' ').next()?.to_owned(), options })
}

/// What speaks against keeping logs there.
pub(crate) fn check(mount: &Mount, directory: &Path) -> Option<Finding> {
    let (serious, why) = match mount.kind.as_str() {
        "ext4" | "xfs" if mount.options.split(',').any(|option| option == "noatime") => return None,
        "ext4" | "xfs" if mount.options.split(',').any(|option| option == "relatime") => return None,
        "ext4" | "xfs" => (false, "is mounted without noatime, so that reads cause writes".to_owned()),
        "tmpfs" | "ramfs" => (true, format!("is a {}: nothing on it survives a restart of the machine", mount.kind)),
        "nfs" | "nfs4" | "cifs" | "9p" | "fuse.sshfs" => {
            (true, format!("is a {}: what is flushed may not be durable, and locks may not hold", mount.kind))
        }
        "overlay" => (false, "is an overlay, which adds a layer to every operation; use a volume".to_owned()),
        "btrfs" | "zfs" => (false, format!("is a {}, which copies on write; ext4 or xfs is advised", mount.kind)),
        other => (false, format!("is a {other}, which is not tested; ext4 or xfs is advised")),
    };
    let advice = format!("{} on {} {why}; see tuning/README.md", directory.display(), mount.point.display());
    Some(Finding { what: "file system".to_owned(), advice, serious })
}
