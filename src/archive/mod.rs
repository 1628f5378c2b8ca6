//! Histories at rest: the epochs of programs in Parquet files, for weir's own answers over days and
//! for any engine that reads Parquet.
//!
//! A directory has one for each program, and that has a file for each stretch of time:
//! `DIR/PROGRAM/FIRST-LAST.parquet`, by the numbers of its epochs. A file that is written is called
//! `FIRST.parquet.open`, because it can be read once it has its end; it is renamed then.

mod files;
mod reader;
mod rows;
mod thread;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parquet::errors::ParquetError;

pub use files::{ArchiveFile, OpenFile, ProgramFiles};
pub use reader::Archive;
pub use rows::SCHEMA;
pub use thread::{ArchiveThread, Source, routes};
pub use writer::{Extent, ProgramArchive};

use crate::program::DecodeError;

/// How an archive is written.
#[derive(Clone, Debug, PartialEq)]
pub struct ArchiveSettings {
    pub dir: PathBuf,
    /// A file has epochs of this time at most, and about this number of bytes.
    pub rotate: Duration,
    pub rotate_bytes: u64,
    /// Files that are older are removed; `None` keeps them.
    pub keep: Option<Duration>,
    /// The oldest files of a program are removed while all have more bytes.
    pub keep_bytes: u64,
}

impl ArchiveSettings {
    /// An archive in this directory that keeps all.
    pub fn at(dir: PathBuf) -> Self {
        Self { dir, rotate: Duration::MAX, rotate_bytes: 256 << 20, keep: None, keep_bytes: u64::MAX }
    }
}

/// An archive that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Parquet { path: PathBuf, source: ParquetError },
    #[error("{}: {why}", path.display())]
    Wrong { path: PathBuf, why: String },
    #[error("{}: epoch {epoch}: {source}", path.display())]
    Epoch { path: PathBuf, epoch: u64, source: DecodeError },
    #[error(
        "{}: the counts of {program} rest on secret hash functions; name their file with --state, or their seed with \
         --reproducible", path.display()
    )]
    NoHashes { path: PathBuf, program: String },
    #[error(
        "{}: epoch {epoch} was measured with the hash functions {wanted}, and those given are {given}",
        path.display()
    )]
    OtherHashes { path: PathBuf, epoch: u64, wanted: String, given: String },
    #[error("{}: another process writes here", .0.display())]
    InUse(PathBuf),
    #[error("{}: there are epochs of {program} already; name another directory", path.display())]
    NotEmpty { path: PathBuf, program: String },
}

impl ArchiveError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    fn parquet(path: &Path) -> impl Fn(ParquetError) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Parquet { path: path.clone(), source }
    }

    fn wrong(path: &Path, why: impl Into<String>) -> Self {
        Self::Wrong { path: path.into(), why: why.into() }
    }
}
