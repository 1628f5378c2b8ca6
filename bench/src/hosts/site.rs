//! Two hosts and a place for a switch: three network namespaces, gone when the site is dropped.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::child;
use crate::throughput::ovs::Ovs;

/// The hosts' interfaces, and the switch's ends of them where these are veth pairs.
pub const HOSTS: [&str; 2] = ["h1", "h2"];
pub const SWITCH: [&str; 2] = ["p1", "p2"];
const ADDRESSES: [&str; 2] = ["10.99.0.1", "10.99.0.2"];

pub struct Site {
    spaces: [String; 3],
    /// The switch, unless it is the kernel's.
    running: Option<Child>,
    ovs: Option<Ovs>,
}

/// Words in front of a program that runs in a namespace.
fn enter(space: &str) -> [&str; 4] {
    ["ip", "netns", "exec", space]
}

impl Site {
    pub fn new() -> Result<Self> {
        let id = std::process::id();
        let spaces = ["s", "a", "b"].map(|name| format!("weir-bench-{id}-{name}"));
        let site = Self { spaces, running: None, ovs: None };
        for space in &site.spaces {
            run(&["ip", "netns", "add", space])?;
            run(&["ip", "-n", space, "link", "set", "lo", "up"])?;
        }
        Ok(site)
    }

    fn host(&self, i: usize) -> &str {
        &self.spaces[i + 1]
    }

    /// Words that run in the switch's namespace.
    pub fn in_switch<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        [&enter(&self.spaces[0])[..], words].concat()
    }

    fn in_host<'a>(&'a self, i: usize, words: &[&'a str]) -> Vec<&'a str> {
        [&enter(self.host(i))[..], words].concat()
    }

    /// A veth pair to each host.
    pub fn veths(&self) -> Result<()> {
        for (i, (host, switch)) in HOSTS.into_iter().zip(SWITCH).enumerate() {
            let space = &self.spaces[0];
            run(&[
                "ip",
                "-n",
                space,
                "link",
                "add",
                switch,
                "type",
                "veth",
                "peer",
                "name",
                host,
                "netns",
                self.host(i),
            ])?;
            run(&["ip", "-n", space, "link", "set", switch, "up"])?;
        }
        Ok(())
    }

    /// Moves TAP interfaces of the hosts' names, which the switch has made, to the hosts.
    pub fn observers(&self) -> Result<()> {
        for (i, host) in HOSTS.into_iter().enumerate() {
            let there = || run(&["ip", "-n", &self.spaces[0], "link", "show", host]).is_ok();
            eventually("the TAP interface", there)?;
            if i == 0 {
                // The switch still sets it up, by a name that it must find in its own namespace.
                sleep(Duration::from_secs(2));
            }
            run(&["ip", "-n", &self.spaces[0], "link", "set", host, "netns", self.host(i)])?;
        }
        Ok(())
    }

    /// Starts the switch in its namespace.
    pub fn start(&mut self, words: &[&str]) -> Result<()> {
        let mut command = child::command(&enter(&self.spaces[0]), words[0]);
        // What testpmd prints without a terminal would fill a pipe.
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.running = Some(command.spawn().with_context(|| format!("{words:?}"))?);
        Ok(())
    }

    /// Starts OVS-DPDK in the switch's namespace.
    pub fn start_ovs(&mut self, devices: &[String; 2]) -> Result<()> {
        self.ovs = Some(Ovs::start(&self.in_switch(&[]), devices, 0)?);
        Ok(())
    }

    /// Gives the hosts their addresses and waits until they reach each other.
    pub fn connect(&self, offloads: bool) -> Result<()> {
        for (i, host) in HOSTS.into_iter().enumerate() {
            run(&["ip", "-n", self.host(i), "addr", "add", &format!("{}/24", ADDRESSES[i]), "dev", host])?;
            run(&["ip", "-n", self.host(i), "link", "set", host, "up"])?;
            if !offloads {
                run(&self.in_host(i, &["ethtool", "-K", host, "tx", "off", "gso", "off", "tso", "off", "gro", "off"]))?;
            }
        }
        let ping = self.in_host(0, &["ping", "-n", "-q", "-c", "1", "-W", "1", ADDRESSES[1]]);
        eventually("the hosts to reach each other", || run(&ping).is_ok())
    }

    /// Bits a second of TCP, one stream.
    pub fn tcp(&self, seconds: f64) -> Result<f64> {
        let mut server = child::command(&enter(self.host(1)), "iperf3");
        let mut server = server.args(["-s", "-1"]).stdout(Stdio::null()).spawn()?;
        let seconds = format!("{seconds:.0}");
        let client = self.in_host(0, &["timeout", "30", "iperf3", "-J", "-c", ADDRESSES[1], "-t", &seconds]);
        sleep(Duration::from_millis(300));
        let output = run(&client);
        let _ = server.kill();
        server.wait()?;
        let document: serde_json::Value = serde_json::from_str(&output?)?;
        document["end"]["sum_received"]["bits_per_second"].as_f64().context("iperf3 gave no rate")
    }

    /// Round trips in microseconds, sorted.
    pub fn round_trips(&self, count: usize) -> Result<Vec<f64>> {
        let count = count.to_string();
        let words = self.in_host(0, &["ping", "-n", "-i", "0.002", "-c", &count, "-W", "1", ADDRESSES[1]]);
        let output = run(&words)?;
        let time = |line: &str| line.split_once("time=")?.1.split(' ').next()?.parse::<f64>().ok();
        let mut times: Vec<f64> = output.lines().filter_map(time).map(|milliseconds| milliseconds * 1000.0).collect();
        ensure!(!times.is_empty(), "no ping came back");
        times.sort_by(f64::total_cmp);
        Ok(times)
    }

    /// Share of a core that the switch takes while nobody sends.
    pub fn idle(&self, time: Duration) -> Result<Option<f64>> {
        let of_ovs = || self.ovs.as_ref().and_then(Ovs::pid);
        let Some(pid) = self.running.as_ref().map(Child::id).or_else(of_ovs) else { return Ok(None) };
        sleep(Duration::from_secs(1));
        let before = cpu_seconds(pid)?;
        let started = Instant::now();
        sleep(time);
        Ok(Some((cpu_seconds(pid)? - before) / started.elapsed().as_secs_f64()))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            // Drained, as a user would stop it; and killed should it hang.
            let _ = run(&["kill", "-INT", &running.id().to_string()]);
            let ended = eventually("the switch to end", || running.try_wait().is_ok_and(|status| status.is_some()));
            if ended.is_err() {
                let _ = running.kill();
            }
            let _ = running.wait();
        }
        self.ovs = None;
        for space in &self.spaces {
            let _ = run(&["ip", "netns", "delete", space]);
        }
    }
}

/// User and system time of a process: `ip netns exec` becomes the program that it runs.
fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("the switch has ended")?;
    let fields = stat.rsplit_once(')').context("a line of /proc/PID/stat")?.1.split_ascii_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    // USER_HZ, which Linux has fixed at 100.
    Ok(ticks / 100.0)
}

/// Runs words to their end and gives what they printed.
pub fn run(words: &[&str]) -> Result<String> {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output().context(words.join(" "))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", words.join(" "), error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn eventually(what: &str, mut there: impl FnMut() -> bool) -> Result<()> {
    let started = Instant::now();
    while !there() {
        ensure!(started.elapsed() < Duration::from_secs(15), "waited in vain for {what}");
        sleep(Duration::from_millis(100));
    }
    Ok(())
}
