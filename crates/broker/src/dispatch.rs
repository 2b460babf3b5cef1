//! From a frame to its handler.

use crate::api_table::{self, Handler};
use crate::call::{Answer, Call, Head, Meter, Refusal};
use crate::core::DataCore;
use crate::groups;
use crate::handlers;
use crate::per_ip;
use crate::session::ClientSession;
use bytes::Bytes;
use net::{ConnectionInfo, Enter, EntryLimits, Limit, Reply, Request, Response, Service};
use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;
use wire::{ApiKey, Reader, header};

const NS_PER_MS: u64 = 1_000_000;

/// The protocol of one core's connections.
pub struct Dispatch {
    core: Rc<DataCore>,
}

impl Dispatch {
    /// The protocol on top of `core`.
    pub fn new(core: Rc<DataCore>) -> Dispatch {
        Dispatch { core }
    }
}

impl Service for Dispatch {
    type Session = ClientSession;

    fn open(&self, info: ConnectionInfo) -> ClientSession {
        let on_controller = self.core.config().is_controller_listener(&info.listener);
        ClientSession::new(info, on_controller)
    }

    fn overlaps(&self, _session: &ClientSession, frame: &Bytes) -> bool {
        // A frame that is too short for a key is refused in its turn.
        let key = frame.first_chunk().and_then(|key| ApiKey::from_i16(i16::from_be_bytes(*key)));
        key.is_some_and(overlaps)
    }

    fn start(&self, session: &Rc<ClientSession>, request: Request) -> Reply {
        let (call, handler) = match begin(&self.core, session, request) {
            Ok(begun) => begun,
            Err(refusal) => return Reply::Ready(refused(&self.core, session, &refusal)),
        };
        match handler {
            Handler::Sync(handle) => {
                let answer = handle(&call);
                Reply::Ready(end(&call, answer))
            }
            Handler::Async(handle) => later(&self.core, session, call.meter(), handle(call)),
            Handler::Forward => later(&self.core, session, call.meter(), Box::pin(handlers::forward::handle(call))),
            Handler::Group(respond) => groups::start(call, respond),
            Handler::Produce => handlers::produce::start(call),
        }
    }

    fn limits(&self, listener: &str) -> EntryLimits {
        let config = self.core.config();
        let limit = |of: config::ConnectionLimits| Limit {
            connections: of.connections_max as usize,
            per_second: of.creation_rate_max,
        };
        EntryLimits {
            all: limit(config.net.connections),
            own: limit(config.net.connections_of(listener)),
            is_protected: config.is_protected_listener(listener),
            burst_ns: config.net.rate_burst_ms * NS_PER_MS,
        }
    }

    fn enter(&self, ip: IpAddr) -> Enter {
        per_ip::enter(&self.core, ip)
    }

    fn left(&self, ip: IpAddr) {
        per_ip::left(&self.core, ip);
    }
}

/// The APIs whose requests may begin before earlier ones of them are answered: those that clients send without waiting, and
/// whose order is fixed where they begin. A burst of commits becomes one batch, and its answers one message.
fn overlaps(api: ApiKey) -> bool {
    matches!(api, ApiKey::Produce | ApiKey::OffsetCommit | ApiKey::Heartbeat | ApiKey::ConsumerGroupHeartbeat)
}

fn later(
    core: &Rc<DataCore>,
    session: &Rc<ClientSession>,
    meter: Meter,
    answer: impl Future<Output = Answer> + 'static,
) -> Reply {
    let (core, session) = (core.clone(), session.clone());
    Reply::Later(Box::pin(async move { finish(&core, &session, meter, answer.await) }))
}

/// Reads the header and finds the row.
fn begin(core: &Rc<DataCore>, session: &Rc<ClientSession>, request: Request) -> Result<(Call, Handler), Refusal> {
    let mut reader = Reader::new(&request.frame);
    let parsed = header::decode_request_header(&mut reader)?;
    let api = ApiKey::from_i16(parsed.api_key).ok_or(Refusal::UnknownApi(parsed.api_key))?;
    let (at, row) = api_table::find(api).ok_or(Refusal::UnknownApi(parsed.api_key))?;
    if session.on_controller && !row.on_controller() {
        return Err(Refusal::Listener(api));
    }
    let head = Head { api, row: at, version: parsed.api_version, correlation_id: parsed.correlation_id };
    let body_at = reader.position();
    drop(parsed);
    // ApiVersions answers every version, so that a client can find out which ones there are.
    if !row.serves(head.version) && api != ApiKey::ApiVersions {
        return Err(Refusal::Version { api, version: head.version });
    }
    Ok((Call::new(core.clone(), session.clone(), head, request, body_at), row.handler))
}

/// An answer as the connection takes it.
pub(crate) fn end(call: &Call, answer: Answer) -> Response {
    finish(&call.core, &call.session, call.meter(), answer)
}

/// The same, for a call that its handler has taken.
fn finish(core: &DataCore, session: &ClientSession, meter: Meter, answer: Answer) -> Response {
    let response = match answer {
        Ok(response) => response,
        Err(refusal) => return refused(core, session, &refusal),
    };
    let bytes = match &response {
        Response::Send(out) => out.segments.iter().map(wire::Segment::len).sum(),
        Response::Nothing | Response::Close => 0,
    };
    core.metrics.answered(meter.row, meter.received, meter.request_bytes, bytes);
    response
}

fn refused(core: &DataCore, session: &ClientSession, refusal: &Refusal) -> Response {
    core.metrics.refused.inc();
    if let Some(held_back) = core.gates.refusals.open(reactor::now()) {
        tracing::warn!(peer = %session.info.peer, listener = %session.info.listener, %refusal, held_back, "closing a connection");
    }
    Response::Close
}
