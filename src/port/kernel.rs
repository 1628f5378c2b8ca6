//! Packets that the kernel lost between a host and a port, by the kernel's own counters.
//!
//! A packet that a host's kernel sends to a port can be lost before weir could receive it, and one
//! that weir has sent before the host's kernel has it. The kernel counts both at the interfaces:
//!
//! | port | on the way in | on the way out |
//! | --- | --- | --- |
//! | `tap` | `tx_dropped` of the interface, whose transmit queue weir reads | |
//! | `veth`, `xdp` at a veth pair | `tx_dropped` of the other end | `tx_dropped` of the interface |
//! | `veth` at another interface | `rx_dropped`, `rx_missed` and `rx_errors` of it | `tx_dropped`, `tx_errors` |
//! | `xdp` at another interface | `rx_missed` and `rx_errors` | `tx_dropped`, `tx_errors` |
//!
//! `rx_dropped` of a veth pair's near end is not read, as it also counts packets that weir has
//! received: those for which the kernel under the switch has no protocol. The same holds for what a
//! host's kernel drops behind its interface: that is the host's.

use std::os::fd::OwnedFd;
use std::sync::Mutex;

use super::rtnetlink::{self, LinkInfo, Namespace, Which};
use super::tap;
use crate::lock::Hold;

/// The interface of a port, and what its driver counts itself.
#[derive(Debug)]
pub(super) enum Watched {
    /// By the descriptors of its queues, as it may be in any network namespace.
    Tap(Vec<i32>),
    /// Packet sockets on the interface of this number.
    Sockets(i32),
    /// AF_XDP on the interface of this number. Its sockets know what the interface drops.
    Xdp(i32),
}

/// Packets that the kernel lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    pub rx_missed: u64,
    pub rx_error: u64,
    pub tx_lost: u64,
}

impl Losses {
    /// Each counter's increase. One that went back began anew.
    fn since(self, earlier: Self) -> Self {
        let of = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Self {
            rx_missed: of(self.rx_missed, earlier.rx_missed),
            rx_error: of(self.rx_error, earlier.rx_error),
            tx_lost: of(self.tx_lost, earlier.tx_lost),
        }
    }

    fn plus(self, more: Self) -> Self {
        Self {
            rx_missed: self.rx_missed + more.rx_missed,
            rx_error: self.rx_error + more.rx_error,
            tx_lost: self.tx_lost + more.tx_lost,
        }
    }
}

/// Where counters were read: those of two places are not comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Own,
    /// The far end of the pair, which takes CAP_NET_ADMIN in its network namespace.
    Peer,
}

/// The kernel's losses of one port since it was opened.
#[derive(Debug)]
pub(super) struct KernelLosses {
    watched: Watched,
    socket: Option<OwnedFd>,
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    last: Option<(Place, Losses)>,
    sum: Losses,
}

impl Counted {
    fn add(&mut self, place: Place, now: Losses) {
        if let Some((before, last)) = self.last
            && before == place
        {
            self.sum = self.sum.plus(now.since(last));
        }
        self.last = Some((place, now));
    }
}

impl KernelLosses {
    /// Counts from now on. Without rtnetlink nothing is counted.
    pub fn new(watched: Watched) -> Self {
        let losses = Self { watched, socket: rtnetlink::socket().ok(), counted: Mutex::default() };
        losses.look();
        losses
    }

    /// Reads the kernel's counters. To be called now and then by a thread with the process's rights.
    pub fn look(&self) {
        let Some(socket) = &self.socket else { return };
        let mut counted = self.counted.hold();
        let read = match &self.watched {
            Watched::Tap(descriptors) => of_tap(socket, descriptors),
            Watched::Sockets(index) => of_interface(socket, *index, false),
            Watched::Xdp(index) => of_interface(socket, *index, true),
        };
        if let Some((place, now)) = read {
            counted.add(place, now);
        }
    }

    /// What was lost when that was last looked at.
    pub fn get(&self) -> Losses {
        self.counted.hold().sum
    }
}

fn of_tap(socket: &OwnedFd, descriptors: &[i32]) -> Option<(Place, Losses)> {
    let name = tap::name(descriptors)?;
    let link = rtnetlink::link(socket, Which::Name(&name), tap_namespace(socket, descriptors)?).ok()?;
    Some((Place::Own, Losses { rx_missed: link.counts.tx_dropped, ..Losses::default() }))
}

/// The network namespace that a tap interface is in now; `None` when that is not to be found out.
fn tap_namespace(socket: &OwnedFd, descriptors: &[i32]) -> Option<Namespace> {
    let its = crate::dpdk::tap_namespace(*descriptors.first()?).ok()?;
    let number = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let ours = rustix::fs::stat("/proc/thread-self/ns/net").map(number).ok()?;
    if rustix::fs::fstat(&its).map(number).ok()? == ours {
        return Some(None);
    }
    rtnetlink::number_of(socket, &its).ok().map(Some)
}

fn of_interface(socket: &OwnedFd, index: i32, xdp: bool) -> Option<(Place, Losses)> {
    let own = rtnetlink::link(socket, Which::Index(index), None).ok()?;
    let counts = own.counts;
    let losses =
        |rx_missed| Losses { rx_missed, rx_error: counts.rx_errors, tx_lost: counts.tx_dropped + counts.tx_errors };
    if let Some(peer) = peer(socket, &own) {
        return Some((Place::Peer, losses(peer.counts.tx_dropped)));
    }
    let dropped = if xdp { 0 } else { counts.rx_dropped };
    Some((Place::Own, losses(dropped + counts.rx_missed)))
}

/// The far end of a pair of interfaces.
fn peer(socket: &OwnedFd, own: &LinkInfo) -> Option<LinkInfo> {
    let (index, namespace) = own.lower.filter(|_| matches!(own.kind.as_str(), "veth" | "netkit"))?;
    rtnetlink::link(socket, Which::Index(index), namespace).ok()
}

/// The bridge or bond that an interface is a port of, if it is, and its kind.
pub(super) fn master(index: i32) -> Option<(String, String)> {
    let socket = rtnetlink::socket().ok()?;
    let master = rtnetlink::link(&socket, Which::Index(index), None).ok()?.master?;
    let master = rtnetlink::link(&socket, Which::Index(master), None).ok()?;
    Some((master.kind, master.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(rx_missed: u64, tx_lost: u64) -> Losses {
        Losses { rx_missed, rx_error: 0, tx_lost }
    }

    #[test]
    fn increases_add_up_and_nothing_from_before() {
        let mut counted = Counted::default();
        counted.add(Place::Own, losses(100, 7));
        assert_eq!(counted.sum, Losses::default());
        counted.add(Place::Own, losses(130, 7));
        counted.add(Place::Own, losses(130, 9));
        assert_eq!(counted.sum, losses(30, 2));
    }

    #[test]
    fn counters_that_begin_anew_are_counted_from_there() {
        let mut counted = Counted::default();
        [losses(100, 0), losses(4, 0), losses(5, 0)].into_iter().for_each(|now| counted.add(Place::Own, now));
        assert_eq!(counted.sum, losses(5, 0));
    }

    #[test]
    fn two_places_are_not_compared() {
        let mut counted = Counted::default();
        counted.add(Place::Peer, losses(10, 0));
        counted.add(Place::Own, losses(5000, 0));
        counted.add(Place::Own, losses(5001, 0));
        assert_eq!(counted.sum, losses(1, 0));
    }
}
