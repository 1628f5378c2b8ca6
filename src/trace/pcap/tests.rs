use super::*;
use crate::trace::{Frames, Workload};
use proptest::prelude::*;

type Packets = Vec<(u64, u32, Vec<u8>)>;

fn read(file: &[u8]) -> Result<Packets, CaptureError> {
    let mut reader = CaptureReader::new(file)?;
    let mut packets = Vec::new();
    while let Some(packet) = reader.next() {
        let packet = packet?;
        packets.push((packet.at_ns, packet.wire_len, packet.bytes.to_vec()));
    }
    assert!(reader.next().is_none());
    Ok(packets)
}

fn written() -> (Vec<u8>, Packets) {
    let trace = "isp,flows=40,packets=300,ipv6=0.3,len=imix".parse::<Workload>().unwrap().generate();
    let (mut file, mut packets) = (Vec::new(), Vec::new());
    trace.write_pcap(&mut file).unwrap();
    let keep = |at_ns, frame: &[u8]| {
        packets.push((at_ns, frame.len() as u32, frame.to_vec()));
        Ok::<(), ()>(())
    };
    trace.for_each_frame(&Frames::default(), keep).unwrap();
    (file, packets)
}

/// A pcapng file of one section in either byte order: (options of the interface, blocks as type and
/// body).
fn pcapng(little: bool, options: &[u8], blocks: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let word = |w: u32| if little { w.to_le_bytes() } else { w.to_be_bytes() };
    let block = |kind: u32, body: &[u8]| {
        let mut bytes = Vec::new();
        let padded = body.len().next_multiple_of(4);
        bytes.extend(word(kind));
        bytes.extend(word(padded as u32 + 12));
        bytes.extend(body);
        bytes.resize(8 + padded, 0);
        bytes.extend(word(padded as u32 + 12));
        bytes
    };
    let short = |w: u16| if little { w.to_le_bytes() } else { w.to_be_bytes() };
    let section = [&word(0x1a2b_3c4d)[..], &short(1), &short(0), &[0xff; 8]].concat();
    let interface = [&short(1)[..], &short(0), &word(100), options].concat();
    let mut file = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
    blocks.iter().for_each(|(kind, body)| file.extend(block(*kind, body)));
    file
}

fn words(little: bool, words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| if little { w.to_le_bytes() } else { w.to_be_bytes() }).collect()
}

#[test]
fn pcap_goes_round() {
    let (file, packets) = written();
    assert_eq!(read(&file).unwrap(), packets);
}

#[test]
fn a_packet_cut_to_the_snap_length_is_read() {
    let (mut file, packets) = written();
    file[16..20].copy_from_slice(&60u32.to_le_bytes());
    // The original length of the first record.
    file[36..40].copy_from_slice(&9000u32.to_le_bytes());
    let read = read(&file).unwrap();
    assert_eq!((read[0].1, read.len()), (9000, packets.len()));
}

#[test]
fn pcapng_in_both_byte_orders() {
    for little in [false, true] {
        let frame = [0x55u8; 61];
        let enhanced = [words(little, &[0, 1, 2, 61, 70]), frame.to_vec(), vec![0; 3]].concat();
        let simple = [words(little, &[200]), vec![7; 100]].concat();
        let file = pcapng(little, &[], &[(4, vec![0; 8]), (6, enhanced), (3, simple), (0x0bad, vec![1; 5])]);
        let packets = read(&file).unwrap();
        assert_eq!(packets[0], (((1 << 32) + 2) * 1000, 70, frame.to_vec()), "microseconds unless stated");
        let before = packets[0].0;
        assert_eq!(packets[1], (before, 200, vec![7; 100]), "cut to the snap length, at the time of the one before");
        assert_eq!(packets.len(), 2);
    }
}

#[test]
fn pcapng_clock_resolution() {
    let option = |resolution: u8| [&[0, 9, 0, 1, resolution, 0, 0, 0][..], &[0, 0, 0, 0]].concat();
    let enhanced = words(false, &[0, 0, 3000, 0, 0]);
    for (resolution, nanos) in
        [(9, 3000), (6, 3_000_000), (3, 3_000_000_000), (0x80 | 10, 2_929_687_500), (19, 0), (127, 0)]
    {
        let file = pcapng(false, &option(resolution), &[(6, enhanced.clone())]);
        assert_eq!(read(&file).unwrap()[0].0, nanos, "{resolution:#x}");
    }
}

/// What the reader of a file says of it when it is at its end.
fn said(file: &[u8]) -> Metadata {
    let mut reader = CaptureReader::new(file).unwrap();
    while let Some(packet) = reader.next() {
        packet.unwrap();
    }
    reader.metadata()
}

fn option(little: bool, code: u16, value: &[u8]) -> Vec<u8> {
    let short = |w: u16| if little { w.to_le_bytes() } else { w.to_be_bytes() };
    let mut option = [&short(code)[..], &short(value.len() as u16), value].concat();
    option.resize(option.len().next_multiple_of(4), 0);
    option
}

/// Statistics are totals, of which the newest counts; packets say what is missing in front of them.
/// Interfaces and sections add up.
#[test]
fn losses_of_the_capturer_add_up() {
    for little in [true, false] {
        let long = |n: u64| if little { n.to_le_bytes() } else { n.to_be_bytes() };
        let statistics = |options: &[(u16, u64)]| {
            let options = options.iter().flat_map(|(code, n)| option(little, *code, &long(*n)));
            (5, words(little, &[0, 0, 0]).into_iter().chain(options).collect::<Vec<_>>())
        };
        let packet = |dropped: u64| (6, [words(little, &[0, 0, 9, 0, 0]), option(little, 4, &long(dropped))].concat());
        let counts = |blocks: &[_]| {
            let said = said(&pcapng(little, &[], blocks));
            (said.received_packets, said.missed_packets)
        };
        assert_eq!(
            counts(&[statistics(&[(4, 10), (5, 1), (7, 2)]), statistics(&[(4, 50), (5, 3), (7, 4)])]),
            (Some(50), Some(7))
        );
        assert_eq!(counts(&[packet(3), packet(0), packet(4)]), (None, Some(7)));
        assert_eq!(counts(&[packet(3), packet(4), statistics(&[(5, 9)])]), (None, Some(9)), "the same packets");
        assert_eq!(counts(&[statistics(&[(4, u64::MAX), (5, u64::MAX)])]), (None, None), "not known");
        assert_eq!(counts(&[packet(u64::MAX), packet(9)]).1, Some(u64::MAX));
        let old = |drops: u16| {
            let drops = if little { drops.to_le_bytes() } else { drops.to_be_bytes() };
            (2, [&[0, 0][..], &drops, &words(little, &[0, 9, 0, 0])].concat())
        };
        assert_eq!(counts(&[old(2), old(0xffff), old(5)]), (None, Some(7)), "the old block of a packet");
        let two = [pcapng(little, &[], &[statistics(&[(5, 3)])]), pcapng(!little, &[], &[])].concat();
        assert_eq!(said(&[&two[..], &pcapng(little, &[], &[packet(4)])].concat()).missed_packets, Some(7), "sections");
    }
    assert_eq!(said(&written().0), Metadata::default());
}

#[test]
fn a_frame_check_sequence_is_no_part_of_a_packet() {
    let (mut file, packets) = written();
    file[23] = 0x24;
    let shorter = packets.iter().map(|(at, len, bytes)| (*at, len - 4, bytes[..bytes.len() - 4].to_vec()));
    assert_eq!(read(&file).unwrap(), shorter.collect::<Vec<_>>());
    assert_eq!(said(&file).fcs_packets, 300);
    file[23] = 0x20;
    assert_eq!(read(&file).unwrap(), packets, "a length that is not said to be one");
    // Of the interface in bytes or in bits, of the packet in its flags; of a packet that was cut the
    // length alone.
    let packet = |kept: u32, flags: u32| {
        let flags = option(true, 2, &flags.to_le_bytes());
        (6, [words(true, &[0, 0, 1, kept, 64]), vec![7; kept as usize], flags].concat())
    };
    let lengths = |len: u8, blocks: &[_]| {
        let read = read(&pcapng(true, &option(true, 13, &[len]), blocks)).unwrap();
        read.iter().map(|(_, wire, bytes)| (*wire, bytes.len())).collect::<Vec<_>>()
    };
    let blocks = [packet(64, 1), packet(64, 2 << 5), packet(62, 0), packet(40, 0)];
    for len in [4, 32] {
        assert_eq!(lengths(len, &blocks), [(60, 60), (62, 62), (60, 60), (60, 40)]);
    }
    assert_eq!(lengths(0, &blocks), [(64, 64), (62, 62), (64, 62), (64, 40)]);
    assert_eq!(lengths(4, &[(6, words(true, &[0, 0, 1, 0, 3]))]), [(3, 0)], "shorter than a check sequence");
}

#[test]
fn filters_errors_and_times_that_are_none_are_said() {
    let filter = |text: &[u8]| option(true, 11, &[&[0], text].concat());
    let damaged = [words(true, &[0, 0, 5, 0, 0]), option(true, 2, &(1u32 << 24).to_le_bytes())].concat();
    let simple = words(true, &[0]);
    let file = pcapng(true, &[filter(b"tcp port 80"), filter(b"udp")].concat(), &[(6, damaged), (3, simple)]);
    let once = said(&file);
    assert_eq!(once.filters, ["tcp port 80", "udp"]);
    assert_eq!((once.damaged_packets, once.untimed_packets), (1, 1));
    let again = said(&[file.clone(), file].concat());
    assert_eq!((again.filters, again.damaged_packets), (once.filters, 2), "each filter once");
    let many: Vec<u8> = (0..40).flat_map(|i| filter(format!("port {i}").as_bytes())).collect();
    assert_eq!(said(&pcapng(true, &many, &[])).filters.len(), 16);
    assert_eq!(said(&pcapng(true, &option(true, 11, &[1, 0, 0]), &[])).filters, ["a filter that is not in words"]);
    // An hour before 1970, and in it.
    let offset = option(true, 14, &(-3600i64).to_le_bytes());
    let at = |seconds: u32| (6, words(true, &[0, 0, seconds * 1_000_000, 0, 0]));
    let file = pcapng(true, &offset, &[at(4000), at(3000), at(3601)]);
    let times: Vec<_> = read(&file).unwrap().iter().map(|packet| packet.0 / NANOS).collect();
    assert_eq!((times, said(&file).untimed_packets), (vec![400, 400, 1], 1));
}

#[test]
fn options_need_no_end() {
    let unended = [&[0, 2, 0, 2][..], b"e0\0\0", &[0, 9, 0, 1, 9, 0, 0, 0]].concat();
    let comment = [&[0, 1, 0, 3][..], b"hey\0"].concat();
    let enhanced = [words(false, &[0, 0, 3000, 4, 4]), vec![1; 4], comment].concat();
    let file = pcapng(false, &unended, &[(6, enhanced)]);
    let mut reader = CaptureReader::new(&file[..]).unwrap();
    let packet = reader.next().unwrap().unwrap();
    assert_eq!((packet.interface, packet.at_ns, packet.comment), (Some("e0"), 3000, Some("hey")));
}

#[test]
fn sections_of_both_byte_orders_follow_each_other() {
    let packet = |little| [words(little, &[0, 0, 5, 4, 4]), vec![1; 4]].concat();
    let file = [true, false, true].map(|little| pcapng(little, &[], &[(6, packet(little))])).concat();
    assert_eq!(read(&file).unwrap(), vec![(5000, 4, vec![1; 4]); 3]);
}

#[test]
fn errors_name_the_packet() {
    let error = |file: &[u8]| read(file).unwrap_err().to_string();
    let (file, _) = written();
    assert_eq!(error(b"GIF89a"), "neither pcap nor pcapng: it starts with [47, 49, 46, 38]");
    assert_eq!(error(b""), "the file is empty");
    assert_eq!(error(&file[..10]), "the file ends inside packet 0");
    assert_eq!(error(&file[..file.len() - 1]), "the file ends inside packet 300");
    let mut wireless = file.clone();
    wireless[20] = 105;
    assert_eq!(error(&wireless), "link type IEEE802_11, which is not read");
    let mut checked = file.clone();
    checked[23] = 0x74;
    assert_eq!(read(&checked).unwrap().len(), 300, "what is said of frame check sequences is no link type");
    let mut other = file.clone();
    other[..4].copy_from_slice(&[0x34, 0xcd, 0xb2, 0xa1]);
    let form = "a pcap in Kuznetsov's modified form, which is not read; `editcap -F pcap` makes a pcap of it";
    assert_eq!(error(&other), form);
    let mut old = file.clone();
    old[6] = 2;
    assert_eq!(error(&old), "version 2.2 of its format, which is not read");
    let mut next = pcapng(true, &[], &[]);
    next[12] = 2;
    assert_eq!(error(&next), "version 2.0 of its format, which is not read");
    assert_eq!(error(&[pcapng(true, &[], &[]), next].concat()), "version 2.0 of its format, which is not read");
    let mut late = file.clone();
    late[28..32].copy_from_slice(&NANOS.to_le_bytes()[..4]);
    assert_eq!(error(&late), "packet 1: 1000000000 nanoseconds are more than a second");
    let mut huge = file.clone();
    huge[32..36].fill(0xff);
    assert_eq!(error(&huge), "the file ends inside packet 1");
    let lost = pcapng(true, &[], &[(6, words(true, &[3, 0, 0, 0, 0]))]);
    assert_eq!(error(&lost), "packet 1: its interface is not described");
    let long = pcapng(true, &[], &[(6, words(true, &[0, 0, 0, 0, u32::MAX]))]);
    assert_eq!(error(&long), "packet 1: its length is more than that of any frame");
    let cut = pcapng(true, &[], &[(6, words(true, &[0, 0, 0, 0, 0]))]);
    assert_eq!(error(&cut[..cut.len() - 1]), "the file ends inside packet 1");
    let mut framed = cut.clone();
    *framed.last_mut().unwrap() = 1;
    assert_eq!(error(&framed), "packet 1: the two lengths of its block differ");
    let short = pcapng(true, &[], &[(6, words(true, &[0, 0, 0, 40, 40]))]);
    assert_eq!(error(&short), "packet 1: its block is shorter than it says");
}

fn link() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![1, 0, 9, 12, 50, 51, 101, 104, 108, 113, 228, 229])
}

/// A link type's number, a record, and of the packet in it the EtherType, the place, the sender.
type Linked = (u32, Vec<u8>, u16, usize, [u8; 6]);

/// A packet of every link type: where it begins and which EtherType it gets. The Ethernet header
/// stands in place of what is before it, also in its length.
#[test]
fn link_headers_become_ethernet() {
    let sll = |protocol: u16| {
        [&[0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 9, 9][..], &protocol.to_be_bytes(), &[0x45; 30]].concat()
    };
    let sll2 = |len| [&[8, 6, 0, 0, 0, 0, 0, 1, 0, 1, 0, len, 1, 2, 3, 4, 5, 6, 9, 9][..], &[7; 30]].concat();
    let with = |head: &[u8]| [head, &[0x45; 30]].concat();
    let none = [0; 6];
    let cases: [Linked; 21] = [
        (113, sll(0x86dd), 0x86dd, 16, [1, 2, 3, 4, 5, 6]),
        (113, sll(4), 35, 16, [1, 2, 3, 4, 5, 6]),
        (113, sll(1), 35, 16, [1, 2, 3, 4, 5, 6]),
        (113, sll(12), 0xffff, 16, [1, 2, 3, 4, 5, 6]),
        (276, sll2(6), 0x0806, 20, [1, 2, 3, 4, 5, 6]),
        (276, sll2(8), 0x0806, 20, none),
        (101, with(&[0x60]), 0x86dd, 0, none),
        (14, with(&[0x4f]), 0x0800, 0, none),
        (101, with(&[0x50]), 0xffff, 0, none),
        (229, with(&[0x45]), 0x86dd, 0, none),
        (0, with(&[0, 0, 0, 10]), 0x86dd, 4, none),
        (0, with(&[23, 0, 0, 0]), 0x86dd, 4, none),
        (0, with(&[7, 0, 0, 0]), 0xffff, 4, none),
        (108, with(&[0, 0, 0, 24]), 0x86dd, 4, none),
        (9, with(&[0xff, 3, 0x57]), 0x86dd, 3, none),
        (9, with(&[0xc0, 0x21]), 0x880b, 0, none),
        (50, with(&[0xff, 3, 0x80, 0x21]), 0x880b, 2, none),
        (50, with(&[0x8f, 0, 0x20, 0]), 0x2000, 4, none),
        (104, with(&[0xff, 3, 8, 0]), 0x0800, 4, none),
        (51, with(&[0x11, 0, 0, 1, 0, 32, 0, 0x21]), 0x8864, 0, none),
        (51, with(&[0x11, 0xa7, 0, 1, 0, 0]), 0x8863, 0, none),
    ];
    for (number, record, ethertype, at, src) in cases {
        let link = LinkType::new(DataLink::from(number)).unwrap();
        let captured = Captured {
            at_ns: 7,
            link,
            wire_len: record.len() as u32 + 5,
            bytes: &record,
            interface_id: 0,
            interface: Some("any"),
            flags: 2,
            comment: None,
        };
        let mut frame = vec![9; 99];
        let expected = [&[0; 6][..], &src, &ethertype.to_be_bytes(), &record[at..]].concat();
        let wire_len = expected.len() as u32 + 5;
        assert_eq!(link.to_ethernet(captured, &mut frame), Captured { bytes: &expected, wire_len, ..captured });
        // Cut within the link header it is a runt, of the length that it had.
        let least = if matches!(number, 101 | 14) {
            1
        } else if number == 51 {
            6
        } else {
            at
        };
        for cut in 0..least {
            let captured = Captured { bytes: &record[..cut], ..captured };
            let runt = link.to_ethernet(captured, &mut frame);
            assert_eq!((runt.bytes, runt.wire_len), (&[][..], captured.wire_len), "{} at {cut}", link.name());
        }
    }
    assert_eq!(LinkType::new(DataLink::IEEE802_11), None);
}

/// A bomb of interfaces is refused, and a name of any length is not kept.
#[test]
fn interfaces_are_bounded() {
    let name = [&[0, 2, 0x80, 0][..], &[b'x'; 0x8000]].concat();
    let file = pcapng(false, &name, &[(6, words(false, &[0, 0, 0, 0, 0]))]);
    assert_eq!(CaptureReader::new(&file[..]).unwrap().next().unwrap().unwrap().interface, None);
    let interface = (1, words(false, &[1 << 16, 0]));
    let file = pcapng(false, &[], &vec![interface; 1 << 16]);
    assert_eq!(read(&file).unwrap_err().to_string(), "packet 1: more than 65536 interfaces");
}

proptest! {
    /// Whatever is in a file, reading it ends, and without a panic.
    #[test]
    fn hostile_files_end(ng: bool, link in link(), at in prop::collection::vec((0usize..2000, any::<u8>()), 0..12), cut in 0usize..4000) {
        let mut file = if ng {
            let blocks: Vec<_> = (0..20).map(|i| (6, [words(true, &[0, 0, i, 60, 60]), vec![1; 60]].concat())).collect();
            pcapng(true, &[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0], &blocks)
        } else {
            written().0
        };
        // The link type of the file, or of the only interface of its section.
        file[if ng { 36 } else { 20 }] = link;
        for (place, value) in at {
            let place = place % file.len();
            file[place] = value;
        }
        file.truncate(cut);
        let _ = read(&file);
    }
}

proptest! {
    /// What is streamed is read back: interfaces by name, directions, comments, times and losses.
    #[test]
    fn a_stream_goes_round(
        packets in proptest::collection::vec((0..2u32, any::<u64>(), proptest::collection::vec(any::<u8>(), 0..100), 0..3u32, "[a-z: ]{0,9}"), 0..20),
        missed in [0..u64::MAX / 2, 0..u64::MAX / 2],
    ) {
        let mut stream = PcapNgStream::new("a comment");
        for name in ["a", "port-two"] {
            stream.interface(name, "memory", 100);
        }
        let mut file = stream.take();
        for (interface, at_ns, bytes, flags, comment) in &packets {
            let comment = Some(comment.as_str()).filter(|comment| !comment.is_empty());
            stream.packet(*interface, *at_ns, bytes.len() as u32 + 7, bytes, *flags, comment);
            file.extend(stream.take());
        }
        for (interface, missed) in (0..).zip(missed) {
            stream.statistics(interface, 9, 1);
            stream.statistics(interface, 10, missed);
        }
        file.extend(stream.take());
        prop_assert!(stream.is_empty());
        let mut reader = CaptureReader::new(&file[..]).unwrap();
        for (interface, at_ns, bytes, flags, comment) in &packets {
            let packet = reader.next().unwrap().unwrap();
            let name = ["a", "port-two"][*interface as usize];
            prop_assert_eq!((packet.interface, packet.at_ns, packet.flags), (Some(name), *at_ns, *flags));
            prop_assert_eq!((packet.bytes, packet.wire_len as usize), (&bytes[..], bytes.len() + 7));
            prop_assert_eq!(packet.comment.unwrap_or_default(), comment);
        }
        prop_assert!(reader.next().is_none());
        prop_assert_eq!(reader.missed(), missed[0] + missed[1]);
    }
}
