//! A request with something in every field, made from its schema, for tests of what stands around the values.

use serde_json::{Map, Value, json};
use wiregen::{Field, Message, Scalar, Type};

/// A value of `message` for `version` in which every array has an item and nothing is null. It asks for nothing that waits
/// or that would harm a broker: times are short, numbers name what does not exist, changes are only to be checked.
pub fn request(message: &Message, version: i16) -> Value {
    structure(message, &message.name, version)
}

fn structure(message: &Message, name: &str, version: i16) -> Value {
    let fields = message.find(name).fields.iter().filter(|field| field.versions.contains(version));
    let mut object = Map::new();
    for field in fields {
        object.insert(field.name.clone(), of_field(message, field, version));
    }
    // A tag nobody knows, so that its size can lie too.
    if message.flexible.contains(version) {
        object.insert("$tags".into(), json!({"88": "c0ffee"}));
    }
    Value::Object(object)
}

fn of_field(message: &Message, field: &Field, version: i16) -> Value {
    match field.name.to_lowercase().as_str() {
        "validateonly" => json!(true),
        name if name.ends_with("ms") => json!(1),
        _ => value(message, &field.ty, version),
    }
}

fn value(message: &Message, ty: &Type, version: i16) -> Value {
    match ty {
        Type::Array(element) => json!([value(message, element, version)]),
        Type::Struct(name) => structure(message, name, version),
        Type::Scalar(Scalar::Bool) => json!(false),
        Type::Scalar(Scalar::String) => json!("sample"),
        Type::Scalar(Scalar::Bytes) => json!("hex:c0ffee"),
        Type::Scalar(Scalar::Records) => json!("n=1 ts=1"),
        Type::Scalar(Scalar::Uuid) => json!("MkU3OEVBNTcwNTJENDM2Qg"),
        Type::Scalar(_) => json!(7),
    }
}
