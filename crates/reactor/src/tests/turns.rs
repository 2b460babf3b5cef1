//! Reads take turns with what is written.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use super::{LIMIT, on_both, on_both_cores};
use crate::sim::Sim;
use crate::sync::Semaphore;
use crate::{Class, join_all, now, percore, random_u64, sleep, spawn, timeout, yield_now};

/// Tasks that wait give up at any moment, also when a turn is on its way to them: as many turns as there were go round in the end.
#[test]
fn turns_go_round_and_none_is_lost() {
    for cores in [1, 2, 4, 9] {
        on_both_cores(cores, move || {
            let (inside, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            move |_| {
                let (inside, done) = (Arc::clone(&inside), Arc::clone(&done));
                let most = (cores / 4).max(1);
                async move {
                    let one_waits = Semaphore::new(1);
                    let reads = |rounds: usize, gives_up: bool| {
                        let (inside, one_waits) = (Arc::clone(&inside), one_waits.clone());
                        async move {
                            let core = percore::current();
                            for _ in 0..rounds {
                                let _first = one_waits.acquire().await;
                                let wait = Duration::from_micros(if gives_up {
                                    random_u64() % 60
                                } else {
                                    LIMIT.as_micros() as u64
                                });
                                let Ok(turn) = timeout(wait, core.careful_turn()).await else { continue };
                                assert!(inside.fetch_add(1, Ordering::SeqCst) < most, "more reads than {most} at once");
                                match random_u64() % 3 {
                                    0 => yield_now().await,
                                    1 => sleep(Duration::from_micros(random_u64() % 8)).await,
                                    _ => {}
                                }
                                inside.fetch_sub(1, Ordering::SeqCst);
                                drop(turn);
                            }
                        }
                    };
                    join_all((0..3).map(|_| spawn(Class::Normal, reads(100, true)))).await;
                    done.fetch_add(1, Ordering::SeqCst);
                    while done.load(Ordering::SeqCst) < cores {
                        sleep(Duration::from_micros(50)).await;
                    }
                    // Nobody gives up any more: a turn that was lost would leave them waiting for ever.
                    join_all((0..3).map(|_| spawn(Class::Normal, reads(20, false)))).await;
                }
            }
        });
    }
}

/// A turn that is on its way, or has come, to a task that does not want it any more goes on.
#[test]
fn a_turn_is_given_on_by_who_gave_up() {
    for (seen, another) in [(false, false), (false, true), (true, false), (true, true)] {
        on_both(move |_| async move {
            let core = percore::current();
            let held = core.careful_turn().await;
            let mut early = Box::pin(core.careful_turn());
            assert!(poll_once(early.as_mut()).await.is_none() && core.shared.disk.waits());
            drop(early);
            assert!(!core.shared.disk.waits(), "nobody waits any more");
            let mut gives_up = Box::pin(core.careful_turn());
            assert!(poll_once(gives_up.as_mut()).await.is_none(), "one core has one turn");
            drop(held);
            if seen {
                while !core.disk.granted.get() {
                    sleep(Duration::from_micros(10)).await;
                }
            } else {
                assert!(!core.disk.granted.get(), "on its way");
            }
            drop(gives_up);
            assert!(!core.disk.granted.get() && !core.shared.disk.waits(), "nothing is kept for who gave up");
            if another {
                drop(timeout(Duration::from_secs(60), core.careful_turn()).await.expect("the turn came on"));
            }
            yield_now().await;
            let last = timeout(Duration::from_secs(60), core.careful_turn()).await.expect("the turn came back");
            assert!(poll_once(std::pin::pin!(core.careful_turn())).await.is_none(), "and there is one only");
            drop(last);
        });
    }
}

async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

#[test]
fn reads_are_smaller_the_more_depends_on_what_is_written() {
    let mut sim = Sim::new(1);
    let node = sim.add_client();
    sim.run(node, LIMIT, async {
        let core = percore::current();
        sleep(Duration::from_secs(1)).await;
        let asked = || core.read_in_turn(1 << 20, |len| async move { len });
        assert_eq!(asked().await, 1 << 20);
        core.note_write();
        assert_eq!(asked().await, 256 << 10);
        drop(core.begin_urgent());
        assert_eq!(asked().await, 128 << 10);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(asked().await, 1 << 20, "nobody writes any more");
    });
}

/// A read waits for a write that is late, and not for ever: a disk that is always slow is read as well.
#[test]
fn reads_rest_while_a_write_is_late() {
    let mut sim = Sim::new(1);
    let node = sim.add_client();
    sim.run(node, LIMIT, async {
        let core = percore::current();
        sleep(Duration::from_secs(1)).await;
        for (takes, rests) in [
            (Duration::from_millis(10), Duration::from_millis(10)),
            (Duration::from_secs(3), Duration::from_millis(52)),
        ] {
            core.note_write();
            let urgent = core.begin_urgent();
            sleep(Duration::from_millis(2)).await;
            let began = now().mono_ns;
            let reading = Rc::clone(&core);
            let read =
                spawn(Class::Normal, async move { reading.read_in_turn(1 << 20, |_| async { now().mono_ns }).await });
            sleep(takes - Duration::from_millis(2)).await;
            drop(urgent);
            let read = Duration::from_nanos(read.await - began) + Duration::from_millis(2);
            assert!(read >= rests && read < rests + Duration::from_millis(2), "{takes:?}: read after {read:?}");
            sleep(Duration::from_secs(1)).await;
        }
    });
}
