//! Frames that end at the next bridge: dropped, or forwarded where a switch is to be a wire.

use serde_json::Value;

use crate::common::{Lab, Link, Weir, pcap};
use crate::vlan::cross;

/// STP, PAUSE, LACP, 802.1X, LLDP, and a group that every bridge forwards; each with its number.
const GROUPS: [(u8, u16); 6] = [(0, 38), (1, 0x8808), (2, 0x8809), (3, 0x888e), (0xe, 0x88cc), (0x10, 0x88b6)];

fn frames() -> Vec<Vec<u8>> {
    let frame = |(group, ethertype): (u8, u16)| {
        let mut frame = pcap::ethernet(0, 0x77, ethertype, &[group; 46]);
        frame[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, group]);
        frame
    };
    GROUPS.map(frame).to_vec()
}

/// Packets that were dropped as `link_local`.
fn dropped(weir: &Weir) -> u64 {
    let drops = |port: &Value| port["drops"]["link_local"].as_u64().expect("a count");
    weir.ask("show ports")["ports"].as_array().expect("ports").iter().map(drops).sum()
}

/// A learning switch keeps them, until a reload makes it a wire for all but PAUSE, and another one a pair of ports that
/// passes all. The hosts' own frames to these groups, if they send any, are not looked at.
#[test]
fn a_learning_switch_is_made_transparent() {
    let Some(lab) = Lab::new("a_learning_switch_is_made_transparent") else { return };
    let write = |switch: &str| {
        let ports = "[[port]]\nname = \"a\"\ndev = \"veth:p1\"\n[[port]]\nname = \"b\"\ndev = \"veth:p2\"\n";
        std::fs::write(lab.path("weir.toml"), format!("[switch]\n{switch}\n{ports}")).unwrap();
    };
    write("");
    let ports = lab.ports(Link::Veth, 2);
    let weir = Weir::start(&lab, &lab.switch, "switch", "-c weir.toml");
    let hosts = ports.connect();
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    let sent = frames();
    assert_eq!(cross(&lab, a, b, &sent, 1), sent[5..]);
    assert!(dropped(&weir) >= 5);

    write("link_local = \"forward\"");
    assert_eq!(weir.ask("reload")["changes"], serde_json::json!(["switch.link_local = forward, was drop"]));
    let arrived = cross(&lab, a, b, &sent, 5);
    let expected: Vec<_> = sent.iter().filter(|frame| frame[5] != 1).cloned().collect();
    assert_eq!(arrived, expected);

    write("forward = \"xconnect\"");
    weir.ask("reload");
    assert_eq!(cross(&lab, a, b, &sent, 6), sent);
    weir.stop();
}
