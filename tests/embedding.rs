//! weir as a part of other programs: the examples that show it, and the page that tells of it.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use weir::assemble::{Assembly, assemble};
use weir::config::ForwardMode;
use weir::pisa::hash::HashFamily;
use weir::pisa::{BatchOrder, Disposition, Phv};
use weir::program::{Needs, ProgramConfig};
use weir::sim::{Setup, Shape, Simulation};
use weir::switch::{BURST, Burst, TxBursts};
use weir::telemetry::{Closed, Sink};
use weir::trace::{Trace, Workload};
use weir::wire::{Frame, Headers, HeapFrame, parse};

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
    let found: Vec<_> = found.iter().map(|found| (found.count(), found.name.flow().unwrap())).collect();
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
    assert!(empty.found().flows.is_empty(), "ingress stages have no registers");
    replica.exchange_egress(bank.as_mut());
    let counted = bank.record().into::<egress::Sketch>().unwrap();
    assert_eq!(counted.found().flows.iter().map(|flow| flow.count.number).collect::<Vec<_>>(), [3]);
}

/// A configuration with the program at egress, which counts every packet, in epochs of 50 ms.
fn counting_all() -> weir::config::Config {
    let mut config = weir::config::Config {
        programs: vec![ProgramConfig::new::<egress::Waiting>(egress::Config { depth: 0 })],
        ports: ["a", "b"].map(|name| weir::config::PortConfig::new(name, weir::port::Dev::Memory)).into(),
        ..weir::config::Config::default()
    };
    (config.switch.forward, config.switch.epoch) = (ForwardMode::Xconnect, "50ms".parse().unwrap());
    config
}

/// Packets of records by epoch, as a collector closes them.
#[derive(Clone, Default)]
struct Records(Arc<Mutex<Vec<(u64, u64, u64)>>>);

impl Sink for Records {
    fn closed(&mut self, Closed { first, last, late, record, .. }: Closed<'_>) {
        let packets = record.get::<egress::Sketch>().unwrap().counters[..1 << 14].iter().sum();
        assert_eq!((first, late), (last, 0), "a record of one epoch, in time");
        self.0.lock().unwrap().push((first, last, packets));
    }
}

/// Equal epochs have equal counts in a program at egress that asks for nothing else, whatever the transit
/// time: driven as a live worker drives the switch, in bursts on its own clock.
#[test]
fn egress_stages_count_equal_epochs_alike() {
    const EPOCH: u64 = 50_000_000;
    for transit in ["0ms", "10ms", "25ms"] {
        let mut config = counting_all();
        config.switch.transit = transit.parse().unwrap();
        let Assembly { mut switches, mut collector, .. } = assemble(&config, Some(EPOCH), 1).unwrap();
        let (switch, records) = (&mut switches[0], Records::default());
        collector.subscribe(Box::new(records.clone()));
        let frame = HeapFrame::new(&frames::udp(1, 2, frames::host_mac(2), 80, 10));
        for step in 0..5 * 50 {
            let mut burst: Burst<_> = (0..BURST).map(|_| HeapFrame::new(frame.bytes())).collect();
            switch.process(0, &mut burst, 7 * EPOCH + step * EPOCH / 50, &mut TxBursts::new(2));
            collector.collect_ready();
        }
        switch.finish();
        collector.finish();
        let records = records.0.lock().unwrap();
        let expected: Vec<_> = (7..11).map(|epoch| (epoch, epoch, 50 * BURST as u64)).collect();
        assert_eq!(records[..4], expected, "transit {transit}");
    }
}

/// The same in a simulated network of three switches, beside the truth: what a packet needs for its way is
/// the only difference.
#[test]
fn simulated_egress_stages_count_their_epochs() {
    let workload: Workload = "keyvalue/uniform,flows=30,seed=7".parse().unwrap();
    let setup =
        Setup::new("line:3".parse::<Shape>().unwrap().build().unwrap(), counting_all().programs, workload.clone());
    let mut simulation = Simulation::new(&setup).unwrap();
    let mut reports: Vec<_> = (0..4).filter_map(|_| simulation.epoch(&workload, None)).collect();
    reports.extend(simulation.finish());
    assert_eq!(reports.len(), 4);
    for report in &reports {
        let report = serde_json::to_value(report).unwrap();
        let waiting = &report["programs"]["waiting"];
        let [recall, error] = ["recall", "average_relative_error"].map(|key| waiting["score"][key].as_f64().unwrap());
        // A flow that lost its cell of the table to another one is not reported, and counts 1.
        let of_reported = error - (1.0 - recall);
        assert!(recall > 0.9 && of_reported < 0.01 && waiting["gaps"] == serde_json::json!([]), "{waiting:#}");
    }
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
