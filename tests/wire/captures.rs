//! Packets from real networks.

use pcap_file::pcap::PcapReader;

use crate::parser::{check, check_etherparse, parsed};

/// Packets of snabbco/snabb's sanitised operator traffic (see README.md beside the file).
const SNABB: &[u8] = include_bytes!("../golden/snabb.pcap");

#[test]
fn operator_traffic() {
    let (mut tagged, mut protos) = (0, Vec::new());
    for packet in packets(SNABB) {
        check(&packet).unwrap();
        check_etherparse(&packet).unwrap();
        let headers = parsed(&packet).unwrap();
        tagged += usize::from(headers.tagged);
        protos.push(headers.proto);
    }
    protos.sort_unstable();
    protos.dedup();
    assert_eq!((tagged, &protos[..]), (23, [1, 6, 17, 47, 50, 58].as_slice()));
}

/// Every capture of the directory that `WEIR_PCAPS` names.
#[test]
fn captures_at_hand() {
    let Ok(directory) = std::env::var("WEIR_PCAPS") else { return };
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "pcap") {
            continue;
        }
        for packet in packets(&std::fs::read(&path).unwrap()) {
            check(&packet).unwrap();
            check_etherparse(&packet).unwrap();
        }
    }
}

fn packets(pcap: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = PcapReader::new(pcap).unwrap();
    std::iter::from_fn(|| Some(reader.next_packet()?.unwrap().data.into_owned())).collect()
}
