//! `odradek config-docs`

use super::Outcome;

/// Print the documentation of every option as Markdown.
///
/// This is what CONFIG.md is made of: name, type, default, accepted values, where the option can be changed, and whether
/// this broker acts on it.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> Outcome {
    print!("{}", config::markdown());
    Ok(())
}
