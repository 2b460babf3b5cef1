//! Coordination between tasks of one core. Nothing here is `Send`; between cores there are mailboxes.

mod channel;
mod notify;
pub mod oneshot;
mod semaphore;
mod waiters;

pub use channel::{Closed, Receiver, Sender, TrySendError, channel};
pub use notify::Notify;
pub use semaphore::{Permit, Semaphore};
