//! An IPv4 and IPv6 router, in the two halves that a P4 switch has.
//!
//! The dataplane ([`Route`], one a worker) matches in `decide`: the destination in the routes
//! (longest prefix), the flow's hash among the gateways of one route, the next hop in the
//! neighbours (exact). `finish` is the deparser: it verifies the header, rewrites it, and turns a
//! packet that needs an answer into that answer, in its own frame. What it hears of neighbours it
//! queues as [`Digest`]s. The control side ([`Control`]) applies them, forgets the silent, and
//! publishes each table whole.
//!
//! ```text
//! dst MAC another's, VLAN tag, not IP or ARP, wrong header, martian, multicast: drop, each under its name
//! ARP, neighbour discovery: answer or learn;  own address: answer echo, else unreachable
//! no route, hop limit gone, longer than the MTU: ICMP error, from the ingress port, to whom the packet came from
//! next hop unknown: the frame becomes the question for it;  known: both MACs and the hop limit rewritten, to its port,
//! an IPv4 packet without DF that is longer than the MTU in fragments
//! ```

mod asked;
mod control;
mod fragment;
mod dataplane;
mod entries;
mod finish;
mod net;
mod plan;
mod publish;
mod reply;
mod trace;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

pub use control::{Control, NeighbourEntry, RouteEntry, check_size};
pub use dataplane::Route;
pub use finish::Finished;
pub use fragment::{MAX_FRAGMENTS, fragment, max_fragments};
pub use net::Net;
pub use plan::{MAX_ADDRESSES, MAX_HOPS, Plan, Target};

use crate::pisa::PortId;
use crate::pisa::hash::HighRange;
use crate::pisa::table::{Exact, Lpm};
use crate::stats::Count;
pub use crate::wire::BURST;
use crate::wire::Mac;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Maximum routes of each family, four for each own address included.
    pub routes: usize,
    /// Maximum neighbours, static ones included.
    pub neighbours: usize,
    /// Digests that may wait for the control side.
    pub queue: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { routes: 16_384, neighbours: 4096, queue: 1024 }
    }
}

/// A port as the router sees it.
#[derive(Clone, Debug)]
pub struct RoutedPort {
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// Whether packets may leave here.
    pub up: Arc<AtomicBool>,
    /// The router's own MAC on this port, in the low 48 bits.
    pub mac: Arc<AtomicU64>,
}

impl RoutedPort {
    #[inline(always)]
    fn mac(&self) -> Mac {
        Mac::from_u64(self.mac.load(Relaxed))
    }

    #[inline(always)]
    fn is_up(&self) -> bool {
        self.up.load(Relaxed)
    }
}

/// A neighbour's address, as it announced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    pub address: IpAddr,
    pub mac: Mac,
    pub port: PortId,
}

/// Addresses of both families as one key: IPv4 as IPv6 has it, ::ffff:a.b.c.d.
#[inline(always)]
fn key4(address: u32) -> u128 {
    0xffff_0000_0000 | u128::from(address)
}

fn key(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => key4(a.into()),
        IpAddr::V6(a) => a.into(),
    }
}

/// The address of a key.
fn address(key: u128) -> IpAddr {
    match key >> 32 {
        0xffff => IpAddr::V4((key as u32).into()),
        _ => IpAddr::V6(key.into()),
    }
}

/// The interface identifier that an EUI-64 makes of a MAC, behind fe80::/64 (RFC 4291, appendix A).
fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    let id = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    (0xfe80u128 << 112 | u128::from(id)).into()
}

/// One version of the routes, and of the addresses that they come from.
#[derive(Clone, Debug)]
struct Routes {
    v4: Lpm<u32, Action>,
    v6: Lpm<u128, Action>,
    ports: Box<[Own]>,
}

/// A port's own addresses.
#[derive(Clone, Debug, Default)]
struct Own {
    v4: Vec<Net>,
    v6: Vec<Net>,
}

impl Own {
    /// The source address for packets to `to`: that of its network, else the first.
    fn source(&self, to: IpAddr) -> Option<IpAddr> {
        let nets = if to.is_ipv4() { &self.v4 } else { &self.v6 };
        nets.iter().find(|net| net.contains(to)).or(nets.first()).map(|net| net.address())
    }

    fn source4(&self) -> Option<Ipv4Addr> {
        self.v4.first().and_then(|net| if let IpAddr::V4(a) = net.address() { Some(a) } else { None })
    }

    fn source6(&self) -> Option<Ipv6Addr> {
        self.v6.first().and_then(|net| if let IpAddr::V6(a) = net.address() { Some(a) } else { None })
    }

    fn has(&self, address: IpAddr) -> bool {
        let nets = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        nets.iter().any(|net| net.address() == address)
    }
}

#[derive(Clone, Debug)]
enum Action {
    /// One of the router's own addresses.
    Local,
    /// A network or broadcast address of an own network.
    Broadcast,
    Drop(Entry),
    OnLink(PortId, Entry),
    Via(Gateways, Entry),
}

/// Slot of an entry's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u32);

/// The gateways of one route.
#[derive(Clone, Debug)]
struct Gateways {
    hops: Arc<[Hop]>,
    range: HighRange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hop {
    address: u128,
    port: PortId,
}

/// One worker's counts of one route.
#[derive(Debug, Default)]
struct Hits {
    packets: Count,
    bytes: Count,
}

/// One version of the neighbours.
#[derive(Clone, Debug)]
struct Neighbours {
    table: Exact<u128, Neighbour>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Neighbour {
    mac: Mac,
    port: PortId,
    /// Index into the [`Signs`], which outlive the versions of the table.
    index: u32,
    /// Neither asked for nor forgotten.
    fixed: bool,
}

/// The seconds in which a neighbour was last heard, used, and first asked for again without an
/// answer yet.
#[derive(Debug, Default)]
struct Signs {
    heard: AtomicU32,
    used: AtomicU32,
    probed: AtomicU32,
}

/// Writes only when the value has changed, so that workers do not fight for the cache line.
#[inline(always)]
fn touch(cell: &AtomicU32, now: u32) {
    if cell.load(Relaxed) != now {
        cell.store(now, Relaxed);
    }
}

const NS_PER_SECOND: u64 = 1_000_000_000;

fn seconds(now: u64) -> u32 {
    (now / NS_PER_SECOND) as u32
}

/// Silence of a neighbour in use after which it is asked again, in seconds.
const REASK_SECONDS: u32 = 30;
/// Time without an answer to such questions after which it is forgotten, in seconds.
const DEAD_SECONDS: u32 = 10;
/// Silence after which any neighbour is forgotten, in seconds.
const FORGET_SECONDS: u32 = 300;
/// Time without use after which a neighbour makes room for a new one in a full table, in seconds.
const UNUSED_SECONDS: u32 = 30;
