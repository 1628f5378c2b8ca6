//! Switches that are stopped for a while and go on, at the default epoch and transit time: packets are late by epochs, none is lost,
//! and no answer that is called complete says so.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use weir::control::client::Client;
use weir::control::view::Losses;

use crate::common::{Controller, Lab, Link, Namespace, Weir, eventually};

/// Longer than an epoch and its transit time.
const PAUSE: Duration = Duration::from_millis(100);
/// Between two pauses.
const RUN: Duration = Duration::from_millis(400);

/// `WEIR_PAUSES=50` for a longer run.
fn pauses() -> u32 {
    std::env::var("WEIR_PAUSES").ok().and_then(|pauses| pauses.parse().ok()).unwrap_or(8)
}

fn edge(lab: &Lab, space: &Namespace, name: &str, host: &str, fabric: &str) -> Weir {
    let file = format!(
        "[[port]]\nname = \"host\"\ndev = \"veth:{host}\"\n\
         [[port]]\nname = \"fabric\"\ndev = \"veth:{fabric}\"\nrole = \"fabric\"\nmtu = 1600\n\
         [[program]]\nname = \"chamelemon\"\n[controller]\nat = \"{}\"\n",
        Controller::switch_socket(lab).display()
    );
    fs::write(lab.path(&format!("{name}.toml")), file).unwrap();
    Weir::start(lab, space, name, &format!("--config {name}.toml"))
}

fn signal(weir: &Weir, signal: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", weir.process())]).status();
    assert!(sent.expect("sh runs").success());
}

/// Packets that a switch or its devices have dropped.
fn dropped(weir: &Weir) -> i64 {
    let ports = weir.ask("show ports");
    let devices =
        ports["ports"].as_array().unwrap().iter().flat_map(|port| port["device"].as_object().unwrap().values());
    ports["packets"]["dropped_packets"].as_i64().unwrap() + devices.filter_map(Value::as_i64).sum::<i64>()
}

/// The answers of all epochs that are kept, as they are told now.
fn epochs(client: &Client) -> Vec<Losses> {
    let mut epochs: Vec<Losses> = Vec::new();
    loop {
        let after = epochs.last().and_then(|epoch| epoch.covered.last_epoch).unwrap_or(0);
        let next: Losses =
            client.get(&format!("/v1/losses?top=100&threshold=1&after={after}")).expect("the controller");
        if next.covered.last_epoch.is_none() {
            return epochs;
        }
        epochs.push(next);
    }
}

#[test]
fn paused_switches_lose_no_packets() {
    let Some(lab) = Lab::new("paused_switches_lose_no_packets") else { return };
    let ports = lab.ports(Link::Veth, 2);
    let beyond = lab.switch.sibling();
    lab.switch.run(&format!("ip link set p2 netns {}", beyond.id()));
    beyond.run("ip link set p2 up");
    lab.switch.run(&format!("ip link add f1 mtu 1600 type veth peer name f2 mtu 1600 netns {}", beyond.id()));
    lab.switch.run("ip link set f1 up");
    beyond.run("ip link set f2 up");
    let hosts = ports.connect();
    let controller = Controller::start(&lab, "--switch near --switch far");
    let near = edge(&lab, &lab.switch, "near", "p1", "f1");
    let far = edge(&lab, &beyond, "far", "p2", "f2");
    hosts[0].reaches(&hosts[1]);
    let client = Client::connect(lab.path("network.sock")).unwrap();
    let newest = || epochs(&client).last().and_then(|epoch| epoch.covered.last_epoch).unwrap_or(0);
    eventually("an epoch of which all is known", || {
        epochs(&client).last().is_some_and(|epoch| epoch.covered.complete).then_some(())
    });

    let (first, before) = (newest(), dropped(&near) + dropped(&far));
    let seconds = (PAUSE + RUN).as_secs_f64() * f64::from(pauses()) + 1.0;
    let mut ping = hosts[0].space.command("ping");
    ping.args(["-n", "-q", "-i", "0.002", "-w", &format!("{seconds:.0}"), &hosts[1].address()]);
    let ping = ping.stdout(Stdio::piped()).spawn().expect("ping runs");
    for pause in 0..pauses() {
        let weir = [&near, &far][pause as usize % 2];
        sleep(RUN);
        signal(weir, "STOP");
        sleep(PAUSE);
        signal(weir, "CONT");
    }
    let said = String::from_utf8(ping.wait_with_output().expect("ping ends").stdout).unwrap();
    let ended = newest();
    eventually("what was late to be told", || (newest() > ended + 8).then_some(()));

    let lost = dropped(&near) + dropped(&far) - before;
    let all: Vec<_> = epochs(&client).into_iter().filter(|epoch| epoch.covered.last_epoch > Some(first)).collect();
    let (complete, incomplete): (Vec<_>, Vec<_>) = all.iter().partition(|epoch| epoch.covered.complete);
    let told: u64 = complete.iter().map(|epoch| epoch.lost_packets).sum();
    let wrong = |epoch: &&&Losses| epoch.gained_packets > 0 || (lost == 0 && !epoch.losses.is_empty());
    let wrong: Vec<_> = complete.iter().filter(wrong).collect();
    eprintln!(
        "{} pauses of {PAUSE:?}: {} epochs complete, {} not, {} wrong; {lost} packets dropped",
        pauses(),
        complete.len(),
        incomplete.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}\n{said}");
    assert!(told <= lost.unsigned_abs(), "{told} of {lost}: {complete:#?}\n{said}");
    let late = incomplete.iter().flat_map(|epoch| &epoch.covered.gaps).any(|gap| gap.gap.contains("left too late"));
    assert!(late, "packets were late: {incomplete:#?}");
    assert!(!complete.is_empty(), "some epochs are whole: {incomplete:#?}");
    near.stop();
    far.stop();
    controller.stop();
}
