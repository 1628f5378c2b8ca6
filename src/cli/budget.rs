//! `weir budget`: what the pipeline takes of the target.

use clap::Args;
use serde::Serialize;

use super::{Failure, Programs, help, output, placed};
use crate::assemble::{BANKS, Lesser, lesser, no_chip};
use crate::config::{Config, ForwardMode};
use crate::pisa::{PhysicalStage, Placement, ReportUse, Target};

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir budget",
    "weir budget --program {program} --target tofino",
    "weir budget -c weir.toml --json",
]))]
pub struct Budget {
    #[command(flatten)]
    programs: Programs,
    #[arg(long, default_value = "auto", help = help::of_targets("The hardware"), add = help::targets())]
    target: String,
    /// Take programs and target from a configuration file
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["programs", "target"])]
    config: Option<std::path::PathBuf>,
}

#[derive(Serialize)]
struct Document {
    target: Target,
    stages_used: u32,
    salus_used: u32,
    salus_share: f64,
    hash_units_used: u32,
    hash_units_share: f64,
    sram_bits_used: u64,
    sram_share: f64,
    tcam_blocks_used: u32,
    tcam_share: f64,
    memory: Memory,
    stages: Vec<PhysicalStage>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reports: Vec<ProgramReports>,
    /// Why the pipeline fits no chip, where it was to be placed on one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    no_chip: Vec<Refusal>,
    /// With which changes it would fit one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    would_fit: Vec<Lesser>,
}

#[derive(Serialize)]
struct Refusal {
    target: &'static str,
    why: String,
}

/// The registers of all programs, as the software keeps them.
#[derive(Serialize)]
pub struct Memory {
    /// One set of them, hardware bits over 8: what a chip has.
    register_bytes: u64,
    /// Sets that each core has: the one in use, and spares that are read or wait.
    banks_per_core: usize,
    bytes_per_core: u64,
}

impl Memory {
    pub fn of(placement: &Placement) -> Self {
        let register_bytes = placement.register_bits_used() / 8;
        Self { register_bytes, banks_per_core: BANKS, bytes_per_core: register_bytes * BANKS as u64 }
    }
}

#[derive(Serialize)]
struct ProgramReports {
    program: &'static str,
    #[serde(flatten)]
    usage: ReportUse,
}

impl Budget {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let config = match &self.config {
            Some(path) => Config::load(path)?,
            None => {
                let mut config = super::in_memory(self.programs.or_default()?);
                config.switch.target = self.target.clone();
                config.validate()?;
                // The programs alone: no MAC table.
                config.switch.forward = ForwardMode::Xconnect;
                config
            }
        };
        let placement = placed(&config, self.config.as_deref())?;
        if json {
            return output::json(&document(&config, placement));
        }
        let no_chip = super::no_chip_text(&config, &placement).map_or_else(String::new, |text| format!("\n\n{text}"));
        output::print(&(text(&placement) + &no_chip))
    }
}

fn document(config: &Config, placement: Placement) -> Document {
    let (refused, would_fit) = (no_chip(config, &placement), lesser(config, &placement));
    let target = placement.target;
    let memory = Memory::of(&placement);
    let (salus, hashes) = (placement.salus_used(), placement.hash_units_used());
    let (sram, tcam) = (placement.sram_bits_used(), placement.tcam_blocks_used());
    Document {
        target,
        stages_used: placement.stages_used(),
        salus_used: salus,
        salus_share: f64::from(salus) / f64::from(target.stages * target.salus),
        hash_units_used: hashes,
        hash_units_share: f64::from(hashes) / f64::from(target.stages * target.hash_units),
        sram_bits_used: sram,
        sram_share: sram as f64 / (u64::from(target.stages) * target.sram_bits) as f64,
        tcam_blocks_used: tcam,
        tcam_share: f64::from(tcam) / f64::from(target.stages * target.tcam_blocks),
        memory,
        stages: placement.stages,
        would_fit,
        no_chip: refused.into_iter().map(|(target, why)| Refusal { target, why }).collect(),
        reports: placement.reports.into_iter().map(|(program, usage)| ProgramReports { program, usage }).collect(),
    }
}

fn text(placement: &Placement) -> String {
    let target = &placement.target;
    let name = |program, name, stage| format!("{program} {name} stage {stage}");
    let mut rows = Vec::new();
    for (number, stage) in (1..).zip(&placement.stages[..placement.stages_used() as usize]) {
        let arrays = stage.arrays.chunk_by(PartialEq::eq).filter_map(|equals| {
            let placed = equals.first()?;
            let usage = &placed.usage;
            let sram_bits = usage.sram_bits() * equals.len() as u64;
            Some([
                name(placed.program, usage.name, placed.logical),
                format!("{}{} × {} bits", times(equals.len()), output::grouped(usage.cells), usage.cell_bits),
                output::grouped(sram_bits),
                output::percent(sram_bits as f64 / target.sram_bits as f64),
                format!("{} bits", usage.hash_bits),
            ])
        });
        let hashes = stage.hashes.chunk_by(PartialEq::eq).filter_map(|equals| {
            let placed = equals.first()?;
            let usage = &placed.usage;
            Some([
                name(placed.program, usage.name, placed.logical),
                format!("{}{}", times(equals.len()), if usage.added { "a CRC, added" } else { "a CRC" }),
                String::new(),
                String::new(),
                format!("{} bits", usage.bits),
            ])
        });
        let tables = stage.tables.chunk_by(PartialEq::eq).filter_map(|equals| {
            let table = equals.first()?;
            let sram_bits = table.sram_bits * equals.len() as u64;
            let tcam = match table.tcam_blocks {
                0 => "exact".into(),
                blocks => format!("{}{blocks} TCAM blocks of {}", times(equals.len()), target.tcam_blocks),
            };
            Some([
                match (table.program, table.logical) {
                    (Some(program), Some(logical)) => name(program, table.table, logical),
                    _ => table.table.into(),
                },
                format!("{}{} entries", times(equals.len()), output::grouped(table.entries)),
                output::grouped(sram_bits),
                output::percent(sram_bits as f64 / target.sram_bits as f64),
                tcam,
            ])
        });
        let mut number = number.to_string();
        for [name, size, bits, share, matching] in arrays.chain(hashes).chain(tables) {
            rows.push([std::mem::take(&mut number), name, size, bits, share, matching]);
        }
        if !number.is_empty() {
            rows.push([number, "-".into(), "".into(), "".into(), "".into(), "".into()]);
        }
    }
    let table = output::table(
        [">stage", "array, hash or table", "cells or entries", ">SRAM bits", ">of the stage", ">index hash or match"],
        rows,
    );
    let whole = u64::from(target.stages) * target.sram_bits;
    let line = |what: &str, used: u64, of: u64| {
        [what.to_string(), output::grouped(used), output::grouped(of), output::percent(used as f64 / of as f64)]
    };
    let totals = output::table(
        [&format!("on {}", target.name), ">used", ">of", ">share"],
        [
            line("stages", placement.stages_used().into(), target.stages.into()),
            line("stateful ALUs", placement.salus_used().into(), (target.stages * target.salus).into()),
            line("hash units", placement.hash_units_used().into(), (target.stages * target.hash_units).into()),
            line("SRAM bits", placement.sram_bits_used(), whole),
            line("TCAM blocks", placement.tcam_blocks_used().into(), (target.stages * target.tcam_blocks).into()),
        ],
    );
    let reports = placement.reports.iter().map(|(program, ReportUse { reports, report_bits })| {
        format!(
            "\n{program}: room for {} reports of {report_bits} bits about single packets",
            output::grouped(*reports)
        )
    });
    let stages = format!("stages on the left are those of {}; behind a name stands the program's own", target.name);
    let Memory { register_bytes, banks_per_core, bytes_per_core } = Memory::of(placement);
    let memory = format!(
        "registers take {} bytes; each core of this machine has {banks_per_core} banks of them, {} bytes",
        output::grouped(register_bytes),
        output::grouped(bytes_per_core)
    );
    format!("{table}\n\n{stages}\n\n{totals}\n\n{memory}{}", reports.collect::<String>())
}

/// Stands before what is there several times.
fn times(number: usize) -> String {
    if number > 1 { format!("{number} × ") } else { String::new() }
}
