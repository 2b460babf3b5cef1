//! What may differ between two brokers that answer alike, and where two answers differ.

use std::collections::BTreeMap;

use serde_json::Value;

/// Arrays whose order means nothing, by API: Apache Kafka builds them from hash maps.
const UNORDERED: [(&str, &str); 16] = [
    ("ApiVersions", "SupportedFeatures"),
    ("DescribeProducers", "ActiveProducers"),
    ("Produce", "Responses"),
    ("ListOffsets", "Topics"),
    ("ListOffsets", "Partitions"),
    ("Produce", "PartitionResponses"),
    ("ListConfigResources", "ConfigResources"),
    ("DescribeLogDirs", "Topics"),
    ("DescribeLogDirs", "Partitions"),
    ("ApiVersions", "FinalizedFeatures"),
    ("DeleteTopics", "Responses"),
    ("Metadata", "Topics"),
    ("ConsumerGroupDescribe", "Groups"),
    ("DeleteGroups", "Results"),
    ("OffsetDelete", "Partitions"),
    ("ListGroups", "Groups"),
];

/// What is particular to one broker.
#[derive(Debug, Default)]
pub struct Own {
    /// Texts that stand for something, the longest first: data directory, addresses.
    pub texts: Vec<(String, String)>,
    /// Ports and what to call them.
    pub ports: Vec<(u16, &'static str)>,
    /// Ids of topics.
    pub topic_ids: BTreeMap<String, String>,
    /// Kept values: member ids, sessions.
    pub kept: BTreeMap<String, String>,
}

/// Replaces ids, times, ports and places by what they stand for.
pub fn normalize(api: &str, value: &mut Value, own: &Own) {
    visit(api, "", value, own);
}

fn visit(api: &str, name: &str, value: &mut Value, own: &Own) {
    match value {
        Value::Object(map) => map.iter_mut().for_each(|(name, value)| visit(api, name, value, own)),
        Value::Array(items) => {
            items.iter_mut().for_each(|item| visit(api, name, item, own));
            if UNORDERED.contains(&(api, name)) {
                items.sort_by_key(|item| item.to_string());
            }
        }
        Value::String(text) => *text = own.text(api, name, text),
        Value::Number(number) => {
            if let Some(word) = number.as_i64().and_then(|n| own.number(api, name, n)) {
                *value = Value::String(word);
            }
        }
        _ => {}
    }
}

impl Own {
    /// Learns the ids of topics from an answer that has them beside the names.
    pub fn learn(&mut self, answer: &Value) {
        match answer {
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            Value::Object(map) => {
                let text = |name: &str| map.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
                if let (Some(name), Some(id)) = (text("Name"), text("TopicId"))
                    && id != base::Uuid::ZERO.to_string()
                {
                    self.learn_topic(name, id);
                }
                map.values().for_each(|value| self.learn(value));
            }
            _ => {}
        }
    }

    /// Learns the id of a topic; what had the name before is another topic.
    pub fn learn_topic(&mut self, topic: &str, id: &str) {
        for (old, name) in &mut self.topic_ids {
            if name == topic && old != id {
                name.push_str(" before");
            }
        }
        self.topic_ids.insert(id.to_owned(), topic.to_owned());
    }

    fn text(&self, api: &str, name: &str, text: &str) -> String {
        if let Some(topic) = self.topic_ids.get(text) {
            return format!("<id of {topic}>");
        }
        if name == "ReplicaDirectoryId" && text != base::Uuid::ZERO.to_string() {
            return "<directory>".into();
        }
        if name == "TopicId" && api == "CreateTopics" && text != base::Uuid::ZERO.to_string() {
            return "<new id>".into();
        }
        let mut text = text.to_owned();
        // The range of timestamps moves with the clock.
        if let Some(at) = text.find(" should be within [") {
            text.truncate(at);
        }
        for (what, word) in &self.texts {
            text = text.replace(what, word);
        }
        for (word, what) in self.kept.iter().filter(|(_, what)| what.len() > 8) {
            text = text.replace(what, &format!("<{word}>"));
        }
        for (port, word) in &self.ports {
            text = text.replace(&format!(":{port}"), &format!(":{word}"));
        }
        text
    }

    fn number(&self, api: &str, name: &str, n: i64) -> Option<String> {
        match (api, name) {
            (_, "Port") => {
                let port = self.ports.iter().find(|(port, _)| i64::from(*port) == n);
                port.map(|(_, word)| (*word).to_owned())
            }
            ("Fetch", "SessionId") if n != 0 => Some("<session>".into()),
            ("Produce", "LogAppendTimeMs") if n != -1 => Some("<time>".into()),
            ("InitProducerId", "ProducerId") if n != -1 => Some("<producer>".into()),
            ("ApiVersions", "FinalizedFeaturesEpoch") if n >= 0 => Some("<epoch>".into()),
            ("DescribeLogDirs", "TotalBytes" | "UsableBytes") if n >= 0 => Some("<bytes>".into()),
            ("DescribeQuorum", "HighWatermark" | "LogEndOffset") if n > 0 => Some("<offset>".into()),
            ("DescribeQuorum", "LastFetchTimestamp" | "LastCaughtUpTimestamp") if n > 0 => Some("<time>".into()),
            ("DescribeQuorum", "LeaderEpoch") if n > 0 => Some("<epoch>".into()),
            _ => None,
        }
    }
}

/// What stands for a value that one answer has and the other has not.
pub const ABSENT: &str = "(absent)";

/// A place where two answers differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Names and positions, joined by dots; empty for the whole answer.
    pub path: String,
    /// What Apache Kafka says.
    pub kafka: String,
    /// What Odradek says.
    pub odradek: String,
}

/// Every place where `kafka` and `odradek` differ.
pub fn differences(kafka: &Value, odradek: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(String::new(), Some(kafka), Some(odradek), &mut found);
    found
}

fn walk(path: String, kafka: Option<&Value>, odradek: Option<&Value>, found: &mut Vec<Difference>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (kafka, odradek) {
        // Beside an error the rest means little.
        (Some(Value::Object(k)), Some(Value::Object(o))) if k.get("ErrorCode") != o.get("ErrorCode") => {
            walk(below("ErrorCode"), k.get("ErrorCode"), o.get("ErrorCode"), found);
            walk(below("ErrorMessage"), k.get("ErrorMessage"), o.get("ErrorMessage"), found);
        }
        (Some(Value::Object(k)), Some(Value::Object(o))) => {
            let names: std::collections::BTreeSet<&String> = k.keys().chain(o.keys()).collect();
            names.into_iter().for_each(|name| walk(below(name), k.get(name), o.get(name), found));
        }
        (Some(Value::Array(k)), Some(Value::Array(o))) if is_keyed(k) && is_keyed(o) => {
            let by_key = |items: &[Value]| -> BTreeMap<String, Value> {
                items.iter().map(|item| (key_of(item).unwrap_or_default(), item.clone())).collect()
            };
            let (keyed_k, keyed_o) = (by_key(k), by_key(o));
            let names: std::collections::BTreeSet<&String> = keyed_k.keys().chain(keyed_o.keys()).collect();
            names.into_iter().for_each(|name| walk(below(name), keyed_k.get(name), keyed_o.get(name), found));
            let order = |items: &[Value]| items.iter().filter_map(key_of).collect::<Vec<_>>().join(" ");
            if keyed_k.len() == keyed_o.len() && order(k) != order(o) && keyed_k.keys().eq(keyed_o.keys()) {
                found.push(Difference { path: below("order"), kafka: order(k), odradek: order(o) });
            }
        }
        (Some(Value::Array(k)), Some(Value::Array(o))) => {
            (0..k.len().max(o.len())).for_each(|i| walk(below(&i.to_string()), k.get(i), o.get(i), found));
        }
        (k, o) if k == o => {}
        (k, o) => {
            let show = |value: Option<&Value>| value.map_or_else(|| ABSENT.to_owned(), Value::to_string);
            found.push(Difference { path, kafka: show(k), odradek: show(o) });
        }
    }
}

/// Items of these arrays are told apart by name: configs, APIs, topics with distinct names.
fn is_keyed(items: &[Value]) -> bool {
    let keys: Option<std::collections::BTreeSet<String>> = items.iter().map(key_of).collect();
    !items.is_empty() && keys.is_some_and(|keys| keys.len() == items.len())
}

fn key_of(item: &Value) -> Option<String> {
    let object = item.as_object()?;
    let key = ["Name", "ApiKey", "LogDir"].iter().find_map(|name| object.get(*name))?;
    Some(match key {
        Value::String(text) => text.replace('.', "/"),
        other => other.to_string(),
    })
}

/// True when `pattern` means `path`: `*` is the rest of a name, `**` any number of names.
pub fn fits(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('.').collect();
    let path: Vec<&str> = path.split('.').collect();
    fits_parts(&pattern, &path)
}

fn fits_one(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

fn fits_parts(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern, path) {
        ([], []) => true,
        (["**", rest @ ..], _) => {
            fits_parts(rest, path) || path.split_first().is_some_and(|(_, tail)| fits_parts(pattern, tail))
        }
        ([first, rest @ ..], [name, tail @ ..]) => fits_one(first, name) && fits_parts(rest, tail),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn places_of_differences() {
        let found = differences(
            &json!({"A":[{"Name":"x","V":1},{"Name":"y","V":2}],"B":[1,2]}),
            &json!({"A":[{"Name":"y","V":3},{"Name":"x","V":1}],"B":[1]}),
        );
        let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["A.y.V", "A.order", "B.1"]);
    }

    #[test]
    fn patterns() {
        for (pattern, path, expected) in
            [("A.*.C", "A.b.C", true), ("**", "", true), ("**.C", "A.B.C", true), ("A.*", "A", false), ("A", "A", true)]
        {
            assert_eq!(fits(pattern, path), expected, "{pattern} {path}");
        }
    }
}
