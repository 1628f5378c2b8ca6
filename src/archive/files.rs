//! The files of an archive: what each says of itself.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parquet::file::metadata::KeyValue;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::ArchiveError;
use crate::program::ProgramConfig;

/// Version of the files.
const VERSION: &str = "1";
/// What a file's name ends in, and that of one that is written.
const CLOSED: &str = ".parquet";
const OPEN: &str = ".parquet.open";
/// Most files of a program.
const MOST: usize = 1 << 17;

/// What a file says of itself, as key and value in its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    pub program: ProgramConfig,
    pub epoch_ns: u64,
    pub lost_after_ns: Option<u64>,
}

impl About {
    /// As metadata of a file with these epochs.
    pub fn metadata(&self, (first, last): (u64, u64), epochs: u64) -> Vec<KeyValue> {
        let program = serde_json::to_string(&self.program).unwrap_or_default();
        let lost_after = self.lost_after_ns.map(|nanos| ("weir.lost_after_ns", nanos.to_string()));
        let all = [
            ("weir.version", VERSION.to_owned()),
            ("weir.program", program),
            ("weir.epoch_ns", self.epoch_ns.to_string()),
            ("weir.first_epoch", first.to_string()),
            ("weir.last_epoch", last.to_string()),
            ("weir.epochs", epochs.to_string()),
        ];
        all.into_iter().chain(lost_after).map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect()
    }
}

/// A closed file.
#[derive(Clone, Debug)]
pub struct ArchiveFile {
    pub path: PathBuf,
    pub bytes: u64,
    pub about: About,
    pub first_epoch: u64,
    pub last_epoch: u64,
    /// Number of epochs in it.
    pub epochs: u64,
}

impl ArchiveFile {
    /// Reads what a file says of itself.
    fn read(path: &Path) -> Result<Self, ArchiveError> {
        let file = File::open(path).map_err(ArchiveError::io(path))?;
        let bytes = file.metadata().map_err(ArchiveError::io(path))?.len();
        let reader = SerializedFileReader::new(file).map_err(ArchiveError::parquet(path))?;
        let metadata = reader.metadata().file_metadata().key_value_metadata();
        let value = |key: &str| {
            let mut values = metadata.into_iter().flatten();
            values.find(|value| value.key == key).and_then(|value| value.value.as_deref())
        };
        let wrong = |why: String| ArchiveError::wrong(path, why);
        match value("weir.version") {
            Some(VERSION) => {}
            Some(other) => return Err(wrong(format!("version {other}, and {VERSION} is understood"))),
            None => return Err(wrong("not a file of weir's archive".into())),
        }
        let number = |key: &str| {
            let number = value(key).and_then(|value| value.parse::<u64>().ok());
            number.ok_or_else(|| ArchiveError::wrong(path, format!("{key} is not a number")))
        };
        let program = value("weir.program").unwrap_or_default();
        let program: ProgramConfig = serde_json::from_str(program).map_err(|error| wrong(error.to_string()))?;
        program.validate().map_err(|error| wrong(error.to_string()))?;
        let lost_after_ns = value("weir.lost_after_ns").map(|_| number("weir.lost_after_ns")).transpose()?;
        let (first_epoch, last_epoch) = (number("weir.first_epoch")?, number("weir.last_epoch")?);
        if first_epoch > last_epoch {
            return Err(wrong(format!("epochs {first_epoch} to {last_epoch}")));
        }
        let about = About { program, epoch_ns: number("weir.epoch_ns")?, lost_after_ns };
        Ok(Self { path: path.into(), bytes, about, first_epoch, last_epoch, epochs: number("weir.epochs")? })
    }

    /// The end of its last epoch, in nanoseconds since 1970.
    pub fn end_ns(&self) -> u64 {
        self.last_epoch.saturating_add(1).saturating_mul(self.about.epoch_ns)
    }

    /// When it was closed.
    pub(super) fn closed_at(&self) -> Option<SystemTime> {
        self.path.metadata().and_then(|metadata| metadata.modified()).ok()
    }
}

/// A file that is written, or was when its process ended.
#[derive(Clone, Debug)]
pub struct OpenFile {
    pub path: PathBuf,
    /// The first epoch in it.
    pub first_epoch: u64,
    pub bytes: u64,
}

/// The files of a program.
#[derive(Debug, Default)]
pub struct ProgramFiles {
    /// In the order of their time.
    pub closed: Vec<ArchiveFile>,
    pub open: Vec<OpenFile>,
    /// Files that cannot be read, and why.
    pub unreadable: Vec<ArchiveError>,
}

impl ProgramFiles {
    /// The files in a program's directory.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn of(dir: &Path) -> Result<Self, ArchiveError> {
        let mut files = Self::default();
        for entry in std::fs::read_dir(dir).map_err(ArchiveError::io(dir))?.take(MOST) {
            let path = entry.map_err(ArchiveError::io(dir))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if let Some(first) = name.strip_suffix(OPEN) {
                let bytes = path.metadata().map_or(0, |metadata| metadata.len());
                files.open.push(OpenFile { first_epoch: first.parse().unwrap_or_default(), bytes, path });
            } else if name.ends_with(CLOSED) {
                match ArchiveFile::read(&path) {
                    Ok(file) => files.closed.push(file),
                    Err(error) => files.unreadable.push(error),
                }
            }
        }
        files.closed.sort_by(|one, other| (one.end_ns(), &one.path).cmp(&(other.end_ns(), &other.path)));
        Ok(files)
    }

    /// Bytes of all closed files.
    pub fn bytes(&self) -> u64 {
        self.closed.iter().map(|file| file.bytes).fold(0, u64::saturating_add)
    }

    /// Number of epochs between the first and the last that are in no file.
    pub fn missing_epochs(&self) -> u64 {
        let (mut next, mut missing) = (None, 0u64);
        for file in &self.closed {
            if let Some((length, next)) = next
                && length == file.about.epoch_ns
            {
                missing = missing.saturating_add(file.first_epoch.saturating_sub(next));
            }
            let spanned = (file.last_epoch - file.first_epoch).saturating_add(1);
            missing = missing.saturating_add(spanned.saturating_sub(file.epochs));
            next = Some((file.about.epoch_ns, file.last_epoch.saturating_add(1)));
        }
        missing
    }
}

/// The path of a file that begins with this epoch and is written.
pub fn open_path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first}{OPEN}"))
}

/// The path of a closed file with these epochs.
pub fn closed_path(dir: &Path, first: u64, last: u64) -> PathBuf {
    dir.join(format!("{first}-{last}{CLOSED}"))
}
