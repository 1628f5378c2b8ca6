//! Switches that are stopped for a while and go on: packets are late by epochs, none is lost, and
//! no answer that is called complete says so when it is given. Answers are followed and polled while
//! switches stop, and kept: what is final changes with an amendment alone.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir::answers::{Claimed, Losses};
use weir::api::client::Client;

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
    /// Milliseconds that a packet may be late without being lost.
    horizon: u64,
}

/// The default epoch, and pauses that are longer.
const STOPS: Stops = Stops {
    epoch: "67108864ns",
    timeout: "67108864ns",
    telemetry_header: "shim",
    middle: false,
    lengths: &[100],
    run: 400,
    horizon: 134,
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

/// Answers as clients were given them.
#[derive(Default)]
struct Given {
    /// By epoch, each document of one epoch that was published, in order.
    followed: BTreeMap<u64, Vec<Claimed<Losses>>>,
    /// Documents over the last second.
    polled: Vec<Claimed<Losses>>,
    /// Time from the end of an epoch to its final answer, in milliseconds.
    waited: Vec<f64>,
}

/// Follows and polls the controller until the flag is set, as `weir show losses --each` and `--last
/// 1s` do.
fn follow(client: Client, stop: Arc<AtomicBool>) -> JoinHandle<Given> {
    thread::spawn(move || {
        let ask = |query: &str| -> Claimed<Losses> {
            client.get(&format!("/v1/losses?top=100&threshold=1&{query}")).expect("the controller answers")
        };
        let mut given = Given::default();
        let mut sequence = ask("seconds=0").claim.sequence;
        let mut polled = Instant::now();
        loop {
            let next = ask(&format!("since={sequence}"));
            if polled.elapsed() > Duration::from_millis(50) {
                polled = Instant::now();
                given.polled.push(ask("seconds=1"));
            }
            let Some(epoch) = next.claim.last_epoch else {
                if stop.load(Relaxed) {
                    return given;
                }
                sleep(Duration::from_millis(10));
                continue;
            };
            sequence = next.claim.sequence;
            if next.claim.amendments == 0 {
                let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as f64;
                given.waited.push((now - (epoch + 1) as f64 * next.claim.epoch_ns as f64) / 1e6);
            }
            given.followed.entry(epoch).or_default().push(next);
        }
    })
}

impl Given {
    /// Every final answer is right by its definition: in the newest version of a document that is called
    /// complete, packets that are lost and were not dropped are counted as late. Every change has an
    /// amendment. Returns the number of complete answers.
    fn check(&self, dropped: u64, below_horizon: bool) -> usize {
        let mut complete = 0;
        let mut lost = 0;
        for (epoch, documents) in &self.followed {
            for document in documents {
                let losses = document.lost_packets + document.gained_packets;
                assert!(document.claim.is_final, "epoch {epoch} is given before it is final");
                assert!(
                    !document.claim.complete || !below_horizon || losses == 0 || dropped > 0,
                    "epoch {epoch} names losses: {document:#?}"
                );
            }
            for pair in documents.windows(2) {
                assert!(pair[1].claim.amendments > pair[0].claim.amendments, "epoch {epoch} changed: {pair:#?}");
                assert_eq!((pair[0].lost_packets, &pair[0].losses), (pair[1].lost_packets, &pair[1].losses));
            }
            let newest = documents.last().expect("one at least");
            if newest.claim.complete {
                complete += 1;
                lost += newest.lost_packets.saturating_sub(newest.late_packets);
            }
        }
        assert!(lost <= dropped, "{lost} lost of {dropped} dropped: {:#?}", self.followed);
        for document in self.polled.iter().filter(|document| document.claim.complete && below_horizon) {
            assert!(document.lost_packets == 0 || dropped > 0, "polled: {document:#?}");
        }
        complete
    }

    fn waited(&self) -> String {
        let mut waited = self.waited.clone();
        waited.sort_by(f64::total_cmp);
        let at = |share: f64| waited.get((waited.len() as f64 * share) as usize).copied().unwrap_or_default();
        format!("final after {:.0} ms (p50), {:.0} ms (p99)", at(0.5), at(0.99))
    }
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
    let stop = Arc::new(AtomicBool::new(false));
    let follower = follow(Client::connect(lab.path("network.sock")).unwrap(), stop.clone());
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
    // On a busy machine a switch also stands still by itself, and after the pauses too.
    let all = eventually("what was late to be told, and a whole epoch", || {
        let all: Vec<_> = epochs(&client).into_iter().filter(|epoch| epoch.claim.last_epoch > Some(first)).collect();
        (newest() > ended + 8 && all.iter().any(|epoch| epoch.claim.complete)).then_some(all)
    });

    let lost = line.dropped() - before;
    let (complete, incomplete): (Vec<_>, Vec<_>) = all.iter().partition(|epoch| epoch.claim.complete);
    let told: u64 = complete.iter().map(|epoch| epoch.lost_packets.saturating_sub(epoch.late_packets)).sum();
    let wrong =
        |epoch: &&&Claimed<Losses>| epoch.gained_packets > 0 || (lost == 0 && epoch.lost_packets > epoch.late_packets);
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
    let late = incomplete.iter().flat_map(|epoch| &epoch.claim.gaps).any(|gap| gap.gap.contains("left too late"));
    assert!(late, "packets were late: {incomplete:#?}");
    stop.store(true, Relaxed);
    let given = follower.join().expect("the follower");
    let below_horizon = stops.lengths.iter().all(|length| *length < stops.horizon);
    let answered = given.check(lost.unsigned_abs(), below_horizon);
    eprintln!(
        "{name}: {answered} complete answers followed of {}, {} polled; {}",
        given.followed.len(),
        given.polled.len(),
        given.waited()
    );
    assert!(answered > 0, "no complete answer was given");
    line.stop();
}

#[test]
fn paused_switches_lose_no_packets() {
    stop_and_go("paused_switches_lose_no_packets", &STOPS);
}

/// Pauses below and above the horizon: edges that measure say what they held back.
#[test]
fn pauses_of_edges_around_the_horizon() {
    stop_and_go("pauses_of_edges_around_the_horizon", &Stops { lengths: &[30, 500, 70, 300, 134, 200], ..STOPS });
}

/// A switch that measures nothing holds packets back, for less than the horizon and for longer, and
/// the edges go on.
#[test]
fn a_silent_switch_around_the_horizon() {
    let lengths = &[30, 500, 70, 300, 110, 200];
    stop_and_go("a_silent_switch_around_the_horizon", &Stops { middle: true, lengths, ..STOPS });
}

/// Less than the horizon: no answer that is complete names a loss.
#[test]
fn a_silent_switch_below_the_horizon() {
    stop_and_go("a_silent_switch_below_the_horizon", &Stops { middle: true, lengths: &[30, 60, 100, 120], ..STOPS });
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
        &Stops { epoch: "200ms", timeout: "200ms", lengths: &[300], run: 1100, horizon: 400, ..STOPS },
    );
}

/// One bit does not tell a packet's epoch from the one two later, so the switch that stood still
/// has to. Its records are waited for.
#[test]
fn paused_switches_with_one_bit() {
    let stops = Stops { telemetry_header: "dscp", timeout: "500ms", lengths: &[134, 134, 100, 100], ..STOPS };
    stop_and_go("paused_switches_with_one_bit", &stops);
}
