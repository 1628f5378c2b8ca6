//! `weir config`: checks a file, prints the schema.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Failure, help, output, placed};
use crate::config::Config;

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir config check weir.toml",
    "weir config schema > weir.schema.json",
]))]
pub struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Say whether a file is right, and if not, what would be
    #[command(after_help = help::examples(&[
        "weir config check weir.toml",
        "weir config check weir.toml --json",
    ]))]
    Check { file: PathBuf },
    /// Print the JSON Schema of the file
    #[command(after_help = help::examples(&[
        "weir config schema > weir.schema.json",
    ]))]
    Schema,
}

impl ConfigCommand {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        match self.action {
            Action::Schema => output::json(&Config::schema()),
            Action::Check { file } => {
                let config = Config::load(&file)?;
                let placement = placed(&config, Some(&file))?;
                #[cfg(feature = "control")]
                certificates(&config)?;
                if json {
                    return output::json(&config);
                }
                let count = |n: usize, what| output::count(n as u64, what);
                let (ports, programs) = (count(config.ports.len(), "port"), count(config.programs.len(), "program"));
                let no_chip =
                    super::no_chip_text(&config, &placement).map_or_else(String::new, |text| format!("\nit {text}"));
                output::print(&format!("{}: right ({ports}, {programs}){no_chip}", file.display()))
            }
        }
    }
}

/// Checks the dates of the certificates that the file names. One that cannot be read here, as on
/// another machine than the switch's, is left unchecked, and stderr says so.
#[cfg(feature = "control")]
fn certificates(config: &Config) -> Result<(), Failure> {
    use crate::network::tls::dates;
    let api = config.api.tls()?.map(|tls| tls.files.certificate);
    let controller = config.controller.files()?.map(|files| files.certificate);
    for (key, file) in [api, controller].into_iter().flatten() {
        match std::fs::read(file) {
            Ok(_) => dates::check((key, file)).map_err(|error| Failure::Usage(error.to_string()))?,
            Err(error) => output::say(&format!("{key} = {}: not checked: {error}", file.display())),
        }
    }
    Ok(())
}
