//! `weir config`: checks a file, prints the schema.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Failure, output, placed};
use crate::config::Config;

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
                placed(&config, Some(&file))?;
                if json {
                    return output::json(&config);
                }
                let count = |n: usize, what| output::count(n as u64, what);
                let (ports, programs) = (count(config.ports.len(), "port"), count(config.programs.len(), "program"));
                output::print(&format!("{}: right ({ports}, {programs})", file.display()))
            }
        }
    }
}
