//! Both brokers side by side, and the cases run on them.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::compare::{self, Difference};
use super::schema::{self, Api};
use super::script::{self, Action, Request, Script, Step, Why};
use super::side::{self, Head, Outcome, Side};
use super::{encode, text};
use crate::client::now_ms;
use crate::node::Peer;

/// APIs that only look: Apache Kafka may show a change a little later than it was answered, so they may be asked again.
const READ_ONLY: [&str; 15] = [
    "DescribeCluster",
    "DescribeConfigs",
    "DescribeGroups",
    "DescribeLogDirs",
    "DescribeProducers",
    "DescribeQuorum",
    "DescribeTopicPartitions",
    "FindCoordinator",
    "ListConfigResources",
    "ListGroups",
    "ListOffsets",
    "Metadata",
    "OffsetFetch",
    "OffsetForLeaderEpoch",
    "ConsumerGroupDescribe",
];

/// How often a question is asked again while the answers differ, and the pause before each time.
const AGAIN_MAX: usize = 6;
const AGAIN_PAUSE: Duration = Duration::from_millis(150);

/// What takes longer is named, since a few slow cases make the whole slow.
const SLOW: Duration = Duration::from_secs(1);

/// How many answers may differ in spite of that until nothing is asked again: the run is lost then, and should end soon.
const AGAIN_IN_VAIN_MAX: usize = 10;

/// Both brokers.
pub struct Bed {
    kafka: Side,
    odradek: Side,
    now_ms: i64,
    in_vain: usize,
    report: Report,
    /// The last answers, as they came.
    last: [Value; 2],
}

/// What came of the cases.
#[derive(Debug, Default)]
pub struct Report {
    /// Requests written down, loops counted out, versions not.
    pub cases: usize,
    /// Requests sent to both.
    pub exchanges: usize,
    /// Differences that nobody gave a reason for.
    pub differences: Vec<String>,
    /// Reasons and how many differences each explains.
    pub reasons: BTreeMap<String, usize>,
    /// Requests by API and version.
    pub covered: BTreeMap<(String, i16), usize>,
}

impl Bed {
    /// Starts both with the same properties.
    pub fn start(properties: &[(&str, &str)]) -> Bed {
        let (kafka, odradek) = thread::scope(|scope| {
            let kafka = scope.spawn(|| ready(Peer::Kafka, properties));
            let odradek = ready(Peer::Odradek, properties);
            (kafka.join().expect("Apache Kafka starts"), odradek)
        });
        Bed {
            kafka,
            odradek,
            now_ms: now_ms(),
            in_vain: 0,
            report: Report::default(),
            last: [Value::Null, Value::Null],
        }
    }

    /// What has come of the cases so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The decoded answers of both to a correct request.
    pub fn ask(&mut self, api: &str, version: i16, body: &Value) -> (Value, Value) {
        (self.kafka.ask(api, version, body), self.odradek.ask(api, version, body))
    }

    /// Runs a file of cases.
    pub fn run(&mut self, script: &Script) {
        let mut whys: Vec<Why> = Vec::new();
        let mut used: BTreeMap<usize, usize> = BTreeMap::new();
        for step in &script.steps {
            for why in &step.whys {
                used.entry(why.line).or_default();
            }
            let place = format!("{}:{} ({})", script.name, step.line, step.title);
            match &step.action {
                Action::WhyAll(why) => {
                    used.entry(why.line).or_default();
                    whys.push(why.clone());
                }
                Action::Sleep(ms) => thread::sleep(Duration::from_millis(*ms)),
                Action::Close(name) => self.sides().into_iter().for_each(|side| side.close(name)),
                Action::Settle(topic) => self.sides().into_iter().for_each(|side| side.settle(topic, 1)),
                Action::Let(name, path) => self.keep(name, path, &place),
                Action::Request(request) => {
                    for chosen in combinations(&step.loops) {
                        self.report.cases += 1;
                        for version in versions(request) {
                            self.case(step, request, version, &chosen, &place, &whys, &mut used);
                        }
                    }
                }
                Action::Raw { framed, hex } => {
                    for chosen in combinations(&step.loops) {
                        self.report.cases += 1;
                        self.raw(step, *framed, hex, &chosen, &place, &whys, &mut used);
                    }
                }
            }
        }
        let all = script.steps.iter().flat_map(|step| {
            let all_file = if let Action::WhyAll(why) = &step.action { Some(why) } else { None };
            step.whys.iter().chain(all_file)
        });
        for why in all {
            let times = used.get(&why.line).copied().unwrap_or(0);
            *self.report.reasons.entry(why.reason.clone()).or_default() += times;
            if times == 0 {
                let stale = format!("{}:{}: nothing differs at {} any more", script.name, why.line, why.path);
                self.report.differences.push(stale);
            }
        }
    }

    fn sides(&mut self) -> [&mut Side; 2] {
        [&mut self.kafka, &mut self.odradek]
    }

    fn keep(&mut self, name: &str, path: &str, place: &str) {
        let last = self.last.clone();
        for (side, answer) in self.sides().into_iter().zip(&last) {
            let value = path.split('.').fold(answer, |value, part| match part.parse::<usize>() {
                Ok(at) => &value[at],
                Err(_) => &value[part],
            });
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            side.own.kept.insert(name.to_owned(), text);
        }
        let missing = self.kafka.own.kept[name] == "null";
        assert!(!missing, "{place}: {path} is not in Apache Kafka's answer {}", last[0]);
    }

    #[allow(clippy::too_many_arguments)]
    fn case(
        &mut self,
        step: &Step,
        request: &Request,
        version: i16,
        chosen: &[(String, String)],
        place: &str,
        whys: &[Why],
        used: &mut BTreeMap<usize, usize>,
    ) {
        let api = schema::api(&request.api);
        *self.report.covered.entry((request.api.clone(), version)).or_default() += 1;
        let may_repeat = READ_ONLY.contains(&request.api.as_str()) && !request.has("once");
        let mut found = Vec::new();
        let started = std::time::Instant::now();
        for round in 0..=AGAIN_MAX {
            if round > 0 {
                thread::sleep(AGAIN_PAUSE);
            }
            self.report.exchanges += 1;
            let names = Names { version, chosen, now_ms: self.now_ms };
            let conn = request.option("conn").unwrap_or("main");
            for side in [&mut self.kafka, &mut self.odradek] {
                send(side, api, request, &names, conn);
            }
            let mut answers = [Value::Null, Value::Null];
            for (side, answer) in [&mut self.kafka, &mut self.odradek].into_iter().zip(&mut answers) {
                *answer = receive(side, api, request, version, conn);
                settle(side, request, answer);
                if request.api == "Metadata" || request.api == "DescribeTopicPartitions" {
                    side.own.learn(answer);
                }
            }
            // A broker that went silent has died or hangs: nothing behind it would mean anything.
            assert!(!answers.contains(&json!("silent")), "{place} v{version} {}: {answers:?}", shown(chosen));
            self.last = answers.clone();
            let [mut kafka, mut odradek] = answers;
            compare::normalize(&request.api, &mut kafka, &self.kafka.own);
            compare::normalize(&request.api, &mut odradek, &self.odradek.own);
            found = compare::differences(&kafka, &odradek);
            let unexplained = found.iter().any(|one| reason(one, &step.whys, whys).is_none());
            if !may_repeat || !unexplained || self.in_vain >= AGAIN_IN_VAIN_MAX {
                break;
            }
            self.in_vain += usize::from(round == AGAIN_MAX);
        }
        if started.elapsed() > SLOW {
            println!("{place} {} v{version} {} takes {:?}", request.api, shown(chosen), started.elapsed());
        }
        self.note(&format!("{place} {} v{version} {}", request.api, shown(chosen)), found, &step.whys, whys, used);
    }

    #[allow(clippy::too_many_arguments)]
    fn raw(
        &mut self,
        step: &Step,
        framed: bool,
        hex: &str,
        chosen: &[(String, String)],
        place: &str,
        whys: &[Why],
        used: &mut BTreeMap<usize, usize>,
    ) {
        self.report.exchanges += 1;
        let of = |name: &str| chosen.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        let mut bytes = text::unhex(&script::fill(hex, &of));
        if framed {
            bytes = [&(bytes.len() as u32).to_be_bytes(), &bytes[..]].concat();
        }
        let mut answers = [Value::Null, Value::Null];
        for (side, answer) in self.sides().into_iter().zip(&mut answers) {
            side.close("raw");
            let conn = side.conn("raw");
            conn.send_bytes(&bytes);
            *answer = match conn.frame() {
                Ok(frame) => json!(text::hex(&frame)),
                Err(other) => json!(if other == Outcome::Closed { "closed" } else { "silent" }),
            };
        }
        let found = compare::differences(&answers[0], &answers[1]);
        self.note(&format!("{place} {}", shown(chosen)), found, &step.whys, whys, used);
    }

    fn note(
        &mut self,
        what: &str,
        found: Vec<Difference>,
        near: &[Why],
        far: &[Why],
        used: &mut BTreeMap<usize, usize>,
    ) {
        for one in found {
            match reason(&one, near, far) {
                Some(why) => *used.entry(why.line).or_default() += 1,
                None => self.report.differences.push(format!(
                    "{what}\n    {}\n      kafka   {}\n      odradek {}",
                    one.path, one.kafka, one.odradek
                )),
            }
        }
    }
}

fn ready(peer: Peer, properties: &[(&str, &str)]) -> Side {
    let mut side = Side::start(peer, properties);
    side.settle_groups();
    side
}

fn reason<'w>(difference: &Difference, near: &'w [Why], far: &'w [Why]) -> Option<&'w Why> {
    let explains = |why: &&Why| {
        let is_said = why.kafka.as_ref().is_none_or(|kafka| *kafka == difference.kafka);
        compare::fits(&why.path, &difference.path) && is_said && (!why.absent || difference.odradek == compare::ABSENT)
    };
    near.iter().chain(far).find(explains)
}

fn shown(chosen: &[(String, String)]) -> String {
    chosen.iter().map(|(name, value)| format!("[{name}={value}]")).collect::<Vec<_>>().join(" ")
}

fn versions(request: &Request) -> Vec<i16> {
    let info = schema::api(&request.api).key.info();
    request.versions.clone().unwrap_or(info.min..=info.max_stable).collect()
}

fn combinations(loops: &[(String, Vec<String>)]) -> Vec<Vec<(String, String)>> {
    loops.iter().fold(vec![Vec::new()], |chosen, (name, values)| {
        let with = |value: &String| {
            chosen.iter().map(|before| [&before[..], &[(name.clone(), value.clone())]].concat()).collect::<Vec<_>>()
        };
        values.iter().flat_map(with).collect()
    })
}

/// What names in a case stand for.
struct Names<'c> {
    version: i16,
    chosen: &'c [(String, String)],
    now_ms: i64,
}

impl Names<'_> {
    fn of(&self, side: &Side, name: &str) -> Option<String> {
        if let Some((_, value)) = self.chosen.iter().find(|(n, _)| n == name) {
            return Some(value.clone());
        }
        match name {
            "v" => return Some(self.version.to_string()),
            "now" => return Some(self.now_ms.to_string()),
            _ => {}
        }
        if let Some(topic) = name.strip_prefix("id.") {
            return side.own.topic_ids.iter().find(|(_, name)| *name == topic).map(|(id, _)| id.clone());
        }
        side.own.kept.get(name).cloned()
    }
}

fn send(side: &mut Side, api: &Api, request: &Request, names: &Names<'_>, conn: &str) {
    // Twice, because the values of loops may have names in them.
    let body = script::fill(&request.body, &|name| names.of(side, name));
    let body = script::fill(&body, &|name| names.of(side, name));
    let mut bytes = encode::body(&api.request, names.version, &text::parse(&body)).bytes;
    bytes.extend(request.option("trailing").map(text::unhex).unwrap_or_default());
    let mut head = Head::of(api.key, names.version);
    let number = |name| request.option(name).map(|text| text.parse::<i16>().expect("a number"));
    head.version = number("ver").unwrap_or(head.version);
    head.key = number("key").unwrap_or(head.key);
    match request.option("client") {
        Some("null") => head.client = None,
        Some(client) => head.client = Some(client.into()),
        None => {}
    }
    head.tags = head.tags.map(|tags| request.option("tags").map_or(tags, text::unhex));
    side.conn(conn).send(&head, &bytes);
}

fn receive(side: &mut Side, api: &Api, request: &Request, version: i16, conn: &str) -> Value {
    let connection = side.conn(conn);
    let outcome = if request.has("nowait") { connection.outcome_without_answer() } else { connection.outcome() };
    let version = request.option("ver").map_or(version, |text| text.parse().expect("a number"));
    match &outcome {
        Outcome::Answer(bytes) => side::answer(api, version, bytes)
            .unwrap_or_else(|error| json!(format!("undecodable: {error}: {}", text::hex(bytes)))),
        Outcome::Nothing => json!("no answer"),
        Outcome::Closed | Outcome::Silent => {
            side.close(conn);
            json!(if outcome == Outcome::Closed { "closed" } else { "silent" })
        }
    }
}

/// Waits until what was answered can be seen.
fn settle(side: &mut Side, request: &Request, answer: &Value) {
    let results = |name: &str| answer[name].as_array().cloned().unwrap_or_default();
    let name = |result: &Value| result["Name"].as_str().unwrap_or_default().to_owned();
    let dry = request.body.contains("validateOnly:true") || request.body.contains("ValidateOnly:true");
    let good = |result: &&Value| result["ErrorCode"] == 0 && !dry;
    match request.api.as_str() {
        "CreateTopics" => {
            results("Topics").iter().filter(good).for_each(|result| side.settle(&name(result), 1));
        }
        "DeleteTopics" => {
            results("Responses").iter().filter(good).for_each(|result| side.settle_gone(&name(result)));
        }
        "CreatePartitions" => {
            let more = request.option("partitions").map_or(1, |n| n.parse().expect("a number"));
            results("Results").iter().filter(good).for_each(|result| side.settle(&name(result), more));
        }
        _ => {}
    }
}
