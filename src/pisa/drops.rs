//! Why packets are dropped.

use crate::text::named;

named! {
    /// Why a packet that came in does not go out. Every such packet is counted under one of these
    /// names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[repr(u8)]
    pub enum DropReason {
        /// Shorter than an Ethernet header.
        Runt = "runt",
        /// No table names an output port.
        NoRoute = "no_route",
        /// The destination is behind the port that the packet came from.
        SamePort = "same_port",
        /// Addressed to the bridge group (01-80-C2-00-00-0x), which no bridge forwards.
        LinkLocal = "link_local",
        /// A telemetry shim on a host port, or one that cannot be parsed.
        BadShim = "bad_shim",
        /// Longer than the output port's MTU allows.
        TooLong = "too_long",
        /// The output port is administratively down or has no link.
        PortDown = "port_down",
        /// No buffer for a copy.
        NoBuffer = "no_buffer",
        /// The output queue was full.
        TxFull = "tx_full",
        /// The output device refused it for what it is; the device's own counters say more.
        TxRefused = "tx_refused",
        /// Routed port: addressed to another's MAC.
        OtherMac = "other_mac",
        /// Routed port: a VLAN tag.
        Tagged = "tagged",
        /// Routed port: neither IP nor ARP.
        NotRouted = "not_routed",
        /// Routed port: an IP header, ARP or neighbour discovery message that is wrong or not whole.
        BadHeader = "bad_header",
        /// Routed port: an address that may not stand there, or goes no further than its link.
        Martian = "martian",
        /// Routed port: to a group or a broadcast address, which is not routed.
        Multicast = "multicast",
        /// The TTL or hop limit has run out.
        TtlExpired = "ttl_expired",
        /// A route says so.
        Blackhole = "blackhole",
        /// The next hop's MAC is not known (yet). The packet's frame may have become the question for
        /// it.
        NoNeighbour = "no_neighbour",
        /// Meant for the router itself, which has answered it or had no use for it.
        ToRouter = "to_router",
        /// A rule of the access control list, or its default, denies it.
        AclDeny = "acl_deny",
        /// Above the rate at which its ingress port may receive.
        RxLimit = "rx_limit",
        /// Above the rate at which its output port may send.
        TxLimit = "tx_limit",
        /// A copy for a mirror port that could not take it: down, full, too narrow, or no buffer for
        /// the copy.
        Mirror = "mirror",
        /// The ingress or the output port does not belong to the frame's VLAN.
        WrongVlan = "wrong_vlan",
        /// No room in front of the frame for a VLAN tag.
        NoHeadroom = "no_headroom",
        /// A fault on purpose inside the switch (`inside:drop`).
        Fault = "fault",
    }
}

impl DropReason {
    /// Whether a packet that ends under this name has come as far as it was to go, and is no loss.
    #[inline(always)]
    pub fn is_end(self) -> bool {
        matches!(self, Self::SamePort | Self::LinkLocal | Self::OtherMac | Self::Multicast | Self::ToRouter)
    }
}

named! {
    /// Where a switch drops a packet for a reason that it knows.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum DropAt {
        /// As it comes in, before ingress stages see it.
        Before = "before",
        /// Between ingress and egress stages, which do not see it.
        Inside = "inside",
        /// Behind egress stages, which saw it leave: its port did not take it.
        Behind = "behind",
    }
}
