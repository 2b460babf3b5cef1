//! `odradek check-machine`

use std::fmt::Write as _;
use std::path::PathBuf;

use super::{Exit, Outcome, start};
use crate::config_file;
use crate::machine::{Checked, Demand, Machine, Weight};

/// Column at which the advice begins.
const ADVICE_COLUMN: usize = 28;

/// Look at the machine and say what to change on it.
///
/// Looks at kernel, limits, CPUs, memory and disks, and says of each whether it is as a node of this configuration would like
/// it, and what to change if it is not; tuning/README.md says why, and what was measured. Nothing is changed. A node says the
/// same in its log when it starts, but for what is only worth trying.
///
/// The exit status is 1 if something will be felt.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The node's properties file; without one, the configuration of a node without a file.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Set one option over the file or the built-in configuration; may be repeated.
    #[arg(long = "override", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let properties = match &args.config {
        Some(path) => config_file::read(path, &args.overrides)?,
        None => config_file::with_overrides(start::built_in(None)?, &args.overrides)?,
    };
    let config = config_file::parse(properties)?;
    let checked = Machine::read().with_processes().check(&Demand::of(&config));
    print!("{}", table(&checked));
    let is_felt = checked.iter().flat_map(|one| &one.findings).any(|finding| finding.weight == Weight::Serious);
    if is_felt { Err(Exit { message: String::new(), status: 1 }) } else { Ok(()) }
}

/// A line for everything that was looked at, and one for each finding.
fn table(checked: &[Checked]) -> String {
    let mut out = String::new();
    let mut line = |what: &str, verdict: &str, advice: &str| {
        let head = format!("{what:<17} {verdict}");
        let _ = writeln!(out, "{}", format!("{head:<ADVICE_COLUMN$}{advice}").trim_end());
    };
    for Checked { what, findings } in checked {
        if findings.is_empty() {
            line(what, "ok", "");
        }
        for finding in findings {
            let verdict = match finding.weight {
                Weight::Serious => "CHANGE",
                Weight::Minor => "advised",
                Weight::Optional => "try",
            };
            line(what, verdict, &finding.advice);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Finding;

    #[test]
    fn every_check_and_every_finding_has_a_line() {
        let finding = |advice: &str, weight| Finding { advice: advice.to_owned(), weight };
        let checked = [
            Checked { what: "kernel", findings: vec![] },
            Checked { what: "CPU quota", findings: vec![finding("lift it", Weight::Serious)] },
            Checked {
                what: "file system",
                findings: vec![finding("a", Weight::Minor), finding("b", Weight::Optional)],
            },
        ];
        let expected = "\
kernel            ok
CPU quota         CHANGE    lift it
file system       advised   a
file system       try       b
";
        assert_eq!(table(&checked), expected);
    }
}
