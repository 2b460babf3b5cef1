//! Batches made once and sent many times.

use std::collections::BTreeMap;

use base::Prng;
use bytes::Bytes;
use records::{Attributes, BatchBuilder, BatchHeader, Codec, RecordData, RecordIter, TimestampType, crc32c, field};

use crate::args::Payload;
use crate::crc_shift::Shift;

/// Different contents of a batch, sent in turn, so that neither side works on the same cache lines all the time.
const VARIANTS: usize = 4;
/// Bytes at the start of a value that an end-to-end record needs: the run and the intended time of sending.
pub(crate) const STAMP_BYTES: usize = 16;

/// What a batch is made of.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    /// Bytes of a value.
    pub(crate) record_size: usize,
    /// Bytes of a batch, kept to unless one record has more.
    pub(crate) batch_size: usize,
    /// How the records are compressed.
    pub(crate) codec: Codec,
    /// What the values hold.
    pub(crate) payload: Payload,
}

/// What differs from batch to batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    /// Wall clock time of all its records.
    pub(crate) timestamp_ms: i64,
    /// Producer id, epoch and first sequence number, or -1 three times.
    pub(crate) producer: (i64, i16, i32),
}

/// Records of a batch as they lie behind its header.
struct Body {
    bytes: Bytes,
    crc: u32,
    shift: Shift,
}

/// The batches of one recipe.
pub(crate) struct Template {
    codec: Codec,
    variants: Vec<Variant>,
    next: usize,
}

struct Variant {
    /// All records, uncompressed.
    records: Bytes,
    /// Where each record ends, and where its value begins.
    ends: Vec<(usize, usize)>,
    /// What was asked for so far, by number of records. As many entries as there are counts that a schedule asks for: a
    /// few where batches are full, all up to [`Template::records_max`] at worst.
    bodies: BTreeMap<usize, Body>,
}

impl Template {
    /// Makes the records; the same seed makes the same ones.
    pub(crate) fn new(recipe: &Recipe, seed: u64) -> Template {
        let mut prng = Prng::new(seed);
        let variants = (0..VARIANTS).map(|_| Variant::new(recipe, &mut prng)).collect();
        Template { codec: recipe.codec, variants, next: 0 }
    }

    /// Records of a full batch.
    pub(crate) fn records_max(&self) -> usize {
        self.variants[0].ends.len()
    }

    /// The number of records, of `wanted`, that the next batch should have. Compressed batches come in powers of two, since
    /// each number of records has to be compressed by itself.
    pub(crate) fn fitting(&self, wanted: usize) -> usize {
        let wanted = wanted.min(self.records_max());
        match self.codec {
            Codec::None => wanted,
            _ if wanted == self.records_max() || wanted == 0 => wanted,
            _ => 1 << wanted.ilog2(),
        }
    }

    /// A batch of the first `count` records: its header and, shared with every other such batch, its records.
    pub(crate) fn batch(&mut self, count: usize, label: Label) -> [Bytes; 2] {
        let codec = self.codec;
        let variant = self.turn();
        let body = variant.bodies.entry(count).or_insert_with(|| {
            let records = variant.records.slice(..variant.ends[count - 1].0);
            Body::new(codec, records)
        });
        let mut head = header(count, body.bytes.len(), codec, label);
        let crc = body.shift.join(crc32c(&head[field::ATTRIBUTES..]), body.crc);
        head[field::CRC..field::CRC + 4].copy_from_slice(&crc.to_be_bytes());
        [Bytes::copy_from_slice(&head), body.bytes.clone()]
    }

    /// As [`Template::batch`], uncompressed and with a stamp at the start of each value: the name of the run and what
    /// `intended_ns` gives for the record's place.
    pub(crate) fn stamped(
        &mut self,
        count: usize,
        label: Label,
        run: u64,
        intended_ns: impl Fn(usize) -> u64,
    ) -> [Bytes; 2] {
        let variant = self.turn();
        let mut records = variant.records[..variant.ends[count - 1].0].to_vec();
        for (i, (_, value)) in variant.ends[..count].iter().enumerate() {
            records[*value..value + 8].copy_from_slice(&run.to_be_bytes());
            records[value + 8..value + STAMP_BYTES].copy_from_slice(&intended_ns(i).to_be_bytes());
        }
        let mut head = header(count, records.len(), Codec::None, label);
        let crc = base::crc32c_append(crc32c(&head[field::ATTRIBUTES..]), &records);
        head[field::CRC..field::CRC + 4].copy_from_slice(&crc.to_be_bytes());
        [Bytes::copy_from_slice(&head), Bytes::from(records)]
    }

    fn turn(&mut self) -> &mut Variant {
        self.next = (self.next + 1) % self.variants.len();
        &mut self.variants[self.next]
    }
}

/// The stamp of a value: the run and the intended time of sending.
pub(crate) fn read_stamp(value: &[u8]) -> Option<(u64, u64)> {
    let (run, rest) = value.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*run), u64::from_be_bytes(*rest.first_chunk::<8>()?)))
}

fn header(count: usize, body_bytes: usize, codec: Codec, label: Label) -> [u8; field::RECORDS] {
    let count = i32::try_from(count).expect("a batch has fewer records than bytes");
    let bytes = i32::try_from(field::RECORDS - field::LOG_OVERHEAD + body_bytes).expect("the plan bounds a batch");
    let (producer_id, producer_epoch, base_sequence) = label.producer;
    let mut head = [0; field::RECORDS];
    BatchHeader {
        base_offset: 0,
        batch_length: bytes,
        leader_epoch: -1,
        crc: 0,
        attributes: Attributes::new(codec, TimestampType::CreateTime, false, false),
        last_offset_delta: count - 1,
        base_timestamp: label.timestamp_ms,
        max_timestamp: label.timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count: count,
    }
    .write(&mut head);
    head
}

impl Body {
    fn new(codec: Codec, records: Bytes) -> Body {
        let bytes = match codec {
            Codec::None => records,
            codec => {
                let mut out = Vec::new();
                records::compress(codec, None, &records, &mut out).expect("compressing into memory");
                Bytes::from(out)
            }
        };
        Body { crc: crc32c(&bytes), shift: Shift::by(bytes.len()), bytes }
    }
}

impl Variant {
    fn new(recipe: &Recipe, prng: &mut Prng) -> Variant {
        let mut builder = BatchBuilder::new(0);
        let mut value = vec![0; recipe.record_size];
        // A record's frame takes 21 bytes at most: six lengths and deltas, an attribute byte, no key, no headers.
        while builder.count() == 0 || builder.size() + value.len() + 21 <= recipe.batch_size {
            fill(&mut value, recipe.payload, prng);
            builder.append(&RecordData { timestamp: 0, key: None, value: Some(&value), headers: &[] });
        }
        let bytes = builder.build().expect("the plan bounds a batch");
        let header = BatchHeader::parse(&bytes).expect("a batch just built");
        let records = bytes.slice(field::RECORDS..);
        let mut ends = Vec::with_capacity(builder.count());
        let mut end = 0;
        for record in RecordIter::new(&header, &records) {
            end += record.expect("a record just built").size;
            // Behind the value stands the number of headers alone, in one byte.
            ends.push((end, end - 1 - recipe.record_size));
        }
        Variant { records, ends, bodies: BTreeMap::new() }
    }
}

/// Words of the text payload: common ones, so that codecs find about as much as in real text.
const WORDS: &[&str] = &[
    "the",
    "of",
    "and",
    "to",
    "a",
    "in",
    "is",
    "was",
    "that",
    "for",
    "it",
    "on",
    "with",
    "as",
    "his",
    "at",
    "by",
    "had",
    "not",
    "are",
    "but",
    "from",
    "or",
    "have",
    "an",
    "they",
    "which",
    "one",
    "you",
    "were",
    "all",
    "her",
    "she",
    "there",
    "would",
    "their",
    "we",
    "him",
    "been",
    "has",
    "when",
    "who",
    "will",
    "no",
    "more",
    "if",
    "out",
    "so",
    "up",
    "said",
    "what",
    "its",
    "about",
    "than",
    "into",
    "them",
    "can",
    "only",
    "other",
    "time",
    "new",
    "some",
    "could",
    "these",
    "two",
    "may",
    "first",
    "then",
    "do",
    "any",
    "like",
    "my",
    "now",
    "over",
    "such",
    "our",
    "man",
    "me",
    "even",
    "most",
    "made",
    "after",
    "also",
    "did",
    "many",
    "off",
    "before",
    "must",
    "well",
    "back",
    "through",
    "years",
    "much",
    "where",
    "your",
    "way",
    "partition",
    "offset",
    "leader",
    "broker",
    "replica",
    "consumer",
    "producer",
    "segment",
    "journal",
];

fn fill(value: &mut [u8], payload: Payload, prng: &mut Prng) {
    match payload {
        Payload::Random => {
            for chunk in value.chunks_mut(8) {
                chunk.copy_from_slice(&prng.next_u64().to_le_bytes()[..chunk.len()]);
            }
        }
        Payload::Text => {
            let mut at = 0;
            while at < value.len() {
                let word = WORDS[prng.below(WORDS.len() as u64) as usize].as_bytes();
                for byte in word.iter().chain(b" ") {
                    let Some(place) = value.get_mut(at) else { return };
                    *place = *byte;
                    at += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::{Batch, Scratch};

    fn recipe(codec: Codec, payload: Payload) -> Recipe {
        Recipe { record_size: 100, batch_size: 16 << 10, codec, payload }
    }

    fn joined(parts: [Bytes; 2]) -> Batch {
        let batch = Batch::parse(&Bytes::from(parts.concat())).expect("a batch");
        assert_eq!(batch.bytes.len(), parts[0].len() + parts[1].len());
        batch.verify_crc().expect("the checksum is right");
        batch
    }

    #[test]
    fn every_number_of_records_makes_a_valid_batch() {
        for codec in Codec::ALL {
            let mut template = Template::new(&recipe(codec, Payload::Text), 1);
            let mut scratch = Scratch::new();
            for wanted in [1, 2, 3, 100, template.records_max(), 10_000] {
                let count = template.fitting(wanted);
                assert!((1..=wanted).contains(&count), "{codec}: {count} of {wanted}");
                let label = Label { timestamp_ms: 1_700_000_000_000, producer: (9, 2, 77) };
                let batch = joined(template.batch(count, label));
                let records: Vec<_> =
                    batch.records(&mut scratch, 1 << 20).expect("readable").map(|r| r.expect("whole")).collect();
                assert_eq!(records.len(), count);
                assert!(records.iter().all(|r| r.value.is_some_and(|v| v.len() == 100)));
                assert!(records.iter().all(|r| r.timestamp == 1_700_000_000_000));
                assert_eq!((records[0].sequence, batch.header.producer_id, batch.header.producer_epoch), (77, 9, 2));
            }
        }
    }

    #[test]
    fn batches_keep_to_their_size_and_have_one_record_at_least() {
        let mut full = Template::new(&recipe(Codec::None, Payload::Random), 1);
        let batch = joined(full.batch(full.records_max(), Label { timestamp_ms: 1, producer: (-1, -1, -1) }));
        assert!(batch.bytes.len() <= 16 << 10 && batch.bytes.len() > (16 << 10) - 130, "{}", batch.bytes.len());
        let large = Recipe { record_size: 10 << 20, ..recipe(Codec::None, Payload::Random) };
        assert_eq!(Template::new(&large, 1).records_max(), 1);
        let empty = Recipe { record_size: 0, batch_size: 0, ..large };
        assert_eq!(Template::new(&empty, 1).records_max(), 1);
    }

    #[test]
    fn stamps_are_read_back() {
        let mut template = Template::new(&recipe(Codec::None, Payload::Random), 1);
        let label = Label { timestamp_ms: 5, producer: (-1, -1, -1) };
        let batch = joined(template.stamped(3, label, 42, |i| 1000 + i as u64));
        let mut scratch = Scratch::new();
        let records = batch.records(&mut scratch, 1 << 20).expect("readable").map(|r| r.expect("whole"));
        let stamps: Vec<_> = records.map(|r| read_stamp(r.value.expect("a value"))).collect();
        assert_eq!(stamps, [Some((42, 1000)), Some((42, 1001)), Some((42, 1002))]);
        assert_eq!(read_stamp(b"short"), None);
    }

    #[test]
    fn text_compresses_and_random_bytes_do_not() {
        let size = |payload| {
            let mut template = Template::new(&recipe(Codec::Zstd, payload), 1);
            template.batch(template.records_max(), Label { timestamp_ms: 1, producer: (-1, -1, -1) })[1].len()
        };
        assert!(size(Payload::Text) * 2 < size(Payload::Random));
    }
}
