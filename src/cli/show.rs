//! `weir show`: asks a running switch.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::counts::{balance_text, drops_text, ports_text};
use super::network::{
    Epochs, attention_text, cardinality_text, changes_text, entropy_text, flows_text, heavy_text, latency_text,
    loops_text, losses_text, paths_text, utilisation_text, values_text,
};
use super::remote::Remote;
use super::{Failure, help, names, output};
use crate::api::client::{Client, ClientError};
use crate::api::view;
use crate::config::Length;
use crate::network::socket;

/// Counters less the baseline, a document that has all keys of the one without.
const SINCE_RESET: &str = "/v1/ports/since-reset";

/// The switch to ask.
#[derive(Debug, Args)]
pub struct Where {
    /// The switch's name
    // Commands that take a port's name call that `name`.
    #[arg(id = Self::NAME, long = "name", global = true, default_value = "weir", value_name = "NAME", help_heading = help::SWITCH, add = names::running())]
    pub(super) name: String,
    /// Its control socket, when it is not at the usual place
    #[arg(long, global = true, value_name = "PATH", help_heading = help::SWITCH)]
    socket: Option<PathBuf>,
    #[command(flatten)]
    remote: Remote,
}

impl Where {
    /// The option's name among the arguments.
    pub const NAME: &str = "switch";

    pub fn client(&self) -> Result<Client, Failure> {
        if let Some(client) = self.remote.client()? {
            return Ok(client);
        }
        let path = self.socket.clone().map_or_else(|| socket::path(&self.name), Ok).map_err(Failure::failed)?;
        Client::connect(path).map_err(Failure::from)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused { .. } => Self::Usage(error.to_string()),
            _ => Self::failed(error),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir show ports",
    "weir show heavy --top 5 --last 1m",
    "weir show losses --name net --each --json",
]))]
pub struct Show {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Counters and links of all ports
    #[command(after_help = help::examples(&[
        "weir show ports",
        "weir show ports --since-reset --json",
    ]))]
    Ports {
        /// Count from the last `weir stats reset`
        #[arg(long)]
        since_reset: bool,
    },
    /// Every dropped packet, by port and reason
    #[command(after_help = help::examples(&[
        "weir show drops",
        "weir show drops --name edge1 --since-reset",
    ]))]
    Drops {
        /// Count from the last `weir stats reset`
        #[arg(long)]
        since_reset: bool,
    },
    /// MAC addresses that the switch has learned
    #[command(after_help = help::examples(&[
        "weir show macs --name edge1",
    ]))]
    Macs,
    /// Connections to the switch's API, and those that were refused
    #[command(after_help = help::examples(&[
        "weir show api --json",
    ]))]
    Api,
    /// The flows that lost packets, and how many: what entered and did not leave
    #[command(after_help = help::examples(&[
        "weir show losses",
        "weir show losses --name net --last 1m --top 100",
        "weir show losses --name net --each --count 10 --json",
    ]))]
    Losses(Epochs),
    /// The largest flows of the last epoch, and how many flows there are of each size
    #[command(after_help = help::examples(&[
        "weir show flows --top 5",
        "weir show flows --name net --threshold 1000 --json",
    ]))]
    Flows(Epochs),
    /// The flows whose sizes changed most between the last two epochs
    #[command(after_help = help::examples(&[
        "weir show changes --top 5",
        "weir show changes --each",
    ]))]
    Changes(Epochs),
    /// How many flows there are, epoch by epoch
    #[command(after_help = help::examples(&[
        "weir show cardinality",
        "weir show cardinality --last 1m --json",
    ]))]
    Cardinality(Epochs),
    /// The entropy of flow sizes, epoch by epoch
    #[command(after_help = help::examples(&[
        "weir show entropy",
        "weir show entropy --each --json",
    ]))]
    Entropy(Epochs),
    /// The parameters of each epoch: healthy or ill, partition of memory, thresholds, and why
    /// they change
    #[command(after_help = help::examples(&[
        "weir show attention --last 2s",
        "weir show attention --name net --each",
    ]))]
    Attention(Epochs),
    /// The switches that flows cross, and how sure that is
    #[command(after_help = help::examples(&[
        "weir show paths --name net",
        "weir show paths --name net --top 100 --json",
    ]))]
    Paths(Epochs),
    /// The time that packets of flows take in each switch
    #[command(after_help = help::examples(&[
        "weir show latency --name net --top 5",
        "weir show latency --name net --each --json",
    ]))]
    Latency(Epochs),
    /// Flows whose packets came back to a switch, and which switch saw it
    #[command(after_help = help::examples(&[
        "weir show loops --name net",
        "weir show loops --name net --last 1m --json",
    ]))]
    Loops(Epochs),
    /// How busy the busiest link is that packets of flows cross
    #[command(after_help = help::examples(&[
        "weir show utilisation --name net --top 5",
    ]))]
    Utilisation(Epochs),
    /// What else packets of flows tell of the switches on their way: ports, queues, times
    #[command(after_help = help::examples(&[
        "weir show values --name net",
        "weir show values --name net --last 1m --json",
    ]))]
    Values(Epochs),
    /// How the switch stands with its controller
    #[command(after_help = help::examples(&[
        "weir show controller --name edge1",
    ]))]
    Controller,
    /// The switches of a controller's network
    #[command(after_help = help::examples(&[
        "weir show switches --name net",
    ]))]
    Switches,
    /// The heaviest flows
    #[command(after_help = help::examples(&[
        "weir show heavy --top 3",
        "weir show heavy --program {program} --last 1m",
        "weir show heavy --each --json",
    ]))]
    Heavy(Epochs),
}

impl Show {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let client = self.at.client()?;
        match self.what {
            What::Ports { since_reset: true } => ask(&client, SINCE_RESET, json, since_reset_text),
            What::Ports { .. } => ask(&client, "/v1/ports", json, ports_text),
            What::Drops { since_reset } => {
                let drops = view::Drops::of(&client.get(if since_reset { SINCE_RESET } else { "/v1/ports" })?);
                output::document(json, &drops, drops_text)
            }
            What::Macs => ask(&client, "/v1/macs", json, macs_text),
            What::Api => ask(&client, "/v1/api", json, api_text),
            What::Losses(epochs) => epochs.show(&client, json, "/v1/losses", losses_text),
            What::Flows(epochs) => epochs.show(&client, json, "/v1/flows", flows_text),
            What::Changes(epochs) => epochs.show(&client, json, "/v1/changes", changes_text),
            What::Cardinality(epochs) => epochs.show(&client, json, "/v1/cardinality", cardinality_text),
            What::Entropy(epochs) => epochs.show(&client, json, "/v1/entropy", entropy_text),
            What::Attention(epochs) => epochs.show(&client, json, "/v1/attention", attention_text),
            What::Paths(epochs) => epochs.show(&client, json, "/v1/paths", paths_text),
            What::Latency(epochs) => epochs.show(&client, json, "/v1/latency", latency_text),
            What::Loops(epochs) => epochs.show(&client, json, "/v1/loops", loops_text),
            What::Utilisation(epochs) => epochs.show(&client, json, "/v1/utilisation", utilisation_text),
            What::Values(epochs) => epochs.show(&client, json, "/v1/values", values_text),
            What::Switches => ask(&client, "/v1/switches", json, switches_text),
            What::Controller => ask(&client, "/v1/controller", json, controller_text),
            What::Heavy(epochs) => epochs.show(&client, json, "/v1/heavy", heavy_text),
        }
    }
}

/// Prints a document of the API.
fn ask<D: Serialize + DeserializeOwned>(
    client: &Client,
    path: &str,
    json: bool,
    text: fn(&D) -> String,
) -> Result<(), Failure> {
    output::document(json, &client.get(path)?, text)
}

pub(super) fn switches_text(network: &view::NetworkSwitches) -> String {
    let row = |switch: &view::NetworkSwitch| {
        [
            switch.name.clone(),
            if switch.connected { "connected" } else { "absent" }.into(),
            switch.software.clone(),
            switch.programs.join(", "),
            output::grouped(switch.records),
            output::grouped(switch.unsent_records),
            output::grouped(switch.refused_records),
            switch.last_refusal.clone().unwrap_or_default(),
        ]
    };
    let headings = ["switch", "", "software", "programs", ">records", ">not sent", ">refused", "last refusal"];
    let epoch = Duration::from_nanos(network.epoch_ns);
    let passed_over = match network.passed_over_epochs {
        0 => String::new(),
        epochs => format!("; {} were passed over", output::grouped(epochs)),
    };
    let late = match network.late_packets {
        0 => String::new(),
        packets => format!("; {} left later than the horizon", output::count(packets, "packet")),
    };
    let table = output::table(headings, network.switches.iter().map(row));
    format!("{table}\n\nepochs of {}{passed_over}{late}", Length(epoch))
}

fn controller_text(link: &view::ControllerLink) -> String {
    let standing = match &link.why {
        Some(why) => format!("not connected: {why}"),
        None => "connected".into(),
    };
    let rows = [
        ("connections", link.connections),
        ("records sent", link.sent_records),
        ("records not sent", link.unsent_records),
        ("records hashed otherwise", link.foreign_records),
        ("updates", link.updates),
    ];
    let rows = rows.map(|(what, n)| [what.to_owned(), output::grouped(n)]);
    let mut text = format!("controller {}: {standing}\n\n{}", link.at, output::table(["", ">count"], rows));
    for view::LinkedProgram { program, refused, attention } in &link.programs {
        let refused = refused.as_ref().map(|why| format!(" is not taken: {why}")).unwrap_or_default();
        text += &format!("\n\n{program}{refused}");
        text +=
            &attention.as_ref().map(|measured| format!(": {}", super::top::attention(measured))).unwrap_or_default();
    }
    text
}

/// The counters since the reset, and under them what they are since the start.
pub fn since_reset_text(since: &view::SinceReset) -> String {
    let seconds = since.since_reset_seconds;
    let since_when = if since.reset { "the reset" } else { "the start (there was no reset)" };
    let total = balance_text(&since.total_packets);
    format!("{}\n\ncounted from {since_when} {seconds:.1} s ago; in all {total}", ports_text(&since.ports))
}

fn macs_text(macs: &view::MacTable) -> String {
    let row = |entry: &view::MacEntry| {
        let silent = format!("{} s", entry.age_seconds);
        [entry.mac.clone(), entry.vlan.to_string(), entry.port.clone(), silent, output::grouped(entry.moves)]
    };
    output::table(["MAC address", ">VLAN", "port", ">silent for", ">moves"], macs.macs.iter().map(row))
}

fn api_text(api: &view::Api) -> String {
    let rows = [
        ("connections to the control socket", api.socket_connections),
        ("connections by TLS", api.tls_connections),
        ("TLS handshakes that failed", api.failed_handshakes),
        ("connections by TLS that were one too many", api.refused_connections),
    ];
    output::table(["API", ">count"], rows.map(|(what, n)| [what.into(), output::grouped(n)]))
}
