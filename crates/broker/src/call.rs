//! One request on its way through a handler.

use crate::core::DataCore;
use crate::session::ClientSession;
use base::Now;
use bytes::Bytes;
use net::{FileRange, Outgoing, Permit, Response};
use std::rc::Rc;
use wire::{ApiKey, Decode, DecodeError, Encode, EncodeError, Reader, Writer, header};

/// Where the length of the client id stands in every request header.
const CLIENT_ID_AT: usize = 8;

/// Bytes of memory in which small answers are encoded one behind the other. All of it is held until the last of them is sent, so
/// that this, or less, is what a client holds that does not read its answers.
const ANSWERS_BYTES: usize = 4096;
/// Bytes that a small answer takes at most.
const ANSWER_BYTES: usize = 256;

/// A request that cannot be answered; its connection is closed, as Kafka does.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The body is not what its version says.
    #[error("the request cannot be decoded: {0}")]
    Decode(#[from] DecodeError),
    /// There is no such API.
    #[error("unknown api key {0}")]
    UnknownApi(i16),
    /// The API is not served on controllers' listeners.
    #[error("{0} is not served on a controller's listener")]
    Listener(ApiKey),
    /// The API is not served in this version.
    #[error("{api} version {version} is not served")]
    Version {
        /// The API.
        api: ApiKey,
        /// The version asked for.
        version: i16,
    },
    /// A produce request with acks=0 failed, and closing is the only way to say so.
    #[error("a produce request with acks=0 failed: {0}")]
    Unacknowledged(wire::ErrorCode),
    /// The response does not exist in the version asked for: an error of ours.
    #[error("the response cannot be encoded: {0}")]
    Encode(#[from] EncodeError),
}

/// What a handler comes to.
pub type Answer = Result<Response, Refusal>;

/// A request with everything its handler may look at.
pub struct Call {
    /// The core that the connection lives on.
    pub core: Rc<DataCore>,
    /// The connection.
    pub session: Rc<ClientSession>,
    /// The API.
    pub api: ApiKey,
    /// Its version, which is served.
    pub version: i16,
    /// To be given back.
    pub correlation_id: i32,
    /// When the frame was complete.
    pub received: Now,
    row: usize,
    frame: Bytes,
    /// Where the body begins.
    body_at: usize,
    _permit: Permit,
}

impl Call {
    /// A call from a frame whose header was read up to `body_at`.
    pub fn new(
        core: Rc<DataCore>,
        session: Rc<ClientSession>,
        head: Head,
        request: net::Request,
        body_at: usize,
    ) -> Call {
        Call {
            core,
            session,
            api: head.api,
            row: head.row,
            version: head.version,
            correlation_id: head.correlation_id,
            received: request.received,
            body_at,
            frame: request.frame,
            _permit: request.permit,
        }
    }

    /// The body in `M`'s shape; text and records are slices of the frame.
    ///
    /// # Errors
    /// [`Refusal::Decode`].
    pub fn decode<'a, M: Decode<'a>>(&'a self) -> Result<M, Refusal> {
        Ok(M::decode(&mut Reader::behind(&self.frame, self.body_at), self.version)?)
    }

    /// What is counted when the answer is known.
    pub fn meter(&self) -> Meter {
        Meter { row: self.row, received: self.received, request_bytes: self.frame.len() }
    }

    /// The frame, for those who decode elsewhere, and where its body begins.
    pub fn undecoded(&self) -> (Bytes, usize) {
        (self.frame.clone(), self.body_at)
    }

    /// The undecoded body.
    pub fn body(&self) -> Bytes {
        self.frame.slice(self.body_at..)
    }

    /// `part`, which was decoded from this request, as a slice of its frame. Empty text may come from elsewhere.
    pub fn share(&self, part: &[u8]) -> Bytes {
        if part.is_empty() { Bytes::new() } else { self.frame.slice_ref(part) }
    }

    /// Name of the listener that the request came in by.
    pub fn listener(&self) -> &str {
        &self.session.info.listener
    }

    /// `client.id`, if the client gave one.
    pub fn client_id(&self) -> Option<&str> {
        client_id_of(&self.frame)
    }

    /// A response frame of this request's version.
    ///
    /// # Errors
    /// [`Refusal::Encode`].
    pub fn respond<M: Encode>(&self, body: &M) -> Answer {
        self.respond_in(self.version, body)
    }

    /// As [`Call::respond`], with the body in another version: for ApiVersions, which answers unknown versions in 0.
    pub fn respond_in<M: Encode>(&self, version: i16, body: &M) -> Answer {
        self.frame(version, body, Vec::new())
    }

    /// As [`Call::respond`], where the tokens of external records stand for ranges of `files`.
    ///
    /// # Errors
    /// [`Refusal::Encode`].
    pub fn respond_with_files<M: Encode>(&self, body: &M, files: Vec<FileRange>) -> Answer {
        self.frame(self.version, body, files)
    }

    fn frame<M: Encode>(&self, version: i16, body: &M, files: Vec<FileRange>) -> Answer {
        let mut room = self.core.answers.take();
        if room.capacity() < ANSWER_BYTES {
            room.reserve(ANSWERS_BYTES);
        }
        let mut w = Writer::frame_in(room);
        header::encode_response_header(&mut w, self.api, version, self.correlation_id);
        body.encode(&mut w, version)?;
        let (segments, room) = w.finish_leaving();
        if room.capacity() <= ANSWERS_BYTES {
            self.core.answers.replace(room);
        }
        Ok(Response::Send(Outgoing { segments, files }))
    }

    /// A response frame around a body that is encoded already.
    pub fn respond_raw(&self, body: Bytes) -> Response {
        let mut w = Writer::new();
        header::encode_response_header(&mut w, self.api, self.version, self.correlation_id);
        let head = w.into_bytes().unwrap_or_default();
        let size = u32::try_from(head.len() + body.len()).unwrap_or(u32::MAX);
        let mut framed = bytes::BytesMut::with_capacity(4 + head.len());
        framed.extend_from_slice(&size.to_be_bytes());
        framed.extend_from_slice(&head);
        let segments = [framed.freeze(), body].into_iter().filter(|piece| !piece.is_empty());
        Response::Send(Outgoing { segments: segments.map(wire::Segment::Bytes).collect(), files: Vec::new() })
    }
}

/// `client.id` of an undecoded frame, if the client gave one.
pub fn client_id_of(frame: &[u8]) -> Option<&str> {
    let (len, rest) = frame.get(CLIENT_ID_AT..)?.split_first_chunk::<2>()?;
    let text = rest.get(..usize::try_from(i16::from_be_bytes(*len)).ok()?)?;
    std::str::from_utf8(text).ok()
}

/// What is counted of a request.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    /// Position of the API's row.
    pub row: usize,
    /// When the frame was complete.
    pub received: Now,
    /// Size of the frame.
    pub request_bytes: usize,
}

/// The fixed part of a request header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The API.
    pub api: ApiKey,
    /// Position of the API's row.
    pub row: usize,
    /// The version asked for; perhaps one that is not served.
    pub version: i16,
    /// To be given back.
    pub correlation_id: i32,
}
