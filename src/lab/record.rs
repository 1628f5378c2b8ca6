//! Where the files of a lab are, and the record of what it consists of.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::HOST_INTERFACE;
use super::{LabError, Namespace, Plan, Rights, Token};
use crate::answers::PortName;
use crate::network::rpc::socket_name;
use crate::network::socket;
use crate::text::is_name;
use crate::wire::Mac;

/// The directory of all labs, beside the sockets.
const LABS: &str = "labs";
const RECORD: &str = "lab.json";
/// The form of the record.
const VERSION: u32 = 1;
/// Longest record that is read, in bytes.
const LONGEST: u64 = 16 << 20;
/// Longest path of a Unix socket, without the byte at its end.
const SOCKET_PATH: usize = 107;

/// The place of a lab, which need not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab {
    pub name: String,
    /// Where the sockets are, and the directory of labs.
    base: PathBuf,
}

/// The lock of a lab that is being started, which ends with the process.
#[derive(Debug)]
pub struct Starting {
    _directory: File,
}

/// What a lab consists of. Written before anything is started, and once more when all of it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    pub name: String,
    /// As it was asked for.
    pub topology: String,
    pub programs: Vec<String>,
    /// In the environment of each of its processes.
    pub token: Token,
    /// The namespaces are in a user namespace of the lab's own.
    pub rootless: bool,
    /// All of it has been started.
    pub complete: bool,
    pub controller: ControllerRecord,
    pub switches: Vec<SwitchRecord>,
    pub hosts: Vec<HostRecord>,
    pub links: Vec<LinkRecord>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControllerRecord {
    pub process: Option<u32>,
    /// The address of its live page.
    pub page: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchRecord {
    pub name: String,
    /// Its name in the topology.
    pub label: String,
    pub process: Option<u32>,
    /// The process that holds its namespace.
    pub holder: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    pub name: String,
    pub interface: String,
    pub address: Ipv4Addr,
    pub length: u8,
    pub gateway: Ipv4Addr,
    pub mac: Mac,
    /// The port that it is at.
    pub at: PortName,
    pub holder: Option<u32>,
}

/// A link between two switches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRecord {
    pub link: u32,
    pub ports: [PortName; 2],
}

impl Lab {
    /// The place of a new lab: below `directory`, or where control sockets are.
    ///
    /// # Errors
    /// If no directory is trusted, or the name can be none.
    pub fn new(name: &str, directory: Option<&Path>) -> Result<Self, LabError> {
        if !is_name(name) {
            return Err(LabError::Name(name.chars().take(80).collect()));
        }
        let base = socket::directory(directory).map_err(LabError::io(directory.unwrap_or(Path::new(LABS))))?;
        Ok(Self { name: name.into(), base })
    }

    /// All labs that are there, by name.
    ///
    /// # Errors
    /// If `directory` is not trusted.
    pub fn all(directory: Option<&Path>) -> Result<Vec<Self>, LabError> {
        let bases = socket::trusted(directory).map_err(LabError::io(directory.unwrap_or(Path::new(LABS))))?;
        let mut labs = Vec::new();
        for base in bases {
            let entries = fs::read_dir(base.join(LABS)).into_iter().flatten().flatten();
            let names = entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| is_name(name));
            labs.extend(names.map(|name| Self { name, base: base.clone() }));
        }
        labs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(labs)
    }

    /// The lab of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(name: &str, directory: Option<&Path>) -> Result<Self, LabError> {
        let labs = Self::all(directory)?;
        let absent = || LabError::Absent {
            name: name.chars().take(80).collect(),
            labs: labs.iter().map(|lab| lab.name.clone()).collect(),
        };
        labs.iter().find(|lab| lab.name == name).cloned().ok_or_else(absent)
    }

    /// The lab of this name, or the only one that there is.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn find_or_only(name: Option<&str>, directory: Option<&Path>) -> Result<Self, LabError> {
        if let Some(name) = name {
            return Self::find(name, directory);
        }
        let mut labs = Self::all(directory)?;
        match labs.len() {
            1 => Ok(labs.remove(0)),
            _ => Err(LabError::Which { labs: labs.into_iter().map(|lab| lab.name).collect() }),
        }
    }

    pub fn directory(&self) -> PathBuf {
        self.base.join(LABS).join(&self.name)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    /// The control socket of a switch: where `--name LAB.SWITCH` finds it, unless another directory was given.
    pub fn socket(&self, switch: &str) -> PathBuf {
        self.base.join(format!("{}.{switch}.sock", self.name))
    }

    /// The control socket of the controller.
    pub fn controller_socket(&self) -> PathBuf {
        self.base.join(format!("{}.sock", self.name))
    }

    pub fn switch_socket(&self) -> PathBuf {
        self.base.join(format!("{}.sock", socket_name(&self.name)))
    }

    fn sockets(&self, record: &Record) -> Vec<PathBuf> {
        let switches = record.switches.iter().map(|switch| self.socket(&switch.name));
        switches.chain([self.controller_socket(), self.switch_socket()]).collect()
    }

    /// Makes the lab's directory, with a record of what is to come. As long as what is returned is held, the lab
    /// is being started.
    ///
    /// # Errors
    /// If the lab is there already, or one of its sockets is another process's.
    pub fn create(&self, record: &Record) -> Result<Starting, LabError> {
        let (labs, own) = (self.base.join(LABS), self.directory());
        let exists = || LabError::Exists { name: self.name.clone(), directory: own.clone() };
        if own.exists() {
            return Err(exists());
        }
        for path in self.sockets(record) {
            if path.as_os_str().len() > SOCKET_PATH {
                return Err(LabError::LongPath { path, max: SOCKET_PATH });
            }
            if socket::answers(&path) {
                return Err(LabError::Taken(path));
            }
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&labs).map_err(LabError::io(&labs))?;
        fs::DirBuilder::new().mode(0o700).create(&own).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => exists(),
            _ => LabError::io(&own)(error),
        })?;
        let directory = File::open(&own).map_err(LabError::io(&own))?;
        directory.lock().map_err(LabError::io(&own))?;
        self.write(record)?;
        Ok(Starting { _directory: directory })
    }

    /// Whether a process is starting the lab.
    pub fn is_being_started(&self) -> bool {
        let directory = File::open(self.directory());
        directory.is_ok_and(|directory| matches!(directory.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Replaces the record as a whole.
    pub fn write(&self, record: &Record) -> Result<(), LabError> {
        let (path, new) = (self.file(RECORD), self.file("lab.json.new"));
        let text = serde_json::to_vec_pretty(record).map_err(|error| LabError::io(&path)(error.into()))?;
        let write = || -> std::io::Result<()> {
            let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(&text)?;
            fs::rename(&new, &path)
        };
        write().map_err(LabError::io(&path))
    }

    /// # Errors
    /// If there is no record, or it is none of this lab.
    pub fn read(&self) -> Result<Record, LabError> {
        let path = self.file(RECORD);
        let mut text = Vec::new();
        let file = File::open(&path).map_err(LabError::io(&path))?;
        file.take(LONGEST + 1).read_to_end(&mut text).map_err(LabError::io(&path))?;
        let wrong = |why: String| LabError::Record { path: path.clone(), why };
        if text.len() as u64 > LONGEST {
            return Err(wrong(format!("longer than {LONGEST} bytes")));
        }
        let record: Record = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        let names = record.switches.iter().map(|switch| &switch.name).chain(record.hosts.iter().map(|host| &host.name));
        if record.version != VERSION {
            Err(wrong(format!("version {}, and not {VERSION}", record.version)))
        } else if record.name != self.name || !record.token.is_valid() {
            Err(wrong("of another lab".into()))
        } else if let Some(name) = names.into_iter().find(|name| !is_name(name)) {
            Err(wrong(format!("{name:?} is no name of a node")))
        } else {
            Ok(record)
        }
    }

    /// Ends the lab's processes, and removes its files and sockets. A lab that was never started as a whole, or
    /// whose processes have been killed, goes the same way.
    ///
    /// # Errors
    /// If a process does not end, or a file cannot be removed. The lab stays then, and can be removed again.
    pub fn remove(&self) -> Result<(), LabError> {
        match self.read() {
            Ok(record) => {
                record.token.end_all()?;
                self.sockets(&record).iter().try_for_each(|path| remove_socket(path))?;
            }
            // Nothing is started before there is a record.
            Err(LabError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let directory = self.directory();
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(LabError::io(&directory)(error)),
            _ => Ok(()),
        }
    }
}

/// Removes a socket that a killed process has left.
fn remove_socket(path: &Path) -> Result<(), LabError> {
    let is_socket = path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    if !is_socket || socket::answers(path) {
        return Ok(());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(LabError::io(path)(error)),
        _ => Ok(()),
    }
}

impl Record {
    /// Of a lab of which nothing has been started yet.
    pub fn new(plan: &Plan, topology: &str, token: Token, rights: Rights) -> Self {
        let switches = plan.switches.iter().map(|switch| SwitchRecord {
            name: switch.name.clone(),
            label: switch.label.clone(),
            process: None,
            holder: None,
        });
        let hosts = plan.hosts.iter().map(|host| HostRecord {
            name: host.name.clone(),
            interface: HOST_INTERFACE.into(),
            address: host.address,
            length: host.length,
            gateway: host.gateway,
            mac: host.mac,
            at: PortName::new(&plan.switches[host.at.switch].name, &host.at.port),
            holder: None,
        });
        let links = (0..plan.links.len()).map(|link| LinkRecord { link: link as u32, ports: plan.ports(link) });
        Self {
            version: VERSION,
            name: plan.name.clone(),
            topology: topology.into(),
            programs: plan.controller.programs.iter().map(|program| program.name().to_owned()).collect(),
            token,
            rootless: rights == Rights::User,
            complete: false,
            controller: ControllerRecord { process: None, page: plan.controller.page.listen.clone() },
            switches: switches.collect(),
            hosts: hosts.collect(),
            links: links.collect(),
        }
    }

    pub fn rights(&self) -> Rights {
        if self.rootless { Rights::User } else { Rights::Root }
    }

    /// Whether a process of the record still runs.
    pub fn runs(&self, process: Option<u32>) -> bool {
        process.is_some_and(|process| self.token.is_in(process))
    }

    /// The namespace of a switch or host.
    ///
    /// # Errors
    /// If there is no such node, or it does not run.
    pub fn namespace(&self, node: &str) -> Result<Namespace, LabError> {
        let switches = self.switches.iter().map(|switch| (&switch.name, switch.holder));
        let mut nodes = self.hosts.iter().map(|host| (&host.name, host.holder)).chain(switches);
        let Some((_, holder)) = nodes.find(|(name, _)| *name == node) else {
            let hosts = self.hosts.iter().map(|host| host.name.clone());
            let nodes = hosts.chain(self.switches.iter().map(|switch| switch.name.clone())).collect();
            return Err(LabError::NoNode { lab: self.name.clone(), node: node.chars().take(80).collect(), nodes });
        };
        match holder.filter(|holder| self.runs(Some(*holder))) {
            Some(process) => Ok(Namespace { process, rights: self.rights() }),
            None => Err(LabError::NodeEnded { lab: self.name.clone(), node: node.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::lab::processes::tests::Marked;

    fn record(name: &str, token: Token) -> Record {
        let switch = |name: &str| SwitchRecord { name: name.into(), label: name.into(), process: None, holder: None };
        Record {
            version: VERSION,
            name: name.into(),
            topology: "line:2".into(),
            programs: Vec::new(),
            token,
            rootless: false,
            complete: false,
            controller: ControllerRecord::default(),
            switches: vec![switch("s0"), switch("s1")],
            hosts: Vec::new(),
            links: Vec::new(),
        }
    }

    /// What a lab leaves whose processes were killed, and whose starter was killed halfway.
    #[test]
    fn what_is_left_of_a_lab_is_removed_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let at = Some(directory.path());
        let [one, other] = ["one", "other"].map(|name| Lab::new(name, at).unwrap());
        let token = Token::random().unwrap();
        let starting = one.create(&record("one", token.clone())).unwrap();
        assert!(one.is_being_started());
        drop(starting);
        assert!(!one.is_being_started());
        drop(other.create(&record("other", Token::random().unwrap())).unwrap());
        assert!(matches!(one.create(&record("one", token.clone())), Err(LabError::Exists { .. })));
        fs::write(one.file("s0.log"), "words").unwrap();
        drop(UnixListener::bind(one.socket("s0")).unwrap());
        fs::write(one.socket("s1"), "no socket").unwrap();
        let _foreign = UnixListener::bind(one.controller_socket()).unwrap();
        drop(UnixListener::bind(other.socket("s0")).unwrap());
        let _marked = Marked(token.clone());
        let mut child = Command::new("sleep");
        token.mark(child.arg("60").stdin(Stdio::null()));
        let mut child = child.spawn().unwrap();
        let names = || Lab::all(at).unwrap().into_iter().map(|lab| lab.name).collect::<Vec<_>>();
        assert_eq!(names(), ["one", "other"]);

        one.remove().unwrap();
        assert_eq!(names(), ["other"]);
        assert!(!child.wait().unwrap().success() && !one.directory().exists() && !one.socket("s0").exists());
        assert!(one.socket("s1").exists(), "no socket");
        assert!(one.controller_socket().exists(), "somebody answers there");
        assert!(other.socket("s0").exists() && other.read().is_ok(), "another lab's");
        let taken = one.create(&record("one", token)).unwrap_err().to_string();
        assert!(taken.contains("one.sock: a switch or controller answers there already"), "{taken}");
        // Killed before there was a record.
        fs::remove_file(other.file(RECORD)).unwrap();
        other.remove().unwrap();
        assert_eq!(names(), [""; 0]);
    }

    #[test]
    fn a_record_that_is_none_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let lab = Lab::new("lab", Some(directory.path())).unwrap();
        let right = record("lab", Token::random().unwrap());
        drop(lab.create(&right).unwrap());
        assert_eq!(lab.read().unwrap(), right);
        let text = fs::read_to_string(lab.file(RECORD)).unwrap();
        for (from, to) in [
            ("\"s0\"", "\"../s0\""),
            ("\"version\": 1", "\"version\": 2"),
            ("\"name\": \"lab\"", "\"name\": \"other\""),
            ("\"token\": \"", "\"token\": \"x"),
            ("{", "["),
        ] {
            fs::write(lab.file(RECORD), text.replacen(from, to, 1)).unwrap();
            assert!(matches!(lab.read(), Err(LabError::Record { .. })), "{to}");
        }
        fs::write(lab.file(RECORD), vec![b' '; LONGEST as usize + 2]).unwrap();
        assert!(lab.read().unwrap_err().to_string().contains("longer than"));
        assert!(matches!(Lab::find("nonsense", Some(directory.path())), Err(LabError::Absent { .. })));
    }

    /// Nobody else may decide which processes are entered and ended.
    #[test]
    fn a_directory_of_others_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o1777)).unwrap();
        for refused in [Lab::new("lab", Some(directory.path())).map(drop), Lab::all(Some(directory.path())).map(drop)] {
            assert!(refused.unwrap_err().to_string().contains("can be written by others"));
        }
    }

    #[test]
    fn paths_of_sockets_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let deep = directory.path().join("d".repeat(90));
        let lab = Lab::new("lab", Some(&deep)).unwrap();
        let error = lab.create(&record("lab", Token::random().unwrap())).unwrap_err();
        assert!(matches!(error, LabError::LongPath { max: 107, .. }), "{error}");
    }
}
