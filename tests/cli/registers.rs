//! `weir replay --registers --records`: what its files hold, and the Python that reads them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Files, keys};

const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/python/registers.py");
const PACKETS: u64 = 9000;
/// A tower of which no counter gets full, and epochs of some hundred packets.
const REPLAY: &str = "replay t.pcap --program hashpipe:stages=3,slots=100 --program chamelemon:tower=16x512+16x100,hh=0 \
                      --program pint:queries=utilisation:bits=8 --epoch 50ms --json";

/// What the reader prints: by program, epoch and array the cells in use and their sum.
fn read(files: &Files) -> (BTreeMap<(String, String), u64>, Vec<String>) {
    let mut python = assert_cmd::Command::new("python3");
    let output = python.arg(READER).arg(files.path("registers")).arg(files.path("records")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (mut sums, mut records) = (BTreeMap::new(), Vec::new());
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            [program, _, "record", ..] => records.push(format!("{program}: {}", words[3..].join(" "))),
            [program, _, array, .., sum] if !array.is_empty() => {
                *sums.entry((program.into(), array.into())).or_default() += sum.parse::<u64>().unwrap();
            }
            _ => panic!("{line}"),
        }
    }
    (sums, records)
}

#[test]
fn python_reads_registers_and_records() {
    let files = Files::new();
    files.capture("t.pcap", &format!("isp/burst,flows=2000,packets={PACKETS},ipv6=0.2,rate=20000"));
    let document = files.weir(&format!("{REPLAY} --registers registers --records records")).json();
    let (sums, records) = read(&files);
    let epochs = records.len();
    assert!(epochs > 5, "{records:?}");
    for record in &records {
        assert!(record.starts_with("hashpipe: ") && record.ends_with("flows, as the registers"), "{record}");
    }
    // Each packet adds one to one counter of each array.
    for array in ["tower[0]", "tower[1]"] {
        assert_eq!(sums[&("chamelemon".into(), array.into())], PACKETS, "{array}");
    }
    // And a packet of a class is counted in each row where it enters, and where it leaves.
    let encoded = |side: &str, row: u32| sums[&("chamelemon".to_owned(), format!("{side}[{}]", 5 * row + 4))];
    let upstream = [0, 1, 2].map(|row| encoded("upstream", row));
    assert!(upstream[0] > 0 && upstream.iter().all(|packets| *packets == upstream[0]), "{upstream:?}");
    // HashPipe's first stage loses nothing of the packet in hand, and no count is above the truth.
    let counted: u64 = sums.iter().filter(|((program, _), _)| program == "hashpipe").map(|(_, sum)| sum).sum();
    assert!((PACKETS / 2..=PACKETS).contains(&counted), "{counted}");
    assert_eq!(document["packets"], PACKETS);

    // Every array has its file of whole cells in every epoch, and its place in the layout.
    let layout: Value = serde_json::from_slice(&std::fs::read(files.path("registers/layout.json")).unwrap()).unwrap();
    let programs = &layout["programs"];
    assert_eq!(keys(programs), ["chamelemon", "hashpipe", "pint"]);
    for program in keys(programs) {
        let arrays = programs[program]["arrays"].as_array().unwrap();
        assert!(!arrays.is_empty());
        let banks = std::fs::read_dir(files.path("registers").join(program)).unwrap();
        let banks: Vec<_> = banks.map(|epoch| epoch.unwrap().path().join("core-0")).collect();
        assert_eq!(banks.len(), epochs, "{program}");
        for bank in banks {
            assert_eq!(std::fs::read_dir(&bank).unwrap().count(), arrays.len(), "{}", bank.display());
            for array in arrays {
                let fields = array["field_bits"].as_array().unwrap();
                let width: u64 = fields.iter().map(|bits| bits.as_u64().unwrap().div_ceil(8)).sum();
                let file = bank.join(array["file"].as_str().unwrap());
                assert_eq!(file.metadata().unwrap().len(), width * array["cells"].as_u64().unwrap());
            }
        }
    }
    let stage = |array: &Value| (array["side"].as_str().unwrap().to_owned(), array["stage"].as_u64().unwrap());
    let pint: Vec<_> = programs["pint"]["arrays"].as_array().unwrap().iter().map(stage).collect();
    assert_eq!(pint, [("egress".into(), 1), ("egress".into(), 6)]);
    let hashes = programs["hashpipe"]["hashes"].as_array().unwrap();
    assert_eq!(hashes[0]["polynomials"][0]["label"], "hashpipe/ipv4/stage");
    assert_eq!(hashes[0]["key"][2], serde_json::json!({ "field": "l4.sport", "bits": 16, "kept_bits": 16 }));
}

/// What is written changes nothing that is reported, and the secret is in none of it.
#[test]
fn files_change_no_answer() {
    let files = Files::new();
    files.capture("t.pcap", "isp/burst,flows=300,packets=2000");
    let replay = "replay t.pcap --program hashpipe:slots=50 --reproducible 3 --json";
    let mut with = files.weir(&format!("{replay} --registers a/registers --records a/records")).json();
    let mut without = files.weir(replay).json();
    for document in [&mut with, &mut without] {
        document.as_object_mut().unwrap().remove("seconds");
    }
    assert_eq!(with, without);
    files.weir(&format!("{replay} --registers b/registers --records b/records")).json();
    // Without --epoch the capture is one epoch, and with a seed the files are the same.
    for file in
        ["registers/layout.json", "registers/hashpipe/epoch-0/core-0/ipv4-5.bin", "records/hashpipe/epoch-0.record"]
    {
        let [a, b] = ["a", "b"].map(|run| std::fs::read(files.path(run).join(file)).unwrap());
        assert!(!a.is_empty() && a == b, "{file}");
    }
}

/// Two runs in one directory could not be told apart, and what cannot be written is no success.
#[test]
fn directories_are_new() {
    let files = Files::new();
    files.write("file", "x").capture("t.pcap", "isp/burst,flows=3,packets=20");
    assert_eq!(files.weir("replay t.pcap --registers r").code, 0);
    let refused = files.weir("replay t.pcap --registers r");
    assert_eq!(refused.refused(2), "weir: r: the directory is not empty");
    assert!(files.weir("replay t.pcap --records file").refused(1).starts_with("weir: file: "));
}
