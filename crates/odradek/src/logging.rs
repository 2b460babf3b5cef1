//! The broker's own log: lines on standard output.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// Environment variable that overrides `odradek.log.level`.
const VARIABLE: &str = "ODRADEK_LOG";

/// Begins to log what `level` says, or the environment.
pub(crate) fn start(level: &str) -> Result<(), String> {
    let chosen = std::env::var(VARIABLE).unwrap_or_else(|_| level.to_owned());
    let filter = filter(&chosen).map_err(|error| format!("{VARIABLE} or odradek.log.level {chosen:?}: {error}"))?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_target(true).with_ansi(is_terminal());
    subscriber.try_init().map_err(|error| error.to_string())
}

fn filter(text: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(text)
}

fn is_terminal() -> bool {
    use std::io::IsTerminal;
    std::io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_lists_are_accepted() {
        for text in ["info", "warn", "info,log=debug", "error,broker::handlers=trace"] {
            assert!(filter(text).is_ok(), "{text}");
        }
        assert!(filter("info,log=loud").is_err());
    }
}
