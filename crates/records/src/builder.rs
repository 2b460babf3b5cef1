use crate::compress::compress;
use crate::header::{crc_of, field};
use crate::varint::{put_varint, put_varlong, size_of_varint, size_of_varlong};
use crate::{Attributes, BatchHeader, BuildError, Codec, TimestampType};
use base::{LeaderEpoch, Offset, ProducerId};
use bytes::Bytes;

/// A record to be put into a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordData<'a> {
    /// Its timestamp in ms.
    pub timestamp: i64,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
    /// Its headers, names and values.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
}

/// Builds one batch: settings first, then records in offset order, then [`BatchBuilder::build`].
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    header: BatchHeader,
    codec: Codec,
    level: Option<i32>,
    timestamps: TimestampType,
    append_time: i64,
    transactional: bool,
    control: bool,
    last_offset: Option<Offset>,
    body: Vec<u8>,
}

impl BatchBuilder {
    /// A batch that begins at `base_offset`: uncompressed, create time, no producer.
    pub fn new(base_offset: Offset) -> BatchBuilder {
        BatchBuilder {
            header: BatchHeader {
                base_offset,
                batch_length: 0,
                leader_epoch: -1,
                crc: 0,
                attributes: Attributes(0),
                last_offset_delta: -1,
                base_timestamp: -1,
                max_timestamp: -1,
                producer_id: -1,
                producer_epoch: -1,
                base_sequence: -1,
                record_count: 0,
            },
            codec: Codec::None,
            level: None,
            timestamps: TimestampType::CreateTime,
            append_time: -1,
            transactional: false,
            control: false,
            last_offset: None,
            body: Vec::new(),
        }
    }

    /// Compresses the records; `level` in the codec's own scale, `None` for Kafka's default.
    #[must_use]
    pub fn compression(mut self, codec: Codec, level: Option<i32>) -> BatchBuilder {
        self.codec = codec;
        self.level = level;
        self
    }

    /// The epoch of the leader that appends the batch.
    #[must_use]
    pub fn leader_epoch(mut self, epoch: LeaderEpoch) -> BatchBuilder {
        self.header.leader_epoch = epoch;
        self
    }

    /// The producer's id, epoch and the sequence number of the first record (-1 in markers).
    #[must_use]
    pub fn producer(mut self, id: ProducerId, epoch: i16, base_sequence: i32) -> BatchBuilder {
        self.header.producer_id = id;
        self.header.producer_epoch = epoch;
        self.header.base_sequence = base_sequence;
        self
    }

    /// Marks the batch as part of a transaction.
    #[must_use]
    pub fn transactional(mut self) -> BatchBuilder {
        self.transactional = true;
        self
    }

    /// Marks the batch as one of control records.
    #[must_use]
    pub fn control(mut self) -> BatchBuilder {
        self.control = true;
        self
    }

    /// Gives the batch log append time `ms` instead of its records' timestamps.
    #[must_use]
    pub fn log_append_time(mut self, ms: i64) -> BatchBuilder {
        self.timestamps = TimestampType::LogAppendTime;
        self.append_time = ms;
        self
    }

    /// Makes room for `bytes` more of records, so that many need one buffer.
    pub fn reserve(&mut self, bytes: usize) {
        self.body.reserve(bytes);
    }

    /// Number of records so far.
    pub fn count(&self) -> usize {
        self.header.record_count as usize
    }

    /// Bytes of the batch so far, if it is not compressed.
    pub fn size(&self) -> usize {
        field::RECORDS + self.body.len()
    }

    /// Offset the next record gets from [`BatchBuilder::append`].
    pub fn next_offset(&self) -> Offset {
        self.last_offset.map_or(self.header.base_offset, |last| last + 1)
    }

    /// Adds a record at the next offset.
    pub fn append(&mut self, record: &RecordData<'_>) -> &mut BatchBuilder {
        self.append_at(self.next_offset(), record)
    }

    /// Adds a record at `offset`, which lies after the last one (the cleaner leaves gaps).
    ///
    /// # Panics
    /// When offsets do not increase, or lie further from the base offset than the format can say.
    pub fn append_at(&mut self, offset: Offset, record: &RecordData<'_>) -> &mut BatchBuilder {
        assert!(offset >= self.next_offset(), "offset {offset} is not after {:?}", self.last_offset);
        let offset_delta = i32::try_from(offset - self.header.base_offset)
            .unwrap_or_else(|_| panic!("offset {offset} is too far from {}", self.header.base_offset));
        if self.header.record_count == 0 {
            self.header.base_timestamp = record.timestamp;
        }
        let delta = record.timestamp.wrapping_sub(self.header.base_timestamp);
        put_varint(&mut self.body, record_body_size(delta, offset_delta, record));
        put_record_body(&mut self.body, delta, offset_delta, record);
        self.header.max_timestamp = self.header.max_timestamp.max(record.timestamp);
        self.header.record_count += 1;
        self.last_offset = Some(offset);
        self
    }

    /// Makes the batch end at `offset` although its last records are gone (the cleaner keeps the span of a batch).
    ///
    /// # Panics
    /// As [`BatchBuilder::append_at`].
    pub fn end_at(&mut self, offset: Offset) -> &mut BatchBuilder {
        assert!(self.last_offset.is_none_or(|last| last <= offset), "the batch already ends after {offset}");
        assert!(offset - self.header.base_offset <= i64::from(i32::MAX), "offset {offset} is too far away");
        self.last_offset = Some(offset);
        self
    }

    /// The finished batch.
    ///
    /// # Errors
    /// [`BuildError`] when it is too large for the format or the compressor fails.
    pub fn build(&self) -> Result<Bytes, BuildError> {
        let room = if self.codec == Codec::None { self.body.len() } else { 0 };
        let mut out = Vec::with_capacity(field::RECORDS + room);
        out.resize(field::RECORDS, 0);
        compress(self.codec, self.level, &self.body, &mut out)?;
        let Ok(batch_length) = i32::try_from(out.len() - field::LOG_OVERHEAD) else {
            return Err(BuildError::TooLarge(out.len()));
        };
        let mut header = self.header;
        header.batch_length = batch_length;
        header.attributes = Attributes::new(self.codec, self.timestamps, self.transactional, self.control);
        if let Some(last) = self.last_offset {
            header.last_offset_delta = (last - header.base_offset) as i32;
        }
        if self.timestamps == TimestampType::LogAppendTime {
            header.max_timestamp = self.append_time;
        }
        header.write(&mut out);
        header.crc = crc_of(&out);
        header.write(&mut out);
        Ok(Bytes::from(out))
    }
}

fn size_of_nullable(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |b| size_of_varint(b.len() as i32) + b.len())
}

fn record_body_size(timestamp_delta: i64, offset_delta: i32, record: &RecordData<'_>) -> i32 {
    let mut size = 1 + size_of_varlong(timestamp_delta) + size_of_varint(offset_delta);
    size += size_of_nullable(record.key) + size_of_nullable(record.value);
    size += size_of_varint(record.headers.len() as i32);
    for (name, value) in record.headers {
        size += size_of_nullable(Some(name.as_bytes())) + size_of_nullable(*value);
    }
    // A record beyond 2 GiB makes a batch beyond 2 GiB, which `build` refuses.
    size as i32
}

fn put_record_body(out: &mut Vec<u8>, timestamp_delta: i64, offset_delta: i32, record: &RecordData<'_>) {
    out.push(0);
    put_varlong(out, timestamp_delta);
    put_varint(out, offset_delta);
    put_nullable(out, record.key);
    put_nullable(out, record.value);
    put_varint(out, record.headers.len() as i32);
    for (name, value) in record.headers {
        put_nullable(out, Some(name.as_bytes()));
        put_nullable(out, *value);
    }
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varint(out, -1),
        Some(bytes) => {
            put_varint(out, bytes.len() as i32);
            out.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, BatchError, BatchIter, RecordIter, Scratch, set_log_append_time, stamp};

    fn sample(base: Offset) -> Bytes {
        let mut b = BatchBuilder::new(base).producer(7, 3, i32::MAX);
        let headers: &[(&str, Option<&[u8]>)] = &[("h", Some(b"x")), ("h", None)];
        b.append(&RecordData { timestamp: 100, key: Some(b"k"), value: None, headers });
        b.append(&RecordData { timestamp: 90, key: None, value: Some(b"value"), headers: &[] });
        b.build().unwrap()
    }

    #[test]
    fn what_is_built_reads_back() {
        let bytes = sample(42);
        let batch = Batch::parse(&bytes).unwrap();
        batch.verify_crc().unwrap();
        assert_eq!((batch.header.base_timestamp, batch.header.max_timestamp), (100, 100));
        assert_eq!((batch.header.last_offset(), batch.header.last_sequence()), (43, 0));
        let records: Vec<_> = RecordIter::new(&batch.header, batch.payload()).collect::<Result<_, _>>().unwrap();
        assert_eq!(records.len(), 2);
        assert_eq!((records[0].offset, records[0].timestamp, records[0].sequence), (42, 100, i32::MAX));
        assert_eq!((records[1].offset, records[1].timestamp, records[1].sequence), (43, 90, 0));
        assert_eq!((records[0].key, records[0].value), (Some(&b"k"[..]), None));
        let headers: Vec<_> = records[0].headers.iter().map(|h| (h.key, h.value)).collect();
        assert_eq!(headers, [(&b"h"[..], Some(&b"x"[..])), (b"h", None)]);
        assert_eq!(records.iter().map(|r| r.size).sum::<usize>(), batch.payload().len());
    }

    #[test]
    fn every_codec_reads_back_through_scratch() {
        let mut scratch = Scratch::new();
        for codec in Codec::ALL {
            let mut b = BatchBuilder::new(5).compression(codec, None);
            for i in 0..500i64 {
                let value = format!("value {i}").into_bytes();
                b.append(&RecordData { timestamp: i, key: None, value: Some(&value), headers: &[] });
            }
            let batch = Batch::parse(&b.build().unwrap()).unwrap();
            batch.verify_crc().unwrap();
            assert_eq!(batch.header.attributes.codec(), Ok(codec));
            let records: Vec<_> = batch.records(&mut scratch, 1 << 20).unwrap().map(|r| r.unwrap()).collect();
            assert_eq!(records.len(), 500);
            assert!(records.iter().zip(0i64..).all(|(r, i)| r.offset == 5 + i && r.timestamp == i));
            assert!(codec == Codec::None || batch.bytes.len() < b.size());
        }
    }

    #[test]
    fn stamping_keeps_the_checksum_and_append_time_renews_it() {
        let mut bytes = sample(0).to_vec();
        stamp(&mut bytes, 1 << 40, 9);
        let batch = Batch::parse(&Bytes::copy_from_slice(&bytes)).unwrap();
        batch.verify_crc().unwrap();
        assert_eq!((batch.header.base_offset, batch.header.leader_epoch), (1 << 40, 9));
        set_log_append_time(&mut bytes, 555);
        let batch = Batch::parse(&Bytes::from(bytes)).unwrap();
        batch.verify_crc().unwrap();
        assert!(RecordIter::new(&batch.header, batch.payload()).all(|r| r.unwrap().timestamp == 555));
    }

    #[test]
    fn batches_follow_each_other_and_the_last_may_be_cut_off() {
        let (a, b) = (sample(0), sample(2));
        let all: Bytes = [&a[..], &b[..]].concat().into();
        let mut iter = BatchIter::new(all.clone());
        assert_eq!(iter.by_ref().map(|b| b.unwrap().header.base_offset).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(iter.position(), all.len());
        for cut in 1..b.len() {
            let mut iter = BatchIter::new(all.slice(..a.len() + cut));
            assert!(iter.next().unwrap().is_ok());
            assert!(matches!(iter.next(), Some(Err(BatchError::Truncated { .. }))));
            assert!(iter.next().is_none());
            assert_eq!(iter.position(), a.len());
        }
    }

    #[test]
    fn an_emptied_batch_keeps_its_span() {
        let mut b = BatchBuilder::new(10);
        b.end_at(19);
        let batch = Batch::parse(&b.build().unwrap()).unwrap();
        assert_eq!((batch.header.record_count, batch.header.next_offset()), (0, 20));
        assert_eq!(RecordIter::new(&batch.header, batch.payload()).count(), 0);
    }
}
