//! Three switches in a row, each with three programs, and one controller: the switch in the middle
//! has no host and reports all the same. Losses are exact, no packet is counted twice, paths are
//! known, and hosts see nothing of what switches tell each other.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::common::{Controller, Host, Lab, Link, Listener, Namespace, Weir, eventually};

/// Long enough for a machine that does other things as well.
const EPOCH: &str = "250ms";
const TRANSIT: &str = "60ms";
const EPOCH_NS: u128 = 250_000_000;
/// How often traffic is tried again when the machine was too busy to measure each epoch whole.
const ROUNDS: usize = 6;
const PINGS: i64 = 100;
/// Of PINT, in 16 bits of each packet: the controller says so, and switches follow.
const QUERIES: &str =
    "path:bits=8+latency:bits=8:frequency=7/8+utilisation:bits=8:frequency=1/8:rate=40Mbps:period=100ms";
const PROGRAMS: &str = "[[program]]\nname = \"chamelemon\"\n[[program]]\nname = \"hashpipe\"\nscope = \"network\"\nslots = 512\n\
                        [[program]]\nname = \"pint\"\n";

struct Network {
    lab: Lab,
    hosts: Vec<Host>,
    middle: Namespace,
    beyond: Namespace,
}

impl Network {
    fn new(test: &str) -> Option<Self> {
        let lab = Lab::new(test)?;
        let ports = lab.ports(Link::Veth, 2);
        let (middle, beyond) = (lab.switch.sibling(), lab.switch.sibling());
        lab.switch.run(&format!("ip link set p2 netns {}", beyond.id()));
        beyond.run("ip link set p2 up");
        // Larger than the hosts' links by the shim, so that full packets carry it too.
        let joined = |near: &Namespace, a: &str, far: &Namespace, b: &str| {
            near.run(&format!("ip link add {a} mtu 1600 type veth peer name {b} mtu 1600 netns {}", far.id()));
            near.run(&format!("ip link set {a} up"));
            far.run(&format!("ip link set {b} up"));
        };
        joined(&lab.switch, "f1", &middle, "f2");
        joined(&middle, "g1", &beyond, "g2");
        let hosts = ports.connect();
        Some(Self { lab, hosts, middle, beyond })
    }

    /// Ports are given as name, interface, role and fault.
    fn switch(&self, name: &str, space: &Namespace, core: usize, ports: &[[&str; 4]]) -> Weir {
        let port = |[name, interface, role, fault]: &[&str; 4]| {
            let mtu = if *role == "fabric" { 1600 } else { 1500 };
            format!("[[port]]\nname = \"{name}\"\ndev = \"veth:{interface}\"\nrole = \"{role}\"\nmtu = {mtu}\n")
                + &if fault.is_empty() { String::new() } else { format!("fault = \"{fault}\"\n") }
        };
        let ports: String = ports.iter().map(port).collect();
        let at = Controller::switch_socket(&self.lab);
        let file = format!(
            "[switch]\nepoch = \"{EPOCH}\"\ntransit = \"{TRANSIT}\"\ncores = [{core}]\n{ports}{PROGRAMS}[controller]\nat = \"{}\"\n",
            at.display()
        );
        fs::write(self.lab.path(&format!("{name}.toml")), file).unwrap();
        Weir::start(&self.lab, space, name, &format!("-vv --config {name}.toml"))
    }

    fn switches(&self) -> [Weir; 3] {
        let last = usize::from(std::thread::available_parallelism().map_or(1, |cores| cores.get()) > 1);
        let fault = "tx:drop=20%,seed=7,proto=icmp,src=10.0.0.1";
        let other = "tx:drop=10%,seed=3,proto=icmp,src=10.0.0.1";
        [
            self.switch("near", &self.lab.switch, 0, &[["host", "p1", "host", ""], ["lossy", "f1", "fabric", fault]]),
            self.switch("core", &self.middle, last, &[["left", "f2", "fabric", ""], ["lossy", "g1", "fabric", other]]),
            self.switch("far", &self.beyond, last, &[["host", "p2", "host", ""], ["fabric", "g2", "fabric", ""]]),
        ]
    }
}

fn running_epoch() -> u64 {
    (SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() / EPOCH_NS) as u64
}

/// Waits until the epoch that is running now has been answered by both programs.
fn epochs_close(controller: &Controller) {
    let last = running_epoch();
    eventually("the epochs to close", || {
        let newest = |words: &str| controller.ask(words)["last_epoch"].as_u64().unwrap_or(0);
        let both = ["show losses --last 0s", "show flows --program hashpipe --last 0s"].map(newest);
        both.iter().all(|newest| *newest > last).then_some(())
    });
}

fn until_known(controller: &Controller) {
    eventually("two epochs of which all is known", || {
        let losses = controller.ask("show losses --last 500ms");
        let flows = controller.ask("show flows --program hashpipe --last 500ms");
        (losses["complete"] == true && flows["gaps"] == json!([])).then_some(())
    });
}

/// Packets that faults of a switch's link have dropped.
fn dropped(weir: &Weir) -> i64 {
    let ports = weir.ask("show ports");
    let lossy = ports["ports"].as_array().unwrap().iter().find(|port| port["name"] == "lossy").unwrap();
    lossy["device"]["fault_drop"].as_i64().unwrap_or(0)
}

/// The packets that documents of epochs tell of the pings from one host to another.
fn pings(epochs: &[Value], list: &str, from: &Host, to: &Host) -> i64 {
    let flows = epochs.iter().flat_map(|epoch| epoch[list].as_array().unwrap());
    let of = |one: &&Value| {
        let flow = &one["flow"];
        flow["src"] == from.address() && flow["dst"] == to.address() && flow["proto"] == 1
    };
    flows.filter(of).map(|one| one["packets"].as_i64().unwrap()).sum()
}

/// What a table says of the pings from a host.
fn of_pings<'a>(table: &'a Value, from: &Host) -> Option<&'a Value> {
    let is_its = |one: &&Value| one["flow"]["src"] == from.address() && one["flow"]["proto"] == 1;
    table.as_array()?.iter().find(is_its)
}

#[test]
fn three_programs_measure_together() {
    let Some(network) = Network::new("three_programs_measure_together") else { return };
    let expected = "--switch near --switch core --switch far --program chamelemon";
    let program = format!("--program hashpipe:scope=network,slots=512 --program pint:queries={QUERIES}");
    let controller = Controller::start(
        &network.lab,
        &format!("{expected} {program} --epoch {EPOCH} --transit {TRANSIT} --record-timeout 2s -vv"),
    );
    let [near, core, far] = network.switches();
    let [host1, host2] = &network.hosts[..] else { unreachable!("two hosts") };
    host1.reaches(host2);
    let listeners = [host1, host2].map(|host| Listener::start(&host.space, &host.interface()));

    let known = (0..ROUNDS).any(|_| {
        until_known(&controller);
        epochs_close(&controller);
        let before = [dropped(&near), dropped(&core)];
        let losses = controller.follow("show losses --each --top 1000");
        let flows = controller.follow("show flows --program hashpipe --each --top 1000");
        epochs_close(&controller);
        host1.space.try_run(&format!("ping -n -q -i 0.02 -W 1 -c {PINGS} {}", host2.address()));
        epochs_close(&controller);
        let lost = [dropped(&near) - before[0], dropped(&core) - before[1]];
        let (losses, flows) = (losses.stop(), flows.stop());
        assert!(lost.iter().all(|lost| *lost > 0) && losses.len() > 4, "{lost:?}");
        if losses.iter().any(|epoch| epoch["complete"] != true) || flows.iter().any(|epoch| epoch["gaps"] != json!([]))
        {
            eprintln!("a busy machine: {:?}", losses.iter().map(|epoch| &epoch["gaps"]).collect::<Vec<_>>());
            return false;
        }
        // Each ping crosses three switches, and is counted by the first of them.
        let lost: i64 = lost.iter().sum();
        assert_eq!(pings(&losses, "losses", host1, host2), lost, "{losses:#?}");
        assert_eq!(pings(&losses, "losses", host2, host1), 0, "{losses:#?}");
        assert_eq!(pings(&flows, "heavy", host1, host2), PINGS, "{flows:#?}");
        assert_eq!(pings(&flows, "heavy", host2, host1), PINGS - lost, "{flows:#?}");
        true
    });
    assert!(known, "the machine is too busy");
    eventually("the path to be sure", || {
        let paths = controller.ask("show paths --last 60s --top 1000");
        let path = of_pings(&paths["paths"], host1).filter(|path| path["certainty"] == "sure");
        let Some(path) = path else {
            host1.space.try_run(&format!("ping -n -q -i 0.02 -W 1 -c {PINGS} {}", host2.address()));
            return None;
        };
        assert_eq!(path["switches"], json!(["near", "core", "far"]));
        Some(())
    });
    eventually("the times in each switch, and the busiest link", || {
        host1.space.try_run(&format!("ping -n -q -i 0.02 -W 1 -c {PINGS} {}", host2.address()));
        let latency = controller.ask("show latency --last 60s --top 1000");
        let hops = of_pings(&latency["latencies"], host1)?["hops"].as_array()?.clone();
        let utilisation = controller.ask("show utilisation --last 60s --top 1000");
        let busiest = of_pings(&utilisation["utilisations"], host1)?["max_utilisation"].as_f64()?;
        let known =
            |hop: &Value| hop["samples"].as_u64() >= Some(10) && hop["p99_ns"].as_u64() >= hop["p50_ns"].as_u64();
        if hops.len() != 3 || !hops.iter().all(known) {
            return None;
        }
        let names: Vec<_> = hops.iter().map(|hop| hop["switch"].clone()).collect();
        assert_eq!(names, ["near", "core", "far"]);
        // 50 pings a second of 98 bytes are a thousandth of the link's rate.
        assert!((0.0..0.1).contains(&busiest), "{utilisation}");
        Some(())
    });
    for seen in listeners.map(Listener::stop) {
        // Each IPv4 packet is a ping as its host sent it.
        let lengths = seen["0800"].as_object().unwrap();
        assert_eq!(lengths.keys().collect::<Vec<_>>(), ["98"], "{seen}");
        assert!(lengths["98"].as_i64() > Some(PINGS), "{seen}");
    }

    for program in ["chamelemon", "hashpipe"] {
        assert_eq!(controller.ask(&format!("show heavy --program {program}"))["program"], program);
    }
    let refused = controller.try_ask("show losses --program hashpipe");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let switches = controller.ask("show switches");
    for switch in switches["switches"].as_array().unwrap() {
        assert_eq!(
            (&switch["connected"], &switch["programs"]),
            (&true.into(), &json!(["chamelemon", "hashpipe", "pint"]))
        );
    }
    let top = controller.ask("top --once");
    assert!(top["losses"].is_object() && top["heavy"].is_object(), "{top}");
    let link = core.ask("show controller");
    assert_eq!((&link["connected"], &link["programs"][1]["program"]), (&true.into(), &"hashpipe".into()), "{link}");
    assert_eq!(core.try_ask("show heavy").status.code(), Some(2), "the controller answers");
    for weir in [near, core, far] {
        weir.stop();
    }
    controller.stop();
}
