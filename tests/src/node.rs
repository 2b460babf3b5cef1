//! A broker process: Odradek, or Apache Kafka as the oracle.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::peers;
use crate::ports::free_port;
use crate::raw::Raw;
use crate::tool::Tool;

/// Which broker a test runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// The broker of this project.
    Odradek,
    /// Apache Kafka, to check an expectation against the original.
    Kafka,
    /// An older release of Apache Kafka that `scripts/install-peers` fetches, for instance `4.0.2`.
    OldKafka(&'static str),
}

impl Peer {
    /// Odradek, unless `ODRADEK_TEST_PEER=kafka`.
    pub fn under_test() -> Peer {
        match std::env::var("ODRADEK_TEST_PEER").as_deref() {
            Ok("kafka") => Peer::Kafka,
            _ => Peer::Odradek,
        }
    }

    /// Its command line tool or its server by the usual name; `None` for Odradek.
    fn kafka_command(self, name: &str) -> Option<Command> {
        let libs = match self {
            Peer::Odradek => return None,
            Peer::Kafka => peers::kafka_libs(),
            Peer::OldKafka(release) => peers::installed(&format!("kafka-{release}/libs")),
        };
        let mut command = Command::new(peers::root().join("scripts/kafka"));
        command.arg(name).env("ODRADEK_KAFKA_LIBS", libs);
        Some(command)
    }
}

/// What a node is started with.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Which broker.
    pub peer: Peer,
    /// Extra lines of `server.properties`.
    pub properties: Vec<(String, String)>,
}

impl Default for NodeConfig {
    fn default() -> NodeConfig {
        NodeConfig { peer: Peer::under_test(), properties: Vec::new() }
    }
}

/// A running node with a data directory of its own; killed when dropped.
pub struct Node {
    child: Option<Child>,
    dir: tempfile::TempDir,
    config: NodeConfig,
    port: u16,
    controller_port: u16,
}

/// How long a node may take until it serves. A safety net, not a measurement.
const START_LIMIT: Duration = Duration::from_secs(60);

impl Node {
    /// A fresh Odradek (or whatever `ODRADEK_TEST_PEER` says) with default settings.
    pub fn start() -> Node {
        Node::start_with(&[])
    }

    /// As [`Node::start`], with extra properties.
    pub fn start_with(properties: &[(&str, &str)]) -> Node {
        let properties = properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Node::start_config(NodeConfig { properties, ..NodeConfig::default() })
    }

    /// A fresh node of either kind, formatted and started.
    pub fn start_config(config: NodeConfig) -> Node {
        let mut node = Node::prepare(config);
        node.format();
        node.run();
        node
    }

    /// A node with its properties written, neither formatted nor started.
    pub fn prepare(config: NodeConfig) -> Node {
        let dir = tempfile::Builder::new().prefix("odradek-test-").tempdir().expect("a temporary folder");
        let node = Node { child: None, dir, config, port: free_port(), controller_port: free_port() };
        node.write_properties();
        node
    }

    /// The same node continued by another kind of broker on the same data directory; it must be stopped.
    pub fn hand_to(&mut self, peer: Peer) {
        assert!(self.child.is_none(), "stop the node before its directory changes hands");
        self.config.peer = peer;
    }

    fn write_properties(&self) {
        let mut text = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
             controller.listener.names=CONTROLLER\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             log.dirs={dir}\noffsets.topic.replication.factor=1\n\
             transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             share.coordinator.state.topic.replication.factor=1\nshare.coordinator.state.topic.min.isr=1\n\
             group.initial.rebalance.delay.ms=0\n",
            port = self.port,
            controller = self.controller_port,
            dir = self.data_dir().display(),
        );
        for (key, value) in &self.config.properties {
            text.push_str(&format!("{key}={value}\n"));
        }
        fs::write(self.properties_file(), text).expect("properties can be written");
    }

    /// Formats the data directory with the node's own tool.
    pub fn format(&self) {
        let file = self.properties_file();
        let args = ["format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", file.to_str().expect("a plain path")];
        match self.config.peer.kafka_command("kafka-storage") {
            None => Tool::odradek(&args).run().ok(),
            Some(command) => Tool::command(command, &args).run().ok(),
        };
    }

    /// Starts the process and waits until it answers a Metadata request that names itself.
    pub fn run(&mut self) {
        assert!(self.child.is_none(), "the node runs already");
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_file()).expect("a log file");
        let mut command = self.config.peer.kafka_command("kafka-server-start").unwrap_or_else(|| {
            let mut command = Command::new(peers::odradek());
            command.args(["start", "--config"]);
            command
        });
        command
            .arg(self.properties_file())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the handle can be shared"))
            .stderr(log);
        self.child = Some(command.spawn().expect("the broker starts"));
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.as_mut().expect("started").try_wait().expect("can be waited for") {
                panic!("the broker ended with {status}; its log:\n{}", self.log());
            }
            if Raw::connect(self.addr()).and_then(|mut raw| raw.lists_itself(1)).unwrap_or(false) {
                return;
            }
            assert!(started.elapsed() < START_LIMIT, "the broker does not serve; its log:\n{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// `host:port` of the client listener.
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Address of the client listener.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// `host:port` of the controller listener.
    pub fn controller_bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.controller_port)
    }

    /// A new raw connection.
    pub fn raw(&self) -> Raw {
        Raw::connect(self.addr()).expect("the broker accepts")
    }

    /// The data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A scratch folder beside the data.
    pub fn scratch(&self) -> &Path {
        self.dir.path()
    }

    /// The node's `server.properties`.
    pub fn properties_file(&self) -> PathBuf {
        self.dir.path().join("server.properties")
    }

    /// What the process printed so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("broker.log")
    }

    /// Creates a topic by `kafka-topics`.
    pub fn create_topic(&self, topic: &str, partitions: u32) {
        let (bootstrap, partitions) = (self.bootstrap(), partitions.to_string());
        let args = ["--bootstrap-server", &bootstrap, "--create", "--topic", topic, "--partitions", &partitions];
        Tool::kafka("kafka-topics", &args).run().ok();
    }

    /// What `kafka-consumer-groups` shows as the lag of each partition of a group.
    pub fn lags(&self, group: &str) -> Vec<String> {
        let about = ["--bootstrap-server", &self.bootstrap(), "--describe", "--group", group];
        let text = Tool::kafka("kafka-consumer-groups", &about).run().ok().text();
        let rows = text.lines().filter(|line| line.starts_with(group));
        rows.filter_map(|line| line.split_whitespace().nth(5)).map(str::to_owned).collect()
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the node runs").id()
    }

    /// Resident set size in KiB, from `/proc`.
    pub fn rss_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("/proc is readable");
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("VmRSS is listed");
        line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
    }

    /// SIGKILL, then waits for the process to be gone.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("the node runs");
        child.kill().expect("can be killed");
        child.wait().expect("can be waited for");
    }

    /// SIGTERM, then waits for a clean end.
    pub fn stop(&mut self) {
        let mut child = self.child.take().expect("the node runs");
        let pid = libc::pid_t::try_from(child.id()).expect("a pid");
        send_term(pid);
        let started = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("can be waited for") {
                let clean = status.success() || (self.config.peer != Peer::Odradek && status.code() == Some(143));
                assert!(clean, "the broker ended with {status}; its log:\n{}", self.log());
                return;
            }
            assert!(started.elapsed() < START_LIMIT, "the broker does not stop; its log:\n{}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Asks a child of ours that has not been waited for to end.
pub fn send_term(pid: libc::pid_t) {
    send_signal(pid, libc::SIGTERM);
}

/// Sends a signal to a child of ours that has not been waited for.
#[allow(unsafe_code)]
pub fn send_signal(pid: libc::pid_t, signal: i32) {
    // SAFETY: kill() touches no memory of ours; the pid is a child that has not been waited for yet.
    let rc = unsafe { libc::kill(pid, signal) };
    assert_eq!(rc, 0, "signal {signal} to {pid} failed");
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(60).collect();
            eprintln!("--- last lines of the broker's log ---");
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// True when something accepts connections at `addr`.
pub fn accepts(addr: SocketAddr) -> bool {
    TcpStream::connect_timeout(&addr, Duration::from_millis(200)).is_ok()
}
