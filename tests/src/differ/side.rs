//! One of the two brokers, with its connections and everything that is particular to it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wire::ApiKey;

use super::compare::Own;
use super::schema::{self, Api};
use super::{decode, encode, text};
use crate::node::{Node, NodeConfig, Peer};

/// How long an answer may take. A safety net, not a measurement.
const ANSWER_LIMIT: Duration = Duration::from_secs(12);

/// What a broker did with a frame.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// It answered: the frame behind the correlation id.
    Answer(Vec<u8>),
    /// It closed the connection.
    Closed,
    /// It answered the next request instead.
    Nothing,
    /// It neither answered nor closed the connection in time.
    Silent,
}

/// What the header of a request says.
#[derive(Clone, Debug)]
pub struct Head {
    /// Number of the API.
    pub key: i16,
    /// Version.
    pub version: i16,
    /// `client.id`.
    pub client: Option<String>,
    /// The tagged section of a flexible header; `None` for a header without one.
    pub tags: Option<Vec<u8>>,
}

impl Head {
    /// The header that a correct client puts in front of `api` in `version`.
    pub fn of(api: ApiKey, version: i16) -> Head {
        let tags = api.info().is_flexible(version).then(|| vec![0]);
        Head { key: api.code(), version, client: Some("differ".into()), tags }
    }

    fn bytes(&self, correlation: i32) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.key.to_be_bytes());
        bytes.extend(self.version.to_be_bytes());
        bytes.extend(correlation.to_be_bytes());
        match &self.client {
            None => bytes.extend((-1i16).to_be_bytes()),
            Some(client) => {
                bytes.extend((client.len() as i16).to_be_bytes());
                bytes.extend(client.as_bytes());
            }
        }
        bytes.extend(self.tags.iter().flatten());
        bytes
    }
}

/// A connection that sends anything.
#[derive(Debug)]
pub struct Conn {
    stream: TcpStream,
    correlation: i32,
}

impl Conn {
    /// Connects.
    ///
    /// # Panics
    /// If the broker does not accept.
    pub fn open(addr: SocketAddr) -> Conn {
        let stream = TcpStream::connect_timeout(&addr, Duration::from_secs(5)).expect("the broker accepts");
        stream.set_read_timeout(Some(ANSWER_LIMIT)).expect("a timeout");
        stream.set_nodelay(true).expect("an option");
        Conn { stream, correlation: 0 }
    }

    /// Sends a request. An error shows when the answer is awaited.
    pub fn send(&mut self, head: &Head, body: &[u8]) {
        self.correlation += 1;
        let frame = [&head.bytes(self.correlation)[..], body].concat();
        self.send_bytes(&[&(frame.len() as u32).to_be_bytes(), &frame[..]].concat());
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        // A broker that closed already shows when the answer is awaited.
        let _ = self.stream.write_all(bytes);
    }

    /// Receives a frame, correlation id included, or what came instead.
    pub fn frame(&mut self) -> Result<Vec<u8>, Outcome> {
        let mut read = |into: &mut [u8]| self.stream.read_exact(into).map_err(|error| outcome_of(&error));
        let mut length = [0; 4];
        read(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        read(&mut frame)?;
        Ok(frame)
    }

    /// The answer to the last request.
    pub fn outcome(&mut self) -> Outcome {
        match self.frame() {
            Err(other) => other,
            Ok(frame) => {
                assert_eq!(frame[..4], self.correlation.to_be_bytes(), "an answer to another request");
                Outcome::Answer(frame[4..].to_vec())
            }
        }
    }

    /// What came of a request that is not answered: asks for versions behind it.
    pub fn outcome_without_answer(&mut self) -> Outcome {
        let before = self.correlation.to_be_bytes();
        self.send(&Head::of(ApiKey::ApiVersions, 0), &[]);
        match self.frame() {
            Err(other) => other,
            Ok(frame) if frame[..4] == before => Outcome::Answer(frame[4..].to_vec()),
            Ok(_) => Outcome::Nothing,
        }
    }
}

fn outcome_of(error: &io::Error) -> Outcome {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Outcome::Closed,
        _ => Outcome::Silent,
    }
}

/// One of the two brokers.
pub struct Side {
    /// The process.
    pub node: Node,
    /// What is particular to it.
    pub own: Own,
    conns: BTreeMap<String, Conn>,
}

impl Side {
    /// Starts it.
    pub fn start(peer: Peer, properties: &[(&str, &str)]) -> Side {
        let properties = properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let node = Node::start_config(NodeConfig { peer, properties });
        let port = |text: &str| text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("a port");
        let ports = vec![(port(&node.bootstrap()), "<port>"), (port(&node.controller_bootstrap()), "<controller>")];
        let texts = vec![(node.data_dir().display().to_string(), "<data>".to_owned())];
        Side { node, own: Own { texts, ports, ..Own::default() }, conns: BTreeMap::new() }
    }

    /// The connection called `name`, opened when it is not; one whose name begins with `controller` goes to the
    /// controller's listener.
    pub fn conn(&mut self, name: &str) -> &mut Conn {
        let controller = || self.node.controller_bootstrap().parse().expect("an address");
        let addr = if name.starts_with("controller") { controller() } else { self.node.addr() };
        self.conns.entry(name.to_owned()).or_insert_with(|| Conn::open(addr))
    }

    /// Closes a connection.
    pub fn close(&mut self, name: &str) {
        self.conns.remove(name);
    }

    /// A correct request on a connection of the test bed's own.
    ///
    /// # Panics
    /// If it is not answered as the schema says.
    pub fn ask(&mut self, api: &str, version: i16, body: &Value) -> Value {
        let api = schema::api(api);
        let body = encode::body(&api.request, version, body).bytes;
        let conn = self.conn("of the test bed");
        conn.send(&Head::of(api.key, version), &body);
        let Outcome::Answer(bytes) = conn.outcome() else { panic!("the broker closed the connection") };
        answer(api, version, &bytes).unwrap_or_else(|error| panic!("{:?} v{version}: {error}", api.key))
    }

    /// Waits until a topic can be used on all its partitions, `partitions` at least, and learns its id.
    ///
    /// # Panics
    /// If that does not come about.
    pub fn settle(&mut self, topic: &str, partitions: usize) {
        let started = Instant::now();
        while !self.is_usable(topic, partitions) {
            assert!(started.elapsed() < ANSWER_LIMIT, "{topic} does not become usable");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_usable(&mut self, topic: &str, partitions: usize) -> bool {
        let metadata = self.ask("Metadata", 12, &json!({"Topics":[{"Name":topic}], "AllowAutoTopicCreation":false}));
        let found = &metadata["Topics"][0];
        let parts = found["Partitions"].as_array().map_or(&[][..], Vec::as_slice);
        if found["ErrorCode"] != 0 || parts.len() < partitions || parts.iter().any(|p| p["ErrorCode"] != 0) {
            return false;
        }
        self.own.learn_topic(topic, found["TopicId"].as_str().expect("an id"));
        let asked: Vec<Value> = (0..parts.len()).map(|i| json!({"PartitionIndex":i, "Timestamp":-1})).collect();
        let offsets = json!({"ReplicaId":-1, "Topics":[{"Name":topic, "Partitions":asked}]});
        let offsets = self.ask("ListOffsets", 7, &offsets);
        offsets["Topics"][0]["Partitions"].as_array().is_some_and(|p| p.iter().all(|p| p["ErrorCode"] == 0))
    }

    /// Waits until a topic is gone.
    ///
    /// # Panics
    /// If it stays.
    pub fn settle_gone(&mut self, topic: &str) {
        let started = Instant::now();
        let request = json!({"Topics":[{"Name":topic}], "AllowAutoTopicCreation":false});
        while self.ask("Metadata", 12, &request)["Topics"][0]["ErrorCode"] != 3 {
            assert!(started.elapsed() < ANSWER_LIMIT, "{topic} stays");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until groups can be used: the first question makes a broker create its log.
    ///
    /// # Panics
    /// If that does not come about.
    pub fn settle_groups(&mut self) {
        let started = Instant::now();
        loop {
            self.ask("FindCoordinator", 4, &json!({"CoordinatorKeys":["warm-up"]}));
            let answer = self.ask("Heartbeat", 4, &json!({"GroupId":"warm-up", "MemberId":"m"}));
            if answer["ErrorCode"] == 25 {
                break;
            }
            assert!(started.elapsed() < ANSWER_LIMIT, "groups do not become usable: {answer}");
            thread::sleep(Duration::from_millis(50));
        }
        self.settle("__consumer_offsets", 1);
        // Producer ids come in blocks from the controller.
        while self.ask("InitProducerId", 4, &json!({"TransactionalId":null}))["ErrorCode"] != 0 {
            assert!(started.elapsed() < ANSWER_LIMIT, "there are no producer ids");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The decoded answer behind the correlation id.
///
/// # Errors
/// What is wrong with the bytes.
pub fn answer(api: &Api, version: i16, bytes: &[u8]) -> Result<Value, String> {
    let known = version.clamp(api.response.versions.lo, api.response.versions.hi);
    let tagged = known == version && api.key.info().response_header_version(version) == 1;
    match bytes {
        [0, body @ ..] if tagged => decode::body(&api.response, known, body),
        _ if tagged => Err(format!("a header with tags: {}", text::hex(bytes))),
        // An unknown version is answered in version 0.
        _ if known != version => decode::body(&api.response, 0, bytes),
        _ => decode::body(&api.response, version, bytes),
    }
}
