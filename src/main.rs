//! weir with its own telemetry programs.

use std::process::ExitCode;

use weir::program::Programs;

fn main() -> ExitCode {
    weir::cli::run(Programs::of_weir())
}
