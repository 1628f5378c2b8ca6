//! `weir openapi`: prints the description of the API.

use clap::Args;

use super::{Failure, help, output};
use crate::api::openapi;

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir openapi > weir.openapi.json",
]))]
pub struct OpenApi {}

impl OpenApi {
    pub fn run(self) -> Result<(), Failure> {
        output::json(&openapi::document())
    }
}
