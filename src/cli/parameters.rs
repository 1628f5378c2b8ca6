//! `weir parameters`: what the switches of a controller measure.

use clap::Args;

use super::show::Where;
use super::{Failure, help, output};
use crate::api::view;
use crate::program::ProgramConfig;

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir parameters {networked} --name net",
]))]
pub struct ChangeParameters {
    #[arg(
        value_name = "PROGRAM[:KEY=VALUE,…]",
        help = help::of_programs("The program with its parameters, as `weir controller --program` takes it"),
        add = help::programs(),
    )]
    program: ProgramConfig,
    #[command(flatten)]
    at: Where,
}

impl ChangeParameters {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let changed: view::ChangedParameters = self.at.client()?.put("/v1/parameters", &self.program)?;
        if json {
            return output::json(&changed);
        }
        let view::ChangedParameters { program, from_epoch, from_ns, .. } = changed;
        output::print(&format!("{program}: from {} on, epoch {from_epoch}", output::time_of(from_ns)))
    }
}
