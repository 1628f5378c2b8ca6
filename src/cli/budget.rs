//! `weir budget`: what the pipeline takes of the target.

use clap::Args;
use serde::Serialize;

use super::output::{self, Cell, Field, Page, Table, Tables, row};
use super::{Failure, Programs, help, placed};
use crate::assemble::{BANKS, Lesser, lesser, no_chip};
use crate::config::{Config, ForwardMode};
use crate::pisa::{Added, ArrayUse, DrawUse, HashUse, PhysicalStage, Placed, Placement, ReportUse, Target};

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
    #[command(flatten)]
    tables: Tables,
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
        let format = self.tables.clone().format(json)?;
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
        let page = page(&placement).text(super::no_chip_text(&config, &placement).unwrap_or_default());
        output::page(&format, &document(&config, placement), |_| page)
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

fn page(placement: &Placement) -> Page {
    let target = &placement.target;
    let reports = placement.reports.iter().map(|(program, ReportUse { reports, report_bits })| {
        format!(
            "\n{program}: room for {} reports of {report_bits} bits about single packets",
            output::grouped(*reports)
        )
    });
    let Memory { register_bytes, banks_per_core, bytes_per_core } = Memory::of(placement);
    let copies = match target.copies {
        copies if copies == 1 || placement.salus_used() == 0 => String::new(),
        copies => format!("\n{} keeps {copies} copies of each register array, by the epoch's lowest bit", target.name),
    };
    let memory = format!(
        "registers take {} bytes; each core of this machine has {banks_per_core} banks of them, {} bytes",
        output::grouped(register_bytes),
        output::grouped(bytes_per_core)
    );
    Page::default()
        .table("stages", stages_table(placement))
        .text(format!(
            "stages on the left are those of {}; behind a name stands the program's own{copies}",
            target.name
        ))
        .table("totals", totals_table(placement))
        .text(memory + &reports.collect::<String>())
}

/// The arrays, hashes and tables of each stage.
fn stages_table(placement: &Placement) -> Table {
    let target = &placement.target;
    let name = |program, name, stage| format!("{program} {name} stage {stage}");
    let mut rows = Vec::new();
    for (number, stage) in (1u32..).zip(&placement.stages[..placement.stages_used() as usize]) {
        let share = |sram_bits: u64| Cell::share(sram_bits as f64 / target.sram_bits as f64);
        let arrays = stage.arrays.chunk_by(same_array).filter_map(|equals| {
            let placed = equals.first()?;
            let usage = &placed.usage;
            let sram_bits = target.register_bits(usage) * equals.len() as u64;
            let bits = usage.slot.hash_bits();
            let cells = format!("{}{} × {} bits", times(equals.len()), output::grouped(usage.cells), usage.cell_bits);
            Some(row![
                name(placed.program, usage.name, placed.logical),
                size(cells, [equals.len() as u64, usage.cells, usage.cell_bits.into()]),
                sram_bits,
                share(sram_bits),
                matching(format!("{bits} bits"), [bits.into(), "".into(), "".into()]),
            ])
        });
        let hashes = stage.hashes.chunk_by(same_hash).filter_map(|equals| {
            let placed = equals.first()?;
            let usage = &placed.usage;
            let what = if usage.added == Added::No { "a CRC" } else { "a CRC, added" };
            let text = format!("{}{what}", times(equals.len()));
            Some(row![
                name(placed.program, usage.name, placed.logical),
                Cell { text, values: vec![equals.len().into()] },
                "",
                "",
                matching(format!("{} bits", usage.bits), [usage.bits.into(), "".into(), "".into()]),
            ])
        });
        let joins = stage.joins.chunk_by(PartialEq::eq).filter_map(|equals| {
            let placed = equals.first()?;
            let usage = &placed.usage;
            Some(row![
                name(placed.program, usage.name, placed.logical),
                Cell { text: format!("{}bits, joined", times(equals.len())), values: vec![equals.len().into()] },
                "",
                "",
                matching(format!("{} bits", usage.bits), [usage.bits.into(), "".into(), "".into()]),
            ])
        });
        let draws = stage.draws.chunk_by(same_draw).filter_map(|equals| {
            let placed = equals.first()?;
            let text = format!("{}a random number", times(equals.len()));
            Some(row![
                name(placed.program, placed.usage.name, placed.logical),
                Cell { text, values: vec![equals.len().into(), placed.usage.bits.into()] },
                "",
                "",
                matching("".into(), ["".into(), "random".into(), "".into()]),
            ])
        });
        let tables = stage.tables.chunk_by(PartialEq::eq).filter_map(|equals| {
            let table = equals.first()?;
            let sram_bits = table.sram_bits * equals.len() as u64;
            let (kind, tcam) = match table.tcam_blocks {
                0 => ("exact", "exact".into()),
                blocks => ("ternary", format!("{}{blocks} TCAM blocks of {}", times(equals.len()), target.tcam_blocks)),
            };
            let entries = format!("{}{} entries", times(equals.len()), output::grouped(table.entries));
            Some(row![
                match (table.program, table.logical) {
                    (Some(program), Some(logical)) => name(program, table.table, logical),
                    _ => table.table.into(),
                },
                Cell { text: entries, values: vec![equals.len().into(), table.entries.into()] },
                sram_bits,
                share(sram_bits),
                matching(tcam, ["".into(), kind.into(), table.tcam_blocks.into()]),
            ])
        });
        let stage = |is_first: bool| Cell::plain(number).repeated(!is_first);
        let first = rows.len();
        for cells in arrays.chain(hashes).chain(joins).chain(draws).chain(tables) {
            rows.push([vec![stage(rows.len() == first)], cells].concat());
        }
        if rows.len() == first {
            rows.push(row![stage(true), Cell::new("-", "")]);
        }
    }
    let columns = [
        ">stage",
        "array, hash or table|name",
        "cells or entries|number,cells_or_entries,cell_bits",
        ">SRAM bits",
        ">of the stage|stage_share",
        ">index hash or match|hash_bits,match,tcam_blocks",
    ];
    Table::new(columns, rows).keyed(2)
}

/// Arrays of one stage that share a row.
fn same_array(one: &Placed<ArrayUse>, other: &Placed<ArrayUse>) -> bool {
    let shown = |placed: &Placed<ArrayUse>| {
        let ArrayUse { name, cells, cell_bits, slot, .. } = &placed.usage;
        (placed.program, placed.logical, *name, *cells, *cell_bits, slot.hash_bits())
    };
    shown(one) == shown(other)
}

/// Hashes of one stage that share a row.
fn same_hash(one: &Placed<HashUse>, other: &Placed<HashUse>) -> bool {
    let shown = |placed: &Placed<HashUse>| {
        (placed.program, placed.logical, placed.usage.name, placed.usage.bits, placed.usage.added)
    };
    shown(one) == shown(other)
}

/// Random numbers of one stage that share a row.
fn same_draw(one: &Placed<DrawUse>, other: &Placed<DrawUse>) -> bool {
    let shown = |placed: &Placed<DrawUse>| (placed.program, placed.logical, placed.usage.name, placed.usage.bits);
    shown(one) == shown(other)
}

fn size(text: String, values: [u64; 3]) -> Cell {
    Cell { text, values: values.map(Field::from).into() }
}

fn matching(text: String, values: [Field; 3]) -> Cell {
    Cell { text, values: values.into() }
}

/// Resources of the target: used, available, share.
fn totals_table(placement: &Placement) -> Table {
    let target = &placement.target;
    let whole = u64::from(target.stages) * target.sram_bits;
    let line = |what: &str, used: u64, of: u64| {
        row![Cell::new(what, what.replace(' ', "_").to_lowercase()), used, of, Cell::share(used as f64 / of as f64)]
    };
    Table::new(
        [&format!("on {}|resource", target.name), ">used", ">of|available", ">share"],
        [
            line("stages", placement.stages_used().into(), target.stages.into()),
            line("stateful ALUs", placement.salus_used().into(), (target.stages * target.salus).into()),
            line("hash units", placement.hash_units_used().into(), (target.stages * target.hash_units).into()),
            line("SRAM bits", placement.sram_bits_used(), whole),
            line("TCAM blocks", placement.tcam_blocks_used().into(), (target.stages * target.tcam_blocks).into()),
        ],
    )
}

/// Stands before what is there several times.
fn times(number: usize) -> String {
    if number > 1 { format!("{number} × ") } else { String::new() }
}
