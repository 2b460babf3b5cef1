//! The disk of a simulated node: a tree of files and directories, each with what is written and what would survive a power
//! cut.
//!
//! Contents are tracked by sector: a sector that was written and not synced remembers what the platter holds. Names are
//! tracked as a log of directory operations that were not synced. A power cut decides by chance what of both is kept.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use base::Prng;

/// The unit a torn write is torn into, in bytes: what disks write atomically at least.
const SECTOR: usize = 512;
const PAGE: usize = 4096;

pub(super) const ROOT: u64 = 1;

type Errno = i32;

/// Which operations a fault hits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultOn {
    /// Opening, creating, renaming, removing.
    Names,
    /// Reading.
    Read,
    /// Writing, truncating, allocating.
    Write,
    /// Syncing a file or a directory, and the sync within a durable write.
    Sync,
}

/// An error that a simulated disk gives instead of doing its work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Hits paths that contain this text; empty for all.
    pub path_contains: String,
    /// Hits these operations.
    pub on: FaultOn,
    /// The error number, such as `EIO` (5) or `ENOSPC` (28).
    pub errno: i32,
    /// How often; `None` until the faults are cleared.
    pub times: Option<u32>,
}

/// A sector as it is on the platter; `None` for zeroes.
struct OldSector {
    bytes: Option<Box<[u8; SECTOR]>>,
    /// A sync of it failed: the page counts as clean although it was never written, so that later syncs do not help.
    stuck: bool,
}

#[derive(Default)]
struct FileData {
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
    len: u64,
    synced_len: u64,
    unsynced: BTreeMap<u64, OldSector>,
    /// Open handles; an inode without names lives as long as there are some.
    opened: u32,
    lock: Option<i32>,
}

enum Inode {
    File(FileData),
    Dir(BTreeMap<String, u64>),
}

/// A change of names that is not durable yet.
#[derive(Clone)]
enum NameOp {
    Link { dir: u64, name: String, inode: u64 },
    Unlink { dir: u64, name: String },
    Rename { from: (u64, String), to: (u64, String), inode: u64 },
}

impl NameOp {
    fn touches(&self, wanted: u64) -> bool {
        match self {
            NameOp::Link { dir, .. } | NameOp::Unlink { dir, .. } => *dir == wanted,
            NameOp::Rename { from, to, .. } => from.0 == wanted || to.0 == wanted,
        }
    }
}

pub(super) struct Disk {
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    durable_names: BTreeMap<u64, BTreeMap<String, u64>>,
    unsynced_names: Vec<NameOp>,
    pub faults: Vec<Fault>,
    /// Sum of the file sizes that fits; more is ENOSPC.
    pub capacity: u64,
}

impl FileData {
    fn read(&self, off: u64, into: &mut [u8]) -> usize {
        let available = self.len.saturating_sub(off).min(into.len() as u64) as usize;
        let mut done = 0;
        while done < available {
            let at = off + done as u64;
            let (page, inside) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let step = (PAGE - inside).min(available - done);
            let target = &mut into[done..done + step];
            match self.pages.get(&page) {
                Some(bytes) => target.copy_from_slice(&bytes[inside..inside + step]),
                None => target.fill(0),
            }
            done += step;
        }
        available
    }

    /// Changes contents without any bookkeeping.
    fn put(&mut self, off: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = off + done as u64;
            let (page, inside) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let step = (PAGE - inside).min(bytes.len() - done);
            let page = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE]));
            page[inside..inside + step].copy_from_slice(&bytes[done..done + step]);
            done += step;
        }
    }

    fn sector(&self, sector: u64) -> Option<Box<[u8; SECTOR]>> {
        let at = sector * SECTOR as u64;
        let page = self.pages.get(&(at / PAGE as u64))?;
        let inside = (at % PAGE as u64) as usize;
        let mut bytes = Box::new([0; SECTOR]);
        bytes.copy_from_slice(&page[inside..inside + SECTOR]);
        Some(bytes)
    }

    /// Remembers what the platter holds for sectors that are about to change.
    fn remember(&mut self, off: u64, len: u64) {
        if len == 0 {
            return;
        }
        for sector in off / SECTOR as u64..=(off + len - 1) / SECTOR as u64 {
            match self.unsynced.get_mut(&sector) {
                // Dirty again: the next sync writes it.
                Some(old) => old.stuck = false,
                None => {
                    let bytes = self.sector(sector);
                    self.unsynced.insert(sector, OldSector { bytes, stuck: false });
                }
            }
        }
    }

    fn write(&mut self, off: u64, bytes: &[u8], durable: bool) {
        let end = off + bytes.len() as u64;
        self.remember(off, bytes.len() as u64);
        self.put(off, bytes);
        let shrunk = self.len < self.synced_len;
        self.len = self.len.max(end);
        if durable && !bytes.is_empty() {
            for sector in off / SECTOR as u64..=(end - 1) / SECTOR as u64 {
                self.unsynced.remove(&sector);
            }
            // A durable write takes the size along as far as its own bytes need it; a truncation before it is settled too.
            self.synced_len = if shrunk { self.len } else { self.synced_len.max(end) };
        }
    }

    fn truncate(&mut self, len: u64) {
        if len < self.len {
            let gone: Vec<u64> = self.pages.range(len / PAGE as u64..).map(|(page, _)| *page).collect();
            for page in gone {
                let start = (page * PAGE as u64).max(len);
                let end = (page + 1) * PAGE as u64;
                self.remember(start, end - start);
                self.put(start, &vec![0; (end - start) as usize]);
                if start == page * PAGE as u64 {
                    self.pages.remove(&page);
                }
            }
        }
        self.len = len;
    }

    fn sync(&mut self) {
        self.unsynced.retain(|_, old| old.stuck);
        self.synced_len = self.len;
    }

    fn fail_sync(&mut self) {
        for old in self.unsynced.values_mut() {
            old.stuck = true;
        }
    }

    /// A power cut: decides what of the unsynced contents is on the platter.
    fn crash(&mut self, prng: &mut Prng) {
        let manner = prng.below(3);
        let truncated_from = self.len;
        let kept_len = match manner {
            0 => self.synced_len,
            1 => self.len,
            _ => {
                let (low, high) = (self.len.min(self.synced_len), self.len.max(self.synced_len));
                let sizes = [self.len, self.synced_len, low + prng.below(high - low + 1)];
                // A truncation happens or does not; only growth can be found half done.
                sizes[prng.below(if self.len < self.synced_len { 2 } else { 3 }) as usize]
            }
        };
        for (sector, old) in std::mem::take(&mut self.unsynced) {
            // What a lost truncation had cut off is there again.
            let cut_off = sector * SECTOR as u64 >= truncated_from;
            let keep = !old.stuck && !cut_off && (manner == 1 || (manner == 2 && prng.chance(1, 2)));
            if !keep {
                let bytes = old.bytes.unwrap_or_else(|| Box::new([0; SECTOR]));
                self.put(sector * SECTOR as u64, &bytes[..]);
            }
        }
        self.len = kept_len.max(self.len);
        self.truncate(kept_len);
        self.unsynced.clear();
        self.synced_len = self.len;
        self.opened = 0;
        self.lock = None;
    }
}

/// Directory and last name of a path.
type Place = (u64, String);

impl Disk {
    pub fn new() -> Disk {
        let mut inodes = BTreeMap::new();
        inodes.insert(ROOT, Inode::Dir(BTreeMap::new()));
        Disk {
            inodes,
            next_inode: ROOT + 1,
            durable_names: BTreeMap::from([(ROOT, BTreeMap::new())]),
            unsynced_names: Vec::new(),
            faults: Vec::new(),
            capacity: u64::MAX,
        }
    }

    /// The error that a fault demands, counting it.
    pub fn fault(&mut self, path: &str, on: FaultOn) -> Result<(), Errno> {
        let hit = self
            .faults
            .iter_mut()
            .find(|f| f.on == on && f.times != Some(0) && path.contains(f.path_contains.as_str()));
        match hit {
            Some(fault) => {
                if let Some(times) = &mut fault.times {
                    *times -= 1;
                }
                Err(fault.errno)
            }
            None => Ok(()),
        }
    }

    fn dir(&self, inode: u64) -> Result<&BTreeMap<String, u64>, Errno> {
        match self.inodes.get(&inode) {
            Some(Inode::Dir(names)) => Ok(names),
            Some(Inode::File(_)) => Err(libc::ENOTDIR),
            None => Err(libc::ENOENT),
        }
    }

    fn dir_mut(&mut self, inode: u64) -> &mut BTreeMap<String, u64> {
        match self.inodes.get_mut(&inode) {
            Some(Inode::Dir(names)) => names,
            _ => panic!("inode {inode} was looked up as a directory before"),
        }
    }

    fn file(&self, inode: u64) -> Result<&FileData, Errno> {
        match self.inodes.get(&inode) {
            Some(Inode::File(data)) => Ok(data),
            Some(Inode::Dir(_)) => Err(libc::EISDIR),
            None => Err(libc::EBADF),
        }
    }

    fn file_mut(&mut self, inode: u64) -> Result<&mut FileData, Errno> {
        match self.inodes.get_mut(&inode) {
            Some(Inode::File(data)) => Ok(data),
            Some(Inode::Dir(_)) => Err(libc::EISDIR),
            None => Err(libc::EBADF),
        }
    }

    fn parts(path: &Path) -> Vec<String> {
        let mut parts: Vec<String> = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
                Component::ParentDir => {
                    parts.pop();
                }
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        parts
    }

    pub fn lookup(&self, path: &Path) -> Result<u64, Errno> {
        Self::parts(path).iter().try_fold(ROOT, |at, name| self.dir(at)?.get(name).copied().ok_or(libc::ENOENT))
    }

    fn place(&self, path: &Path) -> Result<Place, Errno> {
        let mut parts = Self::parts(path);
        let name = parts.pop().ok_or(libc::EEXIST)?;
        let dir = parts.iter().try_fold(ROOT, |at, part| self.dir(at)?.get(part).copied().ok_or(libc::ENOENT))?;
        self.dir(dir)?;
        Ok((dir, name))
    }

    fn link(&mut self, place: Place, inode: u64) {
        let (dir, name) = place;
        self.dir_mut(dir).insert(name.clone(), inode);
        self.unsynced_names.push(NameOp::Link { dir, name, inode });
    }

    fn add(&mut self, inode: Inode) -> u64 {
        let number = self.next_inode;
        self.next_inode += 1;
        if matches!(inode, Inode::Dir(_)) {
            self.durable_names.insert(number, BTreeMap::new());
        }
        self.inodes.insert(number, inode);
        number
    }

    /// Opens by the flags of open(2). Says whether it is a directory.
    pub fn open(&mut self, path: &Path, flags: i32) -> Result<(u64, bool), Errno> {
        match self.lookup(path) {
            Ok(_) if flags & libc::O_EXCL != 0 => Err(libc::EEXIST),
            Ok(inode) => {
                let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
                match self.inodes.get_mut(&inode).expect("names lead to inodes") {
                    Inode::Dir(_) if writes => Err(libc::EISDIR),
                    Inode::Dir(_) => Ok((inode, true)),
                    Inode::File(_) if flags & libc::O_DIRECTORY != 0 => Err(libc::ENOTDIR),
                    Inode::File(data) => {
                        if flags & libc::O_TRUNC != 0 {
                            data.truncate(0);
                        }
                        data.opened += 1;
                        Ok((inode, false))
                    }
                }
            }
            Err(libc::ENOENT) if flags & libc::O_CREAT != 0 => {
                let place = self.place(path)?;
                let inode = self.add(Inode::File(FileData { opened: 1, ..FileData::default() }));
                self.link(place, inode);
                Ok((inode, false))
            }
            Err(errno) => Err(errno),
        }
    }

    pub fn close(&mut self, inode: u64, handle: i32) {
        if let Ok(data) = self.file_mut(inode) {
            data.opened = data.opened.saturating_sub(1);
            if data.lock == Some(handle) {
                data.lock = None;
            }
        }
    }

    pub fn try_lock(&mut self, inode: u64, handle: i32) -> Result<bool, Errno> {
        let data = self.file_mut(inode)?;
        let free = data.lock.is_none_or(|holder| holder == handle);
        if free {
            data.lock = Some(handle);
        }
        Ok(free)
    }

    pub fn mkdir(&mut self, path: &Path) -> Result<(), Errno> {
        if self.lookup(path).is_ok() {
            return Err(libc::EEXIST);
        }
        let place = self.place(path)?;
        let inode = self.add(Inode::Dir(BTreeMap::new()));
        self.link(place, inode);
        Ok(())
    }

    pub fn unlink(&mut self, path: &Path, want_dir: bool) -> Result<(), Errno> {
        let (dir, name) = self.place(path)?;
        let inode = *self.dir(dir)?.get(&name).ok_or(libc::ENOENT)?;
        match (self.inodes.get(&inode).expect("names lead to inodes"), want_dir) {
            (Inode::Dir(names), true) if !names.is_empty() => return Err(libc::ENOTEMPTY),
            (Inode::Dir(_), false) => return Err(libc::EISDIR),
            (Inode::File(_), true) => return Err(libc::ENOTDIR),
            _ => {}
        }
        self.dir_mut(dir).remove(&name);
        self.unsynced_names.push(NameOp::Unlink { dir, name });
        Ok(())
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let source = self.place(from)?;
        let target = self.place(to)?;
        let inode = *self.dir(source.0)?.get(&source.1).ok_or(libc::ENOENT)?;
        if let Some(replaced) = self.dir(target.0)?.get(&target.1) {
            match (&self.inodes[&inode], &self.inodes[replaced]) {
                (Inode::Dir(_), Inode::Dir(names)) if !names.is_empty() => return Err(libc::ENOTEMPTY),
                (Inode::Dir(_), Inode::File(_)) => return Err(libc::ENOTDIR),
                (Inode::File(_), Inode::Dir(_)) => return Err(libc::EISDIR),
                _ => {}
            }
        }
        self.dir_mut(source.0).remove(&source.1);
        self.dir_mut(target.0).insert(target.1.clone(), inode);
        self.unsynced_names.push(NameOp::Rename { from: source, to: target, inode });
        Ok(())
    }

    pub fn stat(&self, path: &Path) -> Result<(u64, bool), Errno> {
        match &self.inodes[&self.lookup(path)?] {
            Inode::Dir(_) => Ok((PAGE as u64, true)),
            Inode::File(data) => Ok((data.len, false)),
        }
    }

    /// Names and whether they are directories, sorted.
    pub fn list(&self, path: &Path) -> Result<Vec<(String, bool)>, Errno> {
        let names = self.dir(self.lookup(path)?)?;
        let is_dir = |inode: &u64| matches!(self.inodes.get(inode), Some(Inode::Dir(_)));
        Ok(names.iter().map(|(name, inode)| (name.clone(), is_dir(inode))).collect())
    }

    pub fn len(&self, inode: u64) -> Result<u64, Errno> {
        self.file(inode).map(|data| data.len)
    }

    pub fn read(&self, inode: u64, off: u64, len: usize) -> Result<Vec<u8>, Errno> {
        let data = self.file(inode)?;
        let mut bytes = vec![0; len.min(data.len.saturating_sub(off) as usize)];
        data.read(off, &mut bytes);
        Ok(bytes)
    }

    fn check_room(&self, inode: u64, end: u64) -> Result<(), Errno> {
        let grown = end.saturating_sub(self.file(inode)?.len);
        if grown == 0 || self.capacity == u64::MAX {
            return Ok(());
        }
        if self.used().saturating_add(grown) > self.capacity { Err(libc::ENOSPC) } else { Ok(()) }
    }

    /// Sum of the file sizes.
    pub fn used(&self) -> u64 {
        self.inodes.values().map(|inode| if let Inode::File(data) = inode { data.len } else { 0 }).sum()
    }

    pub fn write(&mut self, inode: u64, off: u64, bytes: &[u8], durable: bool) -> Result<(), Errno> {
        self.check_room(inode, off + bytes.len() as u64)?;
        self.file_mut(inode)?.write(off, bytes, durable);
        Ok(())
    }

    pub fn allocate(&mut self, inode: u64, off: u64, len: u64) -> Result<(), Errno> {
        self.check_room(inode, off + len)?;
        let data = self.file_mut(inode)?;
        data.len = data.len.max(off + len);
        Ok(())
    }

    pub fn truncate(&mut self, inode: u64, len: u64) -> Result<(), Errno> {
        self.check_room(inode, len)?;
        self.file_mut(inode)?.truncate(len);
        Ok(())
    }

    /// Makes a file's contents or a directory's names durable.
    pub fn sync(&mut self, inode: u64) -> Result<(), Errno> {
        match self.inodes.get_mut(&inode).ok_or(libc::EBADF)? {
            Inode::File(data) => data.sync(),
            Inode::Dir(_) => {
                let pending = std::mem::take(&mut self.unsynced_names);
                let (now, later) = pending.into_iter().partition(|op| op.touches(inode));
                self.unsynced_names = later;
                for op in now {
                    self.make_durable(op);
                }
                self.forget_unreachable();
            }
        }
        Ok(())
    }

    /// A sync that reported an error: what was dirty is lost although a later sync succeeds.
    pub fn fail_sync(&mut self, inode: u64) {
        if let Ok(data) = self.file_mut(inode) {
            data.fail_sync();
        }
    }

    /// Applies a change of names to what is durable, as far as it applies: an earlier one may have been lost.
    fn make_durable(&mut self, op: NameOp) {
        let durable = &mut self.durable_names;
        match op {
            NameOp::Link { dir, name, inode } => {
                durable.entry(dir).or_default().insert(name, inode);
            }
            NameOp::Unlink { dir, name } => {
                durable.entry(dir).or_default().remove(&name);
            }
            NameOp::Rename { from, to, inode } => {
                // The inode itself moves, under whatever name the platter knew it.
                let source = durable.entry(from.0).or_default();
                if source.get(&from.1) == Some(&inode) {
                    source.remove(&from.1);
                }
                durable.entry(to.0).or_default().insert(to.1, inode);
            }
        }
    }

    /// A power cut.
    pub fn crash(&mut self, prng: &mut Prng) {
        let pending = std::mem::take(&mut self.unsynced_names);
        let manner = prng.below(4);
        let prefix = prng.below(pending.len() as u64 + 1) as usize;
        for (at, op) in pending.into_iter().enumerate() {
            let keep = match manner {
                0 => false,
                1 => true,
                2 => at < prefix,
                _ => prng.chance(1, 2),
            };
            if keep {
                self.make_durable(op);
            }
        }
        for inode in self.inodes.values_mut() {
            if let Inode::File(data) = inode {
                data.crash(prng);
            }
        }
        let durable = self.durable_names.clone();
        for (number, names) in durable {
            if let Some(Inode::Dir(current)) = self.inodes.get_mut(&number) {
                *current = names;
            }
        }
        self.forget_unreachable();
    }

    /// The process ended, the machine did not: nothing is lost, but nothing is open or locked.
    pub fn close_all(&mut self) {
        for inode in self.inodes.values_mut() {
            if let Inode::File(data) = inode {
                data.opened = 0;
                data.lock = None;
            }
        }
    }

    /// Frees inodes that no name (current, durable or about to be) and no handle leads to.
    fn forget_unreachable(&mut self) {
        let mut reached = std::collections::BTreeSet::from([ROOT]);
        let opened = |inode: &Inode| matches!(inode, Inode::File(data) if data.opened > 0);
        reached.extend(self.inodes.iter().filter(|(_, inode)| opened(inode)).map(|(number, _)| *number));
        reached.extend(self.unsynced_names.iter().filter_map(|op| match op {
            NameOp::Link { inode, .. } | NameOp::Rename { inode, .. } => Some(*inode),
            NameOp::Unlink { .. } => None,
        }));
        let mut open: Vec<u64> = reached.iter().copied().collect();
        while let Some(at) = open.pop() {
            let current = if let Some(Inode::Dir(names)) = self.inodes.get(&at) { Some(names) } else { None };
            let names = current.into_iter().chain(self.durable_names.get(&at));
            for inode in names.flat_map(BTreeMap::values) {
                if reached.insert(*inode) {
                    open.push(*inode);
                }
            }
        }
        self.inodes.retain(|number, _| reached.contains(number));
        self.durable_names.retain(|number, _| reached.contains(number));
    }

    /// Flips bits of a stored byte, on the platter too.
    pub fn corrupt(&mut self, path: &Path, off: u64, xor: u8) -> Result<(), Errno> {
        let inode = self.lookup(path)?;
        let data = self.file_mut(inode)?;
        let mut byte = [0u8];
        if data.read(off, &mut byte) == 1 {
            data.put(off, &[byte[0] ^ xor]);
            if let Some(old) = data.unsynced.get_mut(&(off / SECTOR as u64)) {
                old.stuck = false;
            }
        }
        Ok(())
    }
}
