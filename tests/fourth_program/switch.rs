//! weir with the fourth program.

#[allow(dead_code, reason = "what tests ask")]
mod program;

use std::process::ExitCode;

use weir::program::Programs;

fn main() -> ExitCode {
    weir::cli::run(Programs::of_weir().with::<program::Microbursts>())
}
