//! The load, and what it costs the other side.

use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

use crate::report::Outcome;
use crate::{APPEND_FILE_BYTES, CONNECTIONS, FRAME_BYTES, LOAD_CPU, REQUEST_BYTES, SINK_CONNECTIONS, Server};

/// Connections are warm after this.
const WARM_UP: Duration = Duration::from_millis(200);

/// Threads of the load carry this name; all others but the main one count as the server.
const LOAD: &str = "load";

/// Starts a thread of the load on its CPU.
fn load_thread(run: impl FnOnce() + Send + 'static) -> std::thread::JoinHandle<()> {
    let body = move || {
        core_affinity::set_for_current(core_affinity::CoreId { id: LOAD_CPU });
        run();
    };
    std::thread::Builder::new().name(LOAD.into()).spawn(body).expect("a thread for the load")
}

/// CPU time of this process without the load, the main thread included, in seconds. Helper threads of the kernel's rings are
/// among the tasks of the process.
fn server_cpu() -> f64 {
    let mut nanos = 0u64;
    for task in std::fs::read_dir("/proc/self/task").expect("procfs").flatten() {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.trim_end() == LOAD {
            continue;
        }
        let times = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        nanos += times.split(' ').next().and_then(|ran| ran.parse::<u64>().ok()).unwrap_or(0);
    }
    nanos as f64 / 1e9
}

/// What a counter and the server's CPU gained in `duration`.
fn observe(count: &AtomicU64, duration: Duration) -> (f64, f64, f64) {
    std::thread::sleep(WARM_UP);
    let (start, cpu, before) = (Instant::now(), server_cpu(), count.load(Ordering::Relaxed));
    std::thread::sleep(duration);
    let done = count.load(Ordering::Relaxed) - before;
    (done as f64, start.elapsed().as_secs_f64(), server_cpu() - cpu)
}

/// Each connection sends a request, waits for the answer, and sends the next.
pub fn small_requests(server: &Server, duration: Duration) -> Outcome {
    let (count, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (address, answered, end) = (server.address, Arc::clone(&count), Arc::clone(&over));
    let thread = load_thread(move || {
        let mut poll = Poll::new().expect("epoll");
        let mut connections: Vec<_> = (0..CONNECTIONS)
            .map(|n| {
                let stream = std::net::TcpStream::connect(address).expect("the server listens");
                stream.set_nodelay(true).expect("a TCP option");
                stream.set_nonblocking(true).expect("a socket option");
                let mut stream = mio::net::TcpStream::from_std(stream);
                poll.registry().register(&mut stream, Token(n), Interest::READABLE).expect("epoll");
                (stream, 0usize)
            })
            .collect();
        let request = [7u8; REQUEST_BYTES];
        for (stream, _) in &mut connections {
            stream.write_all(&request).expect("an empty send buffer");
        }
        let mut events = Events::with_capacity(CONNECTIONS);
        let mut buf = [0u8; 4096];
        while !end.load(Ordering::Relaxed) {
            poll.poll(&mut events, Some(Duration::from_millis(100))).expect("epoll");
            for event in &events {
                let (stream, got) = &mut connections[event.token().0];
                loop {
                    match stream.read(&mut buf) {
                        Ok(0) => panic!("the server closed a connection"),
                        Ok(n) => *got += n,
                        Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                        Err(e) => panic!("receiving: {e}"),
                    }
                    if *got == REQUEST_BYTES {
                        *got = 0;
                        answered.fetch_add(1, Ordering::Relaxed);
                        stream.write_all(&request).expect("an empty send buffer");
                    }
                }
            }
        }
    });
    let (done, seconds, cpu) = observe(&count, duration);
    over.store(true, Ordering::Relaxed);
    thread.join().expect("the load ends");
    Outcome { first: done / seconds, second: cpu * 1e6 / done }
}

/// Connections that send large frames as fast as they are taken.
pub fn large_frames(server: &Server, duration: Duration) -> Outcome {
    let (count, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let threads: Vec<_> = (0..SINK_CONNECTIONS)
        .map(|_| {
            let (address, sent, end) = (server.address, Arc::clone(&count), Arc::clone(&over));
            load_thread(move || {
                let mut stream = std::net::TcpStream::connect(address).expect("the server listens");
                let frame = vec![7u8; FRAME_BYTES];
                while !end.load(Ordering::Relaxed) {
                    stream.write_all(&frame).expect("the server reads");
                    sent.fetch_add(FRAME_BYTES as u64, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let (bytes, seconds, cpu) = observe(&count, duration);
    over.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("the load ends");
    }
    Outcome { first: bytes / 1e6 / seconds, second: cpu / (bytes / 1e9) }
}

/// Time and CPU of writing the whole file.
pub fn appends(path: &Path, run: fn(&Path)) -> Outcome {
    let path = path.to_owned();
    let (start, cpu) = (Instant::now(), process_cpu());
    run(&path);
    let seconds = start.elapsed().as_secs_f64();
    let bytes = APPEND_FILE_BYTES as f64;
    Outcome { first: bytes / 1e6 / seconds, second: (process_cpu() - cpu) / (bytes / 1e9) }
}

/// CPU time of the process with threads that ended, in seconds; there is no load beside the appends.
fn process_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("procfs");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // User and system time in ticks of 10 ms.
    let ticks: f64 = [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<f64>().ok()).sum();
    ticks / 100.0
}
