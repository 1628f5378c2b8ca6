//! Assigned numbers.

/// EtherTypes.
pub mod ethertype {
    pub const IPV4: u16 = 0x0800;
    pub const ARP: u16 = 0x0806;
    pub const VLAN: u16 = 0x8100;
    pub const IPV6: u16 = 0x86dd;
    /// 802.1ad service tag.
    pub const QINQ: u16 = 0x88a8;
    /// EtherType of outer tags before 802.1ad.
    pub const QINQ_OLD: u16 = 0x9100;
    /// Ethernet in GRE and Geneve (RFC 1701, transparent Ethernet bridging).
    pub const TRANSPARENT_ETHERNET: u16 = 0x6558;
    pub const MPLS: u16 = 0x8847;
    /// Labels that the receiver assigned, once those of multicast (RFC 5332).
    pub const MPLS_UPSTREAM: u16 = 0x8848;
    pub const PPPOE_DISCOVERY: u16 = 0x8863;
    pub const PPPOE_SESSION: u16 = 0x8864;
    /// Local experimental EtherType 1: the telemetry shim.
    pub const SHIM: u16 = 0x88b5;
}

/// PPP protocols.
pub mod ppp {
    pub const IPV4: u16 = 0x0021;
    pub const IPV6: u16 = 0x0057;
}

/// IP protocols and IPv6 next headers.
pub mod proto {
    pub const HOP_BY_HOP: u8 = 0;
    pub const ICMP: u8 = 1;
    /// IPv4 in IP (RFC 2003).
    pub const IPV4: u8 = 4;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const DCCP: u8 = 33;
    /// IPv6 in IP (RFC 2473, RFC 4213).
    pub const IPV6: u8 = 41;
    pub const ROUTING: u8 = 43;
    pub const FRAGMENT: u8 = 44;
    pub const GRE: u8 = 47;
    pub const ESP: u8 = 50;
    pub const AUTHENTICATION: u8 = 51;
    pub const ICMPV6: u8 = 58;
    pub const NONE: u8 = 59;
    pub const DESTINATION: u8 = 60;
    pub const PGM: u8 = 113;
    pub const SCTP: u8 = 132;
    pub const MOBILITY: u8 = 135;
    pub const UDP_LITE: u8 = 136;
    /// MPLS in IP (RFC 4023).
    pub const MPLS: u8 = 137;
    pub const HIP: u8 = 139;
    pub const SHIM6: u8 = 140;

    /// Whether a packet of this protocol begins with its source and its destination port, two bytes
    /// each: TCP, UDP, UDP-Lite (RFC 3828), SCTP (RFC 9260), DCCP (RFC 4340), PGM (RFC 3208).
    ///
    /// Others have none that name a flow: ICMP and IGMP have types, ESP an index and encrypted ports,
    /// GRE, IP in IP and L2TP carry packets of other flows, and routing protocols (OSPF, EIGRP, PIM,
    /// VRRP) speak from router to router.
    #[inline(always)]
    pub fn has_ports(proto: u8) -> bool {
        matches!(proto, TCP | UDP | DCCP | PGM | SCTP | UDP_LITE)
    }

    /// The name of a protocol that has ports or is ICMP.
    pub const fn name(proto: u8) -> Option<&'static str> {
        Some(match proto {
            ICMP => "icmp",
            TCP => "tcp",
            UDP => "udp",
            DCCP => "dccp",
            ICMPV6 => "icmp6",
            PGM => "pgm",
            SCTP => "sctp",
            UDP_LITE => "udplite",
            _ => return None,
        })
    }

    /// Whether an IPv6 next header names an extension header that can be stepped over (the registry
    /// "IPv6 Extension Header Types" of RFC 7045). ESP hides what follows it, and 253 and 254 are
    /// for experiments.
    #[inline(always)]
    pub const fn is_extension(proto: u8) -> bool {
        matches!(proto, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION | MOBILITY | HIP | SHIM6)
    }

    /// The same of the protocol of IPv4: AH (RFC 4302) and HIP (RFC 7401).
    #[inline(always)]
    pub const fn is_extension_of_ipv4(proto: u8) -> bool {
        matches!(proto, AUTHENTICATION | HIP)
    }

    /// Whether an extension header always stands in front of another header.
    pub const fn leads_on(proto: u8) -> bool {
        matches!(proto, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION)
    }

    /// Whether an extension header is itself the protocol: one of mobility, HIP or Shim6 behind which
    /// nothing follows is a message.
    #[inline(always)]
    pub const fn ends_with(proto: u8, next: u8) -> bool {
        matches!(proto, MOBILITY | HIP | SHIM6) && next == NONE
    }

    /// Bytes of an extension header, from its own length byte.
    pub fn extension_len(proto: u8, length: u8) -> usize {
        match proto {
            FRAGMENT => 8,
            AUTHENTICATION => (usize::from(length) + 2) * 4,
            _ => (usize::from(length) + 1) * 8,
        }
    }
}

/// Destination ports of tunnels over UDP.
pub mod tunnel_port {
    /// VXLAN (RFC 7348), and the port that Linux had before one was assigned.
    pub const VXLAN: u16 = 4789;
    pub const VXLAN_OF_LINUX: u16 = 8472;
    /// Geneve (RFC 8926).
    pub const GENEVE: u16 = 6081;
    /// GTP-U (3GPP TS 29.281).
    pub const GTP_U: u16 = 2152;
    /// MPLS in UDP (RFC 7510).
    pub const MPLS: u16 = 6635;
}
