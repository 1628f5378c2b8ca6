//! Where the control socket lies.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

/// Directories for sockets, best first: of the system, of the session, of the user.
pub fn directories() -> Vec<PathBuf> {
    let user = std::fs::metadata("/proc/self").map(|me| me.uid()).unwrap_or_default();
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("weir"));
    let own = std::env::temp_dir().join(format!("weir-{user}"));
    let system = (user == 0).then(|| PathBuf::from("/run/weir"));
    system.into_iter().chain(session).chain([own]).collect()
}

/// The socket of the switch of this name: the first that is there, else where it would be.
pub fn path(name: &str) -> PathBuf {
    let mut paths = directories().into_iter().map(|dir| dir.join(format!("{name}.sock"))).collect::<Vec<_>>();
    let there = paths.iter().position(|path| path.exists()).unwrap_or(0);
    paths.swap_remove(there)
}

/// Listens at `wanted`, or at the first of the usual places that can be written. Only the user may connect.
pub fn listen(name: &str, wanted: Option<PathBuf>) -> io::Result<(UnixListener, PathBuf)> {
    if let Some(path) = wanted {
        return bind(path.clone()).map(|listener| (listener, path));
    }
    let mut error = io::Error::other("no directory for the control socket");
    for dir in directories() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        let path = dir.join(format!("{name}.sock"));
        match made.and_then(|()| bind(path.clone())) {
            Ok(listener) => return Ok((listener, path)),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => return Err(e),
            Err(e) => error = e,
        }
    }
    Err(error)
}

/// A socket that nobody answers is left over from a switch that was killed, and replaced.
fn bind(path: PathBuf) -> io::Result<UnixListener> {
    if UnixStream::connect(&path).is_ok() {
        let why = format!("{}: a switch of this name is running", path.display());
        return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    }
    match std::fs::symlink_metadata(&path) {
        Ok(found) if std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => std::fs::remove_file(&path)?,
        _ => {}
    }
    let listener =
        UnixListener::bind(&path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}
