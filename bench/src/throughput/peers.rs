//! weir beside `dpdk-testpmd` and OVS-DPDK: the same devices, one core each, 64-byte frames, in
//! turns.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::bars;
use super::ovs::{self, Ovs};
use super::{Spread, machine};

#[derive(Args)]
pub struct Peers {
    /// Rounds; in each, every contender runs once on every device
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each run
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// The core that polls
    #[arg(long, default_value_t = 1)]
    core: usize,
    /// Draws the medians as a bar chart, an SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Who forwards.
#[derive(Clone, Copy, PartialEq)]
enum Contender {
    Weir,
    /// testpmd in this forwarding mode.
    Testpmd(&'static str),
    Ovs,
}

impl Contender {
    const ALL: [Self; 4] = [Self::Weir, Self::Testpmd("macswap"), Self::Testpmd("io"), Self::Ovs];

    fn name(self) -> String {
        match self {
            Self::Weir => "weir xconnect".into(),
            Self::Testpmd(mode) => format!("testpmd {mode}"),
            Self::Ovs => "OVS-DPDK, one flow entry each way".into(),
        }
    }

    /// Whether it can forward between two of these. OVS needs huge pages, and it has no way to put
    /// the first packets into a ring.
    fn can(self, device: &str, huge: bool) -> bool {
        self != Self::Ovs || (huge && device != "ring" && ovs::is_installed())
    }
}

const DEVICES: [&str; 3] = ["null", "null:copy=1", "ring"];

/// The rates of one contender on one device, with or without huge pages.
struct Rates {
    contender: Contender,
    device: &'static str,
    huge: bool,
    rates: Vec<f64>,
}

impl Peers {
    pub fn run(&self) -> Result<()> {
        ensure!(self.rounds > 0, "--rounds: at least one");
        let huge_pages = std::fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap_or_default();
        let with_huge = huge_pages.trim().parse::<u64>().unwrap_or(0) >= 128;
        if !with_huge {
            eprintln!("no huge pages: only runs without them (echo 512 > /proc/sys/vm/nr_hugepages for both)");
        }
        if !ovs::is_installed() {
            eprintln!("no OVS-DPDK: it is left out (apt-get install openvswitch-switch-dpdk)");
        }
        let mut all = Vec::new();
        for huge in [true, false].into_iter().filter(|huge| with_huge || !huge) {
            for device in DEVICES {
                let rates = |contender| Rates { contender, device, huge, rates: Vec::new() };
                all.extend(Contender::ALL.into_iter().filter(|who| who.can(device, huge)).map(rates));
            }
        }
        for round in 1..=self.rounds {
            for entry in &mut all {
                let rate = match entry.contender {
                    Contender::Weir => self.weir(entry.device, entry.huge),
                    Contender::Testpmd(mode) => self.testpmd(mode, entry.device, entry.huge),
                    Contender::Ovs => self.ovs(entry.device),
                };
                entry.rates.push(rate.with_context(|| format!("{} on {}", entry.contender.name(), entry.device))?);
            }
            eprintln!("round {round} of {} done", self.rounds);
        }
        report(&all, self.rounds);
        self.svg.as_ref().map_or(Ok(()), |path| chart(&all, self.rounds, path))
    }

    fn weir(&self, device: &str, huge: bool) -> Result<f64> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["forward", "--dev", device, "--core", &self.core.to_string()]);
        command.args(["--seconds", &self.seconds.to_string()]);
        if !huge {
            command.arg("--no-huge-pages");
        }
        let output = command.stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "bench forward ended with {}", output.status);
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    }

    /// testpmd prints each port's rate once a second, from when it has started, which may take
    /// longer than the run itself. So it runs until it has printed enough of them.
    fn testpmd(&self, mode: &str, device: &str, huge: bool) -> Result<f64> {
        let (driver, arguments) = driver(device)?;
        let main = if self.core == 0 { 1 } else { 0 };
        // With --stats-period testpmd runs until it is interrupted, whatever comes on its standard
        // input. One that prints nothing is interrupted as well, and so is its end awaited.
        let mut command = Command::new("timeout");
        let wanted = self.seconds.max(1.0).ceil();
        let seconds = wanted + START_SECONDS;
        command.args(["--signal=INT", &seconds.to_string(), "dpdk-testpmd"]);
        command.args(["--lcores", &format!("{main},{}", self.core), "--no-pci", "--no-telemetry"]);
        command.args(["--file-prefix", "weir-bench"]);
        command.args(if huge { &["--in-memory", "-m", "512"][..] } else { &["--no-huge", "--no-shconf", "-m", "256"] });
        for i in 0..2 {
            command.args(["--vdev", &format!("{driver}{i}{arguments}")]);
        }
        command.args(["--", "--nb-cores=1", "--stats-period=1", "--total-num-mbufs=16384"]);
        command.arg(format!("--forward-mode={mode}"));
        if device == "ring" {
            command.args(["--tx-first"]);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("dpdk-testpmd does not start (apt-get install dpdk-dev)")?;
        let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        let rate = rates(&mut lines, wanted as usize);
        // timeout passes it on. What is still printed is read, so that testpmd does not wait for a
        // reader.
        Command::new("kill").args(["-INT", &child.id().to_string()]).status()?;
        lines.for_each(drop);
        child.wait()?;
        rate
    }

    fn ovs(&self, device: &str) -> Result<f64> {
        let (driver, arguments) = driver(device)?;
        Ovs::start(driver, arguments, self.core)?.rate(Duration::from_secs_f64(self.seconds))
    }
}

/// DPDK's driver of a device, and the device arguments.
fn driver(device: &str) -> Result<(&'static str, &'static str)> {
    Ok(match device {
        "null" => ("net_null", ""),
        "null:copy=1" => ("net_null", ",copy=1"),
        "ring" => ("net_ring", ""),
        other => bail!("no DPDK device for {other}"),
    })
}

/// Longest time that testpmd may take to start.
const START_SECONDS: f64 = 60.0;

/// Both ports' rates, added: of each the median of `wanted` values. A port's first is of the start
/// and does not count.
fn rates(lines: &mut impl Iterator<Item = std::io::Result<String>>, wanted: usize) -> Result<f64> {
    let mut ports: [Vec<f64>; 2] = Default::default();
    let mut port = 0;
    while ports.iter().any(|rates| rates.len() <= wanted) {
        let line = lines.next().context("testpmd ended before it had printed enough rates")??;
        if let Some((_, id)) = line.split_once("NIC statistics for port ") {
            port = id.split_whitespace().next().and_then(|id| id.parse().ok()).unwrap_or(0);
        } else if let Some(rate) = line.trim().strip_prefix("Tx-pps:") {
            let rate = rate.split_whitespace().next().unwrap_or_default();
            ports.get_mut(port).context("an unknown port")?.push(rate.parse()?);
        }
    }
    Ok(ports.map(|rates| Spread::of(rates[1..=wanted].to_vec()).median).into_iter().sum())
}

fn report(all: &[Rates], rounds: usize) {
    println!(
        "{}; 64-byte frames, one core, both directions added; median (least–most) of {rounds} runs in turns\n",
        machine()
    );
    println!("| device | huge pages | forwards | M packets/s | ÷ testpmd macswap |\n| --- | --- | --- | --- | --- |");
    let rates = |contender, device, huge| {
        all.iter().find(|r| (r.contender, r.device, r.huge) == (contender, device, huge)).map(|r| &r.rates)
    };
    let ratio = |a: &[f64], b: &[f64]| Spread::of(a.iter().zip(b).map(|(a, b)| a / b).collect());
    for entry in all {
        let millions = Spread::of(entry.rates.iter().map(|rate| rate / 1e6).collect());
        let beside = rates(Contender::Testpmd("macswap"), entry.device, entry.huge);
        let ratio = beside.map_or(String::new(), |macswap| format!("{:.2}", ratio(&entry.rates, macswap)));
        let huge = if entry.huge { "yes" } else { "no" };
        println!("| {} | {huge} | {} | {millions:.1} | {ratio} |", entry.device, entry.contender.name());
    }
    println!();
    for device in DEVICES {
        if let (Some(without), Some(with)) =
            (rates(Contender::Weir, device, false), rates(Contender::Weir, device, true))
        {
            println!("weir on {device} without huge pages ÷ with: {:.2}", ratio(without, with));
        }
    }
}

/// The medians as bars, a group for each device; with huge pages, or without if there are none. A
/// ring passes buffers on and no packets, which is no rate to show beside those of ports.
fn chart(all: &[Rates], rounds: usize, path: &std::path::Path) -> Result<()> {
    let huge = all.iter().any(|entry| entry.huge);
    let bars = |device: &str| {
        let of_device = all.iter().filter(|entry| entry.device == device && entry.huge == huge);
        of_device.map(|entry| (entry.contender.name(), Spread::of(entry.rates.clone()).median / 1e6)).collect()
    };
    let ports = DEVICES.iter().filter(|device| **device != "ring");
    let groups: Vec<_> = ports.map(|device| (format!("{device} ports"), bars(device))).collect();
    let pages = if huge { "with huge pages" } else { "without huge pages" };
    let note =
        format!("64-byte frames, both directions added, median of {rounds} runs in turns; {}, {pages}", machine());
    bars::draw("Million packets per second through one core", &groups, &note, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(rates: &[[u64; 2]]) -> Vec<String> {
        let port = |id: usize, rate: u64| {
            [
                format!("  ######################## NIC statistics for port {id}  ####"),
                format!("  Tx-pps:   {rate}   Tx-bps: 7"),
            ]
        };
        rates.iter().flat_map(|[a, b]| port(0, *a).into_iter().chain(port(1, *b))).collect()
    }

    #[test]
    fn as_many_rates_are_read_as_the_run_has_seconds() {
        let lines = printed(&[[3, 5], [100, 200], [110, 220], [120, 240]]);
        let mut lines = lines.into_iter().map(Ok);
        assert_eq!(rates(&mut lines, 1).unwrap(), 300.0);
        assert_eq!(lines.count(), 8, "no more is waited for");
        let mut lines = printed(&[[3, 5], [100, 200], [130, 230], [120, 240]]).into_iter().map(Ok);
        assert_eq!(rates(&mut lines, 3).unwrap(), 350.0);
        let error = rates(&mut printed(&[[3, 5]]).into_iter().map(Ok), 1).unwrap_err().to_string();
        assert!(error.contains("before it had printed enough"), "{error}");
    }
}
