//! weir with the fourth program, as a process: replayed, simulated, budgeted and live.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use weir::trace::Workload;

/// The switch of `switch.rs`, built if it is not there or old. `make test` has built it before, and says
/// so.
fn binary() -> &'static PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let tests = std::env::current_exe().unwrap();
        let binary = tests.ancestors().nth(2).unwrap().join("examples/fourth_program");
        if std::env::var_os("WEIR_EXAMPLES").is_some_and(|examples| examples == "built") {
            return binary;
        }
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--locked", "--offline", "--quiet", "--example", "fourth_program"]);
        // What cargo tells a test of its package would have build scripts run again.
        let told = |key: &str| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "OUT_DIR"].iter().any(|told| key.starts_with(told))
        };
        std::env::vars().filter(|(key, _)| told(key)).for_each(|(key, _)| _ = cargo.env_remove(key));
        if cfg!(not(feature = "dpdk")) {
            cargo.args(["--no-default-features", "--features", "control"]);
        }
        assert!(cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
        binary
    })
}

fn run(words: &str) -> (Value, String) {
    let output = Command::new(binary()).args(words.split_whitespace()).output().unwrap();
    let [text, error] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{words}: {error}");
    (serde_json::from_str(&text).unwrap_or_default(), text)
}

#[test]
fn replayed_with_its_score() {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("t.pcap");
    let trace = "isp/burst,flows=300,packets=20000,seed=3".parse::<Workload>().unwrap().generate();
    trace.write_pcap(&mut std::fs::File::create(&path).unwrap()).unwrap();
    for epoch in ["", "--epoch 30ms"] {
        let words =
            "--program microbursts:slots=65536,sub_epochs=16 --program hashpipe --score --reproducible 4 --json";
        let (document, _) = run(&format!("replay {} {epoch} {words}", path.display()));
        assert_eq!(document["packets"], 20_000);
        let score = &document["programs"]["microbursts"]["score"];
        assert_eq!((&score["recall"], &score["average_relative_error"]), (&1.0.into(), &0.0.into()), "{epoch}");
    }
}

#[test]
fn simulated_beside_the_truth() {
    let words = "sim --topology line:3 --workload keyvalue/uniform,flows=400,seed=7 --epochs 3 --program microbursts:slots=65536 --json";
    let (document, _) = run(words);
    let epochs = document["epochs"].as_array().unwrap();
    assert_eq!(epochs.len(), 3);
    for epoch in epochs {
        let report = &epoch["programs"]["microbursts"];
        assert!(report["score"]["recall"].as_f64().or(report["recall"].as_f64()) >= Some(0.99), "{report:#}");
    }
}

/// The budget tells its reports beside its registers.
#[test]
fn budgeted_with_its_reports() {
    let (document, _) = run("budget --program microbursts:reports=100 --json");
    assert_eq!(
        document["reports"],
        serde_json::json!([{ "program": "microbursts", "reports": 100, "report_bits": 128 }])
    );
    let (_, text) = run("budget --program microbursts:reports=100");
    assert!(text.contains("microbursts: room for 100 reports of 128 bits about single packets"), "{text}");
}

/// Two hosts talk. Epochs are cut as was decided for them, and the number changes.
#[cfg(feature = "dpdk")]
#[test]
fn live_between_two_hosts() {
    use crate::common::{Lab, Link, Weir, eventually};

    let Some(lab) = Lab::new("fourth_program::live_between_two_hosts") else { return };
    let ports = lab.ports(Link::Tap, 2);
    let words = format!("{} --epoch 200ms --program microbursts:slots=65536", ports.arguments());
    let weir = Weir::start_binary(binary(), &lab, &lab.switch, "switch", &words);
    let hosts = ports.connect();
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    let (sub_epochs, fragments) = eventually("epochs to be cut in several ways", || {
        assert!(a.ping(b, "-c 3 -W 1"));
        let attention = weir.ask("show attention --last 20s");
        let number = |epoch: &Value, key: &str| epoch[key].as_u64();
        let epochs = attention["epochs"].as_array()?;
        let both = |epoch: &Value| Some((number(epoch, "sub_epochs")?, number(epoch, "fragments")?));
        let cut: Vec<_> = epochs.iter().filter_map(both).filter(|(_, fragments)| *fragments > 0).collect();
        let mut kinds: Vec<_> = cut.iter().map(|(sub_epochs, _)| *sub_epochs).collect();
        kinds.sort_unstable();
        kinds.dedup();
        (kinds.len() > 1 && cut.len() > 8).then(|| cut.into_iter().unzip::<_, _, Vec<_>, Vec<_>>())
    });
    let measurement = &weir.ask("show ports")["measurement"];
    let late = ["late_epochs", "late_sub_epochs"].map(|key| measurement[key].as_u64().unwrap());
    if late == [0, 0] {
        // An epoch in the midst of which the switch started has fewer.
        let whole = |(cut, fragments): (&u64, &u64)| cut == fragments;
        assert!(sub_epochs.iter().zip(&fragments).skip(1).all(whole), "{sub_epochs:?} {fragments:?}");
    }
    let heavy = weir.ask("show heavy --last 20s --program microbursts");
    let pings = |flow: &Value| flow["flow"]["src"] == a.address() && flow["flow"]["dst"] == b.address();
    let heavy = heavy["heavy"].as_array().unwrap();
    assert!(heavy.iter().any(|flow| pings(flow) && flow["packets"].as_u64() >= Some(1)), "{heavy:?}");
    let totals = weir.stop();
    assert_eq!(totals.0["measurement"]["lost_epochs"], 0);
}

/// Two switches with other numbers of cells and other room for reports: the one with little room decides
/// alone to report fewer packets, without a controller and with one.
#[cfg(feature = "dpdk")]
#[test]
fn live_switches_decide_alone() {
    use crate::common::{Controller, Lab, Link, Weir, eventually};

    let Some(lab) = Lab::new("fourth_program::live_switches_decide_alone") else { return };
    let hosts = lab.ports(Link::Veth, 4).connect();
    let program = |own: &str| format!("--epoch 200ms --program microbursts:{own}adapt=false,depth=0,sub_epochs=1");
    let switch = |name: &str, [a, b]: [&str; 2], own: &str, more: &str| {
        let words = format!("--port a=veth:{a} --port b=veth:{b} {} {more}", program(own));
        Weir::start_binary(binary(), &lab, &lab.switch, name, &words)
    };
    let (narrow, wide) = ("slots=256,reports=4,", "slots=2048,reports=4000,");
    // More than 200 packets a second, of which 4 in an epoch find room.
    let talk = |[a, b]: [usize; 2]| assert!(hosts[a].ping(&hosts[b], "-c 60 -i 0.01 -W 1"));
    let settled = |attention: &Value, expected: &dyn Fn(&Value) -> bool| {
        let epochs = attention["epochs"].as_array()?;
        epochs.iter().any(|epoch| expected(&epoch["switches"])).then_some(())
    };
    let thins = |switches: &Value| {
        switches["narrow"]["slots"] == 256
            && switches["narrow"]["thinning"].as_u64().is_some_and(|thinning| thinning >= 2)
    };
    let alone = switch("narrow", ["p1", "p2"], narrow, "");
    hosts[0].reaches(&hosts[1]);
    eventually("the switch to decide", || {
        talk([0, 1]);
        settled(&alone.ask("show attention --last 20s"), &thins)
    });
    alone.stop();

    let controller =
        Controller::start_binary(binary(), &lab, &format!("--switch narrow --switch wide {}", program("")));
    let at = format!("--controller {}", Controller::switch_socket(&lab).display());
    let switches = [switch("narrow", ["p1", "p2"], narrow, &at), switch("wide", ["p3", "p4"], wide, &at)];
    hosts[2].reaches(&hosts[3]);
    eventually("one of two switches to decide", || {
        [[0, 1], [2, 3]].into_iter().for_each(talk);
        settled(&controller.ask("show attention --last 20s"), &|switches| {
            thins(switches) && switches["wide"] == serde_json::json!({ "slots": 2048, "thinning": 0 })
        })
    });
    let seen = controller.ask("show switches");
    // On a busy machine a record may come when its epoch has closed.
    let is_read = |switch: &Value| switch["last_refusal"].as_str().is_none_or(|why| why.ends_with("is closed"));
    assert!(seen["switches"].as_array().unwrap().iter().all(is_read), "{seen:#}");
    switches.into_iter().for_each(|switch| _ = switch.stop());
    controller.stop();
}
