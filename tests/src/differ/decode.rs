//! Answers as values, by schema.

use serde_json::{Map, Value};
use wiregen::{Field, Message, Scalar, Type};

use super::{batches, text};

/// The body of an answer: every field of the version by its name. Errors say what is wrong with the bytes, one left over
/// included.
///
/// # Errors
/// What is wrong with the bytes.
pub fn body(message: &Message, version: i16, bytes: &[u8]) -> Result<Value, String> {
    let flexible = message.flexible.contains(version);
    let mut reader = Reader { message, version, flexible, bytes, at: 0 };
    let value = reader.structure(&message.name)?;
    match bytes.len() - reader.at {
        0 => Ok(value),
        left => Err(format!("{left} bytes left over behind {value}")),
    }
}

struct Reader<'m> {
    message: &'m Message,
    version: i16,
    flexible: bool,
    bytes: &'m [u8],
    at: usize,
}

impl<'m> Reader<'m> {
    fn take(&mut self, n: usize) -> Result<&'m [u8], String> {
        let end = self.at.checked_add(n).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| format!("{n} bytes are missing at {}", self.at))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("as many as asked for"))
    }

    fn uvarint(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(format!("a varint without end at {}", self.at))
    }

    fn structure(&mut self, name: &str) -> Result<Value, String> {
        let message = self.message;
        let fields: Vec<&Field> =
            message.find(name).fields.iter().filter(|f| f.versions.contains(self.version)).collect();
        let mut object = Map::new();
        for field in fields.iter().filter(|field| field.tag.is_none()) {
            object.insert(field.name.clone(), self.field(field)?);
        }
        if !self.flexible {
            return Ok(Value::Object(object));
        }
        for _ in 0..self.uvarint()? {
            let tag = self.uvarint()?;
            let size = self.uvarint()? as usize;
            let end = self.at + size;
            match fields.iter().find(|field| field.tag.map(u64::from) == Some(tag)) {
                Some(field) => object.insert(field.name.clone(), self.field(field)?),
                None => object.insert(format!("$tag{tag}"), Value::String(text::hex(self.take(size)?))),
            };
            if self.at != end {
                return Err(format!("tag {tag} does not end where it says"));
            }
        }
        Ok(Value::Object(object))
    }

    fn field(&mut self, field: &Field) -> Result<Value, String> {
        let flexible = self.flexible;
        if field.flexible.is_some_and(|versions| !versions.contains(self.version)) {
            self.flexible = false;
        }
        let value = self.value(&field.ty, field.nullable.contains(self.version));
        self.flexible = flexible;
        value.map_err(|error| format!("{}: {error}", field.name))
    }

    fn length(&mut self, short: bool) -> Result<Option<usize>, String> {
        let length = match (self.flexible, short) {
            (true, _) => self.uvarint()? as i64 - 1,
            (false, true) => i64::from(i16::from_be_bytes(self.number()?)),
            (false, false) => i64::from(i32::from_be_bytes(self.number()?)),
        };
        match usize::try_from(length) {
            Ok(length) if length > self.bytes.len() => Err(format!("a length of {length}")),
            Ok(length) => Ok(Some(length)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(format!("a length of {length}")),
        }
    }

    fn value(&mut self, ty: &Type, nullable: bool) -> Result<Value, String> {
        match ty {
            Type::Scalar(scalar) => self.scalar(*scalar),
            Type::Array(element) => {
                let Some(count) = self.length(false)? else { return Ok(Value::Null) };
                (0..count).map(|_| self.value(element, false)).collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            Type::Struct(name) => {
                if nullable && self.number::<1>()?[0] as i8 == -1 {
                    return Ok(Value::Null);
                }
                self.structure(name)
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar) -> Result<Value, String> {
        Ok(match scalar {
            Scalar::Bool => Value::Bool(self.number::<1>()?[0] != 0),
            Scalar::Int8 => i8::from_be_bytes(self.number()?).into(),
            Scalar::Int16 => i16::from_be_bytes(self.number()?).into(),
            Scalar::Uint16 => u16::from_be_bytes(self.number()?).into(),
            Scalar::Int32 => i32::from_be_bytes(self.number()?).into(),
            Scalar::Uint32 => u32::from_be_bytes(self.number()?).into(),
            Scalar::Int64 => i64::from_be_bytes(self.number()?).into(),
            Scalar::Float64 => f64::from_be_bytes(self.number()?).into(),
            Scalar::Uuid => Value::String(base::Uuid::from_bytes(self.number()?).to_string()),
            Scalar::String => match self.length(true)? {
                None => Value::Null,
                Some(length) => Value::String(String::from_utf8_lossy(self.take(length)?).into_owned()),
            },
            Scalar::Bytes => match self.length(false)? {
                None => Value::Null,
                Some(length) => Value::String(format!("hex:{}", text::hex(self.take(length)?))),
            },
            Scalar::Records => match self.length(false)? {
                None => Value::Null,
                Some(length) => batches::dump(self.take(length)?),
            },
        })
    }
}
