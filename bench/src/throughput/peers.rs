//! weir beside `dpdk-testpmd`: the same devices, one core each, 64-byte frames, in turns.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

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
}

/// Who forwards.
#[derive(Clone, Copy, PartialEq)]
enum Contender {
    Weir,
    /// testpmd in this forwarding mode.
    Testpmd(&'static str),
}

impl Contender {
    const ALL: [Self; 3] = [Self::Weir, Self::Testpmd("macswap"), Self::Testpmd("io")];

    fn name(self) -> String {
        match self {
            Self::Weir => "weir xconnect".into(),
            Self::Testpmd(mode) => format!("testpmd {mode}"),
        }
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
        let mut all = Vec::new();
        for huge in [true, false].into_iter().filter(|huge| with_huge || !huge) {
            for device in DEVICES {
                let rates = |contender| Rates { contender, device, huge, rates: Vec::new() };
                all.extend(Contender::ALL.map(rates));
            }
        }
        for round in 1..=self.rounds {
            for entry in &mut all {
                let rate = match entry.contender {
                    Contender::Weir => self.weir(entry.device, entry.huge),
                    Contender::Testpmd(mode) => self.testpmd(mode, entry.device, entry.huge),
                };
                entry.rates.push(rate.with_context(|| format!("{} on {}", entry.contender.name(), entry.device))?);
            }
            eprintln!("round {round} of {} done", self.rounds);
        }
        report(&all, self.rounds);
        Ok(())
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

    /// testpmd prints each port's rate once a second; the first is of the start, and what counts is the median.
    fn testpmd(&self, mode: &str, device: &str, huge: bool) -> Result<f64> {
        let (driver, arguments) = match device {
            "null" => ("net_null", ""),
            "null:copy=1" => ("net_null", ",copy=1"),
            "ring" => ("net_ring", ""),
            other => bail!("no testpmd device for {other}"),
        };
        let main = if self.core == 0 { 1 } else { 0 };
        let mut command = Command::new("dpdk-testpmd");
        command.args(["--lcores", &format!("{main},{}", self.core), "--no-pci", "--no-telemetry", "--no-shconf"]);
        command.args(["--file-prefix", "weir-bench"]);
        command.args(if huge { &["-m", "128"][..] } else { &["--no-huge", "-m", "256"] });
        for i in 0..2 {
            command.args(["--vdev", &format!("{driver}{i}{arguments}")]);
        }
        command.args(["--", "--nb-cores=1", "--stats-period=1", "--total-num-mbufs=16384"]);
        command.arg(format!("--forward-mode={mode}"));
        if device == "ring" {
            command.args(["--tx-first"]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("dpdk-testpmd does not start (apt-get install dpdk-dev)")?;
        let mut stdin = child.stdin.take().context("no stdin")?;
        let wait = Duration::from_secs_f64(self.seconds.max(1.0) + 2.5);
        std::thread::spawn(move || {
            std::thread::sleep(wait);
            let _ = stdin.write_all(b"\n");
        });
        let mut ports: [Vec<f64>; 2] = Default::default();
        let mut port = 0;
        for line in BufReader::new(child.stdout.take().context("no stdout")?).lines() {
            let line = line?;
            if let Some((_, id)) = line.split_once("NIC statistics for port ") {
                port = id.split_whitespace().next().and_then(|id| id.parse().ok()).unwrap_or(0);
            } else if let Some(rate) = line.trim().strip_prefix("Tx-pps:") {
                let rate = rate.split_whitespace().next().unwrap_or_default();
                ports.get_mut(port).context("an unknown port")?.push(rate.parse()?);
            }
        }
        child.wait()?;
        let rate = |rates: &[f64]| match rates {
            [_, rest @ ..] if !rest.is_empty() => Ok(Spread::of(rest.to_vec()).median),
            _ => bail!("testpmd printed no rates"),
        };
        Ok(rate(&ports[0])? + rate(&ports[1])?)
    }
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
