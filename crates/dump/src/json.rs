//! Decodes a message straight into JSON, led by its schema, in the form Kafka's own converters give it: fields in the
//! schema's order, tagged ones only where they are not the default, bytes in base64.

use base::Uuid;
use std::fmt::Write as _;
use wiregen::{Default, Field, Message, Scalar, Type};

/// The bytes are not what the schema says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Malformed(pub String);

/// A cursor over the bytes of a message.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    /// Bytes not read yet.
    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self
            .bytes
            .split_at_checked(len)
            .ok_or_else(|| Malformed(format!("{len} bytes wanted, {} left", self.bytes.len())))?;
        self.bytes = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub fn i16(&mut self) -> Result<i16, Malformed> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub fn uvarint(&mut self) -> Result<u32, Malformed> {
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array::<1>()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed("a varint is too long".to_owned()))
    }

    /// A length, `None` for null: compact lengths are one more than the truth, classic ones are negative for null.
    fn length(&mut self, flexible: bool, short: bool) -> Result<Option<usize>, Malformed> {
        if flexible {
            return Ok((self.uvarint()? as usize).checked_sub(1));
        }
        let length = if short { i32::from(self.i16()?) } else { self.i32()? };
        Ok(usize::try_from(length).ok())
    }
}

/// The body of `message` in `version` as JSON. What follows it stays in `reader`.
pub(crate) fn message_json(message: &Message, version: i16, reader: &mut Reader<'_>) -> Result<String, Malformed> {
    if !message.versions.contains(version) {
        return Err(Malformed(format!("{} has no version {version}", message.name)));
    }
    let shape = Shape { message, version };
    shape.object(&message.name, message.flexible.contains(version), reader)
}

/// A message in one of its versions.
#[derive(Clone, Copy)]
struct Shape<'m> {
    message: &'m Message,
    version: i16,
}

impl Shape<'_> {
    fn object(&self, name: &str, flexible: bool, reader: &mut Reader<'_>) -> Result<String, Malformed> {
        let fields = &self.message.find(name).fields;
        let mut texts: Vec<Option<String>> = vec![None; fields.len()];
        for (text, field) in texts.iter_mut().zip(fields) {
            if field.versions.contains(self.version) && field.tag.is_none() {
                *text = Some(self.field(field, flexible, reader)?);
            }
        }
        if flexible {
            for _ in 0..reader.uvarint()? {
                let tag = reader.uvarint()?;
                let len = reader.uvarint()? as usize;
                let mut value = Reader::new(reader.take(len)?);
                let known = fields.iter().position(|f| f.tag == Some(tag) && f.versions.contains(self.version));
                let Some(at) = known else { continue };
                let text = self.field(&fields[at], flexible, &mut value)?;
                texts[at] = (text != self.default(&fields[at])).then_some(text);
            }
        }
        let shown = fields.iter().zip(texts).filter_map(|(f, text)| Some((f, text?)));
        Ok(object(shown.map(|(f, text)| (camel_case(&f.name), text))))
    }

    fn field(&self, field: &Field, flexible: bool, reader: &mut Reader<'_>) -> Result<String, Malformed> {
        let flexible = flexible && field.flexible.is_none_or(|versions| versions.contains(self.version));
        let nullable = field.nullable.contains(self.version);
        match &field.ty {
            Type::Struct(name) => {
                if nullable && !self.is_there(field, reader)? {
                    return Ok("null".to_owned());
                }
                self.object(name, flexible, reader)
            }
            Type::Array(element) => self.array(element, flexible, reader),
            Type::Scalar(scalar) => scalar_json(*scalar, flexible, reader),
        }
    }

    /// What stands in front of a struct that may be null.
    fn is_there(&self, field: &Field, reader: &mut Reader<'_>) -> Result<bool, Malformed> {
        if field.tag.is_some() {
            return Ok(reader.uvarint()? != 0);
        }
        let [mark] = reader.array::<1>()?;
        Ok(mark as i8 >= 0)
    }

    fn array(&self, element: &Type, flexible: bool, reader: &mut Reader<'_>) -> Result<String, Malformed> {
        let Some(count) = reader.length(flexible, false)? else {
            return Ok("null".to_owned());
        };
        // Every element of every schema has at least one byte.
        if count > reader.left() {
            return Err(Malformed(format!("{count} elements wanted, {} bytes left", reader.left())));
        }
        let mut out = String::from("[");
        for i in 0..count {
            if i > 0 {
                out.push(',');
            }
            out.push_str(&match element {
                Type::Struct(name) => self.object(name, flexible, reader)?,
                Type::Scalar(scalar) => scalar_json(*scalar, flexible, reader)?,
                Type::Array(inner) => self.array(inner, flexible, reader)?,
            });
        }
        out.push(']');
        Ok(out)
    }

    /// The JSON of a field's default.
    fn default(&self, field: &Field) -> String {
        match (&field.default, &field.ty) {
            (Default::Null, _) => "null".to_owned(),
            (Default::Literal(text), _) => text.clone(),
            (Default::Text(text), _) => string_json(text),
            (Default::Zero, Type::Array(_)) => "[]".to_owned(),
            (Default::Zero, Type::Struct(name)) => {
                let fields = &self.message.find(name).fields;
                let shown = fields.iter().filter(|f| f.versions.contains(self.version) && f.tag.is_none());
                object(shown.map(|f| (camel_case(&f.name), self.default(f))))
            }
            (Default::Zero, Type::Scalar(scalar)) => match scalar {
                Scalar::Bool => "false".to_owned(),
                Scalar::String | Scalar::Bytes | Scalar::Records => "\"\"".to_owned(),
                Scalar::Uuid => string_json(&Uuid::ZERO.to_string()),
                Scalar::Float64 => "0.0".to_owned(),
                _ => "0".to_owned(),
            },
        }
    }
}

fn scalar_json(scalar: Scalar, flexible: bool, reader: &mut Reader<'_>) -> Result<String, Malformed> {
    Ok(match scalar {
        Scalar::Bool => (reader.array::<1>()?[0] != 0).to_string(),
        Scalar::Int8 => (reader.array::<1>()?[0] as i8).to_string(),
        Scalar::Int16 => reader.i16()?.to_string(),
        Scalar::Uint16 => u16::from_be_bytes(reader.array()?).to_string(),
        Scalar::Int32 => reader.i32()?.to_string(),
        Scalar::Uint32 => u32::from_be_bytes(reader.array()?).to_string(),
        Scalar::Int64 => i64::from_be_bytes(reader.array()?).to_string(),
        Scalar::Float64 => double_json(f64::from_be_bytes(reader.array()?)),
        Scalar::Uuid => string_json(&Uuid::from_bytes(reader.array()?).to_string()),
        Scalar::String => match reader.length(flexible, true)? {
            None => "null".to_owned(),
            Some(len) => string_json(&String::from_utf8_lossy(reader.take(len)?)),
        },
        Scalar::Bytes | Scalar::Records => match reader.length(flexible, false)? {
            None => "null".to_owned(),
            Some(len) => format!("\"{}\"", base64(reader.take(len)?)),
        },
    })
}

/// An object of names and values, both ready.
pub(crate) fn object<N: AsRef<str>, V: AsRef<str>>(fields: impl Iterator<Item = (N, V)>) -> String {
    let mut out = String::from("{");
    for (i, (name, value)) in fields.enumerate() {
        let comma = if i > 0 { "," } else { "" };
        let _ = write!(out, "{comma}\"{}\":{}", name.as_ref(), value.as_ref());
    }
    out.push('}');
    out
}

/// A string in quotes.
pub(crate) fn string_json(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A number as Java writes doubles: with a decimal point always, with an exponent outside of 0.001 to 10,000,000.
fn double_json(value: f64) -> String {
    if !value.is_finite() {
        let name = if value.is_nan() { "NaN" } else { ["Infinity", "-Infinity"][usize::from(value < 0.0)] };
        return format!("\"{name}\"");
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        let text = value.to_string();
        return if text.contains('.') { text } else { text + ".0" };
    }
    let text = format!("{value:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

/// A name of the schema as JSON has it.
fn camel_case(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map_or(String::new(), |first| first.to_ascii_lowercase().to_string() + chars.as_str())
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().enumerate().fold(0u32, |word, (i, &b)| word | u32::from(b) << (16 - 8 * i));
        for i in 0..4 {
            let six = (word >> (18 - 6 * i)) as usize & 63;
            out.push(if i <= group.len() { ALPHABET[six] as char } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_strings_are_javas() {
        for (value, expect) in [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (0.001, "0.001"),
            (0.00099, "9.9E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (-1234.5, "-1234.5"),
            (1.25e-9, "1.25E-9"),
            (f64::NAN, "\"NaN\""),
        ] {
            assert_eq!(double_json(value), expect);
        }
        assert_eq!(string_json("a\"\\\n\u{1}ü"), "\"a\\\"\\\\\\n\\u0001ü\"");
        assert_eq!(base64(b""), "");
        assert_eq!((base64(b"f"), base64(b"fo"), base64(b"foo")), ("Zg==".into(), "Zm8=".into(), "Zm9v".into()));
        assert_eq!((camel_case("TopicId"), camel_case("groupId")), ("topicId".into(), "groupId".into()));
    }
}
