//! The patterns on glommio.

use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use futures_lite::{AsyncReadExt, AsyncWriteExt};
use glommio::channels::shared_channel;
use glommio::io::{DmaFile, OpenOptions};
use glommio::net::{TcpListener, TcpStream};
use glommio::{LocalExecutorBuilder, Placement, spawn_local};

use crate::{
    APPEND_BYTES, APPEND_DEPTH, APPEND_FILE_BYTES, Contender, FRAME_BYTES, LOAD_CPU, ROUND_TRIP_PAUSE, ROUND_TRIPS,
    SERVER_CPU, Server,
};

/// glommio with its defaults: it parks when idle.
pub fn contenders() -> Vec<Contender> {
    vec![Contender {
        name: "glommio",
        echo: Some(|| serve(true)),
        sink: Some(|| serve(false)),
        round_trips: Some(round_trips),
        append: Some(append),
    }]
}

fn executor(name: &str, cpu: usize) -> LocalExecutorBuilder {
    LocalExecutorBuilder::new(Placement::Fixed(cpu)).name(name)
}

async fn connection(mut stream: TcpStream, echo: bool) {
    let mut buf = vec![0u8; if echo { 16 << 10 } else { FRAME_BYTES }];
    loop {
        match stream.read(&mut buf).await {
            Ok(n) if n > 0 => {
                if echo && stream.write_all(&buf[..n]).await.is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

fn serve(echo: bool) -> Server {
    let over = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&over);
    let (tell, told) = channel::<SocketAddr>();
    let thread = executor("glommio", SERVER_CPU)
        .spawn(move || async move {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            tell.send(listener.local_addr().expect("bound")).expect("the benchmark waits for it");
            let accepting = spawn_local(async move {
                while let Ok(stream) = listener.accept().await {
                    let _ = stream.set_nodelay(true);
                    spawn_local(connection(stream, echo)).detach();
                }
            })
            .detach();
            while !end.load(Ordering::Relaxed) {
                glommio::timer::sleep(Duration::from_millis(50)).await;
            }
            accepting.cancel();
        })
        .expect("an executor");
    let address = told.recv().expect("the server starts");
    let stop = move || {
        over.store(true, Ordering::Relaxed);
        thread.join().expect("the server ends");
    };
    Server { address, stop: Some(Box::new(stop)) }
}

fn round_trips() -> Vec<u64> {
    let (to_there, at_there) = shared_channel::new_bounded::<u64>(16);
    let (to_here, at_here) = shared_channel::new_bounded::<u64>(16);
    let partner = executor("partner", LOAD_CPU)
        .spawn(move || async move {
            let (receiver, sender) = (at_there.connect().await, to_here.connect().await);
            for _ in 0..ROUND_TRIPS {
                let n = receiver.recv().await.expect("the other core sends");
                sender.send(n).await.expect("the other core receives");
            }
        })
        .expect("an executor");
    let measuring = executor("measuring", SERVER_CPU)
        .spawn(move || async move {
            let (sender, receiver) = (to_there.connect().await, at_here.connect().await);
            let mut latencies = Vec::with_capacity(ROUND_TRIPS);
            for n in 0..ROUND_TRIPS as u64 {
                glommio::timer::sleep(ROUND_TRIP_PAUSE).await;
                let start = Instant::now();
                sender.send(n).await.expect("the other core receives");
                receiver.recv().await.expect("the other core sends");
                latencies.push(start.elapsed().as_nanos() as u64);
            }
            latencies
        })
        .expect("an executor");
    let latencies = measuring.join().expect("measured");
    partner.join().expect("the partner ends");
    latencies
}

async fn write_all(path: &Path) {
    let file: DmaFile =
        OpenOptions::new().write(true).read(true).create(true).truncate(true).dma_open(path).await.expect("a file");
    file.pre_allocate(APPEND_FILE_BYTES, false).await.expect("room on the disk");
    let file = Rc::new(file);
    let blocks = APPEND_FILE_BYTES / APPEND_BYTES as u64;
    let writers: Vec<_> = (0..APPEND_DEPTH as u64)
        .map(|writer| {
            let file = Rc::clone(&file);
            spawn_local(async move {
                for block in (writer..blocks).step_by(APPEND_DEPTH) {
                    // The buffer is consumed by the write.
                    let mut buf = file.alloc_dma_buffer(APPEND_BYTES);
                    buf.as_bytes_mut().fill(7);
                    let wrote = file.write_at(buf, block * APPEND_BYTES as u64).await.expect("a healthy disk");
                    assert_eq!(wrote, APPEND_BYTES);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await;
    }
    file.fdatasync().await.expect("a healthy disk");
}

fn append(path: &Path) {
    let path = path.to_owned();
    executor("glommio", SERVER_CPU)
        .spawn(move || async move { write_all(&path).await })
        .expect("an executor")
        .join()
        .expect("written");
}
