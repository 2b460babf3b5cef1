//! A connection that several tasks share. What they ask goes out in their order, as much at once as has gathered, and
//! answers come in that order: brokers serve the requests of a connection one after the other.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use reactor::sync::{Notify, oneshot};
use reactor::{Class, spawn};
use wire::api_versions_response::ApiVersionsResponse;
use wire::{ApiKey, Encode};

use crate::cluster::hello;
use crate::conn::{Broken, Frames, Sender, answer, connect, request};

type Answer = Result<Bytes, Broken>;

/// A connection with any number of requests on their way.
pub(crate) struct Link {
    sender: Sender,
    /// Requests that are not handed to the kernel yet.
    out: RefCell<Vec<Bytes>>,
    work: Notify,
    /// Who waits for an answer, in the order of the requests.
    waiting: RefCell<VecDeque<oneshot::Sender<Answer>>>,
    correlation: Cell<i32>,
    broken: RefCell<Option<Broken>>,
}

impl Link {
    /// Connects, and waits until the broker answers.
    pub(crate) async fn open(address: SocketAddr) -> Result<Rc<Link>, Broken> {
        let (sender, frames) = connect(address).await?;
        let link = Rc::new(Link {
            sender,
            out: RefCell::default(),
            work: Notify::new(),
            waiting: RefCell::default(),
            correlation: Cell::new(0),
            broken: RefCell::default(),
        });
        spawn(Class::Normal, Rc::clone(&link).write()).detach();
        spawn(Class::Normal, Rc::clone(&link).read(frames)).detach();
        // The kernel takes connections before the broker does, and loses them when thousands come at once: a connection is
        // there when the broker has answered on it.
        let (key, version) = (ApiKey::ApiVersions, 3);
        let (frame, id) = link.ask(key, version, &hello()).await?;
        answer::<ApiVersionsResponse<'_>>(&frame, key, version, id)?;
        Ok(link)
    }

    /// Asks and waits; gives the frame and the correlation id, for [`crate::conn::answer`].
    pub(crate) async fn ask(&self, key: ApiKey, version: i16, body: &impl Encode) -> Result<(Bytes, i32), Broken> {
        if let Some(why) = self.broken.borrow().clone() {
            return Err(why);
        }
        let id = self.correlation.get().wrapping_add(1);
        self.correlation.set(id);
        let (answered, wait) = oneshot::channel();
        self.waiting.borrow_mut().push_back(answered);
        self.out.borrow_mut().extend(request(key, version, id, body));
        self.work.notify_one();
        match wait.await {
            Ok(answer) => answer.map(|frame| (frame, id)),
            Err(_) => Err("the connection was given up".to_owned()),
        }
    }

    /// Ends the connection; who waits on it learns that.
    pub(crate) fn close(&self) {
        self.sender.close();
    }

    async fn write(self: Rc<Link>) {
        loop {
            while self.out.borrow().is_empty() {
                if self.broken.borrow().is_some() {
                    return;
                }
                self.work.notified().await;
            }
            let parts = self.out.take();
            if let Err(why) = self.sender.send(parts).await {
                return self.fail(why);
            }
        }
    }

    async fn read(self: Rc<Link>, mut frames: Frames) {
        loop {
            match frames.next().await {
                Err(why) => return self.fail(why),
                Ok(frame) => match self.waiting.borrow_mut().pop_front() {
                    // Who asked may have given up; the answer is nobody's then.
                    Some(waiter) => drop(waiter.send(Ok(frame))),
                    None => return self.fail("an answer came to no request".to_owned()),
                },
            }
        }
    }

    fn fail(&self, why: Broken) {
        self.broken.borrow_mut().get_or_insert_with(|| why.clone());
        for waiter in self.waiting.take() {
            // As above.
            let _ = waiter.send(Err(why.clone()));
        }
        self.work.notify_all();
        self.work.notify_one();
        self.sender.close();
    }
}
