//! `weir show`: asks a running switch.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::archive::FromArchive;
use super::counts::{balance_text, ports_page};
use super::epochs::Epochs;
use super::output::{self, Cell, Format, Page, Table, Tables, row};
use super::remote::Remote;
use super::{Failure, help, names};
use crate::answers;
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
    "weir show heavy --archive DIR --last 2d",
]))]
pub struct Show {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    archive: FromArchive,
    #[command(flatten)]
    tables: Tables,
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
    /// How the export to an IPFIX collector stands, and what could not be sent
    #[command(after_help = help::examples(&[
        "weir show ipfix --name edge1",
    ]))]
    Ipfix,
    /// How the export to an OpenTelemetry collector stands, and what could not be sent
    #[command(after_help = help::examples(&[
        "weir show otlp --name edge1",
    ]))]
    Otlp,
    /// The flows that lost packets, and how many: what entered and did not leave
    #[command(after_help = help::examples(&[
        "weir show losses",
        "weir show losses --name net --last 1m --top 100",
        "weir show losses --name net --where --last 30s",
        "weir show losses --name net --where --alarm-rate 1e-3",
        "weir show losses --name net --each --count 10 --json",
    ]))]
    Losses {
        /// The links and switches that lost them instead, with the flows of each
        #[arg(long = "where")]
        places: bool,
        /// With --where, for links and switches that do not count packets: the largest share of packets that
        /// one loses without being called failed
        #[arg(long, default_value_t = answers::ALARM_RATE, value_name = "SHARE", requires = "places")]
        alarm_rate: f64,
        #[command(flatten)]
        epochs: Epochs,
    },
    /// The largest flows of the last epoch (of the window, where a program adds them up), and how many there are
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
        let format = &self.tables.format(json)?;
        let Self { what, at, archive, .. } = self;
        let client = || match archive.is_given() {
            true => Err(Failure::Usage("--archive: an archive answers about flows and epochs alone".into())),
            false => at.client(),
        };
        macro_rules! epochs {
            ($epochs:ident, $path:literal, $page:expr) => {
                $epochs.show(&$epochs.answerer(&archive, &at)?, format, $path, $page)
            };
        }
        match what {
            What::Ports { since_reset: true } => ask(&client()?, SINCE_RESET, format, since_reset_page),
            What::Ports { .. } => ask(&client()?, "/v1/ports", format, ports_page),
            What::Drops { since_reset } => {
                let drops = view::Drops::of(&client()?.get(if since_reset { SINCE_RESET } else { "/v1/ports" })?);
                output::page(format, &drops, view::Drops::page)
            }
            What::Macs => ask(&client()?, "/v1/macs", format, macs_page),
            What::Otlp => ask(&client()?, "/v1/otlp", format, view::Otlp::page),
            What::Ipfix => ask(&client()?, "/v1/ipfix", format, view::Exported::page),
            What::Api => ask(&client()?, "/v1/api", format, api_page),
            What::Losses { places: true, alarm_rate, epochs } => {
                let (answerer, alarm_rate) = (epochs.answerer(&archive, &at)?, format!("&alarm_rate={alarm_rate}"));
                epochs.show_with(&answerer, format, "/v1/places", &alarm_rate, answers::Places::page)
            }
            What::Losses { places: false, epochs, .. } => epochs!(epochs, "/v1/losses", answers::Losses::page),
            What::Flows(epochs) => epochs!(epochs, "/v1/flows", answers::FlowSizes::page),
            What::Changes(epochs) => epochs!(epochs, "/v1/changes", answers::HeavyChanges::page),
            What::Cardinality(epochs) => {
                epochs!(epochs, "/v1/cardinality", answers::Numbers::cardinality_page)
            }
            What::Entropy(epochs) => epochs!(epochs, "/v1/entropy", answers::Numbers::entropy_page),
            What::Attention(epochs) => epochs!(epochs, "/v1/attention", answers::Attention::page),
            What::Paths(epochs) => epochs!(epochs, "/v1/paths", answers::Paths::page),
            What::Latency(epochs) => epochs!(epochs, "/v1/latency", answers::Latency::page),
            What::Loops(epochs) => epochs!(epochs, "/v1/loops", answers::Loops::page),
            What::Utilisation(epochs) => epochs!(epochs, "/v1/utilisation", answers::Utilisation::page),
            What::Values(epochs) => epochs!(epochs, "/v1/values", answers::Values::page),
            What::Switches => ask(&client()?, "/v1/switches", format, switches_page),
            What::Controller => ask(&client()?, "/v1/controller", format, controller_page),
            What::Heavy(epochs) => epochs!(epochs, "/v1/heavy", answers::HeavyFlows::page),
        }
    }
}

/// Prints a document of the API.
fn ask<D: Serialize + DeserializeOwned>(
    client: &Client,
    path: &str,
    format: &Format,
    page: fn(&D) -> Page,
) -> Result<(), Failure> {
    output::page(format, &client.get(path)?, page)
}

pub(super) fn switches_page(network: &view::NetworkSwitches) -> Page {
    let row = |switch: &view::NetworkSwitch| {
        row![
            &switch.name,
            if switch.connected { "connected" } else { "absent" },
            &switch.software,
            switch.programs.join(", "),
            switch.records,
            switch.unsent_records,
            switch.refused_records,
            switch.last_refusal.as_deref().unwrap_or_default(),
        ]
    };
    let columns = [
        "switch",
        "state",
        "software",
        "programs",
        ">records",
        ">not sent|unsent_records",
        ">refused|refused_records",
        "last refusal",
    ];
    let epoch = Duration::from_nanos(network.epoch_ns);
    let passed_over = match network.passed_over_epochs {
        0 => String::new(),
        epochs => format!("; {} were passed over", output::grouped(epochs)),
    };
    let late = match network.late_packets {
        0 => String::new(),
        packets => format!("; {} left later than the horizon", output::count(packets, "packet")),
    };
    Page::default()
        .table("switches", Table::new(columns, network.switches.iter().map(row)))
        .text(format!("epochs of {}{passed_over}{late}", Length(epoch)))
}

pub(super) fn controller_page(link: &view::ControllerLink) -> Page {
    let standing = match &link.why {
        Some(why) => format!("not connected: {why}"),
        None => "connected".into(),
    };
    let table = counts_table(
        "what",
        &[
            ("connections", link.connections),
            ("records sent", link.sent_records),
            ("records not sent", link.unsent_records),
            ("records hashed otherwise", link.foreign_records),
            ("updates", link.updates),
        ],
    );
    let page = Page::default().text(format!("controller {}: {standing}", link.at)).table("controller", table);
    link.programs.iter().fold(page, |page, view::LinkedProgram { program, refused, attention }| {
        let refused = refused.as_ref().map(|why| format!(" is not taken: {why}")).unwrap_or_default();
        let attention = attention.as_ref().map(|measured| format!(": {}", super::top::attention(measured)));
        page.text(format!("{program}{refused}{}", attention.unwrap_or_default()))
    })
}

fn counts_table(heading: &str, counts: &[(&str, u64)]) -> Table {
    let row = |(what, n): &(&str, u64)| row![Cell::new(*what, what.replace(' ', "_").to_lowercase()), *n];
    Table::new([heading, ">count"], counts.iter().map(row))
}

/// The counters since the reset, and under them what they are since the start.
pub fn since_reset_page(since: &view::SinceReset) -> Page {
    let seconds = since.since_reset_seconds;
    let since_when = if since.reset { "the reset" } else { "the start (there was no reset)" };
    let total = balance_text(&since.total_packets);
    ports_page(&since.ports).text(format!("counted from {since_when} {seconds:.1} s ago; in all {total}"))
}

pub(super) fn macs_page(macs: &view::MacTable) -> Page {
    let row = |entry: &view::MacEntry| {
        let silent = Cell::new(format!("{} s", entry.age_seconds), entry.age_seconds);
        row![&entry.mac, Cell::plain(entry.vlan), &entry.port, silent, entry.moves]
    };
    let columns = ["MAC address|mac", ">VLAN", "port", ">silent for|age_seconds", ">moves"];
    Page::default().table("macs", Table::new(columns, macs.macs.iter().map(row)).keyed(2))
}

pub(super) fn api_page(api: &view::Api) -> Page {
    Page::default().table(
        "api",
        counts_table(
            "API|what",
            &[
                ("connections to the control socket", api.socket_connections),
                ("connections by TLS", api.tls_connections),
                ("TLS handshakes that failed", api.failed_handshakes),
                ("connections by TLS that were one too many", api.refused_connections),
            ],
        ),
    )
}
