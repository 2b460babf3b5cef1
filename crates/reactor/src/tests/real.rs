//! What only the real backend can show.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::{Scratch, Watchdog, pattern};
use crate::fs::{File, OpenOptions};
use crate::net::{BindOptions, TcpListener, TcpStream};
use crate::{
    AlignedBuf, Class, OnPanic, Runtime, RuntimeConfig, block_on, counters, is_stopping, join_all, sleep, spawn,
    stopping, yield_now,
};

fn config(cores: usize) -> RuntimeConfig {
    RuntimeConfig { on_panic: OnPanic::Resume, ..RuntimeConfig::with_cores(cores) }
}

#[test]
fn urgent_tasks_go_before_a_busy_background_task_which_still_runs() {
    let _watchdog = Watchdog::new();
    block_on(async {
        let background = Rc::new(Cell::new(0u32));
        let busy = {
            let background = Rc::clone(&background);
            spawn(Class::Background, async move {
                loop {
                    background.set(background.get() + 1);
                    yield_now().await;
                }
            })
        };
        let urgent: Vec<_> = (0..10)
            .map(|_| {
                spawn(Class::Latency, async {
                    for _ in 0..1000 {
                        yield_now().await;
                    }
                })
            })
            .collect();
        join_all(urgent).await;
        let polls = background.get();
        assert!((1..500).contains(&polls), "{polls} background polls beside 10000 urgent ones");
        // A busy urgent task does not starve it either.
        let spinning = spawn(Class::Latency, async {
            loop {
                yield_now().await;
            }
        });
        let target = background.get() + 10;
        while background.get() < target {
            yield_now().await;
        }
        spinning.abort();
        busy.abort();
    });
}

#[test]
fn completions_are_seen_beside_a_busy_task() {
    let _watchdog = Watchdog::new();
    block_on(async {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), BindOptions::default()).await.unwrap();
        let address = listener.local_addr();
        for class in Class::ALL {
            spawn(class, async {
                loop {
                    yield_now().await;
                }
            })
            .detach();
        }
        spawn(Class::Latency, async move {
            let (stream, _) = listener.accept().await.unwrap();
            loop {
                let (got, buf) = stream.recv(BytesMut::with_capacity(100)).await;
                if got.unwrap() == 0 {
                    return;
                }
                stream.send_all(vec![buf.freeze()]).await.unwrap();
            }
        })
        .detach();
        let client = TcpStream::connect(address).await.unwrap();
        for _ in 0..200 {
            client.send_all(vec![Bytes::from_static(b"ping")]).await.unwrap();
            let (got, _) = client.recv(BytesMut::with_capacity(100)).await;
            assert!(got.unwrap() > 0);
        }
    });
}

#[test]
fn far_more_operations_than_the_ring_has_entries() {
    let _watchdog = Watchdog::new();
    let scratch = Scratch::new();
    let path = scratch.0.join("f");
    let mut config = config(1);
    config.ring_entries = 16;
    let runtime = Runtime::start(config, move |_| {
        let path = path.clone();
        async move {
            let file = File::open(path, OpenOptions::READ_WRITE).await.unwrap();
            let whole = pattern(5, 1 << 20);
            file.write_all_at(whole.clone(), 0).await.0.unwrap();
            let whole = Rc::new(whole);
            let tasks: Vec<_> = (0..5000usize)
                .map(|n| {
                    let (file, whole) = (file.clone(), Rc::clone(&whole));
                    spawn(Class::Normal, async move {
                        let off = n * 200;
                        let (read, buf) = file.read_exact_at(Vec::with_capacity(200), off as u64, 200).await;
                        read.unwrap();
                        assert_eq!(buf, whole[off..off + 200]);
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
        }
    })
    .unwrap();
    let counters = runtime.join();
    assert!(counters[0].ops > 5000, "{counters:?}");
}

/// Many receives complete at once, more than the completion queue holds.
#[test]
fn a_completion_queue_that_overflows_loses_nothing() {
    let _watchdog = Watchdog::new();
    let mut config = config(1);
    config.ring_entries = 16;
    let runtime = Runtime::start(config, |_| async {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), BindOptions::default()).await.unwrap();
        let address = listener.local_addr();
        let mut receiving = Vec::new();
        let mut clients = Vec::new();
        for n in 0..300u32 {
            let client = TcpStream::connect(address).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            receiving.push(spawn(Class::Normal, async move {
                let (got, buf) = server.recv(BytesMut::with_capacity(8)).await;
                assert_eq!(got.unwrap(), 4);
                assert_eq!(buf[..], n.to_le_bytes());
            }));
            clients.push(client);
        }
        yield_now().await;
        // Written without this core's ring, so that all completions come in one go.
        crate::unblock(|| ()).await;
        let sends = clients.iter().zip(0..300u32);
        join_all(sends.map(|(client, n)| client.send_all(vec![Bytes::copy_from_slice(&n.to_le_bytes())]))).await;
        for task in receiving {
            task.await;
        }
    })
    .unwrap();
    runtime.join();
}

#[test]
fn wakers_work_from_foreign_threads_and_outlive_their_task() {
    let _watchdog = Watchdog::new();
    block_on(async {
        for round in 0..200 {
            let cell = Arc::new(Mutex::new((false, None::<Waker>)));
            let theirs = Arc::clone(&cell);
            let thread = std::thread::spawn(move || {
                loop {
                    let mut state = theirs.lock().unwrap();
                    if let Some(waker) = state.1.take() {
                        state.0 = true;
                        drop(state);
                        if round % 2 == 0 {
                            waker.wake_by_ref();
                        }
                        waker.wake_by_ref();
                        return waker;
                    }
                    drop(state);
                    std::thread::yield_now();
                }
            });
            std::future::poll_fn(|cx| {
                let mut state = cell.lock().unwrap();
                if state.0 {
                    return Poll::Ready(());
                }
                state.1 = Some(cx.waker().clone());
                Poll::Pending
            })
            .await;
            // A waker of a finished task, or of a finished core, does nothing.
            let stale = thread.join().unwrap();
            stale.wake();
        }
    });
}

#[test]
fn a_stop_is_seen_on_every_core_at_any_time() {
    let _watchdog = Watchdog::new();
    for cores in [1, 2, 4] {
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        let runtime = Runtime::start(config(cores), move |_| {
            let count = Arc::clone(&count);
            async move {
                let waiting: Vec<_> = (0..3).map(|_| spawn(Class::Normal, stopping())).collect();
                stopping().await;
                join_all(waiting).await;
                assert!(is_stopping());
                stopping().await;
                count.fetch_add(1, Ordering::SeqCst);
            }
        })
        .unwrap();
        let stop = runtime.stop_handle();
        assert!(!stop.is_stopping());
        std::thread::sleep(Duration::from_millis(5));
        stop.stop();
        runtime.join();
        assert_eq!(seen.load(Ordering::SeqCst), cores);
    }
}

#[test]
fn a_panic_on_one_core_stops_the_others() {
    let _watchdog = Watchdog::new();
    let runtime = Runtime::start(config(2), |core| async move {
        if core.0 == 1 {
            sleep(Duration::from_millis(2)).await;
            panic!("on purpose");
        }
        stopping().await;
    })
    .unwrap();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.join()));
    assert_eq!(outcome.unwrap_err().downcast_ref::<&str>(), Some(&"on purpose"));
}

#[test]
fn a_core_that_ends_gives_back_what_is_in_flight() {
    let _watchdog = Watchdog::new();
    for _ in 0..20 {
        let runtime = Runtime::start(config(2), |_| async {
            let listener =
                TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), BindOptions::default()).await.unwrap();
            let client = TcpStream::connect(listener.local_addr()).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            spawn(Class::Normal, async move { listener.accept().await.map(drop) }).detach();
            spawn(Class::Normal, async move { server.recv(BytesMut::with_capacity(1 << 16)).await.0 }).detach();
            spawn(Class::Normal, async move { client.send_all(vec![Bytes::from(vec![0; 9 << 20]); 4]).await }).detach();
            spawn(Class::Normal, sleep(Duration::from_secs(1000))).detach();
            sleep(Duration::from_millis(1)).await;
        })
        .unwrap();
        runtime.join();
    }
}

#[test]
fn counters_count_and_parked_cores_are_woken_through_the_ring() {
    let _watchdog = Watchdog::new();
    let ports: Vec<_> = crate::mailbox::mesh::<u32>(2, 4).into_iter().map(Some).collect();
    let ports = Arc::new(Mutex::new(ports));
    let runtime = Runtime::start(config(2), move |core| {
        let port = ports.lock().unwrap()[core.index()].take().unwrap();
        async move {
            let other = crate::CoreId(1 - core.0);
            for n in 0..100 {
                if core.0 == 0 {
                    port.post(other, n).await;
                }
                assert_eq!(port.recv().await, (other, n));
                if core.0 == 1 {
                    port.post(other, n).await;
                }
            }
            assert!(counters().tasks_polled > 0);
        }
    })
    .unwrap();
    let counters = runtime.join();
    let messages: u64 = counters.iter().map(|c| c.ring_messages).sum();
    assert!(messages > 0 && messages <= 202, "{counters:?}");
    assert!(counters.iter().all(|c| c.parks > 0 && c.ring_enters > 0), "{counters:?}");
}

#[test]
fn registered_files_work_and_their_slots_are_used_again() {
    let _watchdog = Watchdog::new();
    let scratch = Scratch::new();
    let path = scratch.0.join("f");
    let mut config = config(1);
    config.registered_files = 2;
    let runtime = Runtime::start(config, move |_| {
        let path = path.clone();
        async move {
            for n in 0..10u64 {
                let one = File::open(&path, OpenOptions::READ_WRITE).await.unwrap();
                let two = File::open(&path, OpenOptions::READ_WRITE).await.unwrap();
                let three = File::open(&path, OpenOptions::READ_WRITE).await.unwrap();
                assert!(one.register() && one.register() && two.register());
                assert!(!three.register(), "the table has two slots");
                for file in [&one, &two, &three] {
                    file.write_all_at(pattern(n, 1000), 0).await.0.unwrap();
                    let (read, buf) = file.read_exact_at(Vec::with_capacity(1000), 0, 1000).await;
                    read.unwrap();
                    assert_eq!(buf, pattern(n, 1000));
                }
            }
        }
    })
    .unwrap();
    runtime.join();
}

#[test]
fn a_runtime_without_cores_or_with_too_many_is_refused() {
    let _watchdog = Watchdog::new();
    for cores in [0, 257] {
        assert!(Runtime::start(config(cores), |_| async {}).is_err(), "{cores} cores");
    }
}

#[test]
fn registered_memory_is_used_goes_home_from_anywhere_and_runs_out_gracefully() {
    let _watchdog = Watchdog::new();
    let scratch = Scratch::new();
    let path = scratch.0.join("f");
    let mut config = config(1);
    config.registered_bytes = 2 << 20;
    let runtime = Runtime::start(config, move |_| {
        let path = path.clone();
        async move {
            let options = OpenOptions { direct: true, ..OpenOptions::READ_WRITE };
            let file = File::open(&path, options).await.unwrap();
            file.register();
            // Four times as much as is registered, so that half of the buffers are plain memory.
            for round in 0..4u64 {
                let tasks: Vec<_> = (0..64u64)
                    .map(|n| {
                        let file = file.clone();
                        spawn(Class::Normal, async move {
                            let mut buf = AlignedBuf::with_capacity(128 << 10);
                            buf.extend_from_slice(&pattern(round * 64 + n, 128 << 10));
                            let (wrote, _) = file.write_all_at_durable(buf.freeze(), n << 17).await;
                            wrote.unwrap();
                            let (read, back) =
                                file.read_exact_at(AlignedBuf::with_capacity(1 << 17), n << 17, 1 << 17).await;
                            read.unwrap();
                            assert!(back[..] == pattern(round * 64 + n, 128 << 10)[..]);
                            // Half of them end on another thread.
                            if n % 2 == 0 {
                                std::thread::spawn(move || drop(back)).join().unwrap();
                            }
                        })
                    })
                    .collect();
                join_all(tasks).await;
            }
        }
    })
    .unwrap();
    runtime.join();
}

/// The wake for a message is handed to the kernel after the poll that posted it. When that poll panics, the other core must
/// still hear of the stop.
#[test]
fn a_core_that_panics_owing_another_a_wake_does_not_leave_it_asleep() {
    let _watchdog = Watchdog::new();
    for _ in 0..10 {
        let ports = crate::Handover::new(crate::mailbox::mesh::<u32>(2, 4));
        let runtime = Runtime::start(config(2), move |core| {
            let port = ports.take(core);
            async move {
                if core.0 == 1 {
                    sleep(Duration::from_millis(3)).await;
                    port.post(crate::CoreId(0), 1).await;
                    panic!("on purpose");
                }
                port.recv().await;
                stopping().await;
            }
        })
        .unwrap();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.join()));
        assert_eq!(outcome.unwrap_err().downcast_ref::<&str>(), Some(&"on purpose"));
    }
}

#[test]
fn memory_that_is_held_counts() {
    const BYTES: u64 = 256 << 20;
    let _watchdog = Watchdog::new();
    block_on(async {
        let before = crate::process_memory().await;
        let held = vec![1u8; BYTES as usize];
        let with = crate::process_memory().await;
        drop(held);
        let after = crate::process_memory().await;
        // Other tests of this program allocate too, but by far not as much.
        let grown = |one: Option<u64>, two: Option<u64>| two.zip(one).is_none_or(|(two, one)| two > one + BYTES / 2);
        assert!(grown(before.allocated, with.allocated), "{before:?}, {with:?}");
        assert!(grown(after.allocated, with.allocated), "{with:?}, {after:?}");
        assert!(grown(before.resident, with.resident), "{before:?}, {with:?}");
    });
}
