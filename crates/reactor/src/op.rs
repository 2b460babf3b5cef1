//! Operations in flight and the memory they point to.
//!
//! The table owns everything an operation touches (buffers, paths, addresses, descriptors) from submission until the
//! completion arrives. A future that is dropped before only marks its operation as an orphan and asks for cancellation;
//! the memory is released when the completion comes in.

use std::ffi::CString;
use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};

use crate::buf::AlignedBuf;
use crate::percore::{self, Core};

/// A descriptor of the backend: a real one, or a handle of the simulation. Closed when the last owner is gone, and an
/// operation in flight is an owner.
pub(crate) struct Fd {
    core: Rc<Core>,
    raw: i32,
    /// Index in the ring's table of registered files, or -1.
    fixed: std::cell::Cell<i32>,
    /// The last receive took all there was: the next one had better wait for more than look first.
    drained: std::cell::Cell<bool>,
}

impl Fd {
    pub fn new(core: Rc<Core>, raw: i32) -> Rc<Fd> {
        Rc::new(Fd { core, raw, fixed: std::cell::Cell::new(-1), drained: std::cell::Cell::new(false) })
    }

    pub fn raw(&self) -> i32 {
        self.raw
    }

    pub fn core(&self) -> &Rc<Core> {
        &self.core
    }

    pub fn fixed(&self) -> Option<u32> {
        u32::try_from(self.fixed.get()).ok()
    }

    pub fn is_drained(&self) -> bool {
        self.drained.get()
    }

    pub fn set_drained(&self, drained: bool) {
        self.drained.set(drained);
    }

    /// Enters the descriptor into the ring's table of registered files; false when there is no room.
    pub fn register(&self) -> bool {
        if self.fixed().is_none()
            && let Some(index) = self.core.register_file(self.raw)
        {
            self.fixed.set(index as i32);
        }
        self.fixed().is_some()
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        if let Some(index) = self.fixed() {
            self.core.unregister_file(index);
        }
        self.core.close(self.raw);
    }
}

/// A pipe whose both ends this core owns. An operation on one end keeps both: closing one waits for the other's user in the
/// kernel.
pub(crate) struct Pipe {
    pub read: Rc<Fd>,
    pub write: Rc<Fd>,
    /// What it holds at most.
    pub bytes: usize,
}

/// What an operation does; the memory it works on is the [`Held`] beside it. A `WillRead` never reaches the simulation, whose
/// disk has nothing to hurry.
pub(crate) enum Request {
    Open { flags: i32, mode: u32 },
    Read { fd: Rc<Fd>, off: u64, len: usize },
    Write { fd: Rc<Fd>, off: u64, start: usize, durable: bool },
    Writev { fd: Rc<Fd>, off: u64, durable: bool },
    Fsync { fd: Rc<Fd>, data_only: bool },
    Allocate { fd: Rc<Fd>, off: u64, len: u64 },
    Truncate { fd: Rc<Fd>, len: u64 },
    WillRead { fd: Rc<Fd>, off: u64, len: u64 },
    Stat,
    Rename,
    Unlink { dir: bool },
    Mkdir,
    Accept { fd: Rc<Fd> },
    Connect { fd: Rc<Fd> },
    Recv { fd: Rc<Fd> },
    Send { fd: Rc<Fd> },
    SpliceIn { file: Rc<Fd>, off: u64, pipe: Rc<Pipe>, len: u32 },
    SpliceOut { pipe: Rc<Pipe>, socket: Rc<Fd>, len: u32, more: bool },
    Writable { socket: Rc<Fd> },
}

impl Request {
    /// True when a non-negative result is a new descriptor.
    pub fn makes_fd(&self) -> bool {
        matches!(self, Request::Open { .. } | Request::Accept { .. })
    }

    /// True for operations that may wait for a peer for ever: these are cancelled when nobody waits for them.
    pub fn waits_for_peer(&self) -> bool {
        matches!(
            self,
            Request::Accept { .. }
                | Request::Connect { .. }
                | Request::Recv { .. }
                | Request::Send { .. }
                | Request::SpliceOut { .. }
                | Request::Writable { .. }
        )
    }
}

/// Buffers that leave as one gathered write, from `next` on; the first one may be partly gone.
pub struct IovHeld {
    pub chunks: Vec<Bytes>,
    pub next: usize,
    pub iovecs: Vec<libc::iovec>,
    pub header: MaybeUninit<libc::msghdr>,
}

impl IovHeld {
    pub fn new(mut chunks: Vec<Bytes>) -> Box<IovHeld> {
        chunks.retain(|chunk| !chunk.is_empty());
        Box::new(IovHeld { chunks, next: 0, iovecs: Vec::new(), header: MaybeUninit::uninit() })
    }

    pub fn is_done(&self) -> bool {
        self.next == self.chunks.len()
    }

    /// Takes `written` bytes off the front; buffers that are gone are released at once.
    pub fn advance(&mut self, mut written: usize) {
        while written > 0 {
            let chunk = &mut self.chunks[self.next];
            if written < chunk.len() {
                let _gone = chunk.split_to(written);
                return;
            }
            written -= chunk.len();
            *chunk = Bytes::new();
            self.next += 1;
        }
    }
}

/// Facts about a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    pub len: u64,
    pub is_dir: bool,
}

/// Paths of a file system operation and the answer of a stat.
pub struct PathHeld {
    pub path: CString,
    pub to: CString,
    pub statx: MaybeUninit<libc::statx>,
    pub found: Option<Found>,
}

impl PathHeld {
    pub fn new(path: CString) -> Box<PathHeld> {
        PathHeld::pair(path, CString::default())
    }

    pub fn pair(path: CString, to: CString) -> Box<PathHeld> {
        Box::new(PathHeld { path, to, statx: MaybeUninit::uninit(), found: None })
    }
}

/// A socket address in the kernel's form, and in ours once it is known.
pub struct AddrHeld {
    pub storage: MaybeUninit<libc::sockaddr_storage>,
    pub len: libc::socklen_t,
    pub address: Option<SocketAddr>,
}

/// Memory of an operation.
pub enum Held {
    Nothing,
    Bytes(Bytes),
    BytesMut(BytesMut),
    Vec(Vec<u8>),
    Aligned(AlignedBuf),
    Iov(Box<IovHeld>),
    Path(Box<PathHeld>),
    Addr(Box<AddrHeld>),
}

impl Held {
    /// The bytes a write takes.
    pub fn filled(&self) -> &[u8] {
        match self {
            Held::Bytes(b) => b,
            Held::BytesMut(b) => b,
            Held::Vec(b) => b,
            Held::Aligned(b) => b,
            Held::Nothing | Held::Iov(_) | Held::Path(_) | Held::Addr(_) => &[],
        }
    }

    /// The room a read fills: what is free behind the bytes that are there.
    pub fn spare(&mut self) -> &mut [MaybeUninit<u8>] {
        match self {
            Held::BytesMut(b) => b.spare_capacity_mut(),
            Held::Vec(b) => b.spare_capacity_mut(),
            Held::Aligned(b) => b.spare_capacity_mut(),
            Held::Nothing | Held::Bytes(_) | Held::Iov(_) | Held::Path(_) | Held::Addr(_) => &mut [],
        }
    }

    /// Appends bytes within the capacity (what a simulated read does).
    pub fn append(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.spare().len(), "a read of {} bytes into less room", bytes.len());
        match self {
            Held::BytesMut(b) => b.extend_from_slice(bytes),
            Held::Vec(b) => b.extend_from_slice(bytes),
            Held::Aligned(b) => b.extend_from_slice(bytes),
            Held::Nothing | Held::Bytes(_) | Held::Iov(_) | Held::Path(_) | Held::Addr(_) => {}
        }
    }

    pub fn iov(&mut self) -> &mut IovHeld {
        match self {
            Held::Iov(iov) => iov,
            _ => panic!("this operation holds a list of buffers"),
        }
    }

    pub fn path(&mut self) -> &mut PathHeld {
        match self {
            Held::Path(path) => path,
            _ => panic!("this operation holds a path"),
        }
    }

    pub fn addr(&mut self) -> &mut AddrHeld {
        match self {
            Held::Addr(addr) => addr,
            _ => panic!("this operation holds an address"),
        }
    }
}

/// Names an operation; travels through the ring as its user data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct OpId {
    pub index: u32,
    /// Below 2^31, so that the ring's own user data never looks like an operation.
    pub generation: u32,
}

enum State {
    InFlight(Option<Waker>),
    Done(i32),
    /// The future is gone; the memory waits for the completion.
    Orphan,
    Vacant,
}

struct Slot {
    generation: u32,
    state: State,
    request: Option<Request>,
    held: Held,
}

/// The operations of one core.
#[derive(Default)]
pub(crate) struct OpTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
    in_flight: usize,
}

impl OpTable {
    pub fn insert(&mut self, request: Request, held: Held) -> OpId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, state: State::Vacant, request: None, held: Held::Nothing });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.state = State::InFlight(None);
        slot.request = Some(request);
        slot.held = held;
        self.in_flight += 1;
        OpId { index, generation: slot.generation }
    }

    fn slot(&mut self, id: OpId) -> &mut Slot {
        let slot = &mut self.slots[id.index as usize];
        assert!(
            slot.generation == id.generation && !matches!(slot.state, State::Vacant),
            "operation {id:?} is not in the table (generation {})",
            slot.generation
        );
        slot
    }

    /// Operations the backend has not completed, orphans included.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Ids of the operations in flight.
    pub fn ids_in_flight(&self) -> Vec<OpId> {
        let live = |slot: &Slot| matches!(slot.state, State::InFlight(_) | State::Orphan);
        let named = self.slots.iter().enumerate().filter(|(_, slot)| live(slot));
        named.map(|(index, slot)| OpId { index: index as u32, generation: slot.generation }).collect()
    }

    /// What an operation in flight does and the memory it does it with.
    pub fn parts(&mut self, id: OpId) -> (&Request, &mut Held) {
        let slot = self.slot(id);
        (slot.request.as_ref().expect("an operation in flight has a request"), &mut slot.held)
    }

    /// Has the operation not completed yet?
    pub fn is_in_flight(&self, id: OpId) -> bool {
        self.slots.get(id.index as usize).is_some_and(|slot| {
            slot.generation == id.generation && matches!(slot.state, State::InFlight(_) | State::Orphan)
        })
    }

    /// Records a completion. Gives back the waker of the future, or the memory of an orphan.
    pub fn complete(&mut self, id: OpId, result: i32) -> (Option<Waker>, Option<(Request, Held)>) {
        self.in_flight -= 1;
        let slot = self.slot(id);
        match std::mem::replace(&mut slot.state, State::Done(result)) {
            State::InFlight(waker) => (waker, None),
            State::Orphan => (None, Some(self.vacate(id))),
            State::Done(before) => panic!("operation {id:?} completed twice: {before}, {result}"),
            State::Vacant => unreachable!("slot() refuses vacant slots"),
        }
    }

    fn vacate(&mut self, id: OpId) -> (Request, Held) {
        let slot = self.slot(id);
        slot.state = State::Vacant;
        slot.generation = (slot.generation + 1) & 0x7fff_ffff;
        let request = slot.request.take().expect("an operation has a request until it is vacated");
        let held = std::mem::replace(&mut slot.held, Held::Nothing);
        self.free.push(id.index);
        (request, held)
    }

    fn poll(&mut self, id: OpId, cx: &Context<'_>) -> Poll<(i32, Request, Held)> {
        let slot = self.slot(id);
        match &mut slot.state {
            State::InFlight(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => *waker = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
            State::Done(result) => {
                let result = *result;
                let (request, held) = self.vacate(id);
                Poll::Ready((result, request, held))
            }
            State::Orphan | State::Vacant => unreachable!("the future of {id:?} is alive"),
        }
    }

    /// The future is gone. Says whether to cancel, or gives the memory and result of a completed operation back.
    fn abandon(&mut self, id: OpId) -> Abandoned {
        let slot = self.slot(id);
        match slot.state {
            State::InFlight(_) => {
                slot.state = State::Orphan;
                let cancel = slot.request.as_ref().is_some_and(Request::waits_for_peer);
                Abandoned::InFlight { cancel }
            }
            State::Done(result) => {
                let (request, held) = self.vacate(id);
                Abandoned::Done { result, request, held }
            }
            State::Orphan | State::Vacant => unreachable!("the future of {id:?} is alive"),
        }
    }
}

enum Abandoned {
    InFlight { cancel: bool },
    Done { result: i32, request: Request, held: Held },
}

/// The future of one operation: gives the backend's result (a negative number is an errno) and the memory back.
pub(crate) struct Op {
    core: Rc<Core>,
    id: Option<OpId>,
}

impl Op {
    /// Starts an operation on the current core.
    pub fn start(request: Request, held: Held) -> Op {
        Op::start_on(percore::current(), request, held)
    }

    /// Starts an operation on `core`, the one its descriptors belong to.
    pub fn start_on(core: Rc<Core>, request: Request, held: Held) -> Op {
        let id = core.start_op(request, held);
        Op { core, id: Some(id) }
    }
}

impl Op {
    /// Asks for an early end. The completion still comes, with what was done or ECANCELED, and gives the memory back.
    pub fn end_early(&self) {
        if let Some(id) = self.id
            && self.core.ops.borrow().is_in_flight(id)
        {
            self.core.cancel_op(id);
        }
    }
}

impl Future for Op {
    type Output = (i32, Held);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<(i32, Held)> {
        let id = self.id.expect("an operation is not polled after it gave its result");
        let polled = self.core.ops.borrow_mut().poll(id, cx);
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready((result, request, held)) => {
                self.id = None;
                // The request may own the last reference of a descriptor, whose close must not find the table borrowed.
                drop(request);
                Poll::Ready((result, held))
            }
        }
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let abandoned = self.core.ops.borrow_mut().abandon(id);
        match abandoned {
            Abandoned::InFlight { cancel } => {
                self.core.counters.add(|c| c.ops_orphaned += 1);
                if cancel {
                    self.core.cancel_op(id);
                }
            }
            Abandoned::Done { result, request, held } => {
                if request.makes_fd() && result >= 0 {
                    self.core.close(result);
                }
                drop((request, held));
            }
        }
    }
}

/// A backend's result as Rust's.
pub(crate) fn check(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}
