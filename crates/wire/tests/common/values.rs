//! Bytes of messages with generated values, made from the schema. This shares nothing with the generated code or the
//! writer, so that a mistake in either shows.

use base::Prng;
use wiregen::{Default, Field, Message, Scalar, Type};

/// How much of a message is filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// Every field of the version has a value, arrays have items, nothing is null.
    Full,
    /// Chance decides about nulls, defaults and lengths.
    Mixed,
    /// Most fields have their defaults, so that chance is good that other versions can say the same.
    Sparse,
    /// As little as possible: null where allowed, else empty and zero, no tags.
    Least,
}

/// The bytes of one message.
pub fn message_bytes(message: &Message, version: i16, fill: Fill, prng: &mut Prng) -> Vec<u8> {
    let mut maker = Maker { message, version, flexible: message.flexible.contains(version), fill, prng };
    let mut out = Vec::new();
    maker.struct_of(&message.name, &mut out);
    out
}

struct Maker<'t> {
    message: &'t Message,
    version: i16,
    flexible: bool,
    fill: Fill,
    prng: &'t mut Prng,
}

pub fn uvarint(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

impl Maker<'_> {
    fn struct_of(&mut self, name: &str, out: &mut Vec<u8>) {
        let version = self.version;
        let one = self.message.find(name);
        let present: Vec<&Field> = one.fields.iter().filter(|field| field.versions.contains(version)).collect();
        for field in present.iter().filter(|field| field.tag.is_none()) {
            self.field(field, out);
        }
        if !self.flexible {
            return;
        }
        let mut tagged: Vec<&&Field> = present.iter().filter(|field| field.tag.is_some()).collect();
        tagged.sort_by_key(|field| field.tag);
        let mut values = Vec::new();
        for field in tagged {
            let mut value = Vec::new();
            self.field(field, &mut value);
            // A default is not written; what is in the bytes must be something else.
            if value != self.default_bytes(field) && self.fill != Fill::Least {
                values.push((field.tag.expect("only tagged fields are here"), value));
            }
        }
        uvarint(values.len() as u32, out);
        for (tag, value) in values {
            uvarint(tag, out);
            uvarint(value.len() as u32, out);
            out.extend(value);
        }
    }

    fn field(&mut self, field: &Field, out: &mut Vec<u8>) {
        let classic = field.flexible.is_some_and(|versions| !versions.contains(self.version));
        let flexible = self.flexible;
        self.flexible = flexible && !classic;
        let can_be_default = field.default != Default::Null || field.nullable.contains(self.version);
        if self.fill == Fill::Sparse && can_be_default && self.prng.chance(7, 8) {
            out.extend(self.default_bytes(field));
            self.flexible = flexible;
            return;
        }
        let null = match self.fill {
            Fill::Full => false,
            Fill::Mixed | Fill::Sparse => self.prng.chance(1, 4),
            Fill::Least => true,
        };
        match null && field.nullable.contains(self.version) {
            true => self.null(field, out),
            false => self.value(&field.ty, field.nullable.contains(self.version), out),
        }
        self.flexible = flexible;
    }

    fn null(&self, field: &Field, out: &mut Vec<u8>) {
        match &field.ty {
            Type::Struct(_) if field.tag.is_some() => out.push(0),
            Type::Struct(_) => out.push(0xff),
            _ if self.flexible => out.push(0),
            Type::Scalar(Scalar::String) => out.extend((-1i16).to_be_bytes()),
            _ => out.extend((-1i32).to_be_bytes()),
        }
    }

    fn length(&self, length: usize, out: &mut Vec<u8>) {
        if self.flexible { uvarint(length as u32 + 1, out) } else { out.extend((length as i32).to_be_bytes()) }
    }

    fn value(&mut self, ty: &Type, nullable: bool, out: &mut Vec<u8>) {
        match ty {
            Type::Scalar(scalar) => self.scalar(*scalar, out),
            Type::Struct(name) => {
                if nullable {
                    out.push(1);
                }
                self.struct_of(name, out);
            }
            Type::Array(element) => {
                let items = match self.fill {
                    Fill::Full => 1 + self.prng.below(3),
                    Fill::Mixed | Fill::Sparse => self.prng.below(4),
                    Fill::Least => 0,
                };
                self.length(items as usize, out);
                for _ in 0..items {
                    self.value(element, false, out);
                }
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar, out: &mut Vec<u8>) {
        if self.fill == Fill::Least {
            return self.scalar_zero(scalar, out);
        }
        let bits = match self.prng.below(8) {
            0 => u64::MAX,
            1 => 1 << 63,
            _ => self.prng.next_u64(),
        };
        match scalar {
            Scalar::Bool => out.push((bits & 1) as u8),
            Scalar::Int8 => out.push(bits as u8),
            Scalar::Int16 | Scalar::Uint16 => out.extend((bits as u16).to_be_bytes()),
            Scalar::Int32 | Scalar::Uint32 => out.extend((bits as u32).to_be_bytes()),
            Scalar::Int64 => out.extend(bits.to_be_bytes()),
            Scalar::Float64 => out.extend((bits as i64 as f64 / 8.0).to_be_bytes()),
            Scalar::Uuid => out.extend((u128::from(bits) << 64 | u128::from(self.prng.next_u64())).to_be_bytes()),
            Scalar::String => {
                let text = self.text();
                self.string(&text, out);
            }
            Scalar::Bytes | Scalar::Records => {
                let length = self.some_length(200);
                self.length(length, out);
                out.extend((0..length).map(|i| (bits >> (i % 8)) as u8));
            }
        }
    }

    fn string(&self, text: &str, out: &mut Vec<u8>) {
        match self.flexible {
            true => uvarint(text.len() as u32 + 1, out),
            false => out.extend((text.len() as i16).to_be_bytes()),
        }
        out.extend(text.as_bytes());
    }

    fn scalar_zero(&self, scalar: Scalar, out: &mut Vec<u8>) {
        match scalar {
            Scalar::String if self.flexible => out.push(1),
            Scalar::String => out.extend([0, 0]),
            Scalar::Bytes | Scalar::Records => self.length(0, out),
            _ => out.resize(out.len() + self.message.wire_min(&Type::Scalar(scalar), false, self.version), 0),
        }
    }

    /// Mostly short, now and then long enough for a compact length of two bytes.
    fn some_length(&mut self, long: u64) -> usize {
        let least = u64::from(self.fill == Fill::Full);
        let most = if self.prng.chance(1, 16) { long } else { 8 };
        (least + self.prng.below(most)) as usize
    }

    fn text(&mut self) -> String {
        let letters = ['a', 'z', '-', '0', 'ß', '水', '🦀'];
        (0..self.some_length(100)).map(|_| letters[self.prng.below(letters.len() as u64) as usize]).collect()
    }

    /// The bytes of a field's default in this version.
    fn default_bytes(&self, field: &Field) -> Vec<u8> {
        let mut out = Vec::new();
        let nullable = field.nullable.contains(self.version);
        match (&field.default, &field.ty) {
            (Default::Null, _) => self.null(field, &mut out),
            (Default::Zero, Type::Scalar(Scalar::Records)) if nullable => self.null(field, &mut out),
            (Default::Zero, Type::Scalar(scalar)) => self.scalar_zero(*scalar, &mut out),
            (Default::Zero, Type::Array(_)) => self.length(0, &mut out),
            (Default::Zero, Type::Struct(name)) => {
                if nullable {
                    out.push(1);
                }
                let fields = &self.message.find(name).fields;
                for inner in fields.iter().filter(|f| f.versions.contains(self.version) && f.tag.is_none()) {
                    out.extend(self.default_bytes(inner));
                }
                out.resize(out.len() + usize::from(self.flexible), 0);
            }
            (Default::Literal(text), Type::Scalar(scalar)) => {
                let number: i128 = match text.as_str() {
                    "true" => 1,
                    other => other.parse().expect("a whole number"),
                };
                let size = self.message.wire_min(&Type::Scalar(*scalar), false, self.version);
                out.extend(&number.to_be_bytes()[16 - size..]);
            }
            (Default::Text(text), _) => self.string(text, &mut out),
            (Default::Literal(text), _) => panic!("{} cannot have the default {text}", field.name),
        }
        out
    }
}
