//! `weir registers`: the registers of a running switch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};

use super::output::{self, Page, Table, Tables, row};
use super::register_files::Directory;
use super::show::Where;
use super::{Failure, help};
use crate::api::RegisterQuery;
use crate::api::view::{ArrayLayout, CellValue, ProgramRegisters, RegisterArray, RegisterBank, Registers};
use crate::config::Length;

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir registers dump",
    "weir registers dump --program {program} --json",
    "weir registers dump --raw DIR",
]))]
pub struct RegistersCommand {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the registers of each core at the end of an epoch
    ///
    /// The switch goes on meanwhile: the registers are those that it sends to its collector. The
    /// text has a line for each array; --json and --raw have the cells, with the layout of each
    /// program (docs/registers.md)
    #[command(after_help = help::examples(&[
        "weir registers dump",
        "weir registers dump --program {program} --json",
        "weir registers dump --raw DIR",
    ]))]
    Dump(Dump),
}

#[derive(Debug, Args)]
struct Dump {
    /// Dump this program alone
    #[arg(long, value_name = "P")]
    program: Option<String>,
    /// Write layout.json and a little-endian file for each array into this new directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["json", "csv"])]
    raw: Option<PathBuf>,
    /// Give up when no epoch ends within this time
    #[arg(long, value_name = "TIME", default_value = "10s")]
    timeout: Length,
    #[command(flatten)]
    tables: Tables,
}

impl RegistersCommand {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let Verb::Dump(Dump { program, raw, timeout, tables }) = self.verb;
        let format = tables.format(json)?;
        if json && raw.is_some() {
            return Err(Failure::Usage("--json and --raw: one document or files".into()));
        }
        let wait = Duration::from_nanos(timeout.nanos());
        let query = RegisterQuery { program, timeout_seconds: wait.as_secs_f64() };
        let client = self.at.client()?;
        let registers: Registers = client.post_within("/v1/registers", &query, wait)?;
        match raw {
            Some(path) => write(&registers, &path),
            None => output::page(&format, &registers, page),
        }
    }
}

/// Writes the files of a dump.
fn write(registers: &Registers, path: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    let directory = Directory::new(path)?;
    let layouts: BTreeMap<_, _> =
        registers.programs.iter().map(|program| (program.program.clone(), program.layout.clone())).collect();
    directory.layouts(&layouts).map_err(failed)?;
    for ProgramRegisters { program, layout, banks } in &registers.programs {
        for bank in banks {
            let arrays = layout.arrays.iter().zip(&bank.arrays);
            let arrays =
                arrays.map(|(of, array)| Some((of.file.as_str(), bytes(of, array)?))).collect::<Option<Vec<_>>>();
            let other = || Failure::Failed(format!("{program}: the switch sent other cells than its layout has"));
            let arrays = arrays.ok_or_else(other)?;
            let arrays = arrays.iter().map(|(file, bytes)| (*file, bytes.as_slice()));
            let span = (bank.first_epoch, bank.last_epoch);
            directory.bank(program, span, (bank.core, bank.part), arrays).map_err(failed)?;
        }
    }
    Ok(())
}

/// The cells as the file of an array has them.
fn bytes(layout: &ArrayLayout, array: &RegisterArray<Vec<CellValue>>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    array.values.iter().try_for_each(|value| value.write(&layout.field_bits, &mut bytes))?;
    Some(bytes)
}

fn page(registers: &Registers) -> Page {
    let rows = registers.programs.iter().flat_map(|program| {
        program.banks.iter().flat_map(|bank| {
            let arrays = program.layout.arrays.iter().zip(&bank.arrays);
            arrays.map(|(layout, array)| {
                let used = array.values.iter().filter(|value| !value.is_zero()).count() as u64;
                row![
                    &program.program,
                    bank.core as u64,
                    bank.part as u64,
                    &array.name,
                    u64::from(array.index),
                    &layout.side,
                    u64::from(layout.stage),
                    array.cells,
                    u64::from(array.cell_bits),
                    used,
                ]
            })
        })
    });
    let columns = [
        "program",
        ">core",
        ">part",
        "array",
        ">index",
        "side",
        ">stage",
        ">cells",
        ">bits|cell_bits",
        ">in use|used_cells",
    ];
    let epochs = registers.programs.iter().filter_map(|program| Some(epoch(&program.program, program.banks.first()?)));
    Page::default()
        .table("arrays", Table::new(columns, rows))
        .text(epochs.collect::<Vec<_>>().join("\n"))
        .text("cells in use are those that are not 0; --json and --raw have all of them")
}

/// The epoch of a program's registers.
fn epoch(program: &str, bank: &RegisterBank<Vec<CellValue>>) -> String {
    let RegisterBank { first_epoch, last_epoch, start, end, .. } = bank;
    let epochs = if first_epoch == last_epoch {
        format!("epoch {last_epoch}")
    } else {
        format!("epochs {first_epoch} to {last_epoch}")
    };
    match (start, end) {
        (Some(start), Some(end)) => format!("{program}: {epochs}, {start} to {end}"),
        _ => format!("{program}: {epochs}"),
    }
}
