//! Messages to systemd about the service (sd_notify(3)): one datagram for each message, to the
//! socket that `NOTIFY_SOCKET` names. Without systemd nothing is sent.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The way to the service manager, if there is one.
#[derive(Debug, Default)]
pub struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// Half of the silence after which the manager takes the service for dead.
    alive_every: Option<Duration>,
    said: Option<Instant>,
}

impl Notify {
    pub fn from_env() -> Self {
        let socket = std::env::var_os("NOTIFY_SOCKET");
        let micros = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        // The watchdog may be meant for another process, whose environment this one has got.
        let meant = std::env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string());
        Self::new(socket.as_deref(), micros.filter(|_| meant))
    }

    fn new(socket: Option<&OsStr>, watchdog_micros: Option<u64>) -> Self {
        let to = socket.and_then(|socket| Some((UnixDatagram::unbound().ok()?, address(socket)?)));
        let alive_every = watchdog_micros.filter(|&micros| micros > 0).map(|micros| Duration::from_micros(micros / 2));
        Self { to, alive_every, said: None }
    }

    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// To be called now and then while the service is well.
    pub fn alive(&mut self, now: Instant) {
        let Some(every) = self.alive_every else { return };
        if self.said.is_none_or(|said| now.duration_since(said) >= every) {
            self.said = Some(now);
            self.send("WATCHDOG=1");
        }
    }

    fn send(&self, message: &str) {
        if let Some((socket, to)) = &self.to
            && let Err(error) = socket.send_to_addr(message.as_bytes(), to)
        {
            tracing::warn!(target: "weir", "systemd is not told {message:?}: {error}");
        }
    }
}

/// A path, or `@NAME` in the abstract namespace.
fn address(socket: &OsStr) -> Option<SocketAddr> {
    match socket.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name).ok(),
        Some((b'/', _)) => SocketAddr::from_pathname(socket).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(manager: &UnixDatagram) -> Option<String> {
        manager.set_nonblocking(true).unwrap();
        let mut bytes = [0; 256];
        manager.recv(&mut bytes).ok().map(|length| String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    #[test]
    fn a_service_tells_of_its_life() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let mut notify = Notify::new(Some(path.as_os_str()), Some(2_000_000));
        notify.ready("2 ports");
        assert_eq!(told(&manager).as_deref(), Some("READY=1\nSTATUS=2 ports"));
        let start = Instant::now();
        notify.alive(start);
        assert_eq!(told(&manager).as_deref(), Some("WATCHDOG=1"));
        notify.alive(start + Duration::from_millis(900));
        assert_eq!(told(&manager), None, "not before half the time has passed");
        notify.alive(start + Duration::from_millis(1000));
        assert_eq!(told(&manager).as_deref(), Some("WATCHDOG=1"));
        notify.stopping();
        assert_eq!(told(&manager).as_deref(), Some("STOPPING=1"));
    }

    #[test]
    fn names_in_the_abstract_namespace() {
        let name = format!("weir-notify-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        Notify::new(Some(OsStr::new(&format!("@{name}"))), None).stopping();
        assert_eq!(told(&manager).as_deref(), Some("STOPPING=1"));
    }

    #[test]
    fn without_systemd_nothing_happens() {
        for socket in [None, Some(OsStr::new("")), Some(OsStr::new("vsock:2:1234"))] {
            let mut notify = Notify::new(socket, None);
            assert!(notify.to.is_none());
            notify.ready("");
            notify.alive(Instant::now());
        }
    }
}
