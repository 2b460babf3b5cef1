use bytes::Bytes;
use reactor::sync::Sender;
use reactor::sync::oneshot;
use wire::ApiKey;

use crate::error::RequestFailure;

/// Requests waiting for the controller; a full queue makes callers wait. Together with the size of a frame this bounds the
/// memory of forwarded requests.
pub(crate) const REQUESTS_QUEUED_MAX: usize = 1_024;

/// Who sent a request, for the audit line in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestContext {
    /// The authenticated principal, as text.
    pub principal: String,
    /// The client's id from the request header.
    pub client_id: Option<String>,
}

/// A message to the controller core.
pub(crate) enum Message {
    Request {
        context: RequestContext,
        api: ApiKey,
        version: i16,
        body: Bytes,
        reply: oneshot::Sender<Result<Bytes, RequestFailure>>,
    },
    SnapshotDone(Result<(raft::OffsetAndEpoch, u64), crate::QuorumError>),
    Stop,
}

/// The way into the controller, for tasks on its core; other cores send requests there by mailbox. Cheap to clone.
#[derive(Clone)]
pub struct ControllerHandle {
    pub(crate) messages: Sender<Message>,
}

impl ControllerHandle {
    /// Hands an authorized request to the controller and waits for the answer. `body` is the request behind its header,
    /// the answer is the response behind its header. The answer comes after its records are durable in the log and every
    /// core has applied them.
    ///
    /// # Errors
    /// When the request is malformed or not one of the controller's, and when the controller has stopped.
    pub async fn request(
        &self,
        context: RequestContext,
        api: ApiKey,
        version: i16,
        body: Bytes,
    ) -> Result<Bytes, RequestFailure> {
        let (reply, answer) = oneshot::channel();
        let message = Message::Request { context, api, version, body, reply };
        self.messages.send(message).await.map_err(|_| RequestFailure::Stopped)?;
        answer.await.unwrap_or(Err(RequestFailure::Stopped))
    }

    /// Asks the controller to finish what it has begun and to end its task.
    pub async fn stop(&self) {
        // A controller that is gone has stopped.
        let _ = self.messages.send(Message::Stop).await;
    }
}
