//! Where packets were lost: hop counters beside the truth, to the packet.

use super::*;

fn counted(topology: &str, workload: &str, losses: &[&str]) -> Setup {
    let programs = ["chamelemon", "hopcounters"].map(|program| program.parse().unwrap());
    Setup { programs: programs.into(), ..setup(topology, workload, losses) }
}

fn places(report: &EpochReport) -> &report::PlaceScore {
    report.programs["hopcounters"].places.as_ref().expect("it answers the task")
}

/// The reports of some epochs in which something goes wrong.
fn faulty(setup: &Setup, epochs: u64) -> Vec<EpochReport> {
    let mut simulation = Simulation::new(setup).unwrap();
    for _ in 0..epochs {
        simulation.epoch(&setup.workload, setup.victims());
    }
    simulation.finish()
}

/// Each link and each switch has the number of packets that it lost, and no other has any, whatever the
/// topology.
#[test]
fn every_place_has_its_lost_packets() {
    let cases = [
        ("line:3", "keyvalue/uniform,flows=400,seed=7", vec!["link=0,rate=3%"]),
        ("testbed", "hadoop/uniform,flows=500,seed=8", vec!["link=all,rate=0.2%", "switch=agg0-0,rate=2%"]),
        ("fat-tree:4", "keyvalue/uniform,flows=3000,seed=9", vec!["flows=10%,rate=5%", "switch=core1,rate=1%"]),
        ("spine-leaf:2,3,2", "cache/uniform,flows=300,seed=3", vec!["switch=all,rate=0.5%", "link=2,rate=100%"]),
        ("fat-tree:4", "keyvalue/uniform,flows=500,seed=5", vec![]),
    ];
    for (topology, workload, losses) in cases {
        let (_, reports) = run(&counted(topology, workload, &losses), 3);
        let mut lost = 0;
        for report in &reports {
            let places = places(report);
            assert!(places.is_exact() && places.incomplete.is_empty(), "{topology} {losses:?}: {places:?}");
            assert_eq!(places.packets, places.true_packets, "{topology} {losses:?}");
            lost += places.true_packets;
        }
        assert_eq!(lost > 0, !losses.is_empty(), "{topology}: {lost}");
    }
}

/// So it is where links delay packets, past the transit time and up to the horizon, also in several epochs
/// at once, and where switches stand still.
#[test]
fn late_packets_are_not_lost() {
    for (topology, faults) in [
        ("fat-tree:4", vec!["delay=all,rate=2%,by=60ms"]),
        ("line:4", vec!["delay=1,rate=20%,by=95ms", "pause=s1,at=70ms,for=30ms"]),
    ] {
        let mut setup = counted(topology, "keyvalue/uniform,flows=600,seed=4", &["link=all,rate=0.5%"]);
        setup.faults = faults.iter().map(|fault| fault.parse().unwrap()).collect();
        // Nothing is known of the epoch before the first.
        let reports = faulty(&setup, 5).split_off(1);
        let late = reports.iter().filter(|report| places(report).is_exact()).count();
        assert_eq!(late, reports.len(), "{topology}: {:#?}", reports.iter().map(places).collect::<Vec<_>>());
        assert!(reports.iter().map(|report| places(report).true_packets).sum::<u64>() > 30);
    }
}

/// Doubled packets are told apart from lost ones, and no number is called exact then.
#[test]
fn doubled_packets_hide_no_place() {
    let mut setup = counted("line:3", "keyvalue/uniform,flows=2000,seed=4", &["link=1,rate=1%"]);
    setup.faults = vec!["double=1,rate=1%".parse().unwrap()];
    for report in &faulty(&setup, 3)[1..] {
        let places = places(report);
        assert!(places.right_packets * 10 > places.true_packets * 7, "{places:?}");
        assert!(places.incomplete.contains(crate::history::Reason::Gained), "{places:?}");
    }
}

/// The flows that lost packets are named at their places.
#[test]
fn victims_are_named_where_they_lost_packets() {
    let (simulation, reports) =
        run(&counted("fat-tree:4", "keyvalue/uniform,flows=2000,seed=6", &["link=9,rate=30%", "link=20,rate=20%"]), 2);
    for report in &reports {
        let places = places(report);
        assert!(places.true_packets > 10 && places.named_packets == places.true_packets, "{places:?}");
    }
    let network = simulation.network();
    let histories = simulation.histories();
    let answers = simulation.answers(1, 1).unwrap().with_surroundings(network, &histories);
    let found = answer_places(&answers);
    for ((flow, at), packets) in &network.generation(1).places {
        let name = network.generation(1).flows[*flow as usize].tuple.flow();
        let (switch, port) = network.named(*at).unwrap();
        let place = found.places.iter().find(|place| (&place.switch, &place.port) == (&switch, &port)).unwrap();
        let victim = place.victims.iter().find(|victim| victim.name.flow() == Some(name));
        assert_eq!(victim.map(|victim| victim.packets), Some(u64::from(*packets)), "{name} at {switch} {port:?}");
    }
}

fn answer_places(answers: &report::EpochAnswers<'_>) -> crate::answers::Claimed<crate::answers::Places> {
    answers.answer(usize::MAX).unwrap()
}

/// Without hop counters the link that loses packets is inferred from what the edges measured and the paths that
/// are recomputed. Where all flows that cross a switch cross the link as well, a switch at its end may be named.
#[test]
fn places_are_inferred_where_no_switch_counts() {
    let programs = vec!["chamelemon".parse().unwrap()];
    let setup = setup("fat-tree:4", "keyvalue/uniform,flows=4000,seed=6", &["link=9,rate=5%"]);
    let (simulation, _) = run(&Setup { programs, ..setup }, 2);
    let network = simulation.network();
    let answers = simulation.answers(0, 1).unwrap().with_surroundings(network, &simulation.histories());
    let found = answer_places(&answers);
    let mut lost = std::collections::BTreeMap::new();
    for ((_, at), packets) in &network.generation(1).places {
        *lost.entry(network.named(*at).unwrap()).or_insert(0) += u64::from(*packets);
    }
    let failed: Vec<_> = found.places.iter().filter(|place| place.failed).collect();
    assert!(!failed.is_empty(), "{found:?} {lost:?}");
    for place in failed {
        let is_there = |switch: &str| place.switch.split(", ").any(|of| of == switch);
        assert!(lost.keys().any(|(switch, _)| is_there(switch)), "{place:?}, truly {lost:?}");
        assert_eq!(place.evidence, crate::answers::Evidence::Inferred);
    }
}
