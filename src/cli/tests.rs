//! Every table of the commands that ask a switch: how it fits a terminal, and what it is in CSV.

use serde_json::json;

use super::output::{Field, Format, Page, Style, page};
use super::top::rates;
use super::{counts, lab, show, table, top};
use crate::answers::{self, Certainty, Claim, Claimed, CountedFlow, FlowName, SizeClass};
use crate::api::view;
use crate::json::Epoch;
use crate::wire::Flow;

/// The largest name of a switch, and the widest numbers.
const NAME: &str = "a-switch-whose-name-has-32-marks";
const MANY: u64 = u64::MAX;
/// The longest path.
const HOPS: usize = 59;

fn flow(n: u16) -> FlowName {
    let ip = |last| Some(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0x1111, 0x2222, 0x3333, 0x4444, 0x5555, last).into());
    let flow =
        Flow { src: ip(0xaaa0 + n), dst: ip(0xbbb0 + n), sport: Some(40_000), dport: Some(54_321), proto: Some(17) };
    FlowName::Flow(flow)
}

fn claimed<A>(answer: A) -> Claimed<A> {
    let (first_epoch, last_epoch) = (Some(26_753_081_231), Some(26_753_081_380));
    let claim = Claim { first_epoch, last_epoch, epoch_ns: 1 << 26, seconds: 10.0, ..Claim::default() };
    Claimed::of(claim, answer)
}

fn path() -> Vec<Option<std::sync::Arc<str>>> {
    (0..HOPS).map(|hop| (hop != 7).then(|| format!("spine-{hop}").into())).collect()
}

fn ports() -> view::Ports {
    let wide = view::Counts {
        rx_packets: MANY,
        rx_bytes: MANY,
        tx_packets: MANY,
        tx_bytes: MANY,
        drops: [("no_neighbour".into(), MANY)].into(),
        device: [("rx_no_buffer".into(), MANY)].into(),
        ..view::Counts::default()
    };
    let port = |counts| view::Port { name: NAME.into(), dev: format!("veth:{NAME}"), counts, ..view::Port::default() };
    view::Ports { ports: vec![port(wide.clone()), port(view::Counts::default())], ..view::Ports::default() }
}

/// Pages by the words behind `weir`.
fn pages() -> Vec<(&'static str, Page)> {
    let heavy = |n| answers::HeavyFlow {
        name: flow(n),
        packets: Some(if n == 2 { u32::MAX.into() } else { MANY }),
        bytes: None,
        at_least: n == 2,
        true_packets: Some(MANY),
        true_bytes: None,
    };
    let counted = |n| CountedFlow { name: flow(n), packets: MANY, exact: n == 1 };
    let switches = [NAME.to_owned(), "s2".to_owned()];
    let numbers = answers::Numbers {
        epochs: vec![answers::EpochNumbers {
            epoch: Epoch::new(26_753_081_231, 1 << 26),
            flows: Some(1e15),
            entropy_bits: Some(123.456_789),
            switches: switches
                .iter()
                .map(|switch| answers::SwitchNumbers {
                    switch: switch.as_str().into(),
                    flows: None,
                    entropy_bits: None,
                })
                .collect(),
        }],
    };
    let parameters = json!({ "hh_buckets": MANY, "threshold_packets": MANY, "sample_share": 0.125, "facts": null });
    let attention = answers::EpochAttention {
        epoch: Epoch::new(26_753_081_231, 1 << 26),
        state: "healthy".into(),
        why: "more flows lost packets than the encoder of light losses holds, so fewer are sampled".into(),
        parameters: parameters.as_object().cloned().unwrap(),
        ..answers::EpochAttention::default()
    };
    vec![
        ("show ports", counts::ports_page(&ports())),
        ("show drops", view::Drops::of(&ports()).page()),
        (
            "show macs",
            show::macs_page(&view::MacTable {
                macs: vec![view::MacEntry {
                    mac: "02:00:00:00:00:01".into(),
                    vlan: 4094,
                    port: NAME.into(),
                    age_seconds: MANY,
                    fixed: false,
                    moves: MANY,
                }],
            }),
        ),
        ("show otlp", view::Otlp { data_points: MANY, ..view::Otlp::default() }.page()),
        ("show ipfix", view::Exported { messages: MANY, ..view::Exported::default() }.page()),
        ("show api", show::api_page(&view::Api { socket_connections: MANY, ..view::Api::default() })),
        (
            "show heavy",
            answers::HeavyFlows::page(&claimed(answers::HeavyFlows {
                heavy: vec![heavy(1), heavy(2)],
                ..answers::HeavyFlows::default()
            })),
        ),
        (
            "show losses",
            answers::Losses::page(&claimed(answers::Losses {
                losses: vec![counted(1), counted(2)],
                gains: vec![counted(3)],
                ..answers::Losses::default()
            })),
        ),
        (
            "show flows",
            answers::FlowSizes::page(&claimed(answers::FlowSizes {
                heavy: vec![heavy(1)],
                distribution: vec![SizeClass { packets: u32::MAX, flows: 1e9 }],
                ..answers::FlowSizes::default()
            })),
        ),
        (
            "show changes",
            answers::HeavyChanges::page(&claimed(answers::HeavyChanges {
                changes: vec![answers::Change { name: flow(1), before_packets: MANY, after_packets: 0 }],
                ..answers::HeavyChanges::default()
            })),
        ),
        ("show cardinality", answers::Numbers::cardinality_page(&claimed(numbers.clone()))),
        (
            "query frequency",
            answers::Frequency::page(&claimed(answers::Frequency {
                program: "chamelemon".into(),
                flow: flow(1).to_string(),
                packets: Some(answers::Bounded {
                    estimate: MANY,
                    upper_bound: Some(MANY),
                    ..answers::Bounded::default()
                }),
                confidence: 0.99,
                ..answers::Frequency::default()
            })),
        ),
        ("show entropy", answers::Numbers::entropy_page(&claimed(numbers))),
        ("show attention", answers::Attention::page(&claimed(answers::Attention { epochs: vec![attention] }))),
        (
            "show paths",
            answers::Paths::page(&claimed(answers::Paths {
                asked: true,
                paths: vec![answers::FlowPath {
                    flow: flow(1),
                    sink: NAME.into(),
                    checksum: Some(1),
                    switches: path().into(),
                    certainty: Certainty::Sure,
                    packets: MANY,
                    sure: Some(answers::SureOf {
                        packets: MANY,
                        since_ns: 1_795_619_000_000_000_000,
                        until_ns: 1_795_619_900_000_000_000,
                    }),
                    repeated: 0,
                    least_digests: 1,
                    contradictions: MANY,
                }],
                ..answers::Paths::default()
            })),
        ),
        (
            "show latency",
            answers::Latency::page(&claimed(answers::Latency {
                query: Some("latency, quantiles of each hop".into()),
                latencies: vec![answers::FlowLatency {
                    name: flow(1),
                    sink: NAME.into(),
                    checksum: None,
                    hops: hops(),
                }],
                ..answers::Latency::default()
            })),
        ),
        (
            "show loops",
            answers::Loops::page(&claimed(answers::Loops {
                asked: true,
                loops: vec![answers::FlowLoop {
                    flow: flow(1),
                    switch: NAME.into(),
                    first_ns: 1_795_619_000_000_000_000,
                    last_ns: 1_795_619_900_000_000_000,
                    packets: MANY,
                    least_hops: 59,
                }],
                ..answers::Loops::default()
            })),
        ),
        (
            "show utilisation",
            answers::Utilisation::page(&claimed(answers::Utilisation {
                query: Some("utilisation, max of each packet's way".into()),
                utilisations: vec![answers::FlowUtilisation {
                    name: flow(1),
                    sink: NAME.into(),
                    checksum: Some(3),
                    path: path(),
                    packets: MANY,
                    median_utilisation: 0.5,
                    max_utilisation: 1.0,
                    median_low: Some(0.25),
                    median_high: None,
                }],
                ..answers::Utilisation::default()
            })),
        ),
        ("show values", answers::Values::page(&claimed(answers::Values { values: values() }))),
        (
            "show switches",
            show::switches_page(&view::NetworkSwitches {
                switches: vec![view::NetworkSwitch {
                    name: NAME.into(),
                    software: "weir 0.1.0".into(),
                    programs: vec!["one:key=value,other=value".into(), "another:queries=path;latency".into()],
                    records: MANY,
                    unsent_records: MANY,
                    refused_records: MANY,
                    last_refusal: Some("a record of an epoch that the controller has forgotten".into()),
                    ..view::NetworkSwitch::default()
                }],
                ..view::NetworkSwitches::default()
            }),
        ),
        (
            "show controller",
            show::controller_page(&view::ControllerLink {
                at: "https://[2001:db8::1]:4433".into(),
                connections: MANY,
                ..view::ControllerLink::default()
            }),
        ),
        ("table list", table::list_page(&view::Tables { tables: vec![a_table()] })),
        (
            "table show",
            table::rows_page(&view::TableRows {
                table: a_table(),
                rows: vec![json!({
                    "name": NAME, "src": "2001:db8:1111:2222:3333:4444:5555:aaaa/128", "dst": "::/0", "ports": [1, 2],
                    "action": "deny", "hit_packets": MANY, "hit_bytes": MANY,
                })],
                default: Some(json!({ "action": "permit" })),
            }),
        ),
        ("lab status", lab::labs_page(&labs())),
        ("lab up", lab::lab_page(&a_lab())),
        ("top --once", top::tables::page(&rates())),
    ]
}

fn labs() -> lab::LabsDocument {
    let summary = lab::LabSummary {
        lab: NAME.into(),
        topology: "spine-leaf:100,100,1".into(),
        state: "incomplete",
        switch_count: 200,
        host_count: 100,
        directory: format!("/run/user/1000/weir/labs/{NAME}").into(),
    };
    lab::LabsDocument { labs: vec![summary] }
}

fn a_lab() -> lab::LabDocument {
    let socket = |switch: &str| format!("/run/user/1000/weir/{NAME}.{switch}.sock").into();
    let port = |port: &str| answers::PortName::new(NAME, port);
    lab::LabDocument {
        lab: NAME.into(),
        topology: "line:2".into(),
        state: "running",
        directory: format!("/run/user/1000/weir/labs/{NAME}").into(),
        rootless: true,
        programs: vec!["one".into(), "another".into()],
        controller: lab::ControllerDocument {
            socket: socket("switches"),
            process: Some(u32::MAX),
            running: true,
            page: Some("127.0.0.1:65535".into()),
        },
        switches: vec![lab::SwitchDocument {
            name: NAME.into(),
            label: "A town whose name has forty characters..".into(),
            socket: socket(NAME),
            process: Some(u32::MAX),
            running: true,
        }],
        hosts: vec![lab::HostDocument {
            name: "h255".into(),
            address: [10, 255, 255, 254].into(),
            gateway: [10, 255, 255, 253].into(),
            mac: "02:01:00:00:00:ff".into(),
            at: port("h255"),
            process: None,
            running: false,
        }],
        links: vec![lab::LinkDocument { link: 131_071, ports: [port("l131071"), port("l131071")] }],
    }
}

fn rates() -> rates::Rates {
    let rate = 999_999_999_999.0;
    rates::Rates {
        ports: vec![rates::PortRates {
            name: NAME.into(),
            dev: format!("veth:{NAME}"),
            rx_packets_per_second: rate,
            dropped_packets: MANY,
            ..rates::PortRates::default()
        }],
        drops: vec![rates::DropRate {
            port: NAME.into(),
            reason: "no_neighbour".into(),
            packets: MANY,
            ..Default::default()
        }],
        programs: vec![rates::ProgramRates {
            program: "one".into(),
            heavy: vec![rates::FlowRate {
                name: flow(1),
                packets_per_second: Some(rate),
                bits_per_second: None,
                at_least: true,
            }],
            ..rates::ProgramRates::default()
        }],
        cores: vec![rates::CoreRates {
            core: 1023,
            late_epochs: MANY,
            lost_epochs: MANY,
            programs: vec![rates::ProgramTime { program: "one".into(), ..rates::ProgramTime::default() }],
            ..rates::CoreRates::default()
        }],
        ..rates::Rates::default()
    }
}

fn hops() -> Vec<answers::HopLatency> {
    let hop = |hop| answers::HopLatency {
        hop,
        switch: (hop != 7).then(|| NAME.into()),
        samples: MANY,
        p50_ns: Some(12_345_678),
        p99_ns: None,
        p50_low_ns: Some(999),
        p50_high_ns: Some(98_765_432_100),
        p99_low_ns: None,
        p99_high_ns: Some(MANY),
    };
    (1..=HOPS).map(hop).collect()
}

fn values() -> Vec<answers::Value> {
    let value = |query: &str, aggregation: &str, of_hops: bool| {
        let frequent = vec![answers::Frequent { number: 65_535.0, share: 0.125 }; 16];
        let told = |hop| answers::ValueHop {
            hop: of_hops.then_some(hop),
            switch: of_hops.then(|| NAME.into()),
            samples: MANY,
            p50: Some(1e15),
            p50_low: Some(1.0),
            p99_high: Some(1e15),
            max: Some(1e15),
            mean: Some(0.5),
            frequent: frequent.clone(),
            share_error: Some(0.01),
            ..answers::ValueHop::default()
        };
        let told = vec![told(1), told(2)];
        let flows = answers::ValueFlow { name: flow(1), sink: NAME.into(), checksum: Some(1), path: path(), told };
        let [query, value, aggregation, unit] = [query, "queue", aggregation, "packets"].map(Into::into);
        answers::Value {
            query,
            value,
            aggregation,
            unit,
            of_hops,
            error_factor: 1.0,
            told: vec![flows],
            ..Default::default()
        }
    };
    vec![value("a", "quantiles", true), value("b", "frequent", true), value("c", "max", false)]
}

fn a_table() -> view::Table {
    let key = ["name", "src", "dst"].map(Into::into).into();
    let [sram_bits, tcam_bits] = [Some(MANY); 2];
    view::Table { name: NAME.into(), entries: usize::MAX, capacity_entries: None, key, sram_bits, tcam_bits }
}

/// On a terminal of 80 columns no line is wider, and every cell is there whole but for line ends; in a
/// pipe a row is one line.
#[test]
fn every_table_fits_80_columns() {
    let columns = 80;
    for style in [Style::Plain, Style::Terminal { columns }] {
        style.set();
        for (words, page) in pages() {
            assert!(page.tables().count() > 0, "{words}");
            for (name, table) in page.tables() {
                let text = table.text(style);
                let wide = text.lines().find(|line| line.chars().count() > columns);
                assert!(style == Style::Plain || wide.is_none(), "{words}, {name}: {wide:?} of\n{text}");
                let rows = table.columns().first().map_or(0, |column| column.cells.len());
                // Some have a title.
                let is_line_each = (rows + 1..=rows + 2).contains(&text.lines().count());
                assert!(style != Style::Plain || is_line_each, "{words}, {name}:\n{text}");
                let letters = |text: &str| {
                    let mut letters: Vec<_> = text.chars().filter(|c| !c.is_whitespace()).collect();
                    letters.sort_unstable();
                    letters
                };
                let mut shown = letters(&text);
                for cell in table.columns().iter().flat_map(|column| column.cells.clone()) {
                    for letter in letters(cell) {
                        let at = shown.iter().position(|c| *c == letter);
                        shown.swap_remove(at.unwrap_or_else(|| panic!("{words}, {name}: {cell} is cut in\n{text}")));
                    }
                    let digits = cell.chars().all(|c| c.is_ascii_digit() || c == ' ');
                    assert!(!digits || text.contains(cell), "{words}, {name}: {cell} is broken in\n{text}");
                }
            }
        }
    }
}

/// In CSV columns have names, each once, and rows a field for each; docs/csv.md names them.
#[test]
fn every_table_is_csv_with_documented_columns() {
    let docs = include_str!("../../docs/csv.md");
    Style::Terminal { columns: 80 }.set();
    for (words, page) in pages() {
        for (name, table) in page.tables() {
            let csv = table.csv(false);
            let fields =
                |line: &str| line.split('"').step_by(2).map(|part| part.matches(',').count()).sum::<usize>() + 1;
            let names: Vec<_> = table.names().collect();
            for line in csv.lines() {
                assert_eq!(fields(line), names.len(), "{words}, {name}: {line}");
                assert!(!line.contains("446 744"), "digits in groups: {line}");
            }
            let is_number = |text: &str| text.parse::<f64>().is_ok() || text.parse::<bool>().is_ok();
            let fields = table.records().flat_map(|record| names.iter().zip(record));
            let texts = fields.filter(|(_, field)| matches!(field, Field::Text(text) if is_number(text)));
            assert_eq!(
                texts.map(|(column, _)| column).collect::<Vec<_>>(),
                [&""; 0],
                "{words}, {name}: numbers as text"
            );
            for (i, column) in names.iter().enumerate() {
                let plain = column.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
                assert!(plain && !column.is_empty() && !names[..i].contains(column), "{words}, {name}: {names:?}");
            }
            // Tables whose columns follow from what is measured are told in words, behind an asterisk.
            let mut lines = docs.lines().filter(|line| line.starts_with(&format!("| `{words}` |")));
            let is_documented = |line: &str| {
                let own = line.contains(&format!("| `{name}` |"));
                let others = names.iter().filter(|name| !CLAIM.contains(name));
                line.contains("| *") || own && others.map(|name| format!("`{name}`")).all(|name| line.contains(&name))
            };
            assert!(lines.any(is_documented), "docs/csv.md, {words}: | `{name}` | {names:?}");
        }
    }
}

/// The first columns of each answer.
const CLAIM: [&str; 4] = ["first_epoch", "last_epoch", "complete", "final"];

#[test]
fn a_table_that_is_not_there_is_named_with_those_that_are() {
    let ports = counts::ports_page(&ports());
    let refused = page(&Format::Csv("heavy".into()), &(), |()| ports).unwrap_err();
    assert!(format!("{refused:?}").contains("--csv=heavy: there is no such table; there are ports"), "{refused:?}");
}
