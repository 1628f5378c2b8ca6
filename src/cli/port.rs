//! `weir port`: the ports of a running switch.

use clap::{Args, Subcommand, ValueEnum};

use super::show::Where;
use super::{Failure, output};
use crate::config::{PortConfig, default_mtu};
use crate::control::api::NewPort;
use crate::control::view;
use crate::switch::Role;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Port {
    #[command(subcommand)]
    verb: Option<Verb>,
    // `weir port NAME up|down`, the other way round.
    #[arg(hide = true, required = true)]
    name: Option<String>,
    #[arg(hide = true, required = true)]
    state: Option<State>,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Open a device and add it
    Add(Add),
    /// Remove a port and close its device
    Remove {
        /// The port's name
        name: String,
    },
    /// Take a port up
    Up {
        /// The port's name
        name: String,
    },
    /// Take a port down
    Down {
        /// The port's name
        name: String,
    },
}

#[derive(Debug, Args)]
struct Add {
    /// The port and its device, as `weir run --port` takes them
    #[arg(value_name = "NAME=DEV")]
    port: PortConfig,
    /// Largest IP packet
    #[arg(long, value_name = "BYTES", default_value_t = default_mtu())]
    mtu: u32,
    /// What stands at the other end
    #[arg(long, value_enum, default_value = "host")]
    role: Role,
    /// In a switch that joins ports in pairs: the port that it is joined with
    #[arg(long, value_name = "NAME")]
    pair: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Up,
    Down,
}

impl Port {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let client = || self.at.client();
        let (name, up) = match (self.verb, self.name, self.state) {
            (Some(Verb::Add(add)), ..) => {
                let PortConfig { name, dev, .. } = add.port;
                let new = NewPort { name, dev, role: add.role, mtu_bytes: add.mtu, pair: add.pair };
                let added: view::Port = client()?.post("/v1/ports", &new)?;
                return if json { output::json(&added) } else { Ok(()) };
            }
            (Some(Verb::Remove { name }), ..) => {
                checked(&name)?;
                let removed: view::Port = client()?.delete(&format!("/v1/ports/{name}"))?;
                return if json { output::json(&removed) } else { Ok(()) };
            }
            (Some(Verb::Up { name }), ..) => (name, true),
            (Some(Verb::Down { name }), ..) => (name, false),
            (None, Some(name), Some(state)) => (name, matches!(state, State::Up)),
            (None, ..) => return Err(Failure::Usage("weir port: name what to do, and the port".into())),
        };
        checked(&name)?;
        let answer: serde_json::Value =
            client()?.put(&format!("/v1/ports/{name}/link"), &serde_json::json!({ "up": up }))?;
        if json { output::json(&answer) } else { Ok(()) }
    }
}

/// Names stand in paths.
fn checked(name: &str) -> Result<(), Failure> {
    if crate::config::is_name(name) {
        return Ok(());
    }
    Err(Failure::Usage(format!("no port can be called {name:?}; `weir show ports` lists them")))
}
