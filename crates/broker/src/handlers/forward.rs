//! Requests that the controller decides: CreateTopics (19), DeleteTopics (20), AlterConfigs (33), CreatePartitions (37),
//! IncrementalAlterConfigs (44), DescribeQuorum (55), UpdateFeatures (57). The body travels undecoded to the controller's
//! core and the encoded answer travels back; it is sent after every core has applied the change.
//!
//! Versions: all of each API; what each added is the controller's matter.
//! Gaps: the controller is always in this process.

use crate::call::{Answer, Call, Refusal};
use crate::messages::{ControllerCall, CoreReply, CoreRequest};
use wire::DecodeErrorKind;

/// Carries one request there and back.
pub async fn handle(call: Call) -> Answer {
    let request = ControllerCall {
        api: call.api,
        version: call.version,
        body: call.body(),
        client_id: call.client_id().map(Into::into),
    };
    let to = call.core.layout.controller_core;
    let waiting = call.core.ask(to, CoreRequest::Controller(Box::new(request)));
    match waiting.await {
        CoreReply::Controller(Ok(body)) => Ok(call.respond_raw(body)),
        CoreReply::Controller(Err(_)) => {
            Err(Refusal::Decode(wire::Reader::new(&call.body()).fail(DecodeErrorKind::Truncated)))
        }
        _ => unreachable!("a controller call is answered by the controller"),
    }
}
