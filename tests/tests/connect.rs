//! Kafka Connect in distributed mode: a worker of Apache Kafka 4.4.0 with the connectors of `tests/java/FileConnectors.java` copies
//! a file into a topic and the topic into another file while the broker is killed, stopped and started again and the worker itself is restarted.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use odradek_tests::node::send_term;
use odradek_tests::ports::free_port;
use odradek_tests::{Node, Tool, peers};
use serde_json::{Value, json};

/// How long anything here may take. A safety net, not a measurement.
const LIMIT: Duration = Duration::from_secs(120);

/// Lines written between two events.
const LINES: usize = 500;

/// A worker process of Kafka Connect; killed when dropped.
struct Worker {
    child: Option<Child>,
    folder: PathBuf,
    port: u16,
}

impl Worker {
    fn start(node: &Node) -> Worker {
        let (folder, port) = (node.scratch().to_path_buf(), free_port());
        // Short intervals, so that what is copied is seen and committed soon; every topic is of Connect's own making.
        let properties = format!(
            "bootstrap.servers={}\ngroup.id=connect-cluster\nlisteners=http://127.0.0.1:{port}\n\
             config.storage.topic=connect-configs\noffset.storage.topic=connect-offsets\nstatus.storage.topic=connect-status\n\
             config.storage.replication.factor=1\noffset.storage.replication.factor=1\nstatus.storage.replication.factor=1\n\
             key.converter=org.apache.kafka.connect.storage.StringConverter\n\
             value.converter=org.apache.kafka.connect.storage.StringConverter\n\
             offset.flush.interval.ms=500\nscheduled.rebalance.max.delay.ms=0\nplugin.discovery=service_load\n",
            node.bootstrap()
        );
        fs::write(folder.join("worker.properties"), properties).expect("the settings can be written");
        compile_connectors(&folder.join("connectors"));
        let mut worker = Worker { child: None, folder, port };
        worker.run();
        worker
    }

    fn run(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_file()).expect("a log file");
        let mut class_path = peers::installed("connect-4.4.0/libs").join("*").into_os_string();
        class_path.push(":");
        class_path.push(self.folder.join("connectors"));
        let layout = peers::root().join("scripts/peers/log4j2.yaml");
        let child = Command::new("java")
            .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp"])
            .arg(class_path)
            .arg(format!("-Dlog4j2.configurationFile={}", layout.display()))
            .arg("org.apache.kafka.connect.cli.ConnectDistributed")
            .arg(self.folder.join("worker.properties"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the handle can be shared"))
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("the worker starts"));
        self.until("the worker answers", |worker| worker.ask("GET", "/connectors", None).is_some());
    }

    fn stop(&mut self) {
        let mut child = self.child.take().expect("the worker runs");
        send_term(libc::pid_t::try_from(child.id()).expect("a pid"));
        child.wait().expect("can be waited for");
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("worker.log")
    }

    /// The JSON that the worker's REST interface answers; nothing while it has no good answer.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(LIMIT)).expect("a limit can be set");
        let body = body.map(Value::to_string).unwrap_or_default();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: worker\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let good = head.split_whitespace().nth(1).is_some_and(|status| status.starts_with('2'));
        good.then(|| serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn create(&self, name: &str, config: &Value) {
        let body = json!({ "name": name, "config": config });
        // Until the worker is a member of its group with the configuration read it answers with 409 or 5xx.
        self.until(name, |worker| worker.ask("POST", "/connectors", Some(&body)).is_some());
    }

    fn until(&self, what: &str, holds: impl Fn(&Worker) -> bool) {
        let started = Instant::now();
        while !holds(self) {
            if started.elapsed() > LIMIT {
                let log = fs::read_to_string(self.log_file()).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(80).collect();
                let tail: Vec<&str> = tail.into_iter().rev().collect();
                panic!("waited in vain: {what}; the worker's log ends:\n{}", tail.join("\n"));
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until the connector and its task run.
    fn until_running(&self, name: &str) {
        let running = |worker: &Worker| {
            let status = worker.ask("GET", &format!("/connectors/{name}/status"), None).unwrap_or(Value::Null);
            status["connector"]["state"] == "RUNNING" && status["tasks"][0]["state"] == "RUNNING"
        };
        self.until(&format!("{name} is RUNNING"), running);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Makes the connectors as a plugin that a worker finds on its class path.
fn compile_connectors(folder: &Path) {
    let mut compiler = Command::new("javac");
    compiler.arg("-cp").arg(peers::installed("connect-4.4.0/libs").join("*")).arg("-d").arg(folder);
    compiler.arg(peers::root().join("tests/java/FileConnectors.java"));
    Tool::command(compiler, &[]).run().ok();
    let services = folder.join("META-INF/services");
    fs::create_dir_all(&services).expect("a folder for services");
    for kind in ["Source", "Sink"] {
        let interface = format!("org.apache.kafka.connect.{}.{kind}Connector", kind.to_lowercase());
        fs::write(services.join(interface), format!("FileConnectors${kind}\n")).expect("a service can be written");
    }
}

fn add_lines(file: &Path, written: &mut Vec<String>) {
    let from = written.len();
    let lines: Vec<String> = (from..from + LINES).map(|n| format!("line {n} of the file")).collect();
    let mut file = fs::OpenOptions::new().create(true).append(true).open(file).expect("the file can be written");
    file.write_all((lines.join("\n") + "\n").as_bytes()).expect("the file can be written");
    written.extend(lines);
}

/// The lines of the file without what came twice.
fn lines_once(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut seen = HashSet::new();
    text.lines().filter(|line| seen.insert(*line)).map(str::to_owned).collect()
}

/// At least once and in order: whatever was written comes, and what is new never before what is older.
fn until_copied(worker: &Worker, file: &Path, written: &[String]) {
    worker
        .until(&format!("{} lines in {}", written.len(), file.display()), |_| lines_once(file).len() >= written.len());
    assert_eq!(lines_once(file), written);
}

/// The description of a topic with each of `settings` in it.
fn check_topic(node: &Node, topic: &str, settings: &[&str]) {
    let args = ["--bootstrap-server", &node.bootstrap(), "--describe", "--topic", topic];
    Tool::kafka("kafka-topics", &args).run().ok().says(settings);
}

#[test]
fn a_file_is_copied_by_way_of_a_topic() {
    let mut node = Node::start();
    let (from, to) = (node.scratch().join("from.txt"), node.scratch().join("to.txt"));
    let mut written = Vec::new();
    add_lines(&from, &mut written);
    let mut worker = Worker::start(&node);
    let source = json!({ "connector.class": "FileConnectors$Source", "tasks.max": "1",
        "file": from.to_str(), "topic": "copied" });
    let sink = json!({ "connector.class": "FileConnectors$Sink", "tasks.max": "1",
        "file": to.to_str(), "topics": "copied" });
    worker.create("source", &source);
    worker.create("sink", &sink);
    until_copied(&worker, &to, &written);

    add_lines(&from, &mut written);
    node.kill();
    add_lines(&from, &mut written);
    node.run();
    until_copied(&worker, &to, &written);

    node.stop();
    add_lines(&from, &mut written);
    node.run();
    until_copied(&worker, &to, &written);

    worker.stop();
    add_lines(&from, &mut written);
    worker.run();
    until_copied(&worker, &to, &written);
    for name in ["source", "sink"] {
        worker.until_running(name);
    }
    check_topic(&node, "connect-configs", &["PartitionCount: 1", "cleanup.policy=compact"]);
    check_topic(&node, "connect-offsets", &["PartitionCount: 25", "cleanup.policy=compact"]);
    check_topic(&node, "connect-status", &["PartitionCount: 5", "cleanup.policy=compact"]);
    let groups = ["--bootstrap-server", &node.bootstrap(), "--list"];
    Tool::kafka("kafka-groups", &groups).run().ok().says(&["connect-cluster", "connect-sink"]);
    worker.stop();
}
