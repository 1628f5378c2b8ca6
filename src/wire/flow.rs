//! Flow keys: the fields that name a flow, packed as the hash units and register arrays see them.
//!
//! A key's bytes are its fields in network order without padding: source address, destination
//! address, source port, destination port, protocol. The P4 twin hashes the same bytes.

use std::fmt;
use std::hash::Hash;
use std::mem::offset_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Headers, KeyField, Net, proto};

/// A flow as people and JSON see it. Fields that the key does not hold are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub src: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dst: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sport: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dport: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub proto: Option<u8>,
}

#[cfg(test)]
impl Flow {
    /// A flow of TCP for tests, which differ in their source port.
    pub fn from_port(sport: u16) -> Self {
        let ip = |last: u8| Some([10, 0, 0, last].into());
        Self { src: ip(1), dst: ip(2), sport: Some(sport), dport: Some(80), proto: Some(6) }
    }
}

impl Flow {
    /// Which fields it has, in their order.
    pub fn fields(&self) -> [bool; 5] {
        let Self { src, dst, sport, dport, proto } = self;
        [src.is_some(), dst.is_some(), sport.is_some(), dport.is_some(), proto.is_some()]
    }

    /// The flow with these of its fields alone.
    #[must_use]
    pub fn only(&self, [src, dst, sport, dport, proto]: [bool; 5]) -> Self {
        Self {
            src: self.src.filter(|_| src),
            dst: self.dst.filter(|_| dst),
            sport: self.sport.filter(|_| sport),
            dport: self.dport.filter(|_| dport),
            proto: self.proto.filter(|_| proto),
        }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |ip: Option<IpAddr>, port: Option<u16>| match (ip, port) {
            (None, _) => "*".to_string(),
            (Some(ip), None) => ip.to_string(),
            (Some(IpAddr::V6(ip)), Some(port)) => format!("[{ip}]:{port}"),
            (Some(ip), Some(port)) => format!("{ip}:{port}"),
        };
        // A protocol without ports shows none, though its key has the bits.
        let none = (self.sport, self.dport) == (Some(0), Some(0));
        let ported = !none || self.proto.is_none_or(proto::has_ports);
        let [sport, dport] = [self.sport, self.dport].map(|port| port.filter(|_| ported));
        let ends = format!("{} → {}", end(self.src, sport), end(self.dst, dport));
        match self.proto.map(|proto| (proto, proto::name(proto))) {
            None => f.pad(&ends),
            Some((_, Some(name))) => f.pad(&format!("{ends} {name}")),
            Some((proto, None)) => f.pad(&format!("{ends} proto {proto}")),
        }
    }
}

/// Bytes of the headers by their offset, the lowest of a number first; [`NOTHING`] is 0.
pub type Places = [u8; 16];

/// No byte of the headers.
pub const NOTHING: u8 = u8::MAX;

/// The places of fields of headers, a field after the other: the offset of each and its length.
/// What is left is 0.
pub const fn places(fields: &[(usize, usize)]) -> Places {
    let mut places = [NOTHING; 16];
    let (mut next, mut field) = (0, 0);
    while field < fields.len() {
        let (offset, len) = fields[field];
        let mut byte = 0;
        while byte < len {
            assert!(offset + byte < Headers::FRONT);
            places[next] = (offset + byte) as u8;
            next += 1;
            byte += 1;
        }
        field += 1;
    }
    places
}

/// A key of fixed width over the parsed headers.
pub trait FlowKey: Copy + Eq + Hash + Ord + Default + fmt::Debug + Send + Sync + 'static {
    /// Width in bits, as a register array stores it.
    const BITS: u32;
    /// The address family that this key belongs to.
    const NET: Net;
    /// The fields of [`Self::bytes`], the first one first.
    const FIELDS: &'static [KeyField];
    /// The key's bytes in network order.
    type Bytes: AsRef<[u8]> + Copy;
    /// The key of a packet whose `net` is `Self::NET`; of any other packet a meaningless value.
    fn of(headers: &Headers) -> Self;
    fn bytes(self) -> Self::Bytes;
    /// Whether the key has 4 to 16 whole bytes.
    const NARROW: bool = Self::BITS >= u32::BITS && Self::BITS <= u128::BITS && Self::BITS % 8 == 0;
    /// The key's bytes as the last ones of a number, in network order; of a key that is not
    /// [narrow](Self::NARROW), only some of them.
    #[inline(always)]
    fn number(self) -> u128 {
        self.bytes().as_ref().iter().fold(0, |number, &byte| number << 8 | u128::from(byte))
    }
    /// Where in the headers the bytes of [`Self::number`] stand, for keys that are made so.
    const PLACES: Option<Places> = None;
    /// The key with this [number](Self::number), of keys with [places](Self::PLACES).
    #[inline(always)]
    fn of_number(_number: u128) -> Self {
        Self::default()
    }
    /// The bits that both keys have.
    fn and(self, mask: Self) -> Self;
    /// The mask that leaves the first `prefix` bits of each address. A five-tuple is always whole.
    fn mask(prefix: u8) -> Self;
    fn flow(self) -> Flow;
}

fn mask32(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32u32.saturating_sub(prefix.into())).unwrap_or(0)
}

fn mask128(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128u32.saturating_sub(prefix.into())).unwrap_or(0)
}

const NO_FLOW: Flow = Flow { src: None, dst: None, sport: None, dport: None, proto: None };

fn v4(address: u32) -> Option<IpAddr> {
    Some(IpAddr::V4(Ipv4Addr::from(address)))
}

fn v6(address: u128) -> Option<IpAddr> {
    Some(IpAddr::V6(Ipv6Addr::from(address)))
}

/// Ports and protocol in the low 40 bits.
#[inline(always)]
fn ports(headers: &Headers) -> u64 {
    u64::from(headers.sport) << 24 | u64::from(headers.dport) << 8 | u64::from(headers.proto)
}

/// IPv4 five-tuple: source, destination, ports, protocol in the low 104 bits.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialOrd, Ord)]
#[allow(clippy::derived_hash_with_manual_eq, reason = "equal numbers are equal")]
pub struct Tuple4(pub u128);

/// By halves, as a compiler writes and copies them: a load of both at once would wait for the stores of
/// a cell that the packet before has written.
impl PartialEq for Tuple4 {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        let differ = self.0 ^ other.0;
        (differ as u64) | (differ >> 64) as u64 == 0
    }
}

impl FlowKey for Tuple4 {
    const BITS: u32 = 104;
    const NET: Net = Net::Ipv4;
    const FIELDS: &'static [KeyField] = &KeyField::tuple(32);
    type Bytes = [u8; 13];

    #[inline(always)]
    fn of(h: &Headers) -> Self {
        Self(u128::from(h.src_ip as u32) << 72 | u128::from(h.dst_ip as u32) << 40 | u128::from(ports(h)))
    }

    #[inline(always)]
    fn bytes(self) -> [u8; 13] {
        let [_, _, _, bytes @ ..] = self.0.to_be_bytes();
        bytes
    }

    #[inline(always)]
    fn number(self) -> u128 {
        self.0
    }

    const PLACES: Option<Places> = Some(places(&[
        (offset_of!(Headers, proto), 1),
        (offset_of!(Headers, dport), 2),
        (offset_of!(Headers, sport), 2),
        (offset_of!(Headers, dst_ip), 4),
        (offset_of!(Headers, src_ip), 4),
    ]));

    #[inline(always)]
    fn of_number(number: u128) -> Self {
        Self(number)
    }

    #[inline(always)]
    fn and(self, _: Self) -> Self {
        self
    }

    fn mask(_: u8) -> Self {
        Self(u128::MAX >> 24)
    }

    fn flow(self) -> Flow {
        Flow {
            src: v4((self.0 >> 72) as u32),
            dst: v4((self.0 >> 40) as u32),
            sport: Some((self.0 >> 24) as u16),
            dport: Some((self.0 >> 8) as u16),
            proto: Some(self.0 as u8),
        }
    }
}

/// IPv4 source and destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair4(pub u64);

impl FlowKey for Pair4 {
    const BITS: u32 = 64;
    const NET: Net = Net::Ipv4;
    const FIELDS: &'static [KeyField] = &[KeyField::src(32), KeyField::dst(32)];
    type Bytes = [u8; 8];

    #[inline(always)]
    fn of(h: &Headers) -> Self {
        Self(u64::from(h.src_ip as u32) << 32 | u64::from(h.dst_ip as u32))
    }

    #[inline(always)]
    fn bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    #[inline(always)]
    fn number(self) -> u128 {
        self.0.into()
    }

    #[inline(always)]
    fn and(self, mask: Self) -> Self {
        Self(self.0 & mask.0)
    }

    fn mask(prefix: u8) -> Self {
        let address = u64::from(mask32(prefix));
        Self(address << 32 | address)
    }

    fn flow(self) -> Flow {
        Flow { src: v4((self.0 >> 32) as u32), dst: v4(self.0 as u32), ..NO_FLOW }
    }
}

/// One IPv4 address. `DST` says which of the packet's two it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Addr4<const DST: bool>(pub u32);

impl<const DST: bool> FlowKey for Addr4<DST> {
    const BITS: u32 = 32;
    const NET: Net = Net::Ipv4;
    const FIELDS: &'static [KeyField] = &[if DST { KeyField::dst(32) } else { KeyField::src(32) }];
    type Bytes = [u8; 4];

    #[inline(always)]
    fn of(h: &Headers) -> Self {
        Self(if DST { h.dst_ip } else { h.src_ip } as u32)
    }

    #[inline(always)]
    fn bytes(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }

    #[inline(always)]
    fn number(self) -> u128 {
        self.0.into()
    }

    #[inline(always)]
    fn and(self, mask: Self) -> Self {
        Self(self.0 & mask.0)
    }

    fn mask(prefix: u8) -> Self {
        Self(mask32(prefix))
    }

    fn flow(self) -> Flow {
        if DST { Flow { dst: v4(self.0), ..NO_FLOW } } else { Flow { src: v4(self.0), ..NO_FLOW } }
    }
}

/// IPv6 five-tuple: addresses, then ports and protocol in the low 40 bits of the last word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tuple6(pub u128, pub u128, pub u64);

impl FlowKey for Tuple6 {
    const BITS: u32 = 296;
    const NET: Net = Net::Ipv6;
    const FIELDS: &'static [KeyField] = &KeyField::tuple(128);
    type Bytes = [u8; 37];

    #[inline(always)]
    fn of(h: &Headers) -> Self {
        Self(h.src_ip, h.dst_ip, ports(h))
    }

    #[inline(always)]
    fn bytes(self) -> [u8; 37] {
        let mut bytes = [0; 37];
        bytes[..16].copy_from_slice(&self.0.to_be_bytes());
        bytes[16..32].copy_from_slice(&self.1.to_be_bytes());
        bytes[32..].copy_from_slice(&self.2.to_be_bytes()[3..]);
        bytes
    }

    #[inline(always)]
    fn and(self, _: Self) -> Self {
        self
    }

    fn mask(_: u8) -> Self {
        Self(u128::MAX, u128::MAX, u64::MAX >> 24)
    }

    fn flow(self) -> Flow {
        Flow {
            src: v6(self.0),
            dst: v6(self.1),
            sport: Some((self.2 >> 24) as u16),
            dport: Some((self.2 >> 8) as u16),
            proto: Some(self.2 as u8),
        }
    }
}

/// IPv6 source and destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair6(pub u128, pub u128);

impl FlowKey for Pair6 {
    const BITS: u32 = 256;
    const NET: Net = Net::Ipv6;
    const FIELDS: &'static [KeyField] = &[KeyField::src(128), KeyField::dst(128)];
    type Bytes = [u8; 32];

    #[inline(always)]
    fn of(h: &Headers) -> Self {
        Self(h.src_ip, h.dst_ip)
    }

    #[inline(always)]
    fn bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.0.to_be_bytes());
        bytes[16..].copy_from_slice(&self.1.to_be_bytes());
        bytes
    }

    #[inline(always)]
    fn and(self, mask: Self) -> Self {
        Self(self.0 & mask.0, self.1 & mask.1)
    }

    fn mask(prefix: u8) -> Self {
        Self(mask128(prefix), mask128(prefix))
    }

    fn flow(self) -> Flow {
        Flow { src: v6(self.0), dst: v6(self.1), ..NO_FLOW }
    }
}

/// One IPv6 address. `DST` says which of the packet's two it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Addr6<const DST: bool>(pub u128);

impl<const DST: bool> FlowKey for Addr6<DST> {
    const BITS: u32 = 128;
    const NET: Net = Net::Ipv6;
    const FIELDS: &'static [KeyField] = &[if DST { KeyField::dst(128) } else { KeyField::src(128) }];
    type Bytes = [u8; 16];

    #[inline(always)]
    fn of(h: &Headers) -> Self {
        Self(if DST { h.dst_ip } else { h.src_ip })
    }

    #[inline(always)]
    fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    #[inline(always)]
    fn number(self) -> u128 {
        self.0
    }

    #[inline(always)]
    fn and(self, mask: Self) -> Self {
        Self(self.0 & mask.0)
    }

    fn mask(prefix: u8) -> Self {
        Self(mask128(prefix))
    }

    fn flow(self) -> Flow {
        if DST { Flow { dst: v6(self.0), ..NO_FLOW } } else { Flow { src: v6(self.0), ..NO_FLOW } }
    }
}

/// A five-tuple of either address family, for register arrays that IPv4 and IPv6 share: IP version,
/// ports and protocol in the first word, then source and destination, the high half first. A
/// cleared cell is of neither family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FiveTuple(pub [u64; 5]);

impl FiveTuple {
    /// The fields of [`Self::bytes`], the first one first.
    pub const FIELDS: &'static [KeyField] = {
        let [sport, dport, proto] = KeyField::PORTS;
        let version = [KeyField::new("zero", 16), KeyField::new("ip.version", 8)];
        &[version[0], version[1], sport, dport, proto, KeyField::src(128), KeyField::dst(128)]
    };

    /// The five-tuple of an IPv4 or IPv6 packet.
    #[inline(always)]
    pub fn of(headers: &Headers) -> Option<Self> {
        let version = match headers.net {
            Net::Ipv4 => 4,
            Net::Ipv6 => 6,
            Net::Other => return None,
        };
        let (src, dst) = (headers.src_ip, headers.dst_ip);
        Some(Self([version << 40 | ports(headers), (src >> 64) as u64, src as u64, (dst >> 64) as u64, dst as u64]))
    }

    /// The five-tuple of a flow; `None` where a field is not known.
    pub fn of_flow(flow: &Flow) -> Option<Self> {
        let ports = u64::from(flow.sport?) << 24 | u64::from(flow.dport?) << 8 | u64::from(flow.proto?);
        let (version, src, dst) = match (flow.src?, flow.dst?) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => (4, src.to_bits().into(), dst.to_bits().into()),
            (IpAddr::V6(src), IpAddr::V6(dst)) => (6, src.to_bits(), dst.to_bits()),
            _ => return None,
        };
        let [src, dst]: [u128; 2] = [src, dst];
        Some(Self([version << 40 | ports, (src >> 64) as u64, src as u64, (dst >> 64) as u64, dst as u64]))
    }

    /// The words in network order.
    #[inline(always)]
    pub fn bytes(&self) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes.as_chunks_mut().0.iter_mut().zip(self.0).for_each(|(bytes, word)| *bytes = word.to_be_bytes());
        bytes
    }

    /// The five-tuple with these [bytes](Self::bytes).
    pub fn from_bytes(bytes: [u8; 40]) -> Self {
        let mut words = [0; 5];
        words.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_be_bytes(*bytes));
        Self(words)
    }

    pub fn flow(&self) -> Flow {
        let [ports, src_high, src, dst_high, dst] = self.0;
        let ip = |high: u64, low: u64| match ports >> 40 {
            4 => v4(low as u32),
            _ => v6(u128::from(high) << 64 | u128::from(low)),
        };
        let (sport, dport, proto) = (Some((ports >> 24) as u16), Some((ports >> 8) as u16), Some(ports as u8));
        Flow { src: ip(src_high, src), dst: ip(dst_high, dst), sport, dport, proto }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_have_one_five_tuple() {
        for (net, src_ip, dst_ip) in
            [(Net::Ipv4, 0x0a00_0001, 0xc612_0003), (Net::Ipv6, 0xfe80 << 112 | 1, u128::MAX - 6)]
        {
            let headers = Headers { net, src_ip, dst_ip, proto: 17, sport: 0xffee, dport: 53, ..Headers::default() };
            let tuple = FiveTuple::of(&headers).unwrap();
            assert_eq!((Some(tuple.flow()), FiveTuple::from_bytes(tuple.bytes())), (headers.flow(), tuple));
        }
        assert_eq!(FiveTuple::of(&Headers::default()), None);
    }

    #[test]
    fn only_what_has_ports_shows_them() {
        let flow = |proto, ports: Option<(u16, u16)>| {
            let ends = Flow { src: v4(0x0a00_0001), dst: v4(0x0a00_0002), ..NO_FLOW };
            Flow { sport: ports.map(|p| p.0), dport: ports.map(|p| p.1), proto, ..ends }.to_string()
        };
        assert_eq!(flow(Some(1), Some((0, 0))), "10.0.0.1 → 10.0.0.2 icmp");
        assert_eq!(flow(Some(58), Some((0, 0))), "10.0.0.1 → 10.0.0.2 icmp6");
        assert_eq!(flow(Some(47), Some((0, 0))), "10.0.0.1 → 10.0.0.2 proto 47");
        assert_eq!(flow(Some(132), Some((7, 0))), "10.0.0.1:7 → 10.0.0.2:0 sctp");
        assert_eq!(flow(Some(33), Some((0, 0))), "10.0.0.1:0 → 10.0.0.2:0 dccp");
        assert_eq!(flow(Some(17), Some((0, 0))), "10.0.0.1:0 → 10.0.0.2:0 udp");
        assert_eq!(flow(None, None), "10.0.0.1 → 10.0.0.2");
    }
}
