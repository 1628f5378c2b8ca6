//! DiSketch in five switches, of which three have little memory, beside the other programs: any flow is
//! counted, also when it takes another path in the middle of an epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Child;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use weir::answers::{AnsweredRoutes, ByRoute, Certainty, Claimed, Frequency, Query, Route, Routes, Task};
use weir::archive::Archive;
use weir::history::Window;
use weir::pisa::hash::HashFamily;
use weir::wire::Flow;

use crate::common::{Controller, eventually};
use crate::fabric::Fabric;

const SPINES: usize = 3;
const FLOWS: u64 = 400;
const FIRST_PORT: u64 = 30_000;
/// Bytes of the fragments: switches with little memory, and the others.
const SMALL: [(&str, u64); 3] = [("leaf1", 2000), ("spine1", 1000), ("spine2", 1000)];
const LARGE: [(&str, u64); 2] = [("leaf2", 16_000), ("spine3", 16_000)];
/// Of all hash functions: two paths have one checksum under one secret in 256.
const SEED: u64 = 7;
/// A fragment with an error above twice this many packets cuts its epochs. The default is for more traffic
/// than this.
const TARGET: &str = "0.5";
/// Time after which the epochs of what was sent have closed, and have final answers.
const CLOSED: Duration = Duration::from_millis(1500);

/// Sends packets of all flows in turns, some tens at a time, so that they last some epochs.
const SENDER: &str = "\
import socket, sys, time
first, flows, rounds = map(int, sys.argv[1:])
sockets = []
for port in range(first, first + flows):
    flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flow.bind(('10.0.1.9', port))
    sockets.append(flow)
turns = [(16 if i % 50 == 0 else 4 if i % 10 == 0 else 1, flow) for i, flow in enumerate(sockets)]
sent = 0
for _ in range(rounds):
    for turn in range(16):
        for weight, flow in turns:
            if turn < weight:
                flow.sendto(b'x' * 64, ('10.0.2.9', 9))
                sent += 1
                if sent % 40 == 0:
                    time.sleep(0.005)
";

/// Packets that a round of the sender has of each flow.
fn weight(flow: u64) -> u64 {
    match flow {
        flow if flow.is_multiple_of(50) => 16,
        flow if flow.is_multiple_of(10) => 4,
        _ => 1,
    }
}

fn send(fabric: &Fabric, rounds: u64) -> Child {
    let mut python = fabric.hosts[0].command("python3");
    python.args(["-c", SENDER]).args([FIRST_PORT, FLOWS, rounds].map(|number| number.to_string()));
    python.spawn().expect("python3 starts")
}

fn wait(mut sender: Child) {
    assert!(sender.wait().expect("ours").success());
}

fn name(flow: u64) -> String {
    format!("10.0.1.9:{} -> 10.0.2.9:9 udp", FIRST_PORT + flow)
}

/// The counts of all flows.
fn counts(fabric: &Fabric, controller: &Controller) -> BTreeMap<u64, u64> {
    let list = fabric.lab.path("flows.txt");
    fs::write(&list, (0..FLOWS).map(|flow| name(flow) + "\n").collect::<String>()).unwrap();
    let counted = controller.ask(&format!("query frequency --program disketch --flows {} --last 60s", list.display()));
    let counts = counted["frequencies"].as_array().expect("a list of answers");
    (0..).zip(counts.iter().map(|count| count["packets"]["estimate"].as_u64().expect("an estimate"))).collect()
}

/// The switches of each flow's paths so far, where they are decided.
fn paths(controller: &Controller) -> BTreeMap<u64, BTreeSet<Vec<String>>> {
    let answer = controller.ask("show paths --last 60s --top 10000");
    let mut paths: BTreeMap<u64, BTreeSet<_>> = BTreeMap::new();
    for path in answer["paths"].as_array().expect("paths") {
        let flow = path["flow"]["sport"].as_u64().and_then(|port| port.checked_sub(FIRST_PORT));
        let is_ours = path["flow"]["src"] == "10.0.1.9" && path["flow"]["proto"] == 17;
        let Some(flow) = flow.filter(|flow| is_ours && *flow < FLOWS) else { continue };
        if path["certainty"] != "undecided" {
            let switches = path["switches"].as_array().expect("switches").iter();
            paths.entry(flow).or_default().insert(switches.map(|switch| switch.as_str().unwrap().into()).collect());
        }
    }
    paths
}

/// Root mean square of the counts' errors, as a share of what was sent.
fn error(counts: &BTreeMap<u64, u64>, rounds: u64) -> f64 {
    let share = |(flow, count): (&u64, &u64)| *count as f64 / (weight(*flow) * rounds) as f64 - 1.0;
    (counts.iter().map(|of| share(of).powi(2)).sum::<f64>() / counts.len() as f64).sqrt()
}

/// Paths that stay what they were.
#[derive(Debug)]
struct Former(BTreeMap<u64, BTreeSet<Vec<String>>>);

impl Routes for Former {
    fn of(&self, flow: &Flow) -> Vec<Route> {
        let number = flow.sport.and_then(|port| u64::from(port).checked_sub(FIRST_PORT));
        let paths = number.and_then(|number| self.0.get(&number));
        let route = |path: &Vec<String>| Route {
            switches: path.iter().map(|name| Some(Arc::from(&name[..]))).collect(),
            certainty: Certainty::Sure,
            packets: None,
        };
        paths.into_iter().flatten().map(route).collect()
    }
}

/// Flows of which a path is by this spine.
fn by(spine: &str, paths: &BTreeMap<u64, BTreeSet<Vec<String>>>) -> BTreeSet<u64> {
    paths.iter().filter(|(_, paths)| paths.iter().any(|path| path[1] == spine)).map(|(flow, _)| *flow).collect()
}

/// Share of a flow's packets by which its count may be wrong. Each path ends in the large fragment of leaf2,
/// so the counts of flows with many packets an epoch are right within some per cent, and those of flows with
/// two or three packets an epoch are a tenth too low: noise of the small fragments explains as many. A
/// switch that stands still for a moment counts packets in a later epoch than the one before it. Where a
/// path is not followed, the error is larger than this.
const TOLERANCE: f64 = 0.25;

fn are_near(counts: &BTreeMap<u64, u64>, rounds: u64) -> bool {
    let is_near = |(flow, count): (&u64, &u64)| {
        let sent = (weight(*flow) * rounds) as f64;
        (*count as f64 - sent).abs() <= TOLERANCE * sent
    };
    let far = counts.iter().filter(|of| !is_near(*of)).count();
    far * 10 <= counts.len() && error(counts, rounds) <= TOLERANCE
}

/// Bytes of a switch's fragment.
fn memory(switch: &str) -> u64 {
    SMALL.into_iter().chain(LARGE).find(|(name, _)| *name == switch).expect("one of the five").1
}

/// A flow by itself has a count, and the other programs have the same packets.
fn others_answer(controller: &Controller, rounds: u64) {
    let ask = |program: &str, flow: u64| {
        let flow = name(flow);
        controller.ask(&format!("query frequency --program {program} --flow '{flow}' --last 60s"))
    };
    let found = |count: &Value| count["packets"]["estimate"].as_u64().expect("an estimate");
    for flow in [0, 7, 10] {
        let (count, sent) = (ask("disketch", flow), weight(flow) * rounds);
        assert!(found(&count).abs_diff(sent) as f64 <= 2.0 * TOLERANCE * sent as f64, "{sent}: {count}");
    }
    let heavy = controller.ask("show heavy --program hashpipe --last 60s --top 20");
    let named = heavy["heavy"].as_array().expect("flows").iter();
    let named: BTreeSet<_> = named.filter_map(|heavy| heavy["flow"]["sport"].as_u64()).collect();
    assert!((0..FLOWS).step_by(50).all(|flow| named.contains(&(FIRST_PORT + flow))), "{heavy}");
    // Where a busy machine is late with its parameters, ChameleMon answers without an epoch, and says so.
    let (count, sent) = (ask("chamelemon", 0), weight(0) * rounds);
    let has_gaps = count["gaps"].as_array().is_some_and(|gaps| !gaps.is_empty());
    assert!(found(&count) > 0 && (has_gaps || 4 * found(&count) >= 3 * sent), "{sent}: {count}");
}

/// Each of the five says its memory, sub-epochs and error; those with little memory have larger errors and
/// cut their epochs more finely.
fn small_fragments_are_cut(controller: &Controller) {
    let attention = controller.ask("show attention --program disketch --last 60s");
    let mut largest: BTreeMap<String, (u64, f64)> = BTreeMap::new();
    for epoch in attention["epochs"].as_array().expect("epochs") {
        for (name, of) in epoch["switches"].as_object().expect("switches") {
            let (sub_epochs, error) = largest.entry(name.clone()).or_default();
            // Null where a record has several numbers.
            *sub_epochs = (*sub_epochs).max(of["sub_epochs"].as_u64().unwrap_or_default());
            *error = error.max(of["error_packets"].as_f64().expect("an error"));
            assert_eq!(of["memory_bytes"], memory(name), "{name}: {of}");
        }
    }
    assert_eq!(largest.len(), SMALL.len() + LARGE.len(), "{largest:?}");
    for (small, large) in SMALL.iter().flat_map(|small| LARGE.map(|large| (small.0, large.0))) {
        let [(small_cuts, small_error), (large_cuts, large_error)] = [small, large].map(|name| largest[name]);
        assert!(small_cuts > large_cuts && small_error > large_error, "{small}, {large}: {largest:?}");
    }
}

/// The counts of these flows by their records in the archive, with these paths.
fn archived(archive: &Archive, flows: &BTreeSet<u64>, routes: &Arc<dyn Routes>) -> BTreeMap<u64, u64> {
    let history = archive.history("disketch", 60.0).unwrap();
    let count = |flow: &u64| {
        let (wanted, routes) = (name(*flow).parse().unwrap(), Some(ByRoute::new(routes.clone())));
        let query = Query { flow: Some(wanted), routes, ..Query::new(Task::Frequency, Window::All) };
        let found: Claimed<Frequency> = history.answer(&query).unwrap();
        (*flow, found.count().estimate)
    };
    flows.iter().map(count).collect()
}

#[test]
fn little_memory_counts_any_flow_on_every_path() {
    let Some(fabric) = Fabric::new("little_memory_counts_any_flow_on_every_path", SPINES) else { return };
    let switches = fabric.switches_with(|switch| {
        let others = "[[program]]\nname = \"chamelemon\"\n[[program]]\nname = \"pint\"\n\
                      [[program]]\nname = \"hashpipe\"\nscope = \"network\"\nslots = 512\n";
        let memory = memory(fabric.names()[switch]);
        format!("{others}[[program]]\nname = \"disketch\"\nmemory = \"{memory}B\"\nrho_target = {TARGET}\n")
    });
    let archive = fabric.lab.path("archive");
    fs::write(fabric.lab.path("network.toml"), format!("[archive]\ndir = \"{}\"\n", archive.display())).unwrap();
    let programs = format!(
        "chamelemon pint:queries=path:bits=8:checksum=8 hashpipe:scope=network,slots=512 disketch:rho_target={TARGET}"
    );
    let controller = fabric.controller(&programs, &format!("--config network.toml --reproducible {SEED}"));
    fabric.is_connected();

    let mut rounds = 0;
    let before = eventually("all flows to have paths and counts", || {
        wait(send(&fabric, 40));
        rounds += 40;
        thread::sleep(CLOSED);
        let (paths, counts) = (paths(&controller), counts(&fabric, &controller));
        (10 * paths.len() as u64 >= 9 * FLOWS && are_near(&counts, rounds)).then_some(paths)
    });
    others_answer(&controller, rounds);

    // Flows by the third spine take another one from the middle of an epoch on.
    let rerouted = by("spine3", &before);
    assert!(rerouted.len() > 50, "{before:?}");
    let sender = send(&fabric, 40);
    thread::sleep(Duration::from_millis(2100));
    for weir in &switches[..2] {
        weir.ask("port down tospine3");
    }
    wait(sender);
    rounds += 40;
    eventually("all flows to be counted on both paths", || {
        thread::sleep(CLOSED);
        let counts = counts(&fabric, &controller);
        let paths = paths(&controller);
        let elsewhere = |flow: &&u64| paths.get(flow).is_some_and(|paths| paths.iter().any(|path| path[1] != "spine3"));
        let moved = rerouted.iter().filter(elsewhere).count();
        let counts: BTreeMap<_, _> = counts.into_iter().filter(|(flow, _)| rerouted.contains(flow)).collect();
        let is_known = 10 * moved >= 9 * rerouted.len() && are_near(&counts, rounds);
        if !is_known {
            wait(send(&fabric, 20));
            rounds += 20;
        }
        is_known.then_some(())
    });

    small_fragments_are_cut(&controller);
    switches.into_iter().for_each(|weir| _ = weir.stop());
    controller.stop();

    let archive = Archive::open(&archive, Some(HashFamily::reproducible(SEED))).unwrap();
    let pint = archive.history("pint", 60.0).unwrap();
    let known = AnsweredRoutes::by_epoch(&*pint, &Query::new(Task::Frequency, Window::All)).unwrap();
    let routes: [Arc<dyn Routes>; 2] = [Arc::new(known), Arc::new(Former(before))];
    let [aware, unaware] = routes.map(|routes| error(&archived(&archive, &rerouted, &routes), rounds));
    assert!(unaware > 2.0 * aware, "{aware} with the paths of each epoch, {unaware} with the first ones");
}
