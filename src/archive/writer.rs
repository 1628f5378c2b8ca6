//! Writes the epochs of one program.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use rustix::fs::{FlockOperation, flock};

use super::files::{About, ProgramFiles, closed_path, open_path};
use super::rows::{self, Row, SCHEMA};
use super::{ArchiveError, ArchiveSettings};
use crate::answers::{ByRoute, Queryable};
use crate::history::{ArchiveForms, Window};
use crate::program::ProgramConfig;

/// Rows and bytes in memory that are written as a group.
const GROUP_ROWS: usize = 1 << 16;
const GROUP_BYTES: usize = 8 << 20;

/// The archive of one program.
pub struct ProgramArchive {
    settings: ArchiveSettings,
    dir: PathBuf,
    program: ProgramConfig,
    /// Held as long as this process writes here.
    _lock: File,
    open: Option<Open>,
    /// The end of the last epoch that is there, in nanoseconds since 1970.
    end_ns: Option<u64>,
    /// Epochs that could not be written.
    unwritten: u64,
}

/// The epochs of a history that are archived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Those whose answers are final.
    Final,
    /// All, as the history ends here.
    All,
    /// All of a run that has ended, so that all answers are final.
    Run,
}

/// A file that is written.
struct Open {
    writer: SerializedFileWriter<File>,
    path: PathBuf,
    about: About,
    first: u64,
    last: u64,
    epochs: u64,
    rows: Vec<Row>,
    bytes: usize,
}

impl ProgramArchive {
    /// The archive of the program with this name, which nobody else writes. What a process that was
    /// killed left open is removed, and said.
    ///
    /// # Errors
    /// If the directory cannot be written, or another process writes there.
    pub fn open(settings: ArchiveSettings, name: &str, program: ProgramConfig) -> Result<Self, ArchiveError> {
        let dir = settings.dir.join(name);
        DirBuilder::new().recursive(true).mode(0o750).create(&dir).map_err(ArchiveError::io(&dir))?;
        let lock = dir.join("lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o640).open(&lock);
        let file = file.map_err(ArchiveError::io(&lock))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| ArchiveError::InUse(dir.clone()))?;
        let files = ProgramFiles::of(&dir)?;
        for left in &files.open {
            std::fs::remove_file(&left.path).map_err(ArchiveError::io(&left.path))?;
            tracing::warn!(
                target: "weir", event = "archive_lost", file = %left.path.display(),
                "the epochs of {name} from {} on, {} bytes, are lost: the process that wrote them was killed before \
                 it closed their file", left.first_epoch, left.bytes
            );
        }
        for error in &files.unreadable {
            tracing::warn!(target: "weir", event = "archive_unreadable", "{error}");
        }
        let end_ns = files.closed.last().map(|file| file.end_ns());
        let archive = Self { settings, dir, program, _lock: file, open: None, end_ns, unwritten: 0 };
        archive.retain();
        Ok(archive)
    }

    /// The same for a run that has an end: there are no epochs yet.
    ///
    /// # Errors
    /// As of [`Self::open`], or if there are epochs.
    pub fn begin(settings: ArchiveSettings, name: &str, program: ProgramConfig) -> Result<Self, ArchiveError> {
        let archive = Self::open(settings, name, program)?;
        match archive.end_ns {
            None => Ok(archive),
            Some(_) => Err(ArchiveError::NotEmpty { path: archive.settings.dir.clone(), program: name.into() }),
        }
    }

    /// Number of epochs that could not be written.
    pub fn unwritten(&self) -> u64 {
        self.unwritten
    }

    /// The epochs to come have this program.
    pub fn configure(&mut self, program: &ProgramConfig) {
        if self.program != *program {
            self.program = program.clone();
        }
    }

    /// Adds the epochs of a history that are not there yet. `routes` are those of other programs in one epoch.
    ///
    /// # Errors
    /// If the file cannot be written. Its epochs are lost then, and the next call begins another one.
    pub fn take(
        &mut self,
        history: &dyn Queryable,
        extent: Extent,
        routes: impl Fn(u64) -> Option<ByRoute>,
    ) -> Result<(), ArchiveError> {
        let provisional = extent != Extent::Final;
        let mut forms = match self.end_ns {
            None => history.archived(Window::Epoch(0), provisional),
            Some(_) => ArchiveForms { epochs: Vec::new(), length: 0, lost_after: None },
        };
        forms.epochs.retain(|(entry, _)| provisional || entry.finality.is_final);
        let mut after = 0;
        loop {
            if forms.epochs.is_empty() {
                let length = history.length();
                after = self.end_ns.map_or(0, |end| end.div_ceil(length.max(1)).saturating_sub(1)).max(after);
                forms = history.archived(Window::Next { after }, provisional);
            }
            let Some((last, _)) = forms.epochs.last() else { return Ok(()) };
            let epoch = last.epoch;
            if extent == Extent::Run {
                forms.epochs.iter_mut().for_each(|(entry, _)| entry.finality.is_final = true);
            }
            let rows = rows::rows(history, epoch, &forms.epochs, routes(epoch).as_ref());
            let about =
                About { program: self.program.clone(), epoch_ns: forms.length, lost_after_ns: forms.lost_after };
            after = epoch;
            let first = forms.epochs.iter().map(|(entry, _)| entry.first_epoch).min().unwrap_or(epoch).min(epoch);
            forms.epochs.clear();
            self.end_ns = Some(epoch.saturating_add(1).saturating_mul(about.epoch_ns));
            self.add(about, (first, epoch), rows)?;
        }
    }

    /// Adds the rows of an epoch.
    fn add(&mut self, about: About, (first, epoch): (u64, u64), rows: Vec<Row>) -> Result<(), ArchiveError> {
        let is_other = |open: &Open| {
            let spanned = (epoch - open.first.min(epoch)).saturating_mul(about.epoch_ns);
            open.about != about
                || u128::from(spanned) >= self.settings.rotate.as_nanos()
                || open.written() >= self.settings.rotate_bytes
        };
        if self.open.as_ref().is_some_and(is_other) {
            self.close()?;
        }
        if self.open.is_none() {
            self.open = Some(Open::create(&self.dir, about, first).inspect_err(|_| self.unwritten += 1)?);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        if let Err(error) = open.add((first, epoch), rows) {
            self.give_up();
            return Err(error);
        }
        Ok(())
    }

    /// What a failed file has is lost.
    fn give_up(&mut self) {
        let Some(open) = self.open.take() else { return };
        self.unwritten += open.epochs;
        let _ = std::fs::remove_file(&open.path);
        tracing::error!(
            target: "weir", event = "archive_lost", file = %open.path.display(),
            "epochs {} to {} are not archived", open.first, open.last
        );
    }

    /// Closes the file that is written, if there is one.
    ///
    /// # Errors
    /// If that fails. Its epochs are lost then.
    pub fn close(&mut self) -> Result<(), ArchiveError> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        if let Err(error) = open.close(&self.dir) {
            self.open = Some(open);
            self.give_up();
            return Err(error);
        }
        self.retain();
        Ok(())
    }

    /// Removes files that are too old or too many. One that cannot be removed is said.
    fn retain(&self) {
        let Ok(ProgramFiles { closed, .. }) = ProgramFiles::of(&self.dir) else { return };
        let mut bytes = closed.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
        let now = SystemTime::now();
        for file in closed {
            let age = file.closed_at().and_then(|at| now.duration_since(at).ok());
            let is_old = age.zip(self.settings.keep).is_some_and(|(age, keep)| age > keep);
            if !is_old && bytes <= self.settings.keep_bytes {
                continue;
            }
            bytes = bytes.saturating_sub(file.bytes);
            match std::fs::remove_file(&file.path) {
                Ok(()) => tracing::info!(
                    target: "weir", event = "archive_removed", file = %file.path.display(),
                    "epochs {} to {} are removed from the archive", file.first_epoch, file.last_epoch
                ),
                Err(error) => tracing::error!(target: "weir", "{}: {error}", file.path.display()),
            }
        }
    }
}

impl Drop for ProgramArchive {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(target: "weir", event = "archive", "{error}");
        }
    }
}

impl Open {
    fn create(dir: &Path, about: About, first: u64) -> Result<Self, ArchiveError> {
        let path = open_path(dir, first);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open(&path);
        let file = file.map_err(ArchiveError::io(&path))?;
        let failed = ArchiveError::parquet(&path);
        let properties = WriterProperties::builder().set_compression(Compression::GZIP(Default::default())).build();
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(&failed)?);
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(&failed)?;
        Ok(Self { writer, path, about, first, last: first, epochs: 0, rows: Vec::new(), bytes: 0 })
    }

    /// Bytes that are written or wait.
    fn written(&self) -> u64 {
        self.writer.bytes_written() as u64 + self.bytes as u64 / 4
    }

    fn add(&mut self, (first, epoch): (u64, u64), rows: Vec<Row>) -> Result<(), ArchiveError> {
        self.last = epoch;
        self.epochs = self.epochs.saturating_add((epoch - first).saturating_add(1));
        self.bytes += rows.iter().map(Row::memory).sum::<usize>();
        self.rows.extend(rows);
        if self.rows.len() >= GROUP_ROWS || self.bytes >= GROUP_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), ArchiveError> {
        let (rows, about) = (std::mem::take(&mut self.rows), (self.about.program.name(), self.about.epoch_ns));
        self.bytes = 0;
        let failed = ArchiveError::parquet(&self.path);
        rows::write(&mut self.writer, about, &rows).map_err(failed)
    }

    /// Writes what waits and the end of the file, which then has its name.
    fn close(&mut self, dir: &Path) -> Result<(), ArchiveError> {
        if !self.rows.is_empty() {
            self.write()?;
        }
        let failed = ArchiveError::parquet(&self.path);
        for metadata in self.about.metadata((self.first, self.last), self.epochs) {
            self.writer.append_key_value_metadata(metadata);
        }
        self.writer.finish().map_err(&failed)?;
        let io = || ArchiveError::io(&self.path);
        self.writer.inner().sync_all().map_err(io())?;
        let mut closed = closed_path(dir, self.first, self.last);
        // Epochs of another length may have the same numbers.
        for again in 2.. {
            if !closed.exists() {
                break;
            }
            closed = closed_path(dir, self.first, self.last).with_extension(format!("{again}.parquet"));
        }
        std::fs::rename(&self.path, &closed).map_err(io())?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(io())
    }
}
