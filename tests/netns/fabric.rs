//! A corner of a fat tree: two leaves, two spines or more, and routes with as many gateways. Flows between the
//! same hosts take different ways, and the controller names the way of each, also where all of them
//! are one flow to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};

use crate::common::{Controller, Lab, Listener, Namespace, Weir, eventually};

const EPOCH: &str = "250ms";
const TRANSIT: &str = "60ms";
/// The two leaves, and as many spines as a fabric can have.
const NAMES: [&str; 5] = ["leaf1", "leaf2", "spine1", "spine2", "spine3"];
const LEAVES: usize = 2;
const FLOWS: u64 = 16;
const FIRST_PORT: u64 = 40_000;

/// Sends packets of all flows in turns.
const SENDER: &str = "\
import socket, sys, time
flows = []
for port in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
    flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flow.bind(('10.0.1.9', port))
    flows.append(flow)
for _ in range(60):
    for flow in flows:
        flow.sendto(b'x' * 64, ('10.0.2.9', 9))
    time.sleep(0.01)
";

pub struct Fabric {
    pub lab: Lab,
    /// Of the switches, in the order of their names, without the first, which is in the lab's own.
    spaces: Vec<Namespace>,
    pub hosts: [Namespace; LEAVES],
}

impl Fabric {
    pub fn new(test: &str, spines: usize) -> Option<Self> {
        let lab = Lab::new(test)?;
        let spaces = (1..LEAVES + spines).map(|_| lab.switch.sibling()).collect();
        let hosts = [(); LEAVES].map(|()| lab.switch.sibling());
        let fabric = Self { lab, spaces, hosts };
        for (leaf, name) in NAMES.iter().enumerate().take(LEAVES) {
            for (spine, far) in fabric.names().iter().enumerate().skip(LEAVES) {
                let (up, down) = (format!("to{far}"), format!("to{name}"));
                let far = fabric.space(spine);
                // Links between switches have room for the shim beside full packets.
                let link = format!("ip link add {up} mtu 1600 type veth peer name {down} mtu 1600");
                fabric.space(leaf).run(&format!("{link} netns {}", far.id()));
                fabric.space(leaf).run(&format!("ip link set {up} up"));
                far.run(&format!("ip link set {down} up"));
            }
            let (host, number) = (&fabric.hosts[leaf], leaf + 1);
            fabric.space(leaf).run(&format!("ip link add host type veth peer name eth0 netns {}", host.id()));
            fabric.space(leaf).run("ip link set host up");
            host.run(&format!("ip addr add 10.0.{number}.9/24 dev eth0"));
            host.run("ip link set eth0 up");
            host.run(&format!("ip route add default via 10.0.{number}.1"));
        }
        Some(fabric)
    }

    /// Of the switches.
    pub fn names(&self) -> &'static [&'static str] {
        &NAMES[..=self.spaces.len()]
    }

    fn space(&self, switch: usize) -> &Namespace {
        if switch == 0 { &self.lab.switch } else { &self.spaces[switch - 1] }
    }

    fn switches(&self) -> Vec<Weir> {
        // What crossed a spine by its own counts is the truth about it.
        self.switches_with(|_| "[[program]]\nname = \"pint\"\n[[program]]\nname = \"hashpipe\"\n".into())
    }

    /// The network between a leaf and a spine is 10.LEAF.SPINE.0/24; the leaf is 1 there, the spine
    /// 2. `programs` are those of a switch by its number.
    pub fn switches_with(&self, programs: impl Fn(usize) -> String) -> Vec<Weir> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let at = Controller::switch_socket(&self.lab);
        let port = |interface: &str, more: &str| {
            format!("[[port]]\nname = \"{interface}\"\ndev = \"veth:{interface}\"\n{more}\n")
        };
        let fabric = |to: usize, address: String| {
            let more = format!("role = \"fabric\"\naddresses = [\"{address}/24\"]");
            port(&format!("to{}", NAMES[to]), &more)
        };
        let leaf = |leaf: usize| {
            let (own, other) = (leaf + 1, 2 - leaf);
            let host = port("host", &format!("addresses = [\"10.0.{own}.1/24\"]"));
            let spines = LEAVES..self.names().len();
            let links: String =
                spines.clone().map(|spine| fabric(spine, format!("10.{own}.{}.1", spine - 1))).collect();
            let via: Vec<_> = spines.map(|spine| format!("10.{own}.{}.2", spine - 1)).collect();
            format!("{host}{links}[[route]]\nprefix = \"10.0.{other}.0/24\"\nvia = {via:?}\n")
        };
        let spine = |spine: usize| {
            let own = spine - 1;
            let links = [0, 1].map(|leaf| fabric(leaf, format!("10.{}.{own}.2", leaf + 1))).concat();
            let route = |leaf| format!("[[route]]\nprefix = \"10.0.{leaf}.0/24\"\nvia = [\"10.{leaf}.{own}.1\"]\n");
            links + &[1, 2].map(route).concat()
        };
        let switch = |number: usize| {
            let ports = if number < LEAVES { leaf(number) } else { spine(number) };
            let times = format!("epoch = \"{EPOCH}\"\ntransit = \"{TRANSIT}\"\ncores = [{}]", number % cores);
            let programs = programs(number);
            let controller = format!("[controller]\nat = \"{}\"\n", at.display());
            let file = format!("[switch]\nforward = \"route\"\n{times}\n{ports}{programs}{controller}");
            let name = NAMES[number];
            fs::write(self.lab.path(&format!("{name}.toml")), file).unwrap();
            Weir::start(&self.lab, self.space(number), name, &format!("-vv --config {name}.toml"))
        };
        (0..self.names().len()).map(switch).collect()
    }

    /// Hosts can reach each other.
    pub fn is_connected(&self) {
        eventually("the far host to be reached", || {
            self.hosts[0].succeeds("ping -n -q -i 0.1 -W 1 -c 3 10.0.2.9").then_some(())
        });
    }

    /// A controller with these programs, of all switches, and these options.
    pub fn controller(&self, programs: &str, options: &str) -> Controller {
        let expected: String = self.names().iter().map(|name| format!("--switch {name} ")).collect();
        let programs = programs.split(' ').map(|program| format!("--program {program} ")).collect::<String>();
        let times = format!("--epoch {EPOCH} --transit {TRANSIT} --record-timeout 2s -vv");
        Controller::start(&self.lab, &format!("{expected}{programs}{times} {options}"))
    }

    pub fn send(&self) {
        let mut python = self.hosts[0].command("python3");
        python.args(["-c", SENDER, &FIRST_PORT.to_string(), &FLOWS.to_string()]);
        assert!(python.status().expect("python3 starts").success());
    }
}

/// The source port of a flow from the first host to the second.
fn port(flow: &Value) -> Option<u64> {
    let port = flow["sport"].as_u64().filter(|port| (FIRST_PORT..FIRST_PORT + FLOWS).contains(port));
    port.filter(|_| flow["src"] == "10.0.1.9" && flow["proto"] == 17)
}

#[test]
fn flows_take_ways_of_their_own() {
    let Some(fabric) = Fabric::new("flows_take_ways_of_their_own", 2) else { return };
    let (controller, switches) = (fabric.controller("pint", ""), fabric.switches());
    fabric.is_connected();
    let listeners = fabric.hosts.each_ref().map(|host| Listener::start(host, "eth0"));
    let found = eventually("the paths of all flows to be sure", || {
        fabric.send();
        let paths = controller.ask("show paths --last 60s --top 1000");
        let sure = paths["paths"].as_array().unwrap().iter().filter(|path| path["certainty"] == "sure");
        let found: BTreeMap<_, _> =
            sure.filter_map(|path| Some((port(&path["flow"])?, path["switches"].clone()))).collect();
        (found.len() as u64 == FLOWS).then_some(found)
    });
    let mut crossed = BTreeMap::<u64, BTreeSet<&str>>::new();
    for (spine, weir) in NAMES.iter().zip(&switches).skip(2) {
        let heavy = weir.ask("show heavy --last 60s --top 1000");
        for flow in heavy["flows"].as_array().or(heavy["heavy"].as_array()).expect("flows") {
            port(&flow["flow"]).into_iter().for_each(|port| _ = crossed.entry(port).or_default().insert(spine));
        }
    }
    for (port, path) in &found {
        let [spine] = &crossed[port].iter().collect::<Vec<_>>()[..] else { panic!("{port}: {crossed:?}") };
        assert_eq!(*path, json!(["leaf1", spine, "leaf2"]), "{port}");
    }
    let used: BTreeSet<_> = crossed.values().flatten().collect();
    assert_eq!(used.len(), 2, "both spines: {crossed:?}");
    listeners.into_iter().for_each(|listener| _ = listener.stop());
    switches.into_iter().for_each(|weir| _ = weir.stop());
    controller.stop();
}

/// All packets between two hosts are one flow to this query, and take both ways at once. The
/// checksum tells these apart.
#[test]
fn ways_of_one_flow_have_answers_of_their_own() {
    let Some(fabric) = Fabric::new("ways_of_one_flow_have_answers_of_their_own", 2) else { return };
    // Two ways have one checksum once in 4096 secrets.
    let program = "pint:queries=path:bits=4:checksum=12:flow=pair";
    let (controller, switches) = (fabric.controller(program, ""), fabric.switches());
    fabric.is_connected();
    let found = eventually("both ways of the flow to be sure", || {
        fabric.send();
        let paths = controller.ask("show paths --last 60s --top 1000");
        let is_of_flow = |path: &&Value| path["flow"]["src"] == "10.0.1.9" && path["flow"]["dst"] == "10.0.2.9";
        let found: Vec<_> = paths["paths"].as_array().unwrap().iter().filter(is_of_flow).cloned().collect();
        (found.len() >= 2 && found.iter().all(|path| path["certainty"] == "sure")).then_some(found)
    });
    let ways: BTreeSet<_> = found.iter().map(|path| path["switches"].to_string()).collect();
    let expected = ["spine1", "spine2"].map(|spine| json!(["leaf1", spine, "leaf2"]).to_string());
    assert_eq!((found.len(), ways), (2, expected.into_iter().collect()), "{found:?}");
    assert!(found.iter().all(|path| path["contradictions"] == 0 && path["checksum"].is_u64()), "{found:?}");
    assert_ne!(found[0]["checksum"], found[1]["checksum"]);
    switches.into_iter().for_each(|weir| _ = weir.stop());
    controller.stop();
}

/// Fragments of unequal memory count any flow, by the paths that PINT answers. On a loaded machine a
/// switch stands still at times, and counts packets in a later epoch than the switch before it.
#[test]
fn any_flow_is_counted_on_its_path() {
    let Some(fabric) = Fabric::new("any_flow_is_counted_on_its_path", 2) else { return };
    let switches = fabric.switches_with(|switch| {
        let memory = if switch < 2 { "64KB" } else { "1KB" };
        format!("[[program]]\nname = \"pint\"\n[[program]]\nname = \"disketch\"\nmemory = \"{memory}\"\n")
    });
    let controller = fabric.controller("pint disketch", "");
    fabric.is_connected();
    let listeners = fabric.hosts.each_ref().map(|host| Listener::start(host, "eth0"));
    let mut sent = 0;
    let counted = eventually("all flows to be counted", || {
        fabric.send();
        sent += 60;
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let counts: Vec<Value> = (FIRST_PORT..FIRST_PORT + FLOWS)
            .map(|port| {
                controller.ask(&format!(
                    "query frequency --program disketch --flow '10.0.1.9:{port} -> 10.0.2.9:9 udp' --last 60s"
                ))
            })
            .collect();
        let is_near = |count: &Value| count["packets"]["estimate"].as_u64().is_some_and(|found| 4 * found >= 3 * sent);
        counts.iter().all(is_near).then_some(counts)
    });
    for count in &counted {
        let estimate = count["packets"]["estimate"].as_u64().unwrap();
        assert!(10 * estimate <= 11 * sent, "{sent}: {count}");
    }
    // All flows go by the other spine from now on. Epochs before that are answered by the earlier paths.
    for weir in &switches[..2] {
        weir.ask("port down tospine1");
    }
    let mut more = 0;
    let (list, lines) = (fabric.lab.path("flows.txt"), FIRST_PORT..FIRST_PORT + FLOWS);
    let lines: String = lines.map(|port| format!("10.0.1.9:{port} -> 10.0.2.9:9 udp\n")).collect();
    fs::write(&list, lines).unwrap();
    eventually("all flows to be counted on both paths", || {
        fabric.send();
        more += 60;
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let of = |window| format!("query frequency --program disketch --flows {} --last {window}", list.display());
        let counted = controller.ask(&of("60s"));
        let counts = counted["frequencies"].as_array().expect("a list of answers");
        let near = |count: &Value| {
            let found = count["packets"]["estimate"].as_u64().expect("an estimate");
            4 * found >= 3 * (sent + more) && 10 * found <= 11 * (sent + more)
        };
        (counts.len() as u64 == FLOWS && counts.iter().all(near)).then_some(())
    });
    let paths = controller.ask("show paths --last 1s --top 1000");
    let spine = |path: &Value| path["switches"][1].as_str().map(ToOwned::to_owned);
    let used: BTreeSet<_> = paths["paths"].as_array().unwrap().iter().filter_map(spine).collect();
    assert!(!used.contains("spine1"), "{paths}");
    let heavy = controller.ask("show heavy --program disketch --last 60s --top 1000");
    let named = heavy["heavy"].as_array().unwrap().iter().filter(|flow| port(&flow["flow"]).is_some());
    assert_eq!(named.count() as u64, FLOWS, "{heavy}");
    listeners.into_iter().for_each(|listener| _ = listener.stop());
    switches.into_iter().for_each(|weir| _ = weir.stop());
    controller.stop();
}
