//! Paths of simulated networks: every packet a real one, through real switches.

use std::collections::{BTreeMap, BTreeSet};

use weir::answers::{Certainty, Claimed, FlowPath, Latency, Paths, Task};
use weir::history::{Gap, Reason};
use weir::program::ProgramConfig;
use weir::program::pint::{Config, Pint};
use weir::sim::report::PathCounts;
use weir::sim::{Fault, Setup, Shape, Simulation};
use weir::wire::{Flow, FlowKey};

/// Networks of these topologies, with epochs of 50 ms.
pub fn setup(topology: &str, workload: &str, config: Config) -> Setup {
    Setup::new(
        topology.parse::<Shape>().unwrap().build().unwrap(),
        vec![ProgramConfig::new::<Pint>(config)],
        workload.parse().unwrap(),
    )
}

/// The links of a topology as a configuration has them.
fn neighbours(setup: &Setup) -> BTreeMap<String, Vec<String>> {
    let switches = 0..setup.topology.switches().len() as u32;
    let names = |switch: u32| setup.topology.neighbours(switch).iter().map(|(_, other)| format!("s{other}")).collect();
    switches.map(|switch| (format!("s{switch}"), names(switch))).collect()
}

/// No two names of simulated switches look alike, and a neighbour whose name has the CRC-32 of one of
/// them is refused.
#[test]
fn names_of_a_topology_are_told_apart() {
    let names: Vec<_> = (0..4096).map(|switch| format!("s{switch}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    assert_eq!(ProgramConfig::new::<Pint>(Config::default()).clash(&names), None);
    let alike = "aaabaabababaabbbbaababbbaaaababaaa";
    let neighbours = [("s0".to_owned(), vec![alike.to_owned()])].into();
    let setup = setup("line:3", "isp/uniform,flows=10,packets=1k", Config { neighbours, ..Config::default() });
    let why = Simulation::new(&setup).err().unwrap().to_string();
    assert!(why.contains(&format!("{alike} and s1 apart")) && why.contains("rename"), "{why}");
}

fn place(name: &str) -> u32 {
    name[1..].parse().unwrap()
}

/// What the answers of an epoch say, held against the truth.
#[derive(Debug, Default)]
struct Held {
    flows: usize,
    decided: usize,
    sure: usize,
}

/// The hosts that each flow goes between.
type Truth = BTreeMap<Flow, [u32; 2]>;

/// Adds the flows of an epoch.
fn learn(truth: &mut Truth, simulation: &Simulation, epoch: u64) {
    let flows = &simulation.network().generation(epoch).flows;
    truth.extend(flows.iter().map(|flow| (flow.tuple.flow(), [flow.src, flow.dst])));
}

/// Each switch that is named stands where some shortest way between the flow's ends has one, and
/// named neighbours are neighbours.
fn hold(setup: &Setup, truth: &Truth, flows: &[FlowPath]) -> Held {
    let topology = &setup.topology;
    let mut held = Held { flows: flows.len(), ..Held::default() };
    for path in flows {
        let FlowPath { flow, sink, switches, certainty, packets, .. } = path;
        let [from, to] = truth[&flow.flow().unwrap()].map(|host| topology.hosts()[host as usize]);
        let (behind, ahead) = (topology.distances(from), topology.distances(to));
        assert_eq!((place(sink), switches.len() as u32), (to, ahead[from as usize] + 1), "{path:?}");
        for (hop, name) in (0..).zip(switches.iter()).filter_map(|(hop, name)| Some((hop, name.as_ref()?))) {
            let at = place(name) as usize;
            assert_eq!((behind[at], ahead[at]), (hop, ahead[from as usize] - hop), "{path:?}");
        }
        for pair in switches.windows(2) {
            if let [Some(a), Some(b)] = pair {
                let others = topology.neighbours(place(a));
                assert!(others.iter().any(|(_, other)| *other == place(b)), "{path:?}");
            }
        }
        assert_eq!(*certainty >= Certainty::Decided, switches.iter().all(Option::is_some), "{path:?}");
        assert!(*packets > 0);
        held.decided += usize::from(*certainty >= Certainty::Decided);
        held.sure += usize::from(*certainty == Certainty::Sure);
    }
    held
}

/// The answer about an epoch.
fn paths(simulation: &Simulation, epoch: u64) -> Claimed<Paths> {
    simulation.answers(0, epoch).unwrap().answer(usize::MAX).unwrap()
}

/// Runs some epochs, of which each has new flows, and adds up what was held.
fn run(setup: &Setup, epochs: u64) -> Held {
    let mut simulation = Simulation::new(setup).unwrap();
    let (mut all, mut truth) = (Held::default(), Truth::new());
    for epoch in 0..=epochs {
        let report = if epoch < epochs { simulation.epoch(&setup.workload, None) } else { simulation.finish().pop() };
        // Packets that leave before the transit time is over are in the record of the epoch before.
        if epoch < epochs {
            learn(&mut truth, &simulation, epoch);
        }
        assert_eq!(simulation.network().shims_at_hosts(), 0);
        if let Some(report) = report {
            let paths = paths(&simulation, report.epoch);
            let Held { flows, decided, sure } = hold(setup, &truth, &paths.paths);
            (all.flows, all.decided, all.sure) = (all.flows + flows, all.decided + decided, all.sure + sure);
        }
    }
    all
}

/// The report holds each path against the ways that packets took: all of a fat tree are right, with any
/// definition of a flow, and one that is changed is wrong.
#[test]
fn a_report_counts_right_and_wrong_paths() {
    for queries in ["path:bits=8:instances=2", "path:bits=8:checksum=8:flow=pair"] {
        let config = Config { queries: queries.parse().unwrap(), ..Config::default() };
        let setup = setup("fat-tree:4", "isp/uniform,flows=60,packets=16000,seed=6", config);
        let mut simulation = Simulation::new(&setup).unwrap();
        assert!(simulation.epoch(&setup.workload, None).is_none());
        let report = simulation.finish().pop().unwrap();
        let counts = report.programs["pint"].paths.unwrap();
        assert!(counts.decided_flows > 20 && counts.sure_flows > 10, "{counts:?}");
        assert_eq!([counts.right_flows, counts.wrong_flows], [counts.decided_flows, 0], "{counts:?}");
        let mut paths = paths(&simulation, 0).paths.clone();
        let mut sure = paths.iter_mut().filter(|path| path.certainty == Certainty::Sure);
        let (changed, shorter) = (sure.find(|path| path.switches.len() == 5).unwrap(), sure.next().unwrap());
        let mut swapped = changed.switches.to_vec();
        swapped.swap(1, 3);
        changed.switches = swapped.into();
        shorter.switches = shorter.switches[1..].into();
        shorter.certainty = Certainty::Decided;
        let counts = PathCounts::new(&paths, [simulation.network().generation(0)].into_iter());
        let wrong = [counts.wrong_flows, counts.sure_wrong_flows];
        assert_eq!((counts.right_flows + 2, wrong), (counts.decided_flows, [2, 1]), "{counts:?}");
    }
}

#[test]
fn paths_of_a_line() {
    let setup = setup("line:5", "isp/uniform,flows=40,packets=8000,seed=3", Config::default());
    let Held { flows, decided, sure } = run(&setup, 3);
    assert!(flows > 60 && decided > flows / 2 && sure > flows / 4, "{decided} and {sure} of {flows}");
}

#[test]
fn paths_of_a_fat_tree() {
    let workload = "isp/uniform,flows=100,packets=20000,seed=5";
    let blind = setup("fat-tree:4", workload, Config::default());
    let held = run(&blind, 2);
    assert!(held.decided > held.flows / 2 && held.sure > held.flows / 4, "{held:?}");
    // With fewer bits, links make the difference.
    let few = |neighbours| Config { bits: 1, instances: 1, neighbours, ..Config::default() };
    let one_bit = run(&setup("fat-tree:4", workload, few(BTreeMap::new())), 2);
    let linked = run(&setup("fat-tree:4", workload, few(neighbours(&blind))), 2);
    assert_eq!(linked.flows, one_bit.flows);
    assert!(linked.decided > one_bit.decided && linked.decided > linked.flows / 2, "{linked:?} {one_bit:?}");
}

/// With hops that bit vectors draw, paths are as true, and about as many are decided.
#[test]
fn vectors_draw_the_hops_of_a_fat_tree() {
    let of = |acts: &str| {
        let queries = format!("path:bits=8:instances=2:acts={acts}").parse().unwrap();
        let config = Config { queries, path_length: 20, ..Config::default() };
        run(&setup("fat-tree:4", "isp/uniform,flows=100,packets=20000,seed=5", config), 2)
    };
    let [hashes, vectors] = ["hashes", "vectors"].map(of);
    assert_eq!(hashes.flows, vectors.flows);
    assert!(vectors.decided > vectors.flows / 2 && vectors.sure > vectors.flows / 4, "{vectors:?}");
    assert!(hashes.decided.abs_diff(vectors.decided) < vectors.flows / 10, "{hashes:?} and {vectors:?}");
}

/// Links double packets, deliver them late and lose them: each switch that is named is a true one.
#[test]
fn faults_make_no_path_wrong() {
    let mut setup = setup("fat-tree:4", "isp/uniform,flows=60,packets=9000,seed=8", Config::default());
    let faults = ["double=all,rate=10%", "delay=all,rate=20%,by=5ms"];
    setup.faults = faults.iter().map(|fault| fault.parse::<Fault>().unwrap()).collect();
    setup.losses = vec!["link=all,rate=5%".parse().unwrap()];
    let mut simulation = Simulation::new(&setup).unwrap();
    let (mut truth, mut all, mut contradicted) = (Truth::new(), Held::default(), 0);
    for epoch in 0..4 {
        simulation.epoch(&setup.workload, None);
        learn(&mut truth, &simulation, epoch);
        let Some(paths) = simulation.newest(0).and_then(|newest| newest.answer::<Paths>(usize::MAX)) else { continue };
        let Held { flows, decided, sure } = hold(&setup, &truth, &paths.paths);
        (all.flows, all.decided, all.sure) = (all.flows + flows, all.decided + decided, all.sure + sure);
        contradicted += paths.paths.iter().filter(|path| path.contradictions > 0).count();
    }
    let lost = simulation.finish().iter().any(|report| !report.losses.is_empty());
    assert!(lost, "no link lost a packet");
    let Held { flows, decided, sure } = all;
    assert!(flows > 100 && decided > flows / 2 && sure > flows / 4 && contradicted == 0, "{all:?}, {contradicted}");
}

/// A topology that lacks links, or has others: nothing wrong is sure, and flows that it does not
/// explain are decided without it.
#[test]
fn a_wrong_topology_makes_no_path_wrong() {
    let workload = "isp/uniform,flows=60,packets=20000,seed=5";
    let mut wrong = neighbours(&setup("fat-tree:4", workload, Config::default()));
    // A ring of all switches in place of the tree.
    let number = wrong.len();
    for (i, others) in wrong.values_mut().enumerate() {
        *others = vec![format!("s{}", (7 * i + 3) % number)];
    }
    let setup = setup("fat-tree:4", workload, Config { neighbours: wrong, ..Config::default() });
    let mut simulation = Simulation::new(&setup).unwrap();
    simulation.epoch(&setup.workload, None);
    let mut truth = Truth::new();
    learn(&mut truth, &simulation, 0);
    simulation.finish();
    let found = paths(&simulation, 0).paths.clone();
    let sure: Vec<_> = found.into_iter().filter(|path| path.certainty == Certainty::Sure).collect();
    assert!(sure.len() > 10, "{}", sure.len());
    hold(&setup, &truth, &sure);
}

/// A sink has no room for all reports: the answer says so.
#[test]
fn missing_reports_are_told() {
    let config = Config { reports: 50, ..Config::default() };
    let setup = setup("line:2", "isp/uniform,flows=20,packets=2000,seed=3", config);
    assert!(setup.programs[0].rank(Task::Paths).is_some() && setup.runs_everywhere());
    let mut simulation = Simulation::new(&setup).unwrap();
    simulation.epoch(&setup.workload, None);
    simulation.finish();
    let claim = paths(&simulation, 0).claim;
    assert!(claim.incomplete.contains(Reason::Overflow));
    assert!(claim.gaps.iter().any(|gap| gap.gap.contains("reports about single packets found no room")));
}

/// Of flows with more packets than are kept a share is: a gap says of how many packets nothing is
/// known, and answers about values are not complete. Those about paths are: a share tells a path as
/// well.
#[test]
fn shares_of_large_flows_are_told() {
    for (packets, is_share) in [(20, true), (2000, false)] {
        let config = Config { queries: "path:bits=8+latency:bits=8".parse().unwrap(), packets, ..Config::default() };
        let setup = setup("line:2", "isp/uniform,flows=20,packets=2000,seed=3", config);
        let mut simulation = Simulation::new(&setup).unwrap();
        simulation.epoch(&setup.workload, None);
        simulation.finish();
        let paths = paths(&simulation, 0);
        let latency = simulation.answers(0, 0).unwrap().answer::<Latency>(usize::MAX).unwrap();
        let lack = latency.claim.incomplete.clone().without(Reason::Provisional);
        assert_eq!(lack.iter().collect::<Vec<_>>(), if is_share { vec![Reason::LargeFlows] } else { vec![] });
        let lack = &paths.claim.incomplete;
        assert!(!lack.contains(Reason::LargeFlows) && paths.paths.iter().all(|path| path.packets <= packets.into()));
        let outline = simulation.newest(0).unwrap();
        let outline = outline.history.outline(outline.epoch).unwrap();
        let gaps: u64 = outline
            .gaps
            .iter()
            .map(|gap| match gap.gap {
                Gap::LargeFlows { packets } => packets,
                gap => panic!("{gap}"),
            })
            .sum();
        let kept: u64 = latency.latencies.iter().flat_map(|flow| &flow.hops).map(|hop| hop.samples).sum();
        assert_eq!((kept + gaps, gaps > 0), (2000, is_share));
        assert!(paths.claim.gaps.iter().all(|gap| gap.gap.ends_with(" packets of large flows were not kept")));
    }
}

/// Connections between two hosts go several ways by their ports, and the query calls all of them one
/// flow. With checksums each way is an answer of its own, a true way of true neighbours; without
/// them such a flow contradicts itself.
#[test]
fn ways_of_one_flow_are_told_apart() {
    let run = |queries: &str| {
        let config = Config { queries: queries.parse().unwrap(), ..Config::default() };
        let setup = setup("fat-tree:4", "isp/uniform,flows=1500,packets=120000,seed=5", config);
        let mut simulation = Simulation::new(&setup).unwrap();
        let (mut truth, mut ways, mut contradicted) = (Truth::new(), BTreeMap::<_, BTreeSet<_>>::new(), 0);
        simulation.epoch(&setup.workload, None);
        learn(&mut truth, &simulation, 0);
        let pair = |flow: Flow| Flow { sport: None, dport: None, proto: None, ..flow };
        let truth = truth.into_iter().map(|(flow, hosts)| (pair(flow), hosts)).collect();
        simulation.finish();
        let flows = paths(&simulation, 0).paths.clone();
        hold(
            &setup,
            &truth,
            &flows.iter().filter(|path| path.certainty == Certainty::Sure).cloned().collect::<Vec<_>>(),
        );
        for path in flows {
            contradicted += u64::from(path.contradictions > 0);
            if path.certainty == Certainty::Sure {
                ways.entry((path.flow, path.sink)).or_default().insert(path.switches);
            }
        }
        (ways.values().filter(|ways| ways.len() > 1).count(), contradicted)
    };
    let (several, contradicted) = run("path:bits=5:instances=2:checksum=6:flow=pair");
    let (without, mixed) = run("path:bits=8:instances=2:flow=pair");
    assert!(several > 30 && without == 0, "{several} and {without}");
    assert!(contradicted * 4 < mixed, "{contradicted} and {mixed}");
}
