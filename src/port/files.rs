//! Files at paths that a user names: sockets and captures. Only sockets of processes that have
//! ended are removed, and no file is overwritten.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

fn at(path: &Path, kind: ErrorKind, why: &str) -> io::Error {
    io::Error::new(kind, format!("{}: {why}", path.display()))
}

/// Makes room for a socket at `path`: removes the socket of a process that has ended, and nothing
/// else.
///
/// # Errors
/// `AddrInUse` when a process serves the socket, `AlreadyExists` for a file that is not a socket,
/// also a symbolic link.
pub fn make_room(path: &Path) -> io::Result<()> {
    let found = match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| at(path, error.kind(), &error.to_string()))?,
    };
    let not_a_socket = || at(path, ErrorKind::AlreadyExists, "a file that is not a socket; remove it, or name another");
    if !found.file_type().is_socket() {
        return Err(not_a_socket());
    }
    // A socket of another type that is served refuses as well, for another reason.
    if !UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
        return Err(at(path, ErrorKind::AddrInUse, "a process serves this socket"));
    }
    // Another process may have put a file there meanwhile. What has been moved aside stays the same
    // file.
    let aside = aside(path);
    renameat_with(CWD, path, CWD, &aside, RenameFlags::NOREPLACE)?;
    let moved = aside.symlink_metadata()?;
    if moved.file_type().is_socket() && (moved.dev(), moved.ino()) == (found.dev(), found.ino()) {
        return std::fs::remove_file(&aside);
    }
    renameat_with(CWD, &aside, CWD, path, RenameFlags::NOREPLACE)?;
    Err(not_a_socket())
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    name.into()
}

/// A file, whatever its path: its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId(u64, u64);

impl FileId {
    /// The socket that is at a path now; `None` where there is none.
    pub fn of_socket(path: &Path) -> Option<Self> {
        let found = path.symlink_metadata().ok()?;
        found.file_type().is_socket().then(|| Self(found.dev(), found.ino()))
    }
}

/// Removes a socket that this process has made, unless something else is at the path by now.
pub fn remove_socket(path: &Path, made: FileId) {
    if FileId::of_socket(path) == Some(made) {
        let _ = std::fs::remove_file(path);
    }
}

/// A file for a capture, which was not there before.
#[derive(Debug)]
pub struct NewFile(File);

impl NewFile {
    /// # Errors
    /// `AlreadyExists` for a file that is there, also a symbolic link.
    pub fn create(path: &Path) -> io::Result<Self> {
        OpenOptions::new().write(true).create_new(true).open(path).map(Self).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                at(path, error.kind(), "the file is there already, and is not overwritten; move it, or name another")
            }
            kind => at(path, kind, &error.to_string()),
        })
    }

    /// A path to this very file, whatever becomes of its name. It is valid as long as `self` lives.
    pub fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

    use super::*;

    fn refused(path: &Path) -> ErrorKind {
        make_room(path).unwrap_err().kind()
    }

    #[test]
    fn only_a_dead_socket_makes_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        assert!(make_room(&path).is_ok(), "there is nothing");
        let served = UnixListener::bind(&path).unwrap();
        assert_eq!(refused(&path), ErrorKind::AddrInUse);
        drop(served);
        make_room(&path).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "removed, and nothing is left aside");

        // As memif makes them.
        let packets = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        rustix::net::bind(&packets, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&packets, 1).unwrap();
        assert_eq!(refused(&path), ErrorKind::AddrInUse, "served, though not to be connected to as a stream");
        drop(packets);
        make_room(&path).unwrap();
    }

    #[test]
    fn what_is_not_a_socket_stays() {
        let dir = tempfile::tempdir().unwrap();
        let [file, socket, link, made] = ["file", "socket", "link", "made"].map(|name| dir.path().join(name));
        std::fs::write(&file, "precious").unwrap();
        drop(UnixListener::bind(&socket).unwrap());
        symlink(&socket, &link).unwrap();
        std::fs::create_dir(&made).unwrap();
        for path in [&file, &link, &made] {
            assert_eq!(refused(path), ErrorKind::AlreadyExists);
            assert_eq!(FileId::of_socket(path), None);
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4);
    }

    #[test]
    fn no_file_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, new] = ["file", "link", "new"].map(|name| dir.path().join(name));
        std::fs::write(&file, "precious").unwrap();
        symlink(dir.path().join("nothing"), &link).unwrap();
        for path in [&file, &link] {
            let error = NewFile::create(path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            assert!(error.to_string().contains("is not overwritten; move it, or name another"), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
        assert!(!dir.path().join("nothing").exists());

        let made = NewFile::create(&new).unwrap();
        std::fs::rename(&new, dir.path().join("moved")).unwrap();
        std::fs::write(made.path(), "packets").unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("moved")).unwrap(), "packets");
        assert!(!new.exists());
    }
}
