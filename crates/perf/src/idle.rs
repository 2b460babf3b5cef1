//! Connections that say who they are and then nothing.

use std::rc::Rc;

use bytes::Bytes;
use reactor::sync::Semaphore;
use reactor::{Either, now};
use wire::ApiKey;
use wire::api_versions_response::ApiVersionsResponse;

use crate::cluster::hello;
use crate::conn::{Broken, Frames, Sender, answer, connect, request};
use crate::core::Core;

/// Connections of a core that are being made at once: what a backlog takes in its stride.
pub(crate) const CONNECTING_MAX: usize = 64;

/// Makes connection `index` and holds it to the end. The time until the broker answered on it counts as a latency.
pub(crate) async fn run(core: Rc<Core>, index: usize, turns: Semaphore) {
    let made = {
        let _turn = turns.acquire().await;
        open(&core, index).await
    };
    core.wait_for_start().await;
    match made {
        Err(why) => core.broke(why),
        Ok((_sender, mut frames)) => {
            // Nothing was asked, so that an end of the connection is all that can come.
            if let Either::Left(Err(why)) = reactor::race(frames.next(), core.read_end()).await {
                core.broke(why);
            }
        }
    }
}

async fn open(core: &Core, index: usize) -> Result<(Sender, Frames), Broken> {
    let brokers: Vec<_> = core.shared.view.brokers.values().copied().collect();
    let address = brokers[index % brokers.len()];
    let begun_ns = now().mono_ns;
    let (sender, mut frames) = connect(address).await?;
    let (key, version) = (ApiKey::ApiVersions, 3);
    sender.send(request(key, version, 1, &hello())).await?;
    let frame: Bytes = frames.next().await?;
    answer::<ApiVersionsResponse<'_>>(&frame, key, version, 1)?;
    let mut meters = core.meters.borrow_mut();
    meters.sent.requests += 1;
    meters.sent.note(now().mono_ns - begun_ns, 1);
    Ok((sender, frames))
}
