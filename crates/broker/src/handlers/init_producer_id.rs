//! InitProducerId (key 22): an id for an idempotent producer (KIP-98).
//!
//! Versions: 1 none; 2 flexible; 3 the id and epoch a producer had (KIP-360); 4 PRODUCER_FENCED; 5 transactions (KIP-890).
//! Gaps: transactional ids are refused (UNSUPPORTED_VERSION), there is no transaction coordinator yet.

use crate::call::{Answer, Call};
use wire::ErrorCode;
use wire::init_producer_id_request::InitProducerIdRequest;
use wire::init_producer_id_response::InitProducerIdResponse;

/// Answers one request.
pub async fn handle(call: Call) -> Answer {
    let request: InitProducerIdRequest<'_> = call.decode()?;
    let half_known = (request.producer_id == -1) != (request.producer_epoch == -1);
    let refusal = match &request.transactional_id {
        Some(id) if id.is_empty() => Some(ErrorCode::INVALID_REQUEST),
        Some(_) => Some(ErrorCode::UNSUPPORTED_VERSION),
        None if half_known => Some(ErrorCode::INVALID_REQUEST),
        None => None,
    };
    let allocated = match refusal {
        Some(error) => Err(error),
        // Without a transactional id nothing ties the new id to the one the producer had.
        None => call.core.producer_ids.next(&call.core).await,
    };
    let (error, producer_id) = match allocated {
        Ok(id) => (ErrorCode::NONE, id),
        Err(error) => (error, -1),
    };
    call.respond(&InitProducerIdResponse {
        error_code: error.0,
        producer_id,
        producer_epoch: if error.is_none() { 0 } else { -1 },
        ..InitProducerIdResponse::default()
    })
}
