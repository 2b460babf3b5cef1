//! Several cores and the mailboxes between them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::on_both_cores;
use crate::mailbox::{Port, mesh};
use crate::{Class, CoreId, join_all, random_u64, sleep, spawn, timeout, yield_now};

/// Ports for the cores to take.
type Ports<M> = Arc<Mutex<Vec<Option<Port<M>>>>>;

fn ports<M: Send>(cores: usize, capacity: usize) -> Ports<M> {
    Arc::new(Mutex::new(mesh(cores, capacity).into_iter().map(Some).collect()))
}

fn take<M>(ports: &Ports<M>, core: CoreId) -> Port<M> {
    ports.lock().unwrap()[core.index()].take().unwrap()
}

#[test]
fn messages_between_all_pairs_keep_their_order() {
    const MESSAGES: u64 = 500;
    for (cores, capacity) in [(1, 1), (1, 8), (2, 1), (2, 16), (4, 3)] {
        on_both_cores(cores, move || {
            let ports = ports::<u64>(cores, capacity);
            move |core| {
                let port = take(&ports, core);
                async move {
                    let port = Rc::new(port);
                    let posters: Vec<_> = (0..cores)
                        .map(|to| {
                            let port = Rc::clone(&port);
                            spawn(Class::Normal, async move {
                                for n in 0..MESSAGES {
                                    if random_u64().is_multiple_of(7) {
                                        yield_now().await;
                                    }
                                    port.post(CoreId(to as u16), n).await;
                                }
                            })
                        })
                        .collect();
                    let mut expect = vec![0; cores];
                    for _ in 0..cores as u64 * MESSAGES {
                        let (from, n) = port.recv().await;
                        assert_eq!(n, expect[from.index()], "from core {from}");
                        expect[from.index()] += 1;
                    }
                    join_all(posters).await;
                }
            }
        });
    }
}

/// Several tasks post to one full lane: the order of the calls is the order of arrival, also when some give up.
#[test]
fn waiting_posts_are_served_in_order_and_may_give_up() {
    on_both_cores(2, || {
        let ports = ports::<u64>(2, 2);
        move |core| {
            let port = take(&ports, core);
            async move {
                if core.0 == 1 {
                    let mut last = None;
                    loop {
                        let (_, n) = port.recv().await;
                        if n == u64::MAX {
                            break;
                        }
                        assert!(last < Some(n), "{n} after {last:?}");
                        last = Some(n);
                        if random_u64().is_multiple_of(2) {
                            sleep(Duration::from_micros(20)).await;
                        }
                    }
                    return;
                }
                let port = Rc::new(port);
                let calls = Rc::new(RefCell::new(0));
                let tasks: Vec<_> = (0..100)
                    .map(|_| {
                        let (port, calls) = (Rc::clone(&port), Rc::clone(&calls));
                        spawn(Class::Normal, async move {
                            for _ in 0..3 {
                                *calls.borrow_mut() += 1;
                                let post = port.post(CoreId(1), *calls.borrow());
                                if random_u64().is_multiple_of(3) {
                                    let _ = timeout(Duration::from_micros(random_u64() % 200), post).await;
                                } else {
                                    post.await;
                                }
                            }
                        })
                    })
                    .collect();
                join_all(tasks).await;
                port.post(CoreId(1), u64::MAX).await;
            }
        }
    });
}

#[test]
fn requests_and_replies_over_lanes_of_their_own() {
    enum Request {
        Ask {
            id: u64,
        },
        /// The core that says so will ask nothing more.
        Done,
    }
    struct Reply {
        id: u64,
        twice: u64,
    }
    on_both_cores(3, || {
        let requests = ports::<Request>(3, 4);
        let replies = ports::<Reply>(3, 4);
        move |core| {
            let (requests, replies) = (take(&requests, core), take(&replies, core));
            async move {
                let (requests, replies) = (Rc::new(requests), Rc::new(replies));
                let server = {
                    let (requests, replies) = (Rc::clone(&requests), Rc::clone(&replies));
                    spawn(Class::Latency, async move {
                        let mut asking = 3;
                        while asking > 0 {
                            match requests.recv().await {
                                (from, Request::Ask { id }) => replies.post(from, Reply { id, twice: id * 2 }).await,
                                (_, Request::Done) => asking -= 1,
                            }
                        }
                    })
                };
                let mut open = BTreeMap::new();
                for id in 0..300u64 {
                    requests.post(CoreId((random_u64() % 3) as u16), Request::Ask { id }).await;
                    open.insert(id, ());
                    while open.len() > 2 {
                        let (_, reply) = replies.recv().await;
                        assert_eq!(reply.twice, reply.id * 2);
                        assert!(open.remove(&reply.id).is_some());
                    }
                }
                while !open.is_empty() {
                    let (_, reply) = replies.recv().await;
                    assert!(open.remove(&reply.id).is_some());
                }
                for core in 0..3 {
                    requests.post(CoreId(core), Request::Done).await;
                }
                server.await;
            }
        }
    });
}

#[test]
fn messages_to_a_core_that_ended_are_dropped() {
    on_both_cores(2, || {
        let ports = ports::<Arc<()>>(2, 2);
        let probe = Arc::new(());
        move |core| {
            let (port, probe) = (take(&ports, core), Arc::clone(&probe));
            async move {
                if core.0 == 1 {
                    port.recv().await;
                    return;
                }
                for _ in 0..200 {
                    port.post(CoreId(1), Arc::clone(&probe)).await;
                    sleep(Duration::from_micros(50)).await;
                }
                assert!(Arc::strong_count(&probe) <= 2 + 3, "dropped messages are kept");
            }
        }
    });
}
