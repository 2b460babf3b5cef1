//! The patterns on the project's reactor.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use bytes::BytesMut;
use reactor::fs::{File, OpenOptions};
use reactor::net::{BindOptions, TcpListener, TcpStream};
use reactor::{
    AlignedBuf, Class, CoreId, CoreSpec, Handover, Runtime, RuntimeConfig, join_all, mailbox, now, sleep, spawn,
    stopping,
};

use crate::{
    APPEND_BYTES, APPEND_DEPTH, APPEND_FILE_BYTES, Contender, FRAME_BYTES, LOAD_CPU, ROUND_TRIP_PAUSE, ROUND_TRIPS,
    SERVER_CPU, Server,
};

/// The reactor parked when idle, spinning for a moment first, and with registered buffers and file.
pub fn contenders() -> Vec<Contender> {
    vec![
        Contender {
            name: "reactor",
            echo: Some(|| serve(echo, false)),
            sink: Some(|| serve(sink, false)),
            round_trips: Some(|| round_trips(Duration::ZERO)),
            append: Some(|path| append(path, false)),
        },
        Contender {
            name: "reactor, registered",
            echo: Some(|| serve(echo, true)),
            sink: Some(|| serve(sink, true)),
            round_trips: None,
            append: Some(|path| append(path, true)),
        },
        Contender {
            name: "reactor, 50 us spin",
            echo: None,
            sink: None,
            round_trips: Some(|| round_trips(Duration::from_micros(50))),
            append: None,
        },
    ]
}

fn config(cpus: &[usize]) -> RuntimeConfig {
    let mut config = RuntimeConfig::with_cores(cpus.len());
    for (spec, cpu) in config.cores.iter_mut().zip(cpus) {
        *spec = CoreSpec { name: format!("own-{cpu}"), cpu: Some(*cpu) };
    }
    config
}

async fn echo(stream: TcpStream) {
    let mut buf = BytesMut::with_capacity(16 << 10);
    loop {
        if buf.capacity() < 4096 {
            buf.reserve(16 << 10);
        }
        let (got, mut filled) = stream.recv(buf).await;
        if got.unwrap_or(0) == 0 || stream.send_all(vec![filled.split().freeze()]).await.is_err() {
            return;
        }
        buf = filled;
    }
}

async fn sink(stream: TcpStream) {
    let mut buf = BytesMut::with_capacity(FRAME_BYTES);
    loop {
        let (got, mut filled) = stream.recv(buf).await;
        if got.unwrap_or(0) == 0 {
            return;
        }
        filled.clear();
        buf = filled;
    }
}

fn serve<F: Future<Output = ()> + 'static>(connection: fn(TcpStream) -> F, registered: bool) -> Server {
    let (tell, told) = channel::<SocketAddr>();
    let runtime = Runtime::start(config(&[SERVER_CPU]), move |_| {
        let tell: Sender<SocketAddr> = tell.clone();
        async move {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let listener = TcpListener::bind(any, BindOptions::default()).await.expect("a free port");
            tell.send(listener.local_addr()).expect("the benchmark waits for it");
            spawn(Class::Latency, async move {
                while let Ok((stream, _)) = listener.accept().await {
                    if registered {
                        stream.register();
                    }
                    spawn(Class::Latency, connection(stream)).detach();
                }
            })
            .detach();
            stopping().await;
        }
    })
    .expect("a ring");
    let address = told.recv().expect("the server starts");
    let handle = runtime.stop_handle();
    let stop = move || {
        handle.stop();
        runtime.join();
    };
    Server { address, stop: Some(Box::new(stop)) }
}

fn round_trips(spin: Duration) -> Vec<u64> {
    let ports = Handover::new(mailbox::mesh::<u64>(2, 16));
    let mut config = config(&[SERVER_CPU, LOAD_CPU]);
    config.spin = spin;
    let (tell, told) = channel();
    let runtime = Runtime::start(config, move |core| {
        let (port, tell): (_, Sender<Vec<u64>>) = (ports.take(core), tell.clone());
        async move {
            let other = CoreId(1 - core.0);
            if core.0 == 1 {
                for n in 0..ROUND_TRIPS as u64 {
                    port.recv().await;
                    port.post(other, n).await;
                }
                return;
            }
            let mut latencies = Vec::with_capacity(ROUND_TRIPS);
            for n in 0..ROUND_TRIPS as u64 {
                // With spinning the point is to be awake; without it, to be asleep.
                if spin.is_zero() {
                    sleep(ROUND_TRIP_PAUSE).await;
                }
                let start = now().mono_ns;
                port.post(other, n).await;
                port.recv().await;
                latencies.push(now().mono_ns - start);
            }
            tell.send(latencies).expect("the benchmark waits for them");
        }
    })
    .expect("two rings");
    runtime.join();
    told.recv().expect("the first core measured")
}

fn append(path: &Path, registered: bool) {
    let path = path.to_owned();
    let mut config = config(&[SERVER_CPU]);
    config.registered_bytes = if registered { 2 * APPEND_DEPTH * APPEND_BYTES } else { 0 };
    let runtime = Runtime::start(config, move |_| {
        let path = path.clone();
        async move {
            let options = OpenOptions { direct: true, truncate: true, ..OpenOptions::READ_WRITE };
            let file = File::open(&path, options).await.expect("a file");
            file.allocate(0, APPEND_FILE_BYTES).await.expect("room on the disk");
            if registered {
                file.register();
            }
            let blocks = APPEND_FILE_BYTES / APPEND_BYTES as u64;
            let writers = (0..APPEND_DEPTH as u64).map(|writer| {
                let file = file.clone();
                spawn(Class::Normal, async move {
                    let mut buf = AlignedBuf::with_capacity(APPEND_BYTES);
                    buf.resize(APPEND_BYTES, 7);
                    for block in (writer..blocks).step_by(APPEND_DEPTH) {
                        let (wrote, back) = file.write_at(buf, block * APPEND_BYTES as u64).await;
                        assert_eq!(wrote.expect("a healthy disk"), APPEND_BYTES);
                        buf = back;
                    }
                })
            });
            join_all(writers.collect::<Vec<_>>()).await;
            file.sync_data().await.expect("a healthy disk");
        }
    })
    .expect("a ring");
    runtime.join();
}
