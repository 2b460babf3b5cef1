//! Tests of the whole machine inside its shell, with everything it decides committed at once.

mod classic;
mod fuzz;
mod members;
mod offsets;
mod static_members;
pub(crate) mod world;
