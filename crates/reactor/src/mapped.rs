//! A file whose bytes are stored to as memory.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

use crate::fs::File;
use crate::percore::Backend;
use crate::stream_copy::stream_copy;

/// The first bytes of a file as shared memory. What is stored is the kernel's at once: it survives the death of the process
/// without a system call, and reaches the disk when the kernel writes it back or the file is synced.
///
/// The file must have blocks for all of it and must not be made shorter while it is mapped: storing to what it does not have
/// ends the process, and so does a device that cannot read a page back that the kernel had dropped.
pub struct MappedFile {
    file: File,
    /// Absent under simulation.
    memory: Option<NonNull<u8>>,
    len: u64,
}

impl MappedFile {
    /// Maps the first `len` bytes of a file that is open for reading and writing through the page cache.
    ///
    /// # Errors
    /// What `mmap` reports, such as ENODEV for a file system that cannot; `InvalidInput` when the file is shorter.
    pub fn new(file: &File, len: u64) -> io::Result<MappedFile> {
        if file.size()? < len || file.is_direct() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "mapping more than there is, or a direct file"));
        }
        let memory = match &file.fd().core().backend {
            Backend::Uring(_) => {
                crate::bus_error::tell();
                Some(map(file.fd().raw(), len)?)
            }
            Backend::Sim(_) => None,
        };
        Ok(MappedFile { file: file.clone(), memory, len })
    }

    /// Bytes that are mapped.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True when nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stores `bytes` at `off`; they must lie within what is mapped. Should the process die, a store is never there without
    /// all earlier ones.
    ///
    /// # Errors
    /// Under simulation only, the faults that were asked for.
    pub fn store(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        let end = off.checked_add(bytes.len() as u64);
        assert!(end.is_some_and(|end| end <= self.len), "{} bytes at {off} of {}", bytes.len(), self.len);
        match (&self.file.fd().core().backend, self.memory) {
            (Backend::Sim(sim), _) => sim.store(self.file.fd().raw(), off, bytes),
            (Backend::Uring(_), Some(memory)) => {
                // SAFETY: the target lies within the mapping, which lives as long as `self`; no reference into it is ever made
                // and `self` is not Sync, so that nothing in this process reads or writes it meanwhile.
                unsafe {
                    stream_copy(bytes.as_ptr(), memory.as_ptr().add(off as usize), bytes.len());
                };
                // The compiler must not move this store behind a later one.
                fence(Ordering::Release);
                Ok(())
            }
            (Backend::Uring(_), None) => unreachable!("a real file is mapped"),
        }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if let Some(memory) = self.memory {
            // SAFETY: exactly this was mapped, and nothing refers to it any more.
            unsafe { libc::munmap(memory.as_ptr().cast(), self.len as usize) };
        }
    }
}

fn map(fd: i32, len: u64) -> io::Result<NonNull<u8>> {
    let len = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let raw = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, 0) };
    if raw == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(raw.cast()).expect("a mapping is not at null"))
}
