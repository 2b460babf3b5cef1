//! One connection: a reading half that frames, admits and starts requests, and a writing half that answers them in order.
//!
//! Both halves are futures of one task, so handing a response from one to the other costs no wake-up.

use crate::counts::Counted;
use crate::frame::{FrameError, FrameReader, Progress};
use crate::registry::{NetCore, Registry};
use crate::service::{ConnectionInfo, Outgoing, Reply, Request, Response, Service};
use base::Few;
use bytes::Bytes;
use reactor::net::TcpStream;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use wire::Segment;

/// Requests of one connection that may wait for their response at once. Clients default to 5 (Java) or send as fast as
/// they can (librdkafka); past some dozens nothing is gained and a connection's share of memory grows.
const IN_FLIGHT_MAX: usize = 64;

/// How far ahead of a file range that is being sent the disk reads: as much as clients ask for of a partition by default
/// (`max.partition.fetch.bytes`).
const READ_AHEAD_BYTES: u64 = 1 << 20;

/// Responses that are sent by one system call when they are ready together.
const BATCHED_RESPONSES_MAX: usize = 32;

/// Replies in the order of their requests. Most connections have one request on its way at most; its reply lies inside, and
/// thousands of idle connections keep no queue.
#[derive(Default)]
struct Replies {
    first: Option<Reply>,
    /// Empty while there is no first one.
    rest: VecDeque<Reply>,
}

impl Replies {
    fn push(&mut self, reply: Reply) {
        match &self.first {
            None => self.first = Some(reply),
            Some(_) => self.rest.push_back(reply),
        }
    }

    /// Takes the first response if it is known.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Response> {
        let response = match self.first.take() {
            Some(Reply::Ready(response)) => response,
            Some(Reply::Later(mut later)) => match later.as_mut().poll(cx) {
                Poll::Ready(response) => response,
                Poll::Pending => {
                    self.first = Some(Reply::Later(later));
                    return Poll::Pending;
                }
            },
            None => return Poll::Pending,
        };
        self.first = self.rest.pop_front();
        Poll::Ready(response)
    }
}

/// What the two halves of a connection, and the registry, share.
pub(crate) struct Link {
    pub(crate) stream: TcpStream,
    /// Monotonic milliseconds at which bytes last arrived or a response was sent.
    pub(crate) active_ms: Cell<u64>,
    /// Requests begun and not yet answered.
    in_flight: Cell<usize>,
    /// The one request in flight tolerates no other beside it.
    exclusive: Cell<bool>,
    replies: RefCell<Replies>,
    /// Set when one half did something the other may wait for.
    kick: Cell<bool>,
    /// No further request is begun; the connection ends when those in flight are answered.
    draining: Cell<bool>,
    /// Memory was granted for a frame that is not complete.
    pub(crate) holds_memory: Cell<bool>,
    /// Bytes of the buffer that waits for the next frame.
    pub(crate) buffer_bytes: Cell<usize>,
    /// That buffer is to be exchanged for a small one.
    slimming: Cell<bool>,
    /// The connection ends at its next step.
    killed: Cell<bool>,
    /// The connection does not make room for those of its listener.
    pub(crate) is_protected: bool,
    waker: RefCell<Option<Waker>>,
}

impl Link {
    fn new(stream: TcpStream, now_ms: u64, is_protected: bool) -> Link {
        Link {
            stream,
            active_ms: Cell::new(now_ms),
            in_flight: Cell::new(0),
            exclusive: Cell::new(false),
            replies: RefCell::default(),
            kick: Cell::new(false),
            draining: Cell::new(false),
            holds_memory: Cell::new(false),
            buffer_bytes: Cell::new(0),
            slimming: Cell::new(false),
            killed: Cell::new(false),
            is_protected,
            waker: RefCell::new(None),
        }
    }

    /// True when a request waits for its response.
    pub(crate) fn busy(&self) -> bool {
        self.in_flight.get() > 0
    }

    /// True when the connection is about to end.
    pub(crate) fn killed(&self) -> bool {
        self.killed.get()
    }

    /// Ends the connection, whatever it waits for.
    pub(crate) fn kill(&self) {
        self.killed.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Has the connection let go of a large buffer that waits for a next frame.
    pub(crate) fn slim(&self) {
        self.slimming.set(true);
        let waker = self.waker.borrow().clone();
        waker.into_iter().for_each(Waker::wake);
    }

    /// Ends the connection: at once when nothing is in flight, else after the last response.
    pub(crate) fn drain(&self) {
        self.draining.set(true);
        if !self.busy() {
            self.kill();
        }
    }

    fn may_begin(&self, overlaps: bool) -> bool {
        match self.in_flight.get() {
            0 => true,
            n => overlaps && !self.exclusive.get() && n < IN_FLIGHT_MAX,
        }
    }

    fn begin(&self, overlaps: bool) {
        self.in_flight.set(self.in_flight.get() + 1);
        self.exclusive.set(!overlaps);
    }

    fn answered(&self, count: usize) {
        assert!(count <= self.in_flight.get(), "{count} answers to {} requests", self.in_flight.get());
        self.in_flight.set(self.in_flight.get() - count);
        self.active_ms.set(reactor::now().mono_ms());
        self.kick.set(true);
        if self.draining.get() && !self.busy() {
            self.killed.set(true);
        }
    }
}

/// Waits inside the connection's task until `ready` holds; looked at again whenever either half made a step.
fn until(ready: impl Fn() -> bool) -> impl Future<Output = ()> {
    poll_fn(move |_| if ready() { Poll::Ready(()) } else { Poll::Pending })
}

/// Why the reading half stopped.
#[derive(Debug)]
enum End {
    /// The peer closed, or we shut the socket down.
    Closed,
    /// The socket failed.
    Io(io::Error),
    /// The bytes are not frames.
    Frame(FrameError),
}

/// Serves a connection until it ends. Not an `async fn`, whose arguments would lie beside what is made of them for as long as the
/// connection lasts, and there are thousands.
pub(crate) fn serve<S: Service>(
    core: Rc<NetCore<S>>,
    stream: TcpStream,
    info: ConnectionInfo,
    counted: Counted,
) -> impl Future<Output = ()> {
    let link = Rc::new(Link::new(stream, reactor::now().mono_ms(), counted.is_protected));
    let registered = Registry::enter(&core.registry, info.id, link.clone());
    let session = Rc::new(core.service.open(info.clone()));
    async move {
        let end = run(&core, &link, &session).await;
        told(&core, &info, end);
        // The peer gets an orderly end even when bytes of its are left unread.
        if let Err(error) = link.stream.shutdown() {
            tracing::trace!(connection = info.id, %error, "the socket was down already");
        }
        drop((registered, counted));
    }
}

/// Logs why a connection ended.
fn told<S: Service>(core: &NetCore<S>, info: &ConnectionInfo, end: End) {
    match end {
        End::Closed => tracing::debug!(connection = info.id, peer = %info.peer, "closed"),
        End::Io(error) => tracing::debug!(connection = info.id, peer = %info.peer, %error, "socket failed"),
        End::Frame(error) => {
            if let Some(held_back) = core.bad_frames.open(reactor::now()) {
                tracing::warn!(peer = %info.peer, listener = %info.listener, %error, held_back, "closing a connection that does not speak the protocol");
            }
        }
    }
}

/// Drives both halves in one task. The end of either ends the connection.
async fn run<S: Service>(core: &Rc<NetCore<S>>, link: &Rc<Link>, session: &Rc<S::Session>) -> End {
    let mut reading = pin!(read_requests(core, link, session));
    let mut writing = pin!(write_responses(link));
    poll_fn(|cx: &mut Context<'_>| {
        loop {
            if link.killed.get() {
                return Poll::Ready(End::Closed);
            }
            link.kick.set(false);
            if let Poll::Ready(end) = reading.as_mut().poll(cx) {
                return Poll::Ready(end);
            }
            if let Poll::Ready(result) = writing.as_mut().poll(cx) {
                return Poll::Ready(result.map_or_else(End::Io, |()| End::Closed));
            }
            if !link.kick.get() {
                if link.waker.borrow().is_none() {
                    *link.waker.borrow_mut() = Some(cx.waker().clone());
                }
                return Poll::Pending;
            }
        }
    })
    .await
}

async fn read_requests<S: Service>(core: &Rc<NetCore<S>>, link: &Rc<Link>, session: &Rc<S::Session>) -> End {
    let mut reader = FrameReader::new(core.limits.frame_bytes_max);
    let mut permit = None;
    loop {
        match reader.advance() {
            Err(error) => return End::Frame(error),
            Ok(Progress::More) => {
                let buf = reader.lend();
                link.buffer_bytes.set(buf.capacity());
                link.slimming.set(false);
                let (result, buf) = link.stream.recv_unless(buf, || link.slimming.get()).await;
                match result {
                    Ok(Some(0)) => return End::Closed,
                    Ok(Some(n)) => reader.give_back(buf, n),
                    Ok(None) => {
                        reader.give_back(buf, 0);
                        reader.slim();
                        continue;
                    }
                    Err(error) => return End::Io(error),
                }
                link.active_ms.set(reactor::now().mono_ms());
            }
            Ok(Progress::Admit(bytes)) => {
                // A place in line is made only where there is a line.
                permit = Some(match core.admission.try_acquire(bytes) {
                    Some(permit) => permit,
                    None => core.admission.acquire(bytes).await,
                });
                link.holds_memory.set(true);
                reader.admit();
            }
            Ok(Progress::Frame(frame)) => {
                link.holds_memory.set(false);
                let overlaps = core.service.overlaps(session, &frame);
                until(|| link.may_begin(overlaps) && !link.draining.get()).await;
                link.begin(overlaps);
                let permit = permit.take().expect("a frame is read after its memory was granted");
                let request = Request { frame, permit, received: reactor::now() };
                let reply = core.service.start(session, request);
                link.replies.borrow_mut().push(reply);
            }
        }
    }
}

/// Responses that leave together.
#[derive(Default)]
struct Gathered {
    /// How many.
    count: usize,
    /// Their bytes.
    pieces: Few<Bytes>,
    /// The last of them, if it has ranges of files.
    with_files: Option<Box<Outgoing>>,
    /// The last of them is the end of the connection.
    close: bool,
}

impl Gathered {
    fn add(&mut self, response: Response) {
        self.count += 1;
        match response {
            Response::Send(out) if out.files.is_empty() => {
                self.pieces.extend(out.segments.into_iter().filter_map(in_memory));
            }
            Response::Send(out) => self.with_files = Some(Box::new(out)),
            Response::Close => self.close = true,
            Response::Nothing => {}
        }
    }

    fn is_full(&self) -> bool {
        self.count == BATCHED_RESPONSES_MAX || self.with_files.is_some() || self.close
    }
}

/// Waits for the next response in order and takes those ready behind it.
async fn next_responses(link: &Link) -> Gathered {
    poll_fn(|cx| {
        let mut gathered = Gathered::default();
        while !gathered.is_full() {
            let Poll::Ready(response) = link.replies.borrow_mut().poll(cx) else { break };
            gathered.add(response);
        }
        if gathered.count == 0 { Poll::Pending } else { Poll::Ready(gathered) }
    })
    .await
}

async fn write_responses(link: &Link) -> io::Result<()> {
    loop {
        let Gathered { count, mut pieces, with_files, close } = next_responses(link).await;
        if let Some(out) = with_files {
            // Boxed: what a splice keeps is large, and most connections never send a file.
            pieces = Box::pin(send_with_files(link, pieces, *out)).await?;
        }
        send(link, pieces).await?;
        if close {
            return Ok(());
        }
        link.answered(count);
    }
}

/// Sends what was gathered; most often that is one piece.
async fn send(link: &Link, pieces: Few<Bytes>) -> io::Result<()> {
    match pieces.into_only() {
        Ok(only) => link.stream.send(only).await,
        Err(pieces) if pieces.is_empty() => Ok(()),
        // Boxed: few answers are in pieces.
        Err(pieces) => Box::pin(link.stream.send_all(pieces.into_iter().collect())).await,
    }
}

fn in_memory(segment: Segment) -> Option<Bytes> {
    match segment {
        Segment::Bytes(bytes) => Some(bytes),
        Segment::External { .. } => None,
    }
}

/// Adds a response to `pieces`; a file range in it forces out what was gathered before.
async fn send_with_files(link: &Link, mut pieces: Few<Bytes>, out: Outgoing) -> io::Result<Few<Bytes>> {
    let mut first_end = None;
    for segment in out.segments {
        match segment {
            Segment::Bytes(bytes) => pieces.push(bytes),
            Segment::External { len, token } => {
                let at = token as usize;
                let range = &out.files[at];
                let end = *first_end.get_or_insert(range.offset + u64::from(len));
                send(link, std::mem::take(&mut pieces)).await?;
                // The disk gets to the next range while this one is sent. Behind the last one that is what such a client, which
                // goes through its partitions in order, asks for next.
                match out.files.get(at + 1) {
                    Some(next) => next.file.will_read(next.offset, READ_AHEAD_BYTES),
                    None => out.files[0].file.will_read(end, READ_AHEAD_BYTES),
                }
                link.stream.splice_from(&range.file, range.offset, u64::from(len)).await?;
            }
        }
    }
    Ok(pieces)
}
