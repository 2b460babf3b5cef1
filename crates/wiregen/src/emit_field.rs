use crate::model::{Default, Field, Message, Scalar, Struct, Type, Versions};
use crate::names::field_ident;

/// When something holds, seen from the versions in which the code around it runs.
pub(crate) enum When {
    Always,
    Never,
    If(String),
}

/// The condition on `v` for `versions`, where only `within` can occur.
pub(crate) fn when(versions: Versions, within: Versions) -> When {
    let both = versions.and(within);
    if both.is_empty() {
        return When::Never;
    }
    match (both.lo > within.lo, both.hi < within.hi) {
        (false, false) => When::Always,
        (true, false) => When::If(format!("v >= {}", both.lo)),
        (false, true) => When::If(format!("v <= {}", both.hi)),
        (true, true) if both.lo == both.hi => When::If(format!("v == {}", both.lo)),
        (true, true) => When::If(format!("({}..={}).contains(&v)", both.lo, both.hi)),
    }
}

/// A field with what is around it, and the Rust text that follows from both.
pub(crate) struct FieldCode<'m> {
    pub message: &'m Message,
    pub field: &'m Field,
    /// Versions in which the field exists.
    pub present: Versions,
    pub ident: String,
}

impl<'m> FieldCode<'m> {
    pub fn new(message: &'m Message, owner: &Struct, field: &'m Field) -> FieldCode<'m> {
        let present = field.versions.and(owner.versions);
        FieldCode { message, field, present, ident: field_ident(&field.name) }
    }

    fn is_records(&self) -> bool {
        self.field.ty == Type::Scalar(Scalar::Records)
    }

    /// True when the Rust type is an `Option`.
    pub fn is_option(&self) -> bool {
        self.is_records() || !self.field.nullable.and(self.present).is_empty()
    }

    fn bare_type(&self, ty: &Type) -> String {
        match ty {
            Type::Scalar(scalar) => match scalar {
                Scalar::Bool => "bool",
                Scalar::Int8 => "i8",
                Scalar::Int16 => "i16",
                Scalar::Uint16 => "u16",
                Scalar::Int32 => "i32",
                Scalar::Uint32 => "u32",
                Scalar::Int64 => "i64",
                Scalar::Float64 => "f64",
                Scalar::Uuid => "Uuid",
                Scalar::String => "Str<'a>",
                Scalar::Bytes => "Bin<'a>",
                Scalar::Records => "Records",
            }
            .to_string(),
            Type::Struct(name) if self.message.borrows(ty) => format!("{name}<'a>"),
            Type::Struct(name) => name.clone(),
            Type::Array(element) => format!("Vec<{}>", self.bare_type(element)),
        }
    }

    pub fn rust_type(&self) -> String {
        let bare = self.bare_type(&self.field.ty);
        if self.is_option() { format!("Option<{bare}>") } else { bare }
    }

    /// The facts of the field, as its documentation.
    pub fn doc(&self) -> String {
        let field = self.field;
        let mut doc = format!("`{}`, versions {}", field.name, self.present.and(field.versions));
        match when(field.nullable, self.present) {
            When::Never => {}
            When::Always => doc.push_str(", nullable"),
            When::If(_) => doc += &format!(", nullable in {}", field.nullable),
        }
        if let Some(tag) = field.tag {
            doc += &format!(", tag {tag}");
        }
        match &field.default {
            Default::Zero => {}
            Default::Null => doc.push_str(", default null"),
            Default::Literal(text) => doc += &format!(", default {text}"),
            Default::Text(text) => doc += &format!(", default {text:?}"),
        }
        if field.ignorable {
            doc.push_str(", ignorable");
        }
        doc
    }

    /// True when the field's default is also the default of its Rust type.
    pub fn default_is_rusts(&self) -> bool {
        match self.field.default {
            Default::Null => true,
            Default::Zero => self.is_records() || !self.is_option(),
            Default::Literal(_) | Default::Text(_) => false,
        }
    }

    /// The default as an expression.
    pub fn default_value(&self) -> String {
        let bare = match &self.field.default {
            Default::Null => return "None".into(),
            Default::Zero if self.is_records() => return "None".into(),
            Default::Zero => match &self.field.ty {
                Type::Scalar(Scalar::Bool) => "false".to_string(),
                Type::Scalar(Scalar::Float64) => "0.0".into(),
                Type::Scalar(Scalar::Uuid) => "Uuid::ZERO".into(),
                Type::Scalar(Scalar::String) => "Str::Borrowed(\"\")".into(),
                Type::Scalar(Scalar::Bytes) => "Bin::Borrowed(&[])".into(),
                Type::Scalar(_) => "0".into(),
                Type::Array(_) => "Vec::new()".into(),
                Type::Struct(name) => format!("{name}::default()"),
            },
            Default::Literal(text) => text.clone(),
            Default::Text(text) => format!("Str::Borrowed({text:?})"),
        };
        if self.is_option() { format!("Some({bare})") } else { bare }
    }

    /// An expression that is true when the field of `self` differs from its default.
    pub fn differs_from_default(&self) -> String {
        let place = format!("self.{}", self.ident);
        match (&self.field.default, &self.field.ty, self.is_option()) {
            (Default::Null, ..) => format!("{place}.is_some()"),
            (Default::Zero, Type::Scalar(Scalar::Records), _) => format!("{place}.is_some()"),
            (Default::Zero, Type::Scalar(Scalar::Bool), false) => place,
            (Default::Zero, Type::Scalar(Scalar::String | Scalar::Bytes) | Type::Array(_), false) => {
                format!("!{place}.is_empty()")
            }
            (Default::Zero, Type::Scalar(Scalar::String | Scalar::Bytes) | Type::Array(_), true) => {
                format!("{place}.as_ref().is_none_or(|x| !x.is_empty())")
            }
            _ => format!("{place} != {}", self.default_value()),
        }
    }

    /// Null structs are marked differently in the tagged section.
    fn opt_struct_method(&self) -> &'static str {
        if self.field.tag.is_some() { "opt_tagged_struct" } else { "opt_struct" }
    }

    /// The expression that reads the value in a version in which it exists.
    pub fn read_value(&self) -> String {
        let classic = if self.field.flexible.is_some() { "_classic" } else { "" };
        let read = |nullable: bool| {
            let prefix = if nullable { "opt_" } else { "" };
            match &self.field.ty {
                Type::Scalar(scalar) => format!("r.{prefix}{}{classic}()?", method(*scalar)),
                Type::Array(_) => format!("r.{prefix}array(v)?"),
                Type::Struct(_) if nullable => format!("r.{}(v)?", self.opt_struct_method()),
                Type::Struct(name) => format!("{name}::read(r, v)?"),
            }
        };
        match when(self.field.nullable, self.present) {
            When::Always => read(true),
            When::Never if self.is_option() => format!("Some({})", read(false)),
            When::Never => read(false),
            When::If(condition) => format!("if {condition} {{ {} }} else {{ Some({}) }}", read(true), read(false)),
        }
    }

    /// The statement that writes the value in a version in which it exists.
    pub fn write_value(&self) -> String {
        let place = format!("self.{}", self.ident);
        let classic = if self.field.flexible.is_some() { "_classic" } else { "" };
        let by_value =
            |scalar: &Scalar| !matches!(scalar, Scalar::String | Scalar::Bytes | Scalar::Records | Scalar::Uuid);
        let bare = |place: &str| match &self.field.ty {
            Type::Scalar(scalar) if by_value(scalar) => format!("w.{}({place})", method(*scalar)),
            Type::Scalar(scalar) => format!("w.{}{classic}({})", method(*scalar), reference(place)),
            Type::Array(_) => format!("w.array({}, v)", reference(place)),
            Type::Struct(_) => format!("{place}.write(w, v)"),
        };
        if !self.is_option() {
            return bare(&place);
        }
        let nullable = match &self.field.ty {
            Type::Scalar(scalar) => format!("w.opt_{}{classic}(&{place})", method(*scalar)),
            Type::Array(_) => format!("w.opt_array(&{place}, v)"),
            Type::Struct(_) => format!("w.{}(&{place}, v)", self.opt_struct_method()),
        };
        let strict =
            format!("match &{place} {{ Some(x) => {}, None => w.null_not_allowed({:?}) }}", bare("x"), self.field.name);
        match when(self.field.nullable, self.present) {
            When::Always => nullable,
            When::Never => strict,
            When::If(condition) => format!("if {condition} {{ {nullable} }} else {{ {strict} }}"),
        }
    }

    /// The expression that makes the field of `self` own what it borrows.
    pub fn owned_value(&self) -> String {
        let place = format!("self.{}", self.ident);
        if !self.message.borrows(&self.field.ty) {
            return place;
        }
        fn own(ty: &Type, place: &str) -> String {
            match ty {
                Type::Scalar(Scalar::String) => format!("own_str({place})"),
                Type::Scalar(_) => format!("own_bin({place})"),
                Type::Struct(_) => format!("{place}.into_static()"),
                Type::Array(element) => format!("{place}.into_iter().map(|x| {}).collect()", own(element, "x")),
            }
        }
        match self.is_option() {
            true => format!("{place}.map(|x| {})", own(&self.field.ty, "x")),
            false => own(&self.field.ty, &place),
        }
    }
}

fn reference(place: &str) -> String {
    if place.starts_with("self.") { format!("&{place}") } else { place.to_string() }
}

/// The name of the reader's and writer's method for a scalar.
fn method(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::Int8 => "i8",
        Scalar::Int16 => "i16",
        Scalar::Uint16 => "u16",
        Scalar::Int32 => "i32",
        Scalar::Uint32 => "u32",
        Scalar::Int64 => "i64",
        Scalar::Float64 => "f64",
        Scalar::Uuid => "uuid",
        Scalar::String => "string",
        Scalar::Bytes => "bytes",
        Scalar::Records => "records",
    }
}
