//! Files and directories of the current core's disk.
//!
//! Reads append to the buffer's spare capacity; writes take the whole contents. Buffers travel with the operation and come
//! back with its result. A file's own durability is `sync_data` or a durable write; that of its name is [`sync_dir`] of the
//! directory.

use std::ffi::CString;
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;

use crate::buf::{IoBuf, IoBufMut};
use crate::op::{Fd, Held, IovHeld, Op, PathHeld, Request, check};
use crate::percore::{self, Backend};

/// How to open a file. The default opens for nothing; set at least `read` or `write`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Create it if it is not there.
    pub create: bool,
    /// Create it and fail if it is there.
    pub create_new: bool,
    /// Make it empty.
    pub truncate: bool,
    /// Bypass the page cache: offsets, lengths and buffers must be multiples of [`crate::ALIGNMENT`]. Where the file system
    /// has no direct I/O the file is opened without it and [`File::is_direct`] says so.
    pub direct: bool,
}

impl OpenOptions {
    /// For reading only.
    pub const READ: OpenOptions =
        OpenOptions { read: true, write: false, create: false, create_new: false, truncate: false, direct: false };
    /// For reading and writing, created if it is not there.
    pub const READ_WRITE: OpenOptions = OpenOptions { write: true, create: true, ..OpenOptions::READ };

    fn flags(self) -> i32 {
        let mut flags = match (self.read, self.write) {
            (true, true) => libc::O_RDWR,
            (false, true) => libc::O_WRONLY,
            _ => libc::O_RDONLY,
        } | libc::O_CLOEXEC;
        for (set, flag) in [
            (self.create || self.create_new, libc::O_CREAT),
            (self.create_new, libc::O_EXCL),
            (self.truncate, libc::O_TRUNC),
            (self.direct, libc::O_DIRECT),
        ] {
            if set {
                flags |= flag;
            }
        }
        flags
    }
}

/// An open file; cheap to clone, closed with the last clone and the last operation on it.
#[derive(Clone)]
pub struct File {
    fd: Rc<Fd>,
    direct: bool,
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path contains a zero byte"))
}

fn with_path(error: io::Error, what: &str, path: &Path) -> io::Error {
    io::Error::new(error.kind(), PathError { what: what.to_owned(), path: path.to_owned(), error })
}

/// An error of an operation on a path; its source is the system's error, [`os_error`] finds the number.
#[derive(Debug)]
struct PathError {
    what: String,
    path: PathBuf,
    error: io::Error,
}

impl std::fmt::Display for PathError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.what, self.path.display(), self.error)
    }
}

impl std::error::Error for PathError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// The system's error number behind an error of this module, for telling ENOSPC from EIO.
pub fn os_error(error: &io::Error) -> Option<i32> {
    error.raw_os_error().or_else(|| {
        let inner = error.get_ref()?.downcast_ref::<PathError>()?;
        inner.error.raw_os_error()
    })
}

async fn path_op(what: &str, path: &Path, request: Request, held: Box<PathHeld>) -> io::Result<(usize, Held)> {
    let (result, held) = Op::start(request, Held::Path(held)).await;
    match check(result) {
        Ok(value) => Ok((value, held)),
        Err(error) => Err(with_path(error, what, path)),
    }
}

/// An open file on its way to another core, which makes a [`File`] of it. Closed when it never arrives.
#[derive(Debug)]
pub struct PortableFile {
    raw: std::os::fd::OwnedFd,
    direct: bool,
}

impl PortableFile {
    /// The file on the current core.
    pub fn arrive(self) -> File {
        File { fd: Fd::new(percore::current(), self.raw.into_raw_fd()), direct: self.direct }
    }
}

impl File {
    /// Opens a file. New files get the mode 0644.
    ///
    /// # Errors
    /// What `openat` reports, with the path.
    pub async fn open(path: impl AsRef<Path>, options: OpenOptions) -> io::Result<File> {
        let path = path.as_ref();
        let core = percore::current();
        let mut direct = options.direct;
        loop {
            let flags = OpenOptions { direct, ..options }.flags();
            let request = Request::Open { flags, mode: 0o644 };
            match path_op("open", path, request, PathHeld::new(c_path(path)?)).await {
                Ok((raw, _)) => return Ok(File { fd: Fd::new(core, raw as i32), direct }),
                Err(error) if direct && os_error(&error) == Some(libc::EINVAL) => {
                    tracing::warn!(path = %path.display(), "the file system has no direct I/O: using the page cache");
                    direct = false;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// True when reads and writes bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// The same open file for another core. `None` in the simulation, whose files belong to their core.
    ///
    /// # Errors
    /// `EMFILE` when no more files may be open.
    pub fn portable(&self) -> io::Result<Option<PortableFile>> {
        match &self.fd.core().backend {
            Backend::Uring(_) => {
                Ok(Some(PortableFile { raw: crate::uring::sys::duplicate(self.fd.raw())?, direct: self.direct }))
            }
            Backend::Sim(_) => Ok(None),
        }
    }

    /// Enters the file into the ring's table of registered files, which makes every operation on it cheaper. Worth it for
    /// files that see thousands of operations. False when there is no room in the table; the file works all the same.
    pub fn register(&self) -> bool {
        self.fd.register()
    }

    async fn run<B: IoBuf>(&self, request: Request, buf: B) -> (io::Result<usize>, B) {
        let (result, held) = Op::start_on(Rc::clone(self.fd.core()), request, buf.into_held()).await;
        (check(result), B::from_held(held))
    }

    /// Reads once at `off` into the spare capacity of `buf`; 0 at the end of the file. May be short.
    ///
    /// # Errors
    /// What the device reports; `InvalidInput` when `buf` has no spare capacity.
    pub async fn read_at<B: IoBufMut>(&self, buf: B, off: u64) -> (io::Result<usize>, B) {
        let mut held = buf.into_held();
        if held.spare().is_empty() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "reading into a full buffer");
            return (Err(error), B::from_held(held));
        }
        let buf = B::from_held(held);
        self.run(Request::Read { fd: Rc::clone(&self.fd), off, len: usize::MAX }, buf).await
    }

    /// Reads exactly `len` bytes at `off`, appending them to `buf`.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file ends before, or the spare capacity of `buf`, with what there was in the buffer.
    pub async fn read_exact_at<B: IoBufMut>(&self, mut buf: B, off: u64, len: usize) -> (io::Result<()>, B) {
        let mut done = 0;
        while done < len {
            let request = Request::Read { fd: Rc::clone(&self.fd), off: off + done as u64, len: len - done };
            let (result, returned) = self.run(request, buf).await;
            buf = returned;
            match result {
                Ok(0) => return (Err(io::ErrorKind::UnexpectedEof.into()), buf),
                Ok(read) => done += read,
                Err(error) => return (Err(error), buf),
            }
        }
        (Ok(()), buf)
    }

    /// Writes once at `off`; may be short.
    pub async fn write_at<B: IoBuf>(&self, buf: B, off: u64) -> (io::Result<usize>, B) {
        self.run(Request::Write { fd: Rc::clone(&self.fd), off, start: 0, durable: false }, buf).await
    }

    /// Writes once at `off` and completes when the written bytes would survive a power cut (RWF_DSYNC). May be short.
    pub async fn write_at_durable<B: IoBuf>(&self, buf: B, off: u64) -> (io::Result<usize>, B) {
        self.run(Request::Write { fd: Rc::clone(&self.fd), off, start: 0, durable: true }, buf).await
    }

    /// What goes past the page cache keeps the disk busy at once.
    fn note_write(&self) {
        if self.direct {
            self.fd.core().note_write();
        }
    }

    async fn write_all<B: IoBuf>(&self, mut buf: B, off: u64, durable: bool) -> (io::Result<()>, B) {
        let mut start = 0;
        // The journal's commits. What is gathered goes to segments, behind the journal, and nobody waits for it.
        let _urgent = durable.then(|| self.fd.core().begin_urgent());
        loop {
            let held = buf.into_held();
            let left = held.filled().len() - start;
            buf = B::from_held(held);
            if left == 0 {
                return (Ok(()), buf);
            }
            self.note_write();
            let request = Request::Write { fd: Rc::clone(&self.fd), off: off + start as u64, start, durable };
            let (result, returned) = self.run(request, buf).await;
            buf = returned;
            match result {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), buf),
                Ok(written) => start += written,
                Err(error) => return (Err(error), buf),
            }
        }
    }

    /// Writes all of `buf` at `off`, continuing after short writes.
    ///
    /// # Errors
    /// The first error; a part may have been written.
    pub async fn write_all_at<B: IoBuf>(&self, buf: B, off: u64) -> (io::Result<()>, B) {
        self.write_all(buf, off, false).await
    }

    /// As [`File::write_all_at`], every part with RWF_DSYNC.
    ///
    /// # Errors
    /// The first error; a part may have been written.
    pub async fn write_all_at_durable<B: IoBuf>(&self, buf: B, off: u64) -> (io::Result<()>, B) {
        self.write_all(buf, off, true).await
    }

    /// Writes all buffers one after the other at `off`, gathered, continuing after short writes.
    ///
    /// # Errors
    /// The first error; a part may have been written.
    pub async fn writev_at(&self, bufs: Vec<Bytes>, off: u64) -> io::Result<()> {
        self.writev(bufs, off, false).await
    }

    /// As [`File::writev_at`] with RWF_DSYNC.
    ///
    /// # Errors
    /// The first error; a part may have been written.
    pub async fn writev_at_durable(&self, bufs: Vec<Bytes>, off: u64) -> io::Result<()> {
        self.writev(bufs, off, true).await
    }

    async fn writev(&self, bufs: Vec<Bytes>, mut off: u64, durable: bool) -> io::Result<()> {
        let mut iov = IovHeld::new(bufs);
        while !iov.is_done() {
            self.note_write();
            let request = Request::Writev { fd: Rc::clone(&self.fd), off, durable };
            let op = Op::start_on(Rc::clone(self.fd.core()), request, Held::Iov(iov));
            let (result, held) = op.await;
            let Held::Iov(mut returned) = held else { unreachable!("a gathered write gives its buffers back") };
            let written = check(result)?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            returned.advance(written);
            off += written as u64;
            iov = returned;
        }
        Ok(())
    }

    async fn plain(&self, request: Request) -> io::Result<()> {
        let (result, _) = Op::start_on(Rc::clone(self.fd.core()), request, Held::Nothing).await;
        check(result).map(drop)
    }

    /// Makes the contents, and what is needed to read them back, durable (fdatasync).
    ///
    /// # Errors
    /// What the device reports; what was written since the last sync may be lost then, a second call does not bring it back.
    pub async fn sync_data(&self) -> io::Result<()> {
        self.plain(Request::Fsync { fd: Rc::clone(&self.fd), data_only: true }).await
    }

    /// Makes contents and metadata durable (fsync).
    ///
    /// # Errors
    /// As for [`File::sync_data`].
    pub async fn sync_all(&self) -> io::Result<()> {
        self.plain(Request::Fsync { fd: Rc::clone(&self.fd), data_only: false }).await
    }

    /// Reserves `off..off + len`; the file becomes at least that long, new bytes read as zero.
    ///
    /// # Errors
    /// ENOSPC when the disk has not that much room.
    pub async fn allocate(&self, off: u64, len: u64) -> io::Result<()> {
        self.plain(Request::Allocate { fd: Rc::clone(&self.fd), off, len }).await
    }

    /// Says that `off..off + len` will be read soon: the kernel begins to bring it into its cache, in large pieces and
    /// beside whatever else goes on. A hint: nothing waits for it, nothing fails with it, and nothing comes of it while the
    /// disk has enough to do.
    pub fn will_read(&self, off: u64, len: u64) {
        let core = Rc::clone(self.fd.core());
        if matches!(core.backend, Backend::Uring(_)) && core.may_read_ahead() {
            drop(Op::start_on(core, Request::WillRead { fd: Rc::clone(&self.fd), off, len }, Held::Nothing));
        }
    }

    /// Has the kernel read what is asked for and nothing beyond it, for every descriptor of this open file. By itself it reads
    /// ahead by megabytes for each file that is read in order, and so many of them at once keep a disk from writing.
    pub fn read_only_what_is_asked(&self) {
        if matches!(self.fd.core().backend, Backend::Uring(_)) {
            crate::uring::sys::advise_random(self.fd.raw());
        }
    }

    /// Makes the file exactly `len` bytes long.
    ///
    /// # Errors
    /// What `ftruncate` reports.
    pub async fn set_len(&self, len: u64) -> io::Result<()> {
        self.plain(Request::Truncate { fd: Rc::clone(&self.fd), len }).await
    }

    /// The size in bytes.
    ///
    /// # Errors
    /// What `fstat` reports.
    pub fn size(&self) -> io::Result<u64> {
        match &self.fd.core().backend {
            Backend::Uring(_) => crate::uring::sys::file_size(self.fd.raw()),
            Backend::Sim(sim) => sim.file_size(self.fd.raw()),
        }
    }

    /// Takes the exclusive lock on the file (flock) without waiting; it is held while the file is open. False when another
    /// open file has it.
    ///
    /// # Errors
    /// What `flock` reports.
    pub fn try_lock(&self) -> io::Result<bool> {
        match &self.fd.core().backend {
            Backend::Uring(_) => crate::uring::sys::try_flock(self.fd.raw()),
            Backend::Sim(sim) => sim.try_lock(self.fd.raw()),
        }
    }

    /// Keeps the file open, and with it the lock of [`File::try_lock`], until the process ends, whichever core ends before.
    /// A simulated node's locks end with this file or the node.
    ///
    /// # Errors
    /// EMFILE.
    pub fn keep_open(&self) -> io::Result<()> {
        match &self.fd.core().backend {
            Backend::Uring(_) => crate::uring::sys::keep_open(self.fd.raw()),
            Backend::Sim(_) => Ok(()),
        }
    }

    pub(crate) fn fd(&self) -> &Rc<Fd> {
        &self.fd
    }
}

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// Size in bytes.
    pub len: u64,
    /// True for a directory.
    pub is_dir: bool,
}

/// One name in a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DirEntry {
    /// The name within the directory; names that are not UTF-8 have their odd bytes replaced.
    pub name: String,
    /// True for a directory.
    pub is_dir: bool,
}

/// Size and kind of what is at `path`; `None` when nothing is there.
///
/// # Errors
/// Any failure but absence.
pub async fn metadata(path: impl AsRef<Path>) -> io::Result<Option<Metadata>> {
    let path = path.as_ref();
    match path_op("stat", path, Request::Stat, PathHeld::new(c_path(path)?)).await {
        Ok((_, mut held)) => {
            let found = held.path().found.expect("a successful stat found something");
            Ok(Some(Metadata { len: found.len, is_dir: found.is_dir }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// True when something is at `path`.
///
/// # Errors
/// Any failure but absence.
pub async fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
    Ok(metadata(path).await?.is_some())
}

/// Makes one directory.
///
/// # Errors
/// `AlreadyExists`, `NotFound` for the parent, ...
pub async fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    path_op("create directory", path, Request::Mkdir, PathHeld::new(c_path(path)?)).await.map(drop)
}

/// Makes a directory and those above it as far as they are missing.
///
/// # Errors
/// A part of the path is not a directory, no permission, ...
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let mut missing = Vec::new();
    let mut at = Some(path);
    while let Some(dir) = at.filter(|dir| !dir.as_os_str().is_empty()) {
        match metadata(dir).await? {
            Some(found) if found.is_dir => break,
            Some(_) => return Err(with_path(io::Error::from_raw_os_error(libc::ENOTDIR), "create directory", dir)),
            None => missing.push(dir),
        }
        at = dir.parent();
    }
    for dir in missing.into_iter().rev() {
        match create_dir(dir).await {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Renames, replacing what is at `to`. Atomic; durable after [`sync_dir`] of both directories.
///
/// # Errors
/// What `renameat` reports.
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let held = PathHeld::pair(c_path(from)?, c_path(to)?);
    path_op("rename", from, Request::Rename, held).await.map(drop)
}

/// Removes a file's name.
///
/// # Errors
/// `NotFound`, ...
pub async fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    path_op("remove", path, Request::Unlink { dir: false }, PathHeld::new(c_path(path)?)).await.map(drop)
}

/// Removes an empty directory.
///
/// # Errors
/// `NotFound`, `DirectoryNotEmpty`, ...
pub async fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    path_op("remove directory", path, Request::Unlink { dir: true }, PathHeld::new(c_path(path)?)).await.map(drop)
}

/// Removes a directory and everything in it. Symbolic links are removed, not followed.
///
/// # Errors
/// The first failure; a part may be gone.
pub async fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    // Directories are listed when they come up and removed on the way back; a stack keeps the depth off the call stack.
    let mut stack = vec![(path.as_ref().to_owned(), false)];
    while let Some((dir, emptied)) = stack.pop() {
        if emptied {
            remove_dir(&dir).await?;
            continue;
        }
        let entries = read_dir(&dir).await?;
        stack.push((dir.clone(), true));
        for entry in entries {
            let inner = dir.join(&entry.name);
            if entry.is_dir {
                stack.push((inner, false));
            } else {
                remove_file(inner).await?;
            }
        }
    }
    Ok(())
}

/// The names in a directory, sorted.
///
/// # Errors
/// What `opendir` reports.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<Vec<DirEntry>> {
    let path = path.as_ref().to_owned();
    let core = percore::current();
    if let Backend::Sim(sim) = &core.backend {
        return sim.read_dir(&path).map_err(|error| with_path(error, "list", &path));
    }
    // The ring has no operation for it.
    crate::unblock(move || {
        let list = || -> io::Result<Vec<DirEntry>> {
            let mut entries = Vec::new();
            for entry in std::fs::read_dir(&path)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                entries.push(DirEntry { name, is_dir: entry.file_type()?.is_dir() });
            }
            entries.sort();
            Ok(entries)
        };
        list().map_err(|error| with_path(error, "list", &path))
    })
    .await
}

/// Room on a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Its size in bytes.
    pub total: u64,
    /// Bytes that this process can still fill, without what is reserved for the administrator.
    pub usable: u64,
}

/// Room on the file system that holds `path`. Asked on a helper thread: not for paths that every request takes.
///
/// # Errors
/// What `statvfs` reports.
pub async fn space(path: impl AsRef<Path>) -> io::Result<Space> {
    let path = path.as_ref().to_owned();
    let core = percore::current();
    let found = match &core.backend {
        Backend::Sim(sim) => sim.space(&path),
        Backend::Uring(_) => {
            let held = c_path(&path)?;
            // The ring has no operation for it.
            crate::unblock(move || crate::uring::sys::space(&held)).await
        }
    };
    let (total, usable) = found.map_err(|error| with_path(error, "ask the space of", &path))?;
    Ok(Space { total, usable })
}

/// Makes the names in a directory durable.
///
/// # Errors
/// What the device reports.
pub async fn sync_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let request = Request::Open { flags: libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC, mode: 0 };
    let core = percore::current();
    let (raw, _) = path_op("open", path, request, PathHeld::new(c_path(path)?)).await?;
    let fd = Fd::new(core, raw as i32);
    let sync =
        Op::start_on(Rc::clone(fd.core()), Request::Fsync { fd: Rc::clone(&fd), data_only: false }, Held::Nothing);
    check(sync.await.0).map(drop).map_err(|error| with_path(error, "sync directory", path))
}

/// Reads a whole file.
///
/// # Errors
/// What opening and reading report.
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    let file = File::open(path, OpenOptions::READ).await?;
    let size = usize::try_from(file.size()?).unwrap_or(usize::MAX);
    // One byte more than the size, so that the end shows itself without growing the buffer.
    let mut buf = Vec::with_capacity(size.saturating_add(1));
    loop {
        if buf.len() == buf.capacity() {
            buf.reserve(buf.capacity());
        }
        let off = buf.len() as u64;
        let (result, returned) = file.read_at(buf, off).await;
        buf = returned;
        if result.map_err(|error| with_path(error, "read", path))? == 0 {
            return Ok(buf);
        }
    }
}

/// Replaces a file as a whole: readers, and a machine after a power cut, see the old contents or the new ones. Writes
/// `path` with `.tmp` appended, renames it and syncs the directory.
///
/// # Errors
/// The first failure; the old contents are in place unless the last step failed.
pub async fn write_atomic_durable(path: impl AsRef<Path>, bytes: impl Into<Bytes>) -> io::Result<()> {
    let path = path.as_ref();
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let options = OpenOptions { write: true, create: true, truncate: true, ..OpenOptions::default() };
    let file = File::open(&temporary, options).await?;
    let (result, _) = file.write_all_at(bytes.into(), 0).await;
    result.map_err(|error| with_path(error, "write", &temporary))?;
    file.sync_all().await.map_err(|error| with_path(error, "sync", &temporary))?;
    drop(file);
    rename(&temporary, path).await?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_dir(parent).await
}
