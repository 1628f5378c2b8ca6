//! `weir archive`: what an archive has; and answers from one in place of a running switch.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::output::{self, Cell, Page, Table, Tables, row};
use super::{Failure, help};
use crate::answers::Queryable;
use crate::api::client::Client;
use crate::api::{ArchivedAnswers, Flows, view};
use crate::archive::{Archive, ArchiveError, ArchiveSettings, Extent, ProgramArchive, routes};
use crate::json::{Time, digits};
use crate::network::server::StateFile;
use crate::pisa::hash::HashFamily;
use crate::program::ProgramConfig;

/// A group of options.
const ARCHIVE: &str = "Archive";

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::NoHashes { .. } | ArchiveError::NotEmpty { .. } => Self::Usage(error.to_string()),
            error => Self::failed(error),
        }
    }
}

/// An archive to ask in place of a running switch.
#[derive(Debug, Args)]
pub struct FromArchive {
    /// Ask this archive in place of a running switch
    #[arg(long, global = true, value_name = "DIR", help_heading = ARCHIVE)]
    archive: Option<PathBuf>,
    /// With --archive: the file with the secret of the hash functions: `state` of a controller, or of
    /// `[archive]` of a switch
    #[arg(long, global = true, value_name = "FILE", requires = "archive", help_heading = ARCHIVE)]
    state: Option<PathBuf>,
    /// With --archive: the seed of the hash functions
    #[arg(
        long,
        global = true,
        value_name = "SEED",
        requires = "archive",
        conflicts_with = "state",
        help_heading = ARCHIVE
    )]
    reproducible: Option<u64>,
}

impl FromArchive {
    /// The archive, if one is to be asked, about the last `seconds`.
    pub fn answers(&self, seconds: f64) -> Result<Option<ArchivedAnswers>, Failure> {
        let Some(dir) = &self.archive else { return Ok(None) };
        let hashes = match (&self.state, self.reproducible) {
            (_, Some(seed)) => Some(HashFamily::reproducible(seed)),
            (None, None) => None,
            (Some(path), None) => {
                let nothing = || Failure::Usage(format!("--state {}: there is no such file", path.display()));
                Some(StateFile::at(path.clone())?.read()?.ok_or_else(nothing)?.hashes)
            }
        };
        Ok(Some(ArchivedAnswers::new(Archive::open(dir, hashes)?, seconds)))
    }

    pub fn is_given(&self) -> bool {
        self.archive.is_some()
    }
}

/// The archive of a run that has an end.
#[derive(Debug, Default, Args)]
pub struct RunArchive {
    /// Archive the epochs as Parquet files in this directory, for `weir show --archive` and any SQL
    #[arg(long, value_name = "DIR", help_heading = help::MEASUREMENT)]
    archive: Option<PathBuf>,
}

/// The archives of the programs of a run, in their order.
pub struct RunArchives(Vec<ProgramArchive>);

impl RunArchive {
    /// Begins the archive of each program, if they are to be archived.
    pub fn begin(&self, programs: &[ProgramConfig]) -> Result<RunArchives, Failure> {
        let begin = |dir: &PathBuf| {
            let of = |(name, program): (String, &ProgramConfig)| {
                ProgramArchive::begin(ArchiveSettings::at(dir.clone()), &name, program.clone())
            };
            ProgramConfig::named(programs).map(of).collect::<Result<_, _>>()
        };
        Ok(RunArchives(self.archive.as_ref().map(begin).transpose()?.unwrap_or_default()))
    }
}

impl RunArchives {
    /// Archives the epochs of these histories that are not there yet.
    pub fn take(&mut self, histories: &[Arc<dyn Queryable>]) -> Result<(), Failure> {
        let mut pairs = self.0.iter_mut().zip(histories);
        let taken = pairs.try_for_each(|(archive, history)| {
            archive.take(&**history, Extent::Run, |epoch| routes(histories, &**history, epoch))
        });
        Ok(taken?)
    }

    /// The last files have their ends.
    pub fn close(mut self) -> Result<(), Failure> {
        Ok(self.0.iter_mut().try_for_each(ProgramArchive::close)?)
    }
}

/// What answers questions about epochs.
pub enum Answerer {
    Running(Client),
    Archive(ArchivedAnswers),
}

impl Answerer {
    /// The document at a path of the API.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        match self {
            Self::Running(client) => Ok(client.get(path)?),
            Self::Archive(archive) => archive.get(path).map_err(Failure::Failed),
        }
    }

    /// The answers about several flows.
    pub fn frequencies(&self, path: &str, flows: &Flows) -> Result<view::Frequencies, Failure> {
        match self {
            Self::Running(client) => Ok(client.post(path, flows)?),
            Self::Archive(archive) => archive.frequencies(path, flows).map_err(Failure::Failed),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir archive /var/lib/weir/archive",
    "weir show heavy --archive /var/lib/weir/archive --last 2d",
]))]
pub struct ArchiveCommand {
    /// The archive: `dir` of `[archive]` of a switch or a controller
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    tables: Tables,
}

#[derive(Serialize)]
struct Document {
    programs: Vec<Program>,
}

#[derive(Serialize)]
struct Program {
    program: String,
    files: usize,
    bytes: u64,
    first_epoch: Option<u64>,
    last_epoch: Option<u64>,
    start: Option<Time>,
    end: Option<Time>,
    /// Length of an epoch of the newest file.
    #[serde(with = "digits")]
    epoch_ns: Option<u64>,
    epochs: u64,
    /// Epochs between the first and the last that are in no file.
    missing_epochs: u64,
    /// The first epochs of files without an end: they are written now, or their epochs are lost.
    open_from_epochs: Vec<u64>,
    /// Files that cannot be read, and why.
    unreadable: Vec<String>,
}

impl ArchiveCommand {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let format = self.tables.format(json)?;
        let archive = Archive::open(&self.dir, None)?;
        let programs = archive.programs().iter().map(|(name, files)| {
            let (first, last) = (files.closed.first(), files.closed.last());
            let epoch_ns = last.map(|file| file.about.epoch_ns);
            let time = |nanos: u64| (nanos > 0).then_some(Time(nanos));
            Program {
                program: name.clone(),
                files: files.closed.len(),
                bytes: files.bytes(),
                first_epoch: first.map(|file| file.first_epoch),
                last_epoch: last.map(|file| file.last_epoch),
                start: first.and_then(|file| time(file.first_epoch.saturating_mul(file.about.epoch_ns))),
                end: last.and_then(|file| time(file.end_ns())),
                epoch_ns,
                epochs: files.closed.iter().map(|file| file.epochs).fold(0, u64::saturating_add),
                missing_epochs: files.missing_epochs(),
                open_from_epochs: files.open.iter().map(|file| file.first_epoch).collect(),
                unreadable: files.unreadable.iter().map(ToString::to_string).collect(),
            }
        });
        output::page(&format, &Document { programs: programs.collect() }, page)
    }
}

fn page(document: &Document) -> Page {
    let epoch = |epoch: Option<u64>| Cell::or("-", epoch.map(Cell::plain));
    let row = |of: &Program| {
        row![
            &*of.program,
            of.files,
            of.bytes,
            of.epochs,
            epoch(of.first_epoch),
            epoch(of.last_epoch),
            of.missing_epochs,
            Cell::or("-", of.start.map(|time| time.to_string())),
            Cell::or("-", of.end.map(|time| time.to_string())),
        ]
    };
    let columns = [
        "program",
        ">files",
        ">bytes",
        ">epochs",
        ">first|first_epoch",
        ">last|last_epoch",
        ">missing|missing_epochs",
        "from|start",
        "to|end",
    ];
    let page = Page::default().table("archive", Table::new(columns, document.programs.iter().map(row)).keyed(1));
    document.programs.iter().fold(page, |page, of| {
        let open = of.open_from_epochs.iter().map(|first| {
            format!(
                "{}: epochs from {first} on are in a file without an end: they are written now, or were lost when \
                 weir was killed",
                of.program
            )
        });
        let texts: Vec<_> = open.chain(of.unreadable.iter().cloned()).collect();
        page.text(texts.join("\n"))
    })
}
