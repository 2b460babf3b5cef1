//! The index of aborted transactions.

use base::Offset;

use super::inner::LogInner;
use crate::format::{index, names};
use crate::io::read_if_there;
use crate::segment::Stage;
use crate::{AbortedTxn, LogError};

impl LogInner {
    /// See [`crate::Log::note_aborted`].
    pub fn note_aborted(&self, txn: AbortedTxn) {
        let mut state = self.state.borrow_mut();
        let at = state.segment_at(txn.last_offset);
        let segment = &mut state.segments[at];
        debug_assert!(segment.stage != Stage::Complete, "a marker is noted when it is appended");
        segment.txns.push(txn);
    }

    /// See [`crate::Log::aborted_in`].
    pub async fn aborted_in(&self, from: Offset, upper: Offset) -> Result<Vec<AbortedTxn>, LogError> {
        let segments: Vec<(Offset, Option<Vec<AbortedTxn>>)> = {
            let state = self.state.borrow();
            self.readable(&state)?;
            let first = state.segment_at(from);
            let kept = |s: &crate::segment::Segment| (s.stage != Stage::Complete).then(|| s.txns.clone());
            state.segments.range(first..).map(|segment| (segment.base, kept(segment))).collect()
        };
        let mut found = Vec::new();
        for (base, txns) in segments {
            let txns = match txns {
                Some(txns) => txns,
                None => {
                    let path = self.path(names::segment_file(base, names::TXN_INDEX));
                    let bytes = read_if_there(&path).await?.unwrap_or_default();
                    index::parse_txns(&bytes, base).map_err(|error| LogError::Corrupt {
                        file: path.display().to_string(),
                        position: 0,
                        reason: error.to_string(),
                    })?
                }
            };
            for txn in txns {
                if txn.last_offset >= from && txn.first_offset < upper {
                    found.push(txn);
                }
                // No transaction that ends later can have begun before this one was the oldest open.
                if txn.last_stable_offset >= upper {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }
}
