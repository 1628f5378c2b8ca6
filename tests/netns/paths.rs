//! Five switches in a row and one controller: it names the switches that each flow crosses, in both
//! directions, and no other, and says how long packets take in each.

use std::fs;

use serde_json::{Value, json};

use crate::common::{Controller, Host, Iperf, Lab, Link, Listener, Namespace, Protocol, Weir, eventually};

pub const EPOCH: &str = "250ms";
pub const TRANSIT: &str = "60ms";
const SWITCHES: usize = 5;
/// Larger than the hosts' by the shim, so that full packets carry it too.
const FABRIC_MTU: u32 = 1600;

/// Switches in a row, with a host at each end.
pub struct Line {
    pub lab: Lab,
    pub hosts: Vec<Host>,
    spaces: Vec<Namespace>,
}

impl Line {
    /// A host at each end, links between neighbours.
    pub fn new(test: &str) -> Option<Self> {
        let lab = Lab::new(test)?;
        let ports = lab.ports(Link::Veth, 2);
        let spaces: Vec<_> = (1..SWITCHES).map(|_| lab.switch.sibling()).collect();
        let last = spaces.last().expect("several switches");
        lab.switch.run(&format!("ip link set p2 netns {}", last.id()));
        last.run("ip link set p2 up");
        for (i, far) in spaces.iter().enumerate() {
            let near = if i == 0 { &lab.switch } else { &spaces[i - 1] };
            let link = format!("ip link add right mtu {FABRIC_MTU} type veth peer name left mtu {FABRIC_MTU}");
            near.run(&format!("{link} netns {}", far.id()));
            near.run("ip link set right up");
            far.run("ip link set left up");
        }
        let hosts = ports.connect();
        Some(Self { lab, hosts, spaces })
    }

    /// Starts the switches, with these parameters of the program. `fault` is that of the middle one's
    /// port to the left.
    pub fn switches(&self, parameters: &str, fault: &str) -> Vec<Weir> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let at = Controller::switch_socket(&self.lab);
        let switch = |i: usize| {
            let port = |interface: &str, role: &str, mtu: u32| {
                let dev = format!("dev = \"veth:{interface}\"");
                format!("[[port]]\nname = \"{interface}\"\n{dev}\nrole = \"{role}\"\nmtu = {mtu}\n")
            };
            let fabric = |interface| port(interface, "fabric", FABRIC_MTU);
            let mut left = if i == 0 { port("p1", "host", 1500) } else { fabric("left") };
            if i == 2 && !fault.is_empty() {
                left += &format!("fault = \"{fault}\"\n");
            }
            let right = if i == SWITCHES - 1 { port("p2", "host", 1500) } else { fabric("right") };
            let times = format!("epoch = \"{EPOCH}\"\ntransit = \"{TRANSIT}\"\ncores = [{}]", i % cores);
            let rest = format!("[[program]]\nname = \"pint\"\n{parameters}[controller]\nat = \"{}\"\n", at.display());
            // One is known to the controller by another name than its own.
            let name = if i == 2 { "name = \"middle\"\n" } else { "" };
            let file = format!("[switch]\n{times}\n{left}{right}{rest}{name}");
            let number = i + 1;
            fs::write(self.lab.path(&format!("s{number}.toml")), file).unwrap();
            let space = if i == 0 { &self.lab.switch } else { &self.spaces[i - 1] };
            Weir::start(&self.lab, space, &format!("s{number}"), &format!("-vv --config s{number}.toml"))
        };
        (0..SWITCHES).map(switch).collect()
    }
}

/// What is said of the pings from one host to another.
fn pings<'a>(flows: &'a Value, from: &Host, to: &Host) -> Option<&'a Value> {
    let of = |path: &&Value| {
        let flow = &path["flow"];
        flow["src"] == from.address() && flow["dst"] == to.address() && flow["proto"] == 1
    };
    flows.as_array()?.iter().find(of)
}

fn path<'a>(paths: &'a Value, from: &Host, to: &Host) -> Option<&'a Value> {
    pings(&paths["paths"], from, to)
}

#[test]
fn the_switches_that_a_flow_crosses() {
    let Some(line) = Line::new("the_switches_that_a_flow_crosses") else { return };
    let names = ["s1", "s2", "middle", "s4", "s5"];
    let expected = names.map(|name| format!("--switch {name} ")).concat();
    let times = format!("--epoch {EPOCH} --transit {TRANSIT} --record-timeout 2s -vv");
    let controller = Controller::start(&line.lab, &format!("{expected}--program pint {times}"));
    let switches = line.switches("", "");
    let [host1, host2] = &line.hosts[..] else { unreachable!("two hosts") };
    host1.reaches(host2);
    let mut reversed = names;
    reversed.reverse();
    eventually("the paths to be sure", || {
        host1.space.try_run(&format!("ping -n -q -i 0.01 -W 1 -c 100 {}", host2.address()));
        let paths = controller.ask("show paths --last 60s --top 1000");
        let known = [(host1, host2, names), (host2, host1, reversed)].map(|(from, to, names)| {
            let Some(path) = path(&paths, from, to) else { return false };
            let found = path["switches"].as_array().unwrap();
            assert_eq!(found.len(), SWITCHES, "{path}");
            let right = found.iter().zip(names).all(|(found, name)| found.is_null() || *found == name);
            assert!(right || path["certainty"] != "sure", "{path}");
            path["certainty"] == "sure" && right
        });
        (known == [true, true]).then_some(())
    });
    let paths = controller.ask("show paths --last 60s --top 1000");
    let forth = path(&paths, host1, host2).unwrap();
    assert_eq!((&forth["switches"], &forth["contradictions"]), (&json!(names), &json!(0)), "{forth}");
    // Some tens of packets are enough: one round of pings, and a second where a record was late.
    assert!((Some(30)..=Some(250)).contains(&forth["packets"].as_u64()), "{forth}");
    assert_eq!(switches[2].try_ask("show paths").status.code(), Some(2), "the controller answers");
    switches.into_iter().for_each(|weir| _ = weir.stop());
    controller.stop();
}

/// The streams of iperf3 between two hosts, and their acknowledgements. Hosts see nothing of what
/// switches write into packets.
#[test]
fn the_switches_that_iperf_crosses() {
    const STREAMS: usize = 3;
    let Some(line) = Line::new("the_switches_that_iperf_crosses") else { return };
    let names = ["s1", "s2", "middle", "s4", "s5"];
    let expected = names.map(|name| format!("--switch {name} ")).concat();
    let times = format!("--epoch {EPOCH} --transit {TRANSIT} --record-timeout 2s -vv");
    let controller = Controller::start(&line.lab, &format!("{expected}--program pint {times}"));
    let switches = line.switches("", "");
    let [host1, host2] = &line.hosts[..] else { unreachable!("two hosts") };
    host1.reaches(host2);
    let listeners = [host1, host2].map(|host| Listener::start(&host.space, &host.interface()));
    let iperf = Iperf::serve(host2);
    let running = iperf.start(host1, Protocol::Tcp, &format!("--time 80 --parallel {STREAMS} --bitrate 2M"));
    let ways = [(host1, "dport", names.to_vec()), (host2, "sport", names.iter().rev().copied().collect())];
    eventually("the paths of all streams to be sure", || {
        let paths = controller.ask("show paths --last 60s --top 1000");
        let found = ways.clone().map(|(from, server, way)| {
            let is_its = |path: &&Value| {
                let flow = &path["flow"];
                flow["src"] == from.address() && flow["proto"] == 6 && flow[server] == 5201
            };
            let sure = |path: &&Value| path["certainty"] == "sure";
            let connections = paths["paths"].as_array().unwrap().iter().filter(is_its);
            connections.filter(sure).inspect(|path| assert_eq!(path["switches"], json!(way), "{path}")).count()
        });
        found.iter().all(|found| *found >= STREAMS).then_some(())
    });
    drop((running, iperf));
    listeners.into_iter().for_each(|listener| _ = listener.stop());
    switches.into_iter().for_each(|weir| _ = weir.stop());
    controller.stop();
}

/// The controller says what is asked of packets, also when switches were told otherwise, and another
/// query is asked for while packets flow: from one epoch on all switches answer it.
#[test]
fn queries_change_while_packets_flow() {
    let Some(line) = Line::new("queries_change_while_packets_flow") else { return };
    let names = ["s1", "s2", "middle", "s4", "s5"];
    let expected = names.map(|name| format!("--switch {name} ")).concat();
    let times = format!("--epoch {EPOCH} --transit {TRANSIT} --record-timeout 2s -vv");
    let controller = Controller::start(&line.lab, &format!("{expected}--program pint:bits=4,instances=4 {times}"));
    let switches = line.switches("queries = \"latency:bits=5\"\n", "");
    let [host1, host2] = &line.hosts[..] else { unreachable!("two hosts") };
    host1.reaches(host2);
    let sure = |what: &str| {
        eventually(what, || {
            host1.space.try_run(&format!("ping -n -q -i 0.01 -W 1 -c 100 {}", host2.address()));
            let paths = controller.ask("show paths --last 5s --top 1000");
            let path = path(&paths, host1, host2)?;
            if path["certainty"] != "sure" {
                return None;
            }
            assert_eq!(path["switches"], json!(names), "{path}");
            Some(())
        });
    };
    sure("the path to be sure");
    let latency = controller.ask("show latency --last 60s");
    assert_eq!((&latency["latencies"], &latency["query"]), (&json!([]), &json!(null)), "nobody asks for latencies");
    let latency = |what: &str| {
        eventually(what, || {
            host1.space.try_run(&format!("ping -n -q -i 0.01 -W 1 -c 100 {}", host2.address()));
            let answer = controller.try_ask("show latency --last 5s --top 1000");
            let latency: Value = answer.status.success().then(|| serde_json::from_slice(&answer.stdout).unwrap())?;
            let hops = pings(&latency["latencies"], host1, host2)?["hops"].as_array()?.clone();
            assert_eq!(latency["query"], "latency:bits=8");
            let known = |hop: &Value| hop["samples"].as_u64() >= Some(10);
            (hops.len() == SWITCHES && hops.iter().all(known)).then_some(hops)
        })
    };
    let changed = controller.ask("parameters pint:queries=path:bits=8+latency:bits=8");
    assert_eq!(changed["program"], "pint");
    assert!(changed["from_epoch"].as_u64() > Some(0));
    let hops = latency("latencies of all switches");
    assert!(hops.iter().zip(names).all(|(hop, name)| hop["switch"] == name), "{hops:?}");
    let quick = |hop: &Value| hop["p50_ns"].as_u64().is_some_and(|time| time < 5_000_000);
    assert!(hops.iter().all(quick), "{hops:?}");
    sure("the path to be sure still");
    // What no plan meets changes nothing.
    let refused = controller.try_ask("parameters pint:queries=path:bits=8+latency:bits=8,budget=8");
    assert_eq!(refused.status.code(), Some(2));
    switches.into_iter().for_each(|weir| _ = weir.stop());
    controller.stop();
}

/// A port of one switch holds packets back on their way in: it is that switch that is slow, for the
/// packets that come in there, and no other.
#[test]
fn a_delay_shows_at_its_hop() {
    let Some(line) = Line::new("a_delay_shows_at_its_hop") else { return };
    let names = ["s1", "s2", "middle", "s4", "s5"];
    let expected = names.map(|name| format!("--switch {name} ")).concat();
    let times = format!("--epoch {EPOCH} --transit {TRANSIT} --record-timeout 2s -vv");
    let queries = "path:bits=8+latency:bits=8:frequency=15/16:space=500";
    let controller = Controller::start(&line.lab, &format!("{expected}--program pint:queries={queries} {times}"));
    let switches = line.switches(&format!("queries = \"{queries}\"\n"), "rx:delay=20ms");
    let [host1, host2] = &line.hosts[..] else { unreachable!("two hosts") };
    host1.reaches(host2);
    let known = |hops: &Value, names: [&str; SWITCHES]| {
        let hops = hops.as_array().unwrap();
        assert_eq!(hops.len(), SWITCHES);
        hops.iter().zip(names).all(|(hop, name)| hop["switch"] == name && hop["samples"].as_u64() >= Some(20))
    };
    let mut reversed = names;
    reversed.reverse();
    let latency = eventually("the latencies of all switches", || {
        host1.space.try_run(&format!("ping -n -q -i 0.01 -W 1 -c 100 {}", host2.address()));
        let latency = controller.ask("show latency --last 60s --top 1000");
        let found = [(host1, host2, names), (host2, host1, reversed)].map(|(from, to, names)| {
            pings(&latency["latencies"], from, to).is_some_and(|flow| known(&flow["hops"], names))
        });
        (found == [true, true]).then_some(latency)
    });
    let medians = |from, to| {
        let hops = pings(&latency["latencies"], from, to).unwrap()["hops"].as_array().unwrap();
        let of = |hop: &Value| ["p50_ns", "p99_ns"].map(|key| hop[key].as_u64().unwrap());
        hops.iter()
            .map(of)
            .map(|[median, last]| {
                assert!(last >= median, "{hops:?}");
                median
            })
            .collect::<Vec<_>>()
    };
    let (forth, back) = (medians(host1, host2), medians(host2, host1));
    // A busy machine runs the switch later than the packets are due.
    let (slow, quick) = (19_000_000..1_000_000_000, 0..5_000_000);
    for (hop, median) in forth.iter().enumerate() {
        let expected = if hop == 2 { &slow } else { &quick };
        assert!(expected.contains(median), "{forth:?}");
    }
    assert!(back.iter().all(|median| quick.contains(median)), "{back:?}");
    switches.into_iter().for_each(|weir| _ = weir.stop());
    controller.stop();
}
