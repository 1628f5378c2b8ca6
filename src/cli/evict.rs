//! `weir evict`: a switch that left a controller's network for good.

use clap::Args;

use super::show::Where;
use super::{Failure, help, names, output, possible_name};
use crate::api::view;

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir evict edge2 --name net",
]))]
pub struct Evict {
    /// The switch's name
    #[arg(value_name = "SWITCH", add = names::members())]
    left: String,
    #[command(flatten)]
    at: Where,
}

impl Evict {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let left = possible_name("switch", &self.left, "`weir show switches` lists them")?;
        let forgotten: view::EvictedSwitch = self.at.client()?.delete(&format!("/v1/switches/{left}"))?;
        output::done(json, &forgotten)
    }
}
