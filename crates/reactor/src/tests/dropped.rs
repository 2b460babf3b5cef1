//! Futures that are dropped while their operation is in flight.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::sockets::{connected, listen, read_all};
use super::{on_both, pattern};
use crate::fs::{File, OpenOptions};
use crate::net::TcpStream;
use crate::{AlignedBuf, Class, sleep, spawn, timeout, yield_now};

#[test]
fn a_dropped_receive_does_not_write_into_memory_that_is_used_again() {
    on_both(|_| async {
        for round in 0..50u64 {
            let (client, server) = connected().await;
            let waited = {
                let server = server.clone();
                spawn(Class::Normal, async move { server.recv(BytesMut::with_capacity(8192)).await })
            };
            yield_now().await;
            let sender = spawn(Class::Normal, async move {
                // Some sends race with the cancellation.
                for _ in 0..round % 4 {
                    yield_now().await;
                }
                let _ = client.send_all(vec![Bytes::from_static(&[0xee; 4000])]).await;
            });
            for _ in 0..round % 3 {
                yield_now().await;
            }
            waited.abort();
            // The allocator would hand the receive's memory out again if it had been freed too early.
            let mut used_again: Vec<Vec<u8>> = (0..8).map(|_| vec![0x11; 8192]).collect();
            sender.await;
            sleep(Duration::from_micros(200)).await;
            for memory in &mut used_again {
                assert!(memory.iter().all(|b| *b == 0x11), "round {round}");
                memory.fill(0);
            }
        }
    });
}

#[test]
fn a_dropped_accept_loses_no_later_connection() {
    on_both(|_| async {
        let listener = listen().await;
        for _ in 0..20 {
            assert!(timeout(Duration::from_micros(50), listener.accept()).await.is_err());
        }
        let address = listener.local_addr();
        let clients = spawn(Class::Normal, async move {
            for n in 0..20u8 {
                let stream = TcpStream::connect(address).await.unwrap();
                stream.send_all(vec![Bytes::from(vec![n])]).await.unwrap();
            }
        });
        for n in 0..20u8 {
            let (stream, _) = listener.accept().await.unwrap();
            assert_eq!(read_all(&stream).await.unwrap(), [n]);
        }
        clients.await;
    });
}

#[test]
fn an_accept_that_is_dropped_as_it_completes_leaves_the_connection_to_the_next() {
    on_both(|_| async {
        let listener = listen().await;
        let address = listener.local_addr();
        for round in 0..30 {
            let client = spawn(Class::Normal, async move {
                for _ in 0..round % 5 {
                    yield_now().await;
                }
                let stream = TcpStream::connect(address).await.unwrap();
                timeout(Duration::from_secs(60), read_all(&stream)).await
            });
            let stream = match timeout(Duration::from_micros(20 * round), listener.accept()).await {
                Ok(accepted) => accepted.unwrap().0,
                Err(_) => listener.accept().await.unwrap().0,
            };
            stream.send_all(vec![Bytes::from_static(b"yes")]).await.unwrap();
            drop(stream);
            assert_eq!(client.await.expect("the client's connection ended").unwrap(), b"yes");
        }
    });
}

#[test]
fn a_listener_that_is_dropped_closes_what_nobody_accepted() {
    on_both(|_| async {
        for round in 0..20 {
            let listener = listen().await;
            let address = listener.local_addr();
            assert!(timeout(Duration::ZERO, listener.accept()).await.is_err());
            let client = TcpStream::connect(address).await.unwrap();
            for _ in 0..round % 4 {
                yield_now().await;
            }
            drop(listener);
            let end = timeout(Duration::from_secs(60), read_all(&client)).await.expect("the connection ends");
            assert!(matches!(end.as_deref(), Ok(b"") | Err(_)), "{end:?}");
        }
    });
}

#[test]
fn a_dropped_write_completes_with_its_own_bytes() {
    on_both(|dir| async move {
        let options = OpenOptions { direct: true, ..OpenOptions::READ_WRITE };
        let file = File::open(dir.join("f"), options).await.unwrap();
        file.allocate(0, 64 << 16).await.unwrap();
        for n in 0..64u64 {
            let mut buf = AlignedBuf::with_capacity(1 << 16);
            buf.extend_from_slice(&pattern(n, 1 << 16));
            let write = {
                let file = file.clone();
                spawn(Class::Normal, async move { file.write_at_durable(buf, n << 16).await })
            };
            yield_now().await;
            write.abort();
            // Pool memory that was given back too early would be overwritten here.
            let mut other = AlignedBuf::with_capacity(1 << 16);
            other.resize(1 << 16, 0xff);
        }
        while crate::percore::current().ops.borrow().in_flight() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
        file.sync_data().await.unwrap();
        for n in 0..64u64 {
            let buf = AlignedBuf::with_capacity(1 << 16);
            let (read, buf) = file.read_exact_at(buf, n << 16, 1 << 16).await;
            read.unwrap();
            let written = buf[..] == pattern(n, 1 << 16)[..];
            assert!(written || buf.iter().all(|b| *b == 0), "write {n} left something else");
        }
    });
}

#[test]
fn a_dropped_send_ends_although_the_peer_never_reads() {
    on_both(|_| async {
        for _ in 0..10 {
            let (client, server) = connected().await;
            let huge = vec![Bytes::from(vec![1; 8 << 20]); 4];
            assert!(timeout(Duration::from_millis(1), client.send_all(huge)).await.is_err());
            drop(client);
            // The cancelled operation gave the descriptor back: the peer sees the end after what was sent.
            let got = timeout(Duration::from_secs(60), read_all(&server)).await.unwrap();
            assert!(got.is_err() || got.unwrap().iter().all(|b| *b == 1));
        }
    });
}

#[test]
fn a_dropped_connect_is_given_up() {
    on_both(|_| async {
        let listener = listen().await;
        for _ in 0..10 {
            let connect = TcpStream::connect(listener.local_addr());
            let _ = timeout(Duration::ZERO, connect).await;
        }
    });
}

#[test]
fn a_dropped_open_leaks_no_descriptor() {
    on_both(|dir| async move {
        let file = File::open(dir.join("f"), OpenOptions::READ_WRITE).await.unwrap();
        for _ in 0..50 {
            let path = dir.join("f");
            let open = spawn(Class::Normal, async move { File::open(path, OpenOptions::READ).await.map(drop) });
            yield_now().await;
            open.abort();
        }
        sleep(Duration::from_millis(20)).await;
        drop(file);
    });
}
