//! What a connection asks of the protocol above it, and what it is given to send.

use crate::admission::Permit;
use crate::counts::EntryLimits;
use base::{Few, Now};
use bytes::Bytes;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use wire::Segment;

/// Who is on the other end, fixed for the life of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// Number of the connection on its core, for log lines.
    pub id: u64,
    /// The peer's address.
    pub peer: SocketAddr,
    /// The address the peer connected to.
    pub local: SocketAddr,
    /// Name of the listener, as in `listeners`.
    pub listener: Rc<str>,
}

/// One frame, with the memory admitted for it.
#[derive(Debug)]
pub struct Request {
    /// The frame without its length prefix.
    pub frame: Bytes,
    /// To be kept as long as bytes of the frame are referenced.
    pub permit: Permit,
    /// When the frame was complete.
    pub received: Now,
}

/// A range of a file that becomes part of a response without passing through user memory.
pub struct FileRange {
    /// The file.
    pub file: reactor::fs::File,
    /// Where the range begins, in bytes.
    pub offset: u64,
}

/// The bytes of one response: length prefix, header and body.
#[derive(Default)]
pub struct Outgoing {
    /// In order; [`Segment::External`] refers to `files` by its token.
    pub segments: Few<Segment>,
    /// What the tokens stand for.
    pub files: Vec<FileRange>,
}

/// How a request ends.
pub enum Response {
    /// A response frame.
    Send(Outgoing),
    /// Nothing is sent (Produce with acks=0).
    Nothing,
    /// The connection is closed after the responses before this one.
    Close,
}

/// A response that is still being worked out. Dropped when the connection goes away.
pub type Later = Pin<Box<dyn Future<Output = Response>>>;

/// What [`Service::start`] gives back.
pub enum Reply {
    /// The response is known.
    Ready(Response),
    /// The response will be known.
    Later(Later),
}

/// Whether a connection is let in.
pub enum Enter {
    /// Yes, and nothing was counted: addresses are not limited.
    Free,
    /// To be found out where the address is counted.
    Asked(Pin<Box<dyn Future<Output = bool>>>),
}

/// The protocol on top of frames. One value per core, shared by its connections.
pub trait Service: 'static {
    /// State of one connection (client software, principal, ...).
    type Session: 'static;

    /// A connection was accepted.
    fn open(&self, info: ConnectionInfo) -> Self::Session;

    /// True when this request may begin while earlier ones of its connection, which are of this kind too, still wait for
    /// their response. Every other request waits until all before it are answered, and all after it wait for it, so a
    /// client sees the effects of its requests in the order it sent them.
    fn overlaps(&self, session: &Self::Session, frame: &Bytes) -> bool;

    /// Begins a request. The connection reads on when this returns, so whatever fixes the order of overlapping requests
    /// (posting their appends) is done by then; only waiting is left to [`Reply::Later`].
    fn start(&self, session: &Rc<Self::Session>, request: Request) -> Reply;

    /// `max.connections` and `max.connection.creation.rate`, over all cores, for a connection of this listener: what is above
    /// them is accepted and then waits.
    fn limits(&self, listener: &str) -> EntryLimits;

    /// Counts one more connection from `ip`, over all cores; false when it has as many as it may, and the new one is to be
    /// closed (`max.connections.per.ip`). Whatever was counted is taken back by [`Service::left`].
    fn enter(&self, ip: IpAddr) -> Enter;

    /// A connection from `ip` that was counted has ended.
    fn left(&self, ip: IpAddr);
}
