//! How a run of blocks gets into a segment file. A run that a promise waits for is written at once, all of it in flight
//! together. Behind the journal nobody waits, and there a run takes its turn and goes piece by piece: the partitions that a
//! producer spreads its records over have gathered enough at the same moment, and if they all wrote at once, the next commit of
//! the journal would stand behind all of it at the disk.

use bytes::Bytes;
use reactor::fs::File;
use reactor::join_all;
use reactor::sync::Permit;

use crate::core::CoreInner;

/// Bytes of one write; a longer run of blocks becomes several.
const WRITE_BYTES: usize = 1 << 20;
/// Writes of one run in flight.
const WRITES_MAX: usize = 8;
/// Bytes of one write of a run that takes its turn: what a commit of the journal may have to wait for.
const PIECE_BYTES: usize = 256 << 10;
/// Runs of one core that are written behind the journal at once, when memory for more is short.
pub(crate) const TURNS: usize = 4;

impl CoreInner {
    /// Waits for a turn to write behind the journal: alone while there is memory for what gathers meanwhile, together with
    /// others when it gets short or the journal waits for room.
    pub async fn write_turn(&self) -> Permit {
        let (unwritten, bound) = (self.unwritten(), self.config.unwritten_bytes_max);
        let is_short = self.journal.as_ref().is_some_and(|journal| journal.short_of().is_some());
        let wanted = match unwritten {
            _ if is_short => 1,
            few if few <= bound / 2 => TURNS,
            more if more <= bound / 4 * 3 => TURNS / 2,
            _ => 1,
        };
        self.write_turns.acquire_many(wanted).await
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

/// Writes a run of blocks piece by piece, in its turn, and makes it durable.
pub(super) async fn write_behind(core: &CoreInner, file: &File, run: Vec<Bytes>, from: u64) -> std::io::Result<()> {
    let turn = core.write_turn().await;
    for (position, group) in pieces(run, from, PIECE_BYTES) {
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
    fn pieces_lie_end_to_end_and_keep_to_their_size() {
        let run: Vec<Bytes> = [3, 5, 2, 9, 1, 1].map(|len| Bytes::from(vec![len as u8; len])).into();
        let cut: Vec<_> =
            pieces(run.clone(), 100, 8).into_iter().map(|(at, group)| (at, group.concat().len())).collect();
        assert_eq!(cut, [(100, 8), (108, 2), (110, 9), (119, 2)]);
        assert_eq!(pieces(run, 0, 100).len(), 1);
    }
}
