//! Requests from values, by schema. Remembers where each length and count stands, so that it can be made to lie.

use serde_json::{Map, Value};
use wiregen::{Default, Field, Message, Scalar, Type};

use super::{batches, text};

/// How a length is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// Length of a classic string.
    I16,
    /// Length of classic bytes, count of a classic array.
    I32,
    /// Length or count plus one, as a varint.
    Compact,
    /// A number of tags, a tag or the size of one, as a varint.
    Plain,
}

/// A length or count in the body of a request.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Its first byte.
    pub at: usize,
    /// How it is written.
    pub width: Width,
    /// Bytes it takes.
    pub len: usize,
    /// The field it belongs to.
    pub path: String,
}

/// The body of a request.
#[derive(Clone, Debug, Default)]
pub struct Encoded {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Every length and count in them.
    pub marks: Vec<Mark>,
}

/// The body of `message` in `version`. Fields that `value` lacks have their defaults; fields that the version lacks are
/// dropped. Beside the schema's names an object may have `$tags` (`{"99":"c0ffee"}`: more tagged fields), and any value may
/// be `"raw:c0ffee"`: the bytes to put in its place.
///
/// # Panics
/// If `value` has a name that the schema has not, or a value of another type.
pub fn body(message: &Message, version: i16, value: &Value) -> Encoded {
    let flexible = message.flexible.contains(version);
    let mut writer = Writer { message, version, flexible, out: Encoded::default(), path: Vec::new() };
    writer.structure(&message.name, value.as_object().expect("a request is an object"));
    writer.out
}

struct Writer<'m> {
    message: &'m Message,
    version: i16,
    flexible: bool,
    out: Encoded,
    path: Vec<String>,
}

/// Appends an unsigned varint.
pub fn uvarint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

impl Writer<'_> {
    fn structure(&mut self, name: &str, value: &Map<String, Value>) {
        let message = self.message;
        let fields = &message.find(name).fields;
        for name in value.keys() {
            assert!(name == "$tags" || fields.iter().any(|f| f.name == *name), "{}: no field {name}", message.name);
        }
        let present = fields.iter().filter(|field| field.versions.contains(self.version));
        let (mut tagged, plain): (Vec<&Field>, Vec<&Field>) = present.partition(|field| field.tag.is_some());
        for field in plain {
            self.field(field, value.get(&field.name));
        }
        if !self.flexible {
            return;
        }
        tagged.retain(|field| value.contains_key(&field.name));
        tagged.sort_by_key(|field| field.tag);
        let empty = Map::new();
        let more = value.get("$tags").map_or(&empty, |more| more.as_object().expect("$tags is an object"));
        self.plain((tagged.len() + more.len()) as u64, "$tags");
        for field in tagged {
            self.plain(u64::from(field.tag.expect("a tagged field")), &field.name);
            let mut inner = Writer { out: Encoded::default(), path: self.path.clone(), ..*self };
            inner.field(field, value.get(&field.name));
            let inner = inner.out;
            self.plain(inner.bytes.len() as u64, &field.name);
            let base = self.out.bytes.len();
            self.out.marks.extend(inner.marks.into_iter().map(|mark| Mark { at: mark.at + base, ..mark }));
            self.out.bytes.extend(inner.bytes);
        }
        for (tag, bytes) in more {
            let bytes = text::unhex(bytes.as_str().expect("hexadecimal"));
            self.plain(tag.parse().expect("a tag"), "$tags");
            self.plain(bytes.len() as u64, "$tags");
            self.out.bytes.extend(bytes);
        }
    }

    fn mark(&mut self, at: usize, width: Width, name: &str) {
        let path = self.path.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join(".");
        self.out.marks.push(Mark { at, width, len: self.out.bytes.len() - at, path });
    }

    fn plain(&mut self, value: u64, name: &str) {
        let at = self.out.bytes.len();
        uvarint(value, &mut self.out.bytes);
        self.mark(at, Width::Plain, name);
    }

    /// A length or count; `None` is null.
    fn length(&mut self, length: Option<usize>, short: bool, name: &str) {
        let at = self.out.bytes.len();
        let (width, classic) = (if short { Width::I16 } else { Width::I32 }, length.map_or(-1, |l| l as i64));
        match (self.flexible, short) {
            (true, _) => uvarint(length.map_or(0, |l| l as u64 + 1), &mut self.out.bytes),
            (false, true) => self.out.bytes.extend((classic as i16).to_be_bytes()),
            (false, false) => self.out.bytes.extend((classic as i32).to_be_bytes()),
        }
        self.mark(at, if self.flexible { Width::Compact } else { width }, name);
    }

    fn field(&mut self, field: &Field, value: Option<&Value>) {
        let flexible = self.flexible;
        if field.flexible.is_some_and(|versions| !versions.contains(self.version)) {
            self.flexible = false;
        }
        let default = default_of(field);
        let value = value.unwrap_or(&default);
        self.value(&field.ty, field.nullable.contains(self.version), value, &field.name);
        self.flexible = flexible;
    }

    fn value(&mut self, ty: &Type, nullable: bool, value: &Value, name: &str) {
        if let Some(raw) = value.as_str().and_then(|text| text.strip_prefix("raw:")) {
            self.out.bytes.extend(text::unhex(raw));
            return;
        }
        match ty {
            Type::Scalar(scalar) => self.scalar(*scalar, value, name),
            Type::Array(element) => {
                let items = value.as_array();
                assert!(items.is_some() || value.is_null(), "{name} is an array, not {value}");
                self.length(items.map(Vec::len), false, name);
                for (at, item) in items.into_iter().flatten().enumerate() {
                    self.path.push(format!("{name}.{at}"));
                    self.value(element, false, item, "");
                    self.path.pop();
                }
            }
            Type::Struct(of) => {
                if nullable {
                    self.out.bytes.push(if value.is_null() { 0xff } else { 1 });
                }
                if let Some(object) = value.as_object() {
                    self.path.push(name.to_owned());
                    self.structure(of, object);
                    self.path.pop();
                } else if !nullable {
                    self.structure(of, &Map::new());
                }
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value, name: &str) {
        let number = || value.as_i64().or(value.as_bool().map(i64::from)).unwrap_or_else(|| panic!("{name}: {value}"));
        match scalar {
            Scalar::Bool | Scalar::Int8 => self.out.bytes.push(number() as u8),
            Scalar::Int16 | Scalar::Uint16 => self.out.bytes.extend((number() as u16).to_be_bytes()),
            Scalar::Int32 | Scalar::Uint32 => self.out.bytes.extend((number() as u32).to_be_bytes()),
            Scalar::Int64 => self.out.bytes.extend(number().to_be_bytes()),
            Scalar::Float64 => self.out.bytes.extend(value.as_f64().expect("a number").to_be_bytes()),
            Scalar::Uuid => {
                let id: base::Uuid = value.as_str().and_then(|t| t.parse().ok()).unwrap_or(base::Uuid::ZERO);
                self.out.bytes.extend(id.as_bytes());
            }
            Scalar::String => self.blob(text_of(value).map(String::into_bytes), true, name),
            Scalar::Bytes => {
                let bytes = text_of(value).map(|text| match text.strip_prefix("hex:") {
                    Some(hex) => text::unhex(hex),
                    None => text.into_bytes(),
                });
                self.blob(bytes, false, name);
            }
            Scalar::Records => self.blob(text_of(value).map(|spec| batches::build(&spec)), false, name),
        }
    }

    fn blob(&mut self, bytes: Option<Vec<u8>>, short: bool, name: &str) {
        self.length(bytes.as_ref().map(Vec::len), short, name);
        self.out.bytes.extend(bytes.unwrap_or_default());
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn default_of(field: &Field) -> Value {
    match (&field.default, &field.ty) {
        (Default::Null, _) => Value::Null,
        (Default::Text(text), _) => Value::String(text.clone()),
        (Default::Literal(text), _) => text::parse(text),
        (Default::Zero, Type::Array(_)) => Value::Array(Vec::new()),
        (Default::Zero, Type::Struct(_)) => Value::Object(Map::new()),
        (Default::Zero, Type::Scalar(Scalar::String | Scalar::Bytes)) => Value::String(String::new()),
        (Default::Zero, Type::Scalar(Scalar::Records)) => Value::String("empty".into()),
        (Default::Zero, Type::Scalar(_)) => Value::from(0),
    }
}
