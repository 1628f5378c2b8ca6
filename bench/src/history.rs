//! Memory of a controller: what its history of a program holds after an hour, and what the process
//! takes.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use weir::config::Length;
use weir::history::{Held, Room};
use weir::network::controller::{Controller, ControllerSettings, HISTORY_BYTES, JoinRequest, NetworkProfile, Report};
use weir::program::{AnyRecord, ProgramConfig};
use weir::sim::{Network, Setup, Shape};
use weir::switch::KeyHeaders;
use weir::trace::Workload;

/// Length of an epoch by default, in nanoseconds.
const LENGTH: u64 = 1 << 26;

/// Four edge switches send records of real traffic, as fast as the controller takes them. Some epochs
/// are simulated; their records come again and again under the numbers of later ones.
#[derive(Args)]
pub struct HistoryMemory {
    /// The program
    #[arg(long, default_value = "chamelemon")]
    program: ProgramConfig,
    /// Time that the history is to hold
    #[arg(long, default_value = "1h")]
    history: Length,
    /// Each epoch's flows, in the whole network
    #[arg(long, default_value = "hadoop/uniform,flows=10k")]
    workload: Workload,
    /// Epochs that are simulated: an even number, as records carry the lowest bit of theirs
    #[arg(long, default_value_t = 16)]
    epochs: u64,
}

/// The records of an epoch, each with the name of its switch.
type Records = Vec<(String, AnyRecord)>;

impl HistoryMemory {
    pub fn run(&self) -> Result<()> {
        ensure!(self.epochs >= 2 && self.epochs.is_multiple_of(2), "--epochs {}: an even number", self.epochs);
        let setup = Setup {
            epoch: LENGTH,
            shifts: false,
            ..Setup::new(
                "spine-leaf:1,4,1".parse::<Shape>()?.build()?,
                vec![self.program.clone()],
                self.workload.clone(),
            )
        };
        let drawn = self.drawn(&setup)?;
        let mut names: Vec<_> = drawn.iter().flatten().map(|(name, _)| name.clone()).collect();
        names.sort();
        names.dedup();
        let mut controller = self.controller(&setup, &names)?;
        let epochs = self.history.nanos().div_ceil(LENGTH);
        println!(
            "{}: {} switches, {epochs} epochs of {:.0} ms, {}; at most {:.1} MB beside the newest epoch",
            self.program.name(),
            names.len(),
            LENGTH as f64 / 1e6,
            self.workload,
            HISTORY_BYTES as f64 / 1e6,
        );
        println!(
            "{:>7} {:>8} {:>7} {:>9} {:>9} {:>8} {:>8}",
            "epochs", "minutes", "kept", "compacted", "forgotten", "MB", "RSS, MB"
        );
        let (started, before) = (Instant::now(), resident()?);
        for epoch in 0..epochs {
            for (name, record) in &drawn[(epoch % self.epochs) as usize] {
                let report = Report { first_epoch: epoch, epoch, whole: true, late: 0, record: record.clone() };
                controller.report(name, report, (epoch + 1) * LENGTH + setup.transit)?;
            }
            controller.keep();
            let count = epoch + 1;
            if count == epochs || [1, 100, 1000].contains(&count) || count.is_multiple_of(epochs.div_ceil(6)) {
                let Held { epochs: kept, compacted, bytes } = controller.history().held();
                println!(
                    "{count:>7} {:>8.1} {kept:>7} {compacted:>9} {:>9} {:>8.1} {:>8.1}",
                    (count * LENGTH) as f64 / 6e10,
                    count - kept as u64,
                    bytes as f64 / 1e6,
                    resident()? as f64 / 1e6,
                );
            }
        }
        let each = started.elapsed().as_secs_f64() * 1e3 / epochs as f64;
        println!("resident before the first epoch: {:.1} MB; {each:.2} ms an epoch", before as f64 / 1e6);
        Ok(())
    }

    /// The records of some epochs.
    fn drawn(&self, setup: &Setup) -> Result<Vec<Records>> {
        let mut network = Network::new(setup)?;
        let names = network.topology().switches().to_vec();
        let mut drawn = Vec::new();
        for epoch in 0..=self.epochs {
            let start = epoch * LENGTH;
            network.begin(epoch, Some(&self.workload).filter(|_| epoch < self.epochs), None);
            network.run_to(start + setup.transit);
            network.tick();
            let reports = network.nodes().iter_mut().zip(&names).flat_map(|(node, name)| {
                node.records().into_iter().map(|(_, report)| (report.epoch, (name.clone(), report.record)))
            });
            let reports: Vec<_> = reports.collect();
            if let Some(over) = epoch.checked_sub(1) {
                ensure!(reports.iter().all(|(epoch, _)| *epoch == over), "a record of another epoch than {over}");
                drawn.push(reports.into_iter().map(|(_, of)| of).collect());
            }
            network.run_to(start + LENGTH);
        }
        Ok(drawn)
    }

    /// The controller of these switches.
    fn controller(&self, setup: &Setup, names: &[String]) -> Result<Controller> {
        let epochs = self.history.nanos().div_ceil(LENGTH) as usize;
        let settings = ControllerSettings {
            history: Room { epochs, bytes: HISTORY_BYTES },
            shifts: false,
            ..ControllerSettings::new(LENGTH, 1)
        };
        let mut controller = Controller::new(&self.program, settings);
        for name in names {
            let (name, program, transit) = (name.clone(), self.program.clone(), setup.transit);
            let (header, key) = (setup.fabric.telemetry_header, KeyHeaders::default());
            let profile = NetworkProfile { program, length: LENGTH, transit, header, key };
            let parameters = self.program.start();
            controller.join(&JoinRequest { name, profile, parameters, first_epoch: 0 }, 0)?;
        }
        Ok(controller)
    }
}

/// Resident memory of this process, in bytes.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}
