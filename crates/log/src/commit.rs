//! The core's group commit. Appends only line their logs up; one task takes the line, puts what every log has into one
//! journal write, and while that is in flight the next line gathers. A log with much to write goes straight to its
//! segment instead, which saves writing those bytes twice.

use std::rc::Rc;

use base::Offset;
use reactor::sync::oneshot;
use reactor::{AlignedBuf, MappedFile};

use crate::LogError;
use crate::core::CoreInner;
use crate::format::journal::{HEADER_BYTES, RecordHeader, record_len};
use crate::journal::Room;
use crate::log::LogInner;

/// Bytes of one log from which on it is written straight to its segment. Batches of 64 KiB are acknowledged sooner by way of
/// the journal, at the same CPU time; for those of 128 KiB there is no difference, and the journal would double the traffic to
/// the disk.
pub(crate) const DIRECT_BYTES_MIN: u64 = 96 << 10;
/// Bytes of one journal write at most: more would make the first in line wait for the last.
const COMMIT_BYTES_MAX: usize = 1 << 20;
/// Room a commit's buffer begins with, in bytes.
const COMMIT_BYTES_FIRST: usize = 128 << 10;

/// What one commit has of one log.
struct Part {
    log: Rc<LogInner>,
    from: Offset,
    to: Offset,
}

/// Where a commit is put together.
enum Sink {
    /// In a buffer that is written at the end.
    Buffer(AlignedBuf),
    /// Right in the file, which is mapped, at this position; the header that makes it a commit comes last.
    Mapped(Rc<MappedFile>, u64),
}

/// A commit that is being put together.
pub(crate) struct Builder {
    sink: Sink,
    /// Bytes so far, those of the commit's header included.
    len: usize,
    /// Why something could not be stored.
    failed: Option<std::io::Error>,
    records: u32,
    parts: Vec<Part>,
    told: Vec<oneshot::Sender<()>>,
    room: Room,
}

/// A record without batches that waits for the next commit, and who waits for it to be written.
pub(crate) struct Note {
    pub record: RecordHeader,
    pub written: oneshot::Sender<()>,
}

impl Builder {
    fn new(mut room: Room) -> Builder {
        room.bytes = room.bytes.min(COMMIT_BYTES_MAX);
        let sink = match room.map.take() {
            Some((map, position)) => Sink::Mapped(map, position),
            None => {
                let mut buf = AlignedBuf::with_capacity(COMMIT_BYTES_FIRST.min(room.bytes));
                buf.resize(HEADER_BYTES, 0);
                Sink::Buffer(buf)
            }
        };
        let (parts, told) = (Vec::new(), Vec::new());
        let mut builder = Builder { sink, len: HEADER_BYTES, failed: None, records: 0, parts, told, room };
        // What stood there before must not be taken for a commit while its records are being overwritten.
        builder.store(0, &[0; HEADER_BYTES]);
        builder
    }

    /// Stores in the mapped file, `at` bytes behind where the commit begins; nothing to do for a buffer.
    fn store(&mut self, at: usize, bytes: &[u8]) {
        if let Sink::Mapped(map, position) = &self.sink
            && self.failed.is_none()
        {
            self.failed = map.store(position + at as u64, bytes).err();
        }
    }

    /// Do records with bodies of these many bytes fit?
    pub fn fits(&self, bodies: impl Iterator<Item = usize>) -> bool {
        self.len + bodies.map(record_len).sum::<usize>() <= self.room.bytes
    }

    /// True before the first record.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The use of the journal file that this commit goes to.
    pub fn file_sequence(&self) -> u64 {
        self.room.file_sequence
    }

    /// Adds a record; `body` shows its batches piece by piece. It must fit.
    pub fn push(&mut self, header: &RecordHeader, body: impl FnOnce(&mut dyn FnMut(&[u8]))) {
        let end = self.len + record_len(header.body_len as usize);
        assert!(end <= self.room.bytes, "a record that ends at {end} in a commit of {} bytes", self.room.bytes);
        let head = header.encode(self.room.seed);
        match &mut self.sink {
            Sink::Buffer(buf) => {
                if end > buf.capacity() {
                    let mut larger = AlignedBuf::with_capacity(end.max(buf.capacity() * 2).min(COMMIT_BYTES_MAX));
                    larger.extend_from_slice(buf);
                    *buf = larger;
                }
                buf.extend_from_slice(&head);
                body(&mut |piece| buf.extend_from_slice(piece));
                buf.resize(end, 0);
            }
            Sink::Mapped(..) => {
                let mut at = self.len;
                self.store(at, &head);
                at += head.len();
                body(&mut |piece| {
                    self.store(at, piece);
                    at += piece.len();
                });
            }
        }
        self.len = end;
        self.records += 1;
    }

    /// Notes what to tell a log when the commit is written.
    pub fn tell(&mut self, log: Rc<LogInner>, from: Offset, to: Offset) {
        self.parts.push(Part { log, from, to });
    }
}

/// What a log answered when its turn came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// It has nothing more for the journal.
    Done,
    /// It did not fit; it wants to be first next time.
    Later,
}

/// Runs the commits of a core until it closes.
pub(crate) async fn run(core: Rc<CoreInner>) {
    loop {
        let notes = !core.notes.borrow().is_empty();
        if core.commit_line.borrow().is_empty() && !(notes && core.journal_has_room()) {
            if core.closing.get() {
                return;
            }
            core.commit_wanted.notified().await;
            continue;
        }
        let Some(builder) = gather(&core) else { continue };
        write(&core, builder).await;
    }
}

/// Takes the line as far as one commit goes.
fn gather(core: &Rc<CoreInner>) -> Option<Builder> {
    let room = core.journal.as_ref().and_then(crate::journal::Journal::room);
    let mut builder = room.map(Builder::new);
    while let Some(builder) = builder.as_mut().filter(|builder| builder.fits([0].into_iter())) {
        let Some(note) = core.notes.borrow_mut().pop_front() else { break };
        builder.push(&note.record, |_| {});
        builder.told.push(note.written);
    }
    loop {
        let Some(log) = core.commit_line.borrow_mut().pop_front() else { break };
        log.in_line.set(false);
        if log.take_turn(builder.as_mut()) == Turn::Later {
            log.in_line.set(true);
            core.commit_line.borrow_mut().push_front(log);
            break;
        }
    }
    builder.filter(|builder| !builder.is_empty())
}

fn failed_write(core: &CoreInner, error: &std::io::Error) -> LogError {
    crate::io::failed("write", &core.config.dir, error)
}

async fn write(core: &Rc<CoreInner>, builder: Builder) {
    let journal = core.journal.as_ref().expect("only a journal gives room for a commit");
    let Builder { sink, len, failed, records, parts, told, .. } = builder;
    let body_len = (len - HEADER_BYTES) as u32;
    let written = match (sink, failed) {
        (Sink::Buffer(mut buf), _) => {
            buf[..HEADER_BYTES].copy_from_slice(&journal.begin(body_len, records));
            buf.pad_to_alignment();
            journal.write(buf).await
        }
        (Sink::Mapped(..), None) => journal.commit_mapped(body_len, records),
        (Sink::Mapped(..), Some(error)) => Err(failed_write(core, &error)),
    };
    if let Err(error) = written {
        core.fence(&format!("the journal cannot be written: {error}"));
        return;
    }
    for part in parts {
        part.log.journaled(part.from, part.to);
    }
    for written in told {
        // Whoever asked may have been dropped meanwhile.
        let _ = written.send(());
    }
    if let Some(file_sequence) = journal.short_of().or_else(|| journal.needs_soon()) {
        core.flush_pinning(file_sequence);
    }
}
