//! The way from core to core: questions on one set of lanes, answers on another, so that neither waits behind the other.

use crate::messages::{CoreReply, CoreRequest};
use crate::serve::Served;
use base::CoreId;
use reactor::mailbox::{Full, Port, mesh};
use reactor::{Class, spawn, yield_now};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Messages of one core to another that may be on their way at once: what comes in a burst between two turns of the
/// receiver. More of them wait with the sender. It says nothing of how many questions may be unanswered: members of a group
/// wait for each other and fetches for records, and whatever is asked beside them must get through however many they are.
const LANE_MESSAGES: usize = 1024;

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
    let requests = mesh(cores, LANE_MESSAGES);
    let replies = mesh(cores, LANE_MESSAGES);
    requests.into_iter().zip(replies).map(|(requests, replies)| MeshPorts { requests, replies }).collect()
}

/// Messages for which their lane had no room, in the order of their sending.
///
/// There is no bound of its own: a question belongs to a request whose memory was admitted, and an answer to a question.
struct Overflow<M> {
    waiting: RefCell<VecDeque<M>>,
    /// A task is at work that moves them into the lane.
    moving: Cell<bool>,
}

/// The sending side of a port. Sending never waits, so that no core can be held up by one that is behind.
struct Outbox<M: Send> {
    port: Port<M>,
    overflows: Vec<Overflow<M>>,
}

impl<M: Send + 'static> Outbox<M> {
    fn new(port: Port<M>) -> Rc<Outbox<M>> {
        let overflow = |_| Overflow { waiting: RefCell::default(), moving: Cell::new(false) };
        let overflows = (0..port.cores()).map(overflow).collect();
        Rc::new(Outbox { port, overflows })
    }

    /// Sends behind everything that was sent to that core before.
    fn send(self: &Rc<Self>, to: CoreId, message: M) {
        let overflow = &self.overflows[to.index()];
        if overflow.moving.get() {
            overflow.waiting.borrow_mut().push_back(message);
        } else if let Err(Full(message)) = self.port.try_post(to, message) {
            overflow.waiting.borrow_mut().push_back(message);
            overflow.moving.set(true);
            let outbox = self.clone();
            spawn(Class::Latency, async move { outbox.move_overflow(to).await }).detach();
        }
    }

    async fn move_overflow(&self, to: CoreId) {
        let overflow = &self.overflows[to.index()];
        loop {
            let next = overflow.waiting.borrow_mut().pop_front();
            let Some(message) = next else { break };
            self.port.post(to, message).await;
        }
        // A burst's memory does not stay.
        overflow.waiting.take();
        overflow.moving.set(false);
    }
}

/// One core's end of the way.
pub struct Mesh {
    requests: Rc<Outbox<Posted>>,
    replies: Rc<Outbox<Returned>>,
    /// Who waits for an answer; at most the requests in flight on this core, and the few questions of its own.
    unanswered: RefCell<Slab<Question>>,
}

/// Who asked something and is to be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    core: CoreId,
    ticket: usize,
}

/// A question of this core.
enum Question {
    /// The task that waits for the answer, once it does.
    Open(Option<Waker>),
    Answered(CoreReply),
    /// Nobody waits any more.
    Abandoned,
}

impl Mesh {
    /// The end of the core that owns `ports`.
    pub fn new(ports: MeshPorts) -> Mesh {
        Mesh {
            requests: Outbox::new(ports.requests),
            replies: Outbox::new(ports.replies),
            unanswered: RefCell::new(Slab::new()),
        }
    }

    /// Asks another core. The order of questions to it is fixed when this returns; the answer is what is returned.
    pub fn post(self: &Rc<Self>, to: CoreId, request: CoreRequest) -> Remote {
        let (asker, remote) = self.open();
        self.requests.send(to, Posted { ticket: Some(asker.ticket), request });
        remote
    }

    /// A question that somebody on this core will answer by [`Mesh::answer`].
    pub fn open(self: &Rc<Self>) -> (Asker, Remote) {
        let ticket = self.unanswered.borrow_mut().insert(Question::Open(None));
        (Asker { core: self.requests.port.id(), ticket }, Remote { mesh: self.clone(), ticket: Some(ticket) })
    }

    /// Answers a question, wherever it was asked.
    pub fn answer(&self, asker: Asker, reply: CoreReply) {
        match asker.core == self.requests.port.id() {
            true => self.deliver(asker.ticket, reply),
            false => self.replies.send(asker.core, Returned { ticket: asker.ticket, reply }),
        }
    }

    fn deliver(&self, ticket: usize, reply: CoreReply) {
        let mut unanswered = self.unanswered.borrow_mut();
        let question = &mut unanswered[ticket];
        match std::mem::replace(question, Question::Answered(reply)) {
            Question::Open(waker) => {
                drop(unanswered);
                waker.into_iter().for_each(Waker::wake);
            }
            Question::Abandoned => drop(unanswered.remove(ticket)),
            Question::Answered(_) => panic!("question {ticket} was answered twice"),
        }
    }

    /// Tells another core something; nobody learns what became of it.
    pub fn tell(&self, to: CoreId, request: CoreRequest) {
        self.requests.send(to, Posted { ticket: None, request });
    }

    /// Hands incoming questions to `begin` and sends the answers back, for ever.
    pub async fn serve(self: Rc<Self>, begin: impl Fn(CoreId, CoreRequest) -> Served) {
        loop {
            for _ in 0..BURST_MAX {
                let (from, posted) = self.requests.port.recv().await;
                match (begin(from, posted.request), posted.ticket) {
                    (Served::Done(reply), Some(ticket)) => self.replies.send(from, Returned { ticket, reply }),
                    (Served::Later(later), Some(ticket)) => {
                        let replies = self.replies.clone();
                        let answer = async move { replies.send(from, Returned { ticket, reply: later.await }) };
                        spawn(Class::Latency, answer).detach();
                    }
                    (Served::Promised(promised), Some(ticket)) => promised.answer(Asker { core: from, ticket }),
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
                let (_, Returned { ticket, reply }) = self.replies.port.recv().await;
                self.deliver(ticket, reply);
            }
            yield_now().await;
        }
    }
}

/// The answer of another core, to be waited for.
pub struct Remote {
    mesh: Rc<Mesh>,
    /// None once it has been answered.
    ticket: Option<usize>,
}

impl Future for Remote {
    type Output = CoreReply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CoreReply> {
        let ticket = self.ticket.expect("an answer is given once");
        let mut unanswered = self.mesh.unanswered.borrow_mut();
        // Without an answer the core is being taken down, together with whoever waits here.
        if let Question::Open(waker) = &mut unanswered[ticket] {
            match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        let question = unanswered.remove(ticket);
        drop(unanswered);
        self.ticket = None;
        let Question::Answered(reply) = question else { unreachable!("the question is asked by this future") };
        Poll::Ready(reply)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut unanswered = self.mesh.unanswered.borrow_mut();
        let gone = match &mut unanswered[ticket] {
            open @ Question::Open(_) => std::mem::replace(open, Question::Abandoned),
            _ => unanswered.remove(ticket),
        };
        drop(unanswered);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reactor::Handover;
    use reactor::sim::Sim;
    use reactor::sync::Notify;
    use std::time::Duration;

    /// Questions that stay unanswered: far more than a lane holds.
    const PARKED: i32 = 2 * LANE_MESSAGES as i32 + 7;

    /// Core 1: leaves `EndSession` unanswered until it is told `Metrics`, and answers everything else at once.
    async fn answer(mesh: Rc<Mesh>) {
        let (release, seen) = (Rc::new((Cell::new(false), Notify::new())), Rc::new(Cell::new(0)));
        let begin = move |_, request| match request {
            CoreRequest::EndSession(id) => {
                assert_eq!(id, seen.replace(id + 1), "questions come in the order of their posting");
                let release = release.clone();
                Served::later(async move {
                    while !release.0.get() {
                        release.1.notified().await;
                    }
                    CoreReply::Done
                })
            }
            CoreRequest::Metrics => {
                release.0.set(true);
                release.1.notify_all();
                Served::Done(CoreReply::Done)
            }
            _ => Served::Done(CoreReply::Done),
        };
        mesh.serve(begin).await;
    }

    #[test]
    fn questions_that_wait_for_long_hold_up_no_others() {
        for seed in 0..3 {
            let mut sim = Sim::new(seed);
            let node = sim.add_node(2, move || {
                let seats = Handover::new(mesh_ports(2));
                move |core: CoreId| {
                    let seats = seats.clone();
                    async move {
                        let mesh = Rc::new(Mesh::new(seats.take(core)));
                        spawn(Class::Latency, mesh.clone().receive()).detach();
                        if core.0 == 1 {
                            spawn(Class::Latency, answer(mesh)).detach();
                            return reactor::stopping().await;
                        }
                        let parked: Vec<Remote> =
                            (0..PARKED).map(|id| mesh.post(CoreId(1), CoreRequest::EndSession(id))).collect();
                        for _ in 0..3 {
                            let CoreReply::Done = mesh.post(CoreId(1), CoreRequest::LogDirs).await else {
                                panic!("seed {seed}: another answer")
                            };
                        }
                        mesh.tell(CoreId(1), CoreRequest::Metrics);
                        for one in parked {
                            one.await;
                        }
                        assert!(mesh.unanswered.borrow().is_empty(), "seed {seed}");
                        reactor::stop();
                    }
                }
            });
            assert!(sim.run_until_ended(node, Duration::from_secs(60)), "seed {seed}: some questions have no answer");
        }
    }
}
