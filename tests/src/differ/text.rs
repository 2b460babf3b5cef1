//! JSON as people like to type it: names and plain words need no quotes, commas are space, and `"a"*249` repeats.

use serde_json::{Map, Value};

/// Reads one value.
///
/// # Panics
/// If the text is not a value; the text is part of a test.
pub fn parse(text: &str) -> Value {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value();
    reader.space();
    assert!(reader.at == text.len(), "something is left behind the value: {}", &text[reader.at..]);
    value
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|c| c.is_whitespace() || c == ',') {
            self.at += self.peek().map_or(0, char::len_utf8);
        }
    }

    fn value(&mut self) -> Value {
        self.space();
        match self.peek() {
            Some('{') => self.object(),
            Some('[') => self.array(),
            Some('"') => Value::String(self.quoted()),
            Some(_) => scalar(self.word()),
            None => panic!("a value is missing at the end of {}", self.text),
        }
    }

    fn object(&mut self) -> Value {
        let mut map = Map::new();
        assert!(self.take('{'));
        loop {
            self.space();
            if self.take('}') {
                return Value::Object(map);
            }
            let name = if self.peek() == Some('"') { self.quoted() } else { self.word().to_owned() };
            self.space();
            assert!(self.take(':'), "a colon is missing behind {name} in {}", self.text);
            let value = self.value();
            assert!(map.insert(name.clone(), value).is_none(), "{name} stands twice in {}", self.text);
        }
    }

    fn array(&mut self) -> Value {
        let mut items = Vec::new();
        assert!(self.take('['));
        loop {
            self.space();
            if self.take(']') {
                return Value::Array(items);
            }
            items.push(self.value());
        }
    }

    fn word(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| c.is_whitespace() || ",:{}[]\"".contains(c)).unwrap_or(rest.len());
        assert!(end > 0, "a word is missing before {rest}");
        self.at += end;
        &rest[..end]
    }

    fn quoted(&mut self) -> String {
        assert!(self.take('"'));
        let mut text = String::new();
        loop {
            let c = self.peek().unwrap_or_else(|| panic!("a quote is not closed in {}", self.text));
            self.at += c.len_utf8();
            match c {
                '"' => break,
                '\\' => text.push(self.escaped()),
                other => text.push(other),
            }
        }
        if !self.take('*') {
            return text;
        }
        text.repeat(self.word().parse().expect("a number of repetitions"))
    }

    fn escaped(&mut self) -> char {
        let c = self.peek().expect("an escaped character");
        self.at += c.len_utf8();
        match c {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => '\0',
            'u' => {
                let hex = &self.text[self.at..self.at + 4];
                self.at += 4;
                char::from_u32(u32::from_str_radix(hex, 16).expect("hexadecimal")).expect("a character")
            }
            other => other,
        }
    }
}

fn scalar(word: &str) -> Value {
    match word {
        "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => word.parse::<i64>().map_or_else(|_| Value::String(word.to_owned()), Value::from),
    }
}

/// Bytes from hexadecimal digits.
///
/// # Panics
/// If the text is something else.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|c| !c.is_ascii_whitespace() && *c != b'_').collect();
    assert!(digits.len().is_multiple_of(2), "half a byte in {text}");
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16);
    digits.chunks(2).map(|pair| byte(pair).unwrap_or_else(|_| panic!("not hexadecimal: {text}"))).collect()
}

/// Hexadecimal digits of bytes.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_repetitions_and_escapes() {
        let value = parse(r#"{Name:t-1, List:[1 -2, x], Long:"ab"*3, Odd:"\u0000\"" N:null}"#);
        let same = serde_json::json!({"Name":"t-1","List":[1,-2,"x"],"Long":"ababab","Odd":"\0\"","N":null});
        assert_eq!(value, same);
    }
}
