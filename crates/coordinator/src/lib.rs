//! What every coordinator shares (groups, later transactions and shares): a pure [`Machine`] decides, and the [`Shell`]
//! around it loads it from its log, replays what it decides, hands the records out to be appended and holds every reply
//! back until the records decided before it are committed.
//!
//! Lives on the home core of the partition that is the coordinator's log. It does not know what is coordinated, how records
//! are stored or who waits for a reply: a waiting request is a [`Token`] that the host made up.

mod machine;
mod shell;
#[cfg(test)]
mod tests;

pub use machine::{CoordinatorRecord, Effects, Machine, Marker, Replayed, Token};
pub use shell::{Answer, Batch, DECIDED_BYTES_MAX, Shell, State, refusal_of};
