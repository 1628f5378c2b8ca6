//! `weir stats reset` and `weir metrics`.

use clap::{Args, Subcommand};

use super::output::Tables;
use super::show::{Where, since_reset_page};
use super::{Failure, help, output};
use crate::api::metrics::Format;
use crate::api::view::SinceReset;

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir stats reset",
    "weir show ports --since-reset",
]))]
pub struct Stats {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    tables: Tables,
}

#[derive(Debug, Subcommand)]
enum What {
    /// `weir show ports --since-reset` and `show drops --since-reset` count from now on; the totals
    /// and /metrics stay
    #[command(after_help = help::examples(&[
        "weir stats reset --name edge1",
    ]))]
    Reset,
}

impl Stats {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let What::Reset = self.what;
        let format = self.tables.format(json)?;
        let since: SinceReset = self.at.client()?.put("/v1/reset", &())?;
        output::page(&format, &since, since_reset_page)
    }
}

/// Text, also with --json; docs/metrics.md says how Prometheus gets it.
#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir metrics",
    "weir metrics --format prometheus > /var/lib/node_exporter/weir.prom",
]))]
pub struct Metrics {
    /// The node exporter's textfile collector and `promtool check metrics` read prometheus alone
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    at: Where,
}

impl Metrics {
    pub fn run(self, _json: bool) -> Result<(), Failure> {
        output::print(self.at.client()?.text("/metrics", self.format.content_type())?.trim_end())
    }
}
