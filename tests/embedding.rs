//! weir as a part of other programs: the examples that show it, and the page that tells of it.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::Command;

use weir::pisa::hash::HashFamily;
use weir::pisa::{BatchOrder, Disposition, Phv};
use weir::program::answers::FlowName;
use weir::program::{Needs, ProgramConfig};
use weir::trace::{Trace, Workload};
use weir::wire::{Headers, parse};

#[path = "../examples/egress.rs"]
#[allow(dead_code, reason = "its main function")]
mod egress;
#[path = "../examples/replayer.rs"]
#[allow(dead_code, reason = "its main function")]
mod replayer;

#[path = "common/frames.rs"]
#[allow(dead_code)]
mod frames;

/// The flows of a capture with their packets, of which none is dropped.
#[test]
fn a_capture_through_a_replayer() {
    let trace: Trace = "zipf1.2/uniform,flows=40,packets=3000".parse::<Workload>().unwrap().generate();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.pcap");
    trace.write_pcap(File::create(&file).unwrap()).unwrap();
    let (found, dropped) = replayer::heaviest(file.to_str().unwrap(), 3).unwrap();
    let mut truth: Vec<_> = trace.truth().flows().iter().map(|flow| (flow.packets, flow.flow)).collect();
    truth.sort_by_key(|(packets, _)| std::cmp::Reverse(*packets));
    let named = |flow: &FlowName| flow.flow().unwrap();
    let found: Vec<_> = found.iter().map(|found| (found.count.number, named(&found.flow))).collect();
    assert_eq!((found, dropped), (truth[..3].to_vec(), 0));
    assert!(replayer::heaviest("nowhere.pcap", 3).is_err());
}

/// A program at egress counts what it says of the packets that leave, in a bank of its own.
#[test]
fn egress_stages_count_packets_that_leave() {
    let config = egress::Config { depth: 5 };
    let mut replica = ProgramConfig::new::<egress::Waiting>(config).build("s", &HashFamily::reproducible(1)).unwrap();
    assert!(replica.needs().contains(Needs::QUEUE_DEPTH) && !replica.needs().contains(Needs::TRANSIT));
    replica.allocate();
    let frame = frames::udp(1, 2, frames::host_mac(2), 80, 10);
    let mut headers = Headers::default();
    parse(&frame, &mut headers).unwrap();
    let disposition = Disposition::ToHost;
    let packet = |queue_depth| Phv { headers, queue_depth, disposition, ..Phv::of_port(0) };
    let mut packets: Vec<_> = [0, 4, 5, 6, 900].map(packet).into();
    replica.ingress(&mut packets, BatchOrder::Fastest);
    replica.egress(&mut packets, BatchOrder::Fastest);
    let mut bank = replica.spare();
    replica.exchange(bank.as_mut());
    let empty = bank.record().into::<egress::Sketch>().unwrap();
    assert!(empty.heaviest(9).heavy.is_empty(), "ingress stages have no registers");
    replica.exchange_egress(bank.as_mut());
    let counted = bank.record().into::<egress::Sketch>().unwrap();
    assert_eq!(counted.heaviest(9).heavy.iter().map(|flow| flow.count.number).collect::<Vec<_>>(), [3]);
}

/// The crate of docs/program.md has what its program uses, and cargo takes it.
#[test]
fn the_pages_crate_has_what_its_program_uses() {
    let page = include_str!("../docs/program.md");
    let block = page.split("```toml\n").find(|block| block.starts_with("[package]")).unwrap();
    let manifest = block.split("```").next().unwrap();
    let here = env!("CARGO_MANIFEST_DIR");
    let program = std::fs::read_to_string(Path::new(here).join("examples/count_min.rs")).unwrap();
    let parsed: toml::Table = manifest.parse().unwrap();
    let listed: BTreeSet<&str> = parsed["dependencies"].as_table().unwrap().keys().map(String::as_str).collect();
    let words = program.split(|c: char| !(c.is_alphanumeric() || "_:".contains(c)));
    let roots = words.filter_map(|word| word.split_once("::")).map(|(root, _)| root);
    let crates = ["serde", "schemars", "weir", "toml", "anyhow", "clap"];
    let used: BTreeSet<&str> = roots.filter(|root| crates.contains(root)).collect();
    assert_eq!(used, listed);

    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("Cargo.toml", &manifest.replace("../weir", here));
    write("Cargo.lock", &std::fs::read_to_string(Path::new(here).join("Cargo.lock")).unwrap());
    std::fs::create_dir(dir.path().join("src")).unwrap();
    write("src/main.rs", &program);
    let mut cargo = Command::new(option_env!("CARGO").unwrap_or("cargo"));
    cargo.args(["tree", "--offline", "--depth", "1"]).current_dir(dir.path());
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("my-switch v0.1.0"));
}
