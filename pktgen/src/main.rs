//! Traffic with known truth.

#[cfg(feature = "dpdk")]
mod run;
#[cfg(feature = "dpdk")]
mod stateful;
mod trace;
#[cfg(feature = "dpdk")]
mod trials;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use weir::cli::manual;
use weir::cli::output::Style;

#[derive(Parser)]
#[command(
    name = "pktgen",
    version,
    about = "Traffic with known truth for weir",
    max_term_width = 100,
    after_help = "\
EXAMPLES
  pktgen trace --workload isp/burst,packets=1M --out isp.pcap --truth isp.csv
  pktgen run --tx ring:a --rx ring:a --flows 1000 --rate 100kpps --duration 2s"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Send at a rate, receive, and say what became of each frame
    #[cfg(feature = "dpdk")]
    Run(run::Arguments),
    /// Hold the TCP conversations of a capture between a client and a server of its own
    #[cfg(feature = "dpdk")]
    Conversations(stateful::Arguments),
    /// Find the highest load at which no larger share of the packets is lost (RFC 2544)
    #[cfg(feature = "dpdk")]
    Throughput(trials::Throughput),
    /// Send at loads that rise in steps, and show loss and latency of each
    #[cfg(feature = "dpdk")]
    Steps(trials::Steps),
    /// Find the longest burst of which nothing is lost (RFC 9004)
    #[cfg(feature = "dpdk")]
    BackToBack(trials::BackToBack),
    /// Write a generated workload as a pcap file, and its exact counts beside it
    Trace(trace::Arguments),
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man { directory: std::path::PathBuf },
    /// Print the completions of a shell
    #[command(after_help = "EXAMPLES\n  pktgen completions bash > /etc/bash_completion.d/pktgen")]
    Completions { shell: manual::Shell },
}

/// Why a command ended early, by exit code.
#[derive(Debug)]
pub enum Failure {
    /// 1: something went wrong while running.
    Failed(anyhow::Error),
    /// 2: wrong usage.
    Usage(String),
    /// 3: a threshold that was asked for was missed.
    Missed(String),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<weir::cli::Failure> for Failure {
    fn from(failure: weir::cli::Failure) -> Self {
        match failure {
            weir::cli::Failure::Failed(why) => Self::Failed(anyhow::Error::msg(why)),
            weir::cli::Failure::Usage(why) => Self::Usage(why),
            weir::cli::Failure::Missed(why) => Self::Missed(why),
        }
    }
}

fn main() -> ExitCode {
    Style::of_stdout().set();
    let result = match Arguments::parse().command {
        #[cfg(feature = "dpdk")]
        Command::Run(arguments) => run::run(&arguments),
        #[cfg(feature = "dpdk")]
        Command::Conversations(arguments) => stateful::run(&arguments),
        #[cfg(feature = "dpdk")]
        Command::Throughput(command) => command.run(),
        #[cfg(feature = "dpdk")]
        Command::Steps(command) => command.run(),
        #[cfg(feature = "dpdk")]
        Command::BackToBack(command) => command.run(),
        Command::Trace(arguments) => trace::run(&arguments).map_err(Failure::from),
        Command::Man { directory } => {
            manual::write_pages(Arguments::command(), &directory).map_err(|error| Failure::Failed(error.into()))
        }
        Command::Completions { shell } => {
            print!("{}", manual::completions(shell, Arguments::command()));
            Ok(())
        }
    };
    let (code, message) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Failed(error)) => (1, format!("{error:#}")),
        Err(Failure::Usage(message)) => (2, message),
        Err(Failure::Missed(message)) => (3, message),
    };
    say(format_args!("pktgen: {message}"));
    ExitCode::from(code)
}

/// Prints a line on stderr, and ignores errors: the terminal may be gone.
fn say(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
#[path = "../../tests/common/help.rs"]
mod help;

#[cfg(all(test, feature = "dpdk"))]
mod tests {
    use super::*;

    /// Every command has examples, each of which the command line takes, and help of 80 columns.
    #[test]
    fn help_has_examples_that_can_be_typed() {
        let wrong = help::wrong(Arguments::command());
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let pages = manual::pages(Arguments::command()).unwrap();
        for (name, page) in pages.iter().filter(|(name, _)| name != "pktgen-man") {
            assert!(page.contains(".SH EXAMPLES\n.nf\n"), "{name}");
        }
    }
}
