//! Producer ids of one core, taken from the controller in blocks (KIP-730).

use crate::core::DataCore;
use base::ProducerId;
use reactor::sync::Semaphore;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use wire::allocate_producer_ids_request::AllocateProducerIdsRequest;
use wire::allocate_producer_ids_response::AllocateProducerIdsResponse;
use wire::{ApiKey, ErrorCode};

/// Version of the request to the controller.
const ALLOCATE_VERSION: i16 = 0;

/// The ids this core may still hand out.
pub struct ProducerIds {
    left: Cell<(ProducerId, ProducerId)>,
    /// One core asks for one block at a time.
    asking: Semaphore,
}

impl Default for ProducerIds {
    fn default() -> ProducerIds {
        ProducerIds { left: Cell::new((0, 0)), asking: Semaphore::new(1) }
    }
}

impl ProducerIds {
    /// An id that nobody had before.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS, which clients retry, when the controller gave no block.
    pub async fn next(&self, core: &Rc<DataCore>) -> Result<ProducerId, ErrorCode> {
        if let Some(id) = self.take() {
            return Ok(id);
        }
        let _turn = self.asking.acquire().await;
        if let Some(id) = self.take() {
            return Ok(id);
        }
        let block = ask(core).await.inspect_err(|error| tracing::warn!(%error, "no block of producer ids"));
        let block = block.map_err(|_| ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)?;
        self.left.set((block.start, block.end));
        self.take().ok_or(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)
    }

    fn take(&self) -> Option<ProducerId> {
        let (next, end) = self.left.get();
        (next < end).then(|| {
            self.left.set((next + 1, end));
            next
        })
    }
}

/// Asks the controller for a block.
async fn ask(core: &Rc<DataCore>) -> Result<Range<ProducerId>, ErrorCode> {
    let broker_epoch = core.image().cluster.broker(core.node.id).map_or(-1, |broker| broker.epoch);
    let request = AllocateProducerIdsRequest { broker_id: core.node.id, broker_epoch };
    let response: AllocateProducerIdsResponse =
        core.exchange(ApiKey::AllocateProducerIds, ALLOCATE_VERSION, &request).await?;
    if response.error_code != 0 {
        return Err(ErrorCode(response.error_code));
    }
    let first = response.producer_id_start;
    Ok(first..first + ProducerId::from(response.producer_id_len))
}
