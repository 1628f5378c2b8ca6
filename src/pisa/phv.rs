//! The packet header vector: what travels with a packet from stage to stage.

use crate::wire::Headers;

/// A port of the switch: from 0 in the order of the configuration, and a port that is added later
/// has the lowest number that is free. It keeps it as long as it is there.
pub type PortId = u16;

/// Most ports of a switch.
pub const MAX_PORTS: usize = 256;

/// The fields that every program and table sees: parsed headers and intrinsic metadata.
/// A program's own metadata is a type of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phv {
    pub headers: Headers,
    /// Length on the wire in bytes, without the FCS and without the telemetry shim.
    pub wire_bytes: u32,
    pub ingress: PortId,
    pub verdict: Verdict,
    /// Packets or bytes that the heavy-hitter program has counted so far for this packet's flow, 0
    /// when it does not run.
    pub flow_estimate: u32,
    /// It came in by a host port: here it enters the network.
    pub enters: bool,
    /// What admission made of it. Known to egress stages.
    pub disposition: Disposition,

    /// The switch's place on the packet's path, from 1 where it enters; at most
    /// `wire::shim::MAX_HOP`. 1 where the telemetry header does not carry it.
    pub hop: u8,
    /// Times that the packet came by here before, as far as the shim says.
    pub loops: u8,
    /// The class that it carries from switch to switch, two bits: what ChameleMon took it for where
    /// it entered, or that it is one of several (`program::chamelemon::dataplane::class`).
    pub class: u8,
    /// The number of the epoch in which it entered the network, as packets carry it
    /// (`wire::shim::EPOCH_BITS`).
    pub epoch: u32,
    /// The digest in its shim. Only with [`Needs::DIGEST`](crate::program::Needs::DIGEST).
    pub digest: u16,

    /// The port that it leaves by. Known to egress stages, of packets that leave.
    pub egress: PortId,
    /// Packets ahead of it in the port's queue. Known to egress stages with
    /// [`Needs::QUEUE_DEPTH`](crate::program::Needs::QUEUE_DEPTH).
    pub queue_depth: u16,
    /// A hash of what no hop changes of the packet ([`wire::identity`](crate::wire::identity)), the
    /// same in all switches. Known to egress stages with
    /// [`Needs::IDENTITY`](crate::program::Needs::IDENTITY).
    pub identity: u32,
    /// When it leaves, in nanoseconds of the switch's clock. Known to egress stages with
    /// [`Needs::TIME`](crate::program::Needs::TIME).
    pub egress_ns: u64,
}

// Two cache lines: more costs every program.
const _: () = assert!(size_of::<Phv>() <= 128);

impl Phv {
    /// Begins a packet. The parser writes the headers, all of them; admission writes what is known
    /// to egress stages.
    #[inline(always)]
    pub fn begin(&mut self, ingress: PortId, wire_bytes: u32) {
        (self.ingress, self.wire_bytes, self.flow_estimate) = (ingress, wire_bytes, 0);
        self.verdict = Verdict::default();
        (self.enters, self.disposition) = (false, Disposition::Lost);
        (self.hop, self.loops, self.class) = (1, 0, 0);
        (self.epoch, self.digest) = (0, 0);
    }
}

/// What admission made of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Disposition {
    /// It is lost, or admission has not been asked yet. No egress stage sees it.
    #[default]
    Lost = 0,
    /// It leaves to a host, and so leaves the network.
    ToHost = 1,
    /// It leaves to another switch, with its class.
    ToFabric = 2,
    /// It leaves to another switch, and there is no room for what carries its class.
    Unmarked = 3,
    /// It ends here, no further than it was to go: the switch took it itself, or it has become
    /// several packets that all left to hosts. The egress stages of programs with
    /// [`Needs::ENDS`](crate::program::Needs::ENDS) see it.
    Ended = 4,
    /// It has become several packets, and some went on to other switches or could not be sent: what
    /// became of it is not known. Seen as [`Self::Ended`] is.
    Untracked = 5,
}

impl Disposition {
    /// Whether a packet leaves by a port.
    #[inline(always)]
    pub fn leaves(self) -> bool {
        matches!(self, Self::ToHost | Self::ToFabric | Self::Unmarked)
    }

    /// Whether a packet, or what is measured of it, leaves the network here.
    #[inline(always)]
    pub fn leaves_network(self) -> bool {
        matches!(self, Self::ToHost | Self::Ended | Self::Untracked)
    }
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Port(PortId),
    /// To every port but the one it came from.
    Flood,
    Drop(DropReason),
}

impl Default for Verdict {
    fn default() -> Self {
        Self::Drop(DropReason::NoRoute)
    }
}

/// Why a packet that came in does not go out. Every such packet is counted under one of these
/// names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// Shorter than an Ethernet header.
    Runt,
    /// No table names an output port.
    NoRoute,
    /// The destination is behind the port that the packet came from.
    SamePort,
    /// Addressed to the bridge group (01-80-C2-00-00-0x), which no bridge forwards.
    LinkLocal,
    /// A telemetry shim on a host port, or one that cannot be parsed.
    BadShim,
    /// Longer than the output port's MTU allows.
    TooLong,
    /// The output port is administratively down or has no link.
    PortDown,
    /// No buffer for a copy.
    NoBuffer,
    /// The output queue was full.
    TxFull,
    /// The output device refused it for what it is; the device's own counters say more.
    TxRefused,
    /// Routed port: addressed to another's MAC.
    OtherMac,
    /// Routed port: a VLAN tag.
    Tagged,
    /// Routed port: neither IP nor ARP.
    NotRouted,
    /// Routed port: an IP header, ARP or neighbour discovery message that is wrong or not whole.
    BadHeader,
    /// Routed port: an address that may not stand there, or goes no further than its link.
    Martian,
    /// Routed port: to a group or a broadcast address, which is not routed.
    Multicast,
    /// The TTL or hop limit has run out.
    TtlExpired,
    /// A route says so.
    Blackhole,
    /// The next hop's MAC is not known (yet). The packet's frame may have become the question for
    /// it.
    NoNeighbour,
    /// Meant for the router itself, which has answered it or had no use for it.
    ToRouter,
    /// A rule of the access control list, or its default, denies it.
    AclDeny,
    /// Above the rate at which its ingress port may receive.
    RxLimit,
    /// Above the rate at which its output port may send.
    TxLimit,
    /// A copy for a mirror port that could not take it: down, full, too narrow, or no buffer for
    /// the copy.
    Mirror,
    /// The ingress or the output port does not belong to the frame's VLAN.
    WrongVlan,
    /// No room in front of the frame for a VLAN tag.
    NoHeadroom,
}

impl DropReason {
    pub const ALL: [Self; 26] = [
        Self::Runt,
        Self::NoRoute,
        Self::SamePort,
        Self::LinkLocal,
        Self::BadShim,
        Self::TooLong,
        Self::PortDown,
        Self::NoBuffer,
        Self::TxFull,
        Self::TxRefused,
        Self::OtherMac,
        Self::Tagged,
        Self::NotRouted,
        Self::BadHeader,
        Self::Martian,
        Self::Multicast,
        Self::TtlExpired,
        Self::Blackhole,
        Self::NoNeighbour,
        Self::ToRouter,
        Self::AclDeny,
        Self::RxLimit,
        Self::TxLimit,
        Self::Mirror,
        Self::WrongVlan,
        Self::NoHeadroom,
    ];

    /// Whether a packet that ends under this name has come as far as it was to go, and is no loss.
    #[inline(always)]
    pub fn is_end(self) -> bool {
        matches!(self, Self::SamePort | Self::LinkLocal | Self::OtherMac | Self::Multicast | Self::ToRouter)
    }

    /// The name in reports, JSON and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runt => "runt",
            Self::NoRoute => "no_route",
            Self::SamePort => "same_port",
            Self::LinkLocal => "link_local",
            Self::BadShim => "bad_shim",
            Self::TooLong => "too_long",
            Self::PortDown => "port_down",
            Self::NoBuffer => "no_buffer",
            Self::TxFull => "tx_full",
            Self::TxRefused => "tx_refused",
            Self::OtherMac => "other_mac",
            Self::Tagged => "tagged",
            Self::NotRouted => "not_routed",
            Self::BadHeader => "bad_header",
            Self::Martian => "martian",
            Self::Multicast => "multicast",
            Self::TtlExpired => "ttl_expired",
            Self::Blackhole => "blackhole",
            Self::NoNeighbour => "no_neighbour",
            Self::ToRouter => "to_router",
            Self::AclDeny => "acl_deny",
            Self::RxLimit => "rx_limit",
            Self::TxLimit => "tx_limit",
            Self::Mirror => "mirror",
            Self::WrongVlan => "wrong_vlan",
            Self::NoHeadroom => "no_headroom",
        }
    }
}
