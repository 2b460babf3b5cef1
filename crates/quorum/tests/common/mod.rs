//! Apache Kafka 4.4.0 beside the controller core: its tools, its broker, and raw requests to it.

// Each test file uses a part of this.
#![allow(dead_code)]

#[path = "../../src/tests/lifecycle.rs"]
pub mod lifecycle;

#[path = "../../../../tests/src/ports.rs"]
pub mod ports;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base::Uuid;
use bytes::Bytes;
use config::{BrokerConfig, Properties};
use quorum::QuorumConfig;

use self::ports::free_port;

/// Id of the clusters that tests format.
pub const CLUSTER_ID: &str = "MkU3OEVBNTcwNTJENDM2Qk";

/// How long Kafka may take to start. A safety net, not a measurement.
const START_LIMIT: Duration = Duration::from_secs(90);

/// How long Kafka may take to answer. A safety net too.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// The class path of Apache Kafka 4.4.0.
fn class_path() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let libs =
        std::env::var_os("ODRADEK_KAFKA_LIBS").map_or_else(|| root.join(".cache/kafka-4.4.0/libs"), PathBuf::from);
    assert!(
        libs.join("kafka-clients-4.4.0.jar").exists(),
        "the jars of Apache Kafka 4.4.0 are not in {}: run scripts/install-peers, or set ODRADEK_KAFKA_LIBS",
        libs.display()
    );
    format!("{}/*", libs.display())
}

fn java(class: &str, args: &[&str]) -> Command {
    let mut command = Command::new("java");
    command.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", &class_path(), class]);
    command.args(args);
    command
}

/// Runs one of Kafka's tools and gives what it prints.
pub fn tool(class: &str, args: &[&str]) -> String {
    let output = java(class, args).output().expect("java runs");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{class} {args:?}:\n{text}");
    text
}

/// A directory with a properties file, as one node has it.
pub struct Home {
    dir: tempfile::TempDir,
    port: u16,
    controller_port: u16,
    dynamic: bool,
}

impl Home {
    /// A directory formatted by Kafka's own tool, with voters in the configuration or (`dynamic`) in the log.
    pub fn formatted(dynamic: bool, more: &str) -> Home {
        let home = Home {
            dir: tempfile::tempdir().expect("a directory"),
            port: free_port(),
            controller_port: free_port(),
            dynamic,
        };
        let controller = home.controller_port;
        let voters = match dynamic {
            true => format!("controller.quorum.bootstrap.servers=localhost:{controller}"),
            false => format!("controller.quorum.voters=1@localhost:{controller}"),
        };
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\n{voters}\ncontroller.listener.names=CONTROLLER\n\
             listeners=PLAINTEXT://localhost:{},CONTROLLER://localhost:{controller}\n\
             advertised.listeners=PLAINTEXT://localhost:{},CONTROLLER://localhost:{controller}\n\
             listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
             log.dirs={}\noffsets.topic.replication.factor=1\n{more}\n",
            home.port,
            home.port,
            home.data().display()
        );
        std::fs::write(home.properties(), text).expect("written");
        let properties = home.properties();
        let mut args = vec!["format", "-t", CLUSTER_ID, "-c", properties.to_str().expect("a plain path")];
        if dynamic {
            args.push("--standalone");
        }
        tool("kafka.tools.StorageTool", &args);
        home
    }

    fn properties(&self) -> PathBuf {
        self.dir.path().join("server.properties")
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The directory of the metadata log.
    pub fn metadata(&self) -> PathBuf {
        self.data().join("__cluster_metadata-0")
    }

    /// Address of the broker's listener.
    pub fn bootstrap(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// `directory.id` of the data directory.
    pub fn directory_id(&self) -> Uuid {
        let text = std::fs::read_to_string(self.data().join("meta.properties")).expect("a formatted directory");
        let id = text.lines().find_map(|line| line.strip_prefix("directory.id=")).expect("an id");
        id.parse().expect("a uuid")
    }

    /// The configuration for the controller core.
    pub fn config(&self) -> QuorumConfig {
        let text = std::fs::read(self.properties()).expect("properties");
        let broker = BrokerConfig::from_properties(Properties::parse(&text).expect("properties")).expect("valid");
        assert_eq!(self.dynamic, broker.quorum.voters.is_empty());
        QuorumConfig::new(&broker, CLUSTER_ID, self.directory_id())
    }

    /// The advertised port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What Kafka's tool reads in a file of the metadata log.
    pub fn dump(&self, file: &str) -> String {
        let path = self.metadata().join(file);
        let path = path.to_str().expect("a plain path");
        let args: &[&str] = match file.ends_with("index") {
            true => &["--files", path, "--index-sanity-check"],
            false => &["--cluster-metadata-decoder", "--deep-iteration", "--files", path],
        };
        tool("org.apache.kafka.tools.DumpLogSegments", args)
    }

    /// Starts Apache Kafka on the directory.
    pub fn start_kafka(&self) -> Kafka {
        let log = std::fs::File::create(self.dir.path().join("kafka.log")).expect("a log file");
        let properties = self.properties();
        let child = java("kafka.Kafka", &[properties.to_str().expect("a plain path")])
            .stdout(Stdio::from(log.try_clone().expect("a handle")))
            .stderr(Stdio::from(log))
            .spawn()
            .expect("java runs");
        let mut kafka = Kafka { child, port: self.port };
        let mut waited = Duration::ZERO;
        let step = Duration::from_millis(100);
        // The broker binds its port early and serves late: it serves once it answers ApiVersions with a live cluster.
        while !kafka.serves() {
            assert!(waited < START_LIMIT && kafka.is_running(), "Kafka did not start: {}", self.kafka_log());
            std::thread::sleep(step);
            waited += step;
        }
        kafka
    }

    fn kafka_log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("kafka.log")).unwrap_or_default()
    }
}

/// A running Apache Kafka; killed when dropped.
pub struct Kafka {
    child: Child,
    port: u16,
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Kafka {
    fn is_running(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_none())
    }

    fn serves(&self) -> bool {
        // Metadata version 1 for no topics: size, key 3, version 1, correlation id, no client id, empty array.
        let request = [0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0];
        let Ok(mut stream) = TcpStream::connect(("localhost", self.port)) else { return false };
        stream.write_all(&request).is_ok() && {
            let mut head = [0; 12];
            // Correlation id, then the number of brokers.
            stream.read_exact(&mut head).is_ok() && i32::from_be_bytes([head[8], head[9], head[10], head[11]]) > 0
        }
    }

    /// Sends a request's body with a header of our own making and gives the body of the answer.
    pub fn request(&self, api: wire::ApiKey, version: i16, body: &Bytes) -> Bytes {
        let info = wire::info(api);
        let mut frame = Vec::new();
        frame.extend_from_slice(&api.code().to_be_bytes());
        frame.extend_from_slice(&version.to_be_bytes());
        frame.extend_from_slice(&[0, 0, 0, 7, 0xff, 0xff]);
        if info.is_flexible(version) {
            frame.push(0);
        }
        frame.extend_from_slice(body);
        let mut stream = TcpStream::connect(("localhost", self.port)).expect("a connection");
        stream.set_read_timeout(Some(ANSWER_LIMIT)).expect("a timeout");
        stream.write_all(&(frame.len() as u32).to_be_bytes()).expect("sent");
        stream.write_all(&frame).expect("sent");
        let mut size = [0; 4];
        stream.read_exact(&mut size).unwrap_or_else(|error| panic!("{api} v{version}: Kafka does not answer: {error}"));
        let mut answer = vec![0; u32::from_be_bytes(size) as usize];
        stream.read_exact(&mut answer).expect("an answer");
        let header = if info.response_header_version(version) > 0 { 5 } else { 4 };
        Bytes::from(answer).slice(header..)
    }

    /// Stops it as an administrator would.
    pub fn stop(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").arg(&pid).status().expect("kill runs").success());
        self.child.wait().expect("Kafka ends");
    }
}
