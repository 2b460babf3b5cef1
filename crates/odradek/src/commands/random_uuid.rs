//! `odradek random-uuid`

use base::Uuid;

use super::Outcome;

/// Print a random cluster or directory id.
///
/// The id has 22 characters of URL-safe base64, never begins with a dash and is none of the reserved ones.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> Outcome {
    println!("{}", reactor::block_on(async { fresh_uuid() }));
    Ok(())
}

/// A random id. Runs on a core of the reactor, where chance comes from.
pub(crate) fn fresh_uuid() -> Uuid {
    loop {
        let bits = u128::from(reactor::random_u64()) << 64 | u128::from(reactor::random_u64());
        if let Some(id) = Uuid::from_random_bits(bits) {
            return id;
        }
    }
}
