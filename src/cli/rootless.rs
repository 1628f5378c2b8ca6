//! `weir run --rootless` and `weir shell`: a switch and its hosts in namespaces of an ordinary
//! user's own.
//!
//! The namespaces are made by util-linux's `unshare` and entered by its `nsenter`, which every
//! distribution has: weir calls itself through them, so it stays one process with one id.

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use super::show::Where;
use super::{Failure, help, names, output};
use crate::api::view;
use crate::network::socket;

/// Tells the inner process what it is.
const INSIDE: &str = "WEIR_ROOTLESS";
const UNSHARE: [&str; 3] = ["--user", "--map-root-user", "--net"];

/// Calls this command again in a user and a network namespace. Returns only when that cannot be.
pub fn reenter(name: &str, wanted: Option<PathBuf>) -> Failure {
    if let Err(why) = namespaces_allowed() {
        return Failure::Failed(format!("--rootless: {why}; `weir doctor` says what forbids user namespaces here"));
    }
    // Inside, the user is root, and the usual place for sockets another one.
    let socket = match wanted.clone().map_or_else(|| socket::path(name), Ok) {
        Ok(socket) => socket,
        Err(error) => return Failure::failed(error),
    };
    if wanted.is_none()
        && let Some(directory) = socket.parent()
        && let Err(error) = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
    {
        return Failure::Failed(format!("{}: {error}", directory.display()));
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return Failure::Failed(format!("--rootless: this program is not to be found: {error}")),
    };
    let mut command = Command::new("unshare");
    command.args(UNSHARE).arg(program).args(inner_arguments(std::env::args_os().skip(1), wanted.is_none(), &socket));
    Failure::Failed(format!("unshare: {}", command.env(INSIDE, "1").exec()))
}

fn namespaces_allowed() -> Result<(), String> {
    let tried = Command::new("unshare").args(UNSHARE).arg("true").stdin(Stdio::null()).output();
    let tried = tried.map_err(|error| format!("unshare (package util-linux): {error}"))?;
    let why = String::from_utf8_lossy(&tried.stderr);
    if tried.status.success() { Ok(()) } else { Err(why.trim().trim_start_matches("unshare: ").to_owned()) }
}

/// The arguments without `--rootless`, and with the socket where the user's other commands look for
/// it.
fn inner_arguments(arguments: impl Iterator<Item = OsString>, add: bool, socket: &Path) -> Vec<OsString> {
    let mut inner = Vec::new();
    let mut own = true;
    for argument in arguments {
        // Arguments behind `--` are DPDK's.
        own = own && argument != "--";
        if !(own && argument == "--rootless") {
            inner.push(argument);
        }
    }
    if add {
        let end = inner.iter().position(|argument| argument == "--").unwrap_or(inner.len());
        inner.splice(end..end, ["--socket".into(), socket.into()]);
    }
    inner
}

pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Instructions for a switch that has just started in its namespace.
pub fn how_to_enter(name: &str, ports: &[crate::config::PortConfig]) -> String {
    let pid = std::process::id();
    let program = std::env::args().next().unwrap_or("weir".into());
    let named = if name == "weir" { String::new() } else { format!(" --name {name}") };
    let taps: Vec<_> = ports.iter().zip(1..).filter(|(port, _)| tap(&port.dev.to_string()).is_some()).collect();
    let mut text = String::from("weir: rootless. ");
    if !taps.is_empty() {
        text += "Each in a terminal of its own, a host at each port:";
        for (port, n) in &taps {
            text += &format!("\n  {program} shell{named} {:<8}  # {}", port.name, address(*n));
        }
        text += "\n";
    }
    text += &format!("The switch's own namespace:\n  nsenter --target {pid} --user --net --preserve-credentials");
    text
}

fn tap(dev: &str) -> Option<&str> {
    dev.strip_prefix("tap:")
}

/// The address of the host at the port that is number `n`, counted from 1.
fn address(n: usize) -> String {
    format!("10.0.{}.{}/16", n / 256, n % 256)
}

/// A host at a tap port: a network namespace with the port's interface in it, for as long as the
/// command runs
#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir shell a",
    "weir shell b --address 10.0.0.9/16",
    "weir shell a -- ping 10.0.0.2",
]))]
pub struct Shell {
    /// The port, whose device is a tap
    #[arg(add = names::ports())]
    port: String,
    /// The host's address; by default 10.0.0.1/16 at the first port, 10.0.0.2/16 at the second, and
    /// so on
    #[arg(long, value_name = "ADDRESS/LENGTH")]
    address: Option<String>,
    #[command(flatten)]
    at: Where,
    /// The command to run there; by default your shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// $1 interface, $2 address, $3 the switch's process; the rest is the command. The interface goes
/// back when it ends: one that goes down with its namespace is lost to the switch.
const HOST: &str = r#"
interface=$1 address=$2 switch=$3; shift 3
nsenter --target "$switch" --net ip link set "$interface" netns $$ || {
    echo "weir: is another shell at this port?" >&2; exit 1
}
trap 'ip link set "$interface" netns "$switch"' EXIT
trap exit HUP TERM
ip link set lo up && ip address add "$address" dev "$interface" && ip link set "$interface" up || exit 1
"$@"
"#;

impl Shell {
    pub fn run(self) -> Result<(), Failure> {
        let status: view::Status = self.at.client()?.get("/v1/status")?;
        let ports = &status.totals.ports;
        let names = || ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
        let place = ports.iter().position(|port| port.name == self.port);
        let place = place
            .ok_or_else(|| Failure::Usage(format!("there is no port {}; the ports are {}", self.port, names())))?;
        let interface = tap(&ports[place].dev)
            .ok_or_else(|| Failure::Usage(format!("port {} is {}, not a tap", self.port, ports[place].dev)))?;
        let address = self.address.unwrap_or_else(|| address(place + 1));
        let pid = status.pid.to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &pid]);
        // Of a switch that runs as this user's own root; one of the system's shares its user
        // namespace with this process.
        let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/user")).ok();
        if namespace(&pid) != namespace("self") {
            command.args(["--user", "--preserve-credentials"]);
        } else {
            command.arg("--net");
        }
        command.args(["unshare", "--net", "sh", "-c", HOST, "sh", interface, &address, &pid]);
        if self.command.is_empty() {
            output::say(&format!("weir: the host at port {} is {address}, on {interface}; exit ends it", self.port));
            command.arg(std::env::var_os("SHELL").unwrap_or("sh".into()));
        }
        Err(Failure::Failed(format!("nsenter (package util-linux): {}", command.args(self.command).exec())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inner_command_has_the_outer_socket() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let inner = |text: &str, add| inner_arguments(words(text).into_iter(), add, Path::new("/tmp/s"));
        assert_eq!(inner("run --rootless --port a=tap:a", true), words("run --port a=tap:a --socket /tmp/s"));
        assert_eq!(inner("run --socket x --rootless", false), words("run --socket x"));
        let eal = "run --rootless -- --log-level 8 --rootless";
        assert_eq!(inner(eal, true), words("run --socket /tmp/s -- --log-level 8 --rootless"), "the rest is DPDK's");
    }

    #[test]
    fn hosts_have_addresses_of_their_own() {
        assert_eq!([1, 255, 256].map(address), ["10.0.0.1/16", "10.0.0.255/16", "10.0.1.0/16"]);
    }
}
