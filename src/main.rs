//! weir with its own telemetry programs.

use std::process::ExitCode;

use weir::program::Programs;

/// An epoch's analysis makes and drops an object or two for each flow, side by side with the packets.
#[cfg(feature = "dpdk")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    weir::cli::run(Programs::of_weir())
}
