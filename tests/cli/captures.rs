//! Captures as people have them: link types other than Ethernet, compressed, through a pipe. The
//! answers are those of the same packets over Ethernet.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::Value;
use weir::trace::{Frames, Workload};

use crate::{Ended, Files, binary};

const ETHERNET: u32 = 1;

/// A link type: its number, and the record of a frame. `None` where it does not carry the frame.
type Link = (u32, Record);
type Record = fn(&[u8]) -> Option<Vec<u8>>;

const LINKS: [Link; 18] = [
    (113, sll),
    (276, sll2),
    (101, |frame| ip(frame, [&[], &[]])),
    (12, |frame| ip(frame, [&[], &[]])),
    (14, |frame| ip(frame, [&[], &[]])),
    (228, |frame| ip(frame, [&[], &[]]).filter(|packet| packet[0] >> 4 == 4)),
    (229, |frame| ip(frame, [&[], &[]]).filter(|packet| packet[0] >> 4 == 6)),
    // Linux, FreeBSD big-endian, NetBSD; macOS in network order.
    (0, |frame| ip(frame, [&[2, 0, 0, 0], &[10, 0, 0, 0]])),
    (0, |frame| ip(frame, [&[0, 0, 0, 2], &[0, 0, 0, 28]])),
    (0, |frame| ip(frame, [&[2, 0, 0, 0], &[24, 0, 0, 0]])),
    (108, |frame| ip(frame, [&[0, 0, 0, 2], &[0, 0, 0, 30]])),
    // Windows.
    (108, |frame| ip(frame, [&[0, 0, 0, 2], &[0, 0, 0, 23]])),
    (9, |frame| ip(frame, [&[0xff, 3, 0, 0x21], &[0xff, 3, 0, 0x57]])),
    (9, |frame| ip(frame, [&[0, 0x21], &[0, 0x57]])),
    (9, |frame| ip(frame, [&[0x21], &[0xff, 3, 0x57]])),
    (50, |frame| ip(frame, [&[0xff, 3, 0, 0x21], &[0xff, 3, 0, 0x57]])),
    (50, |frame| ip(frame, [&[0x0f, 0, 8, 0], &[0x8f, 0, 0x86, 0xdd]])),
    (104, |frame| ip(frame, [&[0x0f, 0, 8, 0], &[0x8f, 0, 0x86, 0xdd]])),
];

/// The protocol of Linux cooked capture: 4 for a frame with an 802.3 length.
fn protocol(frame: &[u8]) -> [u8; 2] {
    if frame[12] < 6 { [0, 4] } else { [frame[12], frame[13]] }
}

fn sll(frame: &[u8]) -> Option<Vec<u8>> {
    Some([&[0, 0, 0, 1, 0, 6], &frame[6..12], &[0, 0], &protocol(frame), &frame[14..]].concat())
}

fn sll2(frame: &[u8]) -> Option<Vec<u8>> {
    Some([&protocol(frame)[..], &[0, 0, 0, 0, 0, 3, 0, 1, 0, 6], &frame[6..12], &[0, 0], &frame[14..]].concat())
}

/// An IP packet behind the header for its version.
fn ip(frame: &[u8], headers: [&[u8]; 2]) -> Option<Vec<u8>> {
    match frame[12..14] {
        [0x08, 0x00] => Some([headers[0], &frame[14..]].concat()),
        [0x86, 0xdd] => Some([headers[1], &frame[14..]].concat()),
        _ => None,
    }
}

/// Frames of both IP versions; now and then one with a tag, ARP, an 802.3 frame, or one in a PPPoE
/// session.
fn frames() -> Vec<Vec<u8>> {
    let trace = "isp/burst,flows=60,packets=600,ipv6=0.3,len=imix".parse::<Workload>().unwrap().generate();
    let mut frames = Vec::new();
    let keep = |_, frame: &[u8]| {
        let between = match frames.len() % 40 {
            3 => Some([&[0x81, 0, 0, 7][..], &frame[12..]].concat()),
            7 => Some([&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1][..], &[0; 20]].concat()),
            11 => Some([&[0, 40, 0x42, 0x42, 3][..], &[0; 37]].concat()),
            15 if frame[12..14] == [8, 0] => Some([&[0x88, 0x64, 0x11, 0, 0, 1, 0, 0, 0, 0x21], &frame[14..]].concat()),
            _ => None,
        };
        frames.extend(between.map(|rest| [&frame[..12], &rest].concat()));
        frames.push(frame.to_vec());
        Ok::<(), ()>(())
    };
    trace.for_each_frame(&Frames::default(), keep).unwrap();
    frames
}

/// How numbers stand in a file, and what its fractions of a second are.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub little: bool,
    pub nanos: bool,
}

pub const FORMS: [Form; 4] = [
    LITTLE,
    Form { little: false, nanos: true },
    Form { little: true, nanos: false },
    Form { little: false, nanos: false },
];
pub const LITTLE: Form = Form { little: true, nanos: true };

impl Form {
    pub fn words(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| if self.little { word.to_le_bytes() } else { word.to_be_bytes() }).collect()
    }

    pub fn shorts(self, shorts: &[u16]) -> Vec<u8> {
        shorts.iter().flat_map(|short| if self.little { short.to_le_bytes() } else { short.to_be_bytes() }).collect()
    }

    /// A packet a millisecond.
    pub fn pcap(self, link: u32, records: &[Vec<u8>]) -> Vec<u8> {
        let magic = if self.nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let version = if self.little { 0x0004_0002 } else { 0x0002_0004 };
        let mut file = self.words(&[magic, version, 0, 0, 262_144, link]);
        for (i, record) in (0..).zip(records) {
            let fraction = i % 1000 * if self.nanos { 1_000_000 } else { 1000 };
            file.extend(self.words(&[i / 1000, fraction, record.len() as u32, record.len() as u32]));
            file.extend(record);
        }
        file
    }

    pub fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let length = padded as u32 + 12;
        let padding = vec![0; padded - body.len()];
        [&self.words(&[kind, length]), body, &padding, &self.words(&[length])].concat()
    }

    /// A section with an interface of each of these link types; each record names its own.
    fn pcapng(self, links: &[u32], records: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let section = [self.words(&[0x1a2b_3c4d]), self.shorts(&[1, 0]), vec![0xff; 8]].concat();
        let mut file = self.block(0x0a0d_0d0a, &section);
        for link in links {
            // The resolution of the clock: 10⁻⁹ or 10⁻⁶ seconds.
            let clock = [self.shorts(&[9, 1]), vec![if self.nanos { 9 } else { 6 }, 0, 0, 0], vec![0; 4]].concat();
            file.extend(self.block(1, &[self.shorts(&[*link as u16, 0]), self.words(&[0]), clock].concat()));
        }
        for (i, (interface, record)) in (0..).zip(records) {
            let ticks = i * if self.nanos { 1_000_000 } else { 1000 };
            let head = self.words(&[*interface, 0, ticks, record.len() as u32, record.len() as u32]);
            file.extend(self.block(6, &[head, record.clone()].concat()));
        }
        file
    }
}

/// The answers about a file: flows by packets and by bytes, and all counts but the times.
fn answers(files: &Files, name: &str) -> Value {
    let words = format!(
        "replay {name} --program hashpipe --program hashpipe:count=bytes --top 500 --score --reproducible 1 --json"
    );
    without_times(files.weir(&words))
}

fn without_times(ended: Ended) -> Value {
    let mut document = ended.json();
    let document_keys = document.as_object_mut().unwrap();
    document_keys.remove("seconds").unwrap();
    document_keys.remove("reframed_packets").unwrap();
    document
}

/// A capture of each link type gives the flows of the Ethernet form, packet for packet and byte for
/// byte.
#[test]
fn every_link_type_has_the_flows_of_ethernet() {
    let (files, frames) = (Files::new(), frames());
    for (number, (link, record)) in LINKS.iter().enumerate() {
        let form = FORMS[number % FORMS.len()];
        let carried: Vec<_> = frames.iter().filter(|frame| record(frame).is_some()).cloned().collect();
        let records: Vec<_> = frames.iter().filter_map(|frame| record(frame)).collect();
        assert!(records.len() > 100, "link type {link}: {} packets", records.len());
        files.write("ethernet", form.pcap(ETHERNET, &carried)).write("other", form.pcap(*link, &records));
        let ethernet = answers(&files, "ethernet");
        assert!(ethernet["programs"]["hashpipe"]["heavy"].as_array().unwrap().len() > 10);
        assert_eq!(answers(&files, "other"), ethernet, "link type {link}, {form:?}");
        let document = files.weir("replay other --json").json();
        assert_eq!(document["reframed_packets"], records.len(), "link type {link}");
    }
}

/// Interfaces of every link type in one pcapng, of both byte orders.
#[test]
fn interfaces_have_link_types_of_their_own() {
    let (files, frames) = (Files::new(), frames());
    let links: Vec<_> = std::iter::once(ETHERNET).chain(LINKS.iter().map(|(link, _)| *link)).collect();
    let mut turn = 0;
    let mut record = |frame: &Vec<u8>| {
        turn += 1;
        let interface = turn % links.len();
        let other = interface.checked_sub(1).and_then(|i| LINKS[i].1(frame));
        other.map_or((0, frame.clone()), |record| (interface as u32, record))
    };
    let records: Vec<_> = frames.iter().map(&mut record).collect();
    let reframed = records.iter().filter(|(interface, _)| *interface > 0).count();
    assert!(reframed > frames.len() / 2);
    for form in FORMS {
        files.write("ethernet", form.pcap(ETHERNET, &frames)).write("others", form.pcapng(&links, &records));
        assert_eq!(answers(&files, "others"), answers(&files, "ethernet"), "{form:?}");
    }
    assert_eq!(files.weir("replay others --json").json()["reframed_packets"], reframed);
}

/// Said once on stderr, and counted in JSON.
#[test]
fn a_header_that_was_added_is_said_once() {
    let (files, frames) = (Files::new(), frames());
    let records: Vec<_> = frames.iter().filter_map(|frame| sll(frame)).collect();
    files.write("any.pcap", LITTLE.pcap(113, &records)).write("ethernet.pcap", LITTLE.pcap(ETHERNET, &frames));
    let said = "any.pcap: link type LINUX_SLL: its packets get an Ethernet header, whose 14 bytes count in place of \
                their own link header's\n";
    let ended = files.weir("replay ethernet.pcap any.pcap any.pcap --json");
    assert_eq!(ended.stderr, said);
    assert_eq!(ended.json()["reframed_packets"], 2 * records.len());
    let plain = files.weir("replay ethernet.pcap --json");
    assert_eq!((plain.stderr.as_str(), &plain.json()["reframed_packets"]), ("", &0.into()));
    let trace = files.weir("trace -r any.pcap --packet 2");
    assert_eq!((trace.code, trace.stderr.as_str()), (0, said), "{}", trace.stdout);
    assert!(trace.stdout.contains("02:00:00:00:00:01 → 00:00:00:00:00:00"), "{}", trace.stdout);
}

/// The flows of packets in PPPoE sessions are those without, as behind a tag.
#[test]
fn sessions_are_measured() {
    let (files, frames) = (Files::new(), frames());
    let plain: Vec<_> = frames.iter().filter(|frame| ip(frame, [&[], &[]]).is_some()).cloned().collect();
    let session = |frame: &[u8]| ip(frame, [&[0x11, 0, 0, 9, 0, 0, 0, 0x21], &[0x11, 0, 0, 9, 0, 0, 0, 0x57]]).unwrap();
    let bare: Vec<_> = plain.iter().map(|frame| session(frame)).collect();
    let sessions: Vec<_> =
        plain.iter().zip(&bare).map(|(frame, bare)| [&frame[..12], &[0x88, 0x64], bare].concat()).collect();
    files.write("plain", LITTLE.pcap(ETHERNET, &plain)).write("sessions", LITTLE.pcap(ETHERNET, &sessions));
    files.write("bare", LITTLE.pcap(51, &bare));
    let flows = |name| answers(&files, name)["programs"]["hashpipe"].clone();
    assert!(flows("plain")["heavy"].as_array().unwrap().len() > 10);
    assert_eq!(flows("sessions"), flows("plain"));
    assert_eq!(answers(&files, "bare"), answers(&files, "sessions"));
    assert_eq!(answers(&files, "sessions")["unmeasured_packets"], 0);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// A zstd frame that readers skip.
const SKIPPED: [u8; 12] = [0x5a, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];

#[test]
fn compressed_captures_are_recognised_by_their_bytes() {
    let (files, frames) = (Files::new(), frames());
    let (pcap, records) = (LITTLE.pcap(ETHERNET, &frames), frames.iter().map(|f| (0, f.clone())).collect::<Vec<_>>());
    let pcapng = LITTLE.pcapng(&[ETHERNET], &records);
    files.write("plain", &pcap);
    let expected = answers(&files, "plain");
    let (head, tail) = pcap.split_at(30_000);
    for (name, file) in [
        ("t.pcap", gzip(&pcap)),
        ("t", zstd(&pcap)),
        ("t.gz", zstd(&pcapng)),
        ("t.zst", gzip(&pcapng)),
        // Several parts are one file, as for gzip and zstd.
        ("parts.gz", [gzip(head), gzip(tail)].concat()),
        ("parts.zst", [&SKIPPED[..], &zstd(head), &SKIPPED, &zstd(tail), &SKIPPED].concat()),
    ] {
        files.write(name, &file);
        assert_eq!(answers(&files, name), expected, "{name}");
    }
}

/// A capture that is cut or damaged within its compression says so, by its name, and what came
/// before is reported.
#[test]
fn compressed_captures_that_end_early_say_so() {
    let (files, frames) = (Files::new(), frames());
    let pcap = LITTLE.pcap(ETHERNET, &frames);
    let refused = |name: &str, bytes: &[u8], reason: &str| {
        files.write(name, bytes);
        let ended = files.weir(&format!("replay {name} --json"));
        assert_eq!(ended.code, 1);
        assert!(ended.stderr.contains(&format!("{name}: {reason}")), "{}", ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        serde_json::from_str::<Value>(&ended.stdout).map_or(0, |document| document["packets"].as_u64().unwrap())
    };
    // What is in a zstd frame's window is read when the frame has ended.
    let (head, tail) = pcap.split_at(pcap.len() / 2);
    let (first, second) = (zstd(head), zstd(tail));
    for (name, whole, middle, reason) in [
        ("gz", gzip(&pcap), 10_000, "its gzip data ends too early"),
        ("zst", [&first[..], &second].concat(), first.len() + 40, "its zstd data ends too early"),
    ] {
        for cut in [middle, whole.len() - 1] {
            let read = refused(name, &whole[..cut], reason);
            let all = frames.len() as u64;
            assert!(read > 0 && (read < all || name == "gz"), "{name} at {cut}: {read} packets");
        }
        assert_eq!(refused(name, &whole[..5], reason), 0);
        let mut damaged = whole.clone();
        damaged[whole.len() / 4..][..8].fill(0x55);
        refused(name, &damaged, "");
        // Within the checksum.
        let mut damaged = whole.clone();
        damaged[whole.len() - if name == "gz" { 6 } else { 1 }] ^= 1;
        refused(name, &damaged, &reason.replace("ends too early", "cannot be read: "));
    }
    refused("parts.zst", &[&zstd(&pcap), &SKIPPED[..9]].concat(), "its zstd data ends too early");
    // 2 GiB of history.
    refused("wide.zst", &[0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 1, 0, 0], "its zstd data cannot be read: ");
    refused("twice.gz", &gzip(&gzip(&pcap)), "neither pcap nor pcapng");
    refused("empty.gz", &gzip(&[]), "the file is empty");
}

/// A few bytes that become many do not take memory: a section cannot describe any number of
/// interfaces, and a record has its limit.
#[cfg(target_os = "linux")]
#[test]
fn a_decompression_bomb_takes_no_memory() {
    let files = Files::new();
    let start = LITTLE.pcapng(&[], &[]);
    let interface = LITTLE.block(1, &LITTLE.words(&[1, 0]));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&start).unwrap();
    let many = interface.repeat(10_000);
    (0..1000).for_each(|_| encoder.write_all(&many).unwrap());
    files.write("interfaces.gz", encoder.finish().unwrap());
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&LITTLE.words(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 0, 1, 0, 0, u32::MAX, u32::MAX])).unwrap();
    let zeros = vec![0; 1 << 20];
    (0..300).for_each(|_| encoder.write_all(&zeros).unwrap());
    files.write("record.gz", encoder.finish().unwrap());
    for (name, reason) in
        [("interfaces.gz", "packet 1: more than 65536 interfaces"), ("record.gz", "the file ends inside packet 1")]
    {
        let mut shell = assert_cmd::Command::new("sh");
        // 200 MiB of addresses, which the 200 MB and 300 MiB of the files do not fit.
        let limited = "ulimit -v 204800; exec \"$0\" replay \"$1\"";
        let output = shell.current_dir(files.path("")).args(["-c", limited, env!("CARGO_BIN_EXE_weir"), name]).output();
        let ended = Ended::of(output.unwrap());
        assert!(ended.refused(1).contains(&format!("{name}: {reason}")), "{}", ended.stderr);
    }
}

/// `-` is standard input: scored like a file, compressed or not, and beside files.
#[test]
fn standard_input_is_a_capture() {
    let (files, frames) = (Files::new(), frames());
    let pcap = LITTLE.pcap(ETHERNET, &frames);
    files.write("t.pcap", &pcap);
    let piped = |words: &str, bytes: &[u8]| {
        let mut command = binary();
        command.current_dir(files.path("")).args(words.split_whitespace()).write_stdin(bytes);
        Ended::of(command.output().unwrap())
    };
    let words = "replay - --program hashpipe --program hashpipe:count=bytes --top 500 --score --reproducible 1 --json";
    let expected = answers(&files, "t.pcap");
    for bytes in [pcap.clone(), gzip(&pcap), zstd(&pcap)] {
        assert_eq!(without_times(piped(words, &bytes)), expected);
    }
    let sll: Vec<_> = frames.iter().filter_map(|frame| sll(frame)).collect();
    let ended = piped(words, &LITTLE.pcap(113, &sll));
    assert!(ended.stderr.starts_with("standard input: link type LINUX_SLL: "), "{}", ended.stderr);
    assert_eq!(without_times(ended), expected);
    let both = piped("replay t.pcap - --json", &pcap).json();
    assert_eq!(both["packets"], 2 * frames.len());
    assert!(piped("replay - -", &pcap).refused(2).contains("'-' stands for stdin, which can be read once"));
    let cut = piped("replay - --json", &pcap[..pcap.len() - 1]);
    assert_eq!(cut.code, 1);
    let reason = format!("standard input: the file ends inside packet {}", frames.len());
    assert!(cut.stderr.contains(&reason), "{}", cut.stderr);
    assert!(piped("replay -", b"").refused(1).contains("standard input: the file is empty"));
    assert!(piped("trace -r - --packet 3", &pcap).stdout.starts_with("Packet 3 of standard input"));
}

/// A packet whose link header is cut short is a runt; one whose protocol has no EtherType is
/// forwarded and not measured. Neither ends the reading.
#[test]
fn packets_without_a_whole_link_header_are_dropped_and_counted() {
    let (files, frame) = (Files::new(), frames().swap_remove(0));
    let pppoe = |frame: &[u8]| Some([&[0x11, 0, 0, 9, 0, 0, 0, 0x21], &frame[14..]].concat());
    // A link type, the bytes that a short record has, and a packet of a protocol without EtherType.
    let cases: [(u32, Record, usize, &[u8]); 6] = [
        (113, LINKS[0].1, 15, &[0; 18]),
        (276, LINKS[1].1, 19, &[0; 22]),
        (101, LINKS[2].1, 0, &[0x10; 40]),
        (0, LINKS[7].1, 3, &[99; 40]),
        (9, LINKS[12].1, 3, &[0xff, 3, 0xc0, 0x21, 1, 1, 0, 4]),
        (51, pppoe, 5, &[0x11, 9, 0, 0, 0, 0]),
    ];
    for (link, record, short, foreign) in cases {
        let whole = record(&frame).unwrap();
        let records = [whole.clone(), whole[..short].to_vec(), foreign.to_vec(), whole];
        files.write("t", LITTLE.pcap(link, &records));
        let document = files.weir("replay t --json").json();
        assert_eq!(document["programs"]["hashpipe"]["heavy"][0]["packets"], 2, "link type {link}");
        let counts = ["packets", "reframed_packets", "unmeasured_packets"].map(|key| document[key].as_u64().unwrap());
        assert_eq!(counts, [4, 4, 1], "link type {link}");
        assert_eq!((&document["drops"]["tx_packets"], &document["drops"]["dropped_packets"]), (&3.into(), &1.into()));
    }
}

/// The same packets in each form, kept as files: also what the commands `gzip` and `zstd` made.
#[test]
fn the_corpus_has_the_same_flows() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/capture");
    let files = Files::new();
    let read = |name: &Path| {
        std::fs::copy(name, files.path("seed")).unwrap();
        let mut document = answers(&files, "seed");
        // The files have clocks of different resolutions.
        for program in ["hashpipe", "hashpipe_2"] {
            document["programs"][program].as_object_mut().unwrap().remove("claims").unwrap();
        }
        (document["bytes"].clone(), document["programs"].clone())
    };
    let expected = read(&seeds.join("link_ethernet"));
    assert_eq!(expected.1["hashpipe"]["heavy"].as_array().unwrap().len(), 3);
    let mut count = 0;
    for seed in std::fs::read_dir(&seeds).unwrap() {
        let path = seed.unwrap().path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("link_")) {
            assert_eq!(read(&path), expected, "{}", path.display());
            count += 1;
        }
    }
    assert!(count > 10, "{count} files");
}
