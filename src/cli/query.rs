//! `weir query`: asks a running switch, a controller or an archive about certain flows.

use clap::{Args, Subcommand};

use super::archive::FromArchive;
use super::epochs::{Window, flow_parameter};
use super::output::Csv;
use super::show::Where;
use super::{Failure, help};
use crate::answers::Frequency;
use crate::wire::Pattern;

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir query frequency --flow '10.0.0.1:80 → 10.0.0.2:* tcp' --last 1m",
    "weir query frequency --flow '10.0.0.1 → *:443' --archive DIR --last 2d",
]))]
pub struct Query {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    archive: FromArchive,
    #[command(flatten)]
    csv: Csv,
}

#[derive(Debug, Subcommand)]
enum What {
    /// How many packets (or bytes, where they are counted) flows have, with bounds
    ///
    /// "At most" is certain. "At least" is certain, or holds with the probability that is printed.
    #[command(after_help = help::examples(&[
        "weir query frequency --flow '10.0.0.1:80 → 10.0.0.2:* tcp' --last 1m",
        "weir query frequency --flow '10.0.0.1 → *:443' --name net --json",
        "weir query frequency --flow '10.0.0.0/24 → *' --program {program} --each",
    ]))]
    Frequency {
        /// The flow, or all flows like this, as "10.0.0.1:80 → 10.0.0.0/24:* tcp" (-> for the arrow, * for
        /// any)
        #[arg(long, value_name = "FLOW")]
        flow: Pattern,
        #[command(flatten)]
        window: Window,
    },
}

impl Query {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let format = &self.csv.format(json)?;
        match self.what {
            What::Frequency { flow, window } => {
                let path = format!("/v1/frequency?{}", flow_parameter(&flow));
                let answerer = window.answerer(&self.archive, &self.at)?;
                window.show(&answerer, format, &path, Frequency::page)
            }
        }
    }
}
