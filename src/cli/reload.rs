//! `weir reload`: a running switch reads its configuration file again.

use clap::Args;

use super::show::Where;
use super::{Failure, help, output};
use crate::api::view;

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir reload",
    "weir reload --name edge1 --json",
]))]
pub struct Reload {
    #[command(flatten)]
    at: Where,
}

impl Reload {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let reloaded: view::Reloaded = self.at.client()?.post("/v1/reload", &())?;
        output::document(json, &reloaded, text)
    }
}

/// The changes, a line each.
pub fn text(reloaded: &view::Reloaded) -> String {
    if reloaded.changes.is_empty() { "nothing has changed".into() } else { reloaded.changes.join("\n") }
}
