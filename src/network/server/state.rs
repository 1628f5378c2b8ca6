//! What a controller must not lose: the network's hash functions, which are secret, and what it has
//! decided for each program.

use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::network::controller::Saved;
use crate::pisa::hash::HashFamily;

const VERSION: u32 = 3;

/// A state that cannot be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: {why}; remove the file to begin anew", path.display())]
    Wrong { path: PathBuf, why: String },
}

/// The state.
#[derive(Clone, PartialEq)]
pub struct State {
    pub hashes: HashFamily,
    /// Makes the sampling of this deployment its own.
    pub salt: u64,
    /// In the order of the programs.
    pub controllers: Vec<Saved>,
}

/// As it stands in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    secret: [u8; HashFamily::SECRET_BYTES],
    salt: u64,
    controllers: Vec<Saved>,
}

/// What every version of the file begins with.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// The file, which only its owner may read.
#[derive(Clone, Debug)]
pub struct StateFile(PathBuf);

impl StateFile {
    /// The file at `path`, whose directory is made when it is not there.
    pub fn at(path: PathBuf) -> Result<Self, StateError> {
        let file = Self(path);
        let directory = file.directory();
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|source| StateError::Io { path: directory.into(), source })?;
        Ok(file)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    fn directory(&self) -> &Path {
        self.0.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    fn failed(&self, source: io::Error) -> StateError {
        StateError::Io { path: self.0.clone(), source }
    }

    pub(super) fn wrong(&self, why: impl Into<String>) -> StateError {
        StateError::Wrong { path: self.0.clone(), why: why.into() }
    }

    /// What was stored, if anything was.
    pub fn read(&self) -> Result<Option<State>, StateError> {
        let text = match std::fs::read_to_string(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(error)),
        };
        let mode = self.0.metadata().map_err(|error| self.failed(error))?.mode();
        if mode & 0o077 != 0 {
            return Err(
                self.wrong(format!("others may read or write this secret (mode {:04o}); chmod go= it", mode & 0o7777))
            );
        }
        // What stands there is no text for a log.
        let place =
            |error: serde_json::Error| self.wrong(format!("line {}: not what a controller writes", error.line()));
        let Versioned { version } = serde_json::from_str(&text).map_err(place)?;
        if version != VERSION {
            return Err(self.wrong(format!("version {version}, and this weir knows version {VERSION}")));
        }
        let Document { secret, salt, controllers, .. } = serde_json::from_str(&text).map_err(place)?;
        Ok(Some(State { hashes: HashFamily::from_secret(secret), salt, controllers }))
    }

    /// Stores it whole or not at all, whatever happens to the machine meanwhile.
    pub fn write(&self, state: &State) -> Result<(), StateError> {
        let document = Document {
            version: VERSION,
            secret: *state.hashes.reveal(),
            salt: state.salt,
            controllers: state.controllers.clone(),
        };
        let mut name = self.0.clone().into_os_string();
        name.push(".new");
        let new = PathBuf::from(name);
        let written = || -> io::Result<()> {
            // One that was left over may have other rights.
            match std::fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(&serde_json::to_vec_pretty(&document)?)?;
            file.sync_all()?;
            std::fs::rename(&new, &self.0)?;
            std::fs::File::open(self.directory())?.sync_all()
        };
        written().map_err(|error| self.failed(error))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::network::controller::{NetworkProfile, ParameterUpdate};
    use crate::program::ProgramConfig;
    use crate::program::chamelemon::{ChameleMon, Config};

    fn state() -> State {
        let program = ProgramConfig::new::<ChameleMon>(Config::default());
        let updates = vec![ParameterUpdate { epoch: 7, parameters: program.start() }];
        let (header, key) = (crate::switch::TelemetryHeader::Dscp, crate::switch::KeyHeaders::Inner);
        let profile = NetworkProfile { program, length: 1 << 26, transit: 1, header, key };
        let controller = Saved { version: 2, profile: Some(profile), updates, switches: vec!["edge1".into()] };
        let controllers = vec![controller.clone(), Saved { switches: Vec::new(), ..controller }];
        State { hashes: HashFamily::from_secret([211; 32]), salt: u64::MAX, controllers }
    }

    #[test]
    fn what_is_stored_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::at(dir.path().join("made/state.json")).unwrap();
        assert!(file.read().unwrap().is_none());
        file.write(&state()).unwrap();
        assert!(file.read().unwrap() == Some(state()));
        assert_eq!(file.path().metadata().unwrap().mode() & 0o7777, 0o600);
        std::fs::write(dir.path().join("made/state.json.new"), "left over").unwrap();
        let other = State { salt: 4, ..state() };
        file.write(&other).unwrap();
        assert!(file.read().unwrap() == Some(other));
        assert_eq!(std::fs::read_dir(dir.path().join("made")).unwrap().count(), 1);
    }

    #[test]
    fn a_state_that_will_not_do_is_named_and_kept_secret() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::at(dir.path().join("state.json")).unwrap();
        file.write(&state()).unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        let secret = "211,";
        assert!(text.contains(secret));
        let refused = |text: &str, mode: u32| {
            std::fs::write(file.path(), text).unwrap();
            std::fs::set_permissions(file.path(), PermissionsExt::from_mode(mode)).unwrap();
            let Err(error) = file.read() else { panic!("taken") };
            let error = error.to_string();
            assert!(!error.contains(secret) && error.ends_with("remove the file to begin anew"), "{error}");
            error
        };
        assert!(refused(&text, 0o640).contains("others may read or write this secret (mode 0640)"));
        assert!(refused(&text[..text.len() / 2], 0o600).contains("not what a controller writes"));
        assert!(refused(&text.replacen("\"version\": 3", "\"version\": 9", 1), 0o600).contains("version 9"));
        // Version 1 had 32 polynomials, which follow from no secret; version 2 one program.
        let old = format!("{{\"version\": 1, \"hashes\": [{secret} 3], \"salt\": 4}}");
        assert!(refused(&old, 0o600).contains("version 1, and this weir knows version 3"));
        let old = format!("{{\"version\": 2, \"secret\": [{secret} 3], \"salt\": 4, \"controller\": {{}}}}");
        assert!(refused(&old, 0o600).contains("version 2, and this weir knows version 3"));
        for other in ["\"secret\",", "256,", ""] {
            assert!(refused(&text.replacen(secret, other, 1), 0o600).contains("not what a controller writes"));
        }
    }
}
