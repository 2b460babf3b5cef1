//! What a topic may be called.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Longest topic name, in characters: with the partition's number it has to fit a file name.
const NAME_CHARS_MAX: usize = 249;

/// The topic of the metadata log, which nobody creates or deletes.
pub(crate) const CLUSTER_METADATA_TOPIC: &str = "__cluster_metadata";

/// Says why a topic cannot have this name; `None` when it can.
pub fn reason_invalid(name: &str) -> Option<String> {
    let text = match name {
        "" => "the empty string is not allowed".to_owned(),
        "." => "'.' is not allowed".to_owned(),
        ".." => "'..' is not allowed".to_owned(),
        _ if name.encode_utf16().count() > NAME_CHARS_MAX => {
            format!("the length of '{name}' is longer than the max allowed length {NAME_CHARS_MAX}")
        }
        _ if !name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-')) => {
            format!("'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
        }
        _ => return None,
    };
    Some(format!("Topic name is invalid: {text}"))
}

/// Names that metrics cannot tell apart, because '.' becomes '_' there: by their common form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collisions {
    by_form: BTreeMap<String, BTreeSet<Arc<str>>>,
}

impl Collisions {
    /// A topic with which `name` collides.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<str>> {
        self.by_form.get(&*common_form(name)?)?.first()
    }

    pub(crate) fn insert(&mut self, name: &str) {
        if let Some(form) = common_form(name) {
            self.by_form.entry(form.into_owned()).or_default().insert(Arc::from(name));
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        let Some(form) = common_form(name) else { return };
        let Some(names) = self.by_form.get_mut(&*form) else { return };
        names.remove(name);
        if names.is_empty() {
            self.by_form.remove(&*form);
        }
    }
}

/// The form in which colliding names are equal; `None` for names that cannot collide.
fn common_form(name: &str) -> Option<Cow<'_, str>> {
    if name.contains('.') {
        return Some(Cow::Owned(name.replace('.', "_")));
    }
    name.contains('_').then_some(Cow::Borrowed(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_kafka_does() {
        let long = "a".repeat(250);
        for (name, reason) in [
            ("ok-1.2_3", None),
            ("", Some("the empty string is not allowed")),
            (".", Some("'.' is not allowed")),
            ("..", Some("'..' is not allowed")),
            ("...", None),
            ("a b", Some("contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")),
            ("\u{e4}", Some("contains one or more characters")),
            (&long, Some("is longer than the max allowed length 249")),
            (&long[1..], None),
        ] {
            let found = reason_invalid(name);
            match reason {
                None => assert_eq!(found, None, "{name}"),
                Some(part) => assert!(found.clone().is_some_and(|text| text.contains(part)), "{name}: {found:?}"),
            }
        }
    }

    #[test]
    fn dots_and_underscores_collide() {
        let mut collisions = Collisions::default();
        collisions.insert("a.b");
        collisions.insert("plain");
        assert_eq!(collisions.find("a_b").map(|name| &**name), Some("a.b"));
        assert_eq!(collisions.find("plain"), None);
        assert_eq!(collisions.find("a.c"), None);
        collisions.remove("a.b");
        assert_eq!(collisions.find("a_b"), None);
    }
}
