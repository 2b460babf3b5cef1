//! One client library in a process of its own, told what to do line by line; tests/clients/README.md has the commands.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use odradek_tests::{Talk, peers};
use serde_json::{Value, json};

/// The clients under test, in the order of the README's table.
pub const CLIENTS: [&str; 12] = [
    "java-4.4",
    "java-3.9",
    "java-2.8",
    "confluent-kafka",
    "kafka-python",
    "aiokafka",
    "franz-go",
    "sarama",
    "kafka-go",
    "kafkajs",
    "platformatic-kafka",
    "rdkafka",
];

/// The clients to run: all, or those that `ODRADEK_TEST_CLIENTS` names, with commas between them.
pub fn wanted() -> Vec<&'static str> {
    let Ok(named) = std::env::var("ODRADEK_TEST_CLIENTS") else { return CLIENTS.to_vec() };
    let named: Vec<&str> = named.split(',').collect();
    let found: Vec<&str> = CLIENTS.into_iter().filter(|client| named.contains(client)).collect();
    assert_eq!(found.len(), named.len(), "ODRADEK_TEST_CLIENTS names of {CLIENTS:?}");
    found
}

/// How long one command may take. A safety net against hangs, not a measurement.
const ANSWER_LIMIT: Duration = Duration::from_secs(150);

/// A running agent; killed when dropped.
pub struct Agent {
    /// Name as in [`CLIENTS`].
    pub name: &'static str,
    /// What it says of its library.
    pub features: Features,
    talk: Talk,
}

/// What a client library can do, by its agent.
#[derive(Clone, Default, Debug)]
pub struct Features {
    /// Version of the library.
    pub version: String,
    /// Codecs it can write and read.
    pub codecs: Vec<String>,
    /// Whether it writes with idempotence.
    pub idempotence: bool,
    /// Whether it writes without.
    pub plain: bool,
    /// Whether it reads partitions without a group.
    pub assign: bool,
    /// Group protocols.
    pub protocols: Vec<String>,
    /// Kinds of records that it cannot write.
    pub lacks: Vec<String>,
    /// Whether it gives empty bytes as null when it reads.
    pub blurs: bool,
}

impl Features {
    fn of(value: &Value) -> Features {
        let strings = |name: &str| -> Vec<String> {
            let list = value[name].as_array().into_iter().flatten();
            list.map(|one| one.as_str().expect("a string").to_owned()).collect()
        };
        let idempotence = value["idempotence"].as_array().expect("a list");
        Features {
            version: value["version"].as_str().expect("a version").to_owned(),
            codecs: strings("codecs"),
            idempotence: idempotence.contains(&json!(true)),
            plain: idempotence.contains(&json!(false)),
            assign: value["assign"].as_bool().expect("a flag"),
            protocols: strings("protocols"),
            lacks: strings("lacks"),
            blurs: value["blurs"].as_bool().expect("a flag"),
        }
    }
}

impl Agent {
    /// Starts the agent of a client.
    pub fn start(name: &'static str, bootstrap: &str) -> Agent {
        let mut command = command(name);
        command.arg(bootstrap);
        let mut agent = Agent { name, features: Features::default(), talk: Talk::start(name, command) };
        agent.features = Features::of(&agent.ask(&json!({ "cmd": "features" })));
        agent
    }

    /// The answer to a command, which must succeed.
    pub fn ask(&mut self, ask: &Value) -> Value {
        let name = self.name;
        self.talk.say(&ask.to_string());
        let line = self.talk.hear(ANSWER_LIMIT).unwrap_or_else(|e| panic!("{name}: {e} to {}", brief(ask)));
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{name} says {line}: {e}"));
        for failure in ["error", "unsupported"] {
            if let Some(text) = answer[failure].as_str() {
                panic!("{name} to {}: {failure}: {text}", brief(ask));
            }
        }
        answer
    }
}

/// A command for a message, without its long lists.
fn brief(ask: &Value) -> String {
    ask.to_string().chars().take(300).collect()
}

fn sources() -> PathBuf {
    peers::root().join("tests/clients")
}

/// Where `scripts/install-peers` put the libraries: `ODRADEK_CLIENTS` or `.cache/clients`.
fn installed() -> &'static PathBuf {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let dir =
            std::env::var_os("ODRADEK_CLIENTS").map_or_else(|| peers::root().join(".cache/clients"), PathBuf::from);
        for part in ["python", "go", "node", "java", "rust"] {
            assert!(dir.join(part).is_dir(), "{} is missing: run scripts/install-peers", dir.join(part).display());
        }
        dir
    })
}

fn command(name: &str) -> Command {
    let python = |source: &str| {
        let mut command = Command::new(installed().join("python/bin/python"));
        command.arg(sources().join("python").join(source));
        command
    };
    let go = |client: &str| {
        let mut command = Command::new(go_agent());
        command.arg(client);
        command
    };
    let java = |libs: PathBuf| {
        let mut command = Command::new("java");
        command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp"]).arg(libs.join("*"));
        // Kafka's own jars come with log4j.
        command
            .arg(format!("-Dlog4j2.configurationFile={}", peers::root().join("scripts/peers/log4j2.yaml").display()));
        command.arg(sources().join("java/Agent.java"));
        command
    };
    let node = |program: PathBuf, source: &str| {
        let mut command = Command::new(program);
        command.arg(sources().join("node").join(source)).env("NODE_PATH", installed().join("node/node_modules"));
        command
    };
    match name {
        "java-4.4" => java(peers::kafka_libs()),
        "java-3.9" | "java-2.8" => java(installed().join("java").join(&name[5..])),
        "kafka-python" => python("kafka_python_agent.py"),
        "aiokafka" => python("aiokafka_agent.py"),
        "confluent-kafka" => python("confluent_agent.py"),
        "franz-go" => go("franz"),
        "sarama" | "kafka-go" => go(name),
        "kafkajs" => node("node".into(), "kafkajs_agent.js"),
        "platformatic-kafka" => node(newer_node(), "platformatic_agent.js"),
        "rdkafka" => Command::new(rust_agent()),
        other => panic!("no agent for {other}"),
    }
}

/// The Node that `scripts/install-peers` got from the registry with the Node clients.
fn newer_node() -> PathBuf {
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    installed().join(format!("node/node_modules/node-linux-{arch}/bin/node"))
}

/// The program of the Rust client, built from the crates that `scripts/install-peers` fetched.
fn rust_agent() -> &'static PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = installed().join("rust");
        let manifest = sources().join("rust/Cargo.toml");
        let status = Command::new("cargo")
            .args(["build", "--quiet", "--locked", "--offline", "--manifest-path"])
            .args([manifest.as_os_str(), "--target-dir".as_ref(), target.as_os_str()])
            .status()
            .expect("cargo is installed");
        assert!(status.success(), "the agent of the Rust client does not build");
        target.join("debug/agent")
    })
}

/// The program of the Go clients, built from the modules that `scripts/install-peers` fetched.
fn go_agent() -> &'static PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let program = installed().join("go/agent");
        let status = Command::new("go")
            .args(["build", "-mod=readonly", "-o"])
            .args([program.as_os_str(), ".".as_ref()])
            .current_dir(sources().join("go"))
            .envs([("GOPATH", installed().join("go/path")), ("GOPROXY", "off".into()), ("GOTOOLCHAIN", "local".into())])
            .status()
            .expect("Go is installed");
        assert!(status.success(), "the agents of the Go clients do not build");
        program
    })
}
