//! Registers and records as files (docs/registers.md).

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use clap::Args;
use serde::Serialize;

use super::Failure;
use crate::api::view::ProgramLayout;
use crate::lock::Hold;
use crate::pisa::ArrayCells;
use crate::program::{AnySchedule, ProgramConfig};
use crate::telemetry::{BankOrigin, Closed, Collector, RegisterSink, Sink};

/// A group of options.
pub const FILES: &str = "Files";

/// A directory that programs have directories in.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

/// `layout.json`.
#[derive(Serialize)]
struct Layouts<'a> {
    version: &'static str,
    programs: &'a BTreeMap<String, ProgramLayout>,
}

/// Names the epochs of a bank or record.
fn epochs((first, last): (u64, u64)) -> String {
    if first == last { format!("epoch-{last}") } else { format!("epoch-{first}-{last}") }
}

impl Directory {
    /// Makes a directory, or takes an empty one: files of two runs in one could not be told apart.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::Failed(format!("{}: {error}", path.display()));
        std::fs::create_dir_all(path).map_err(failed)?;
        if std::fs::read_dir(path).map_err(failed)?.next().is_some() {
            return Err(Failure::Usage(format!("{}: the directory is not empty", path.display())));
        }
        Ok(Self(path.into()))
    }

    /// Creates a file in it.
    pub fn create(&self, name: &str) -> io::Result<File> {
        File::create(self.0.join(name))
    }

    pub fn layouts(&self, programs: &BTreeMap<String, ProgramLayout>) -> io::Result<()> {
        let layouts = Layouts { version: env!("CARGO_PKG_VERSION"), programs };
        std::fs::write(self.0.join("layout.json"), serde_json::to_vec_pretty(&layouts)?)
    }

    /// Writes the arrays of a bank, each to the file that the layout names.
    pub fn bank<'a>(
        &self,
        program: &str,
        span: (u64, u64),
        (core, part): (usize, u32),
        arrays: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> io::Result<()> {
        let bank = if part == 0 { format!("core-{core}") } else { format!("core-{core}-part-{part}") };
        let directory = self.0.join(program).join(epochs(span)).join(bank);
        std::fs::create_dir_all(&directory)?;
        arrays.into_iter().try_for_each(|(file, bytes)| std::fs::write(directory.join(file), bytes))
    }

    pub fn record(&self, program: &str, span: (u64, u64), bytes: &[u8]) -> io::Result<()> {
        let directory = self.0.join(program);
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join(format!("{}.record", epochs(span))), bytes)
    }
}

/// Where a run writes what its epochs leave.
#[derive(Clone, Debug, Args)]
pub struct ExportOptions {
    /// Write the registers of each epoch into this new directory: layout.json, and a file for each
    /// array
    #[arg(long, value_name = "DIR", help_heading = FILES)]
    registers: Option<PathBuf>,
    /// Write the record of each epoch into this new directory, in its byte form
    #[arg(long, value_name = "DIR", help_heading = FILES)]
    records: Option<PathBuf>,
}

/// What could not be written, if something could not.
#[derive(Clone, Debug, Default)]
pub struct Exports(Arc<Mutex<Option<String>>>);

impl ExportOptions {
    /// Has all epochs that `collector` collects from now on written. `programs` are those of a switch
    /// of this name.
    pub fn start(
        &self,
        switch: &str,
        programs: &[ProgramConfig],
        collector: &mut Collector,
    ) -> Result<Exports, Failure> {
        let exports = Exports::default();
        let names: Vec<_> = ProgramConfig::named(programs).map(|(name, _)| name).collect();
        if let Some(path) = &self.registers {
            let directory = Directory::new(path)?;
            let layouts: Vec<_> = programs.iter().map(|program| program.layout(switch)).collect::<Result<_, _>>()?;
            let layouts = names.iter().cloned().zip(layouts.iter().map(ProgramLayout::new)).collect();
            exports.tried(path, directory.layouts(&layouts));
            let files = RegisterFiles {
                path: path.clone(),
                directory,
                names: names.clone(),
                layouts,
                exports: exports.clone(),
            };
            collector.watch_registers(Box::new(files));
        }
        if let Some(path) = &self.records {
            let directory = Directory::new(path)?;
            collector.subscribe(Box::new(RecordFiles {
                path: path.clone(),
                directory,
                names,
                exports: exports.clone(),
            }));
        }
        exports.check()?;
        Ok(exports)
    }
}

impl Exports {
    pub fn tried(&self, path: &Path, result: Result<(), impl Display>) {
        if let Err(error) = result {
            self.0.hold().get_or_insert_with(|| format!("{}: {error}", path.display()));
        }
    }

    /// # Errors
    /// If something could not be written.
    pub fn check(&self) -> Result<(), Failure> {
        self.0.hold().take().map_or(Ok(()), |error| Err(Failure::Failed(error)))
    }
}

struct RegisterFiles {
    path: PathBuf,
    directory: Directory,
    /// By program.
    names: Vec<String>,
    layouts: BTreeMap<String, ProgramLayout>,
    exports: Exports,
}

impl RegisterSink for RegisterFiles {
    fn bank(&mut self, of: BankOrigin, arrays: &dyn Fn() -> Vec<ArrayCells>) {
        let Some(name) = self.names.get(of.program) else { return };
        let Some(layout) = self.layouts.get(name) else { return };
        let arrays = arrays();
        let files = layout.arrays.iter().map(|array| array.file.as_str());
        let files = files.zip(arrays.iter().map(|array| array.bytes.as_slice()));
        let written = self.directory.bank(name, (of.first, of.last), (of.replica, of.part), files);
        self.exports.tried(&self.path, written);
    }
}

struct RecordFiles {
    path: PathBuf,
    directory: Directory,
    /// By program.
    names: Vec<String>,
    exports: Exports,
}

impl Sink for RecordFiles {
    fn closed(&mut self, Closed { program, first, last, record, .. }: Closed<'_>) {
        if let Some(name) = self.names.get(program) {
            self.exports.tried(&self.path, self.directory.record(name, (first, last), &record.encode()));
        }
    }

    fn partial(&mut self, epoch: Closed<'_>) {
        self.closed(epoch);
    }

    fn renewed(&mut self, _: &[AnySchedule]) {}
}
