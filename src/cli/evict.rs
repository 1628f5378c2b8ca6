//! `weir evict`: a switch that left a controller's network for good.

use clap::Args;

use super::show::Where;
use super::{Failure, output};
use crate::api::view;

#[derive(Debug, Args)]
pub struct Evict {
    /// The switch's name
    #[arg(value_name = "SWITCH")]
    left: String,
    #[command(flatten)]
    at: Where,
}

impl Evict {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        if !crate::config::is_name(&self.left) {
            return Err(Failure::Usage(format!(
                "no switch can be called {:?}; `weir show switches` lists them",
                self.left
            )));
        }
        let forgotten: view::EvictedSwitch = self.at.client()?.delete(&format!("/v1/switches/{}", self.left))?;
        // Nothing needs to be said of what was done, unless a program asks.
        if json { output::json(&forgotten) } else { Ok(()) }
    }
}
