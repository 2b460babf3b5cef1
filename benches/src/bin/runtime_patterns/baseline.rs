//! The patterns without a runtime: an epoll loop, threads that wake each other, threads that write.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token, Waker};

use crate::{
    APPEND_BYTES, APPEND_DEPTH, APPEND_FILE_BYTES, CONNECTIONS, Contender, FRAME_BYTES, LOAD_CPU, ROUND_TRIP_PAUSE,
    ROUND_TRIPS, SERVER_CPU, Server,
};

/// `O_DIRECT` of Linux on x86-64 and most others.
const O_DIRECT: i32 = 0o40000;
const LISTENER: Token = Token(usize::MAX);

/// Plain epoll, and plain threads.
pub fn contenders() -> Vec<Contender> {
    vec![
        Contender {
            name: "epoll",
            echo: Some(|| serve(true)),
            sink: Some(|| serve(false)),
            round_trips: Some(round_trips),
            append: None,
        },
        Contender { name: "8 threads, pwrite", echo: None, sink: None, round_trips: None, append: Some(append) },
    ]
}

fn pin(cpu: usize) {
    core_affinity::set_for_current(core_affinity::CoreId { id: cpu });
}

/// Reads what is there and, for an echo, writes it back. False when the connection is over.
fn exchange(stream: &mut mio::net::TcpStream, buf: &mut [u8], echo: bool) -> bool {
    loop {
        match stream.read(buf) {
            Ok(0) => return false,
            Ok(_) if !echo => {}
            // Small answers always fit into an empty send buffer.
            Ok(n) => {
                if stream.write_all(&buf[..n]).is_err() {
                    return false;
                }
                if n < buf.len() {
                    return true;
                }
            }
            Err(e) => return e.kind() == ErrorKind::WouldBlock,
        }
    }
}

fn serve(echo: bool) -> Server {
    let mut listener = mio::net::TcpListener::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let over = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&over);
    let body = move || {
        pin(SERVER_CPU);
        let mut poll = Poll::new().expect("epoll");
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE).expect("epoll");
        let mut events = Events::with_capacity(2 * CONNECTIONS);
        let mut connections = Vec::new();
        while !end.load(Ordering::Relaxed) {
            poll.poll(&mut events, Some(Duration::from_millis(50))).expect("epoll");
            for event in &events {
                if event.token() == LISTENER {
                    while let Ok((mut stream, _)) = listener.accept() {
                        stream.set_nodelay(true).expect("a TCP option");
                        let token = Token(connections.len());
                        poll.registry().register(&mut stream, token, Interest::READABLE).expect("epoll");
                        // A buffer of its own: a frame has to stay somewhere until it is whole.
                        connections.push(Some((stream, vec![0u8; if echo { 16 << 10 } else { FRAME_BYTES }])));
                    }
                    continue;
                }
                let slot = &mut connections[event.token().0];
                if let Some((stream, buf)) = slot
                    && !exchange(stream, buf, echo)
                {
                    *slot = None;
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name("epoll".into()).spawn(body).expect("a thread");
    let stop = move || {
        over.store(true, Ordering::Relaxed);
        thread.join().expect("the server ends");
    };
    Server { address, stop: Some(Box::new(stop)) }
}

/// A counter and the eventfd that tells of it, as an epoll loop would be woken.
struct Bell {
    count: AtomicU64,
    waker: Waker,
}

impl Bell {
    fn new(poll: &Poll) -> Arc<Bell> {
        let waker = Waker::new(poll.registry(), Token(0)).expect("an eventfd");
        Arc::new(Bell { count: AtomicU64::new(0), waker })
    }

    fn ring(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.waker.wake().expect("an eventfd");
    }

    fn wait(&self, target: u64, poll: &mut Poll, events: &mut Events) {
        while self.count.load(Ordering::SeqCst) < target {
            poll.poll(events, None).expect("epoll");
        }
    }
}

fn round_trips() -> Vec<u64> {
    let (mut here, mut there) = (Poll::new().expect("epoll"), Poll::new().expect("epoll"));
    let (to_here, to_there) = (Bell::new(&here), Bell::new(&there));
    let (back, come) = (Arc::clone(&to_here), Arc::clone(&to_there));
    let partner = std::thread::spawn(move || {
        pin(LOAD_CPU);
        let mut events = Events::with_capacity(4);
        for n in 1..=ROUND_TRIPS as u64 {
            come.wait(n, &mut there, &mut events);
            back.ring();
        }
    });
    let measuring = std::thread::spawn(move || {
        pin(SERVER_CPU);
        let mut events = Events::with_capacity(4);
        let mut latencies = Vec::with_capacity(ROUND_TRIPS);
        for n in 1..=ROUND_TRIPS as u64 {
            std::thread::sleep(ROUND_TRIP_PAUSE);
            let start = Instant::now();
            to_there.ring();
            to_here.wait(n, &mut here, &mut events);
            latencies.push(start.elapsed().as_nanos() as u64);
        }
        latencies
    });
    partner.join().expect("the partner ends");
    measuring.join().expect("measured")
}

fn append(path: &Path) {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(O_DIRECT);
    let file = Arc::new(options.open(path).expect("a file"));
    // Only the reactor can preallocate without unsafe code here.
    let prepared = path.to_owned();
    reactor::block_on(async move {
        let file = reactor::fs::File::open(&prepared, reactor::fs::OpenOptions::READ_WRITE).await.expect("a file");
        file.allocate(0, APPEND_FILE_BYTES).await.expect("room on the disk");
    });
    let blocks = APPEND_FILE_BYTES / APPEND_BYTES as u64;
    let writers: Vec<_> = (0..APPEND_DEPTH as u64)
        .map(|writer| {
            let file = Arc::clone(&file);
            std::thread::spawn(move || {
                pin(SERVER_CPU);
                let mut buf = reactor::AlignedBuf::with_capacity(APPEND_BYTES);
                buf.resize(APPEND_BYTES, 7);
                for block in (writer..blocks).step_by(APPEND_DEPTH) {
                    file.write_all_at(&buf, block * APPEND_BYTES as u64).expect("a healthy disk");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("written");
    }
    file.sync_data().expect("a healthy disk");
}
