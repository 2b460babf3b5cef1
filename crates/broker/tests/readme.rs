//! The README's table of what is served is made from the API table. `ODRADEK_UPDATE=1` writes it.

use std::fmt::Write;
use std::path::Path;

use broker::api_table::{Handler, ROWS};
use wire::ApiKey;

const BEGIN: &str = "<!-- api-table: generated from crates/broker/src/api_table.rs; do not edit -->\n";
const END: &str = "<!-- /api-table -->";

fn table() -> String {
    let mut text = String::from("| key | API | versions | Kafka 4.4 | served by | note |\n|---|---|---|---|---|---|\n");
    for row in ROWS {
        let (advertised, kafka) = (row.advertised(), row.api.info().advertised());
        let by = match row.handler {
            Handler::Forward => "controller",
            Handler::Produce | Handler::Group(_) | Handler::Sync(_) | Handler::Async(_) => "data core",
        };
        let (key, name) = (row.api.code(), row.api.info().name);
        let (from, to, kafka_to) = (advertised.start(), advertised.end(), kafka.end());
        writeln!(text, "| {key} | {name} | {from}-{to} | {}-{kafka_to} | {by} | {} |", kafka.start(), row.note)
            .expect("a String");
    }
    let missing: Vec<&str> = ApiKey::ALL
        .iter()
        .filter(|api| api.info().on_broker && ROWS.iter().all(|row| row.api != **api))
        .map(|api| api.info().name)
        .collect();
    let names: Vec<&str> = ROWS.iter().filter(|row| row.on_controller()).map(|row| row.api.info().name).collect();
    writeln!(text, "\nOn controllers' listeners (`--bootstrap-controller`, KIP-919): {}.", names.join(", "))
        .expect("a String");
    writeln!(text, "\nNot served and not advertised yet ({}): {}.", missing.len(), missing.join(", "))
        .expect("a String");
    text
}

#[test]
fn the_table_of_the_readme_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(&path).expect("README.md");
    let (before, rest) = readme.split_once(BEGIN).expect("the table's begin mark");
    let (now, after) = rest.split_once(END).expect("the table's end mark");
    if std::env::var_os("ODRADEK_UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", table())).expect("README.md can be written");
    } else {
        assert_eq!(now, table(), "run `ODRADEK_UPDATE=1 cargo test -p odradek-broker --test readme`");
    }
}
