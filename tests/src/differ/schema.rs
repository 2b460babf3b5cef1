//! The schemas of all requests and answers, read from their files.

use std::collections::HashMap;
use std::sync::OnceLock;

use wire::ApiKey;
use wiregen::{Kind, Message, parse_messages};

use crate::peers;

/// One API: its number and the schemas of both directions.
#[derive(Debug)]
pub struct Api {
    /// The number.
    pub key: ApiKey,
    /// What is asked.
    pub request: Message,
    /// What is answered.
    pub response: Message,
}

/// The API called `name` (`Fetch`, `CreateTopics`, ...).
///
/// # Panics
/// If there is none.
pub fn api(name: &str) -> &'static Api {
    all().get(name).unwrap_or_else(|| panic!("there is no API called {name}"))
}

/// Every API by name.
pub fn all() -> &'static HashMap<String, Api> {
    static ALL: OnceLock<HashMap<String, Api>> = OnceLock::new();
    ALL.get_or_init(read)
}

fn read() -> HashMap<String, Api> {
    let folder = peers::root().join("crates/wire/schemas/api");
    let mut apis = HashMap::new();
    for entry in std::fs::read_dir(folder).expect("the schemas are committed") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("readable");
        let messages = parse_messages(&path.to_string_lossy(), &text).expect("the build has parsed it");
        let of = |kind| messages.iter().find(|message| message.kind == kind).cloned();
        let (Some(request), Some(response)) = (of(Kind::Request), of(Kind::Response)) else { continue };
        let Some(key) = request.number.and_then(ApiKey::from_i16) else { continue };
        let name = request.name.trim_end_matches("Request").to_owned();
        apis.insert(name, Api { key, request, response });
    }
    apis
}
