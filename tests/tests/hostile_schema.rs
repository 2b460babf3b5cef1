//! Frames that lie, made from the schemas: in every API and version each length and count is wrong in turn, and the frame is
//! cut at each of its bytes. The broker answers or closes the connection; another connection notices nothing, and memory
//! stays where it was.

use odradek_tests::client::batch;
use odradek_tests::differ::encode::{self, Mark, Width};
use odradek_tests::differ::side::{Conn, Head, Outcome};
use odradek_tests::differ::{sample, schema};
use odradek_tests::{Client, FetchLimits, Node};
use wire::ApiKey;
use wire::api_versions_request::ApiVersionsRequest;
use wire::api_versions_response::ApiVersionsResponse;

/// Growth of the resident set that the broker may show after any row, KiB. Pools that fill up once cost a little.
const GROWTH_KIB_MAX: u64 = 32 * 1024;

/// Frames of one run above this are worth their name.
const FRAMES_MIN: usize = 15_000;

struct Watch {
    node: Node,
    other: Client,
    rss_kib: u64,
    highest_kib: u64,
    frames: usize,
}

impl Watch {
    fn start() -> Watch {
        let node = Node::start();
        let mut other = Client::connect(&node);
        other.create_topic("kept", 1, &[]);
        assert_eq!(other.produce("kept", 0, batch(3, b"kept").build().expect("a batch")).base_offset, 0);
        let rss_kib = node.rss_kib();
        Watch { node, other, rss_kib, highest_kib: rss_kib, frames: 0 }
    }

    /// Another connection reads what is stored, and memory is where it was.
    fn check(&mut self, row: &str) {
        let fetched = self.other.fetch("kept", 0, 0, FetchLimits::default());
        assert_eq!((fetched.batches().as_slice(), fetched.high_watermark), (&[(0, 2)][..], 3), "after {row}");
        let rss_kib = self.node.rss_kib();
        self.highest_kib = self.highest_kib.max(rss_kib);
        let grown = rss_kib.saturating_sub(self.rss_kib);
        assert!(grown < GROWTH_KIB_MAX, "the broker grew by {grown} KiB after {row}");
    }
}

/// A connection that is opened anew when the broker closed it.
struct Sender {
    conn: Option<Conn>,
}

impl Sender {
    fn provoke(&mut self, watch: &mut Watch, head: &Head, body: &[u8], row: &dyn Fn() -> String) {
        watch.frames += 1;
        let conn = self.conn.get_or_insert_with(|| Conn::open(watch.node.addr()));
        conn.send(head, body);
        // A Produce may have become one that is not answered; what follows it is.
        let is_produce = head.key == ApiKey::Produce.code();
        let outcome = if is_produce { conn.outcome_without_answer() } else { conn.outcome() };
        assert!(outcome != Outcome::Silent, "{} of {body:02x?} is neither answered nor closed", row());
        if is_produce || outcome == Outcome::Closed {
            self.conn = None;
        }
    }
}

/// What a length that takes `mark.len` bytes may be replaced by; `rest` bytes follow it.
fn lies(mark: &Mark, rest: usize) -> Vec<(String, Vec<u8>)> {
    let rest = rest as i64;
    let numbers = [-2, -1, 0, rest, rest + 1, i64::from(i32::MAX), i64::from(i32::MIN)];
    let fixed = |number: i64| match mark.width {
        Width::I16 => (number.clamp(i16::MIN.into(), i16::MAX.into()) as i16).to_be_bytes().to_vec(),
        Width::I32 => (number as i32).to_be_bytes().to_vec(),
        Width::Compact | Width::Plain => {
            let mut bytes = Vec::new();
            let plus = i64::from(mark.width == Width::Compact);
            encode::uvarint(u64::from((number + plus) as u32), &mut bytes);
            bytes
        }
    };
    let mut lies: Vec<_> = numbers.iter().map(|number| (number.to_string(), fixed(*number))).collect();
    if matches!(mark.width, Width::Compact | Width::Plain) {
        lies.push(("an over-long varint".into(), vec![0x81, 0x80, 0x80, 0x80, 0x00]));
        lies.push(("a varint of 64 bits".into(), [vec![0xff; 9], vec![0x01]].concat()));
        lies.push(("a varint without end".into(), vec![0x80; 12]));
    }
    lies
}

#[test]
fn every_length_and_every_cut_of_every_request() {
    let mut watch = Watch::start();
    let request = ApiVersionsRequest {
        client_software_name: "hostile".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    let served: ApiVersionsResponse<'_> = watch.other.call(ApiKey::ApiVersions, 4, &request);
    let mut rows = 0;
    for one in &served.api_keys {
        let key = ApiKey::from_i16(one.api_key).expect("a known API");
        let (name, api) = schema::all().iter().find(|(_, api)| api.key == key).expect("a schema");
        for version in key.info().min..=one.max_version {
            let valid = encode::body(&api.request, version, &sample::request(&api.request, version));
            let head = Head::of(key, version);
            let mut sender = Sender { conn: None };
            sender.provoke(&mut watch, &head, &valid.bytes, &|| format!("{name} v{version}"));
            for mark in &valid.marks {
                let (before, behind) = (&valid.bytes[..mark.at], &valid.bytes[mark.at + mark.len..]);
                for (lie, bytes) in lies(mark, behind.len()) {
                    let body = [before, &bytes, behind].concat();
                    sender.provoke(&mut watch, &head, &body, &|| format!("{name} v{version} {} = {lie}", mark.path));
                }
                rows += 1;
                watch.check(&format!("{name} v{version} {}", mark.path));
            }
            for cut in 0..valid.bytes.len() {
                let row = || format!("{name} v{version} cut at {cut}");
                sender.provoke(&mut watch, &head, &valid.bytes[..cut], &row);
            }
            rows += 1;
            watch.check(&format!("{name} v{version} cut"));
        }
    }
    let grown = watch.highest_kib - watch.rss_kib;
    println!("{} frames in {rows} rows; the broker grew by {grown} KiB at most", watch.frames);
    assert!(watch.frames > FRAMES_MIN, "only {} frames", watch.frames);
}
