use std::cell::{Cell, RefCell};
use std::rc::Rc;

use records::Validator;

use crate::backlog::Backlog;
use crate::fetch_wait::FetchWaits;
use crate::pending::KeptToken;

/// Is told of appends that are worth a look.
pub(crate) type Keeper = Rc<dyn Fn(KeptToken)>;

/// What all partitions of a core use in turns.
pub(crate) struct Shared {
    /// Its tables and buffers live from batch to batch.
    pub validator: RefCell<Validator>,
    /// Appends for which there was no room.
    pub backlog: RefCell<Backlog>,
    /// Searches of logs for retries that a restart made us forget.
    pub look_backs: Cell<usize>,
    /// Whoever keeps appends that wait without a task of their own.
    pub keeper: RefCell<Option<Keeper>>,
    /// Room for the tokens that are being told.
    tokens: RefCell<Vec<KeptToken>>,
    /// Fetches that wait on this core.
    pub fetches: Rc<FetchWaits>,
}

impl Shared {
    pub(crate) fn new() -> Shared {
        Shared {
            validator: RefCell::new(Validator::new()),
            backlog: RefCell::new(Backlog::default()),
            look_backs: Cell::new(0),
            keeper: RefCell::new(None),
            tokens: RefCell::default(),
            fetches: Rc::new(FetchWaits::new()),
        }
    }

    /// Lets `find` name appends that are worth a look, and tells their keeper. Outside of any borrow.
    pub(crate) fn tell_keeper(&self, find: impl FnOnce(&mut Vec<KeptToken>)) {
        let mut tokens = self.tokens.take();
        find(&mut tokens);
        if !tokens.is_empty() {
            let keeper = self.keeper.borrow().clone();
            let keeper = keeper.expect("an append is kept only where there is a keeper");
            tokens.drain(..).for_each(|token| keeper(token));
        }
        self.tokens.replace(tokens);
    }
}
