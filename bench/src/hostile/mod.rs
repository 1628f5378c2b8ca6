//! `weir run` under hostile traffic: how much of its rate is left, and whether every packet is
//! accounted for.

mod frames;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use crate::throughput::{Spread, machine};
use frames::Traffic;

#[derive(Args)]
pub struct Hostile {
    /// Rounds; in each, every kind of traffic runs once
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of each run
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Different frames of each kind, sent over and over
    #[arg(long, default_value_t = 100_000)]
    frames: usize,
    /// The weir to run; by default the one beside this program
    #[arg(long)]
    weir: Option<PathBuf>,
    /// Only scenes of which the switch's or the traffic's name contains this, such as random, MAC
    /// or rules
    #[arg(long, default_value = "")]
    only: String,
}

/// A switch, the traffic that hurts it, and the ordinary traffic that this is measured by.
struct Scene {
    name: &'static str,
    /// Words for `weir run`.
    switch: &'static [&'static str],
    /// The rest of its configuration file.
    file: fn() -> String,
    attack: Traffic,
}

const SCENES: [Scene; 4] = [
    Scene { name: "learn", switch: &["--forward", "learn"], file: String::new, attack: Traffic::Macs },
    Scene {
        name: "learn, HashPipe",
        switch: &["--forward", "learn", "--program", "hashpipe"],
        file: String::new,
        attack: Traffic::Random,
    },
    Scene { name: "xconnect, 400 rules", switch: &["--forward", "xconnect"], file: rules, attack: Traffic::Tuples },
    Scene {
        name: "HashPipe",
        switch: &["--forward", "xconnect", "--program", "hashpipe"],
        file: String::new,
        attack: Traffic::Tuples,
    },
];

/// Rules that the traffic has to be held against, and hardly a packet matches.
fn rules() -> String {
    let rule = |i: u32| {
        let (proto, length) = (["tcp", "udp"][i as usize % 2], 16 + i % 9);
        let source = std::net::Ipv4Addr::from((0xc612_0000 + (i << 8)) & (u32::MAX << (32 - length)));
        format!("[[acl]]\naction = \"deny\"\nproto = \"{proto}\"\nsrc = \"{source}/{length}\"\ndport = {}\n", 1000 + i)
    };
    (0..400).map(rule).collect()
}

/// What became of the packets of one run.
#[derive(Default)]
struct Books {
    /// Packets a second that came in.
    rate: f64,
    sum: String,
    /// What was dropped, in percent of what came in.
    reasons: String,
}

impl Hostile {
    pub fn run(&self) -> Result<()> {
        ensure!(self.rounds > 0 && self.seconds > 0 && self.frames > 0, "--rounds, --seconds, --frames: at least one");
        let weir = match &self.weir {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("weir"),
        };
        let directory = std::env::temp_dir().join(format!("weir-hostile-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let measured = self.measure(&weir, &directory);
        let _ = std::fs::remove_dir_all(&directory);
        measured
    }

    fn measure(&self, weir: &Path, directory: &Path) -> Result<()> {
        println!("{}; median (least–most) of {} runs in turns\n", machine(), self.rounds);
        println!(
            "| switch | traffic | M packets/s | ÷ ordinary | last run: rx + copies = tx + dropped | dropped, by reason |"
        );
        println!("| --- | --- | --- | --- | --- | --- |");
        let named = |scene: &&Scene| scene.name.contains(&self.only) || scene.attack.name().contains(&self.only);
        let scenes: Vec<_> = SCENES.iter().filter(named).collect();
        ensure!(!scenes.is_empty(), "--only {}: no scene has that in its name", self.only);
        for scene in scenes {
            let kinds = [Traffic::Ordinary, scene.attack];
            let mut rates = [Vec::new(), Vec::new()];
            let mut books = [Books::default(), Books::default()];
            for _ in 0..self.rounds {
                for (i, kind) in kinds.into_iter().enumerate() {
                    books[i] = self.scene(scene, kind, weir, directory)?;
                    rates[i].push(books[i].rate);
                }
            }
            for (i, kind) in kinds.into_iter().enumerate() {
                let ratios = rates[i].iter().zip(&rates[0]).map(|(rate, ordinary)| rate / ordinary).collect();
                let millions = Spread::of(rates[i].iter().map(|rate| rate / 1e6).collect());
                let (ratio, name) = (Spread::of(ratios), kind.name());
                let Books { sum, reasons, .. } = &books[i];
                println!("| {} | {name} | {millions} | {ratio:.2} | {sum} | {reasons} |", scene.name);
            }
        }
        Ok(())
    }

    /// One run. Fails when the books do not balance.
    fn scene(&self, scene: &Scene, traffic: Traffic, weir: &Path, directory: &Path) -> Result<Books> {
        let capture = directory.join(format!("{traffic:?}.pcap"));
        if !capture.exists() {
            traffic.write(self.frames, &capture)?;
        }
        let file = directory.join("weir.toml");
        std::fs::write(&file, (scene.file)())?;
        let buffers = (self.frames * 2).next_power_of_two().max(32_768) - 1;
        let output = Command::new(weir)
            .args(["run", "--json", "--name", &format!("hostile-{}", std::process::id()), "--config"])
            .arg(&file)
            .args(["--port", &format!("in=pcap:{},,infinite", capture.display()), "--port", "out=null:rx=0"])
            .args(["--buffers", &buffers.to_string(), "--duration", &format!("{}s", self.seconds)])
            .args(scene.switch)
            .output()
            .with_context(|| weir.display().to_string())?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "weir run: {}\n{error}", output.status);
        let totals: Value = serde_json::from_slice(&output.stdout)?;
        let port = |name: &str| totals["ports"].as_array().and_then(|ports| ports.iter().find(|p| p["name"] == name));
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let packets = &totals["packets"];
        let [rx, copied, tx, dropped] =
            ["rx_packets", "copied_packets", "tx_packets", "dropped_packets"].map(|key| number(&packets[key]));
        ensure!(rx + copied == tx + dropped, "rx {rx} + copies {copied} ≠ tx {tx} + drops {dropped}");
        let received = port("in").map_or(0, |port| number(&port["rx_packets"]));
        let seconds = totals["seconds"].as_f64().context("no time")?;
        let drops = port("in").and_then(|port| port["drops"].as_object());
        let reasons = drops.into_iter().flatten().filter(|(_, n)| number(n) > 0);
        let reasons: Vec<_> = reasons
            .map(|(reason, n)| format!("{reason} {:.1} %", number(n) as f64 * 100.0 / received as f64))
            .collect();
        let sum = format!("{rx} + {copied} = {tx} + {dropped}");
        Ok(Books { rate: received as f64 / seconds, sum, reasons: reasons.join(", ") })
    }
}
