//! How a run of blocks gets into a segment file. A run that a promise waits for is written at once, all of it in flight
//! together. Behind the journal nobody waits, and there a run takes its turn and goes piece by piece: the partitions that a
//! producer spreads its records over have gathered enough at the same moment, and if they all wrote at once, the next commit of
//! the journal would stand behind all of it at the disk.

use bytes::Bytes;
use reactor::fs::File;
use reactor::sync::Permit;
use reactor::{ALIGNMENT, Either, join_all, race};

use super::LogInner;
use crate::core::CoreInner;

/// Bytes of one write; a longer run of blocks becomes several.
const WRITE_BYTES: usize = 1 << 20;
/// Writes of one run in flight.
const WRITES_MAX: usize = 8;
/// Bytes of one write of a run that is written in its turn on `durable`: what a commit of the journal may have to wait for.
const PIECE_BYTES: usize = 256 << 10;
/// Blocks of one core that are written behind the journal at once, when memory for more is not short.
pub(crate) const TURN_BLOCKS: usize = (1 << 20) / ALIGNMENT;

/// How pressing it is that memory, or the journal, becomes free.
#[derive(Clone, Copy)]
enum Need {
    None,
    Some,
    Great,
}

/// The share of a core's turns that a run of this many bytes takes: large runs go alone, small ones together.
fn share(run_bytes: usize, need: Need) -> usize {
    let blocks = run_bytes.div_ceil(ALIGNMENT).min(TURN_BLOCKS);
    let share = match need {
        Need::None => blocks,
        Need::Some => blocks / 2,
        Need::Great => blocks / 4,
    };
    share.max(1)
}

impl CoreInner {
    /// Waits for the turn of a run behind the journal. None where there is nothing to wait for: a promise waits for this log
    /// already, or does before its turn comes, or the core closes.
    pub async fn write_turn(&self, run: &[Bytes], log: &LogInner) -> Option<Permit> {
        if self.closing.get() || log.state.borrow_mut().is_awaited() {
            return None;
        }
        let share = share(run.iter().map(Bytes::len).sum(), self.need());
        match race(self.write_turns.acquire_many(share), log.pressed.notified()).await {
            Either::Left(turn) => Some(turn),
            Either::Right(()) => None,
        }
    }

    fn need(&self) -> Need {
        let (unwritten, bound) = (self.unwritten(), self.config.unwritten_bytes_max);
        let is_journal_short = self.journal.as_ref().is_some_and(|journal| journal.short_of().is_some());
        match unwritten {
            _ if is_journal_short => Need::Great,
            few if few <= bound / 2 => Need::None,
            more if more <= bound / 4 * 3 => Need::Some,
            _ => Need::Great,
        }
    }
}

/// Writes a run of blocks, in pieces that are in flight together.
pub(super) async fn write_together(file: &File, run: Vec<Bytes>, from: u64, durable: bool) -> std::io::Result<()> {
    let mut writes = pieces(run, from, WRITE_BYTES);
    while !writes.is_empty() {
        let wave = writes.drain(..writes.len().min(WRITES_MAX)).map(|(position, group)| async move {
            if durable { file.writev_at_durable(group, position).await } else { file.writev_at(group, position).await }
        });
        for result in join_all(wave).await {
            result?;
        }
    }
    Ok(())
}

/// Writes a run of blocks piece by piece in its turn, which it gives back, and makes it durable.
pub(super) async fn write_in_turn(file: &File, run: Vec<Bytes>, from: u64, turn: Permit) -> std::io::Result<()> {
    let mut pieces = pieces(run, from, PIECE_BYTES);
    if pieces.len() == 1 {
        // One operation instead of two: small runs are those of many logs.
        let (position, group) = pieces.remove(0);
        return file.writev_at_durable(group, position).await;
    }
    for (position, group) in pieces {
        file.writev_at(group, position).await?;
    }
    drop(turn);
    file.sync_data().await
}

/// Cuts a run into pieces of at most `bytes`, unless one block is longer, each with its position.
fn pieces(run: Vec<Bytes>, from: u64, bytes: usize) -> Vec<(u64, Vec<Bytes>)> {
    let mut pieces = Vec::new();
    let mut position = from;
    let mut group = Vec::new();
    let mut len = 0;
    for block in run {
        if len > 0 && len + block.len() > bytes {
            pieces.push((position, std::mem::take(&mut group)));
            position += len as u64;
            len = 0;
        }
        len += block.len();
        group.push(block);
    }
    pieces.push((position, group));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_runs_go_alone_and_small_ones_together() {
        let all = TURN_BLOCKS;
        assert_eq!(share(1 << 20, Need::None), all);
        assert_eq!(share(20 << 20, Need::None), all, "a run never waits for more than there is");
        assert_eq!(share(16 << 10, Need::None) * 64, all);
        assert_eq!((share(1 << 20, Need::Some), share(1 << 20, Need::Great)), (all / 2, all / 4));
        assert_eq!((share(1, Need::None), share(1, Need::Great)), (1, 1));
    }

    #[test]
    fn pieces_lie_end_to_end_and_keep_to_their_size() {
        let run: Vec<Bytes> = [3, 5, 2, 9, 1, 1].map(|len| Bytes::from(vec![len as u8; len])).into();
        let cut: Vec<_> =
            pieces(run.clone(), 100, 8).into_iter().map(|(at, group)| (at, group.concat().len())).collect();
        assert_eq!(cut, [(100, 8), (108, 2), (110, 9), (119, 2)]);
        assert_eq!(pieces(run, 0, 100).len(), 1);
    }
}
