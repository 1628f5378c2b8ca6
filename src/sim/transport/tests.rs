//! Hosts that answer, alone and many, on a network that loses packets and on one that does not.

use super::super::tests::setup;
use super::super::{EpochReport, Setup, SimError, Simulation};
use super::*;
use crate::trace::Arrival;

const DIGEST: &str = "pint:queries=utilisation:bits=8:rate=10Gbps:period=18us";

/// A network of 10 Gbit/s, and these hosts. The first path of the fat tree has six links.
fn network(topology: &str, transport: &str, losses: &[&str]) -> Setup {
    let transport: Transport = transport.parse().unwrap();
    let digest = transport.feedback == FeedbackSource::Digest;
    Setup {
        programs: digest.then(|| DIGEST.parse().unwrap()).into_iter().collect(),
        transport: Some(transport),
        rate: Some(10_000_000_000),
        delay: 1000,
        queue_timeout: 1_000_000,
        epoch: 20_000_000,
        transit: 8_000_000,
        ..setup(topology, "hadoop/uniform,seed=3", losses)
    }
}

/// Runs these flows for so many epochs, and checks that every packet is accounted for.
fn run(setup: &Setup, flows: &[Arrival], epochs: u64) -> (TransportReport, Vec<Completion>, Vec<EpochReport>) {
    let mut simulation = Simulation::new(setup).unwrap();
    if !flows.is_empty() {
        simulation.network.hosts.as_mut().unwrap().set_flows(flows.to_vec());
    }
    let mut reports = Vec::new();
    for _ in 0..epochs {
        reports.extend(simulation.epoch(&setup.workload, None));
    }
    reports.extend(simulation.finish());
    let network = &simulation.network;
    assert_eq!((network.under_way(), network.shims_at_hosts()), (0, 0));
    let (mut sent, mut delivered) = (0, 0);
    for report in &reports {
        let doubled = report.doubled_packets;
        assert_eq!(report.sent_packets + doubled, report.delivered_packets + report.lost_packets, "{}", report.epoch);
        assert!(report.losses.iter().all(|at| at.reason != "astray"));
        sent += report.sent_packets;
        delivered += report.delivered_packets;
    }
    // Packets may reach their first switch when the last epoch is just over.
    let late = network.generation(epochs).sums();
    let to_hosts = network.crossed().filter(|link| network.peer(link.from).is_none());
    assert_eq!(to_hosts.map(|link| link.crossed).sum::<u64>(), delivered + late.delivered);
    assert!(late.sent <= 200, "{late:?} of {sent}");
    let transport = network.transport().unwrap();
    let completions = network.hosts.as_ref().unwrap().results().0.to_vec();
    assert_eq!(transport.finished_flows, completions.len() as u64);
    (transport, completions, reports)
}

fn flow(at_ns: u64, from: u32, to: u32, bytes: u32) -> Arrival {
    Arrival { at: at_ns * 1000, from, to, bytes }
}

const ALL: [&str; 3] = ["hpcc,feedback=int", "hpcc,feedback=digest", "hpcc,feedback=none"];

#[test]
fn words_go_round() {
    for text in
        ["hpcc,feedback=int,load=50%", "hpcc,feedback=none,load=1%,eta=0.9,max_stage=5,w_ai=800,rtt=13us,payload=1400"]
    {
        assert_eq!(text.parse::<Transport>().unwrap().to_string(), text);
    }
    assert_eq!("hpcc".parse::<Transport>().unwrap(), Transport::default());
}

#[test]
fn errors_say_what_would_be_right() {
    let wrong = [
        "",
        "tcp",
        "hpcc,load=0",
        "hpcc,load=200%",
        "hpcc,feedback=ecn",
        "hpcc,eta=2",
        "hpcc,rtt=1h",
        "hpcc,rtt=999999999999999999s",
        "hpcc,payload=20",
        "hpcc,payload=-1",
        "hpcc,w_ai=x",
        "hpcc,load",
        "hpcc,speed=3",
    ];
    let errors = wrong.map(|text| text.parse::<Transport>().unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"), @r#"
    "": write hpcc, or hpcc,feedback=int,load=50%; feedback is int, digest or none, further keys are eta=0.95, max_stage=0, w_ai=80, rtt=13us, payload=1000
    "tcp": write hpcc, or hpcc,feedback=int,load=50%; feedback is int, digest or none, further keys are eta=0.95, max_stage=0, w_ai=80, rtt=13us, payload=1000
    "hpcc,load=0": a load is 1% to 100%
    "hpcc,load=200%": a load is 1% to 100%
    "hpcc,feedback=ecn": write hpcc, or hpcc,feedback=int,load=50%; feedback is int, digest or none, further keys are eta=0.95, max_stage=0, w_ai=80, rtt=13us, payload=1000
    "hpcc,eta=2": eta is 0.5 to 1
    "hpcc,rtt=1h": rtt is 1us to 1s
    "hpcc,rtt=999999999999999999s": rtt is 1us to 1s
    "hpcc,payload=20": payload is 64 to 8900 bytes
    "hpcc,payload=-1": payload is 64 to 8900 bytes
    "hpcc,w_ai=x": w_ai is 0 to 1000000 bytes, max_stage 0 to 1000
    "hpcc,load": write hpcc, or hpcc,feedback=int,load=50%; feedback is int, digest or none, further keys are eta=0.95, max_stage=0, w_ai=80, rtt=13us, payload=1000
    "hpcc,speed=3": write hpcc, or hpcc,feedback=int,load=50%; feedback is int, digest or none, further keys are eta=0.95, max_stage=0, w_ai=80, rtt=13us, payload=1000
    "#);
}

#[test]
fn a_network_that_cannot_carry_it_is_refused() {
    let refused = |setup: Setup| Simulation::new(&setup).err().unwrap();
    let good = || network("line:2", "hpcc,feedback=int", &[]);
    assert!(Simulation::new(&good()).is_ok());
    assert!(matches!(refused(Setup { rate: None, ..good() }), SimError::TransportNeedsRate));
    let ranked = "zipf1.1/uniform,flows=10,packets=100".parse().unwrap();
    assert!(matches!(refused(Setup { workload: ranked, ..good() }), SimError::TransportNeedsSizes));
    assert!(matches!(refused(network("line:2", ALL[0], &["flows=1,rate=1%"])), SimError::TransportWithVictims));
    let digest = || network("line:2", ALL[1], &[]);
    assert!(matches!(refused(Setup { programs: Vec::new(), ..digest() }), SimError::NoUtilisation));
    let path = vec!["pint:queries=path:bits=8".parse().unwrap()];
    assert!(matches!(refused(Setup { programs: path, ..digest() }), SimError::NoUtilisation));
}

/// One packet finds no queue. It takes the time of its links and of those of its acknowledgement; a
/// digest makes it longer between switches, and INT everywhere.
#[test]
fn a_flow_of_one_packet_takes_its_way_and_back() {
    for (to, links) in [(1, 2), (2, 4), (15, 6)] {
        // 142 and 60 bytes, and 24 beside each, at 0.8 ns.
        let time = |more: u64| links * (2 * 1000 + (142 + more + 24) * 4 / 5 + (60 + more + 24) * 4 / 5);
        for (transport, most) in ALL.into_iter().zip([48, 6, 6]) {
            let (report, done, _) = run(&network("fat-tree:4", transport, &[]), &[flow(5000, 0, to, 100)], 1);
            let [Completion { bytes: 100, time: took, alone }] = done[..] else { panic!("{done:?}") };
            assert!(alone.abs_diff(time(0)) <= 2 * links, "{alone}, {}", time(0));
            assert!((alone..=time(most)).contains(&took), "{transport}: {took}, {alone} to {}", time(most));
            assert_eq!((report.sent_packets, report.retransmitted_packets, report.timeouts), (1, 0, 0));
        }
        // A packet that crosses one switch has no shim.
        let (_, done, _) = run(&network("fat-tree:4", ALL[2], &[]), &[flow(5000, 0, to, 100)], 1);
        assert_eq!(done[0].time == done[0].alone, links == 2);
    }
}

/// One flow takes the share of its link that it aims for, whatever it aims for; with one packet of
/// 16 that tells as well.
#[test]
fn one_flow_takes_the_target_of_its_link() {
    let bytes = 8_000_000;
    let share = |setup: &Setup| {
        let (report, done, _) = run(setup, &[flow(0, 0, 15, bytes)], 1);
        assert_eq!((report.retransmitted_packets, report.timeouts), (0, 0));
        // With headers, FCS and the rest; INT has 42 bytes, a shim 6.
        let more = match setup.transport.as_ref().unwrap().feedback {
            FeedbackSource::Int => 42 + 24,
            FeedbackSource::Digest => 6,
            FeedbackSource::None => 24,
        };
        f64::from(bytes) / 1000.0 * f64::from(1042 + more) * 0.8 / done[0].time as f64
    };
    for transport in [ALL[0], ALL[1]] {
        for eta in [0.95, 0.7] {
            let share = share(&network("fat-tree:4", &format!("{transport},eta={eta}"), &[]));
            assert!((eta - 0.05..eta + 0.02).contains(&share), "{transport}, {eta}: {share}");
        }
    }
    let mut seldom = network("fat-tree:4", ALL[1], &[]);
    let queries =
        "pint:budget=8,queries=path:bits=8:frequency=15/16+utilisation:bits=8:frequency=1/16:rate=10Gbps:period=18us";
    seldom.programs = vec![queries.parse().unwrap()];
    let of_seldom = share(&seldom);
    assert!((0.88..0.99).contains(&of_seldom), "{of_seldom}");
    let full = share(&network("fat-tree:4", ALL[2], &[]));
    assert!(full > 0.98, "{full}");
}

/// Eight hosts send to one at once. Feedback keeps the queue short, and without any it is full.
#[test]
fn feedback_keeps_queues_short() {
    let flows: Vec<_> = (0..8).map(|from| flow(0, from, 15, 1_500_000)).collect();
    let run = |transport: &str| run(&network("fat-tree:4", transport, &[]), &flows, 1).0;
    let [int, digest, none] = ALL.map(run);
    for report in [&int, &digest] {
        assert_eq!((report.finished_flows, report.retransmitted_packets), (8, 0), "{report:?}");
        // At first each sends as much as a link takes in a round-trip time.
        assert!(report.longest_queue_bytes < 8 * 25_000, "{report:?}");
    }
    assert_eq!(none.finished_flows, 8);
    // A late small flow waits behind what the others keep in the queue.
    let mut late = flows.clone();
    late.push(flow(4_000_000, 9, 15, 100));
    let slowdown = |transport: &str| {
        let (_, done, _) = self::run(&network("fat-tree:4", transport, &[]), &late, 1);
        let of = done.iter().find(|flow| flow.bytes == 100).unwrap();
        of.time as f64 / of.alone as f64
    };
    let [int, digest, none] = ALL.map(slowdown);
    assert!(int < 1.5 && digest < 1.5 && none > 4.0, "{int}, {digest}, {none}");
}

/// Hosts read the digest of each packet, also of those that no switch has room to report.
#[test]
fn digests_need_no_report() {
    let flows = [0, 1, 2].map(|from| flow(0, from, 15, 300_000));
    let run = |reports: &str| {
        let programs = vec![format!("{DIGEST},reports={reports}").parse().unwrap()];
        run(&Setup { programs, ..network("fat-tree:4", ALL[1], &[]) }, &flows, 2).1
    };
    let [few, many] = ["1", "100000"].map(run);
    assert_eq!((few.len(), few), (3, many));
}

/// Every byte comes, in spite of lost, doubled and overtaken packets, and of full queues.
#[test]
fn every_flow_ends() {
    let flows: Vec<_> = (0..8)
        .map(|number| flow(u64::from(number) * 20_000, 2 * number, (2 * number + 5) % 16, 10_000 * (1 + number)))
        .collect();
    let lossy: [(&[&str], &[&str]); 3] = [
        (&[], &["double=all,rate=5%"]),
        (&[], &["delay=all,rate=5%,by=50us"]),
        (&["link=all,rate=1%"], &["double=all,rate=2%", "delay=all,rate=2%,by=20us"]),
    ];
    for transport in ALL {
        for (losses, faults) in lossy {
            let faults: Vec<_> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
            let setup = Setup { faults, epoch: 100_000_000, ..network("fat-tree:4", transport, losses) };
            let (report, done, _) = run(&setup, &flows, 4);
            assert_eq!((report.flows, report.finished_flows), (8, 8), "{transport} {losses:?}: {report:?}");
            let sum = |of: &mut dyn Iterator<Item = u32>| of.map(u64::from).sum::<u64>();
            assert_eq!(sum(&mut done.iter().map(|flow| flow.bytes)), sum(&mut flows.iter().map(|flow| flow.bytes)));
            assert!(done.iter().all(|flow| flow.time >= flow.alone));
            assert!(report.retransmitted_packets > 0 || losses.is_empty());
        }
    }
    // A queue has room for ten packets.
    let small = Setup { queue_timeout: 9_000, ..network("fat-tree:4", ALL[2], &[]) };
    let incast: Vec<_> = (0..8).map(|from| flow(0, from, 15, 100_000)).collect();
    let (report, _, _) = run(&small, &incast, 6);
    assert!(report.finished_flows == 8 && report.retransmitted_packets > 100, "{report:?}");
}

/// The packets that hosts send again are packets for the programs, and their losses are found.
#[test]
fn programs_measure_what_hosts_send() {
    let chamelemon = "chamelemon:hh_threshold=1".parse().unwrap();
    let setup = network("fat-tree:4", "hpcc,feedback=digest,load=10%", &["link=all,rate=0.1%"]);
    let setup = Setup { programs: vec![DIGEST.parse().unwrap(), chamelemon], ..setup };
    let (transport, _, reports) = run(&setup, &[], 3);
    assert!(transport.finished_flows > 50, "{transport:?}");
    for report in &reports {
        let of = &report.programs["chamelemon"];
        let losses = of.losses.as_ref().unwrap().losses.unwrap();
        assert!(losses.is_exact() && losses.true_packets > 0, "{losses:?} of {report:?}");
        assert!(report.programs["pint"].utilisation.as_ref().unwrap().packets > 1000);
    }
}

/// A seed decides all.
#[test]
fn a_seed_gives_one_run() {
    let of_seed = |seed| {
        let setup = network("fat-tree:4", "hpcc,feedback=digest,load=20%", &[]);
        let mut setup = Setup { epoch: 13_000_000, transit: 5_000_000, ..setup };
        setup.workload.seed = seed;
        let (report, done, epochs) = run(&setup, &[], 1);
        assert!(report.finished_flows > 20, "{report:?}");
        (report, done, epochs)
    };
    assert_eq!(of_seed(3), of_seed(3));
    assert_ne!(of_seed(3), of_seed(4));
}
