//! Frames from templates: the headers of a kind of packet are copied, and the fields that differ by
//! flow, length and packet are patched.

use weir::trace::Tuple;
use weir::wire::{Mac, Tuple4, Tuple6, proto};

use super::Stamp;
use crate::signature::{LEN, Signature};

const ETHERNET: usize = 14;
const TAG: usize = 4;
const IPV4: usize = 20;
const IPV6: usize = 40;
const TCP: usize = 20;
const UDP: usize = 8;
/// The shortest frame without FCS.
const SHORTEST: usize = 60;
/// Room for the longest headers: a tag, IPv6, TCP.
const ROOM: usize = 80;
const HOPS: u8 = 64;

/// The header fields that all frames of a run have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderOptions {
    pub src_mac: Mac,
    pub dst_mac: Mac,
    pub vlan: Option<u16>,
    pub dscp: u8,
    pub tcp_flags: u8,
}

impl Default for HeaderOptions {
    fn default() -> Self {
        Self {
            src_mac: Mac([2, 0, 0, 0, 0, 1]),
            dst_mac: Mac([2, 0, 0, 0, 0, 2]),
            vlan: None,
            dscp: 0,
            tcp_flags: 0x10,
        }
    }
}

/// A flow's part of its frames, in 32 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct FlowFields {
    /// Number of its next frame: as many have been picked.
    pub next: u64,
    /// Number of the flow in the run.
    pub number: u32,
    /// The low 32 bits of its addresses, and its ports, in network byte order.
    tuple: [u8; 12],
    /// Sums of the checksums' words but for those that hold a length, folded, in network byte order.
    network_sum: [u8; 2],
    transport_sum: [u8; 2],
    /// Bytes of its headers with a signature.
    shortest: u16,
    kind: u8,
}

/// Headers of one kind of packet.
#[derive(Clone, Debug)]
struct Template {
    bytes: [u8; ROOM],
    network: usize,
    transport: usize,
    payload: usize,
}

/// Templates of TCP and UDP over IPv4 and IPv6.
#[derive(Clone, Debug)]
pub struct Templates {
    kinds: [Template; 4],
    is_tagged: bool,
}

/// Where the headers of one kind of packet begin.
trait Layout {
    const NETWORK: usize;
    const V6: bool;
    const TCP: bool;
    const TRANSPORT: usize = Self::NETWORK + if Self::V6 { IPV6 } else { IPV4 };
    const PAYLOAD: usize = Self::TRANSPORT + if Self::TCP { TCP } else { UDP };
}

struct Packet<const NETWORK: usize, const V6: bool, const TCP: bool>;

impl<const NETWORK: usize, const V6: bool, const TCP: bool> Layout for Packet<NETWORK, V6, TCP> {
    const NETWORK: usize = NETWORK;
    const V6: bool = V6;
    const TCP: bool = TCP;
}

impl Template {
    fn new(options: &HeaderOptions, v6: bool, tcp: bool) -> Self {
        let mut bytes = [0; ROOM];
        bytes[..6].copy_from_slice(&options.dst_mac.0);
        bytes[6..12].copy_from_slice(&options.src_mac.0);
        let network = ETHERNET + if options.vlan.is_some() { TAG } else { 0 };
        if let Some(vlan) = options.vlan {
            bytes[12..14].copy_from_slice(&[0x81, 0]);
            bytes[14..16].copy_from_slice(&vlan.to_be_bytes());
        }
        let (tos, proto) = (options.dscp << 2, if tcp { proto::TCP } else { proto::UDP });
        let ip = &mut bytes[network - 2..];
        if v6 {
            ip[..6].copy_from_slice(&[0x86, 0xdd, 0x60 | tos >> 4, tos << 4, 0, 0]);
            ip[8..10].copy_from_slice(&[proto, HOPS]);
        } else {
            ip[..4].copy_from_slice(&[0x08, 0, 0x45, tos]);
            // Don't fragment.
            ip[8..12].copy_from_slice(&[0x40, 0, HOPS, proto]);
        }
        let transport = network + if v6 { IPV6 } else { IPV4 };
        if tcp {
            // A header of five words, flags, and a full window.
            bytes[transport + 12..transport + 16].copy_from_slice(&[0x50, options.tcp_flags, 0xff, 0xff]);
        }
        Self { bytes, network, transport, payload: transport + if tcp { TCP } else { UDP } }
    }

    /// With a flow's addresses and ports, and those that flows do not have in common.
    fn of(&self, tuple: Tuple) -> ([u8; ROOM], [u8; 12]) {
        let mut bytes = self.bytes;
        let n = self.network;
        let (src, dst, ports) = match tuple {
            Tuple::V4(Tuple4(bits)) => {
                bytes[n + 12..n + 16].copy_from_slice(&((bits >> 72) as u32).to_be_bytes());
                bytes[n + 16..n + 20].copy_from_slice(&((bits >> 40) as u32).to_be_bytes());
                ((bits >> 72) as u32, (bits >> 40) as u32, (bits >> 8) as u32)
            }
            Tuple::V6(Tuple6(src, dst, bits)) => {
                bytes[n + 8..n + 24].copy_from_slice(&src.to_be_bytes());
                bytes[n + 24..n + 40].copy_from_slice(&dst.to_be_bytes());
                (src as u32, dst as u32, (bits >> 8) as u32)
            }
        };
        bytes[self.transport..self.transport + 4].copy_from_slice(&ports.to_be_bytes());
        let mut own = [0; 12];
        for (part, word) in own.chunks_exact_mut(4).zip([src, dst, ports]) {
            part.copy_from_slice(&word.to_be_bytes());
        }
        (bytes, own)
    }
}

impl Templates {
    pub fn new(options: &HeaderOptions) -> Self {
        let kinds = [(false, false), (false, true), (true, false), (true, true)];
        Self { kinds: kinds.map(|(v6, tcp)| Template::new(options, v6, tcp)), is_tagged: options.vlan.is_some() }
    }

    /// Sets the addresses' high parts, in which all IPv6 flows of a run agree.
    fn with_prefixes(mut self, tuple: Tuple) -> Self {
        if matches!(tuple, Tuple::V6(_)) {
            for kind in [2, 3] {
                let template = &mut self.kinds[kind];
                let (bytes, ..) = template.of(tuple);
                template.bytes[..template.transport].copy_from_slice(&bytes[..template.transport]);
            }
        }
        self
    }

    /// The fields of each flow, and the templates that go with them. IPv6 flows must agree in all
    /// but the low 32 bits of their addresses, as those of workloads do.
    pub fn flows(self, tuples: impl IntoIterator<Item = (u32, Tuple)>) -> (Self, Box<[FlowFields]>) {
        let mut templates = self;
        let mut prefixed = false;
        let fields = tuples.into_iter().map(|(number, tuple)| {
            if !prefixed && matches!(tuple, Tuple::V6(_)) {
                templates = templates.clone().with_prefixes(tuple);
                prefixed = true;
            }
            templates.fields(number, tuple)
        });
        let fields = fields.collect();
        (templates, fields)
    }

    pub(super) fn fields(&self, number: u32, tuple: Tuple) -> FlowFields {
        let (v6, tcp) = (matches!(tuple, Tuple::V6(_)), tuple.proto() == proto::TCP);
        let kind = u8::from(v6) << 1 | u8::from(tcp);
        let template = &self.kinds[usize::from(kind)];
        let (bytes, own) = template.of(tuple);
        let (network, transport) = (&bytes[template.network..template.transport], &bytes[template.transport..]);
        let addresses = sum(&network[if v6 { 8 } else { 12 }..]);
        let segment = sum(&transport[..template.payload - template.transport]);
        FlowFields {
            next: 0,
            number,
            tuple: own,
            network_sum: if v6 { [0; 2] } else { fold(sum(network)).to_be_bytes() },
            transport_sum: fold(addresses + segment + u32::from(tuple.proto())).to_be_bytes(),
            shortest: (template.payload + LEN) as u16,
            kind,
        }
    }

    /// Length of the shortest frame of this flow, without FCS: its headers and a signature.
    #[inline(always)]
    pub fn shortest(&self, flow: &FlowFields) -> u16 {
        flow.shortest
    }

    #[inline(always)]
    fn template(&self, flow: &FlowFields) -> &Template {
        &self.kinds[usize::from(flow.kind & 3)]
    }

    /// Writes frame number `sequence` of a flow to the whole of `out`, which is not shorter than
    /// [`Templates::shortest`], nor than 60 bytes.
    #[inline(always)]
    pub fn write(&self, flow: &FlowFields, sequence: u64, stamp: Stamp, out: &mut [u8]) {
        const TAGGED: usize = ETHERNET + TAG;
        match (self.is_tagged, flow.kind & 3) {
            (false, 0) => self.write_as::<Packet<ETHERNET, false, false>>(flow, sequence, stamp, out),
            (false, 1) => self.write_as::<Packet<ETHERNET, false, true>>(flow, sequence, stamp, out),
            (false, 2) => self.write_as::<Packet<ETHERNET, true, false>>(flow, sequence, stamp, out),
            (false, _) => self.write_as::<Packet<ETHERNET, true, true>>(flow, sequence, stamp, out),
            (true, 0) => self.write_as::<Packet<TAGGED, false, false>>(flow, sequence, stamp, out),
            (true, 1) => self.write_as::<Packet<TAGGED, false, true>>(flow, sequence, stamp, out),
            (true, 2) => self.write_as::<Packet<TAGGED, true, false>>(flow, sequence, stamp, out),
            (true, _) => self.write_as::<Packet<TAGGED, true, true>>(flow, sequence, stamp, out),
        }
    }

    /// As [`Self::write`], with all offsets known when this is compiled.
    #[inline(always)]
    fn write_as<L: Layout>(&self, flow: &FlowFields, sequence: u64, stamp: Stamp, out: &mut [u8]) {
        let bytes = &self.kinds[usize::from(L::V6) << 1 | usize::from(L::TCP)].bytes;
        let length = out.len();
        if length < SHORTEST.max(L::PAYLOAD + LEN) {
            return;
        }
        let (head, rest) = out.split_at_mut(L::PAYLOAD + LEN);
        head[..L::PAYLOAD].copy_from_slice(&bytes[..L::PAYLOAD]);
        if !rest.is_empty() {
            rest.fill(0);
        }
        let packet = ((length - L::NETWORK) as u16).to_be_bytes();
        let segment = ((length - L::TRANSPORT) as u16).to_be_bytes();
        let ip = &mut head[L::NETWORK..L::TRANSPORT];
        if L::V6 {
            ip[4..6].copy_from_slice(&segment);
            ip[20..24].copy_from_slice(&flow.tuple[..4]);
            ip[36..40].copy_from_slice(&flow.tuple[4..8]);
        } else {
            ip[2..4].copy_from_slice(&packet);
            ip[10..12].copy_from_slice(&inverted(plus(flow.network_sum, packet)));
            ip[12..20].copy_from_slice(&flow.tuple[..8]);
        }
        let sum = plus(flow.transport_sum, segment);
        let transport = &mut head[L::TRANSPORT..L::PAYLOAD];
        transport[..4].copy_from_slice(&flow.tuple[8..]);
        if L::TCP {
            transport[16..18].copy_from_slice(&inverted(sum));
        } else {
            transport[4..6].copy_from_slice(&segment);
            // All zeros would say that there is none.
            let check = u16::from_ne_bytes(inverted(plus(sum, segment)));
            let check = if check == 0 { u16::MAX } else { check };
            transport[6..8].copy_from_slice(&check.to_ne_bytes());
        }
        let Some(signature) = head[L::PAYLOAD..].first_chunk_mut::<LEN>() else { return };
        let Stamp { tag, epoch, at_ns } = stamp;
        Signature { flow: flow.number, sequence, tag, epoch, at_ns }.write(signature);
    }

    /// The IP header of a frame that [`Templates::write`] has written.
    pub(super) fn network<'a>(&self, flow: &FlowFields, frame: &'a mut [u8]) -> &'a mut [u8] {
        let template = self.template(flow);
        frame.get_mut(template.network..template.transport).unwrap_or_default()
    }
}

/// The sum of the words of an even number of bytes.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum()
}

/// The Internet checksum's sum of two words, in the byte order that they have.
#[inline(always)]
fn plus(a: [u8; 2], b: [u8; 2]) -> [u8; 2] {
    let (sum, carry) = u16::from_ne_bytes(a).overflowing_add(u16::from_ne_bytes(b));
    (sum + u16::from(carry)).to_ne_bytes()
}

#[inline(always)]
fn inverted(sum: [u8; 2]) -> [u8; 2] {
    (!u16::from_ne_bytes(sum)).to_ne_bytes()
}

fn fold(sum: u32) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature;
    use etherparse::{NetHeaders, PacketHeaders, TransportHeader};
    use proptest::prelude::*;
    use weir::trace::Keys;

    /// All fields as etherparse reads them, and every checksum right.
    fn judge(frame: &[u8], options: &HeaderOptions, tuple: Tuple) {
        let packet = PacketHeaders::from_ethernet_slice(frame).unwrap();
        let tag = packet.vlan().map(|vlan| match vlan {
            etherparse::VlanHeader::Single(tag) => tag.vlan_id.value(),
            etherparse::VlanHeader::Double(_) => panic!("two tags"),
        });
        assert_eq!(tag, options.vlan);
        let link = packet.link.unwrap().ethernet2().unwrap();
        assert_eq!((link.source, link.destination), (options.src_mac.0, options.dst_mac.0));
        let payload = packet.payload.slice();
        let (net, transport) = (packet.net.unwrap(), packet.transport.unwrap());
        match &net {
            NetHeaders::Ipv4(ip, _) => {
                assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                assert_eq!(ip.dscp.value(), options.dscp);
                let (got, want) = match &transport {
                    TransportHeader::Tcp(tcp) => (tcp.checksum, tcp.calc_checksum_ipv4(ip, payload).unwrap()),
                    TransportHeader::Udp(udp) => (udp.checksum, udp.calc_checksum_ipv4(ip, payload).unwrap()),
                    other => panic!("{other:?}"),
                };
                assert_eq!(got, want);
            }
            NetHeaders::Ipv6(ip, _) => {
                assert_eq!(ip.traffic_class >> 2, options.dscp);
                let (got, want) = match &transport {
                    TransportHeader::Tcp(tcp) => (tcp.checksum, tcp.calc_checksum_ipv6(ip, payload).unwrap()),
                    TransportHeader::Udp(udp) => (udp.checksum, udp.calc_checksum_ipv6(ip, payload).unwrap()),
                    other => panic!("{other:?}"),
                };
                assert_eq!(got, want);
            }
            NetHeaders::Arp(_) => panic!("ARP"),
        }
        if let TransportHeader::Tcp(tcp) = &transport {
            assert_eq!(
                (tcp.syn, tcp.ack, tcp.fin),
                (options.tcp_flags & 2 != 0, options.tcp_flags & 16 != 0, options.tcp_flags & 1 != 0)
            );
        }
        let mut headers = weir::wire::Headers::default();
        weir::wire::parse(frame, &mut headers).unwrap();
        assert_eq!(headers.flow(), Some(tuple.flow()));
    }

    proptest! {
        #[test]
        fn frames_are_right(
            seed: u64, flow in 0u32..1 << 20, ipv6: bool, vlan in proptest::option::of(1u16..4095), dscp in 0u8..64,
            tcp_flags in 0u8..64, extra in 0usize..9000, sequence in 0u64..1 << 40, at_ns in 0u64..1 << 48,
        ) {
            let options = HeaderOptions { vlan, dscp, tcp_flags, ..HeaderOptions::default() };
            let tuple = Keys::Random.tuple(seed, flow, f64::from(u8::from(ipv6)));
            let other = Keys::Random.tuple(seed, flow + 1, f64::from(u8::from(ipv6)));
            let (templates, fields) = Templates::new(&options).flows([(9, other), (flow, tuple)]);
            let fields = &fields[1];
            let length = usize::from(templates.shortest(fields)).max(SHORTEST) + extra;
            let mut frame = vec![0xaa; length];
            templates.write(fields, sequence, Stamp { tag: 3, epoch: 4, at_ns }, &mut frame);
            judge(&frame, &options, tuple);
            let expected = Signature { flow, sequence, tag: 3, epoch: 4, at_ns };
            prop_assert_eq!(signature::find(&frame, 3), Some(expected));
        }
    }

    #[test]
    fn a_flow_is_half_a_cache_line() {
        assert_eq!(size_of::<FlowFields>(), 32);
    }
}
