//! Values that are made before the cores start and belong to one core each from then on.

use std::sync::{Arc, Mutex, PoisonError};

use base::CoreId;

/// One value for each core, each to be taken once by the core it is for: what [`crate::Runtime::start`]'s closure, which
/// all cores share, hands to one of them (ports of a mailbox, for example).
pub struct Handover<T>(Arc<Mutex<Vec<Option<T>>>>);

impl<T> Clone for Handover<T> {
    fn clone(&self) -> Handover<T> {
        Handover(Arc::clone(&self.0))
    }
}

impl<T> Handover<T> {
    /// Values in the order of the cores.
    pub fn new(values: Vec<T>) -> Handover<T> {
        Handover(Arc::new(Mutex::new(values.into_iter().map(Some).collect())))
    }

    /// The value of `core`.
    ///
    /// # Panics
    /// There is none, or it was taken.
    pub fn take(&self, core: CoreId) -> T {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        values[core.index()].take().expect("each core takes its value once")
    }
}
