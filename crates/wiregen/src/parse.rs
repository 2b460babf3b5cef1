use std::fmt;

use crate::model::{Default, Field, Kind, Message, Scalar, Struct, Type, Versions};

/// A schema file that does not follow the notation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchemaError {
    /// File and, where known, line.
    pub place: String,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

impl std::error::Error for SchemaError {}

/// A line with its depth (two spaces each) and number, cut into words.
struct Line<'t> {
    number: usize,
    depth: usize,
    words: Words<'t>,
}

/// The words of a line, taken from the front; a quoted string is one word.
struct Words<'t> {
    rest: &'t str,
}

impl<'t> Words<'t> {
    fn next(&mut self) -> Option<&'t str> {
        let text = self.rest.trim_start();
        if text.is_empty() {
            return None;
        }
        let end = match text.strip_prefix('"') {
            Some(inner) => inner.find('"').map_or(text.len(), |at| at + 2),
            None => text.find(' ').unwrap_or(text.len()),
        };
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        Some(word)
    }

    fn expect(&mut self, what: &str) -> Result<&'t str, String> {
        self.next().ok_or_else(|| format!("{what} is missing"))
    }
}

/// All messages of one schema file. `file` is what errors call it.
pub fn parse_messages(file: &str, text: &str) -> Result<Vec<Message>, SchemaError> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let depth = (line.len() - line.trim_start().len()) / 2;
        lines.push(Line { number: index + 1, depth, words: Words { rest: line.trim() } });
    }
    let mut at = 0;
    let mut messages = Vec::new();
    while at < lines.len() {
        let first = lines[at].number;
        let message = parse_message(&mut lines, &mut at).and_then(|message| check(&message).map(|()| message));
        messages.push(message.map_err(|problem| {
            let line = lines.get(at).map_or(first, |line| line.number);
            SchemaError { place: format!("{file}:{line}"), problem }
        })?);
    }
    Ok(messages)
}

fn parse_message(lines: &mut [Line<'_>], at: &mut usize) -> Result<Message, String> {
    let mut message = parse_head(&mut lines[*at])?;
    *at += 1;
    let mut root = Struct { name: message.name.clone(), versions: message.versions, fields: Vec::new() };
    let mut below = Vec::new();
    parse_fields(lines, at, 1, &mut root, &mut below)?;
    // A struct without a version stood below a field of removed versions.
    below.retain(|one| !one.versions.is_empty());
    message.structs.push(root);
    message.structs.append(&mut below);
    Ok(message)
}

fn parse_head(line: &mut Line<'_>) -> Result<Message, String> {
    if line.depth != 0 {
        return Err("a message begins in the first column".into());
    }
    let words = &mut line.words;
    let kind = match words.expect("kind")? {
        "request" => Kind::Request,
        "response" => Kind::Response,
        "data" => Kind::Data,
        "record" => Kind::Record,
        "key" => Kind::Key,
        "value" => Kind::Value,
        other => return Err(format!("unknown kind {other}")),
    };
    let mut message = Message {
        kind,
        name: words.expect("name")?.to_string(),
        number: None,
        versions: Versions::NONE,
        flexible: Versions::NONE,
        unstable: false,
        listeners: Vec::new(),
        structs: Vec::new(),
    };
    while let Some(word) = words.next() {
        match word {
            "versions" => message.versions = parse_versions(words.expect("versions")?)?,
            "flexible" => message.flexible = parse_versions(words.expect("flexible versions")?)?,
            "unstable" => message.unstable = true,
            "listeners" => message.listeners = words.expect("listeners")?.split(',').map(str::to_string).collect(),
            number => message.number = Some(number.parse().map_err(|_| format!("unexpected word {number}"))?),
        }
    }
    if message.versions.is_empty() || message.versions.hi == i16::MAX {
        return Err(format!("{} needs a closed range of versions", message.name));
    }
    Ok(message)
}

/// Parses the lines of `depth` into `owner`, and the structs that they bring along into `below`.
fn parse_fields(
    lines: &mut [Line<'_>],
    at: &mut usize,
    depth: usize,
    owner: &mut Struct,
    below: &mut Vec<Struct>,
) -> Result<(), String> {
    while *at < lines.len() && lines[*at].depth == depth {
        let mut words = Words { rest: lines[*at].words.rest };
        let first = words.expect("name")?;
        *at += 1;
        if first == "struct" {
            let name = words.expect("name")?.to_string();
            let versions = parse_versions(words.expect("versions")?)?.and(owner.versions);
            let mut shared = Struct { name, versions, fields: Vec::new() };
            parse_fields(lines, at, depth + 1, &mut shared, below)?;
            below.push(shared);
            continue;
        }
        let field = parse_field(first, words)?;
        if lines.get(*at).is_some_and(|line| line.depth > depth) {
            let name = field.ty.struct_name().ok_or("only a struct has fields below it")?.to_string();
            let mut inner = Struct { name, versions: field.versions.and(owner.versions), fields: Vec::new() };
            let slot = below.len();
            parse_fields(lines, at, depth + 1, &mut inner, below)?;
            below.insert(slot, inner);
        }
        // A field that exists in no valid version is a leftover of removed versions.
        if !field.versions.and(owner.versions).is_empty() {
            owner.fields.push(field);
        }
    }
    Ok(())
}

fn parse_field(name: &str, mut words: Words<'_>) -> Result<Field, String> {
    let mut field = Field {
        name: name.to_string(),
        ty: parse_type(words.expect("type")?),
        versions: parse_versions(words.expect("versions")?)?,
        nullable: Versions::NONE,
        tag: None,
        default: Default::Zero,
        ignorable: false,
        map_key: false,
        entity: None,
        flexible: None,
    };
    while let Some(word) = words.next() {
        match word {
            "null" => field.nullable = parse_versions(words.expect("versions")?)?,
            "tag" => {
                field.tag = Some(words.expect("tag")?.parse().map_err(|_| "a tag is a number".to_string())?);
                if parse_versions(words.expect("versions")?)? != field.versions {
                    return Err(format!(
                        "{name}: a field that is tagged in some of its versions only is not supported"
                    ));
                }
            }
            "=" => field.default = parse_default(words.expect("default")?),
            "ignorable" => field.ignorable = true,
            "key" => field.map_key = true,
            "entity" => field.entity = Some(words.expect("entity")?.to_string()),
            "flexible" => field.flexible = Some(parse_versions(words.expect("versions")?)?),
            other => return Err(format!("{name}: unexpected word {other}")),
        }
    }
    Ok(field)
}

fn parse_default(word: &str) -> Default {
    match word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(text) => Default::Text(text.to_string()),
        None if word == "null" => Default::Null,
        None => Default::Literal(word.to_string()),
    }
}

fn parse_type(word: &str) -> Type {
    if let Some(element) = word.strip_prefix("[]") {
        return Type::Array(Box::new(parse_type(element)));
    }
    match Scalar::ALL.iter().find(|(name, _)| *name == word) {
        Some((_, scalar)) => Type::Scalar(*scalar),
        None => Type::Struct(word.to_string()),
    }
}

fn parse_versions(word: &str) -> Result<Versions, String> {
    let number = |text: &str| text.parse::<i16>().map_err(|_| format!("{word} is not a range of versions"));
    if word == "none" {
        return Ok(Versions::NONE);
    }
    if let Some(lo) = word.strip_suffix('+') {
        return Ok(Versions { lo: number(lo)?, hi: i16::MAX });
    }
    match word.split_once('-') {
        Some((lo, hi)) => Ok(Versions { lo: number(lo)?, hi: number(hi)? }),
        None => Ok(Versions { lo: number(word)?, hi: number(word)? }),
    }
}

/// What the notation cannot say by itself: every struct exists once, none contains itself, tags are dense enough to be
/// told apart, and nothing refers to records where their bytes could not be kept apart.
fn check(message: &Message) -> Result<(), String> {
    for (i, one) in message.structs.iter().enumerate() {
        if message.structs[..i].iter().any(|other| other.name == one.name) {
            return Err(format!("{}: struct {} is there twice", message.name, one.name));
        }
        let mut tags = Vec::new();
        for field in &one.fields {
            let place = format!("{}.{}", one.name, field.name);
            if let Some(name) = field.ty.struct_name() {
                let known = message.structs.iter().any(|s| s.name == name);
                if !known {
                    return Err(format!("{place}: there is no struct or type {name}"));
                }
            }
            if field.default == Default::Null && field.nullable.is_empty() {
                return Err(format!("{place}: null is its default but not allowed"));
            }
            if let Some(tag) = field.tag {
                if tags.contains(&tag) {
                    return Err(format!("{place}: tag {tag} is used twice"));
                }
                if field.ty == Type::Scalar(Scalar::Records) {
                    return Err(format!("{place}: records cannot be tagged"));
                }
                tags.push(tag);
            }
        }
    }
    check_depth(message, message.root(), 0)
}

/// Structs nest at most this deep; a struct that contains itself would nest without end.
const STRUCT_DEPTH_MAX: usize = 10;

fn check_depth(message: &Message, one: &Struct, depth: usize) -> Result<(), String> {
    if depth > STRUCT_DEPTH_MAX {
        return Err(format!("{}: structs nest deeper than {STRUCT_DEPTH_MAX}", message.name));
    }
    for name in one.fields.iter().filter_map(|field| field.ty.struct_name()) {
        check_depth(message, message.find(name), depth + 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_everything_is_read() {
        let text = "request ARequest 7 versions 1-3 flexible 2+ unstable listeners broker,controller\n\
                    \x20 Name string 0+ null 2+ = \"x y\" ignorable entity topicName\n\
                    \x20 Gone int8 0\n\
                    \x20 Rows []Row 1+\n\
                    \x20   Id int32 1+ key\n\
                    \x20   More Other 3+ tag 0 3+\n\
                    \x20 struct Other 3+\n\
                    \x20   Size int64 3+ = -1\n";
        let messages = parse_messages("a", text).expect("it follows the notation");
        let [message] = messages.as_slice() else { panic!("one message, not {}", messages.len()) };
        assert_eq!((message.number, message.unstable, message.listeners.len()), (Some(7), true, 2));
        let names: Vec<&str> = message.structs.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["ARequest", "Row", "Other"]);
        let fields: Vec<&str> = message.root().fields.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(fields, ["Name", "Rows"]);
        assert_eq!(message.root().fields[0].default, Default::Text("x y".into()));
        assert_eq!(message.find("Row").fields[1].tag, Some(0));
        assert_eq!(message.wire_min(&Type::Struct("Row".into()), false, 1), 4);
        assert_eq!(message.wire_min(&Type::Struct("Row".into()), false, 3), 5);
    }

    #[test]
    fn mistakes_are_refused() {
        let check = |text: &str, expect: &str| {
            let error = parse_messages("f", text).expect_err(text).to_string();
            assert!(error.contains(expect), "{error} does not say {expect}");
        };
        check("wish A versions 0", "unknown kind wish");
        check("data A versions 0+ flexible none", "closed range");
        check("data A versions 0 flexible none\n  B c 0+", "no struct or type c");
        check("data A versions 0 flexible none\n  B int8 0+ tag 0 1+", "some of its versions only");
        check("data A versions 0 flexible none\n  B A 0+", "deeper");
        check("data A versions 0 flexible none\n  B int8 0+ = null", "not allowed");
        check("data A versions 0 flexible none\n  B int8 0+ soon", "unexpected word soon");
    }
}
