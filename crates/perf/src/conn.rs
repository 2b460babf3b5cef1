//! A connection to a broker.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reactor::net::TcpStream;
use wire::header::{RequestHeader, decode_response_header, encode_request_header};
use wire::{ApiKey, Decode, Encode, Reader, Segment, Writer};

/// Bytes of an answer that are believed: a fetch answer may exceed its limit by one batch; anything near this is no answer.
const FRAME_BYTES_MAX: usize = 1 << 30;
/// Bytes received at once at least.
const RECEIVE_BYTES: usize = 64 << 10;
/// How long a broker may take to accept a connection or to answer a question of administration. Long enough for the
/// creation of thousands of topics.
const ANSWER_S_MAX: u64 = 60;

/// The name that requests carry as `client.id`.
const CLIENT_ID: &str = "odradek-perf";

/// Why a connection cannot be used any more, for people.
pub(crate) type Broken = String;

/// The receiving half.
pub(crate) struct Frames {
    stream: TcpStream,
    buf: BytesMut,
}

impl Frames {
    /// The next frame without its length.
    pub(crate) async fn next(&mut self) -> Result<Bytes, Broken> {
        self.fill(4).await?;
        let length = u32::from_be_bytes([self.buf[0], self.buf[1], self.buf[2], self.buf[3]]) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(format!("{} announces an answer of {length} bytes", self.stream.peer_addr()));
        }
        self.fill(4 + length).await?;
        let mut frame = self.buf.split_to(4 + length);
        let _length = frame.split_to(4);
        Ok(frame.freeze())
    }

    async fn fill(&mut self, bytes: usize) -> Result<(), Broken> {
        while self.buf.len() < bytes {
            // Room that earlier answers took is taken again once they are gone.
            self.buf.reserve((bytes - self.buf.len()).max(RECEIVE_BYTES));
            let (result, buf) = self.stream.recv(std::mem::take(&mut self.buf)).await;
            self.buf = buf;
            match result {
                Ok(0) => return Err(format!("{} closed the connection", self.stream.peer_addr())),
                Ok(_) => {}
                Err(error) => return Err(format!("receiving from {}: {error}", self.stream.peer_addr())),
            }
        }
        Ok(())
    }
}

/// The sending half.
#[derive(Clone)]
pub(crate) struct Sender {
    stream: TcpStream,
}

impl Sender {
    /// Sends what [`request`] made.
    pub(crate) async fn send(&self, parts: Vec<Bytes>) -> Result<(), Broken> {
        self.stream.send_all(parts).await.map_err(|error| format!("sending to {}: {error}", self.stream.peer_addr()))
    }

    /// Ends the connection in both directions; who receives on it learns that.
    pub(crate) fn close(&self) {
        // The peer may have been faster.
        let _ = self.stream.shutdown();
    }
}

/// Connects.
pub(crate) async fn connect(address: SocketAddr) -> Result<(Sender, Frames), Broken> {
    let connecting = reactor::timeout(Duration::from_secs(ANSWER_S_MAX), TcpStream::connect(address)).await;
    let stream = match connecting {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(format!("connecting to {address}: {error}")),
        Err(_) => return Err(format!("connecting to {address}: no answer in {ANSWER_S_MAX} s")),
    };
    stream.register();
    Ok((Sender { stream: stream.clone() }, Frames { stream, buf: BytesMut::with_capacity(RECEIVE_BYTES) }))
}

/// The address of `host:port`.
pub(crate) fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let mut found = (host, port).to_socket_addrs().map_err(|error| format!("{host}:{port}: {error}"))?;
    found.next().ok_or_else(|| format!("{host}:{port} has no address"))
}

/// A request with its header and length, ready to be sent.
pub(crate) fn request(key: ApiKey, version: i16, correlation_id: i32, body: &impl Encode) -> Vec<Bytes> {
    let mut writer = Writer::frame();
    let header =
        RequestHeader { api_key: key.code(), api_version: version, correlation_id, client_id: Some(CLIENT_ID.into()) };
    encode_request_header(&mut writer, &header).expect("a header of our own making is valid");
    body.encode(&mut writer, version).expect("a request of our own making is valid");
    let segments = writer.finish().into_iter();
    segments
        .map(|segment| match segment {
            Segment::Bytes(bytes) => bytes,
            Segment::External { .. } => unreachable!("requests are in memory"),
        })
        .collect()
}

/// Decodes the answer to a request and checks that it is the one to `correlation_id`.
pub(crate) fn answer<'a, A: Decode<'a>>(
    frame: &'a Bytes,
    key: ApiKey,
    version: i16,
    correlation_id: i32,
) -> Result<A, Broken> {
    let mut reader = Reader::new(frame);
    let id = decode_response_header(&mut reader, key, version).map_err(|error| format!("answer to {key}: {error}"))?;
    if id != correlation_id {
        return Err(format!("answer to {key} number {id} where {correlation_id} was awaited"));
    }
    A::decode(&mut reader, version).map_err(|error| format!("answer to {key} version {version}: {error}"))
}

/// A connection that asks and waits.
pub(crate) struct Asking {
    sender: Sender,
    frames: Frames,
    correlation: i32,
}

impl Asking {
    /// Connects.
    pub(crate) async fn connect(address: SocketAddr) -> Result<Asking, Broken> {
        let (sender, frames) = connect(address).await?;
        Ok(Asking { sender, frames, correlation: 0 })
    }

    /// Sends a request and gives the frame that answers it and the correlation id, for [`answer`].
    pub(crate) async fn ask(&mut self, key: ApiKey, version: i16, body: &impl Encode) -> Result<(Bytes, i32), Broken> {
        self.correlation = self.correlation.wrapping_add(1);
        self.sender.send(request(key, version, self.correlation, body)).await?;
        Ok((self.frames.next().await?, self.correlation))
    }

    /// As [`Asking::ask`], for at most as long as administration may take.
    pub(crate) async fn ask_soon(
        &mut self,
        key: ApiKey,
        version: i16,
        body: &impl Encode,
    ) -> Result<(Bytes, i32), Broken> {
        let limit = Duration::from_secs(ANSWER_S_MAX);
        let asked = reactor::timeout(limit, self.ask(key, version, body)).await;
        asked.unwrap_or_else(|_| Err(format!("no answer to {key} in {ANSWER_S_MAX} s")))
    }
}
