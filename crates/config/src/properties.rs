//! Java properties files: the syntax of server.properties and meta.properties.

use std::collections::BTreeMap;

/// Key-value pairs of a properties file. A later pair of the same key wins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Properties {
    pairs: BTreeMap<String, String>,
}

/// A properties text that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PropertiesError {
    /// A `\u` without four hexadecimal digits.
    #[error("line {line}: malformed \\uxxxx encoding")]
    MalformedUnicode {
        /// Line number from 1 where the logical line begins.
        line: usize,
    },
    /// An override that is not `key=value`.
    #[error("{text:?} is not of the form key=value")]
    NotAPair {
        /// The text.
        text: String,
    },
}

impl Properties {
    /// No pairs.
    pub fn new() -> Properties {
        Properties::default()
    }

    /// Reads a properties file. Bytes that are not UTF-8 are taken as ISO 8859-1, which is what Java takes them for.
    pub fn parse(bytes: &[u8]) -> Result<Properties, PropertiesError> {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().map(|&b| char::from(b)).collect(),
        };
        let mut properties = Properties::new();
        for (line, logical) in logical_lines(&text) {
            let (key, value) = split_pair(&logical);
            let key = unescape(key, line)?;
            let value = unescape(value, line)?;
            properties.set(key, value);
        }
        Ok(properties)
    }

    /// Sets from `key=value`, the form of `--override`. The value is taken literally.
    pub fn set_override(&mut self, text: &str) -> Result<(), PropertiesError> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                self.set(key.trim(), value);
                Ok(())
            }
            _ => Err(PropertiesError::NotAPair { text: text.to_owned() }),
        }
    }

    /// Sets one pair.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.pairs.insert(key.into(), value.into());
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) -> Option<String> {
        self.pairs.remove(key)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.get(key).map(String::as_str)
    }

    /// All pairs, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// As the text of a properties file: one escaped pair a line, sorted by key.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (key, value) in &self.pairs {
            escape(key, true, &mut text);
            text.push('=');
            escape(value, false, &mut text);
            text.push('\n');
        }
        text
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Properties {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(pairs: T) -> Properties {
        Properties { pairs: pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect() }
    }
}

const BLANK: [char; 3] = [' ', '\t', '\x0c'];

/// Joins continued lines and drops comments and blank lines; escapes stay. Each with the number of its first line.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut pending: Option<(usize, String)> = None;
    for (index, natural) in split_natural(text).enumerate() {
        let content = natural.trim_start_matches(BLANK);
        if pending.is_none() && (content.is_empty() || content.starts_with(['#', '!'])) {
            continue;
        }
        let (number, mut line) = pending.take().unwrap_or((index + 1, String::new()));
        let backslashes = content.bytes().rev().take_while(|&b| b == b'\\').count();
        if backslashes % 2 == 1 {
            line.push_str(&content[..content.len() - 1]);
            pending = Some((number, line));
        } else {
            line.push_str(content);
            lines.push((number, line));
        }
    }
    lines.extend(pending.filter(|(_, line)| !line.is_empty()));
    lines
}

/// Lines ended by a line feed, a carriage return or both.
fn split_natural(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
}

/// Splits at the first unescaped `=`, `:` or blank; blanks around one `=` or `:` belong to neither side.
fn split_pair(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.char_indices().find(|&(_, c)| {
        let ends = !escaped && (c == '=' || c == ':' || BLANK.contains(&c));
        escaped = !escaped && c == '\\';
        ends
    });
    let Some((end, _)) = end else { return (line, "") };
    let rest = line[end..].trim_start_matches(BLANK);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (&line[..end], value.trim_start_matches(BLANK))
}

fn unescape(text: &str, line: usize) -> Result<String, PropertiesError> {
    if !text.contains('\\') {
        return Ok(text.to_owned());
    }
    // Characters beyond the basic plane are two escapes, so units are collected as UTF-16 first.
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let plain = if c != '\\' {
            c
        } else {
            match chars.next() {
                None => break,
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\x0c',
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    let plain = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_hexdigit());
                    let unit = u16::from_str_radix(&digits, 16).ok().filter(|_| plain);
                    units.push(unit.ok_or(PropertiesError::MalformedUnicode { line })?);
                    continue;
                }
                Some(other) => other,
            }
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    Ok(String::from_utf16_lossy(&units))
}

fn escape(text: &str, is_key: bool, out: &mut String) {
    for (index, c) in text.chars().enumerate() {
        match c {
            ' ' if is_key || index == 0 => out.push_str("\\ "),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\x0c' => out.push_str("\\f"),
            '\\' | '=' | ':' | '#' | '!' => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04X}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: &[(&str, &str)]) {
        let got = Properties::parse(text.as_bytes()).unwrap();
        let got: Vec<_> = got.iter().collect();
        assert_eq!(got, want, "{text:?}");
    }

    #[test]
    fn java_syntax() {
        check("", &[]);
        check("# note\n! note\n\n  # note\n", &[]);
        check("a=1\nb:2\nc 3\nd\t=\t4\r\ne\n", &[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "")]);
        check("a = b = c", &[("a", "b = c")]);
        check("a\\=b=c", &[("a=b", "c")]);
        check("a\\ b c", &[("a b", "c")]);
        check("a=1,\\\n   2,\\\n   3", &[("a", "1,2,3")]);
        check("a=1\\\\\nb=2", &[("a", "1\\"), ("b", "2")]);
        check("a=x \nb=\\ y", &[("a", "x "), ("b", " y")]);
        check("a=\\u00e4\\t\\n\\q\\ud83d\\ude00", &[("a", "ä\t\nq😀")]);
        check("a=1\na=2", &[("a", "2")]);
        check("a=1\rb=2", &[("a", "1"), ("b", "2")]);
        check("a=1\\", &[("a", "1")]);
        check("a=1\\\n# no note", &[("a", "1# no note")]);
        check("=v", &[("", "v")]);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_latin1() {
        let properties = Properties::parse(b"a=\xe4").unwrap();
        assert_eq!(properties.get("a"), Some("ä"));
    }

    #[test]
    fn a_malformed_escape_names_its_line() {
        assert_eq!(Properties::parse(b"a=1\nb=\\u12"), Err(PropertiesError::MalformedUnicode { line: 2 }));
        assert_eq!(Properties::parse(b"b=\\u+123"), Err(PropertiesError::MalformedUnicode { line: 1 }));
    }

    #[test]
    fn overrides() {
        let mut properties = Properties::new();
        properties.set_override("a=b=c").unwrap();
        assert_eq!(properties.get("a"), Some("b=c"));
        assert!(properties.set_override("a").is_err());
        assert!(properties.set_override("=a").is_err());
    }

    proptest::proptest! {
        #[test]
        fn written_pairs_read_back(pairs in proptest::collection::btree_map(".{1,8}", ".{0,12}", 0..6)) {
            let properties: Properties = pairs.into_iter().collect();
            proptest::prop_assert_eq!(Properties::parse(properties.to_text().as_bytes()).unwrap(), properties);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
            let _ = Properties::parse(&bytes);
        }
    }
}
