//! `[archive]`: where the epochs of past days are kept.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigError, Length, check_length, wrong};

/// Where the epochs of past days are kept, as Parquet files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ArchiveConfig {
    /// The directory. Without it nothing is archived.
    pub dir: Option<PathBuf>,
    /// A file has epochs of this time at most. What a process that is killed has in its open file is lost.
    pub rotate: Length,
    /// A file has about this number of bytes at most.
    #[schemars(range(min = 65_536))]
    pub rotate_bytes: u64,
    /// Files that were closed before this time are removed; without it they stay.
    pub keep: Option<Length>,
    /// The oldest files of a program are removed while all have more bytes; without it they stay.
    pub keep_bytes: Option<u64>,
    /// Of a switch: file of the secret from which its hash functions follow, made at the first start.
    /// Without it they are new ones with each start, and counts that rest on them cannot be asked after
    /// it. A controller has `state`.
    pub state: Option<PathBuf>,
}

impl Default for ArchiveConfig {
    fn default() -> Self {
        Self {
            dir: None,
            rotate: Length(Duration::from_secs(600)),
            rotate_bytes: 64 << 20,
            keep: None,
            keep_bytes: None,
            state: None,
        }
    }
}

impl ArchiveConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        check_length("archive.rotate", self.rotate, Duration::from_secs(1), Duration::from_secs(30 * 86_400))?;
        if self.rotate_bytes < 1 << 16 {
            return wrong("archive.rotate_bytes", self.rotate_bytes, "65536 bytes or more");
        }
        Ok(())
    }

    /// How the archive is written, if it is.
    #[cfg(feature = "control")]
    pub fn settings(&self) -> Option<crate::archive::ArchiveSettings> {
        Some(crate::archive::ArchiveSettings {
            dir: self.dir.clone()?,
            rotate: self.rotate.0,
            rotate_bytes: self.rotate_bytes,
            keep: self.keep.map(|keep| keep.0),
            keep_bytes: self.keep_bytes.unwrap_or(u64::MAX),
        })
    }
}
