//! Reads histories from an archive.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Type;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::parser::parse_message_type;

use super::ArchiveError;
use super::files::{ArchiveFile, ProgramFiles};
use super::rows::{self, EPOCH, STATE_SCHEMA};
use crate::answers::Queryable;
use crate::history::Room;
use crate::pisa::hash::HashFamily;
use crate::program::{AnyRestorer, ProgramConfig};

/// Memory of a history that is read, in bytes.
const ROOM_BYTES: usize = 1 << 30;
/// Most bytes of a file, and of one of its groups once it is no longer compressed.
const MOST_BYTES: u64 = 4 << 30;
const MOST_GROUP_BYTES: i64 = 1 << 30;
/// Most programs.
const MOST_PROGRAMS: usize = 256;

/// An archive that is asked.
pub struct Archive {
    dir: PathBuf,
    hashes: Option<HashFamily>,
    programs: Vec<(String, ProgramFiles)>,
}

impl Archive {
    /// The archive in this directory. `hashes` are those of the switches, where they are known.
    ///
    /// # Errors
    /// If the directory cannot be read, or is no archive.
    pub fn open(dir: &Path, hashes: Option<HashFamily>) -> Result<Self, ArchiveError> {
        let mut programs = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(ArchiveError::io(dir))?.take(MOST_PROGRAMS) {
            let path = entry.map_err(ArchiveError::io(dir))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|_| path.is_dir()) else {
                continue;
            };
            let files = ProgramFiles::of(&path)?;
            if !(files.closed.is_empty() && files.open.is_empty() && files.unreadable.is_empty()) {
                programs.push((name.to_owned(), files));
            }
        }
        if programs.is_empty() {
            return Err(ArchiveError::wrong(dir, "no archive: there are no files of programs"));
        }
        programs.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Self { dir: dir.into(), hashes, programs })
    }

    /// The files of each program.
    pub fn programs(&self) -> &[(String, ProgramFiles)] {
        &self.programs
    }

    /// Each program that has epochs, as it is configured in the newest file.
    pub fn configured(&self) -> impl Iterator<Item = (&str, &ProgramConfig)> {
        let newest = |files: &'_ ProgramFiles| files.closed.len().checked_sub(1);
        self.programs
            .iter()
            .filter_map(move |(name, files)| Some((name.as_str(), &files.closed.get(newest(files)?)?.about.program)))
    }

    /// The history of a program in the last `seconds`, and of the epoch before these. Epochs of another
    /// length than the newest have other numbers, and are left out.
    ///
    /// # Errors
    /// If a file of these epochs is not what weir writes, or the program's hash functions are not those
    /// given.
    pub fn history(&self, program: &str, seconds: f64) -> Result<Arc<dyn Queryable>, ArchiveError> {
        let files = self.programs.iter().find(|(name, _)| name == program).map(|(_, files)| files);
        let unknown = || ArchiveError::wrong(&self.dir, format!("no epochs of {program}"));
        let files = files.ok_or_else(unknown)?;
        let newest = files.closed.last().ok_or_else(unknown)?;
        for error in &files.unreadable {
            tracing::warn!(target: "weir", event = "archive_unreadable", "{error}");
        }
        let about = &newest.about;
        let wanted = (seconds.max(0.0) * 1e9 / about.epoch_ns.max(1) as f64).ceil() as u64;
        let first = newest.last_epoch.saturating_sub(wanted);
        let mut restorer = about.program.restorer(Room { epochs: usize::MAX, bytes: ROOM_BYTES });
        restorer.history().set_length(about.epoch_ns);
        restorer.history().set_lost_after(about.lost_after_ns);
        let (mut configured, mut others) = (&about.program, 0u64);
        for file in &files.closed {
            if file.about.epoch_ns != about.epoch_ns {
                others += 1;
                continue;
            }
            if file.last_epoch < first {
                continue;
            }
            if file.about.program != *configured {
                configured = &file.about.program;
                let foreign = |error| ArchiveError::wrong(&file.path, format!("{error}"));
                restorer.configure(configured).map_err(foreign)?;
            }
            self.read(file, (program, first), &mut *restorer)?;
        }
        if others > 0 {
            tracing::warn!(
                target: "weir",
                "{others} files of {program} have epochs of another length, and are left out"
            );
        }
        Ok(restorer.history())
    }

    /// Restores the epochs of a file from `first` on.
    fn read(
        &self,
        file: &ArchiveFile,
        (program, first): (&str, u64),
        restorer: &mut dyn AnyRestorer,
    ) -> Result<(), ArchiveError> {
        let path = &file.path;
        let failed = ArchiveError::parquet(path);
        let opened = File::open(path).map_err(ArchiveError::io(path))?;
        if opened.metadata().map_err(ArchiveError::io(path))?.len() > MOST_BYTES {
            return Err(ArchiveError::wrong(path, format!("more than {MOST_BYTES} bytes")));
        }
        let reader = SerializedFileReader::new(opened).map_err(&failed)?;
        check(reader.metadata()).map_err(|why| ArchiveError::wrong(path, why))?;
        let given = self.hashes.as_ref().map(HashFamily::name);
        let projection = parse_message_type(STATE_SCHEMA).map_err(&failed)?;
        for row in reader.get_row_iter(Some(projection)).map_err(&failed)? {
            let row = row.map_err(&failed)?;
            let mut fields = row.get_column_iter().map(|(_, field)| field);
            let fields = [fields.next(), fields.next(), fields.next(), fields.next()];
            let [Some(Field::ULong(epoch)), Some(Field::Str(kind)), Some(hash), Some(state)] = fields else {
                return Err(ArchiveError::wrong(path, "the columns are not those of weir's archive"));
            };
            if kind != EPOCH || *epoch < first {
                continue;
            }
            if let Field::Str(wanted) = hash {
                let no_hashes = || ArchiveError::NoHashes { path: path.clone(), program: program.into() };
                let given = given.as_ref().ok_or_else(no_hashes)?;
                if given != wanted {
                    let (wanted, given) = (wanted.clone(), given.clone());
                    return Err(ArchiveError::OtherHashes { path: path.clone(), epoch: *epoch, wanted, given });
                }
            }
            let Field::Bytes(state) = state else {
                return Err(ArchiveError::wrong(path, format!("epoch {epoch} has no state")));
            };
            let restored = rows::read_state(state.data())
                .and_then(|(entry, bytes)| restorer.restore(&entry, bytes, self.hashes.as_ref()));
            restored.map_err(|source| ArchiveError::Epoch { path: path.clone(), epoch: *epoch, source })?;
        }
        Ok(())
    }
}

/// Refuses what would take more memory than a file of weir's, or is of other types.
fn check(metadata: &ParquetMetaData) -> Result<(), String> {
    let wanted = rows::columns();
    let columns = metadata.file_metadata().schema_descr().columns();
    let found: Vec<(String, Type)> =
        columns.iter().map(|column| (column.path().string(), column.physical_type())).collect();
    if found != wanted {
        return Err("the columns are not those of weir's archive".into());
    }
    for group in metadata.row_groups() {
        let bytes = group.columns().iter().map(|column| column.uncompressed_size().max(0)).fold(0, i64::saturating_add);
        if group.num_columns() != wanted.len() || bytes > MOST_GROUP_BYTES {
            return Err(format!("a group of {} columns and {bytes} bytes", group.num_columns()));
        }
    }
    Ok(())
}
