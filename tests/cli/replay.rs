//! `weir replay` held against counts that are taken here.

use std::collections::HashMap;
use std::net::IpAddr;

use serde_json::Value;
use weir::trace::{CaptureWriter, Trace};
use weir::wire::Flow;

use crate::{Files, frame, keys, vxlan};

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

/// A program whose answers are about a network says so.
#[test]
fn a_program_with_nothing_to_show_of_a_capture_says_so() {
    let files = Files::new();
    files.capture("t.pcap", SMALL);
    let text = files.weir("replay t.pcap --program hopcounters").stdout;
    assert!(text.contains("hopcounters: nothing to show of a capture by itself; weir sim and"), "{text}");
    assert!(!text.contains("heaviest"), "{text}");
}

/// Each program counts 20 flows of one tunnel as 20, with their packets, and as one where the outer headers name
/// them.
#[test]
fn flows_inside_a_tunnel_are_counted() {
    let files = Files::new();
    let mut capture = CaptureWriter::new(Vec::new()).unwrap();
    let mut truth = Counts::new();
    let packets = (1..=20u16).flat_map(|sport| (0..10 * sport).map(move |_| sport));
    for (sport, at_ns) in packets.zip(0..) {
        let frame = vxlan::packet([[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]], [[192, 0, 2, 1], [192, 0, 2, 2]], sport);
        capture.write(at_ns, &frame).unwrap();
        *truth.entry(vxlan::flow(sport)).or_default() += 1;
    }
    // ARP inside the tunnel has the tunnel's flow.
    let mut arp = vxlan::packet([[2; 6], [2; 6]], [[192, 0, 2, 1], [192, 0, 2, 2]], 1);
    arp[14 + 20 + 8 + 8 + 13] = 6;
    capture.write(3000, &arp).unwrap();
    files.write("t.pcap", capture.finish().unwrap());

    let words = "replay t.pcap --program hashpipe --program chamelemon:hh_threshold=1 --program disketch:memory=1MB --reproducible 1";
    let document = files.weir(&format!("{words} --key inner --score --json --top 50")).json();
    truth.insert("192.0.2.1:50000 → 192.0.2.2:4789 udp".parse::<weir::wire::Pattern>().unwrap().flow().unwrap(), 1);
    for program in ["hashpipe", "chamelemon", "disketch"] {
        assert_heaviest(&reported(&document, program, "packets"), &truth, 50);
    }
    assert_eq!(document["programs"]["hashpipe"]["score"]["recall"], 1.0);
    assert_eq!(document["programs"]["chamelemon"]["true_flows"], 21);
    let (tunnels, key) = (&document["tunnels"], &document["configuration"]["key"]);
    assert_eq!((&tunnels["read_packets"], &tunnels["other_packets"], key), (&2100.into(), &1.into(), &"inner".into()));
    let text = files.weir(&format!("{words} --key inner")).stdout;
    assert!(text.contains("2100 packets of tunnels count with the flow inside\n1 packets"), "{text}");

    let outer = files.weir(&format!("{words} --json")).json();
    for program in ["hashpipe", "chamelemon", "disketch"] {
        let counts: Vec<_> = reported(&outer, program, "packets").iter().map(|(_, packets)| *packets).collect();
        assert_eq!(counts, [2101], "{program}");
    }
    assert_eq!(outer["tunnels"]["read_packets"], 0);
    // Of a configuration as well.
    files.write(
        "weir.toml",
        "[switch]\nkey = \"inner\"\n[[port]]\nname = \"a\"\ndev = \"tap:a\"\n[[program]]\nname = \"hashpipe\"\n",
    );
    let document = files.weir("replay t.pcap -c weir.toml --in a --json --top 50").json();
    assert_heaviest(&reported(&document, "hashpipe", "packets"), &truth, 50);
    let refused = files.weir("p4 -c weir.toml --target v1model --out x");
    assert!(refused.refused(2).contains("switch.key = inner: the P4 sources read no packets inside tunnels"));
}

/// A program that counts flows without knowing their names has those that another program found.
#[test]
fn flows_are_named_by_other_programs() {
    let files = Files::new();
    let truth = truth(&files.capture("t.pcap", SMALL));
    // Here no two of these flows share a counter.
    let words = "replay t.pcap --program disketch:memory=1MB --program hashpipe --reproducible 1 --json --top 20";
    let document = files.weir(words).json();
    assert_heaviest(&reported(&document, "disketch", "packets"), &truth, 20);
    let alone = files.weir("replay t.pcap --program disketch --json").json();
    assert_eq!(reported(&alone, "disketch", "packets"), []);
}

/// HashPipe's slots with digests: flows that were reported have names, and what has none is told.
#[test]
fn digests_are_named_and_counted() {
    let files = Files::new();
    let truth = truth(&files.capture("t.pcap", "isp/burst,flows=300,packets=20000,ipv6=0.3,seed=3"));
    let replay = |keys: &str| {
        let words = format!("replay t.pcap --program hashpipe:key=digest32{keys} --reproducible 1 --json --top 400");
        files.weir(&words).json()["programs"]["hashpipe"].clone()
    };
    let document = replay(",report_at=1");
    let named = reported(&serde_json::json!({ "programs": { "hashpipe": document } }), "hashpipe", "packets");
    // Here no two of these flows have one digest, and each is reported.
    assert_heaviest(&named, &truth, 300);
    assert_eq!((document.get("unnamed_digests"), document.get("ambiguous_digests")), (None, None));
    let incomplete = |document: &Value| document["claims"]["heavy"]["incomplete"].clone();
    assert_eq!(incomplete(&document), serde_json::json!(["evicted"]));

    let document = replay(",report_at=1,names=100");
    let [digests, flows]: [Vec<&Value>; 2] = {
        let heavy = document["heavy"].as_array().unwrap();
        let (digests, flows) = heavy.iter().partition(|heavy| heavy.get("digest32").is_some());
        [digests, flows]
    };
    assert_eq!((flows.len(), digests.len(), &document["unnamed_digests"]), (100, 200, &200.into()));
    assert!(digests.iter().all(|heavy| heavy["digest32"]["crc"].as_str().is_some_and(|crc| crc.len() == 8)));
    assert_eq!(incomplete(&document), serde_json::json!(["evicted", "overflow", "digests_unnamed"]));
    let packets: u64 = digests.iter().chain(&flows).map(|heavy| heavy["packets"].as_u64().unwrap()).sum();
    assert_eq!(packets, truth.values().sum::<u64>());
}

/// Packets of flows and of patterns of flows, with the truth beside them.
#[test]
fn counts_of_flows_have_bounds() {
    let files = Files::new();
    let trace = files.capture("t.pcap", SMALL);
    let truth = trace.truth();
    let flow = truth.flows().iter().max_by_key(|flow| flow.packets).unwrap();
    let words = [
        "replay",
        "t.pcap",
        "--program",
        "hashpipe",
        "--program",
        "chamelemon",
        "--program",
        "pint",
        "--score",
        "--json",
        "--frequency",
        &flow.flow.to_string(),
        "--frequency",
        "* → * udp",
    ];
    let document = crate::weir_with(&files.path("."), words).json();
    let udp: u64 = truth.flows().iter().filter(|of| of.flow.proto == Some(17)).map(|of| of.packets).sum();
    for program in ["hashpipe", "chamelemon"] {
        let [one, several] = &document["programs"][program]["frequencies"].as_array().unwrap()[..] else { panic!() };
        assert_eq!((&one["flow"], &several["flow"]), (&flow.flow.to_string().into(), &"* → * udp".into()));
        assert_eq!((&one["packets"]["true"], &several["packets"]["true"]), (&flow.packets.into(), &udp.into()));
        for count in [one, several].map(|found| &found["packets"]) {
            assert!(count["lower_bound"].as_u64() <= count["true"].as_u64(), "{count}");
            assert!(
                count["upper_bound"].is_null() || count["true"].as_u64() <= count["upper_bound"].as_u64(),
                "{count}"
            );
        }
        assert_eq!(one["epoch_ns"], 0);
        assert!(!one["start"].is_null() && one["packets"]["lower_bound"].as_u64() > Some(0), "{one}");
    }
    let text = crate::weir_with(&files.path("."), words.into_iter().filter(|word| *word != "--json")).stdout;
    for line in [
        "* → * udp, not all packets\n  smaller flows cannot be named",
        "* → * udp, not all packets\n  flows may have been",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(document["programs"]["pint"].get("frequencies").is_none(), "it counts no packets of flows");
    let refused = crate::weir_with(&files.path("."), ["replay", "t.pcap", "--program", "pint", "--frequency", "* → *"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--frequency: no program counts packets of flows"), "{}", refused.stderr);
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
        [
            "bytes",
            "captured_seconds",
            "captures",
            "configuration",
            "cut_packets",
            "drops",
            "end",
            "interrupted",
            "lacking",
            "memory",
            "packets",
            "programs",
            "reframed_packets",
            "seconds",
            "seed",
            "start",
            "tunnels",
            "unmeasured_packets",
            "version"
        ]
    );
    assert_eq!(keys(&document["programs"]), ["hashpipe"]);
    let program = &document["programs"]["hashpipe"];
    assert_eq!(keys(program), ["claims", "heavy", "unit"]);
    let claim = &program["claims"]["heavy"];
    let reasons = claim["incomplete"].as_array().unwrap();
    assert!(claim["complete"] == false && reasons.iter().any(|why| why == "evicted"), "{claim}");
    assert_eq!(program["heavy"].as_array().unwrap().len(), 300);
    let first = &program["heavy"][0];
    assert_eq!(keys(first), ["flow", "packets"]);
    assert_eq!(keys(&first["flow"]), ["dport", "dst", "proto", "sport", "src"]);

    let scored = files.weir(&format!("{words} --score")).json();
    let program = &scored["programs"]["hashpipe"];
    assert_eq!(keys(program), ["claims", "heavy", "score", "unit"]);
    assert_eq!(keys(&program["heavy"][0]), ["flow", "packets", "true_packets"]);
    let score =
        ["average_relative_error", "false_negatives", "false_positives", "flows", "k", "precision", "recall", "truth"];
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
    // Of the flows with the 50th count those that were reported are taken first; which of them,
    // only matters to their error.
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

/// A program that names no heavy flows has no score of them, and none can be asked of it.
#[test]
fn what_is_not_answered_has_no_score() {
    let files = Files::new();
    files.capture("t.pcap", "isp/burst,flows=40,packets=400");
    let words = "replay t.pcap --score --program pint";
    let document = files.weir(&format!("{words} --json")).json();
    assert_eq!(document["programs"]["pint"].get("score"), None);
    let text = files.weir(words).stdout;
    assert!(text.contains("pint: ") && !text.contains("recall") && !text.contains("false negatives"), "{text}");
    let refused = files.weir(&format!("{words} --min-recall 0.5"));
    assert!(refused.refused(2).contains("--min-recall: no program names heavy flows"));
    assert_eq!(files.weir(&format!("{words} --program hashpipe --min-recall 0.5")).code, 0);
}

/// A capture of frames that are as long on the wire as may be: so many of each flow, by its source
/// port, and the next ones 10 ms later.
fn long_frames(flows: &[(u8, usize)]) -> Vec<u8> {
    let headers = |port| {
        let mut frame = frame(1, 2);
        frame[14..23].copy_from_slice(&[0x45, 0, 5, 220, 0, 0, 0, 0, 64]);
        (frame[23], frame[29], frame[33], frame[35]) = (17, 1, 2, port);
        frame
    };
    let mut capture: Vec<u8> =
        [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1].into_iter().flat_map(u32::to_le_bytes).collect();
    for (at, &(port, number)) in (0..).zip(flows) {
        let record = [1_700_000_000, 10_000 * at, 60, 1 << 24].into_iter().flat_map(u32::to_le_bytes);
        let record: Vec<u8> = record.chain(headers(port)).collect();
        capture.extend(record.repeat(number));
    }
    capture
}

/// A register that is full tells the least that a flow can have, also in a sum of epochs.
#[test]
fn a_full_register_is_at_least() {
    const FULL: u64 = u32::MAX as u64;
    let files = Files::new();
    files.write("t.pcap", long_frames(&[(7, 257), (8, 255), (7, 1)]));
    let words = "replay t.pcap --program hashpipe:count=bytes --score";
    let heavy = |words: &str| {
        let document = files.weir(&format!("{words} --json")).json();
        let program = &document["programs"]["hashpipe"];
        assert!(program["claims"]["heavy"]["incomplete"].to_string().contains("saturated"), "{program}");
        let flow = |flow: &Value| [flow["bytes"].clone(), flow["at_least"].clone(), flow["true_bytes"].clone()];
        program["heavy"].as_array().unwrap().iter().map(flow).collect::<Vec<_>>()
    };
    let exact = [(255u64 << 24).into(), Value::Null, (255u64 << 24).into()];
    assert_eq!(heavy(words), [[FULL.into(), true.into(), (258u64 << 24).into()], exact.clone()]);
    let cut = format!("{words} --epoch 5ms");
    assert_eq!(heavy(&cut), [[(FULL + (1 << 24)).into(), true.into(), (258u64 << 24).into()], exact]);
    let text = files.weir(words).stdout;
    assert!(text.contains("at least 4294967295") && !text.contains("at least 4278"), "{text}");
    assert!(text.contains("registers were full"), "{text}");
    files.write("less.pcap", long_frames(&[(7, 255)]));
    let text = files.weir(&words.replace("t.pcap", "less.pcap")).stdout;
    assert!(text.contains("4278190080") && !text.contains("at least 4") && !text.contains("full"), "{text}");
    let text = files.weir("trace --read t.pcap --packet 258 --program hashpipe:count=bytes").stdout;
    assert!(text.contains("16777216 so far") || text.contains("4278190080 so far"), "{text}");
    let words = "trace --read t.pcap --packet 257 --program hashpipe:count=bytes";
    assert!(files.weir(words).stdout.contains("at least 4294967295 so far"));
    assert_eq!(files.weir(&format!("{words} --json")).json()["programs"][0]["at_least"], true);
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
    assert_eq!(document["unmeasured_packets"], 2);
    assert_eq!(document["captured_seconds"], 5.0);
    let text = files.weir("replay t.pcap").stdout;
    assert!(text.contains("2 packets were dropped"), "{text}");
}

/// A pcap of (nanoseconds, length on the wire, bytes kept).
fn pcap(records: &[(u32, usize, Vec<u8>)]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut file = words(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, 1]);
    for (at, wire_len, bytes) in records {
        file.extend(words(&[0, *at, bytes.len() as u32, *wire_len as u32]));
        file.extend(bytes);
    }
    file
}

/// A TCP packet of a flow as a capture of 66 bytes a record keeps it; `stated` is what its IP
/// header says of its length.
fn tcp(ipv6: bool, flow: u8, stated: u16) -> Vec<u8> {
    let [high, low] = stated.to_be_bytes();
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if ipv6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, high, low, 6, 64]);
        frame.extend([[0xfd; 15].as_slice(), &[1], &[0xfd; 15], &[2]].concat());
    } else {
        frame.extend([0x08, 0x00, 0x45, 0, high, low, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    }
    frame.extend([0x30, flow, 0, 80]);
    frame.resize(74, 0);
    frame
}

/// A snap length takes nothing from what is counted in bytes.
#[test]
fn bytes_are_those_of_the_wire() {
    let files = Files::new();
    let records = [(0, 1514, tcp(false, 1, 1500)), (10, 700, tcp(false, 1, 686)), (20, 74, tcp(false, 2, 60))];
    files.write("t.pcap", pcap(&records));
    let document = files.weir("replay t.pcap --program hashpipe:count=bytes --score --json").json();
    assert_eq!((&document["bytes"], &document["cut_packets"]), (&2288.into(), &2.into()));
    let heavy = &document["programs"]["hashpipe"]["heavy"];
    assert_eq!((&heavy[0]["bytes"], &heavy[0]["true_bytes"]), (&2214.into(), &2214.into()), "{heavy:#}");
    assert_eq!(heavy[1]["bytes"], 74);
    let text = files.weir("replay t.pcap").stdout;
    assert!(text.contains("2288 bytes"), "{text}");
}

/// Captures of hosts whose NICs cut and join packets: 64 KB and more in one frame, and no length in
/// the IP header.
#[test]
fn offloaded_packets_are_measured_and_not_lost() {
    let files = Files::new();
    let mut records = Vec::new();
    for (flow, ipv6, wire_len, stated) in
        [(1, false, 65_226, 65_212), (2, false, 65_226, 0), (3, true, 65_226, 0), (4, false, 190_000, 0)]
    {
        let number = 10 + u32::from(flow);
        let mut frame = tcp(ipv6, flow, stated);
        // One flow is kept whole, of the others a snap length left the headers.
        frame.resize(if flow == 1 { wire_len } else { frame.len() }, 7);
        records.extend((0..number).map(|at| (at * 1000, wire_len, frame.clone())));
    }
    files.write("t.pcap", pcap(&records));
    let words = "replay t.pcap --program chamelemon:hh_threshold=1 --score --json";
    let document = files.weir(words).json();
    let drops = &document["drops"];
    assert_eq!(
        (&drops["rx_packets"], &drops["tx_packets"], &drops["dropped_packets"]),
        (&50.into(), &50.into(), &0.into())
    );
    assert_eq!(document["unmeasured_packets"], 0);
    let program = &document["programs"]["chamelemon"];
    assert_eq!((&program["lost_packets"], &program["losses_complete"]), (&0.into(), &true.into()));
    assert_eq!(program["true_flows"], 4);
    let mut sizes: Vec<_> = reported(&document, "chamelemon", "packets").iter().map(|(_, packets)| *packets).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [11, 12, 13, 14]);
    let ports = reported(&document, "chamelemon", "packets").iter().map(|(flow, _)| flow.dport).collect::<Vec<_>>();
    assert_eq!(ports, [Some(80); 4]);
}

/// Over several epochs a flow that stayed light in each has no name; the answer says from which
/// size on all have one.
#[test]
fn epochs_say_from_which_size_on_flows_are_named() {
    let files = Files::new();
    // 20 000 packets in 40 epochs: most flows have less than 5 packets in each.
    let truth = truth(&files.capture("t.pcap", "isp/uniform,flows=1000,packets=20000,rate=50k"));
    let words = "replay t.pcap --epoch 10ms --program chamelemon:hh_threshold=5 --top 1000 --score";
    let document = files.weir(&format!("{words} --json")).json();
    let program = &document["programs"]["chamelemon"];
    assert_eq!(program["heavy_complete"], true);
    let min = program["heavy_min_packets"].as_u64().unwrap();
    assert!((4 * 35..=4 * 45).contains(&(min - 1)), "T_h - 1 packets in each of 40 epochs: {min}");
    let reported: Counts = reported(&document, "chamelemon", "packets").into_iter().collect();
    assert!(reported.len() < truth.len(), "the workload is meant to hide some");
    for (flow, &packets) in &truth {
        assert!(packets < min || reported.contains_key(flow), "{flow} has {packets} packets and no name");
    }
    let excess = reported.iter().map(|(flow, &packets)| {
        assert!(packets >= truth[flow], "{flow}: {packets} of {}", truth[flow]);
        packets - truth[flow]
    });
    let (excess, all) = (excess.sum::<u64>(), truth.values().sum::<u64>());
    assert!(excess * 50 < all, "{excess} packets of {all} too many");
    let score = &program["score"];
    assert_eq!((&score["k"], &score["flows"]), (&1000.into(), &truth.len().into()), "over all that was asked for");
    assert!((score["recall"].as_f64().unwrap() - reported.len() as f64 / 1000.0).abs() < 1e-9);
    let text = files.weir(words).stdout;
    assert!(text.contains(&format!("all of {min} packets or more")), "{text}");
    let whole = files.weir("replay t.pcap --program chamelemon:hh_threshold=5 --json").json();
    assert_eq!(whole["programs"]["chamelemon"]["heavy_min_packets"], 5);
}

/// What a damaged capture held before the damage is reported, with the reason and exit code 1.
#[test]
fn a_truncated_capture_gives_what_was_read() {
    let files = Files::new();
    let whole = files.capture("whole.pcap", SMALL);
    let bytes = std::fs::read(files.path("whole.pcap")).unwrap();
    files.write("cut.pcap", &bytes[..bytes.len() - 7]);
    let ended = files.weir("replay cut.pcap --json");
    assert_eq!(ended.code, 1);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["packets"], 19_999);
    assert_eq!(document["error"], "cut.pcap: the file ends inside packet 20000");
    assert_eq!(document["drops"]["tx_packets"], 19_999);
    assert!(ended.stderr.contains("ends inside packet 20000; the report covers what came before"), "{}", ended.stderr);
    let read: u64 = reported(&document, "hashpipe", "packets").iter().map(|(_, packets)| packets).sum();
    assert!(read > 0 && read <= whole.truth().packets());
    let text = files.weir("replay cut.pcap");
    assert_eq!((text.code, text.stdout.contains("19999 packets")), (1, true), "{}", text.stdout);
    // Where nothing could be read there is nothing to report.
    files.write("none.pcap", &bytes[..30]);
    assert!(files.weir("replay none.pcap").refused(1).contains("the file ends inside packet 1"));
}

/// With the seed of its document a replay can be run again, and its memory is stated.
#[test]
fn the_document_says_how_it_was_made() {
    let files = Files::new();
    files.capture("t.pcap", SMALL);
    let run = || files.weir("replay t.pcap --program hashpipe:slots=64 --reproducible 5 --epoch 10ms --json").json();
    let mut documents = [run(), run()];
    for document in &mut documents {
        document.as_object_mut().unwrap().remove("seconds");
    }
    assert_eq!(documents[0], documents[1]);
    let [document, _] = documents;
    assert_eq!((&document["seed"], &document["version"]), (&"5".into(), &env!("CARGO_PKG_VERSION").into()));
    let configuration = &document["configuration"];
    assert_eq!((&configuration["epoch_ns"], &configuration["programs"][0]["slots"]), (&10_000_000.into(), &64.into()));
    let memory = |key: &str| document["memory"][key].as_u64().unwrap();
    assert!(memory("register_bytes") > 0 && memory("banks_per_core") > 1);
    assert_eq!(memory("bytes_per_core"), memory("register_bytes") * memory("banks_per_core"));
    let secret = files.weir("replay t.pcap --json").json();
    assert!(secret["seed"].is_null() && secret["configuration"]["epoch_ns"].is_null());
}
