//! `weir port`: the ports of a running switch.

use clap::{Args, Subcommand};

use super::show::Where;
use super::{Failure, help, names, output, possible_name};
use crate::api::view;
use crate::api::{Fault, Link, Mtu, NewPort, Promiscuous};
use crate::config::{PortConfig, default_mtu};
use crate::port::FaultError;
use crate::switch::Role;

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir port add c=tap:c",
    "weir port down c",
    "weir port remove c",
]))]
pub struct Port {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Open a device and add it
    #[command(after_help = help::examples(&[
        "weir port add c=veth:port3 --mtu 9000",
        "weir port add up=veth:up --role fabric --name edge1",
        "weir port add d=tap:d --pair c",
    ]))]
    Add(Box<Add>),
    /// Remove a port and close its device
    #[command(after_help = help::examples(&[
        "weir port remove c",
    ]))]
    Remove {
        /// The port's name
        #[arg(add = names::ports())]
        port: String,
    },
    /// Take a port up
    #[command(after_help = help::examples(&[
        "weir port up c",
    ]))]
    Up {
        /// The port's name
        #[arg(add = names::ports())]
        port: String,
    },
    /// Take a port down
    #[command(after_help = help::examples(&[
        "weir port down c",
    ]))]
    Down {
        /// The port's name
        #[arg(add = names::ports())]
        port: String,
    },
    /// Take frames for other MAC addresses in, or no longer
    #[command(after_help = help::examples(&[
        "weir port promiscuous a on",
    ]))]
    Promiscuous {
        /// The port's name
        #[arg(add = names::ports())]
        port: String,
        /// on or off
        #[arg(value_enum)]
        wanted: Switched,
    },
    /// Change a port's largest IP packet
    #[command(after_help = help::examples(&[
        "weir port mtu a 9000",
    ]))]
    Mtu {
        /// The port's name
        #[arg(add = names::ports())]
        port: String,
        /// Bytes; the packet buffers bound them
        #[arg(value_name = "BYTES")]
        bytes: u32,
    },
    /// Lose, delay, double, damage or reorder a port's packets on purpose, or no longer
    #[command(after_help = help::examples(&[
        "weir port fault a 'rx:drop=1%;tx:delay=5ms,jitter=1ms'",
        "weir port fault a none",
    ]))]
    Fault {
        /// The port's name
        #[arg(add = names::ports())]
        port: String,
        /// Faults as the configuration file has them, in place of those so far: rx:drop=1%;tx:delay=5ms.
        /// none ends them
        #[arg(value_name = "SPEC", value_parser = fault)]
        fault: Fault,
    },
}

fn fault(text: &str) -> Result<Fault, String> {
    let fault = if text == "none" { None } else { Some(text.parse().map_err(|e: FaultError| e.to_string())?) };
    Ok(Fault { fault })
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
    #[arg(long, value_name = "NAME", add = names::ports())]
    pair: Option<String>,
}

impl Port {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let client = || self.at.client();
        let link = |port: String, up| output::done(json, &client()?.put::<Link>(&path(&port, "/link")?, &Link { up })?);
        match self.verb {
            Verb::Add(add) => {
                let PortConfig { name, dev, .. } = add.port;
                let new = NewPort { name, dev, role: add.role, mtu_bytes: add.mtu, pair: add.pair };
                output::done(json, &client()?.post::<view::Port>("/v1/ports", &new)?)
            }
            Verb::Remove { port } => output::done(json, &client()?.delete::<view::Port>(&path(&port, "")?)?),
            Verb::Up { port } => link(port, true),
            Verb::Down { port } => link(port, false),
            Verb::Promiscuous { port, wanted } => {
                let wanted = Promiscuous { on: wanted == Switched::On };
                output::done(json, &client()?.put::<Promiscuous>(&path(&port, "/promiscuous")?, &wanted)?)
            }
            Verb::Mtu { port, bytes } => {
                output::done(json, &client()?.put::<Mtu>(&path(&port, "/mtu")?, &Mtu { mtu_bytes: bytes })?)
            }
            Verb::Fault { port, fault } => {
                output::done(json, &client()?.put::<Fault>(&path(&port, "/fault")?, &fault)?)
            }
        }
    }
}

/// The path of what the API has of a port.
fn path(port: &str, what: &str) -> Result<String, Failure> {
    Ok(format!("/v1/ports/{}{what}", possible_name("port", port, "`weir show ports` lists them")?))
}
