//! Capabilities of the process once its ports are open: as few as its work needs.
//!
//! The control thread keeps what changing a port takes, or nothing. Every other thread, the workers
//! and those that peers talk to included, has no capability, none in its bounding set, and no way
//! to gain one by starting a program.

use std::io;

use nix::unistd::{Gid, Group, Uid, User, initgroups, setresgid, setresuid};
use rustix::thread::CapabilitySet;

use crate::config::{Config, SocketMode};
use crate::dpdk::threads;
use crate::network::socket::Access;
use crate::port::Dev;

/// Capabilities to change ports at run time: links and MTUs, packet sockets, AF_XDP's programs, and
/// memory that devices reach.
const CHANGING_PORTS: CapabilitySet =
    CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW).union(CapabilitySet::BPF).union(CapabilitySet::IPC_LOCK);

/// Further capabilities to open an xdp port: libxdp asks the kernel for programs and maps by their
/// numbers.
const OPENING_XDP: CapabilitySet = CapabilitySet::SYS_ADMIN;

#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    #[error("{key} = {name:?}: there is no such {what} on this machine")]
    Unknown { key: &'static str, name: String, what: &'static str },
    #[error("switch.user = {user:?}: {source}; only root can become another user")]
    Become { user: String, source: io::Error },
    #[error("rights cannot be given up: {0}")]
    Kept(io::Error),
    #[error("threads keep the rights that they were started with: {0}")]
    Left(String),
}

/// The user to become, and the capabilities to keep.
#[derive(Debug)]
pub struct Privileges {
    kept: CapabilitySet,
    user: Option<User>,
    group: Option<Gid>,
}

impl Privileges {
    /// Looks the names of the configuration up, before anything is opened.
    pub fn of(config: &Config) -> Result<Self, PrivilegeError> {
        let unknown = |key, name: &str, what| PrivilegeError::Unknown { key, name: name.into(), what };
        let user = config.switch.user.as_ref().map(|name| {
            let user = User::from_name(name).ok().flatten();
            user.ok_or_else(|| unknown("switch.user", name, "user"))
        });
        let group = config.api.group.as_ref().filter(|_| config.api.mode == SocketMode::Group).map(|name| {
            let group = Group::from_name(name).ok().flatten();
            group.map(|group| group.gid).ok_or_else(|| unknown("api.group", name, "group"))
        });
        let xdp = config.ports.iter().any(|port| matches!(port.dev, Dev::Xdp { .. }));
        let kept = match (config.switch.runtime_ports, xdp) {
            (false, _) => CapabilitySet::empty(),
            (true, false) => CHANGING_PORTS,
            (true, true) => CHANGING_PORTS.union(OPENING_XDP),
        };
        Ok(Self { kept, user: user.transpose()?, group: group.transpose()? })
    }

    /// The users that may connect to the control socket.
    pub fn access(&self) -> Access {
        Access { owner: self.user.as_ref().map(|user| user.uid.as_raw()), group: self.group.map(Gid::as_raw) }
    }

    /// Drops the other capabilities in this thread, and all of them in every other thread. Call it
    /// once the ports are open, before anything reads packets from them. Start other threads by
    /// [`without_rights`].
    ///
    /// # Errors
    /// If any thread still has a right that it should not have.
    pub fn give_up(&self) -> Result<(), PrivilegeError> {
        // Another user may no longer change it.
        threads::empty_bounding_set();
        if let Some(user) = &self.user {
            self.become_user(user).map_err(|source| PrivilegeError::Become { user: user.name.clone(), source })?;
        }
        threads::keep_in_this(self.kept).map_err(|errno| PrivilegeError::Kept(errno.into()))?;
        self.seal()
    }

    /// Drops the capabilities that threads started meanwhile have inherited from this one.
    pub fn seal(&self) -> Result<(), PrivilegeError> {
        let left = threads::strip_others().map_err(PrivilegeError::Kept)?;
        if left.is_empty() { Ok(()) } else { Err(PrivilegeError::Left(left.join(", "))) }
    }

    /// Whether DPDK's threads can be sealed while ports are opened. Only threads with rights can
    /// become another user.
    pub fn seals_early(&self) -> bool {
        self.user.is_none()
    }

    /// Changes all threads to the user, which drops their capabilities. This thread keeps its own
    /// for the moment.
    fn become_user(&self, user: &User) -> io::Result<()> {
        if user.uid == Uid::effective() && user.uid == Uid::current() {
            return Ok(());
        }
        rustix::thread::set_keep_capabilities(true)?;
        let name = std::ffi::CString::new(user.name.as_str())?;
        initgroups(&name, user.gid)?;
        setresgid(user.gid, user.gid, user.gid)?;
        setresuid(user.uid, user.uid, user.uid)?;
        rustix::thread::set_keep_capabilities(false)?;
        Ok(())
    }
}

/// Starts threads from one that has no rights, so that they have none from their first instruction
/// on.
pub fn without_rights<T: Send, E: From<PrivilegeError> + Send>(
    start: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    let start = || {
        threads::strip_this().map_err(|errno| PrivilegeError::Kept(errno.into()))?;
        start()
    };
    std::thread::scope(|scope| scope.spawn(start).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_first() {
        let refused = |text: &str| Privileges::of(&Config::parse(text).unwrap()).unwrap_err().to_string();
        assert_eq!(
            refused("[switch]\nuser = 'no-such-user'"),
            "switch.user = \"no-such-user\": there is no such user on this machine"
        );
        assert_eq!(
            refused("[api]\nmode = '0660'\ngroup = 'no-such-group'"),
            "api.group = \"no-such-group\": there is no such group on this machine"
        );
        let whole = "[switch]\nuser = 'root'\nruntime_ports = false\n[api]\nmode = '0660'\ngroup = 'root'";
        let privileges = Privileges::of(&Config::parse(whole).unwrap()).unwrap();
        assert_eq!(privileges.access(), Access { owner: Some(0), group: Some(0) });
        assert!(privileges.kept.is_empty());
    }

    /// `CAP_SYS_ADMIN` is kept for xdp ports only.
    #[test]
    fn only_xdp_ports_keep_sys_admin() {
        let kept = |dev: &str, more: &str| {
            let text = format!("[switch]\n{more}\n[[port]]\nname = 'a'\ndev = '{dev}'");
            Privileges::of(&Config::parse(&text).unwrap()).unwrap().kept
        };
        assert_eq!(kept("veth:a", ""), CHANGING_PORTS);
        assert_eq!(kept("xdp:a", ""), CHANGING_PORTS.union(CapabilitySet::SYS_ADMIN));
        assert_eq!(kept("xdp:a", "runtime_ports = false"), CapabilitySet::empty());
    }

    /// Runs on a thread of its own, because dropped capabilities do not come back.
    #[test]
    fn a_thread_gives_up_what_it_has() {
        let after = std::thread::spawn(|| {
            threads::keep_in_this(CapabilitySet::NET_RAW).unwrap();
            let some = rustix::thread::capabilities(None).unwrap();
            threads::strip_this().unwrap();
            (some, rustix::thread::capabilities(None).unwrap(), rustix::thread::no_new_privs().unwrap())
        });
        let (some, none, sealed) = after.join().unwrap();
        assert!(CapabilitySet::NET_RAW.contains(some.permitted) && some.effective == some.permitted);
        assert!(none.permitted.is_empty() && none.effective.is_empty() && none.inheritable.is_empty() && sealed);
    }
}
