//! The `odradek` command.
fn main() {}
