//! `weir replay` held against counts that are taken here.

use std::collections::HashMap;
use std::net::IpAddr;

use serde_json::Value;
use weir::trace::{CaptureWriter, Trace};
use weir::wire::Flow;

use crate::{Files, keys};

const SMALL: &str = "isp/burst,flows=300,packets=20000,seed=3";

type Counts = HashMap<Flow, u64>;

/// The counts that a document reports, under the key `unit`.
fn reported(document: &Value, program: &str, unit: &str) -> Vec<(Flow, u64)> {
    let heavy = document["programs"][program]["heavy"].as_array().unwrap();
    let pair = |heavy: &Value| (serde_json::from_value(heavy["flow"].clone()).unwrap(), heavy[unit].as_u64().unwrap());
    heavy.iter().map(pair).collect()
}

fn truth(trace: &Trace) -> Counts {
    trace.truth().flows().iter().map(|flow| (flow.flow, flow.packets)).collect()
}

fn assert_heaviest(reported: &[(Flow, u64)], truth: &Counts, k: usize) {
    assert_eq!(reported.len(), k.min(truth.len()));
    assert!(reported.is_sorted_by(|a, b| a.1 >= b.1));
    for (flow, count) in reported {
        assert_eq!(truth.get(flow), Some(count), "{flow}");
    }
    let mut counts: Vec<_> = truth.values().copied().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(reported.iter().map(|(_, count)| *count).collect::<Vec<_>>(), counts[..reported.len()]);
}

#[test]
fn with_slots_to_spare_the_report_is_the_truth() {
    let files = Files::new();
    let trace = files.capture("t.pcap", SMALL);
    let document = files.weir("replay t.pcap --top 20 --json").json();
    assert_heaviest(&reported(&document, "hashpipe", "packets"), &truth(&trace), 20);
    assert_eq!(document["packets"], 20_000);
    assert_eq!(document["bytes"], trace.truth().bytes());
    let drops = &document["drops"];
    assert_eq!((&drops["rx_packets"], &drops["tx_packets"]), (&20_000.into(), &20_000.into()));
}

/// DESIGN.md §8 has this line and this shape.
#[test]
fn the_documented_example() {
    let files = Files::new();
    files.capture("t.pcap", "isp/burst,flows=4000,packets=100000");
    let words = "replay t.pcap --program hashpipe:stages=6,slots=750 --top 300 --json";
    let document = files.weir(words).json();
    assert_eq!(
        keys(&document),
        ["bytes", "captured_seconds", "cut_packets", "drops", "packets", "programs", "seconds"]
    );
    assert_eq!(keys(&document["programs"]), ["hashpipe"]);
    let program = &document["programs"]["hashpipe"];
    assert_eq!(keys(program), ["heavy", "unit"]);
    assert_eq!(program["heavy"].as_array().unwrap().len(), 300);
    let first = &program["heavy"][0];
    assert_eq!(keys(first), ["flow", "packets"]);
    assert_eq!(keys(&first["flow"]), ["dport", "dst", "proto", "sport", "src"]);

    let scored = files.weir(&format!("{words} --score")).json();
    let program = &scored["programs"]["hashpipe"];
    assert_eq!(keys(program), ["heavy", "score", "unit"]);
    assert_eq!(keys(&program["heavy"][0]), ["flow", "packets", "true_packets"]);
    let score = ["average_relative_error", "false_negatives", "false_positives", "flows", "k", "precision", "recall"];
    assert_eq!(keys(&program["score"]), score);
}

#[test]
fn scores_are_what_one_calculates_by_hand() {
    let files = Files::new();
    let truth = truth(&files.capture("t.pcap", "zipf1.0/uniform,flows=2000,packets=40000,seed=9"));
    let document = files.weir("replay t.pcap --program hashpipe:stages=2,slots=60 --top 50 --score --json").json();
    let report: Counts = reported(&document, "hashpipe", "packets").into_iter().collect();

    let mut heaviest: Vec<_> = truth.iter().map(|(flow, count)| (*count, *flow)).collect();
    heaviest.sort_unstable_by(|a, b| b.cmp(a));
    let threshold = heaviest[49].0;
    let above = heaviest.iter().filter(|(count, _)| *count > threshold).count();
    let tied_found = report.keys().filter(|flow| truth[*flow] == threshold).count();
    let found = report.keys().filter(|flow| truth[*flow] > threshold).count() + tied_found.min(50 - above);
    let score = &document["programs"]["hashpipe"]["score"];
    let close = |key: &str, value: f64| {
        assert!((score[key].as_f64().unwrap() - value).abs() < 1e-9, "{key}: {} instead of {value}", score[key]);
    };
    assert!(found < 50, "the tables are meant to be too small");
    assert_eq!((&score["k"], &score["flows"]), (&50.into(), &truth.len().into()));
    close("recall", found as f64 / 50.0);
    close("precision", found as f64 / report.len() as f64);
    close("false_negatives", (50 - found) as f64 / 50.0);
    close("false_positives", (report.len() - found) as f64 / (truth.len() - 50) as f64);

    let error = |flow: &Flow, count: u64| report.get(flow).map_or(1.0, |c| count.abs_diff(*c) as f64 / count as f64);
    let mut errors: f64 = heaviest[..above].iter().map(|(count, flow)| error(flow, *count)).sum();
    let mut tied: Vec<_> =
        heaviest.iter().filter(|(count, _)| *count == threshold).map(|(c, f)| error(f, *c)).collect();
    // Of the flows with the 50th count those that were reported are taken first; which of them, only matters to their error.
    tied.sort_by(f64::total_cmp);
    if tied_found <= 50 - above {
        errors += tied[..50 - above].iter().sum::<f64>();
        close("average_relative_error", errors / 50.0);
    }
}

#[test]
fn a_threshold_that_is_missed_ends_with_3() {
    let files = Files::new();
    files.capture("t.pcap", "zipf1.0/uniform,flows=2000,packets=40000");
    let tight = "replay t.pcap --program hashpipe:stages=2,slots=60 --top 50 --score";
    let missed = files.weir(&format!("{tight} --min-recall 0.99"));
    assert_eq!(missed.code, 3);
    assert!(missed.stderr.contains("is below --min-recall 0.99"), "{}", missed.stderr);
    assert!(missed.stdout.contains("recall"), "the report comes all the same");
    assert_eq!(files.weir(&format!("{tight} --min-recall 0.0")).code, 0);
    assert_eq!(files.weir("replay t.pcap --top 50 --score --min-recall 1").code, 0);
    assert!(files.weir(&format!("{tight} --min-recall 1.5")).refused(2).contains("a share from 0 to 1"));
    assert!(files.weir("replay t.pcap --min-recall 1").refused(2).contains("--score"));
}

/// One slot is enough for one packet an epoch, so with short epochs nothing is lost.
#[test]
fn epochs_are_cut_and_added_up() {
    let files = Files::new();
    let truth = truth(&files.capture("t.pcap", "isp/uniform,flows=100,packets=3000,rate=500"));
    let words = "replay t.pcap --program hashpipe:stages=1,slots=1,slots6=0 --top 100 --json";
    let whole = files.weir(words).json();
    assert_eq!(reported(&whole, "hashpipe", "packets").len(), 1);
    let cut = files.weir(&format!("{words} --epoch 1ms")).json();
    assert_heaviest(&reported(&cut, "hashpipe", "packets"), &truth, 100);
    assert!(files.weir("replay t.pcap --epoch 1ns").refused(2).contains("switch.epoch = 1ns: 1ms to 1h"));
    assert!(files.weir("replay t.pcap --epoch 50").refused(2).contains("write 50ms"));
}

#[test]
fn no_flow_is_left_out_of_a_long_report() {
    let files = Files::new();
    let truth = truth(&files.capture("t.pcap", "isp/burst,flows=3000,packets=60000"));
    let document = files.weir("replay t.pcap --program hashpipe:slots=65536 --top 5000 --json").json();
    assert_heaviest(&reported(&document, "hashpipe", "packets"), &truth, 5000);
}

#[test]
fn bytes_instead_of_packets() {
    let files = Files::new();
    let trace = files.capture("t.pcap", &format!("{SMALL},len=imix"));
    let document = files.weir("replay t.pcap --program hashpipe:count=bytes --top 50 --score --json").json();
    let truth = trace.truth().flows().iter().map(|flow| (flow.flow, flow.bytes)).collect();
    assert_heaviest(&reported(&document, "hashpipe", "bytes"), &truth, 50);
    let first = &document["programs"]["hashpipe"]["heavy"][0];
    assert_eq!(keys(first), ["bytes", "flow", "true_bytes"]);
    assert_eq!(first["bytes"], first["true_bytes"]);
}

#[test]
fn prefixes_of_sources() {
    let files = Files::new();
    let trace = files.capture("t.pcap", &format!("{SMALL},ipv6=0.4"));
    let mut truth = Counts::new();
    for flow in trace.truth().flows() {
        let src = match flow.flow.src.unwrap() {
            IpAddr::V4(ip) => IpAddr::V4((u32::from(ip) & 0xffff_ff00).into()),
            IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) & !0 << 64).into()),
        };
        let network = Flow { src: Some(src), dst: None, sport: None, dport: None, proto: None };
        *truth.entry(network).or_default() += flow.packets;
    }
    let document = files.weir("replay t.pcap --program hashpipe:key=src,prefix=24,prefix6=64 --top 30 --json").json();
    assert_heaviest(&reported(&document, "hashpipe", "packets"), &truth, 30);
    assert_eq!(keys(&document["programs"]["hashpipe"]["heavy"][0]["flow"]), ["src"]);
}

#[test]
fn ipv6_flows_are_measured_too() {
    let files = Files::new();
    let trace = files.capture("t.pcap", &format!("{SMALL},ipv6=1.0,len=imix"));
    let document = files.weir("replay t.pcap --top 40 --json").json();
    assert_heaviest(&reported(&document, "hashpipe", "packets"), &truth(&trace), 40);
    let text = files.weir("replay t.pcap --top 1").stdout;
    assert!(text.contains("]:"), "{text}");
    let without = files.weir("replay t.pcap --program hashpipe:slots6=0 --json").json();
    assert_eq!(without["programs"]["hashpipe"]["heavy"], serde_json::json!([]));
}

#[test]
fn several_files_are_one_measurement() {
    let files = Files::new();
    let mut sum = truth(&files.capture("a.pcap", SMALL));
    for (flow, packets) in truth(&files.capture("b.pcap", "isp/burst,flows=200,packets=9000,seed=4")) {
        *sum.entry(flow).or_default() += packets;
    }
    let document = files.weir("replay a.pcap b.pcap --top 40 --json").json();
    assert_heaviest(&reported(&document, "hashpipe", "packets"), &sum, 40);
    assert_eq!(document["packets"], 29_000);
}

#[test]
fn several_programs_stand_side_by_side() {
    let files = Files::new();
    files.capture("t.pcap", SMALL);
    let words = "replay t.pcap --program hashpipe:stages=2 --program hashpipe:key=dst,stages=2 \
                 --program hashpipe:count=bytes,stages=2 --json --score";
    let document = files.weir(words).json();
    assert_eq!(keys(&document["programs"]), ["hashpipe", "hashpipe_2", "hashpipe_3"]);
    assert_eq!(keys(&document["programs"]["hashpipe_2"]["heavy"][0]["flow"]), ["dst"]);
    assert_eq!(document["programs"]["hashpipe_3"]["unit"], "bytes");
}

#[test]
fn either_order_gives_the_same_tables() {
    let files = Files::new();
    files.capture("t.pcap", "zipf1.0/burst,flows=3000,packets=50000,ipv6=0.2");
    let report = |words: &str| {
        let words = format!("replay t.pcap --program hashpipe:slots=100 --top 500 --json {words}");
        reported(&files.weir(&words).json(), "hashpipe", "packets")
    };
    let packet = report("--order packet --reproducible 5");
    assert_eq!(packet, report("--order stage --reproducible 5"));
    assert_ne!(packet, report("--order packet --reproducible 6"));
    assert_ne!(report(""), report(""), "the polynomials are secret");
}

#[test]
fn what_no_program_measures_is_still_accounted_for() {
    let files = Files::new();
    let mut writer = CaptureWriter::new(Vec::new()).unwrap();
    let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 0x08, 0x06], &[0; 46]].concat();
    let shim = [&[2; 12][..], &[0x88, 0xb5], &[0; 46]].concat();
    for (at, frame) in [(0, &arp[..]), (10, &arp[..9]), (20, &shim[..]), (5_000_000_000, &arp[..])] {
        writer.write(at, frame).unwrap();
    }
    files.write("t.pcap", writer.finish().unwrap());
    let document = files.weir("replay t.pcap --json").json();
    let balance = serde_json::json!({"rx_packets": 4, "copied_packets": 0, "tx_packets": 2, "dropped_packets": 2});
    assert_eq!(document["drops"], balance);
    assert_eq!(document["captured_seconds"], 5.0);
    let text = files.weir("replay t.pcap").stdout;
    assert!(text.contains("2 packets were dropped"), "{text}");
}
