//! What the flow of a packet lacks that was cut, or whose protocol has no ports, is said with the
//! answers; scores say what they are held against.

use serde_json::{Value, json};

use crate::Files;

/// A record: what is kept of a frame, and its length on the wire.
type Record = (Vec<u8>, u32);

fn pcap(records: &[Record]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut file = words(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, 1]);
    for (at, (bytes, wire_len)) in (0..).zip(records) {
        file.extend(words(&[0, at, bytes.len() as u32, *wire_len]));
        file.extend(bytes);
    }
    file
}

/// A frame of 90 bytes: IPv4 with this fragment field, protocol and payload.
fn ipv4(fragment: u16, proto: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = fragment.to_be_bytes();
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 76, 0, 0, high, low, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(payload);
    frame.resize(90, 0);
    frame
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 36, next, 64];
    frame.extend([[0xfd; 15].as_slice(), &[1], &[0xfd; 15], &[2]].concat());
    frame.extend(payload);
    frame.resize(90, 0);
    frame
}

const PORTS: [u8; 8] = [0x30, 7, 0, 80, 0, 20, 0, 0];

fn cut(frame: &[u8], kept: usize) -> Record {
    (frame[..kept].to_vec(), frame.len() as u32)
}

fn whole(frame: Vec<u8>) -> Record {
    let len = frame.len() as u32;
    (frame, len)
}

fn reported(document: &Value) -> Vec<(u64, u64)> {
    let heavy = document["programs"]["hashpipe"]["heavy"].as_array().unwrap();
    let mut flows: Vec<_> = heavy
        .iter()
        .map(|heavy| (heavy["flow"]["dport"].as_u64().unwrap(), heavy["packets"].as_u64().unwrap()))
        .collect();
    flows.sort_unstable();
    flows
}

fn gaps(document: &Value) -> Vec<String> {
    let gaps = document["programs"]["hashpipe"]["claims"]["heavy"]["gaps"].as_array().unwrap();
    gaps.iter().map(|gap| gap["gap"].as_str().unwrap().to_owned()).collect()
}

const WORDS: &str = "--program hashpipe:slots=4096 --score --reproducible 1";

/// Behind the ports nothing is lacking; before them all is counted that can be, and said.
#[test]
fn what_a_cut_packet_lacks_is_said() {
    let files = Files::new();
    let udp = ipv4(0, 17, &PORTS);
    let behind: Vec<_> = (0..5).map(|_| cut(&udp, 38)).collect();
    files.write("behind", pcap(&behind));
    let document = files.weir(&format!("replay behind {WORDS} --json")).json();
    assert_eq!((&document["cut_packets"], reported(&document)), (&5.into(), vec![(80, 5)]));
    let nothing =
        json!({"no_ip_header_packets": 0, "no_ports_packets": 0, "later_fragment_packets": 0, "portless_packets": 0});
    assert_eq!((&document["lacking"], gaps(&document)), (&nothing, vec![]));

    // Within the ports; within the IP header; within an extension header of IPv6, and behind it.
    let hop_by_hop = ipv6(0, &[&[17, 0, 1, 4, 0, 0, 0, 0], &PORTS[..]].concat());
    let before = [cut(&udp, 37), cut(&udp, 34), cut(&udp, 33), cut(&hop_by_hop, 60), cut(&hop_by_hop, 64)];
    files.write("before", pcap(&[&behind[..], &before].concat()));
    let document = files.weir(&format!("replay before {WORDS} --json")).json();
    let lacking = &document["lacking"];
    assert_eq!((&lacking["no_ip_header_packets"], &lacking["no_ports_packets"]), (&1.into(), &4.into()));
    assert_eq!((&document["unmeasured_packets"], &document["cut_packets"]), (&1.into(), &10.into()));
    assert_eq!(
        gaps(&document),
        ["5 packets have no IP header or no ports that could be read, and may be of other flows"]
    );
    assert_eq!(document["programs"]["hashpipe"]["claims"]["heavy"]["complete"], false);
    assert_eq!(document["programs"]["hashpipe"]["score"]["truth"], "parsed");
    let text = files.weir(&format!("replay before {WORDS}")).stdout;
    for said in [
        "10 packets were cut short by the capture",
        "1 packets whose IP header is cut or wrong were not measured",
        "4 packets whose ports are cut off or out of reach count with the ports 0",
        "gap: 5 packets have no IP header or no ports",
        "the truth: exact counts of the packets as this parser reads them, 10 of them cut by the capture, 5 without the \
         headers that tell flows apart",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

/// Packets that have no ports by themselves are counted, and no gap.
#[test]
fn what_has_no_ports_is_said() {
    let files = Files::new();
    let later6 = ipv6(44, &[17, 0, 0, 8, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8]);
    let records = [
        ipv4(0x2000, 17, &PORTS),
        ipv4(0x2001, 17, &PORTS),
        ipv4(0x0002, 17, &PORTS),
        later6,
        // ESP in both versions, GRE, and a number that nobody has.
        ipv4(0, 50, &PORTS),
        ipv6(50, &PORTS),
        ipv4(0, 47, &PORTS),
        ipv4(0, 200, &PORTS),
        ipv4(0, 1, &[8, 0, 0, 0, 0, 1, 0, 1]),
        ipv6(58, &[128, 0, 0, 0, 0, 1, 0, 1]),
        // As many extension headers as are stepped over, and one more.
        ipv6(60, &[[[60, 0, 1, 4, 0, 0, 0, 0]; 8].concat().as_slice(), &[17, 0, 1, 4, 0, 0, 0, 0]].concat()),
    ];
    files.write("t", pcap(&records.clone().map(whole)));
    let document = files.weir(&format!("replay t {WORDS} --json")).json();
    let lacking =
        json!({"no_ip_header_packets": 0, "no_ports_packets": 1, "later_fragment_packets": 3, "portless_packets": 4});
    assert_eq!(document["lacking"], lacking);
    assert_eq!((&document["cut_packets"], &document["unmeasured_packets"]), (&0.into(), &0.into()));
    assert_eq!(gaps(&document).len(), 1, "of the long chain alone");
    files.write("t", pcap(&records[..10].iter().cloned().map(whole).collect::<Vec<_>>()));
    let document = files.weir(&format!("replay t {WORDS} --json")).json();
    assert_eq!(gaps(&document), Vec::<String>::new());
    let text = files.weir(&format!("replay t {WORDS}")).stdout;
    for said in [
        "3 fragments but the first have no ports, and count with the ports 0",
        "4 packets of protocols without ports, or unknown ones, count with the ports 0",
        "the truth: exact counts of the packets as this parser reads them\n",
    ] {
        assert!(format!("{text}\n").contains(said), "{said}: {text}");
    }
}

/// A simulation knows what hosts sent.
#[test]
fn a_simulations_truth_is_what_hosts_sent() {
    let files = Files::new();
    let words = "sim --topology line:2 --workload isp,flows=200,packets=2000 --epochs 1 --program hashpipe --json";
    let document = files.weir(words).json();
    assert_eq!(document["epochs"][0]["programs"]["hashpipe"]["score"]["truth"], "sent");
}
