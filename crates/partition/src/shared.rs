use std::cell::{Cell, RefCell};
use std::rc::Rc;

use records::Validator;

use crate::backlog::Backlog;
use crate::fetch_wait::FetchWaits;

/// What all partitions of a core use in turns.
pub(crate) struct Shared {
    /// Its tables and buffers live from batch to batch.
    pub validator: RefCell<Validator>,
    /// Appends for which there was no room.
    pub backlog: RefCell<Backlog>,
    /// Searches of logs for retries that a restart made us forget.
    pub look_backs: Cell<usize>,
    /// Fetches that wait on this core.
    pub fetches: Rc<FetchWaits>,
}

impl Shared {
    pub(crate) fn new() -> Shared {
        Shared {
            validator: RefCell::new(Validator::new()),
            backlog: RefCell::new(Backlog::default()),
            look_backs: Cell::new(0),
            fetches: Rc::new(FetchWaits::new()),
        }
    }
}
