//! Connections against a small service: a frame's first byte says what is done with it.

use crate::{
    Admission, AdmissionLimits, ConnectionCounts, ConnectionInfo, Enter, EntryLimits, FileRange, Limit, Listener,
    ListenerSpec, NetCore, NetLimits, Outgoing, Reply, Request, Response, Service,
};
use base::Few;
use bytes::{Bytes, BytesMut};
use reactor::net::TcpStream;
use reactor::sim::Sim;
use reactor::sync::oneshot;
use reactor::{Class, CoreId, spawn};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use wire::Segment;

/// `f` ten bytes of a file, from the frame's second byte on, between two letters; `e` echo; `o` echo, overlapping, when released; `x` echo when released; `n` nothing; `c` close.
#[derive(Default)]
struct Echo {
    waiting: RefCell<HashMap<u8, oneshot::Sender<()>>>,
    begun: RefCell<Vec<u8>>,
    begun_event: reactor::sync::Notify,
    admission: RefCell<Option<Admission>>,
    most_used: Cell<usize>,
    file: RefCell<Option<reactor::fs::File>>,
    /// Limit of all connections of listeners other than `BETWEEN`, and of those of an address; `None` limits nothing.
    all: Cell<Option<Limit>>,
    per_ip_max: Cell<Option<usize>>,
    inside: Cell<usize>,
}

fn framed(body: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.extend_from_slice(&(body.len() as i32).to_be_bytes());
    frame.extend_from_slice(body);
    frame.freeze()
}

fn echo(request: &Request) -> Response {
    let shown = &request.frame[..request.frame.len().min(8)];
    Response::Send(Outgoing { segments: Few::one(Segment::Bytes(framed(shown))), files: Vec::new() })
}

impl Service for Rc<Echo> {
    type Session = ();

    fn open(&self, _info: ConnectionInfo) {}

    fn overlaps(&self, _session: &(), frame: &Bytes) -> bool {
        frame.first() == Some(&b'o')
    }

    fn start(&self, _session: &Rc<()>, request: Request) -> Reply {
        let used = self.admission.borrow().as_ref().map_or(0, Admission::used_bytes);
        self.most_used.set(self.most_used.get().max(used));
        self.begun.borrow_mut().push(request.frame.get(1).copied().unwrap_or(0));
        self.begun_event.notify_one();
        match request.frame.first() {
            Some(b'o' | b'x') => {
                let (release, released) = oneshot::channel();
                self.waiting.borrow_mut().insert(request.frame[1], release);
                Reply::Later(Box::pin(async move {
                    let _ = released.await;
                    echo(&request)
                }))
            }
            Some(b'f') => {
                let file = self.file.borrow().clone().expect("the test has a file");
                let letter = |bytes: &'static [u8]| Segment::Bytes(Bytes::from_static(bytes));
                let segments = [letter(b"\0\0\0\x0c<"), Segment::External { len: 10, token: 0 }, letter(b">")];
                let segments = segments.into_iter().collect();
                let files = vec![FileRange { file, offset: u64::from(request.frame[1]) }];
                Reply::Ready(Response::Send(Outgoing { segments, files }))
            }
            Some(b'n') => Reply::Ready(Response::Nothing),
            Some(b'c') => Reply::Ready(Response::Close),
            _ => Reply::Ready(echo(&request)),
        }
    }

    fn limits(&self, listener: &str) -> EntryLimits {
        let all = self.all.get().unwrap_or(Limit::NONE);
        EntryLimits { all, is_protected: listener == BETWEEN, burst_ns: 0, ..EntryLimits::NONE }
    }

    fn enter(&self, _ip: IpAddr) -> Enter {
        let Some(max) = self.per_ip_max.get() else { return Enter::Free };
        let echo = self.clone();
        Enter::Asked(Box::pin(async move {
            reactor::yield_now().await;
            let has_room = echo.inside.get() < max;
            echo.inside.set(echo.inside.get() + usize::from(has_room));
            has_room
        }))
    }

    fn left(&self, _ip: IpAddr) {
        self.inside.set(self.inside.get() - 1);
    }
}

impl Echo {
    fn limited(all: Option<usize>, per_ip: Option<usize>) -> Rc<Echo> {
        let all = all.map(|connections| Limit { connections, ..Limit::NONE });
        Rc::new(Echo { all: Cell::new(all), per_ip_max: Cell::new(per_ip), ..Echo::default() })
    }

    async fn until_begun(&self, count: usize) {
        while self.begun.borrow().len() < count {
            self.begun_event.notified().await;
        }
    }

    fn release(&self, which: u8) {
        let release = self.waiting.borrow_mut().remove(&which).expect("such a request waits");
        let _ = release.send(());
    }
}

const LIMITS: NetLimits = NetLimits {
    frame_bytes_max: 4 << 20,
    idle_ms_max: None,
    admission: AdmissionLimits { small_frame_bytes_max: 1024, small_bytes_max: 4096, large_bytes_max: 2 << 20 },
};

const LISTENER: &str = "TEST";
/// The listener that is protected.
const BETWEEN: &str = "BETWEEN";

struct Server {
    service: Rc<Echo>,
    net: Rc<NetCore<Rc<Echo>>>,
    addr: SocketAddr,
}

async fn serve(limits: NetLimits) -> Server {
    serve_with(Rc::new(Echo::default()), limits).await
}

async fn serve_with(service: Rc<Echo>, limits: NetLimits) -> Server {
    serve_at(service, limits, SocketAddr::from(([127, 0, 0, 1], 0))).await
}

async fn serve_at(service: Rc<Echo>, limits: NetLimits, addr: SocketAddr) -> Server {
    let counts = ConnectionCounts::new(&[vec![LISTENER, BETWEEN]]);
    let net = Rc::new(NetCore::new(service.clone(), limits, counts));
    *service.admission.borrow_mut() = Some(net.admission.clone());
    let addr = listen(&net, LISTENER, addr).await;
    spawn(Class::Normal, net.clone().sweep()).detach();
    Server { service, net, addr }
}

async fn listen(net: &Rc<NetCore<Rc<Echo>>>, name: &str, addr: SocketAddr) -> SocketAddr {
    let name = name.to_owned();
    let spec = ListenerSpec { name, addr, backlog: 128, send_buffer_bytes: None, receive_buffer_bytes: None };
    let listener = Listener::bind(&spec).await.expect("a port");
    let addr = listener.local_addr();
    spawn(Class::Normal, listener.run(net.clone())).detach();
    addr
}

struct Client {
    stream: TcpStream,
    buf: BytesMut,
}

impl Client {
    async fn new(server: &Server) -> Client {
        Client::at(server.addr).await
    }

    async fn at(addr: SocketAddr) -> Client {
        Client { stream: TcpStream::connect(addr).await.expect("connected"), buf: BytesMut::new() }
    }

    /// Whether the server still answers.
    async fn is_served(&mut self) -> bool {
        self.send(b"e?").await;
        self.next().await.is_some()
    }

    async fn send(&self, body: &[u8]) {
        let _ = self.stream.send_all(vec![framed(body)]).await;
    }

    /// The next frame; `None` when the server closed.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(prefix) = self.buf.first_chunk::<4>() {
                let len = i32::from_be_bytes(*prefix) as usize;
                if self.buf.len() >= 4 + len {
                    return Some(self.buf.split_to(4 + len).freeze().slice(4..));
                }
            }
            let mut buf = std::mem::take(&mut self.buf);
            buf.reserve(4096);
            let (result, buf) = self.stream.recv(buf).await;
            self.buf = buf;
            if result.map_or(true, |n| n == 0) {
                return None;
            }
        }
    }

    async fn expect(&mut self, body: &[u8]) {
        assert_eq!(self.next().await.as_deref(), Some(body));
    }
}

/// A client with three overlapping requests, all of which have begun and none of which is answered.
async fn three_begun() -> (Server, Client) {
    let server = serve(LIMITS).await;
    let client = Client::new(&server).await;
    for body in [b"o1", b"o2", b"o3"] {
        client.send(body).await;
    }
    server.service.until_begun(3).await;
    (server, client)
}

#[test]
fn overlapping_requests_are_answered_in_order() {
    reactor::block_on(async {
        let (server, mut client) = three_begun().await;
        for which in *b"321" {
            server.service.release(which);
        }
        for body in [b"o1", b"o2", b"o3"] {
            client.expect(body).await;
        }
    });
}

#[test]
fn answers_that_are_ready_together_are_sent_together() {
    reactor::block_on(async {
        let (server, mut client) = three_begun().await;
        for which in *b"123" {
            server.service.release(which);
        }
        client.expect(b"o1").await;
        let rest = [framed(b"o2"), framed(b"o3")].concat();
        assert_eq!(client.buf, rest, "they came with the first");
    });
}

#[test]
fn other_requests_run_alone() {
    reactor::block_on(async {
        let server = serve(LIMITS).await;
        let mut client = Client::new(&server).await;
        for body in [b"o1", b"x2", b"o3", b"e4"] {
            client.send(body).await;
        }
        server.service.until_begun(1).await;
        reactor::yield_now().await;
        assert_eq!(*server.service.begun.borrow(), b"1");
        server.service.release(b'1');
        client.expect(b"o1").await;
        server.service.until_begun(2).await;
        assert_eq!(*server.service.begun.borrow(), b"12");
        server.service.release(b'2');
        client.expect(b"x2").await;
        server.service.until_begun(3).await;
        assert_eq!(*server.service.begun.borrow(), b"123");
        server.service.release(b'3');
        client.expect(b"o3").await;
        client.expect(b"e4").await;
    });
}

#[test]
fn nothing_is_sent_where_no_response_is_due_and_close_comes_after_what_was_before() {
    reactor::block_on(async {
        let server = serve(LIMITS).await;
        let mut client = Client::new(&server).await;
        for body in [b"n1", b"e2", b"c3", b"e4"] {
            client.send(body).await;
        }
        client.expect(b"e2").await;
        assert_eq!(client.next().await, None);
        assert_eq!(*server.service.begun.borrow(), b"123");
    });
}

#[test]
fn a_lying_length_ends_its_connection_and_no_other() {
    reactor::block_on(async {
        let server = serve(LIMITS).await;
        let mut good = Client::new(&server).await;
        for prefix in [-1, i32::MIN, i32::MAX, LIMITS.frame_bytes_max as i32 + 1] {
            let mut bad = Client::new(&server).await;
            let sent = Bytes::copy_from_slice(&prefix.to_be_bytes());
            bad.stream.send_all(vec![sent]).await.expect("sent");
            assert_eq!(bad.next().await, None, "{prefix}");
            good.send(b"e1").await;
            good.expect(b"e1").await;
        }
        assert_eq!(server.net.registry.len(), 1);
    });
}

#[test]
fn connections_above_the_limit_of_their_address_are_closed() {
    reactor::block_on(async {
        let server = serve_with(Echo::limited(None, Some(1)), LIMITS).await;
        let mut first = Client::new(&server).await;
        first.send(b"e1").await;
        first.expect(b"e1").await;
        let mut second = Client::new(&server).await;
        assert_eq!(second.next().await, None);
        first.send(b"e2").await;
        first.expect(b"e2").await;
        first.send(b"c3").await;
        assert_eq!(first.next().await, None);
        // The place is free when the server has forgotten the connection, which may be a moment later.
        loop {
            let mut third = Client::new(&server).await;
            third.send(b"e4").await;
            if third.next().await.is_some() {
                break;
            }
        }
        assert_eq!(server.service.inside.get(), 1);
    });
}

#[test]
fn connections_above_the_limit_of_all_wait_for_room() {
    reactor::block_on(async {
        let server = serve_with(Echo::limited(Some(2), None), LIMITS).await;
        let mut inside = Vec::new();
        for _ in 0..2 {
            let mut client = Client::new(&server).await;
            client.send(b"e1").await;
            client.expect(b"e1").await;
            inside.push(client);
        }
        let mut waiting = Vec::new();
        for _ in 0..5 {
            let client = Client::new(&server).await;
            client.send(b"e2").await;
            waiting.push(client);
        }
        for mut client in waiting {
            let first = inside.remove(0);
            first.send(b"e3").await;
            assert_eq!(server.net.registry.len(), 2);
            drop(first);
            client.expect(b"e2").await;
            inside.push(client);
        }
        // Those that wait for room do not hold up a stop.
        let _unserved = Client::new(&server).await;
        server.net.drain(60_000).await;
        assert!(server.net.registry.is_empty());
    });
}

#[test]
fn connections_that_come_too_fast_wait_for_their_turn() {
    reactor::block_on(async {
        let service = Rc::new(Echo::default());
        service.all.set(Some(Limit { per_second: 0, ..Limit::NONE }));
        let server = serve_with(service, LIMITS).await;
        let mut clients = Vec::new();
        for _ in 0..3 {
            let client = Client::new(&server).await;
            client.send(b"e1").await;
            clients.push(client);
        }
        // They are not refused, and a rate that is raised holds for those that wait.
        reactor::sleep(Duration::from_millis(50)).await;
        assert!(server.net.registry.is_empty());
        server.service.all.set(Some(Limit { per_second: 100, ..Limit::NONE }));
        for client in &mut clients {
            client.expect(b"e1").await;
        }
    });
}

#[test]
fn the_listener_between_brokers_finds_room_where_others_are_silent() {
    reactor::block_on(async {
        let server = serve_with(Echo::limited(Some(2), None), LIMITS).await;
        let between = listen(&server.net, BETWEEN, SocketAddr::from(([127, 0, 0, 1], 0))).await;
        let (mut silent, mut busy) = (Client::new(&server).await, Client::new(&server).await);
        assert!(silent.is_served().await);
        busy.send(b"x1").await;
        server.service.until_begun(2).await;
        let mut first = Client::at(between).await;
        assert!(first.is_served().await);
        assert_eq!(silent.next().await, None, "who has nothing in flight makes room");
        server.service.release(b'1');
        busy.expect(b"x1").await;
        let mut second = Client::at(between).await;
        assert!(second.is_served().await);
        assert_eq!(busy.next().await, None);
        // There is nobody left to make room, and it is let in all the same.
        let mut third = Client::at(between).await;
        assert!(third.is_served().await && second.is_served().await && first.is_served().await);
    });
}

#[test]
fn idle_connections_are_closed_but_not_while_a_request_waits() {
    reactor::block_on(async {
        let server = serve(NetLimits { idle_ms_max: Some(20), ..LIMITS }).await;
        let (mut busy, mut idle) = (Client::new(&server).await, Client::new(&server).await);
        busy.send(b"x1").await;
        server.service.until_begun(1).await;
        assert_eq!(idle.next().await, None, "idle");
        server.service.release(b'1');
        busy.expect(b"x1").await;
        assert_eq!(busy.next().await, None, "idle now too");
    });
}

#[test]
fn draining_answers_what_is_in_flight() {
    reactor::block_on(async {
        let server = serve(LIMITS).await;
        let (mut busy, mut idle) = (Client::new(&server).await, Client::new(&server).await);
        idle.send(b"e0").await;
        idle.expect(b"e0").await;
        busy.send(b"x1").await;
        busy.send(b"e2").await;
        server.service.until_begun(2).await;
        let net = server.net.clone();
        let draining = spawn(Class::Normal, async move { net.drain(60_000).await });
        assert_eq!(idle.next().await, None);
        server.service.release(b'1');
        busy.expect(b"x1").await;
        assert_eq!(busy.next().await, None, "the second request was never begun");
        draining.await;
        assert!(server.net.registry.is_empty());
        assert_eq!(*server.service.begun.borrow(), b"01");
    });
}

#[test]
fn file_ranges_are_sent_in_their_place() {
    reactor::block_on(async {
        let server = serve(LIMITS).await;
        let path = std::env::temp_dir().join(format!("odradek-net-test-{:016x}", reactor::random_u64()));
        reactor::fs::write_atomic_durable(&path, &b"0123456789abcdefghij"[..]).await.expect("a temporary file");
        let options = reactor::fs::OpenOptions { read: true, ..Default::default() };
        *server.service.file.borrow_mut() = Some(reactor::fs::File::open(&path, options).await.expect("just written"));
        let mut client = Client::new(&server).await;
        for body in [&b"e1"[..], b"f\x00", b"f\x0a", b"e2", b"f\x03"] {
            client.send(body).await;
        }
        for body in [&b"e1"[..], b"<0123456789>", b"<abcdefghij>", b"e2", b"<3456789abc>"] {
            client.expect(body).await;
        }
        reactor::fs::remove_file(&path).await.expect("the test's own file");
    });
}

#[test]
fn request_memory_stays_within_its_budget() {
    reactor::block_on(async {
        let server = serve(LIMITS).await;
        let body: Vec<u8> = std::iter::repeat_n(b'e', 900 << 10).collect();
        let mut clients = Vec::new();
        for _ in 0..24 {
            clients.push(Client::new(&server).await);
        }
        let tasks: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                let body = body.clone();
                spawn(Class::Normal, async move {
                    for _ in 0..3 {
                        client.send(&body).await;
                        client.expect(&body[..8]).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        let most = server.service.most_used.get();
        assert!((900 << 10..=2 << 20).contains(&most), "{most} bytes in use at once");
        assert_eq!(server.net.admission.used_bytes(), 0);
    });
}

/// Under simulation, since it takes more than ten seconds. Answers that come while the buffer is exchanged are not lost: clients
/// of several seeds come back at about that time.
#[test]
fn an_idle_connection_keeps_no_large_buffer() {
    for seed in 0..8 {
        let mut sim = Sim::new(seed);
        let address = Rc::new(Cell::new(None));
        let buffers = Rc::new(RefCell::new(Vec::new()));
        let (tell, seen) = (address.clone(), buffers.clone());
        let node = sim.add_client();
        let ip = sim.ip(node);
        sim.spawn(node, CoreId(0), async move {
            let server = serve_at(Rc::new(Echo::default()), LIMITS, SocketAddr::new(ip, 9)).await;
            tell.set(Some(server.addr));
            loop {
                reactor::sleep(Duration::from_millis(500)).await;
                seen.borrow_mut().push(server.net.registry.buffer_bytes());
            }
        })
        .detach();
        let client = sim.add_client();
        let done = Rc::new(Cell::new(false));
        let finished = done.clone();
        sim.spawn(client, CoreId(0), async move {
            reactor::sleep(Duration::from_millis(100)).await;
            let addr = address.get().expect("the server listens");
            let (stream, buf) = (TcpStream::connect(addr).await.expect("the server listens"), BytesMut::new());
            let mut client = Client { stream, buf };
            let body: Vec<u8> = std::iter::repeat_n(b'e', 60_000).collect();
            for pause_ms in [0, 0, 0, 0, 12_000 + 900 * seed, 20_000, 0] {
                client.stream.send_all(vec![framed(&body); 24]).await.expect("the server reads");
                for _ in 0..24 {
                    client.expect(&body[..8]).await;
                }
                reactor::sleep(Duration::from_millis(pause_ms)).await;
            }
            finished.set(true);
        })
        .detach();
        sim.run_for(Duration::from_secs(60));
        assert!(done.get(), "seed {seed}: the client hangs");
        let buffers = buffers.borrow();
        assert!(buffers.iter().max() > Some(&4096), "seed {seed}: {buffers:?}");
        assert!(buffers.iter().any(|bytes| (1..=4096).contains(bytes)), "seed {seed}: {buffers:?}");
    }
}

#[test]
fn an_idle_connection_is_small() {
    fn size<A, B, C, D, F: Future>(_: fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }
    let bytes = size(crate::connection::serve::<Rc<Echo>>);
    println!("the state of a connection's task: {bytes} bytes");
    assert!(bytes <= 1536, "{bytes} bytes: something large is kept across an await; box what is rare");
}
