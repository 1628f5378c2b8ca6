//! How long PINT's inference takes by the number of switches on a path, and how many reports one
//! core of a recorder takes.

mod decode;
mod recorder;

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use weir::pisa::cpu::{self, Instructions};

/// Decode time against the number of switches, and reports a second that one core records.
#[derive(Args)]
pub struct Inference {
    /// Paths of each length, and epochs of each kind of reports
    #[arg(long, default_value_t = 200)]
    runs: usize,
    /// Switches that may be on a path; 754 are Kentucky Datalink's
    #[arg(long, default_value_t = 754)]
    switches: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The instructions that hashes use at most, to compare with other CPUs
    #[arg(long, value_enum, default_value_t = Instructions::Avx512)]
    instructions: Instructions,
}

impl Inference {
    pub fn run(&self) -> Result<()> {
        ensure!(
            self.runs > 0 && self.switches > decode::MAX_LENGTH,
            "--runs: at least 1, --switches: more than a path has"
        );
        cpu::limit(self.instructions);
        println!("{}\n", machine());
        decode::run(self.runs, self.switches, self.seed);
        println!();
        recorder::run(self.runs, self.seed)
    }
}

/// The CPU and what it is compiled for.
fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field =
        |name| cpus.lines().find_map(|line| line.strip_prefix(name)?.split_once(": ")).map_or("?", |(_, text)| text);
    let flags: Vec<_> = field("flags").split(' ').collect();
    let wanted = ["sse4_2", "pclmulqdq", "avx2", "avx512f", "gfni"];
    let features: Vec<_> = wanted.into_iter().filter(|feature| flags.contains(feature)).collect();
    format!("{}; {}", field("model name"), features.join(", "))
}

/// Median and 99th percentile.
struct Times {
    median: Duration,
    tail: Duration,
}

impl Times {
    /// Of at least one.
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |share: f64| times[((share * times.len() as f64).ceil() as usize).clamp(1, times.len()) - 1];
        Self { median: at(0.5), tail: at(0.99) }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
