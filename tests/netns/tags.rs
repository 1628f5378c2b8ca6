//! Customers' frames with tags of their own cross a provider's network of two switches: all of them
//! arrive, byte for byte, and none is called lost.

use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::common::{eventually, pcap};
use crate::edges::{Edges, mac};
use crate::vlan::cross;

/// Long enough for a machine that does other things as well.
const AGREED: &str = "--epoch 500ms --transit 200ms";
const SWITCH: &str = "epoch = \"500ms\"\ntransit = \"200ms\"\n";
/// How often traffic is tried again when the machine was too busy to measure each epoch whole.
const ROUNDS: usize = 3;
const FRAMES: u16 = 100;

/// The address that the frames are from.
const SENDER: &str = "10.9.0.1";

/// UDP packets of a flow, with these tags in front, the outer one first.
fn frames(to: [u8; 6], tags: &[(u16, u16)]) -> Vec<Vec<u8>> {
    let frame = |n: u16| {
        let mut packet = vec![0x45, 0, 0, 60, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
        packet.extend([0x30, 0x39, 0, 80, 0, 40, 0, 0]);
        packet.resize(60, 0);
        packet[4..6].copy_from_slice(&n.to_be_bytes());
        let mut frame = pcap::ethernet(0, 0x77, 0x0800, &packet);
        frame[..6].copy_from_slice(&to);
        for (kind, tci) in tags.iter().rev() {
            frame.splice(12..12, [kind.to_be_bytes(), tci.to_be_bytes()].concat());
        }
        frame
    };
    (0..FRAMES).map(frame).collect()
}

/// Two provider edges with a link between them, their hosts, and the controller.
fn cross_the_network(test: &str, header: &str) {
    let Some(edges) = Edges::new(test) else { return };
    let [a, b] = &edges.hosts[..] else { unreachable!("two hosts") };
    let controller = edges.controller(&format!("{AGREED} --telemetry-header {header}"));
    let switch = format!("{SWITCH}telemetry_header = \"{header}\"");
    let [near, far] = ["near", "far"].map(|name| edges.start(name, [&switch, "qinq = 200", ""]));
    a.reaches(b);
    eventually("an epoch of which all is known", || {
        (controller.ask("show losses --last 1s")["complete"] == true).then_some(())
    });
    for tags in [[(0x8100, 0x2005), (0x8100, 6)], [(0x88a8, 7), (0x8100, 8)], [(0x9100, 9), (0x9100, 10)]] {
        let sent = frames(mac(b), &tags);
        let mut answer = Value::Null;
        for _ in 0..ROUNDS {
            let arrived = cross(&edges.lab, a, b, &sent, sent.len());
            let unharmed = arrived.iter().filter(|frame| sent.contains(frame)).count();
            assert_eq!((arrived.len(), unharmed), (sent.len(), sent.len()), "{header} {tags:x?}");
            // The records of the horizon.
            sleep(Duration::from_secs(2));
            answer = controller.ask("show losses --last 5s");
            if answer["complete"] == true {
                break;
            }
        }
        // A switch that stands still for less than the horizon makes no loss either.
        assert_eq!(answer["lost_packets"], 0, "{header} {tags:x?}: {answer:#}");
        let ours = |flow: &&Value| flow["flow"]["src"] == SENDER;
        let seen = controller.ask("show heavy --last 5s --top 50");
        let heavy = seen["heavy"].as_array().unwrap().iter().find(ours).unwrap_or_else(|| panic!("{seen:#}"));
        assert!(heavy["packets"].as_u64() >= Some(FRAMES.into()), "it is measured: {heavy}");
    }
    for weir in [&near, &far] {
        assert_eq!(weir.ask("show ports")["measurement"]["too_many_tags_packets"], 0);
    }
    near.stop();
    far.stop();
    controller.stop();
}

#[test]
fn a_third_tag_makes_no_loss_with_shims() {
    cross_the_network("tags::shim", "shim");
}

#[test]
fn a_third_tag_makes_no_loss_with_dscp() {
    cross_the_network("tags::dscp", "dscp");
}
