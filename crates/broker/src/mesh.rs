//! The way from core to core: questions on one set of lanes, answers on another, so that neither waits behind the other.

use crate::messages::{CoreReply, CoreRequest};
use crate::serve::Served;
use base::CoreId;
use reactor::mailbox::{Full, Port, mesh};
use reactor::sync::{Semaphore, oneshot};
use reactor::{Class, spawn, yield_now};
use slab::Slab;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Questions of one core to another that may be unanswered at once; whoever asks more waits. The lanes hold as many, so
/// an answer always finds room.
const UNANSWERED_MAX: usize = 1024;

/// Messages handled before other tasks of the core have their turn.
const BURST_MAX: usize = 64;

/// A question on its way; without a ticket nobody waits for the answer.
pub struct Posted {
    ticket: Option<usize>,
    request: CoreRequest,
}

/// An answer on its way.
pub struct Returned {
    ticket: usize,
    reply: CoreReply,
}

/// The ports of one core, made where all cores are set up and sent to it.
pub struct MeshPorts {
    requests: Port<Posted>,
    replies: Port<Returned>,
}

/// The ports of `cores` cores, in their order.
pub fn mesh_ports(cores: usize) -> Vec<MeshPorts> {
    let requests = mesh(cores, UNANSWERED_MAX);
    let replies = mesh(cores, UNANSWERED_MAX);
    requests.into_iter().zip(replies).map(|(requests, replies)| MeshPorts { requests, replies }).collect()
}

struct Unanswered {
    answer: oneshot::Sender<CoreReply>,
    _credit: reactor::sync::Permit,
}

/// One core's end of the way.
pub struct Mesh {
    requests: Port<Posted>,
    replies: Port<Returned>,
    unanswered: RefCell<Slab<Unanswered>>,
    credits: Vec<Semaphore>,
}

impl Mesh {
    /// The end of the core that owns `ports`.
    pub fn new(ports: MeshPorts) -> Mesh {
        let cores = ports.requests.cores();
        Mesh {
            requests: ports.requests,
            replies: ports.replies,
            unanswered: RefCell::new(Slab::new()),
            credits: (0..cores).map(|_| Semaphore::new(UNANSWERED_MAX)).collect(),
        }
    }

    /// Asks another core. When this returns the question is in its lane; the answer is what is returned.
    pub async fn post(&self, to: CoreId, request: CoreRequest) -> Remote {
        let credit = self.credits[to.index()].acquire().await;
        let (answer, waiting) = oneshot::channel();
        let ticket = self.unanswered.borrow_mut().insert(Unanswered { answer, _credit: credit });
        let mut unposted = Unposted { mesh: self, ticket: Some(ticket) };
        self.requests.post(to, Posted { ticket: Some(ticket), request }).await;
        unposted.ticket = None;
        Remote(waiting)
    }

    /// Tells another core something that is lost when its lane is full.
    pub fn tell(&self, to: CoreId, request: CoreRequest) {
        if let Err(Full(_)) = self.requests.try_post(to, Posted { ticket: None, request }) {
            tracing::debug!(%to, "a hint to another core found no room");
        }
    }

    /// Hands incoming questions to `begin` and sends the answers back, for ever.
    pub async fn serve(self: Rc<Self>, begin: impl Fn(CoreId, CoreRequest) -> Served) {
        loop {
            for _ in 0..BURST_MAX {
                let (from, posted) = self.requests.recv().await;
                match (begin(from, posted.request), posted.ticket) {
                    (Served::Done(reply), Some(ticket)) => self.reply(from, ticket, reply),
                    (Served::Later(later), Some(ticket)) => {
                        let mesh = self.clone();
                        spawn(Class::Latency, async move { mesh.reply(from, ticket, later.await) }).detach();
                    }
                    (_, None) => {}
                }
            }
            yield_now().await;
        }
    }

    /// Hands incoming answers to those who wait for them, for ever.
    pub async fn receive(self: Rc<Self>) {
        loop {
            for _ in 0..BURST_MAX {
                let (_, Returned { ticket, reply }) = self.replies.recv().await;
                let unanswered = self.unanswered.borrow_mut().remove(ticket);
                // Whoever asked may be gone.
                let _ = unanswered.answer.send(reply);
            }
            yield_now().await;
        }
    }

    fn reply(&self, to: CoreId, ticket: usize, reply: CoreReply) {
        if let Err(Full(_)) = self.replies.try_post(to, Returned { ticket, reply }) {
            panic!("the lane of answers to core {to} is full although only {UNANSWERED_MAX} questions can be open");
        }
    }
}

/// Takes a question back whose asker went away before it was posted.
struct Unposted<'m> {
    mesh: &'m Mesh,
    ticket: Option<usize>,
}

impl Drop for Unposted<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let taken_back = self.mesh.unanswered.borrow_mut().remove(ticket);
            drop(taken_back);
        }
    }
}

/// The answer of another core, to be waited for.
pub struct Remote(oneshot::Receiver<CoreReply>);

impl Future for Remote {
    type Output = CoreReply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CoreReply> {
        match Pin::new(&mut self.0).poll(cx) {
            Poll::Ready(Ok(reply)) => Poll::Ready(reply),
            // The core is being taken down together with whoever waits here.
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }
}
