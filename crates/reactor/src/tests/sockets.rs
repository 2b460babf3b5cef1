use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::{on_both, pattern};
use crate::fs::{File, OpenOptions};
use crate::net::{BindOptions, TcpListener, TcpStream};
use crate::sync::Notify;
use crate::{Class, join_all, random_u64, sleep, spawn, timeout};

pub(super) async fn listen() -> TcpListener {
    TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), BindOptions::default()).await.unwrap()
}

/// Two ends of one connection.
pub(super) async fn connected() -> (TcpStream, TcpStream) {
    let listener = listen().await;
    let address = listener.local_addr();
    let client = spawn(Class::Normal, async move { TcpStream::connect(address).await.unwrap() });
    let (server, _) = listener.accept().await.unwrap();
    (client.await, server)
}

pub(super) async fn read_all(stream: &TcpStream) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let (result, buf) = stream.recv(BytesMut::with_capacity(1 + random_u64() as usize % 100_000)).await;
        if result? == 0 {
            return Ok(all);
        }
        all.extend_from_slice(&buf);
    }
}

#[test]
fn a_stream_carries_any_mix_of_sizes_both_ways() {
    on_both(|_| async {
        let (client, server) = connected().await;
        // Registration, where there is any, changes nothing.
        client.register();
        let send = |stream: TcpStream, seed| {
            spawn(Class::Normal, async move {
                let mut whole = Bytes::from(pattern(seed, 3_000_000));
                while !whole.is_empty() {
                    let mut batch = Vec::new();
                    for _ in 0..random_u64() % 40 {
                        let len = (random_u64() as usize % 50_000).min(whole.len());
                        batch.push(whole.split_to(len));
                    }
                    stream.send_all(batch).await.unwrap();
                }
                stream.shutdown_write().unwrap();
            })
        };
        let sent = [send(client.clone(), 1), send(server.clone(), 2)];
        let got = join_all([read_all(&client), read_all(&server)]).await;
        join_all(sent).await;
        let got: Vec<_> = got.into_iter().map(Result::unwrap).collect();
        assert!(got[0] == pattern(2, 3_000_000));
        assert!(got[1] == pattern(1, 3_000_000));
    });
}

#[test]
fn one_send_takes_more_buffers_than_the_kernel_does() {
    on_both(|_| async {
        let (client, server) = connected().await;
        let whole = pattern(3, 5000 * 7);
        let bufs: Vec<_> = whole.chunks(7).map(Bytes::copy_from_slice).collect();
        let sender = spawn(Class::Normal, async move {
            client.send_all(bufs).await.unwrap();
            client.send_all(Vec::new()).await.unwrap();
        });
        assert!(read_all(&server).await.unwrap() == whole);
        sender.await;
    });
}

#[test]
fn addresses_are_known_at_both_ends() {
    on_both(|_| async {
        let listener = listen().await;
        let address = listener.local_addr();
        assert_ne!(address.port(), 0);
        let client = spawn(Class::Normal, async move { TcpStream::connect(address).await.unwrap() });
        let (server, peer) = listener.accept().await.unwrap();
        let client = client.await;
        assert_eq!(client.peer_addr(), address);
        assert_eq!(server.peer_addr(), peer);
        assert_eq!(client.local_addr().unwrap().port(), peer.port());
        assert_eq!(server.local_addr().unwrap().port(), address.port());
        server.set_buffer_sizes(Some(65536), Some(65536)).unwrap();
    });
}

#[test]
fn nobody_listening_is_refused_and_a_taken_address_is_in_use() {
    on_both(|_| async {
        let listener = listen().await;
        let address = listener.local_addr();
        let again = TcpListener::bind(address, BindOptions::default()).await;
        assert_eq!(again.err().map(|e| e.kind()), Some(ErrorKind::AddrInUse));
        drop(listener);
        let refused = TcpStream::connect(address).await;
        assert_eq!(refused.err().map(|e| e.kind()), Some(ErrorKind::ConnectionRefused));
    });
}

#[test]
fn listeners_share_an_address_when_all_of_them_say_so() {
    on_both(|_| async {
        let options = BindOptions { reuse_port: true, ..BindOptions::default() };
        let first = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), options).await.unwrap();
        let address = first.local_addr();
        let second = TcpListener::bind(address, options).await.unwrap();
        let served = Rc::new(Notify::new());
        for listener in [first, second] {
            let served = Rc::clone(&served);
            spawn(Class::Normal, async move {
                while let Ok((stream, _)) = listener.accept().await {
                    stream.send_all(vec![Bytes::from_static(b"hi")]).await.unwrap();
                    served.notify_one();
                }
            })
            .detach();
        }
        for _ in 0..10 {
            let stream = TcpStream::connect(address).await.unwrap();
            assert_eq!(read_all(&stream).await.unwrap(), b"hi");
        }
    });
}

#[test]
fn a_slow_reader_holds_the_sender_back_and_gets_everything() {
    on_both(|_| async {
        let (client, server) = connected().await;
        let part = Bytes::from(pattern(1, 1_000_000));
        let parts = vec![part.clone(); 20];
        let sender = spawn(Class::Normal, async move { client.send_all(parts).await.unwrap() });
        sleep(Duration::from_millis(20)).await;
        assert!(!sender.is_finished(), "20 MB do not fit into the buffers between");
        let mut all = Vec::new();
        loop {
            let (result, buf) = server.recv(BytesMut::with_capacity(1 << 20)).await;
            if result.unwrap() == 0 {
                break;
            }
            all.extend_from_slice(&buf);
        }
        assert!(all.chunks(1_000_000).all(|got| got == part));
        assert_eq!(all.len(), 20_000_000);
    });
}

#[test]
fn shutdown_ends_a_pending_receive() {
    on_both(|_| async {
        let (client, server) = connected().await;
        let reader = {
            let client = client.clone();
            spawn(Class::Normal, async move { client.recv(BytesMut::with_capacity(10)).await.0.unwrap() })
        };
        sleep(Duration::from_millis(1)).await;
        client.shutdown().unwrap();
        assert_eq!(reader.await, 0);
        assert_eq!(read_all(&server).await.unwrap(), b"");
        let full = client.recv(BytesMut::new()).await;
        assert_eq!(full.0.unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_peer_that_leaves_ends_sends_with_an_error() {
    on_both(|_| async {
        let (client, server) = connected().await;
        drop(server);
        let endless = async {
            loop {
                if let Err(error) = client.send_all(vec![Bytes::from(vec![0; 100_000])]).await {
                    return error.kind();
                }
            }
        };
        let kind = timeout(Duration::from_secs(60), endless).await.unwrap();
        assert!(matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{kind}");
    });
}

#[test]
fn spliced_bytes_are_the_files() {
    on_both(|dir| async move {
        let whole = pattern(9, 5_000_000);
        let file = File::open(dir.join("f"), OpenOptions::READ_WRITE).await.unwrap();
        file.write_all_at(whole.clone(), 0).await.0.unwrap();
        let (client, server) = connected().await;
        client.register();
        file.register();
        let ranges = [(0, 5_000_000), (17, 1), (4096, 70_000), (1, 0), (4_999_999, 1)];
        let mut expect = Vec::new();
        for (off, len) in ranges {
            expect.extend_from_slice(b"head");
            expect.extend_from_slice(&whole[off..off + len]);
        }
        let sender = spawn(Class::Normal, async move {
            for (off, len) in ranges {
                client.send_all(vec![Bytes::from_static(b"head")]).await.unwrap();
                client.splice_from(&file, off as u64, len as u64).await.unwrap();
            }
            let short = client.splice_from(&file, 4_999_990, 100).await;
            assert_eq!(short.unwrap_err().kind(), ErrorKind::UnexpectedEof);
        });
        let got = read_all(&server).await.unwrap();
        sender.await;
        expect.extend_from_slice(&whole[4_999_990..]);
        assert!(got == expect, "{} bytes of {}", got.len(), expect.len());
    });
}

/// A splice that is given up leaves bytes in its pipe: they must not come out of another connection.
#[test]
fn a_splice_that_was_given_up_leaks_nothing_into_the_next() {
    on_both(|dir| async move {
        let file = File::open(dir.join("f"), OpenOptions::READ_WRITE).await.unwrap();
        file.write_all_at(vec![b'A'; 4_000_000], 0).await.0.unwrap();
        let other = File::open(dir.join("g"), OpenOptions::READ_WRITE).await.unwrap();
        other.write_all_at(vec![b'B'; 1_000_000], 0).await.0.unwrap();
        for _ in 0..20 {
            let (client, _unread) = connected().await;
            let given_up = timeout(Duration::from_millis(2), client.splice_from(&file, 0, 4_000_000)).await;
            assert!(given_up.is_err(), "nobody reads 4 MB");
            let (client, server) = connected().await;
            let sender = {
                let other = other.clone();
                spawn(Class::Normal, async move { client.splice_from(&other, 0, 1_000_000).await.unwrap() })
            };
            let got = read_all(&server).await.unwrap();
            sender.await;
            assert!(got.len() == 1_000_000 && got.iter().all(|b| *b == b'B'));
        }
    });
}

#[test]
fn a_probe_sees_listeners_that_share_their_port() {
    on_both(|_| async {
        let shared = BindOptions { reuse_port: true, ..BindOptions::default() };
        let first = TcpListener::bind(([127, 0, 0, 1], 0).into(), shared).await.unwrap();
        let addr = first.local_addr();
        let second = TcpListener::bind(addr, shared).await.unwrap();
        assert_eq!(TcpListener::probe(addr).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop((first, second));
        TcpListener::probe(addr).unwrap();
        // A probe leaves nothing behind.
        TcpListener::bind(addr, shared).await.unwrap();
    });
}
