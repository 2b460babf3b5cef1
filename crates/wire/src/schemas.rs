//! The text of the record schemas, for tools that show records field by field. The broker itself uses generated code only.

/// Family (`metadata`, `group`, `txn`, `share`, `tiered`, `control`, ...) and text of every schema file of records, in the
/// notation of the `wiregen` crate.
pub const RECORDS: [(&str, &str); 9] = [
    ("control", include_str!("../schemas/record/control.schema")),
    ("group", include_str!("../schemas/record/group.schema")),
    ("header", include_str!("../schemas/record/header.schema")),
    ("local", include_str!("../schemas/record/local.schema")),
    ("metadata", include_str!("../schemas/record/metadata.schema")),
    ("protocol", include_str!("../schemas/record/protocol.schema")),
    ("share", include_str!("../schemas/record/share.schema")),
    ("tiered", include_str!("../schemas/record/tiered.schema")),
    ("txn", include_str!("../schemas/record/txn.schema")),
];
