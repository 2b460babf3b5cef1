//! Finds records of a batch by timestamp.

use crate::scan::{ScanLimits, Walk, scan};
use crate::{Batch, BatchError, RECORD_BYTES_MAX, Scratch};
use base::Offset;

/// A record, by its timestamp and offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimestampOffset {
    /// The record's timestamp in ms.
    pub timestamp: i64,
    /// The record's offset.
    pub offset: Offset,
}

impl Batch {
    /// The first record from `from` on whose timestamp is at least `target` ms. A compressed batch is decompressed through a
    /// window, as far as needed and no further than `limit` bytes.
    ///
    /// # Errors
    /// [`BatchError`] when the records cannot be read up to the one sought.
    pub fn find_timestamp(
        &self,
        target: i64,
        from: Offset,
        scratch: &mut Scratch,
        limit: usize,
    ) -> Result<Option<TimestampOffset>, BatchError> {
        if self.header.max_timestamp < target || self.header.last_offset() < from {
            return Ok(None);
        }
        self.first(scratch, limit, |record| record.timestamp >= target && record.offset >= from)
    }

    /// The first record that has the batch's largest timestamp; `None` when no record has a timestamp. Bounds as in
    /// [`Batch::find_timestamp`].
    ///
    /// # Errors
    /// As there.
    pub fn max_timestamp_record(
        &self,
        scratch: &mut Scratch,
        limit: usize,
    ) -> Result<Option<TimestampOffset>, BatchError> {
        let max = self.header.max_timestamp;
        if max == -1 {
            return Ok(None);
        }
        self.first(scratch, limit, |record| record.timestamp == max)
    }

    fn first(
        &self,
        scratch: &mut Scratch,
        limit: usize,
        wanted: impl Fn(&TimestampOffset) -> bool,
    ) -> Result<Option<TimestampOffset>, BatchError> {
        let limits = ScanLimits { record_bytes_max: RECORD_BYTES_MAX, total_bytes_max: limit };
        let mut found = None;
        scan(&self.header, self.payload(), &mut scratch.decompressor, &mut scratch.window, limits, |meta| {
            let record = TimestampOffset { timestamp: meta.timestamp(&self.header), offset: meta.offset(&self.header) };
            if wanted(&record) {
                found = Some(record);
                return Walk::Stop;
            }
            Walk::On
        })?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchBuilder, Codec, RecordData};

    const LIMIT: usize = 1 << 20;

    fn batch(codec: Codec, timestamps: &[i64]) -> Batch {
        let mut b = BatchBuilder::new(100).compression(codec, None);
        for &timestamp in timestamps {
            b.append(&RecordData { timestamp, value: Some(&[1; 99]), ..RecordData::default() });
        }
        Batch::parse(&b.build().unwrap()).unwrap()
    }

    #[test]
    fn the_first_record_at_or_after_a_time() {
        let mut scratch = Scratch::new();
        for codec in Codec::ALL {
            let batch = batch(codec, &[2, 4, 6, 8]);
            for (target, expect) in [(1, Some((2, 100))), (4, Some((4, 101))), (5, Some((6, 102))), (9, None)] {
                let found = batch.find_timestamp(target, 0, &mut scratch, LIMIT).unwrap();
                assert_eq!(found.map(|r| (r.timestamp, r.offset)), expect, "{codec} {target}");
            }
            let found = batch.find_timestamp(1, 103, &mut scratch, LIMIT).unwrap();
            assert_eq!(found.map(|r| r.offset), Some(103));
            assert_eq!(batch.find_timestamp(1, 104, &mut scratch, LIMIT), Ok(None));
        }
    }

    #[test]
    fn times_out_of_order_and_the_largest() {
        let mut scratch = Scratch::new();
        for codec in Codec::ALL {
            let batch = batch(codec, &[50, 10, 90, 90, -1]);
            let found = batch.find_timestamp(20, 101, &mut scratch, LIMIT).unwrap();
            assert_eq!(found.map(|r| r.offset), Some(102), "{codec}");
            let max = batch.max_timestamp_record(&mut scratch, LIMIT).unwrap();
            assert_eq!(max, Some(TimestampOffset { timestamp: 90, offset: 102 }));
        }
        assert_eq!(batch(Codec::None, &[-1]).max_timestamp_record(&mut scratch, LIMIT), Ok(None));
    }

    #[test]
    fn append_time_counts_for_every_record() {
        let mut b = BatchBuilder::new(7).log_append_time(1000);
        b.append(&RecordData { timestamp: 5000, ..RecordData::default() });
        b.append(&RecordData { timestamp: 1, ..RecordData::default() });
        let batch = Batch::parse(&b.build().unwrap()).unwrap();
        let mut scratch = Scratch::new();
        let expect = Some(TimestampOffset { timestamp: 1000, offset: 7 });
        assert_eq!(batch.find_timestamp(900, 0, &mut scratch, LIMIT), Ok(expect));
        assert_eq!(batch.find_timestamp(1001, 0, &mut scratch, LIMIT), Ok(None));
        assert_eq!(batch.max_timestamp_record(&mut scratch, LIMIT), Ok(expect));
    }
}
