//! The differential test bed: the same request goes to Apache Kafka and to Odradek, and the decoded answers are compared.
//!
//! The client knows requests and answers from the schemas alone, not from the generated code, so that it can also say what
//! no correct client says: any field in any version, wrong counts, unknown tags, bytes left over. The cases are data:
//! [`script`] describes their notation, [`bed`] runs them.

pub mod batches;
pub mod bed;
pub mod compare;
pub mod decode;
pub mod encode;
pub mod sample;
pub mod schema;
pub mod script;
pub mod side;
pub mod text;
