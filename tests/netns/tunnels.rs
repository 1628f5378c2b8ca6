//! Twenty flows in one VXLAN tunnel cross two switches, the link between which loses packets: the
//! controller names each flow with its lost packets.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use weir::wire::{Headers, Tunnels, parse};

use crate::common::eventually;
use crate::edges::{Edges, mac};
use crate::vlan::cross;
use crate::vxlan;

/// Long enough for a machine that does other things as well.
const AGREED: &str = "--epoch 500ms --transit 200ms --key inner";
const SWITCH: &str = "epoch = \"500ms\"\ntransit = \"200ms\"\nkey = \"inner\"\n";
/// How often traffic is tried again, with other flows, when the machine was too busy to measure
/// each epoch whole.
const ROUNDS: u16 = 3;
const FLOWS: u16 = 20;
const PACKETS: usize = 10;

/// The inner flows of frames, with the number of each one's packets.
fn count(frames: &[Vec<u8>]) -> BTreeMap<u16, i64> {
    let mut counts = BTreeMap::new();
    for frame in frames {
        let (mut headers, tunnels) = (Headers::default(), Tunnels { mpls_on_ethernet: false });
        parse(frame, &mut headers).unwrap();
        let inner = tunnels.inner(frame, &headers).unwrap().expect("a tunnel's packet");
        *counts.entry(inner.sport).or_default() += 1;
    }
    counts
}

#[test]
fn losses_of_the_flows_inside_a_tunnel_are_exact() {
    let Some(edges) = Edges::new("losses_of_the_flows_inside_a_tunnel_are_exact") else { return };
    let [a, b] = &edges.hosts[..] else { unreachable!("two hosts") };
    let controller = edges.controller(AGREED);
    let [near, far] = ["near", "far"].map(|name| edges.start(name, [SWITCH, "", ""]));
    a.reaches(b);
    eventually("an epoch of which all is known", || {
        (controller.ask("show losses --last 1s")["complete"] == true).then_some(())
    });
    // The fault sees the outer headers.
    near.ask("port fault fabric tx:drop=20%,dport=4789");
    let (mut told, to) = (None, mac(b));
    for round in 1..=ROUNDS {
        let sports = 1000 * round..1000 * round + FLOWS;
        let packet = |sport| vxlan::packet([[2, 0, 0, 0, 0, 0x77], to], [[10, 9, 0, 1], [10, 9, 0, 2]], sport);
        let packets: Vec<_> = sports.clone().map(packet).collect();
        let sent: Vec<_> = packets.iter().cycle().take(packets.len() * PACKETS).cloned().collect();
        let (mut lost, arrived) = (count(&sent), count(&cross(&edges.lab, a, b, &sent, 1)));
        arrived.iter().for_each(|(sport, packets)| *lost.get_mut(sport).expect("a flow that was sent") -= packets);
        lost.retain(|_, packets| *packets > 0);
        assert!(lost.len() > 5, "a fifth of 200 packets is lost: {lost:?}");
        // The records of the horizon.
        sleep(Duration::from_secs(2));
        let answer = controller.ask("show losses --last 8s --top 100");
        let losses = answer["losses"].as_array().unwrap();
        let of_round = losses.iter().filter(|loss| {
            let sport = loss["flow"]["sport"].as_u64().and_then(|sport| u16::try_from(sport).ok());
            sport.is_some_and(|sport| sports.contains(&sport)) && loss["flow"]["src"] == "172.16.0.1"
        });
        let named: BTreeMap<u16, i64> = of_round
            .map(|loss| (loss["flow"]["sport"].as_u64().unwrap() as u16, loss["packets"].as_i64().unwrap()))
            .collect();
        if answer["complete"] == true {
            assert_eq!(named, lost, "{answer:#}");
            told = Some(named);
            break;
        }
    }
    assert!(told.is_some(), "each round had an epoch that was not known whole");
    for weir in [&near, &far] {
        let tunnels = &weir.ask("show ports")["measurement"]["tunnels"];
        assert!(tunnels["read_packets"].as_u64() > Some(100) && tunnels["cut_packets"] == 0, "{tunnels}");
    }
    near.stop();
    far.stop();
    controller.stop();
}
