//! A network namespace for a generator and a switch.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The generator's interfaces, and the switch's ends of the veth pairs.
pub const GENERATOR: [&str; 2] = ["h1", "h2"];
pub const SWITCH: [&str; 2] = ["p1", "p2"];

/// Prefix of a namespace's name; the number of the process that made it follows.
const PREFIX: &str = "weir-suite-";

/// Gone when it is dropped.
pub struct Place {
    name: String,
}

impl Place {
    pub fn new() -> Result<Self> {
        remove_stale();
        let place = Self { name: format!("{PREFIX}{}", std::process::id()) };
        run(&["ip", "netns", "add", &place.name])?;
        // Neighbour discovery would be traffic as well.
        run(&[&place.prefix()[..], &["sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"]].concat())?;
        Ok(place)
    }

    /// Words in front of a program that runs here.
    pub fn prefix(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.name]
    }

    /// Pairs of interfaces between generator and switch.
    pub fn veths(&self) -> Result<()> {
        for (host, switch) in GENERATOR.into_iter().zip(SWITCH) {
            self.ip(&["link", "add", switch, "type", "veth", "peer", "name", host])?;
            for end in [host, switch] {
                self.ip(&["link", "set", end, "up"])?;
            }
        }
        Ok(())
    }

    /// The kernel's bridge between the switch's ends.
    pub fn bridge(&self) -> Result<()> {
        self.ip(&["link", "add", "br0", "type", "bridge"])?;
        for port in SWITCH {
            self.ip(&["link", "set", port, "master", "br0"])?;
        }
        self.ip(&["link", "set", "br0", "up"])
    }

    /// Whether an interface is there and up.
    pub fn is_up(&self, interface: &str) -> bool {
        let output = Command::new("ip").args(["-n", &self.name, "-o", "link", "show", interface, "up"]).output();
        output.is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
    }

    fn ip(&self, words: &[&str]) -> Result<()> {
        run(&[&["ip", "-n", &self.name][..], words].concat())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = run(&["ip", "netns", "delete", &self.name]);
    }
}

/// Removes the namespaces of processes that were killed.
fn remove_stale() {
    let Ok(entries) = fs::read_dir("/run/netns") else { return };
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        if name.strip_prefix(PREFIX).is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = run(&["ip", "netns", "delete", &name]);
        }
    }
}

fn run(words: &[&str]) -> Result<()> {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output().context(words.join(" "))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", words.join(" "), error.trim());
    Ok(())
}
