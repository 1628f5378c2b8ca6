//! Whole networks: every packet is accounted for, whatever the topology and the losses.

#[cfg(feature = "control")]
mod archived;
mod clocks;
mod complete;
mod places;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::*;
use crate::answers::{ByRoute, Certainty, HeavyFlow, HeavyFlows, Query, Route, Routes, Task};
use crate::history::Window;
use crate::pisa::DropReason;
use crate::wire::{Flow, FlowKey};

/// A network of links without end of rate, 10 µs long, and epochs of 50 ms.
pub(crate) fn setup(topology: &str, workload: &str, losses: &[&str]) -> Setup {
    Setup {
        losses: losses.iter().map(|loss| loss.parse().unwrap()).collect(),
        ..Setup::new(
            topology.parse::<Shape>().unwrap().build().unwrap(),
            vec!["chamelemon:hh_threshold=1".parse().unwrap()],
            workload.parse().unwrap(),
        )
    }
}

/// Each switch measures with its own configuration, and each of its records is taken.
#[test]
fn switches_may_be_configured_otherwise() {
    let mut setup = setup("line:3", "keyvalue/uniform,flows=400,seed=7", &[]);
    let program: ProgramConfig = "hashpipe:slots=4096,scope=network".parse().unwrap();
    setup.programs = vec![program.clone(), program];
    setup.fabric.own =
        vec!["s2:hashpipe_2:slots=8,slots6=0".parse().unwrap(), "s2:hashpipe_2:stages=2".parse().unwrap()];
    let (simulation, _) = run(&setup, 2);
    let found = |program| {
        let heavy = simulation.answers(program, 1).unwrap().answer::<HeavyFlows>(usize::MAX).unwrap();
        assert_eq!((heavy.claim.gaps.len(), heavy.claim.switches.len()), (0, 2));
        heavy.heavy.len()
    };
    // Of about 200 flows each that enter at a switch, the second one names at most 16.
    let [all, own] = [0, 1].map(found);
    assert!(all > own + 100 && own > 116, "{all} {own}");

    let refused = |everywhere, own: &str| {
        let fabric = Fabric { own: vec![own.parse().unwrap()], ..Fabric::default() };
        let setup = Setup { everywhere, fabric, ..setup.clone() };
        Simulation::new(&setup).err().map(|error| error.to_string())
    };
    let wrong = |own: &str, why: &str| assert_eq!(refused(false, own), Some(format!("--switch {own}: {why}")));
    wrong("s3:hashpipe:slots=8", "the topology has no such switch; it has s0, s1, s2");
    wrong("s1:hashpipe:slots=8", "the switch has no hosts, so it runs no program; --everywhere lets it");
    assert_eq!(refused(true, "s1:hashpipe:slots=8"), None);
    wrong("s2:pint:bits=8", "no such program; the switches run hashpipe, hashpipe_2");
    wrong("s2:hashpipe:slots=0", "slots = 0: a whole number from 1 to 16777216");
    wrong("s2:hashpipe:slots", "\"slots\" is not of the form key=value");
    wrong("s2:hashpipe:slots=1,slots=2", "slots is given twice");
    wrong("s2:hashpipe:key=src", "key = src: it has to be 5tuple, as in the other switches");
    assert!("s2:hashpipe".parse::<OwnSettings>().unwrap_err().contains("write SWITCH:PROGRAM:KEY=VALUE"));
}

/// Recomputed paths are those that packets took, over all equal paths, and chosen by them a flow is one
/// that crossed these switches.
#[test]
fn recomputed_routes_are_the_ways_of_packets() {
    for topology in ["fat-tree:4", "line:5", "testbed"] {
        let mut setup = setup(topology, "keyvalue/uniform,flows=500,seed=7", &[]);
        setup.programs = vec!["hashpipe:slots=4096,scope=network".parse().unwrap()];
        let (simulation, _) = run(&setup, 2);
        let network = simulation.network();
        let routes = network.routes();
        let switches = |flow: &Flow| -> Vec<u32> {
            let of = routes.of(flow);
            let [Route { switches, certainty: Certainty::Sure, .. }] = &of[..] else { panic!("{flow}: {of:?}") };
            switches.iter().flatten().filter_map(|name| build::switch_of(name)).collect()
        };
        let mut lengths = BTreeSet::new();
        for (flow, way) in network.generation(1).ways() {
            let recomputed = switches(&flow.tuple.flow());
            lengths.insert(recomputed.len());
            assert!(way == recomputed.iter().fold(packet::Way::default(), |way, &switch| way.through(switch)));
        }
        assert!(topology != "fat-tree:4" || lengths == BTreeSet::from([1, 3, 5]), "{lengths:?}");

        let history = simulation.newest(0).unwrap().history;
        let heavy = |path: &[&str], routes: Option<RecomputedRoutes>| {
            let path = path.iter().map(|name| (*name).to_owned()).collect();
            let routes = routes.map(|routes| ByRoute::new(Arc::new(routes)));
            let query = Query { path, routes, ..Query::new(Task::Heavy, Window::All) };
            history.answer::<HeavyFlows>(&query)
        };
        assert!(heavy(&["s1"], None).is_err());
        let [all, chosen] = [&[][..], &["s1"]].map(|path| heavy(path, Some(network.routes())).unwrap());
        let crosses = |flow: &&HeavyFlow| switches(&flow.name.flow().unwrap()).contains(&1);
        let expected: Vec<_> = all.heavy.iter().filter(crosses).cloned().collect();
        assert_eq!(chosen.heavy, expected, "{topology}");
        assert!(!expected.is_empty() && (expected.len() < all.heavy.len()) == (topology != "line:5"), "{topology}");
        assert_eq!(chosen.claim.incomplete, all.claim.incomplete);
    }
}

/// Runs some epochs, and holds the books.
fn run(setup: &Setup, epochs: u64) -> (Simulation, Vec<EpochReport>) {
    let mut simulation = Simulation::new(setup).unwrap();
    let mut reports = Vec::new();
    for _ in 0..epochs {
        reports.extend(simulation.epoch(&setup.workload, setup.victims()));
    }
    reports.extend(simulation.finish());
    assert_eq!(reports.len(), epochs as usize);
    balance(&mut simulation, &reports);
    (simulation, reports)
}

/// sent = delivered + lost by name, in the truth, on the links, and in the switches' own counters.
fn balance(simulation: &mut Simulation, reports: &[EpochReport]) {
    let network = &mut simulation.network;
    assert_eq!((network.under_way(), network.shims_at_hosts()), (0, 0));
    for epoch in reports {
        assert_eq!(epoch.sent_packets, epoch.delivered_packets + epoch.lost_packets, "epoch {}", epoch.epoch);
        assert_eq!(epoch.lost_packets, epoch.losses.iter().map(|at| at.packets).sum::<u64>());
        assert!(epoch.sent_packets > 0 && epoch.losses.iter().all(|at| at.reason != "astray"));
    }
    let sent: u64 = reports.iter().map(|epoch| epoch.sent_packets).sum();
    let delivered: u64 = reports.iter().map(|epoch| epoch.delivered_packets).sum();
    let lost: u64 = reports.iter().map(|epoch| epoch.lost_packets).sum();
    let (mut received, mut dropped) = (0, 0);
    for node in network.nodes() {
        let ports = || node.workers[0].stats().ports();
        let sum = |count: &dyn Fn(&crate::stats::PortStats) -> u64| ports().map(count).sum::<u64>();
        let drops = sum(&|port| DropReason::ALL.iter().map(|reason| port.dropped(*reason)).sum());
        assert_eq!(
            sum(&|port| port.rx_packets.get()) + sum(&|port| port.copies.get()),
            sum(&|port| port.tx_packets.get()) + drops
        );
        assert_eq!(node.workers[0].stats().late_epochs.get() + node.workers[0].stats().lost_epochs.get(), 0);
        received += sum(&|port| port.rx_packets.get());
        dropped += drops;
    }
    assert_eq!(received, network.hops());
    let crossed: Vec<_> = network.crossed().collect();
    let on_links: u64 = crossed.iter().map(|link| link.lost + link.busy).sum();
    assert_eq!(on_links + dropped, lost);
    let to_hosts: u64 = crossed.iter().filter(|link| network.peer(link.from).is_none()).map(|link| link.crossed).sum();
    assert_eq!(to_hosts, delivered);
    let between: u64 = crossed.iter().filter(|link| network.peer(link.from).is_some()).map(|link| link.crossed).sum();
    assert_eq!(received, sent + between, "every packet that crossed a link came to a switch");
}

fn chamelemon(report: &EpochReport) -> &ProgramReport {
    &report.programs["chamelemon"]
}

fn state(report: &EpochReport) -> &str {
    &chamelemon(report).measured.as_ref().unwrap().state
}

fn losses(report: &EpochReport) -> report::LossScore {
    chamelemon(report).losses.as_ref().unwrap().losses.unwrap()
}

#[test]
fn every_topology_conserves_packets_and_decodes_every_loss() {
    let graph = "graph [ node [ id 5 label \"x\" ] node [ id 9 label \"x\" ] node [ id 2 ] node [ id 3 ]
        edge [ source 5 target 9 ] edge [ source 9 target 5 ] edge [ source 9 target 2 ] edge [ source 2 target 3 ]
        edge [ source 3 target 5 ] edge [ source 3 target 3 ] ]";
    let mut setups: Vec<_> =
        ["line:1", "line:7", "fat-tree:2", "fat-tree:4", "fat-tree:6", "testbed", "spine-leaf:3,4,2"]
            .map(|topology| {
                setup(topology, "keyvalue/uniform,flows=800,seed=3", &["flows=10%,rate=5%", "link=all,rate=0.5%"])
            })
            .into();
    let graph = Topology::of_graph(graph::gml(graph).unwrap()).unwrap();
    setups.push(Setup { topology: graph, ..setups[0].clone() });
    for setup in setups {
        let links = !setup.topology.links().is_empty();
        let (_, reports) = run(&setup, 3);
        for report in &reports {
            assert_eq!((state(report), &chamelemon(report).gaps), ("healthy", &Vec::new()));
            let losses = losses(report);
            assert!(losses.is_exact(), "{losses:?}");
            assert_eq!((losses.true_packets, losses.true_flows > 0), (report.lost_packets, links));
        }
    }
}

/// Two programs on every switch, with and without hosts: each is answered as if it were alone. What
/// several switches have counted with a scope of the network adds up to the exact packets of each
/// flow, those that the network loses included.
#[test]
fn every_switch_reports_several_programs() {
    for topology in ["line:3", "spine-leaf:3,4,2", "fat-tree:4"] {
        let programs = ["chamelemon:hh_threshold=1", "hashpipe:scope=network", "hashpipe:scope=network,count=bytes"];
        let setup = Setup {
            programs: programs.map(|program| program.parse().unwrap()).into(),
            everywhere: true,
            ..setup(topology, "keyvalue/uniform,flows=600,seed=3", &["flows=10%,rate=5%", "link=all,rate=0.5%"])
        };
        let (_, reports) = run(&setup, 3);
        for report in &reports {
            assert!(losses(report).is_exact() && report.lost_packets > 0, "{:?}", losses(report));
            for name in ["hashpipe", "hashpipe_2"] {
                let heavy = report.programs[name].heavy.as_ref().unwrap();
                assert_eq!((heavy.f1, heavy.average_relative_error), (1.0, 0.0), "{topology}: {heavy:?}");
                assert_eq!((heavy.true_flows, heavy.flows), (report.flows, report.flows), "{topology}: {heavy:?}");
            }
        }
    }
}

#[test]
fn the_seed_decides_everything() {
    let of = |seed: u64| {
        let setup = setup("testbed", &format!("hadoop/burst,flows=300,longest=50,seed={seed}"), &["flows=5%,rate=5%"]);
        run(&setup, 3).1
    };
    let (first, again, other) = (of(1), of(1), of(2));
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert_ne!(first[0].lost_packets, 0);
    assert_ne!(first[0].sent_packets, first[1].sent_packets, "every epoch has new flows");
}

/// Flows spread over all equal paths: each of the links between the layers of a fat tree carries
/// its share.
#[test]
fn flows_spread_over_equal_paths() {
    let setup = Setup { programs: Vec::new(), ..setup("fat-tree:4", "zipf0/uniform,flows=20000,packets=20000", &[]) };
    let (simulation, _) = run(&setup, 1);
    let network = simulation.network();
    let name = |port| network.topology().switches()[network.owner(port).0 as usize].as_str();
    let mut layers: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for link in network.crossed() {
        let Some(to) = network.peer(link.from) else { continue };
        let layer = |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-').to_owned();
        let to = layer(&network.topology().switches()[to as usize]);
        layers.entry(format!("{} to {to}", layer(name(link.from)))).or_default().push(link.crossed);
    }
    assert_eq!(layers.keys().collect::<Vec<_>>(), ["agg to core", "agg to edge", "core to agg", "edge to agg"]);
    for (layer, crossed) in layers {
        let mean = crossed.iter().sum::<u64>() as f64 / crossed.len() as f64;
        let off = crossed.iter().map(|&n| (n as f64 / mean - 1.0).abs()).fold(0.0, f64::max);
        assert!(off < 0.25, "{layer}: {crossed:?}");
    }
}

/// What is lost on a host's own link after the last switch, or waits too long, has its name too.
#[test]
fn slow_links_lose_what_waits_too_long() {
    let slow = setup("testbed", "keyvalue/burst,flows=2000,seed=5", &[]);
    let setup = Setup { rate: Some(8_000_000), queue_timeout: 100_000, transit: 20_000_000, ..slow };
    let (_, reports) = run(&setup, 2);
    let busy: u64 =
        reports.iter().flat_map(|epoch| &epoch.losses).filter(|at| at.reason == "busy").map(|at| at.packets).sum();
    assert!(busy > 0);
    assert!(reports.iter().all(|report| losses(report).is_exact()));
}

/// The memory moves with the losses, and back when they end.
#[test]
fn attention_shifts_in_virtual_time() {
    let setup = setup("testbed", "keyvalue/uniform,flows=20k,seed=1", &[]);
    let mut simulation = Simulation::new(&setup).unwrap();
    let victims = |share| Some(Victims { flows: loss::Flows::Share(share), rate: 0.01 });
    let mut reports = Vec::new();
    for share in [0.02, 0.02, 0.02, 0.02, 0.6, 0.6, 0.6, 0.6, 0.6, 0.02, 0.02, 0.02, 0.02, 0.02] {
        reports.extend(simulation.epoch(&setup.workload, victims(share)));
    }
    reports.extend(simulation.finish());
    balance(&mut simulation, &reports);
    let states: Vec<_> = reports.iter().map(state).collect();
    let shifted = states.iter().position(|state| *state == "ill");
    assert!(shifted.is_some_and(|epoch| (6..=8).contains(&epoch)), "an update from epoch 4 is for epoch 6: {states:?}");
    assert_eq!((states[8], states[13]), ("ill", "healthy"), "{states:?}");
    for epoch in [3, 13] {
        assert!(losses(&reports[epoch]).is_exact());
    }
    for report in &reports {
        assert_eq!((losses(report).wrong_flows, &chamelemon(report).gaps), (0, &Vec::new()));
    }
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let good = || setup("line:3", "keyvalue,flows=10", &[]);
    let refused = |setup: Setup| Simulation::new(&setup).map(drop).unwrap_err().to_string();
    let errors = [
        refused(Setup { transit: 1000, ..good() }),
        refused(Setup { epoch: 20_000_000, ..good() }),
        refused(Setup { delay: 100, rate: Some(8000), ..setup("line:1", "keyvalue,flows=10", &[]) }),
        refused(Setup { losses: vec!["link=2,rate=1%".parse().unwrap()], ..good() }),
        refused(Setup { workload: "keyvalue,flows=10,ipv6=0.5".parse().unwrap(), ..good() }),
        refused(Setup { programs: vec!["hashpipe:slots=16777216".parse().unwrap()], ..good() }),
        refused(Setup { programs: vec!["disketch:key=src".parse().unwrap()], ..good() }),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
        --transit 1000 ns: packets are under way for up to 20000 ns
        --epoch 20000000 ns is too short: an update could not come in time within 22000000 ns: twice the transit time and twice the way to the controller
        --delay 100 ns is too short: a packet may be on a link for 1550000100 ns, by --queue-timeout, the time that --rate gives the longest frame, and --fault, and that is more than 1048576 times as long
        --loss link=2: the topology's links are 0 to 1
        workload: ipv6=0.5 is not simulated; hosts have IPv4 addresses
        program[0].slots = 16777216: hashpipe.ipv4 of stage 1: its memory in bits is 2281701376, and one stage of rmt has at most 12156928; write fewer
        --program disketch: with key = "5tuple" alone flows have paths in a network
        "#);
}

/// Flows of fewer fields have no paths: one switch counts them, and several switches are refused.
#[test]
fn flows_of_fewer_fields_are_counted_on_one_switch() {
    let counts = |topology: &str, everywhere| {
        let mut setup = setup(topology, "keyvalue/uniform,flows=400,seed=7", &[]);
        setup.programs = vec!["disketch:key=src".parse().unwrap()];
        setup.patterns = ["10.0.0.2 → *", "10.0.0.6 → *"].map(|pattern| pattern.parse().unwrap()).into();
        setup.everywhere = everywhere;
        let mut simulation = Simulation::new(&setup)?;
        simulation.epoch(&setup.workload, None);
        let report = simulation.finish().pop().unwrap();
        Ok::<_, SimError>(report.programs["disketch"].frequencies.iter().map(|found| found.count()).collect::<Vec<_>>())
    };
    for count in counts("line:1", false).unwrap() {
        assert!(count.truth > Some(100) && Some(count.estimate) == count.truth, "{count:?}");
    }
    for (topology, everywhere) in [("line:2", false), ("line:3", false), ("line:1", true)] {
        let refused = counts(topology, everywhere);
        let is_refused = matches!(refused, Err(SimError::LocalOnly { program: "disketch", .. }));
        assert_eq!(is_refused, topology != "line:1", "{topology}: {refused:?}");
    }
}
