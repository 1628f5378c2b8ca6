//! One port for an interface: no other weir of the network namespace may have it.
//!
//! A port binds an abstract Unix socket that is named after the interface's number. Such names
//! belong to the network namespace, as interfaces do, and the kernel frees one when its process
//! ends, however that ends. Any user can bind a name, so one that another user holds does not keep
//! a port from opening: it is logged as a warning.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::PortProblem;
use crate::dpdk::{Interface, Peer};

/// Processes that may ask who holds a claim, over its lifetime; to those behind them it is unknown.
const BACKLOG: i32 = 128;

/// Held as long as the port has the interface.
#[derive(Debug)]
pub(super) struct Claim(#[allow(dead_code, reason = "held, not used")] OwnedFd);

/// Claims an interface for a port. `None` when another user's process holds the name.
pub(super) fn claim(interface: &Interface) -> Result<Option<Claim>, PortProblem> {
    match bind(interface.index()) {
        Ok(claim) => Ok(Some(claim)),
        Err(Errno::ADDRINUSE) => {
            let holder = holder(interface.index());
            let process = holder.and_then(|by| by.process);
            let process = process.map_or_else(|| "another process".to_owned(), |number| format!("process {number}"));
            let told = format!("{} is a port of another weir already ({process})", interface.name());
            let own = rustix::process::geteuid().as_raw();
            if holder.is_some_and(|by| by.user == 0 || by.user == own) {
                return Err(PortProblem::Unfit(format!("{told}: both would forward each of its packets")));
            }
            tracing::warn!("{told}, or another user's process says so");
            Ok(None)
        }
        Err(error) => {
            tracing::warn!("whether another weir has {} is not known: {error}", interface.name());
            Ok(None)
        }
    }
}

fn address(index: i32) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(format!("weir-interface-{index}").as_bytes())
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

fn bind(index: i32) -> Result<Claim, Errno> {
    let socket = socket()?;
    rustix::net::bind(&socket, &address(index)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(Claim(socket))
}

/// The process that holds a claim, as it was when it made it.
fn holder(index: i32) -> Option<Peer> {
    let socket = socket().ok()?;
    rustix::net::connect(&socket, &address(index).ok()?).ok()?;
    Peer::of(&socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_free_again_when_its_holder_is_gone() {
        // No interface has this number.
        let index = -1 - std::process::id().cast_signed();
        let first = bind(index).unwrap();
        assert_eq!(bind(index).unwrap_err(), Errno::ADDRINUSE);
        let by = holder(index).unwrap();
        assert_eq!(by, Peer { process: Some(std::process::id()), user: rustix::process::geteuid().as_raw() });
        drop(first);
        bind(index).unwrap();
    }
}
