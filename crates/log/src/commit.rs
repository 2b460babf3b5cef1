//! The core's group commit. Appends only line their logs up; one task takes the line, puts what every log has into one
//! journal write, and while that is in flight the next line gathers. A log with much to write goes straight to its
//! segment instead, which saves writing those bytes twice.

use std::rc::Rc;

use base::Offset;
use reactor::AlignedBuf;
use reactor::sync::oneshot;

use crate::core::CoreInner;
use crate::format::journal::{HEADER_BYTES, RecordHeader, record_len};
use crate::journal::Room;
use crate::log::LogInner;

/// Bytes of one log from which on it is written straight to its segment: a direct write of this size costs about what its
/// share of a journal write and of the later write behind would.
pub(crate) const DIRECT_BYTES_MIN: u64 = 64 << 10;
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

/// A commit that is being put together.
pub(crate) struct Builder {
    buf: AlignedBuf,
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
        let mut buf = AlignedBuf::with_capacity(COMMIT_BYTES_FIRST.min(room.bytes));
        buf.resize(HEADER_BYTES, 0);
        Builder { buf, records: 0, parts: Vec::new(), told: Vec::new(), room }
    }

    /// Do records with bodies of these many bytes fit?
    pub fn fits(&self, bodies: impl Iterator<Item = usize>) -> bool {
        self.buf.len() + bodies.map(record_len).sum::<usize>() <= self.room.bytes
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
        let end = self.buf.len() + record_len(header.body_len as usize);
        assert!(end <= self.room.bytes, "a record that ends at {end} in a commit of {} bytes", self.room.bytes);
        if end > self.buf.capacity() {
            let mut larger = AlignedBuf::with_capacity(end.max(self.buf.capacity() * 2).min(COMMIT_BYTES_MAX));
            larger.extend_from_slice(&self.buf);
            self.buf = larger;
        }
        self.buf.extend_from_slice(&header.encode(self.room.seed));
        body(&mut |piece| self.buf.extend_from_slice(piece));
        self.buf.resize(end, 0);
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

async fn write(core: &Rc<CoreInner>, builder: Builder) {
    let journal = core.journal.as_ref().expect("only a journal gives room for a commit");
    let Builder { mut buf, records, parts, told, .. } = builder;
    let body_len = (buf.len() - HEADER_BYTES) as u32;
    buf[..HEADER_BYTES].copy_from_slice(&journal.begin(body_len, records));
    buf.pad_to_alignment();
    if let Err(error) = journal.write(buf).await {
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
    if let Some(file_sequence) = journal.short_of() {
        core.flush_pinning(file_sequence);
    }
}
