//! `weir port NAME up|down`.

use clap::{Args, ValueEnum};

use super::show::Where;
use super::{Failure, output};

#[derive(Debug, Args)]
pub struct Port {
    /// The port's name
    port: String,
    #[arg(value_enum)]
    state: State,
    #[command(flatten)]
    at: Where,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Up,
    Down,
}

impl Port {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        if !crate::config::is_name(&self.port) {
            return Err(Failure::Usage(format!("no port can be called {:?}; `weir show ports` lists them", self.port)));
        }
        let up = matches!(self.state, State::Up);
        let answer: serde_json::Value =
            self.at.client()?.put(&format!("/v1/ports/{}/link", self.port), &serde_json::json!({ "up": up }))?;
        if json { output::json(&answer) } else { Ok(()) }
    }
}
