//! A running switch names the flows whose packets it did not let out, with their exact numbers.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::common::{Lab, Link, eventually};

const PINGS: i64 = 20;

#[test]
fn a_port_that_is_down() {
    let Some(lab) = Lab::new("losses::down") else { return };
    let (weir, hosts) = lab.start(Link::Tap, 2, "--program chamelemon");
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    let ports = weir.ask("show ports");
    let port = ports["ports"][1]["name"].as_str().expect("a name").to_owned();
    let known = |word: &str| {
        let answer = weir.ask(&format!("show {word} --last 0s"));
        (answer["complete"] == true).then_some(answer)
    };
    let answer = eventually("an epoch of which all is known", || known("losses"));
    assert_eq!((&answer["unknown_epochs"], &answer["lost_packets"]), (&0.into(), &0.into()), "{answer:#}");

    weir.ask(&format!("port down {port}"));
    assert!(!a.ping(b, &format!("-c {PINGS} -i 0.05 -W 1")), "the port is down");
    let lost = eventually("all lost pings to be named", || {
        let answer = weir.ask("show losses --last 30s");
        let losses = answer["losses"].as_array()?.clone();
        let lost = losses.into_iter().find(|one| {
            one["flow"]["src"] == a.address() && one["flow"]["dst"] == b.address() && one["flow"]["proto"] == 1
        })?;
        (lost["packets"].as_i64() >= Some(PINGS)).then_some(lost)
    });
    assert_eq!(lost["packets"], PINGS, "{lost}");

    for word in ["flows", "changes", "cardinality", "entropy"] {
        eventually(word, || known(word));
    }
    let attention = weir.ask("show attention --last 1s");
    let newest = attention["epochs"].as_array().and_then(|epochs| epochs.last()).expect("an epoch").clone();
    assert_eq!((&newest["state"], &newest["hh_threshold_packets"]), (&"healthy".into(), &1.into()), "{newest}");
    assert_eq!(newest["update_epoch"].as_u64(), newest["epoch"].as_u64().map(|epoch| epoch + 2), "{newest}");
    weir.stop();
}

/// The client of the API in Python, as docs/json.md has it.
#[test]
fn a_client_in_python() {
    const EPOCHS: &str = "60";
    let Some(lab) = Lab::new("losses::python") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "--program chamelemon");
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    let ports = weir.ask("show ports");
    weir.ask(&format!("port down {}", ports["ports"][1]["name"].as_str().expect("a name")));
    eventually("an epoch", || weir.ask("show losses --last 0s")["last_epoch"].as_u64());

    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/python/losses.py");
    let mut python = Command::new("python3")
        .args([client, "--epochs", EPOCHS])
        .arg(lab.path("switch.sock"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    // It has asked once it has printed an epoch.
    let mut printed = BufReader::new(python.stdout.take().expect("piped"));
    let mut text = String::new();
    printed.read_line(&mut text).expect("a line");
    // Requests without an answer: not one of them leaves.
    assert!(!a.ping(b, &format!("-c {PINGS} -i 0.05 -W 1")), "the port is down");
    printed.read_to_string(&mut text).expect("UTF-8");
    assert!(python.wait().expect("it ends").success(), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains(" packets lost, ")).count().to_string(), EPOCHS, "{text}");
    let flow = format!("{}:0 > {}:0 proto 1", a.address(), b.address());
    let lost = text.lines().filter_map(|line| line.strip_suffix(&flow)?.trim().parse::<i64>().ok()).sum::<i64>();
    assert_eq!(lost, PINGS, "{text}");
    weir.stop();
}
