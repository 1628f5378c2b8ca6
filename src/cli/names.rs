//! Names that shells complete: those that a running switch or controller has.

use std::ffi::OsString;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};
use clap_complete::{ArgValueCandidates, CompletionCandidate};
use serde::de::DeserializeOwned;

use super::Cli;
use super::show::Where;
use crate::api::view;
use crate::lab::{Lab, Record};
use crate::network::{rpc, socket};
use crate::text::is_name;

/// Maximum time for names: somebody has pressed a key and waits.
const TIMEOUT: Duration = Duration::from_millis(500);

/// A name, and what a shell may say of it.
type Named = (String, String);

/// The ports of the switch that the command asks.
pub fn ports() -> ArgValueCandidates {
    asked("/v1/ports", |all: view::Ports| all.ports.into_iter().map(|port| (port.name, port.dev)).collect())
}

/// Its tables.
pub fn tables() -> ArgValueCandidates {
    let entries = |table: view::Table| (table.name, format!("{} entries", table.entries));
    asked("/v1/tables", move |all: view::Tables| all.tables.into_iter().map(entries).collect())
}

/// The switches of the controller that the command asks.
pub fn members() -> ArgValueCandidates {
    let standing = |connected| if connected { "connected" } else { "absent" }.to_owned();
    let named = move |switch: view::NetworkSwitch| (switch.name, standing(switch.connected));
    asked("/v1/switches", move |all: view::NetworkSwitches| all.switches.into_iter().map(named).collect())
}

/// The labs of this user.
pub fn labs() -> ArgValueCandidates {
    let topology = |lab: Lab| (lab.name.clone(), lab.read().map(|record| record.topology).unwrap_or_default());
    within_time(move || Some(Lab::all(None).ok()?.into_iter().map(topology).collect()))
}

/// The hosts and switches of all labs of this user.
pub fn lab_nodes() -> ArgValueCandidates {
    let nodes = |record: Record| {
        let hosts = record.hosts.into_iter().map(|host| (host.name, host.address.to_string()));
        hosts.chain(record.switches.into_iter().map(|switch| (switch.name, switch.label))).collect::<Vec<_>>()
    };
    within_time(move || {
        let records = Lab::all(None).ok()?.into_iter().filter_map(|lab| lab.read().ok());
        Some(records.flat_map(nodes).collect())
    })
}

/// The switches and controllers that run on this machine.
pub fn running() -> ArgValueCandidates {
    within_time(|| {
        let names = socket::running();
        let is_other = |name: &String| names.iter().any(|controller| rpc::socket_name(controller) == *name);
        Some(names.iter().filter(|name| !is_other(name)).map(|name| (name.clone(), String::new())).collect())
    })
}

/// The names in a document of the switch or controller.
fn asked<D: DeserializeOwned>(
    path: &'static str,
    names: impl Fn(D) -> Vec<Named> + Copy + Send + Sync + 'static,
) -> ArgValueCandidates {
    within_time(move || Some(names(asks(std::env::args_os())?.client().ok()?.get(path).ok()?)))
}

/// The switch that a command line asks. The line stands behind `--`, and need not be whole.
fn asks(arguments: impl Iterator<Item = OsString>) -> Option<Where> {
    let line = arguments.skip_while(|word| word != "--").skip(1);
    let matches = Cli::command().ignore_errors(true).try_get_matches_from(line).ok()?;
    let deepest = std::iter::successors(Some(&matches), |matches| Some(matches.subcommand()?.1)).last()?;
    // A command that asks no switch has no such option.
    deepest.try_contains_id(Where::NAME).ok()?;
    Where::from_arg_matches(deepest).ok()
}

/// The names that are found within [`TIMEOUT`], or none. The process ends afterwards, whatever its
/// threads still wait for.
fn within_time(find: impl Fn() -> Option<Vec<Named>> + Copy + Send + Sync + 'static) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        let (found, names) = sync_channel(1);
        // Without a thread nothing is found.
        let _ = std::thread::Builder::new().spawn(move || found.send(find()));
        let names = names.recv_timeout(TIMEOUT).ok().flatten().unwrap_or_default();
        let candidate =
            |(name, about): Named| CompletionCandidate::new(name).help((!about.is_empty()).then(|| about.into()));
        // A shell puts them on the command line as they are.
        names.into_iter().filter(|(name, _)| is_name(name)).map(candidate).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_of_an_unfinished_line() {
        let name = |line: &str| {
            let words = ["weir", "--", "weir"].into_iter().chain(line.split(' ')).map(OsString::from);
            asks(words).map(|asked| asked.name)
        };
        for line in [
            "port up --name edge ",
            "port --name edge up ",
            "port up --name=edge --json ",
            "table --name edge add acl action=deny ",
            "port mtu --name edge a ",
            "evict  --name edge",
        ] {
            assert_eq!(name(line).as_deref(), Some("edge"), "{line}");
        }
        assert_eq!(name("port up ").as_deref(), Some("weir"), "the default");
        assert_eq!(name("shell a -- ls --name edge").as_deref(), Some("weir"), "words of another command");
        for line in ["replay ", "", "--bogus port up "] {
            assert_eq!(name(line), None, "{line}");
        }
    }
}
