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
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ROUTING: u8 = 43;
    pub const FRAGMENT: u8 = 44;
    pub const GRE: u8 = 47;
    pub const ESP: u8 = 50;
    pub const AUTHENTICATION: u8 = 51;
    pub const ICMPV6: u8 = 58;
    pub const NONE: u8 = 59;
    pub const DESTINATION: u8 = 60;

    /// Whether an IPv6 next header names an extension header that can be stepped over. ESP hides
    /// what follows it.
    pub fn is_extension(proto: u8) -> bool {
        matches!(proto, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION)
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
