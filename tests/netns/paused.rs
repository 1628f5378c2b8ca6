//! Switches that are stopped for a while and go on: packets are late by epochs, none is lost, and
//! no answer that is called complete says so.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use weir::api::client::Client;
use weir::api::view::{Claimed, Losses};

use crate::common::{Controller, Host, Lab, Link, Namespace, Weir, eventually};

/// Of every test; `WEIR_PAUSES=50` for a longer run.
fn pauses() -> u32 {
    std::env::var("WEIR_PAUSES").ok().and_then(|pauses| pauses.parse().ok()).unwrap_or(4)
}

/// Two edges, each with a host, that are joined by a link or by a switch that measures nothing.
struct Line {
    near: Weir,
    middle: Option<Weir>,
    far: Weir,
    controller: Controller,
    hosts: Vec<Host>,
}

/// What they have in common, and who is stopped for how long.
struct Stops {
    epoch: &'static str,
    /// How long the controller waits for records.
    timeout: &'static str,
    telemetry_header: &'static str,
    middle: bool,
    /// Of the pauses and between two of them, in milliseconds.
    lengths: &'static [u64],
    run: u64,
}

/// The default epoch, and pauses that are longer.
const STOPS: Stops = Stops {
    epoch: "67108864ns",
    timeout: "67108864ns",
    telemetry_header: "shim",
    middle: false,
    lengths: &[100],
    run: 400,
};

/// A link between two switches, `a` and `b`.
fn link((a, from): (&Namespace, &str), (b, to): (&Namespace, &str)) {
    a.run(&format!("ip link add {from} mtu 1600 type veth peer name {to} mtu 1600 netns {}", b.id()));
    a.run(&format!("ip link set {from} up"));
    b.run(&format!("ip link set {to} up"));
}

impl Line {
    fn new(lab: &Lab, stops: &Stops) -> Self {
        let ports = lab.ports(Link::Veth, 2);
        let beyond = lab.switch.sibling();
        lab.switch.run(&format!("ip link set p2 netns {}", beyond.id()));
        beyond.run("ip link set p2 up");
        let between = stops.middle.then(|| lab.switch.sibling());
        match &between {
            None => link((&lab.switch, "f1"), (&beyond, "f2")),
            Some(between) => {
                link((&lab.switch, "f1"), (between, "m1"));
                link((between, "m2"), (&beyond, "f2"));
            }
        }
        let hosts = ports.connect();
        let Stops { epoch, timeout, telemetry_header, .. } = stops;
        let agreed = format!(
            "--epoch {epoch} --record-timeout {timeout} --telemetry-header {telemetry_header} --switch near --switch far"
        );
        let controller = Controller::start(lab, &agreed);
        let at = Controller::switch_socket(lab);
        let measures = format!("[[program]]\nname = \"chamelemon\"\n[controller]\nat = \"{}\"\n", at.display());
        let fabric = |interface: &str| port(interface, "role = \"fabric\"\nmtu = 1600");
        let start = |space: &Namespace, name: &str, rest: [String; 3]| {
            let file =
                format!("[switch]\nepoch = \"{epoch}\"\ntelemetry_header = \"{telemetry_header}\"\n{}", rest.concat());
            fs::write(lab.path(&format!("{name}.toml")), file).unwrap();
            Weir::start(lab, space, name, &format!("--config {name}.toml"))
        };
        let line = Self {
            near: start(&lab.switch, "near", [port("p1", ""), fabric("f1"), measures.clone()]),
            middle: between.map(|space| start(&space, "middle", [fabric("m1"), fabric("m2"), String::new()])),
            far: start(&beyond, "far", [port("p2", ""), fabric("f2"), measures]),
            controller,
            hosts,
        };
        line.hosts[0].reaches(&line.hosts[1]);
        line
    }

    /// Packets that switches or their devices have dropped.
    fn dropped(&self) -> i64 {
        [Some(&self.near), self.middle.as_ref(), Some(&self.far)].into_iter().flatten().map(dropped).sum()
    }

    /// Those that are stopped in turn.
    fn stopped(&self) -> Vec<&Weir> {
        self.middle.as_ref().map_or(vec![&self.near, &self.far], |middle| vec![middle])
    }

    fn stop(self) {
        self.near.stop();
        self.middle.map(Weir::stop);
        self.far.stop();
        self.controller.stop();
    }
}

fn port(interface: &str, rest: &str) -> String {
    format!("[[port]]\nname = \"{interface}\"\ndev = \"veth:{interface}\"\n{rest}\n")
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
fn epochs(client: &Client) -> Vec<Claimed<Losses>> {
    let mut epochs: Vec<Claimed<Losses>> = Vec::new();
    loop {
        let after = epochs.last().and_then(|epoch| epoch.claim.last_epoch).unwrap_or(0);
        let next: Claimed<Losses> =
            client.get(&format!("/v1/losses?top=100&threshold=1&after={after}")).expect("the controller");
        if next.claim.last_epoch.is_none() {
            return epochs;
        }
        epochs.push(next);
    }
}

/// Stops switches while packets pass, and holds all answers that are called complete against what
/// was dropped.
fn stop_and_go(name: &str, stops: &Stops) {
    let Some(lab) = Lab::new(name) else { return };
    let line = Line::new(&lab, stops);
    let client = Client::connect(lab.path("network.sock")).unwrap();
    let newest = || epochs(&client).last().and_then(|epoch| epoch.claim.last_epoch).unwrap_or(0);
    eventually("an epoch of which all is known", || {
        epochs(&client).last().is_some_and(|epoch| epoch.claim.complete).then_some(())
    });

    let (first, before) = (newest(), line.dropped());
    let run = Duration::from_millis(stops.run);
    let lengths: Vec<_> = stops.lengths.iter().map(|length| Duration::from_millis(*length)).collect();
    let lengths: Vec<_> = lengths.iter().cycle().take(pauses() as usize).collect();
    let lasts = lengths.iter().map(|length| **length + run).sum::<Duration>() + Duration::from_secs(1);
    let mut ping = line.hosts[0].space.command("ping");
    ping.args(["-n", "-q", "-i", "0.002", "-w", &format!("{:.0}", lasts.as_secs_f64()), &line.hosts[1].address()]);
    let ping = ping.stdout(Stdio::piped()).spawn().expect("ping runs");
    let stopped = line.stopped();
    for (length, weir) in lengths.into_iter().zip(stopped.iter().cycle()) {
        sleep(run);
        signal(weir, "STOP");
        sleep(*length);
        signal(weir, "CONT");
    }
    let said = String::from_utf8(ping.wait_with_output().expect("ping ends").stdout).unwrap();
    let ended = newest();
    eventually("what was late to be told", || (newest() > ended + 8).then_some(()));

    let lost = line.dropped() - before;
    let all: Vec<_> = epochs(&client).into_iter().filter(|epoch| epoch.claim.last_epoch > Some(first)).collect();
    let (complete, incomplete): (Vec<_>, Vec<_>) = all.iter().partition(|epoch| epoch.claim.complete);
    let told: u64 = complete.iter().map(|epoch| epoch.lost_packets).sum();
    let wrong = |epoch: &&&Claimed<Losses>| epoch.gained_packets > 0 || (lost == 0 && !epoch.losses.is_empty());
    let wrong: Vec<_> = complete.iter().filter(wrong).collect();
    eprintln!(
        "{name}, {} pauses of {:?} ms: {} epochs complete, {} not, {} wrong; {lost} packets dropped",
        pauses(),
        stops.lengths,
        complete.len(),
        incomplete.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}\n{said}");
    assert!(told <= lost.unsigned_abs(), "{told} of {lost}: {complete:#?}\n{said}");
    assert!(!complete.is_empty(), "some epochs are whole: {incomplete:#?}");
    let late = incomplete.iter().flat_map(|epoch| &epoch.claim.gaps).any(|gap| gap.gap.contains("left too late"));
    assert!(late, "packets were late: {incomplete:#?}");
    line.stop();
}

#[test]
fn paused_switches_lose_no_packets() {
    stop_and_go("paused_switches_lose_no_packets", &STOPS);
}

/// A switch that measures nothing holds packets back, and the edges go on.
#[test]
fn a_switch_in_the_middle_stands_still() {
    stop_and_go("a_switch_in_the_middle_stands_still", &Stops { middle: true, lengths: &[100, 150, 200], ..STOPS });
}

#[test]
fn pauses_longer_than_long_epochs() {
    stop_and_go(
        "pauses_longer_than_long_epochs",
        &Stops { epoch: "200ms", timeout: "200ms", lengths: &[300], run: 1100, ..STOPS },
    );
}

/// One bit does not tell a packet's epoch from the one two later, so the switch that stood still
/// has to. Its records are waited for.
#[test]
fn paused_switches_with_one_bit() {
    let stops = Stops { telemetry_header: "dscp", timeout: "500ms", lengths: &[134, 134, 100, 100], ..STOPS };
    stop_and_go("paused_switches_with_one_bit", &stops);
}
