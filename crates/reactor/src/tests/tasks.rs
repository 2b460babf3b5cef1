//! Tasks, timers and what coordinates them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::on_both;
use crate::sync::{Notify, Semaphore, TrySendError, channel, oneshot};
use crate::{
    Class, Either, Elapsed, join_all, now, race, random_u64, sleep, sleep_until, spawn, timeout, unblock, yield_now,
};

#[test]
fn tasks_give_results_can_be_detached_and_aborted() {
    on_both(|_| async {
        assert_eq!(spawn(Class::Latency, async { 1 + 1 }).await, 2);
        let seen = Rc::new(Cell::new(0));
        let task = |n: u32| {
            let seen = Rc::clone(&seen);
            async move {
                yield_now().await;
                seen.set(seen.get() + n);
            }
        };
        spawn(Class::Background, task(1)).detach();
        spawn(Class::Normal, task(10)).abort();
        let dropped = spawn(Class::Normal, task(100));
        drop(dropped);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(seen.get(), 101);
    });
}

#[test]
fn aborting_drops_the_future_at_once_also_from_within() {
    on_both(|_| async {
        struct OnDrop(Rc<Cell<bool>>);
        impl Drop for OnDrop {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let gone = Rc::new(Cell::new(false));
        let guard = OnDrop(Rc::clone(&gone));
        let task = spawn(Class::Normal, async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        yield_now().await;
        sleep(Duration::from_micros(100)).await;
        task.abort();
        assert!(gone.get());

        let gone = Rc::new(Cell::new(false));
        let guard = OnDrop(Rc::clone(&gone));
        let own = Rc::new(RefCell::new(None::<crate::Task<()>>));
        let handle = Rc::clone(&own);
        let task = spawn(Class::Normal, async move {
            let _guard = guard;
            if let Some(me) = handle.borrow_mut().take() {
                me.abort();
            }
            std::future::pending::<()>().await;
        });
        *own.borrow_mut() = Some(task);
        sleep(Duration::from_millis(1)).await;
        assert!(gone.get(), "a task that aborts itself is dropped when its poll ends");
    });
}

#[test]
fn timers_fire_in_order_and_dropped_ones_never() {
    on_both(|_| async {
        let order = Rc::new(RefCell::new(Vec::new()));
        let start = now().mono_ns;
        let tasks: Vec<_> = [3u64, 1, 2, 5, 4]
            .into_iter()
            .map(|n| {
                let order = Rc::clone(&order);
                spawn(Class::Normal, async move {
                    sleep(Duration::from_millis(5 * n)).await;
                    order.borrow_mut().push(n);
                    now().mono_ns
                })
            })
            .collect();
        let mut ends = join_all(tasks).await;
        assert_eq!(*order.borrow(), [1, 2, 3, 4, 5]);
        ends.sort_unstable();
        for (n, end) in (1..).zip(ends) {
            assert!(end - start >= 5_000_000 * n, "timer {n} fired early");
        }
        sleep_until(0).await;
        assert_eq!(timeout(Duration::from_millis(2), std::future::pending::<()>()).await, Err(Elapsed));
        assert_eq!(timeout(Duration::from_secs(3000), async { 7 }).await, Ok(7));
        let first = race(sleep(Duration::from_secs(1000)), sleep(Duration::from_millis(1))).await;
        assert_eq!(first, Either::Right(()));
    });
}

#[test]
fn a_thousand_timers_at_random_moments() {
    on_both(|_| async {
        let tasks: Vec<_> = (0..1000)
            .map(|_| {
                let wait = Duration::from_micros(random_u64() % 20_000);
                spawn(Class::Normal, async move {
                    let due = now().mono_ns + wait.as_nanos() as u64;
                    if random_u64().is_multiple_of(3) {
                        let _ = timeout(wait / 2, sleep(wait)).await;
                    } else {
                        sleep(wait).await;
                        assert!(now().mono_ns >= due);
                    }
                })
            })
            .collect();
        join_all(tasks).await;
    });
}

#[test]
fn notify_keeps_one_permit_and_passes_on_what_a_dropped_waiter_got() {
    on_both(|_| async {
        let notify = Rc::new(Notify::new());
        notify.notify_one();
        notify.notify_one();
        notify.notified().await;
        assert!(timeout(Duration::from_micros(10), notify.notified()).await.is_err());

        let first = notify.notified();
        let second = notify.notified();
        notify.notify_one();
        drop(first);
        second.await;

        let waiting: Vec<_> = (0..5)
            .map(|_| {
                let notify = Rc::clone(&notify);
                spawn(Class::Normal, async move { notify.notified().await })
            })
            .collect();
        sleep(Duration::from_millis(1)).await;
        notify.notify_all();
        join_all(waiting).await;
    });
}

#[test]
fn oneshot_gives_the_value_or_says_that_there_is_none() {
    on_both(|_| async {
        let (sender, receiver) = oneshot::channel();
        let task = spawn(Class::Normal, receiver);
        yield_now().await;
        sender.send(5).unwrap();
        assert_eq!(task.await, Ok(5));
        let (sender, receiver) = oneshot::channel::<u32>();
        drop(sender);
        assert_eq!(receiver.await, Err(oneshot::Canceled));
        let (sender, receiver) = oneshot::channel();
        drop(receiver);
        assert!(sender.is_closed());
        assert_eq!(sender.send(6), Err(6));
    });
}

#[test]
fn a_channel_holds_its_bound_and_ends_with_its_senders() {
    on_both(|_| async {
        let (sender, mut receiver) = channel(2);
        sender.try_send(0).unwrap();
        sender.try_send(1).unwrap();
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        let tasks: Vec<_> = (2..20)
            .map(|n| {
                let sender = sender.clone();
                spawn(Class::Normal, async move { sender.send(n).await.unwrap() })
            })
            .collect();
        drop(sender);
        let mut got = Vec::new();
        while let Some(n) = receiver.recv().await {
            assert!(receiver.len() <= 2);
            got.push(n);
        }
        join_all(tasks).await;
        got.sort_unstable();
        assert_eq!(got, (0..20).collect::<Vec<_>>());

        let (sender, receiver) = channel(1);
        sender.send(1).await.unwrap();
        let waiting = {
            let sender = sender.clone();
            spawn(Class::Normal, async move { sender.send(2).await.map_err(|closed| closed.0) })
        };
        sleep(Duration::from_millis(1)).await;
        drop(receiver);
        assert_eq!(waiting.await, Err(2));
        assert_eq!(sender.try_send(3), Err(TrySendError::Closed(3)));
    });
}

#[test]
fn a_semaphore_serves_in_order_and_takes_permits_back() {
    on_both(|_| async {
        let semaphore = Semaphore::new(3);
        let two = semaphore.acquire_many(2).await;
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut tasks = Vec::new();
        for (n, count) in [(1, 3), (2, 2), (3, 2)] {
            let (semaphore, order) = (semaphore.clone(), Rc::clone(&order));
            tasks.push(spawn(Class::Normal, async move {
                let permit = semaphore.acquire_many(count).await;
                order.borrow_mut().push(n);
                assert_eq!(permit.count(), count);
                yield_now().await;
            }));
            sleep(Duration::from_micros(200)).await;
        }
        assert!(semaphore.try_acquire_many(1).is_none(), "a small request does not overtake");
        drop(two);
        join_all(tasks).await;
        assert_eq!(*order.borrow(), [1, 2, 3]);
        assert_eq!(semaphore.available(), 3);

        let mut all = semaphore.acquire_many(3).await;
        assert!(timeout(Duration::from_micros(50), semaphore.acquire_many(3)).await.is_err());
        all.release(2);
        assert_eq!(semaphore.available(), 2);
        all.forget();
        assert_eq!(semaphore.available(), 2);
        semaphore.add(1);
        assert_eq!(semaphore.available(), 3);
    });
}

/// Permits neither appear nor vanish, whatever is dropped when.
#[test]
fn a_semaphore_under_random_drops_keeps_its_permits() {
    on_both(|_| async {
        let semaphore = Semaphore::new(10);
        let tasks: Vec<_> = (0..200)
            .map(|_| {
                let semaphore = semaphore.clone();
                spawn(Class::Normal, async move {
                    let count = 1 + random_u64() as usize % 10;
                    let patience = Duration::from_micros(random_u64() % 300);
                    if let Ok(mut permit) = timeout(patience, semaphore.acquire_many(count)).await {
                        sleep(Duration::from_micros(random_u64() % 50)).await;
                        permit.release(random_u64() as usize % 3);
                    }
                })
            })
            .collect();
        join_all(tasks).await;
        assert_eq!(semaphore.available(), 10);
    });
}

#[test]
fn blocking_work_gives_its_result() {
    on_both(|_| async {
        let jobs = (0..50).map(|n| unblock(move || n * n));
        assert_eq!(join_all(jobs).await, (0..50).map(|n| n * n).collect::<Vec<i32>>());
    });
}

#[test]
fn time_stands_still_within_a_poll_and_goes_on_between() {
    let _watchdog = super::Watchdog::new();
    crate::block_on(async {
        let mut last = now();
        for _ in 0..20 {
            yield_now().await;
            let first = now();
            assert!(first.mono_ns > last.mono_ns, "time goes on between polls");
            // Long enough for either clock to show it.
            std::thread::sleep(std::time::Duration::from_millis(2));
            last = now();
            assert_eq!(first, last);
        }
    });
}

#[test]
fn after_a_sleep_its_moment_has_come() {
    let _watchdog = super::Watchdog::new();
    crate::block_on(async {
        for _ in 0..20 {
            let due_ns = now().mono_ns + 1_000_000;
            // The moment passes within the poll, in which time stands still.
            std::thread::sleep(std::time::Duration::from_millis(2));
            crate::sleep_until(due_ns).await;
            assert!(now().mono_ns >= due_ns);
        }
    });
}

/// A loop that takes what is due by whole milliseconds, and sleeps until the nanosecond at which the next thing is, finds
/// nothing due when it wakes early: it has to get on to a later moment all the same, and others beside it.
#[test]
fn a_loop_that_sleeps_until_what_is_over_gets_on_and_lets_others_run() {
    let _watchdog = super::Watchdog::new();
    crate::block_on(async {
        let others = Rc::new(Cell::new(0));
        let seen = Rc::clone(&others);
        let other = spawn(Class::Normal, async move {
            loop {
                seen.set(seen.get() + 1);
                yield_now().await;
            }
        });
        for round in 1..50 {
            let due_ns = now().mono_ns + round * 10_000;
            let due_ms = due_ns.div_ceil(1_000_000);
            let before = others.get();
            while now().mono_ns / 1_000_000 < due_ms {
                sleep_until(due_ns).await;
            }
            assert!(others.get() > before, "round {round}: nobody else had a turn");
        }
        other.abort();
        let ran = Rc::new(Cell::new(false));
        let other = Rc::clone(&ran);
        spawn(Class::Normal, async move { other.set(true) }).detach();
        sleep_until(0).await;
        assert!(ran.get(), "a sleep that is over at once lets those run that are ready");
    });
}
