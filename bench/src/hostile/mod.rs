//! `weir run` under hostile traffic: how much of its rate is left, and whether every packet is accounted for.

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
    /// Only scenes whose name contains this
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

const SCENES: [Scene; 3] = [
    Scene { name: "learn", switch: &["--forward", "learn"], file: String::new, attack: Traffic::Macs },
    Scene {
        name: "learn, HashPipe",
        switch: &["--forward", "learn", "--program", "hashpipe"],
        file: String::new,
        attack: Traffic::Random,
    },
    Scene {
        name: "HashPipe",
        switch: &["--forward", "xconnect", "--program", "hashpipe"],
        file: String::new,
        attack: Traffic::Tuples,
    },
];

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
        println!("| switch | traffic | M packets/s | ÷ ordinary | dropped, by reason |");
        println!("| --- | --- | --- | --- | --- |");
        for scene in SCENES.iter().filter(|scene| scene.name.contains(&self.only)) {
            let kinds = [Traffic::Ordinary, scene.attack];
            let mut rates = [Vec::new(), Vec::new()];
            let mut drops = [String::new(), String::new()];
            for _ in 0..self.rounds {
                for (i, kind) in kinds.into_iter().enumerate() {
                    let (rate, dropped) = self.scene(scene, kind, weir, directory)?;
                    rates[i].push(rate);
                    drops[i] = dropped;
                }
            }
            for (i, kind) in kinds.into_iter().enumerate() {
                let ratios = rates[i].iter().zip(&rates[0]).map(|(rate, ordinary)| rate / ordinary).collect();
                let millions = Spread::of(rates[i].iter().map(|rate| rate / 1e6).collect());
                let (ratio, name) = (Spread::of(ratios), kind.name());
                println!("| {} | {name} | {millions} | {ratio:.2} | {} |", scene.name, drops[i]);
            }
        }
        Ok(())
    }

    /// Packets a second that came in, and what was dropped. Fails when the books do not balance.
    fn scene(&self, scene: &Scene, traffic: Traffic, weir: &Path, directory: &Path) -> Result<(f64, String)> {
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
            .args(["--port", &format!("in=pcap:{},,infinite", capture.display()), "--port", "out=null:size=64"])
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
        Ok((received as f64 / seconds, reasons.join(", ")))
    }
}
