//! Turns the option tables (`options/*.tsv`, one row per option) into static arrays, so that the running broker neither
//! parses nor allocates for them and a malformed row is a compile error.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Static array, doc line and the files it is made of.
const SCOPES: &[(&str, &str, &[&str])] = &[
    ("BROKER", "Broker options: Kafka's and this project's own.", &["broker.tsv", "odradek.tsv"]),
    ("TOPIC", "Topic options.", &["topic.tsv"]),
    ("GROUP", "Group options.", &["group.tsv"]),
    ("CLIENT_METRICS", "Options of client metrics subscriptions (KIP-714).", &["client-metrics.tsv"]),
];

const COLUMNS: usize = 10;

fn main() {
    println!("cargo::rerun-if-changed=options");
    println!("cargo::rerun-if-changed=build.rs");
    let mut code = String::new();
    for (name, doc, files) in SCOPES {
        let mut rows = BTreeMap::new();
        for file in *files {
            read_table(&Path::new("options").join(file), &mut rows);
        }
        writeln!(code, "/// {doc} Sorted by name.\npub static {name}: [OptionDef; {}] = [", rows.len())
            .expect("string");
        for row in rows.values() {
            code.push_str(row);
        }
        code.push_str("];\n");
    }
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("options.rs"), code).expect("write the generated table");
}

fn read_table(path: &Path, rows: &mut BTreeMap<String, String>) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{}:{}", path.display(), number + 1);
        let cells: Vec<&str> = line.split('\t').collect();
        assert!(cells.len() == COLUMNS, "{place}: {} columns, want {COLUMNS}", cells.len());
        let known = rows.insert(cells[0].to_owned(), row(&cells, &place));
        assert!(known.is_none(), "{place}: {} is defined twice", cells[0]);
    }
}

fn row(cells: &[&str], place: &str) -> String {
    let &[name, kind, default, valid, importance, update, synonyms, flags, state, doc] = cells else { unreachable!() };
    let variant = |options: &[(&str, &str)], got: &str, what: &str| {
        let found = options.iter().find(|(text, _)| *text == got);
        found.unwrap_or_else(|| panic!("{place}: unknown {what} {got:?}")).1.to_owned()
    };
    let kind = variant(KINDS, kind, "type");
    let importance = variant(IMPORTANCES, importance, "importance");
    let update = variant(UPDATES, update, "update mode");
    let default = match default {
        "required" => "Default::Required".to_owned(),
        "null" => "Default::Null".to_owned(),
        "\"\"" => "Default::Text(\"\")".to_owned(),
        text => format!("Default::Text({text:?})"),
    };
    let flags = list(flags);
    for flag in &flags {
        assert!(["internal", "dynamic-only", "listener-prefix"].contains(flag), "{place}: unknown flag {flag:?}");
    }
    let state = variant(&[("-", "false"), ("active", "true")], state, "state");
    format!(
        "    OptionDef {{ name: {name:?}, kind: {kind}, default: {default}, valid: {}, importance: {importance}, \
         update: {update}, synonyms: &[{}], internal: {}, dynamic_only: {}, listener_prefix: {}, active: {state}, doc: {:?} }},\n",
        valid_of(valid, place),
        synonyms_of(synonyms, place),
        flags.contains(&"internal"),
        flags.contains(&"dynamic-only"),
        flags.contains(&"listener-prefix"),
        if doc == "-" { "" } else { doc },
    )
}

const KINDS: &[(&str, &str)] = &[
    ("boolean", "Kind::Boolean"),
    ("string", "Kind::String"),
    ("int", "Kind::Int"),
    ("short", "Kind::Short"),
    ("long", "Kind::Long"),
    ("double", "Kind::Double"),
    ("list", "Kind::List"),
    ("class", "Kind::Class"),
    ("password", "Kind::Password"),
];

const IMPORTANCES: &[(&str, &str)] =
    &[("high", "Importance::High"), ("medium", "Importance::Medium"), ("low", "Importance::Low")];

const UPDATES: &[(&str, &str)] = &[
    ("read-only", "Update::ReadOnly"),
    ("per-broker", "Update::PerBroker"),
    ("cluster-wide", "Update::ClusterWide"),
    ("topic", "Update::Topic"),
    ("group", "Update::Group"),
    ("client-metrics", "Update::ClientMetrics"),
];

fn list(cell: &str) -> Vec<&str> {
    if cell == "-" || cell.is_empty() { Vec::new() } else { cell.split(',').collect() }
}

fn synonyms_of(cell: &str, place: &str) -> String {
    let mut code = String::new();
    for synonym in list(cell) {
        let (name, unit) = synonym.split_once(':').unwrap_or((synonym, ""));
        let unit = match unit {
            "" => "Unit::Same",
            "minutes" => "Unit::Minutes",
            "hours" => "Unit::Hours",
            other => panic!("{place}: unknown unit {other:?}"),
        };
        write!(code, "Synonym {{ name: {name:?}, unit: {unit} }}, ").expect("string");
    }
    code
}

fn valid_of(cell: &str, place: &str) -> String {
    let strings = |text: &str| format!("&{:?}", list(text));
    match cell {
        "-" => "Valid::Any".to_owned(),
        "non-empty" => "Valid::NonEmpty".to_owned(),
        "non-null" => "Valid::NonNull".to_owned(),
        "1..9|-1" => "Valid::GzipLevel".to_owned(),
        "throttled-replicas" => "Valid::ThrottledReplicas".to_owned(),
        "quorum-voters" => "Valid::QuorumVoters".to_owned(),
        "quorum-bootstrap-servers" => "Valid::QuorumBootstrapServers".to_owned(),
        "share-offset-reset" => "Valid::ShareOffsetReset".to_owned(),
        _ => {
            if let Some(rest) = cell.strip_prefix("in:") {
                return format!("Valid::OneOf({})", strings(rest));
            }
            if let Some(rest) = cell.strip_prefix("in-any-case:") {
                return format!("Valid::OneOfAnyCase({})", strings(rest));
            }
            if let Some((flags, rest)) = cell.strip_prefix("list").and_then(|rest| rest.split_once(':')) {
                let (empty, null) = (flags.contains("+empty"), flags.contains("+null"));
                return format!("Valid::List {{ empty: {empty}, null: {null}, of: {} }}", strings(rest));
            }
            let (min, max) = cell.split_once("..").unwrap_or_else(|| panic!("{place}: unknown validator {cell:?}"));
            format!("Valid::Range {{ min: {}, max: {} }}", bound(min, place), bound(max, place))
        }
    }
}

fn bound(text: &str, place: &str) -> String {
    if text.is_empty() {
        return "None".to_owned();
    }
    let value: f64 = text.parse().unwrap_or_else(|e| panic!("{place}: bound {text:?}: {e}"));
    format!("Some(Bound {{ value: {value:?}, text: {text:?} }})")
}
