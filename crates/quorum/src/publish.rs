use std::future::Future;
use std::sync::Arc;

use metadata::{MetadataDelta, MetadataImage};

/// Carries each new image to the cores that work by it.
///
/// The quorum calls [`publish`](Publisher::publish) with one delta after the other, never two at once; the first delta
/// starts from the empty image and holds everything that was in the log. A client's change is acknowledged only after the
/// call returned, so an implementation returns when **every** core has applied the delta: created its logs, replaced its
/// image.
pub trait Publisher: 'static {
    /// Hands out `image`, which is `delta.image()`, and returns when all cores have applied it.
    fn publish(&self, image: Arc<MetadataImage>, delta: Arc<MetadataDelta>) -> impl Future<Output = ()>;
}
