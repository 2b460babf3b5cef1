//! The journal of one core: pre-written files that are used in turn.
//!
//! Files are used strictly in order and the oldest is used again only when everything in it has reached its segment. The
//! strictness matters: a record that voids earlier ones must never be overwritten before them.
//!
//! Where a promise is to survive power loss, a commit is one synchronous direct write. Where it is to survive the death of the
//! process only, the files are mapped and a commit is a copy into them: no system call, nothing to wait for, and hardly any
//! traffic to the disk, since the kernel writes a page back long after its next use.

pub(crate) mod replay;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use reactor::fs::{self, File, OpenOptions};
use reactor::{AlignedBuf, Class, MappedFile, spawn};

use crate::commit::DIRECT_BYTES_MIN;
use crate::format::journal::{BLOCK_BYTES, CommitHeader, HEADER_BYTES, seed};
use crate::format::names;
use crate::io::{Context, DIRECT};
use crate::{Durability, JournalConfig, LogCoreConfig, LogError};

/// Zeroes are written in pieces of this many bytes.
const PREWRITE_BYTES: usize = 1 << 20;
/// A file with less room than this, in bytes, is left for the next one: a commit of one full record always fits.
const ROOM_BYTES_MIN: u64 = 2 * DIRECT_BYTES_MIN;

struct Slot {
    file: File,
    /// The file as memory, where commits are copied into it.
    map: Option<Rc<MappedFile>>,
    path: PathBuf,
    /// Number of this use of the file; 0 before the first.
    sequence: u64,
    /// Logs with records in it that have not reached their segments.
    pins: u32,
}

#[derive(Default)]
struct Ring {
    /// Oldest first; the last one with a sequence is being written.
    slots: VecDeque<Slot>,
    position: u64,
    file_sequence: u64,
    commit_sequence: u64,
    made: u32,
    growing: bool,
    /// The last use of a file whose records were asked to be brought to their segments ahead of need.
    asked_for: u64,
}

pub(crate) struct Journal {
    shared: Rc<Shared>,
}

struct Shared {
    dir: PathBuf,
    core: u16,
    run: u64,
    generation: u64,
    durable: bool,
    file_bytes: u64,
    files_max: u32,
    ring: RefCell<Ring>,
}

/// Where the next commit goes.
#[derive(Clone)]
pub(crate) struct Room {
    /// Bytes that fit.
    pub bytes: usize,
    /// The memory it is copied to, and where in there; without, it is written.
    pub map: Option<(Rc<MappedFile>, u64)>,
    /// The use of the file it goes to: what logs pin.
    pub file_sequence: u64,
    /// What seeds its records.
    pub seed: u32,
}

impl Ring {
    /// The file that is being written.
    fn current(&self) -> &Slot {
        self.slots.iter().find(|slot| slot.sequence == self.file_sequence).expect("the current file is in the ring")
    }
}

impl Journal {
    /// Makes the first file; the others follow when they are needed.
    pub async fn open(config: &LogCoreConfig, ring: &JournalConfig) -> Result<Journal, LogError> {
        let durable = config.durability == Durability::Durable;
        let file_bytes = u64::from(ring.file_bytes).next_multiple_of(BLOCK_BYTES as u64).max(ROOM_BYTES_MIN * 2);
        let shared = Rc::new(Shared {
            dir: config.dir.clone(),
            core: config.core.0,
            run: reactor::random_u64(),
            generation: config.start.generation,
            durable,
            file_bytes,
            files_max: ring.files_max.max(1),
            ring: RefCell::default(),
        });
        shared.add_file().await?;
        let journal = Journal { shared };
        assert!(journal.shared.rotate(), "a new file is free");
        Ok(journal)
    }

    /// Room for a commit, in the next file if this one is nearly full; `None` while the ring is full.
    pub fn room(&self) -> Option<Room> {
        let shared = &self.shared;
        let left = shared.file_bytes - shared.ring.borrow().position;
        if left < ROOM_BYTES_MIN && !shared.rotate() {
            return None;
        }
        let ring = shared.ring.borrow();
        let slot = ring.current();
        Some(Room {
            bytes: (shared.file_bytes - ring.position) as usize,
            map: slot.map.as_ref().map(|map| (Rc::clone(map), ring.position)),
            file_sequence: ring.file_sequence,
            seed: seed(shared.run, ring.commit_sequence + 1),
        })
    }

    /// Use of the oldest file if nothing can be written before logs let go of it.
    pub fn short_of(&self) -> Option<u64> {
        let ring = self.shared.ring.borrow();
        let oldest = ring.slots.front()?;
        let full = ring.made >= self.shared.files_max && oldest.sequence != ring.file_sequence;
        (full && oldest.pins > 0).then_some(oldest.sequence)
    }

    /// Use of the oldest file if it will be needed soon and logs have not let go of it; told once. A mapped file is memory:
    /// rather than making one more, those that are there are freed in time, and only if that fails there will be one more.
    pub fn needs_soon(&self) -> Option<u64> {
        let shared = &self.shared;
        let mut ring = shared.ring.borrow_mut();
        let oldest = ring.slots.front().map(|slot| (slot.sequence, slot.pins))?;
        if shared.durable || oldest.1 == 0 || oldest.0 == ring.file_sequence {
            return None;
        }
        if ring.position >= shared.file_bytes / 4 * 3 {
            shared.grow(&mut ring);
        }
        let ask = ring.position >= shared.file_bytes / 2 && ring.asked_for < oldest.0;
        if ask {
            ring.asked_for = oldest.0;
        }
        ask.then_some(oldest.0)
    }

    /// Counts a log that has records in this use of a file.
    pub fn pin(&self, file_sequence: u64) {
        self.shared.change_pins(file_sequence, 1);
    }

    /// A log's records in this use of a file have reached the segment or are void.
    pub fn unpin(&self, file_sequence: u64) {
        self.shared.change_pins(file_sequence, -1);
    }

    /// Bytes of the header that goes in front of the records of the next commit.
    pub fn begin(&self, body_len: u32, records: u32) -> [u8; HEADER_BYTES] {
        self.header(body_len, records, false).encode()
    }

    /// Puts the header in front of records that were copied into the mapped file, which makes a commit of them.
    pub fn commit_mapped(&self, body_len: u32, records: u32) -> Result<(), LogError> {
        let header = self.header(body_len, records, true);
        let mut ring = self.shared.ring.borrow_mut();
        let position = ring.position;
        ring.position = (position + header.total_len()).min(self.shared.file_bytes);
        let slot = ring.current();
        let map = slot.map.as_ref().expect("the room that the records were copied to is mapped");
        map.store(position, &header.encode()).context("write", &slot.path)
    }

    fn header(&self, body_len: u32, records: u32, packed: bool) -> CommitHeader {
        let shared = &self.shared;
        let mut ring = shared.ring.borrow_mut();
        ring.commit_sequence += 1;
        CommitHeader {
            core: shared.core,
            run: shared.run,
            generation: shared.generation,
            sequence: ring.commit_sequence,
            body_len,
            records,
            packed,
        }
    }

    /// Writes a commit, header and padding included, behind the one before.
    pub async fn write(&self, commit: AlignedBuf) -> Result<(), LogError> {
        let (file, path, position) = {
            let mut ring = self.shared.ring.borrow_mut();
            let position = ring.position;
            ring.position += commit.len() as u64;
            let slot = ring.current();
            (slot.file.clone(), slot.path.clone(), position)
        };
        let result = if self.shared.durable {
            file.write_all_at_durable(commit, position).await.0
        } else {
            file.write_all_at(commit, position).await.0
        };
        result.context("write", &path)
    }

    /// Removes the files, durably. Everything has reached the segments.
    pub async fn remove(&self) -> Result<(), LogError> {
        let slots = std::mem::take(&mut self.shared.ring.borrow_mut().slots);
        for slot in slots {
            fs::remove_file(&slot.path).await.context("remove", &slot.path)?;
        }
        fs::sync_dir(&self.shared.dir).await.context("sync", &self.shared.dir)
    }
}

impl Shared {
    fn change_pins(&self, file_sequence: u64, by: i32) {
        let mut ring = self.ring.borrow_mut();
        if let Some(slot) = ring.slots.iter_mut().find(|slot| slot.sequence == file_sequence) {
            slot.pins = slot.pins.checked_add_signed(by).expect("a log unpins what it pinned");
        }
    }

    /// Moves on to the oldest file if it is free; asks for another one when that was the last free one.
    fn rotate(self: &Rc<Shared>) -> bool {
        let mut ring = self.ring.borrow_mut();
        let current = ring.file_sequence;
        let free = |slot: &Slot| slot.pins == 0 && (slot.sequence != current || current == 0);
        if !ring.slots.front().is_some_and(free) {
            self.grow(&mut ring);
            return false;
        }
        let mut slot = ring.slots.pop_front().expect("the front was just looked at");
        ring.file_sequence += 1;
        ring.position = 0;
        slot.sequence = ring.file_sequence;
        ring.slots.push_back(slot);
        // Of mapped files there is a second one at least; more of them are asked for later, see `needs_soon`.
        let enough = !self.durable && ring.made >= 2;
        if !enough && !ring.slots.front().is_some_and(|slot| slot.pins == 0 && slot.sequence != ring.file_sequence) {
            self.grow(&mut ring);
        }
        true
    }

    fn grow(self: &Rc<Shared>, ring: &mut Ring) {
        if ring.growing || ring.made >= self.files_max || ring.made == 0 {
            return;
        }
        ring.growing = true;
        let shared = Rc::clone(self);
        spawn(Class::Normal, async move {
            let made = shared.add_file().await;
            shared.ring.borrow_mut().growing = false;
            if let Err(error) = made {
                tracing::warn!(dir = %shared.dir.display(), %error, "the journal cannot grow");
            }
        })
        .detach();
    }

    /// Makes one more file; it is the next to be used. One that is written directly is written once before, so that later
    /// writes change no metadata. One that is mapped has its blocks and no more: it is made in the middle of the load when the
    /// disk is late, and neither waits for the disk nor touches its pages here. A mebibyte of pages that the machine has to
    /// find first took a worker of the kernel 5 to 11 ms, in which nothing else ran on its CPU.
    async fn add_file(&self) -> Result<(), LogError> {
        let index = self.ring.borrow().made;
        let path = self.dir.join(names::journal_file(self.core, index));
        let mut file = make_file(&path, self.file_bytes, self.durable).await?;
        let mut map = None;
        if !self.durable {
            match MappedFile::new(&file, self.file_bytes) {
                Ok(mapped) => map = Some(Rc::new(mapped)),
                Err(error) => {
                    tracing::warn!(file = %path.display(), %error, "the journal cannot be mapped: it is written instead");
                    file = File::open(&path, DIRECT).await.context("open", &path)?;
                }
            }
        }
        if map.is_none() {
            prewrite(&file, &path, self.file_bytes).await?;
            fs::sync_dir(&self.dir).await.context("sync", &self.dir)?;
        }
        file.register();
        let mut ring = self.ring.borrow_mut();
        ring.made += 1;
        ring.slots.push_front(Slot { file, map, path, sequence: 0, pins: 0 });
        Ok(())
    }
}

async fn make_file(path: &Path, bytes: u64, direct: bool) -> Result<File, LogError> {
    let options = OpenOptions { create: true, truncate: true, direct, ..DIRECT };
    let file = File::open(path, options).await.context("create", path)?;
    file.allocate(0, bytes).await.context("allocate", path)?;
    Ok(file)
}

/// Writes all of a file once, durably.
async fn prewrite(file: &File, path: &Path, bytes: u64) -> Result<(), LogError> {
    let mut zeroes = AlignedBuf::with_capacity(PREWRITE_BYTES);
    zeroes.resize(PREWRITE_BYTES, 0);
    let zeroes: Bytes = zeroes.freeze();
    let mut position = 0;
    while position < bytes {
        let len = (bytes - position).min(PREWRITE_BYTES as u64) as usize;
        file.write_all_at(zeroes.slice(..len), position).await.0.context("write", path)?;
        position += len as u64;
    }
    file.sync_all().await.context("sync", path)
}
