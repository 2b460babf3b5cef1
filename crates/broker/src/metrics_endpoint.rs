//! The metrics of all cores and of the process as Prometheus text over HTTP (`odradek.metrics.listener`).
//!
//! Runs on core 0. Just enough of HTTP to be scraped: one GET per connection, whatever its path.

use crate::core::DataCore;
use crate::messages::{CoreReply, CoreRequest};
use base::CoreId;
use bytes::{Bytes, BytesMut};
use reactor::net::{BindOptions, TcpListener, TcpStream};
use reactor::{Class, spawn};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// A request head longer than this is not answered, in bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// A scraper has this many milliseconds for its request, and for taking the answer.
const EXCHANGE_MS_MAX: u64 = 10_000;

/// Pause after a failed accept, in milliseconds.
const ACCEPT_RETRY_MS: u64 = 100;

/// Serves until the core ends.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve(core: Rc<DataCore>, addr: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(addr, BindOptions::default()).await?;
    tracing::info!(addr = %listener.local_addr(), "metrics are served");
    spawn(Class::Background, async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let exchange = exchange(core.clone(), stream);
                    let limited = reactor::timeout(Duration::from_millis(EXCHANGE_MS_MAX), exchange);
                    // A scraper that fails or dawdles comes again.
                    let _ = limited.await;
                }
                Err(error) => {
                    tracing::debug!(%error, "accepting a scraper failed");
                    reactor::sleep(Duration::from_millis(ACCEPT_RETRY_MS)).await;
                }
            }
        }
    })
    .detach();
    Ok(())
}

async fn exchange(core: Rc<DataCore>, stream: TcpStream) -> io::Result<()> {
    let mut head = BytesMut::with_capacity(HEAD_BYTES_MAX);
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        if head.len() == head.capacity() {
            return Err(io::Error::other("the request is too long"));
        }
        let (received, buf) = stream.recv(head).await;
        head = buf;
        if received? == 0 {
            return Ok(());
        }
    }
    let mut waiting = Vec::new();
    for id in (0..core.layout.data_cores).map(CoreId) {
        waiting.push(core.ask(id, CoreRequest::Metrics));
    }
    let mut snapshots = Vec::with_capacity(waiting.len());
    for reply in reactor::join_all(waiting).await {
        let CoreReply::Metrics(snapshot) = reply else { unreachable!("metrics are answered by metrics") };
        snapshots.push(*snapshot);
    }
    snapshots.push(crate::process_metrics::snapshot().await);
    let text = metrics::render(&snapshots);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.send_all(vec![Bytes::from(head), Bytes::from(text)]).await?;
    stream.shutdown()
}
