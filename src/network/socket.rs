//! Where the control socket lies, and who may connect to it.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::port::files::{self, FileId};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// Who may connect: the owner, and a group if one is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// By default the user that weir runs as.
    pub owner: Option<u32>,
    /// Its members may connect as well.
    pub group: Option<u32>,
}

/// A directory for sockets.
#[derive(Clone, Debug)]
struct Directory {
    path: PathBuf,
    /// Lies where only root makes directories.
    system: bool,
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Directories for sockets, best first: of the system when it is root that asks, of the session, of
/// the user.
fn directories() -> Vec<Directory> {
    let user = user();
    let own = |path| Directory { path, system: false };
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(|dir| own(PathBuf::from(dir).join("weir")));
    let last = own(std::env::temp_dir().join(format!("weir-{user}")));
    let system = Directory { path: "/run/weir".into(), system: true };
    let mut directories: Vec<_> = session.into_iter().chain([last]).collect();
    directories.insert(if user == 0 { 0 } else { directories.len() }, system);
    directories
}

/// Those in which a switch of this user's makes its socket.
fn own_directories() -> Vec<Directory> {
    directories().into_iter().filter(|dir| user() == 0 || !dir.system).collect()
}

/// Where a switch of this user's makes its socket, best first.
pub fn places() -> Vec<PathBuf> {
    own_directories().into_iter().map(|dir| dir.path).collect()
}

/// The socket of the switch of this name: the first that is there, else where it would be. One that
/// somebody else may have put there is an error.
pub fn path(name: &str) -> io::Result<PathBuf> {
    find(&directories(), name)
}

fn find(directories: &[Directory], name: &str) -> io::Result<PathBuf> {
    let file = format!("{name}.sock");
    for directory in directories {
        let path = directory.path.join(&file);
        if path.symlink_metadata().is_ok() {
            return check(directory).map(|()| path);
        }
    }
    Ok(directories.first().map(|dir| dir.path.join(&file)).unwrap_or_default())
}

/// A directory about which only this user and root decide: the one that is wanted, which is made if it is not
/// there, or the first of the usual ones that can be made.
///
/// # Errors
/// If there is none.
pub fn directory(wanted: Option<&Path>) -> io::Result<PathBuf> {
    let mut error = io::Error::other("no directory for control sockets");
    for directory in chosen(wanted)? {
        match prepare(&directory, Access::default()) {
            Ok(()) => return Ok(directory.path),
            Err(e) => error = e,
        }
    }
    Err(error)
}

/// The directories that [`directory`] may have returned, as far as they are there and trusted.
///
/// # Errors
/// If the one that is wanted is not trusted.
pub fn trusted(wanted: Option<&Path>) -> io::Result<Vec<PathBuf>> {
    let mut trusted = Vec::new();
    for directory in chosen(wanted)? {
        match check(&directory) {
            Ok(()) => trusted.push(directory.path),
            Err(error) if wanted.is_some() && error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
    }
    Ok(trusted)
}

fn chosen(wanted: Option<&Path>) -> io::Result<Vec<Directory>> {
    match wanted {
        Some(path) => Ok(vec![Directory { path: std::path::absolute(path)?, system: false }]),
        None => Ok(own_directories()),
    }
}

/// The names of the sockets at which somebody answers, in alphabetical order.
pub fn running() -> Vec<String> {
    running_in(&directories())
}

/// Whether somebody answers at a socket.
pub fn answers(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

fn running_in(directories: &[Directory]) -> Vec<String> {
    let trusted = directories.iter().filter(|directory| check(directory).is_ok());
    let entries = trusted.filter_map(|directory| std::fs::read_dir(&directory.path).ok()).flatten().flatten();
    let answering = entries.filter_map(|entry| {
        let name = entry.file_name().to_str()?.strip_suffix(".sock")?.to_owned();
        UnixStream::connect(entry.path()).is_ok().then_some(name)
    });
    answering.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Whether only this user and root decide what lies in a directory. In /tmp anyone may have made
/// it.
fn check(directory: &Directory) -> io::Result<()> {
    let Directory { path, system } = directory;
    let found = path.symlink_metadata().map_err(|e| at(path, e))?;
    let user = user();
    let why = if !found.is_dir() {
        "is not a directory, or a link to one".into()
    } else if !system && ![user, 0].contains(&found.uid()) {
        format!("belongs to user {}, not to {user}", found.uid())
    } else if found.mode() & 0o022 != 0 {
        format!("can be written by others (mode {:04o})", found.mode() & 0o7777)
    } else {
        return Ok(());
    };
    let why = format!("{} {why}: no control socket there is trusted; remove it, or give --socket", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// A socket's file, removed when dropped; one of another process that is in its place stays.
#[derive(Debug)]
pub struct SocketFile {
    pub path: PathBuf,
    made: FileId,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        files::remove_socket(&self.path, self.made);
    }
}

/// Listens at `wanted`, or at the first of the usual places that can be written.
pub fn listen(name: &str, wanted: Option<PathBuf>, access: Access) -> io::Result<(UnixListener, SocketFile)> {
    match wanted {
        Some(path) => bind(path, access),
        None => listen_in(&own_directories(), name, access),
    }
}

fn listen_in(directories: &[Directory], name: &str, access: Access) -> io::Result<(UnixListener, SocketFile)> {
    let mut error = io::Error::other("no directory for the control socket");
    for directory in directories {
        let path = directory.path.join(format!("{name}.sock"));
        match prepare(directory, access).and_then(|()| bind(path, access)) {
            Ok(listening) => return Ok(listening),
            Err(e) if matches!(e.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AlreadyExists) => return Err(e),
            Err(e) => error = e,
        }
    }
    Err(error)
}

/// Makes a directory that only the user enters, and the group that may connect.
fn prepare(directory: &Directory, access: Access) -> io::Result<()> {
    let path = &directory.path;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|e| at(path, e))?;
    check(directory)?;
    if access != Access::default() {
        chown(path, access.owner, access.group).map_err(|e| at(path, e))?;
    }
    if access.group.is_some() {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o750)).map_err(|e| at(path, e))?;
    }
    Ok(())
}

/// Binds a socket. One that a killed switch has left over is replaced.
fn bind(path: PathBuf, access: Access) -> io::Result<(UnixListener, SocketFile)> {
    if UnixStream::connect(&path).is_ok() {
        let why = format!("{}: a switch of this name is running", path.display());
        return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    }
    files::make_room(&path)?;
    let bound = || -> io::Result<_> {
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path)?)?;
        let made = FileId::of_socket(&path).ok_or(io::ErrorKind::NotFound)?;
        // Nobody can connect before it listens, so never with other rights than these.
        if access != Access::default() {
            chown(&path, access.owner, access.group)?;
        }
        let mode = if access.group.is_some() { 0o660 } else { 0o600 };
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok((socket.into(), made))
    };
    let (listener, made) = bound().map_err(|e| at(&path, e))?;
    Ok((listener, SocketFile { path, made }))
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Access = Access { owner: None, group: None };

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().mode() & 0o7777
    }

    fn own(path: PathBuf) -> Directory {
        Directory { path, system: false }
    }

    #[test]
    fn a_socket_that_is_left_over_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weir.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let (_listener, at) = listen("weir", Some(path.clone()), ALONE).unwrap();
        assert_eq!(at.path, path);
        assert!(UnixStream::connect(&path).is_ok());
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_second_switch_of_the_same_name_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weir.sock");
        let _first = listen("weir", Some(path.clone()), ALONE).unwrap();
        let error = listen("weir", Some(path.clone()), ALONE).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().ends_with("weir.sock: a switch of this name is running"), "{error}");
        assert!(UnixStream::connect(&path).is_ok(), "the first one goes on");
    }

    /// Of two processes the one that ends leaves the other's socket, whose path was its own before.
    #[test]
    fn another_process_socket_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weir.sock");
        let (_listener, first) = listen("weir", Some(path.clone()), ALONE).unwrap();
        // Somebody cleaned up.
        std::fs::remove_file(&path).unwrap();
        let (_other, second) = listen("weir", Some(path.clone()), ALONE).unwrap();
        drop(first);
        assert!(UnixStream::connect(&path).is_ok(), "the second one is there");
        drop(second);
        assert!(!path.exists(), "its own it removes");
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weir.sock");
        std::fs::write(&path, "precious").unwrap();
        let error = listen("weir", Some(path.clone()), ALONE).unwrap_err();
        assert!(error.to_string().contains("weir.sock"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        let absent = listen("weir", Some(dir.path().join("no/weir.sock")), ALONE).unwrap_err();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
    }

    /// A directory of ours is made, used by a switch and found by a client; only we, or a group,
    /// may enter.
    #[test]
    fn a_directory_is_made_for_the_user_or_a_group() {
        let dir = tempfile::tempdir().unwrap();
        let place = own(dir.path().join("weir-0"));
        let (_listener, socket) = listen_in(std::slice::from_ref(&place), "weir", ALONE).unwrap();
        assert_eq!((mode(&place.path), mode(&socket.path)), (0o700, 0o600));
        assert_eq!(find(std::slice::from_ref(&place), "weir").unwrap(), socket.path);
        assert!(find(std::slice::from_ref(&place), "other").unwrap().ends_with("weir-0/other.sock"));

        let group = Access { owner: None, group: Some(rustix::process::getegid().as_raw()) };
        let (_listener, socket) = listen_in(std::slice::from_ref(&place), "shared", group).unwrap();
        assert_eq!((mode(&place.path), mode(&socket.path)), (0o750, 0o660));
    }

    /// Neither server nor client uses a socket in a directory that another user could have
    /// prepared.
    #[test]
    fn a_prepared_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |place: Directory, why: &str| {
            std::fs::write(place.path.join("weir.sock"), "").unwrap();
            let places = [place];
            for error in [find(&places, "weir").unwrap_err(), listen_in(&places, "new", ALONE).unwrap_err()] {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                assert!(error.to_string().contains(why), "{error}");
            }
        };
        let open = dir.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o1777)).unwrap();
        refused(own(open.clone()), "can be written by others (mode 1777)");

        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        refused(own(link), "is not a directory, or a link to one");

        if user() == 0 {
            let theirs = dir.path().join("theirs");
            std::fs::create_dir(&theirs).unwrap();
            chown(&theirs, Some(12345), None).unwrap();
            refused(own(theirs.clone()), "belongs to user 12345, not to 0");
            std::fs::remove_file(theirs.join("weir.sock")).unwrap();
            let system = Directory { path: theirs, system: true };
            assert!(listen_in(&[system], "weir", ALONE).is_ok(), "in /run only root makes directories");
        }
    }
}
