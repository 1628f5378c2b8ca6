//! Tagged frames keep their tags, although kernels take tags out of frames and hand them over
//! beside them.

use std::time::Duration;

use crate::common::{Host, Lab, Lack, Link, Weir, eventually, pcap, skip};

const TAG: [u16; 3] = [0x8100, 0x88a8, 0x8100];

/// The frames, each with its number in it, as broadcasts: untagged, tagged, and tagged twice.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for n in 0..200_u16 {
        let mut payload = vec![0; 60];
        payload[..2].copy_from_slice(&n.to_be_bytes());
        let mut inner = 0x88b6_u16; // local experimental: no kernel answers it
        for depth in 0..n % 3 {
            let mut tagged = (0x2000 | (10 + depth)).to_be_bytes().to_vec(); // priority 1
            tagged.extend(inner.to_be_bytes());
            tagged.extend(&payload);
            (payload, inner) = (tagged, TAG[usize::from(depth)]);
        }
        let mut frame = pcap::ethernet(0, 0x77, inner, &payload);
        frame[..6].fill(0xff);
        frames.push(frame);
    }
    frames
}

/// weir itself puts the frames on host 1's interface and takes them off host 2's.
fn tags_survive(test: &str, link: Link, forward: &str) {
    let Some(lab) = Lab::new(test) else { return };
    let (weir, hosts) = lab.start(link, 2, &format!("--forward {forward}"));
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    let sent = frames();
    let ours = cross(&lab, a, b, &sent, sent.len());
    weir.stop();
    let lost = sent.iter().filter(|frame| !ours.contains(frame)).count();
    assert_eq!((lost, ours.len()), (0, sent.len()), "each frame arrives once, with its tags");
}

/// Sends frames from host 1's interface, waits until `arriving` of them have come to host 2's, and
/// returns those that came.
pub fn cross(lab: &Lab, a: &Host, b: &Host, sent: &[Vec<u8>], arriving: usize) -> Vec<Vec<u8>> {
    pcap::write(&lab.path("in.pcap"), sent);
    let _ = std::fs::remove_file(lab.path("out.pcap"));
    let sink = Weir::start(lab, &b.space, "sink", "--forward xconnect --port in=veth:h2 --port out=pcap:,out.pcap");
    let source = Weir::start(lab, &a.space, "source", "--forward xconnect --port in=pcap:in.pcap --port out=veth:h1");
    let seen = |name: &str, weir: &Weir| {
        let ports = weir.ask("show ports");
        ports["ports"].as_array().unwrap().iter().find(|p| p["name"] == name).unwrap()["tx_packets"].as_u64().unwrap()
    };
    eventually("the frames to be sent", || (seen("out", &source) >= sent.len() as u64).then_some(()));
    eventually("the frames to arrive", || (seen("out", &sink) >= arriving as u64).then_some(()));
    // Among those that arrived may be frames of the kernel's.
    std::thread::sleep(Duration::from_millis(500));
    source.stop();
    sink.stop();
    let ours = |frame: &Vec<u8>| frame.get(6..12) == Some(&[2, 0, 0, 0, 0, 0x77]);
    pcap::read(&lab.path("out.pcap")).into_iter().filter(ours).collect()
}

#[test]
fn veth_keeps_tags() {
    tags_survive("veth_keeps_tags", Link::Veth, "learn");
}

#[test]
fn tap_keeps_tags() {
    tags_survive("tap_keeps_tags", Link::Tap, "xconnect");
}

/// Two hosts with VLAN interfaces, where the kernel has such things.
#[test]
fn hosts_on_a_vlan() {
    for link in [Link::Tap, Link::Veth] {
        let Some(lab) = Lab::new("hosts_on_a_vlan") else { return };
        let probe = lab.switch.try_run("ip link add link lo name probe type vlan id 10");
        let said = String::from_utf8_lossy(&probe.stderr);
        if said.contains("Unknown device type") {
            return skip("hosts_on_a_vlan", Lack::Kernel, "this kernel has no VLAN interfaces (8021q)");
        }
        assert!(probe.status.success(), "{said}");
        let (weir, hosts) = lab.start(link, 2, "");
        let [a, b] = &hosts[..] else { unreachable!("two hosts") };
        for (n, host) in [(1, a), (2, b)] {
            host.space.run(&format!("ip link add link {host} name vlan10 type vlan id 10"));
            host.space.run(&format!("ip addr add 10.0.10.{n}/24 dev vlan10"));
            host.space.run("ip link set vlan10 up");
        }
        a.reaches(b);
        a.space.run("ping -n -q -c 3 -i 0.2 10.0.10.2");
        a.space.run("ping -n -q -c 3 -i 0.2 -s 4000 10.0.10.2");
        weir.stop();
    }
}
