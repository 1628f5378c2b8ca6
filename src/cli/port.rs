//! `weir port`: the ports of a running switch.

use clap::{Args, Subcommand};

use super::show::Where;
use super::{Failure, output};
use crate::api::view;
use crate::api::{Link, Mtu, NewPort, Promiscuous};
use crate::config::{PortConfig, default_mtu};
use crate::switch::Role;

#[derive(Debug, Args)]
pub struct Port {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Open a device and add it
    Add(Box<Add>),
    /// Remove a port and close its device
    Remove {
        /// The port's name
        port: String,
    },
    /// Take a port up
    Up {
        /// The port's name
        port: String,
    },
    /// Take a port down
    Down {
        /// The port's name
        port: String,
    },
    /// Take frames for other MAC addresses in, or no longer
    Promiscuous {
        /// The port's name
        port: String,
        /// on or off
        #[arg(value_enum)]
        wanted: Switched,
    },
    /// Change a port's largest IP packet
    Mtu {
        /// The port's name
        port: String,
        /// Bytes; the packet buffers bound them
        #[arg(value_name = "BYTES")]
        bytes: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Switched {
    On,
    Off,
}

#[derive(Debug, Args)]
struct Add {
    /// The port and its device, as `weir run --port` takes them
    #[arg(value_name = "NAME=DEV")]
    port: PortConfig,
    /// Largest IP packet
    #[arg(long, value_name = "BYTES", default_value_t = default_mtu())]
    mtu: u32,
    /// The kind of the other end
    #[arg(long, value_enum, default_value = "host")]
    role: Role,
    /// In a switch that joins ports in pairs: the port that it is joined with
    #[arg(long, value_name = "NAME")]
    pair: Option<String>,
}

impl Port {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let client = || self.at.client();
        match self.verb {
            Verb::Add(add) => {
                let PortConfig { name, dev, .. } = add.port;
                let new = NewPort { name, dev, role: add.role, mtu_bytes: add.mtu, pair: add.pair };
                answer(&client()?.post::<view::Port>("/v1/ports", &new)?, json)
            }
            Verb::Remove { port } => answer(&client()?.delete::<view::Port>(&path(&port, "")?)?, json),
            Verb::Up { port } => answer(&client()?.put::<Link>(&path(&port, "/link")?, &Link { up: true })?, json),
            Verb::Promiscuous { port, wanted } => {
                let wanted = Promiscuous { on: wanted == Switched::On };
                answer(&client()?.put::<Promiscuous>(&path(&port, "/promiscuous")?, &wanted)?, json)
            }
            Verb::Mtu { port, bytes } => {
                answer(&client()?.put::<Mtu>(&path(&port, "/mtu")?, &Mtu { mtu_bytes: bytes })?, json)
            }
            Verb::Down { port } => answer(&client()?.put::<Link>(&path(&port, "/link")?, &Link { up: false })?, json),
        }
    }
}

/// Nothing needs to be said of what was done, unless a program asks.
fn answer(document: &impl serde::Serialize, json: bool) -> Result<(), Failure> {
    if json { output::json(document) } else { Ok(()) }
}

/// The path of what the API has of a port.
fn path(port: &str, what: &str) -> Result<String, Failure> {
    if crate::config::is_name(port) {
        return Ok(format!("/v1/ports/{port}{what}"));
    }
    Err(Failure::Usage(format!("no port can be called {port:?}; `weir show ports` lists them")))
}
