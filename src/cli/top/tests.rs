use insta::assert_snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::super::facts::SwitchFacts;
use super::super::rates::{Rates, Snapshot};
use super::super::{Shown, Shows, draw};
use super::*;
use crate::answers::FlowName;
use crate::answers::{Claim, Claimed, HeavyFlow, HeavyFlows};
use crate::api::client::ClientError;
use crate::api::view::{Counts, Packets, Port, Ports, Status, Worker, WorkerProgram};
use crate::json::Epoch;
use crate::wire::Flow;

fn flow(n: u8) -> Flow {
    let ip = |last| Some(std::net::Ipv4Addr::new(10, 0, 0, last).into());
    Flow { src: ip(n), dst: ip(2), sport: Some(40_000 + u16::from(n)), dport: Some(5201), proto: Some(6) }
}

fn heavy(flows: u8) -> Claimed<HeavyFlows> {
    let count = |n: u8| HeavyFlow {
        name: FlowName::Flow(flow(n)),
        packets: Some(50_000 / u64::from(n)),
        bytes: None,
        at_least: false,
        true_packets: None,
        true_bytes: None,
    };
    let (first_epoch, last_epoch) = (Some(1), Some(15));
    let claim = Claim { first_epoch, last_epoch, epoch_ns: 1 << 26, seconds: 1.0, ..Claim::default() };
    let heavy = (1..=flows).map(count).collect();
    Claimed::of(claim, HeavyFlows { program: "hashpipe".into(), heavy, ..HeavyFlows::default() })
}

/// A switch after so many seconds of steady traffic.
fn look(seconds: u64) -> Snapshot {
    let port = |name: &str, rate: u64, runts: u64| Port {
        name: name.into(),
        dev: format!("tap:w{name}"),
        enabled: true,
        link_up: name != "c",
        counts: Counts {
            rx_packets: rate * seconds,
            rx_bytes: 1000 * rate * seconds,
            tx_packets: rate / 2 * seconds,
            tx_bytes: 250 * rate * seconds,
            drops: [("no_route".to_owned(), 0), ("runt".to_owned(), runts * seconds)].into(),
            device: [("rx_missed".to_owned(), if name == "c" { 12_345 } else { 0 })].into(),
            ..Counts::default()
        },
        ..Port::default()
    };
    let ports = vec![port("a", 1_234_000, 0), port("b", 40, 7), port("c", 0, 0)];
    let program = |name: &str, packets, cycles| WorkerProgram {
        program: name.into(),
        packets: packets * seconds,
        cycles: cycles * seconds,
    };
    // A core of 2 GHz that is busy for 30 % of its time, and one that is idle.
    let worker = |core, polls, packets, busy| Worker {
        core,
        polls: polls * seconds,
        packets: packets * seconds,
        busy_cycles: busy * seconds,
        idle_cycles: (2_000_000_000 - busy) * seconds,
        ..Worker::default()
    };
    let programs = vec![program("hashpipe", 1_200_000, 60_000_000), program("chamelemon", 1_200_000, 240_000_000)];
    let workers = vec![
        Worker { programs, ..worker(1, 4_000_000, 1_234_040, 600_000_000) },
        Worker { late_epochs: 2, programs: vec![program("hashpipe", 0, 0)], ..worker(3, 5_000_000, 0, 0) },
    ];
    let totals = Ports { packets: Packets::of(&ports, &Default::default()), ports, ..Ports::default() };
    let status = Status {
        name: "edge".into(),
        version: "0.1.0".into(),
        pid: 7,
        start_time_seconds: 1e9,
        uptime_seconds: seconds as f64,
        workers,
        totals,
    };
    Snapshot { status, heavy: Some(heavy(3)), attention: None, facts: Vec::new() }
}

/// What stands on a terminal of this size.
fn screen(shown: &Shown, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::draw(frame, &shown.rates, &shown.screen)).unwrap();
    terminal.backend().to_string()
}

fn shown() -> Shown {
    crate::cli::output::Style::Terminal { columns: 100 }.set();
    let mut shown = Shown::new(look(3600));
    shown.take(Ok(look(3601)));
    shown.take(Ok(look(3603)));
    shown
}

fn press(shown: &mut Shown, keys: &str) {
    for key in keys.chars() {
        assert!(shown.key(KeyEvent::from(KeyCode::Char(key))));
    }
}

#[test]
fn ports_with_the_flows_below() {
    assert_snapshot!(screen(&shown(), 100, 20));
}

#[test]
fn each_view() {
    let mut shown = shown();
    for (key, name) in [("2", "drops"), ("3", "programs"), ("4", "cores")] {
        press(&mut shown, key);
        assert_snapshot!(name, screen(&shown, 80, 16));
    }
}

#[test]
fn help_and_a_small_terminal() {
    let mut shown = shown();
    assert_snapshot!("small", screen(&shown, 44, 8));
    press(&mut shown, "?");
    assert_snapshot!("help", screen(&shown, 80, 20));
    for (width, height) in [(1, 1), (2, 3), (10, 5), (300, 100)] {
        screen(&shown, width, height);
    }
}

#[test]
fn a_switch_that_has_gone_is_said_and_comes_back() {
    let mut shown = shown();
    let source = std::io::Error::from(std::io::ErrorKind::NotFound);
    shown.take(Err(ClientError::NoSwitch { at: "/run/weir/edge.sock".into(), source, hint: "is `weir run` up?" }));
    let gone = screen(&shown, 100, 16);
    assert!(gone.contains("NO SWITCH, trying again: no switch answers at /run/weir/edge.sock"), "{gone}");
    assert!(gone.contains("tap:wa"), "what was last seen stays: {gone}");
    // Another process under the same name: its counters start anew, and there are no rates from
    // across.
    let mut anew = look(1);
    anew.status.pid = 8;
    shown.take(Ok(anew));
    assert!(shown.screen.gone.is_none());
    assert_eq!((shown.rates.seconds, shown.rates.rx_packets_per_second), (0.0, 0.0));
    assert_eq!(shown.screen.history, [1_234_040, 1_234_040], "nor in the history");
}

#[test]
fn pause_sort_and_scroll() {
    let mut shown = shown();
    press(&mut shown, "p");
    let before = screen(&shown, 100, 20);
    assert!(before.contains("paused"));
    let mut busier = look(3604);
    busier.status.totals.ports[1].counts.rx_packets += 5_000_000;
    shown.take(Ok(busier));
    assert_eq!(screen(&shown, 100, 20), before, "nothing moves");
    press(&mut shown, "ps");
    let mut quiet = look(3605);
    quiet.status.totals.ports[1].counts.rx_packets += 9_000_000;
    shown.take(Ok(quiet));
    let sorted = screen(&shown, 100, 20);
    assert!(sorted.find("tap:wb") < sorted.find("tap:wa"), "the busiest first: {sorted}");
    press(&mut shown, "sj");
    let losses = screen(&shown, 60, 5);
    assert!(!losses.contains("tap:wb"), "scrolled past: {losses}");
    press(&mut shown, "2");
    assert_eq!(shown.screen.scroll, 0);
    assert!(!shown.key(KeyEvent::from(KeyCode::Char('q'))));
}

#[test]
fn rates_are_what_changed_over_the_time() {
    let rates = Rates::between(&look(10), &look(14));
    assert_eq!(rates.seconds, 4.0);
    let [a, b, _] = &rates.ports[..] else { panic!() };
    assert_eq!((a.rx_packets_per_second, a.rx_bits_per_second), (1_234_000.0, 8.0 * 1_234_000_000.0));
    assert_eq!((b.dropped_packets_per_second, b.dropped_packets), (7.0, 98));
    assert_eq!(rates.drops.len(), 2, "{:?}", rates.drops);
    let [busy, idle] = &rates.cores[..] else { panic!() };
    assert_eq!((busy.busy_share, busy.packets_per_second), (0.3, 1_234_040.0));
    assert_eq!(busy.cycles_per_packet, Some(600_000_000.0 / 1_234_040.0));
    let times = busy.programs.iter().map(|of| (of.program.as_str(), of.busy_share, of.cycles_per_packet));
    assert_eq!(times.collect::<Vec<_>>(), [("hashpipe", 0.03, Some(50.0)), ("chamelemon", 0.12, Some(200.0))]);
    assert_eq!((idle.busy_share, idle.cycles_per_packet, idle.late_epochs), (0.0, None, 2));
    assert_eq!((idle.programs[0].busy_share, idle.programs[0].cycles_per_packet), (0.0, None));
    assert_eq!(rates.programs[0].heavy[1].packets_per_second, Some(25_000.0));
    let same = Rates::between(&look(10), &look(10));
    assert_eq!((same.rx_packets_per_second, same.ports[1].dropped_packets), (0.0, 70));
    assert_eq!((same.cores[0].busy_share, same.cores[0].cycles_per_packet), (0.0, None));
}

fn text(rates: &Rates) -> String {
    page(rates).to_text(crate::cli::output::Style::Plain)
}

#[test]
fn one_frame_as_text() {
    assert_snapshot!(text(&Rates::between(&look(10), &look(11))));
}

#[test]
fn attention_has_a_line() {
    let parameters = serde_json::json!({
        "hh_buckets": 1024,
        "hh_threshold_packets": 28,
        "heavy_candidates": 90,
        "sample_share": 0.25,
    });
    let parameters = parameters.as_object().cloned().unwrap();
    let shown =
        EpochAttention { epoch: Epoch::new(77, 1 << 26), state: "ill".into(), parameters, ..EpochAttention::default() };
    let now = Snapshot { attention: Some(shown), ..look(2) };
    let line = "ill: hh 1024 buckets, hh threshold 28 packets, sample 25.00 %";
    assert!(text(&Rates::between(&look(1), &now)).ends_with(line));
    assert!(!text(&Rates::between(&look(1), &look(2))).contains("ill: "));
}

/// What programs know of single switches: on the screen a line for each, in text a table.
#[test]
fn facts_about_switches_are_shown() {
    let switches = serde_json::json!({ "edge": { "sub_epochs": 4, "error_packets": 2.4, "memory_bytes": 65536 } });
    let switches = switches.as_object().cloned().unwrap();
    let facts = vec![SwitchFacts { program: "sketch".into(), epoch: 77, switches }];
    let mut shown = shown();
    shown.take(Ok(Snapshot { facts, ..look(3604) }));
    let drawn = screen(&shown, 100, 20);
    assert!(drawn.contains("sketch in edge: error 2.4, memory bytes 65 536, sub epochs 4"), "{drawn}");
    let text = text(&shown.rates);
    assert!(text.contains("sketch in each switch, epoch 77\n\nswitch  error  memory bytes  sub epochs"), "{text}");
    assert!(text.contains("edge      2.4        65 536           4"), "{text}");
}
