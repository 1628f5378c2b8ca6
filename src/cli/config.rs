//! `weir config`: checks a file, prints the schema.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Failure, output};
use crate::assemble::place;
use crate::config::Config;
use crate::pisa::hash::Polynomials;

#[derive(Debug, Args)]
pub struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Say whether a file is right, and if not, what would be
    Check { file: PathBuf },
    /// Print the JSON Schema of the file
    Schema,
}

impl ConfigCommand {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        match self.action {
            Action::Schema => output::json(&Config::schema()),
            Action::Check { file } => {
                let config = Config::load(&file)?;
                place(&config, &Polynomials::reproducible(0))
                    .map_err(|e| Failure::Usage(format!("{}: {e}", file.display())))?;
                if json {
                    return output::json(&config);
                }
                let (ports, programs) = (config.ports.len(), config.programs.len());
                output::print(&format!("{}: right ({ports} ports, {programs} programs)", file.display()))
            }
        }
    }
}
