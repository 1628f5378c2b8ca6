//! Packets that are longer than the next link takes: what comes out in fragments is, put together,
//! what came in.

use proptest::prelude::*;
use weir::pisa::DropReason;
use weir::wire::checksum;

use crate::bench::{Bench, config, host_mac, icmp, own};

const DONT: u16 = 0x4000;
const MORE: u16 = 0x2000;

/// An IPv4 packet to a host behind the narrow port.
#[derive(Clone, Debug)]
struct Packet {
    options: Vec<u8>,
    /// Flags and offset.
    fragment: u16,
    data: Vec<u8>,
}

impl Packet {
    fn frame(&self) -> Vec<u8> {
        let header = 20 + self.options.len();
        let mut ip = vec![0x40 | (header / 4) as u8, 0x12];
        ip.extend(((header + self.data.len()) as u16).to_be_bytes());
        ip.extend([0xab, 0xcd]);
        ip.extend(self.fragment.to_be_bytes());
        ip.extend([64, 253, 0, 0, 10, 0, 1, 10, 10, 0, 3, 11]);
        ip.extend(&self.options);
        let sum = checksum::internet(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        [&own(0)[..], &host_mac(1, 10), &[8, 0], &ip, &self.data].concat()
    }

    fn len(&self) -> usize {
        20 + self.options.len() + self.data.len()
    }
}

/// One option after another: its type says whether later fragments have it too.
fn options() -> impl Strategy<Value = Vec<u8>> {
    let one = prop_oneof![
        Just(vec![1]),
        (2u8..=255, prop::collection::vec(any::<u8>(), 0..9)).prop_map(|(kind, rest)| [
            &[kind, rest.len() as u8 + 2][..],
            &rest
        ]
        .concat()),
    ];
    prop::collection::vec(one, 0..6).prop_map(|all| {
        let mut options = Vec::new();
        for option in all.into_iter().filter(|option| option[0] != 0) {
            if options.len() + option.len() <= 40 {
                options.extend(option);
            }
        }
        options.resize(options.len().next_multiple_of(4), 0);
        options
    })
}

fn packet() -> impl Strategy<Value = Packet> {
    let fragment = prop_oneof![
        3 => Just(0),
        1 => (0u16..1000).prop_map(|offset| offset | MORE),
        1 => 1u16..1000,
    ];
    (options(), fragment, prop::collection::vec(any::<u8>(), 0..1440)).prop_map(|(options, fragment, mut data)| {
        if fragment & MORE != 0 {
            data.truncate(data.len() / 8 * 8);
        }
        Packet { options, fragment, data }
    })
}

fn narrow(mtu: usize) -> Bench {
    Bench::new(&config().replace("mtu = 1400", &format!("mtu = {mtu}")))
}

/// A fragment, as the standard's own words have it.
struct Fragment {
    options: Vec<u8>,
    fragment: u16,
    data: Vec<u8>,
}

fn read(frame: &[u8]) -> Fragment {
    let ip = &frame[14..];
    let header = usize::from(ip[0] & 15) * 4;
    assert_eq!(checksum::internet(&ip[..header]), 0);
    assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
    // All that a fragment has in common with its packet, one hop further.
    assert_eq!((ip[1], &ip[4..6], ip[8], ip[9]), (0x12, &[0xab, 0xcd][..], 63, 253));
    assert_eq!(ip[12..20], [10, 0, 1, 10, 10, 0, 3, 11]);
    assert_eq!((&frame[..6], &frame[6..12]), (&host_mac(3, 11)[..], &own(2)[..]));
    let fragment = u16::from_be_bytes([ip[6], ip[7]]);
    Fragment { options: ip[20..header].to_vec(), fragment, data: ip[header..].to_vec() }
}

/// The options that the standard wants in every fragment.
fn copied(options: &[u8]) -> Vec<u8> {
    let (mut at, mut copied) = (0, Vec::new());
    while at < options.len() && options[at] != 0 {
        let len = if options[at] == 1 { 1 } else { usize::from(options[at + 1]) };
        if options[at] >= 128 {
            copied.extend(&options[at..at + len]);
        }
        at += len;
    }
    copied.resize(copied.len().next_multiple_of(4), 0);
    copied
}

fn check(bench: &mut Bench, mtu: usize, packet: &Packet) {
    let sent = bench.burst(0, &[packet.frame()]);
    let fragments: Vec<_> = sent.iter().map(|(_, frame)| read(frame)).collect();
    assert!(sent.iter().all(|(port, frame)| *port == 2 && frame.len() <= 14 + mtu));
    assert_eq!(fragments[0].options, packet.options);
    assert!(fragments[1..].iter().all(|fragment| fragment.options == copied(&packet.options)));
    let mut data: Vec<u8> = Vec::new();
    for (i, fragment) in fragments.iter().enumerate() {
        let offset = (packet.fragment & 0x1fff) as usize * 8 + data.len();
        assert_eq!(usize::from(fragment.fragment & 0x1fff) * 8, offset);
        let last = i + 1 == fragments.len();
        assert_eq!(fragment.fragment & !0x1fff, if last { packet.fragment & MORE } else { MORE });
        assert!(last || fragment.data.len() % 8 == 0);
        data.extend(&fragment.data);
    }
    assert_eq!(data, packet.data);
    // As few as can be.
    let max = |options: &[u8]| (mtu - 20 - options.len()) / 8 * 8;
    let rest = packet.data.len().saturating_sub(max(&packet.options));
    let fewest = if packet.len() <= mtu { 1 } else { 1 + rest.div_ceil(max(&copied(&packet.options))) };
    assert_eq!(fragments.len(), fewest);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fragments_make_the_packet(mtu in 256usize..1500, packets in prop::collection::vec(packet(), 1..8)) {
        let mut bench = narrow(mtu);
        for packet in &packets {
            check(&mut bench, mtu, packet);
        }
    }

    /// Nothing of what a packet's header says of options or offsets leads astray.
    #[test]
    fn bent_options(mtu in 68usize..1500, options in prop::collection::vec(any::<[u8; 4]>(), 0..10), fragment: u16, len in 0usize..1440) {
        let packet = Packet { options: options.concat(), fragment: fragment & !DONT, data: vec![7; len] };
        narrow(mtu).burst(0, &[packet.frame()]);
    }
}

#[test]
fn dont_fragment_is_answered() {
    let packet = Packet { options: Vec::new(), fragment: DONT, data: vec![1; 1400] };
    let mut bench = narrow(1280);
    let (port, answer) = bench.one(0, &packet.frame()).expect("an answer");
    let message = icmp(&answer);
    assert_eq!((port, message.kind, message.word), (0, (3, 4), 1280u32.to_be_bytes()));
    assert_eq!(bench.dropped(DropReason::TooLong), 1);
}

/// More fragments than the bound: answered, as nothing else would tell the sender.
#[test]
fn too_many_fragments_are_answered() {
    let packet = Packet { options: Vec::new(), fragment: 0, data: vec![1; 1440] };
    let mut bench = narrow(68);
    assert_eq!(bench.burst(0, &[packet.frame()]).len(), 30, "48 bytes each");
    let packet = Packet { options: vec![0x82; 0], fragment: 0, data: vec![1; 1480] };
    assert_eq!(bench.burst(0, &[packet.frame()]).len(), 31);
    let mut options = vec![0x88, 40];
    options.resize(40, 9);
    let packet = Packet { options, fragment: 0, data: vec![1; 400] };
    let (port, answer) = bench.one(0, &packet.frame()).expect("an answer");
    assert_eq!((port, icmp(&answer).kind), (0, (3, 4)));
    // An option that every fragment has leaves room for 40 bytes.
    let max = Packet { options: vec![0x88, 4, 9, 9], fragment: 0, data: vec![1; 32 * 40] };
    assert_eq!(bench.burst(0, &[max.frame()]).len(), 32);
    let one_more = Packet { data: vec![1; 32 * 40 + 1], ..max };
    let (port, answer) = bench.one(0, &one_more.frame()).expect("an answer");
    assert_eq!((port, icmp(&answer).kind), (0, (3, 4)));
}

/// A whole burst of packets that must be fragmented: none is lost for want of room.
#[test]
fn a_burst_of_long_packets() {
    let packet = Packet { options: Vec::new(), fragment: 0, data: vec![1; 1480] };
    for (mtu, fragments) in [(1280, 2), (576, 3), (296, 6), (68, 31)] {
        let mut bench = narrow(mtu);
        let sent = bench.burst(0, &vec![packet.frame(); 64]);
        assert_eq!(sent.len(), 64 * fragments, "MTU {mtu}: {:?}", bench.drops());
    }
}

/// A UDP checksum that the sender left to its NIC is finished before the packet is fragmented.
#[test]
fn an_unfinished_checksum() {
    let mut data = vec![0x5a; 1440];
    data[..8].copy_from_slice(&[0x10, 0, 0x20, 0, 0x05, 0xa0, 0, 0]);
    let (src, dst) = ([10, 0, 1, 10], [10, 0, 3, 11]);
    let partial = checksum::pseudo_v4(src, dst, 17, 1440).fold();
    data[6..8].copy_from_slice(&partial.to_be_bytes());
    let mut frame = Packet { options: Vec::new(), fragment: 0, data }.frame();
    frame[23] = 17;
    frame[24..26].fill(0);
    let sum = checksum::internet(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    let sent = narrow(1280).burst(0, &[frame]);
    let datagram: Vec<u8> = sent.iter().flat_map(|(_, frame)| frame[34..].to_vec()).collect();
    assert_eq!((sent.len(), datagram.len()), (2, 1440));
    assert_eq!(checksum::pseudo_v4(src, dst, 17, 1440).bytes(&datagram).fold(), 0xffff);
}
