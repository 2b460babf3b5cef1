//! Random operations, random drops, several cores: bytes stay where they belong.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::sockets::connected;
use super::{Scratch, on_both, on_both_cores, pattern};
use crate::fs::{File, OpenOptions};
use crate::net::{BindOptions, TcpListener, TcpStream};
use crate::{AlignedBuf, Class, CoreId, join_all, random_u64, sleep, spawn, timeout, yield_now};

fn below(bound: u64) -> u64 {
    random_u64() % bound
}

/// One connection that is read, written, timed out and dropped at random; every byte that arrives is the right one.
async fn one_connection() {
    let (client, server) = connected().await;
    let len = below(300_000) as usize;
    let seed = random_u64();
    let sender = spawn(Class::Normal, async move {
        let mut whole = Bytes::from(pattern(seed, len));
        while !whole.is_empty() {
            let step = (1 + below(30_000) as usize).min(whole.len());
            client.send_all(vec![whole.split_to(step)]).await?;
            if below(10) == 0 {
                yield_now().await;
            }
        }
        client.shutdown_write()
    });
    let expect = pattern(seed, len);
    let mut got = 0;
    loop {
        let room = 1 + below(20_000) as usize;
        let receive = server.recv(BytesMut::with_capacity(room));
        let received = if below(20) == 0 {
            match timeout(Duration::from_micros(below(100)), receive).await {
                Ok(received) => received,
                // Given up: bytes may be lost, so the connection is too.
                Err(_) => break,
            }
        } else {
            receive.await
        };
        let (result, buf) = received;
        let count = result.unwrap();
        if count == 0 {
            assert_eq!(got, len);
            break;
        }
        assert!(buf[..] == expect[got..got + count]);
        got += count;
    }
    drop(server);
    let _ = sender.await;
}

/// Blocks of one file, each with the last contents that were acknowledged.
async fn one_file(path: PathBuf) {
    const BLOCK: usize = 8192;
    let options = OpenOptions { direct: true, ..OpenOptions::READ_WRITE };
    let file = File::open(path, options).await.unwrap();
    file.allocate(0, 32 * BLOCK as u64).await.unwrap();
    let tasks: Vec<_> = (0..32u64)
        .map(|block| {
            let file = file.clone();
            spawn(Class::Normal, async move {
                for round in 0..10u64 {
                    let off = block * BLOCK as u64;
                    let mut buf = AlignedBuf::with_capacity(BLOCK);
                    buf.extend_from_slice(&pattern(block * 1000 + round, BLOCK));
                    let (wrote, _) = if below(2) == 0 {
                        file.write_all_at(buf, off).await
                    } else {
                        file.write_all_at_durable(buf, off).await
                    };
                    wrote.unwrap();
                    if below(4) == 0 {
                        let read = file.read_at(AlignedBuf::with_capacity(BLOCK), off);
                        let _ = timeout(Duration::from_micros(below(50)), read).await;
                    }
                    let (read, buf) = file.read_exact_at(AlignedBuf::with_capacity(BLOCK), off, BLOCK).await;
                    read.unwrap();
                    let expect = pattern(block * 1000 + round, BLOCK);
                    assert!(buf[..] == expect[..], "block {block}, round {round}");
                }
            })
        })
        .collect();
    join_all(tasks).await;
}

#[test]
fn connections_and_files_with_random_drops() {
    on_both(|dir| async move {
        let file = spawn(Class::Background, one_file(dir.join("f")));
        let tasks: Vec<_> = (0..20).map(|_| spawn(Class::Latency, one_connection())).collect();
        join_all(tasks).await;
        file.await;
    });
}

/// Every core serves and asks every other over TCP, while mailboxes carry the addresses.
#[test]
fn cores_exchange_connections_and_messages() {
    for cores in [1, 2, 4] {
        on_both_cores(cores, move || {
            let mesh = crate::mailbox::mesh::<SocketAddr>(cores, 1);
            let ports = Arc::new(Mutex::new(mesh.into_iter().map(Some).collect::<Vec<_>>()));
            move |core: CoreId| {
                let port = ports.lock().unwrap()[core.index()].take().unwrap();
                async move {
                    let any = SocketAddr::from(([127, 0, 0, 1], 0));
                    let listener = TcpListener::bind(any, BindOptions::default()).await.unwrap();
                    for to in 0..cores {
                        port.post(CoreId(to as u16), listener.local_addr()).await;
                    }
                    let server = spawn(Class::Latency, async move {
                        for _ in 0..cores * 5 {
                            let (stream, _) = listener.accept().await.unwrap();
                            spawn(Class::Normal, async move {
                                let mut buf = BytesMut::with_capacity(100);
                                while !buf.ends_with(b"|") {
                                    let (got, more) = stream.recv(buf).await;
                                    assert!(got.unwrap() > 0);
                                    buf = more;
                                }
                                let many = vec![buf.freeze(); 100];
                                stream.send_all(many).await.unwrap();
                            })
                            .detach();
                        }
                    });
                    let port = Rc::new(port);
                    for _ in 0..cores {
                        let (from, address) = port.recv().await;
                        for _ in 0..5 {
                            let stream = TcpStream::connect(address).await.unwrap();
                            let hello = Bytes::from(format!("{core}->{from}|"));
                            stream.send_all(vec![hello.clone()]).await.unwrap();
                            let mut all = BytesMut::with_capacity(hello.len() * 100);
                            while all.len() < hello.len() * 100 {
                                let (got, buf) = stream.recv(all).await;
                                assert!(got.unwrap() > 0);
                                all = buf;
                            }
                            assert!(all.chunks(hello.len()).all(|part| part == hello));
                        }
                    }
                    server.await;
                    sleep(Duration::from_millis(1)).await;
                }
            }
        });
    }
}

/// Real and simulated cores side by side in one process do not mix.
#[test]
fn backends_live_side_by_side() {
    let threads: Vec<_> = (0..4u64)
        .map(|n| {
            std::thread::spawn(move || {
                if n % 2 == 0 {
                    let scratch = Scratch::new();
                    crate::block_on(one_file(scratch.0.join("f")));
                } else {
                    let mut sim = crate::sim::Sim::new(n);
                    let node = sim.add_client();
                    sim.run(node, super::LIMIT, one_file(PathBuf::from("/f")));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
