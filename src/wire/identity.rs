//! The bytes that identify a packet and that no hop changes.

use super::{Frame, Headers, KeyField, Net, proto};

/// Length of [`invariant`]'s result.
pub const LEN: usize = 40;

/// The fields of [`invariant`]'s result, the first one first.
pub const FIELDS: &[KeyField] = {
    let [sport, dport, proto] = KeyField::PORTS;
    let addresses = KeyField::new("ip.src xor (ip.dst rotated left by 8)", 128);
    let length = KeyField::new("ipv4.length and ipv4.identification, or ipv6.length and zeros", 32);
    let numbers = KeyField::new("tcp.sequence and tcp.acknowledgement, or payload bytes 8 to 15", 64);
    &[addresses, proto, sport, dport, length, numbers, KeyField::new("payload bytes 1 to 7", 56)]
};

/// First bytes of the payload that are taken of a packet of TCP, which has numbers besides, and the
/// further ones of any other packet.
const PAYLOAD: usize = 7;
const FURTHER: usize = 8;

/// First bytes of the payload that are taken of any packet.
pub const MAX_PAYLOAD: usize = PAYLOAD + FURTHER;

/// The bytes of a packet that stay the same from its first to its last hop: addresses (one XOR the
/// other, rotated), protocol, ports, the length of the IP packet, IPv4 identification, TCP sequence
/// and acknowledgement numbers with the first 7 bytes of payload, or the first 15 bytes behind the
/// first eight of any other transport. MACs, tags, shim, TTL, type of service and checksums are left
/// out. Zeros for other packets than IPv4 and IPv6.
#[inline(always)]
pub fn invariant(headers: &Headers, frame: &impl Frame) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    if headers.net == Net::Other {
        return bytes;
    }
    let packet = frame.bytes().get(usize::from(headers.l3)..).unwrap_or_default();
    let transport = match headers.l4 {
        0 => &[],
        l4 => frame.bytes().get(usize::from(l4)..).unwrap_or_default(),
    };
    let addresses = headers.src_ip ^ headers.dst_ip.rotate_left(8);
    let ports = u64::from(headers.sport) << 16 | u64::from(headers.dport);
    // The length, and IPv4's identification.
    let length = match headers.net {
        Net::Ipv4 => u32::from_be_bytes(taken(packet, 2)),
        _ => u32::from(u16::from_be_bytes(taken(packet, 4))) << 16,
    };
    let (numbers, header) = match headers.proto {
        proto::TCP => {
            let header = usize::from(transport.get(12).copied().unwrap_or_default() >> 4) * 4;
            (u64::from_be_bytes(taken(transport, 4)), header)
        }
        _ => (u64::from_be_bytes(taken::<FURTHER>(transport, 8 + PAYLOAD)), 8),
    };
    let payload = u64::from_be_bytes(taken(transport, header)) >> 8;
    // Whole words: the hash reads words, and would wait for the stores of smaller fields.
    let words = [
        (addresses >> 64) as u64,
        addresses as u64,
        u64::from(headers.proto) << 56 | ports << 24 | u64::from(length >> 8),
        u64::from(length & 0xff) << 56 | numbers >> 8,
        (numbers & 0xff) << 56 | payload,
    ];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_be_bytes();
    }
    bytes
}

/// The bytes from `at` on; zeros where there are none.
#[inline(always)]
fn taken<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
    let from = from.get(at..).unwrap_or_default();
    from.first_chunk().copied().unwrap_or_else(|| padded(from))
}

/// What is shorter than `N` bytes, with zeros behind it.
#[cold]
fn padded<const N: usize>(from: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{HeapFrame, Shim, parse, shim};

    const PACKET: [u8; 66] = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, // Ethernet
        0x45, 0, 0, 52, 0x12, 0x34, 0, 0, 64, 6, 0xaa, 0xbb, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
        0, 80, 1, 187, 1, 2, 3, 4, 5, 6, 7, 8, 0x80, 0x10, 0, 0, 0xcc, 0xdd, 0, 0, // TCP
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, // options
    ];

    fn of(bytes: &[u8]) -> [u8; LEN] {
        let mut headers = Headers::default();
        parse(bytes, &mut headers).unwrap();
        invariant(&headers, &HeapFrame::new(bytes))
    }

    /// A hop may change these bytes, and the packet is the same; all others make it another one.
    #[test]
    fn what_hops_change_does_not_count() {
        // MACs, type of service, TTL, both checksums.
        let changeable = |at: usize| at < 12 || [15, 22, 24, 25].contains(&at) || (50..52).contains(&at);
        // EtherType, version and header length, flags and offset, and what stands in neither.
        let other = |at: usize| (12..15).contains(&at) || [20, 21].contains(&at) || (46..50).contains(&at) || at >= 52;
        for at in (0..PACKET.len()).filter(|at| !other(*at)) {
            let mut bytes = PACKET;
            bytes[at] ^= 1;
            assert_eq!(of(&bytes) == of(&PACKET), changeable(at), "byte {at}");
        }
    }

    /// The bytes in their places: addresses, protocol, ports, length, identification, sequence and
    /// acknowledgement numbers, payload. A payload that is cut off is zero behind its end.
    #[test]
    fn the_bytes_are_pinned() {
        let hex = |bytes: &[u8]| of(bytes).map(|byte| format!("{byte:02x}")).concat();
        let [addresses, payload] = ["00000000000000000000000a0a000201", "010203000000"];
        let with_payload = [&PACKET[..], &[1, 2, 3]].concat();
        let tcp = format!("{addresses}06005001bb003412340102030405060708{payload}00");
        assert_eq!(hex(&with_payload), tcp);
        let mut udp = with_payload;
        udp[23] = proto::UDP;
        // Behind eight bytes of UDP header stand what were TCP's acknowledgement number and window.
        assert_eq!(hex(&udp), format!("{addresses}11005001bb0034123400ccdd000001010105060708801000"));
    }

    /// Packets that differ in one bit of the payload are two, wherever it stands in the bytes that are
    /// taken, and one bit further on they are one.
    #[test]
    fn a_counter_in_the_payload_counts() {
        let udp = |payload: [u8; 32]| {
            let mut bytes = [&PACKET[..42], &payload].concat();
            (bytes[17], bytes[23]) = (60, proto::UDP);
            of(&bytes)
        };
        for bit in 0..8 * 32 {
            let mut payload = [7; 32];
            payload[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(udp(payload) != udp([7; 32]), bit < 8 * MAX_PAYLOAD, "bit {bit}");
        }
    }

    #[test]
    fn neither_does_the_shim() {
        let mut frame = HeapFrame::new(&PACKET);
        assert!(shim::push(&mut frame, Shim::new(3, 0, 9, 0)));
        assert_eq!(of(frame.bytes()), of(&PACKET));
    }

    #[test]
    fn what_is_cut_off_is_zero() {
        (14..PACKET.len()).for_each(|len| assert!(of(&PACKET[..len]).len() == LEN));
        assert_eq!(of(&PACKET[..33]), [0; LEN]);
    }
}
