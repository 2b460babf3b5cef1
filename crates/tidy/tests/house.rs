//! The rules of the house. Each failure names the file, the line and the rule.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;
use tidy::{Source, functions, root, sources};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

fn report(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

#[test]
fn files_and_functions_stay_small() {
    let mut broken = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if lines > FILE_LINES_MAX {
            broken.push(format!("{}: {lines} lines", source.path));
        }
        for function in functions::functions(&source.text) {
            if function.lines > FUNCTION_LINES_MAX {
                broken.push(format!(
                    "{}:{}: fn {} has {} lines",
                    source.path, function.line, function.name, function.lines
                ));
            }
        }
    }
    report(&format!("files up to {FILE_LINES_MAX} lines, functions up to {FUNCTION_LINES_MAX}"), &broken);
}

fn lines_with(rule: &str, applies: impl Fn(&Source) -> bool, needles: &[&str]) {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|s| !s.is_test() && applies(s)) {
        for (number, line) in source.product_lines() {
            let code = line.split("//").next().unwrap_or("");
            if needles.iter().any(|needle| code.contains(needle)) {
                broken.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    report(rule, &broken);
}

#[test]
fn clocks_and_chance_live_in_the_reactor_alone() {
    let needles = ["Instant::now", "SystemTime::now", "thread_rng", "rand::rng(", "getrandom", "/dev/urandom"];
    lines_with("time and chance are arguments outside the reactor", |s| s.crate_name() != "reactor", &needles);
}

#[test]
fn unsafe_code_lives_in_the_reactor_alone() {
    let needles = ["unsafe {", "unsafe fn", "unsafe impl", "allow(unsafe_code)"];
    lines_with("unsafe belongs to the reactor", |s| s.crate_name() != "reactor", &needles);
}

#[test]
fn request_paths_take_no_lock_and_never_block() {
    let needles = ["Mutex<", "RwLock<", "sync::Mutex", "sync::RwLock", "parking_lot", "thread::sleep", "std::fs::"];
    let crates = ["base", "wire", "records", "purgatory", "metadata", "raft", "replica", "controller", "log", "net"];
    let also = ["partition", "quorum", "broker", "metrics"];
    let applies = |s: &Source| crates.contains(&s.crate_name()) || also.contains(&s.crate_name());
    lines_with("no lock and no blocking call in the broker's crates", applies, &needles);
}

#[test]
fn no_stub_is_left() {
    let needles = ["todo!(", "unimplemented!(", "dbg!("];
    lines_with("a gap is listed in the handler's header, not stubbed", |_| true, &needles);
    let mut broken = Vec::new();
    for source in sources().iter().filter(|s| s.crate_name() != "tidy") {
        for (i, line) in source.text.lines().enumerate() {
            if ["TODO", "FIXME", "XXX"].iter().any(|mark| line.contains(mark)) {
                broken.push(format!("{}:{}: {}", source.path, i + 1, line.trim()));
            }
        }
    }
    report("no note to self in the source", &broken);
}

#[test]
fn every_library_says_what_it_is() {
    let libraries: Vec<_> = sources().into_iter().filter(|s| s.path.ends_with("src/lib.rs")).collect();
    let bare = libraries.iter().filter(|s| s.text.lines().take_while(|l| l.starts_with("//!")).count() < 3);
    report("a lib.rs header gives purpose, core and limits", &bare.map(|s| s.path.clone()).collect::<Vec<_>>());
}

/// What `cargo metadata` says of one package of the workspace.
struct Package {
    kind: String,
    may_use: BTreeSet<String>,
    uses: BTreeSet<String>,
}

fn packages() -> BTreeMap<String, Package> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let strings = |v: &Value| -> BTreeSet<String> {
        v.as_array().into_iter().flatten().filter_map(|s| s.as_str().map(str::to_owned)).collect()
    };
    let mut found = BTreeMap::new();
    for package in json["packages"].as_array().expect("a list") {
        let name = package["name"].as_str().expect("a name");
        let name = name.strip_prefix("odradek-").unwrap_or(name).to_owned();
        let layer = &package["metadata"]["layer"];
        let uses = package["dependencies"].as_array().expect("a list").iter().filter(|d| d["kind"] != "dev");
        let uses = uses.filter(|d| d["path"].is_string()).map(|d| {
            let name = d["name"].as_str().expect("a name");
            name.strip_prefix("odradek-").unwrap_or(name).to_owned()
        });
        found.insert(
            name,
            Package {
                kind: layer["kind"].as_str().unwrap_or("").to_owned(),
                may_use: strings(&layer["may_use"]),
                uses: uses.collect(),
            },
        );
    }
    found
}

#[test]
fn crates_use_only_the_layers_below_them() {
    let packages = packages();
    let mut broken = Vec::new();
    for (name, package) in &packages {
        if !["pure", "io", "bin", "dev"].contains(&package.kind.as_str()) {
            broken.push(format!("{name}: package.metadata.layer.kind is missing"));
        }
        if package.may_use.contains("*") {
            continue;
        }
        for used in package.uses.difference(&package.may_use) {
            broken.push(format!("{name} uses {used}, which its layer does not allow"));
        }
        for idle in package.may_use.difference(&package.uses) {
            broken.push(format!("{name} may use {idle} but does not: take the edge away"));
        }
        for used in &package.uses {
            let kind = packages.get(used).map_or("", |p| p.kind.as_str());
            if package.kind == "pure" && kind != "pure" {
                broken.push(format!("{name} is pure and uses {used}, which is {kind}"));
            }
        }
    }
    report("the layers in each Cargo.toml", &broken);
    assert!(order(&packages).is_some(), "the crates form a cycle");
}

/// A topological order, or `None` where there is a cycle.
fn order(packages: &BTreeMap<String, Package>) -> Option<Vec<String>> {
    let mut done: Vec<String> = Vec::new();
    while done.len() < packages.len() {
        let ready: Vec<String> = packages
            .iter()
            .filter(|(name, p)| !done.contains(name) && p.uses.iter().all(|u| done.contains(u)))
            .map(|(name, _)| name.clone())
            .collect();
        if ready.is_empty() {
            return None;
        }
        done.extend(ready);
    }
    Some(done)
}
