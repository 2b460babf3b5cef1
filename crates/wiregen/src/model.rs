use std::fmt;

/// An inclusive range of versions; empty when `lo > hi`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versions {
    /// Lowest version.
    pub lo: i16,
    /// Highest version; `i16::MAX` for "and all later ones".
    pub hi: i16,
}

impl Versions {
    /// No version at all.
    pub const NONE: Versions = Versions { lo: 0, hi: -1 };

    /// True when no version is in the range.
    pub fn is_empty(self) -> bool {
        self.lo > self.hi
    }

    /// True when `version` is in the range.
    pub fn contains(self, version: i16) -> bool {
        (self.lo..=self.hi).contains(&version)
    }

    /// Versions in both ranges.
    #[must_use]
    pub fn and(self, other: Versions) -> Versions {
        Versions { lo: self.lo.max(other.lo), hi: self.hi.min(other.hi) }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.lo, self.hi) {
            (lo, hi) if lo > hi => f.write_str("none"),
            (lo, i16::MAX) => write!(f, "{lo}+"),
            (lo, hi) if lo == hi => write!(f, "{lo}"),
            (lo, hi) => write!(f, "{lo}-{hi}"),
        }
    }
}

/// Types without fields of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Scalar {
    Bool,
    Int8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Float64,
    Uuid,
    String,
    Bytes,
    Records,
}

impl Scalar {
    /// Every scalar type with its name in the notation.
    pub const ALL: [(&'static str, Scalar); 12] = [
        ("bool", Scalar::Bool),
        ("int8", Scalar::Int8),
        ("int16", Scalar::Int16),
        ("uint16", Scalar::Uint16),
        ("int32", Scalar::Int32),
        ("uint32", Scalar::Uint32),
        ("int64", Scalar::Int64),
        ("float64", Scalar::Float64),
        ("uuid", Scalar::Uuid),
        ("string", Scalar::String),
        ("bytes", Scalar::Bytes),
        ("records", Scalar::Records),
    ];
}

/// The type of a field or of an array's elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type {
    /// A type without fields.
    Scalar(Scalar),
    /// A struct of the same message, by name.
    Struct(String),
    /// An array; never of arrays.
    Array(Box<Type>),
}

impl Type {
    /// The struct that this type is or holds.
    pub fn struct_name(&self) -> Option<&str> {
        match self {
            Type::Scalar(_) => None,
            Type::Struct(name) => Some(name),
            Type::Array(element) => element.struct_name(),
        }
    }
}

/// The default of a field.
#[derive(Clone, PartialEq, Debug)]
pub enum Default {
    /// 0, false, "", empty or a struct of defaults.
    Zero,
    /// Null; only for fields that can be null.
    Null,
    /// A number or boolean, as written.
    Literal(String),
    /// A string that is not empty.
    Text(String),
}

/// One field of a struct.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub struct Field {
    pub name: String,
    pub ty: Type,
    pub versions: Versions,
    pub nullable: Versions,
    pub tag: Option<u32>,
    pub default: Default,
    pub ignorable: bool,
    pub map_key: bool,
    pub entity: Option<String>,
    /// Set when the field has flexible versions of its own.
    pub flexible: Option<Versions>,
}

/// A struct: the message's own, one that stands below a field, or a shared one.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub struct Struct {
    pub name: String,
    /// Versions in which the struct occurs, within the valid ones of its message.
    pub versions: Versions,
    pub fields: Vec<Field>,
}

/// What a message is used as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Request,
    Response,
    Data,
    Record,
    Key,
    Value,
}

/// One message: all its structs, its own first.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub struct Message {
    pub kind: Kind,
    pub name: String,
    /// Number of the API or of the record type.
    pub number: Option<i16>,
    pub versions: Versions,
    pub flexible: Versions,
    /// True when the latest version is unfinished.
    pub unstable: bool,
    /// Names of the listeners that serve the request.
    pub listeners: Vec<String>,
    pub structs: Vec<Struct>,
}

impl Message {
    /// The struct with the given name.
    ///
    /// # Panics
    /// If there is none; the parser has checked every reference.
    pub fn find(&self, name: &str) -> &Struct {
        self.structs.iter().find(|s| s.name == name).expect("the parser checks that every struct exists")
    }

    /// The message's own struct.
    pub fn root(&self) -> &Struct {
        &self.structs[0]
    }

    /// True when a value of the type holds borrowed text or bytes.
    pub fn borrows(&self, ty: &Type) -> bool {
        match ty {
            Type::Scalar(Scalar::String | Scalar::Bytes) => true,
            Type::Scalar(_) => false,
            Type::Array(element) => self.borrows(element),
            Type::Struct(name) => self.find(name).fields.iter().any(|f| self.borrows(&f.ty)),
        }
    }

    /// The fewest bytes that a struct takes on the wire in any version; counted as 1 where that is none.
    pub fn wire_min_ever(&self, name: &str) -> usize {
        let versions = self.find(name).versions;
        let ty = Type::Struct(name.to_string());
        (versions.lo..=versions.hi).map(|v| self.wire_min(&ty, false, v)).min().unwrap_or(0).max(1)
    }

    /// The fewest bytes that a value of the type takes on the wire in `version`.
    pub fn wire_min(&self, ty: &Type, nullable: bool, version: i16) -> usize {
        let flexible = self.flexible.contains(version);
        match ty {
            Type::Scalar(scalar) => match scalar {
                Scalar::Bool | Scalar::Int8 => 1,
                Scalar::Int16 | Scalar::Uint16 => 2,
                Scalar::Int32 | Scalar::Uint32 => 4,
                Scalar::Int64 | Scalar::Float64 => 8,
                Scalar::Uuid => 16,
                Scalar::String => 2 - usize::from(flexible),
                Scalar::Bytes | Scalar::Records => 4 - 3 * usize::from(flexible),
            },
            Type::Array(_) => 4 - 3 * usize::from(flexible),
            Type::Struct(_) if nullable => 1,
            Type::Struct(name) => {
                let fields = self.find(name).fields.iter().filter(|f| f.versions.contains(version) && f.tag.is_none());
                let sum: usize = fields.map(|f| self.wire_min(&f.ty, f.nullable.contains(version), version)).sum();
                sum + usize::from(flexible)
            }
        }
    }
}
