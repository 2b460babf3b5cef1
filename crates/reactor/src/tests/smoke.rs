use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::fs::{self, File, OpenOptions};
use crate::net::{BindOptions, TcpListener, TcpStream};
use crate::{Class, block_on, sleep, spawn};

#[test]
fn everything_once() {
    let dir = std::env::temp_dir().join(format!("reactor-smoke-{}", std::process::id()));
    let value = block_on(async move {
        fs::create_dir_all(dir.join("a/b")).await.unwrap();
        let file =
            File::open(dir.join("a/b/f"), OpenOptions { direct: true, ..OpenOptions::READ_WRITE }).await.unwrap();
        file.register();
        let mut buf = crate::AlignedBuf::with_capacity(8192);
        buf.resize(8192, 7);
        let (r, buf) = file.write_at_durable(buf, 0).await;
        assert_eq!(r.unwrap(), 8192);
        let (r, back) = file.read_at(crate::AlignedBuf::with_capacity(8192), 0).await;
        assert_eq!(r.unwrap(), 8192);
        assert_eq!(&*back, &*buf);
        fs::write_atomic_durable(dir.join("x"), &b"hello"[..]).await.unwrap();
        assert_eq!(fs::read(dir.join("x")).await.unwrap(), b"hello");
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), BindOptions::default()).await.unwrap();
        let at = listener.local_addr();
        let server = spawn(Class::Latency, async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (n, buf) = stream.recv(BytesMut::with_capacity(100)).await;
            n.unwrap();
            stream.send_all(vec![buf.freeze(), Bytes::from_static(b"!")]).await.unwrap();
            let f = File::open(dir.join("a/b/f"), OpenOptions::READ).await.unwrap();
            stream.splice_from(&f, 0, 8192).await.unwrap();
            fs::remove_dir_all(&dir).await.unwrap();
        });
        let client = TcpStream::connect(at).await.unwrap();
        client.send_all(vec![Bytes::from_static(b"ping")]).await.unwrap();
        let mut buf = BytesMut::with_capacity(16384);
        while buf.len() < 5 + 8192 {
            let (n, b) = client.recv(buf).await;
            assert!(n.unwrap() > 0);
            buf = b;
        }
        assert_eq!(&buf[..5], b"ping!");
        assert!(buf[5..].iter().all(|b| *b == 7));
        server.await;
        sleep(Duration::from_millis(2)).await;
        crate::unblock(|| 42).await
    });
    assert_eq!(value, 42);
}

#[test]
fn two_cores_exchange_messages() {
    use std::sync::{Arc, Mutex};
    let ports: Vec<_> = crate::mailbox::mesh::<u64>(2, 4).into_iter().map(Some).collect();
    let ports = Arc::new(Mutex::new(ports));
    let mut config = crate::RuntimeConfig::with_cores(2);
    config.on_panic = crate::OnPanic::Resume;
    let runtime = crate::Runtime::start(config, move |core| {
        let port = ports.lock().unwrap()[core.index()].take().unwrap();
        async move {
            let other = crate::CoreId(1 - core.0);
            for round in 0..1000 {
                if core.0 == 0 {
                    port.post(other, round).await;
                }
                let (from, got) = port.recv().await;
                assert_eq!((from, got), (other, round));
                if core.0 == 1 {
                    port.post(other, round).await;
                }
            }
        }
    })
    .unwrap();
    let counters = runtime.join();
    assert!(counters.iter().all(|c| c.tasks_polled > 0));
}
