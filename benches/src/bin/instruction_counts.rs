//! Runs one step of `micro` so and so many times and nothing else, to be watched by callgrind: `instruction_counts NAME TIMES`.
//! Without arguments it lists the names.

use std::process::ExitCode;

use odradek_benches::micro;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(name) = args.next() else {
        micro::CASES.iter().for_each(|case| println!("{}", case.name));
        return ExitCode::SUCCESS;
    };
    let times = args.next().and_then(|text| text.parse::<u64>().ok());
    let (Some(case), Some(times)) = (micro::case(&name), times) else {
        eprintln!("usage: instruction_counts NAME TIMES");
        return ExitCode::from(2);
    };
    let mut step = (case.make)();
    (0..times).for_each(|_| step());
    ExitCode::SUCCESS
}
