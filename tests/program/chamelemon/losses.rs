//! Losses that are none: what is flooded, fragmented, or meant for the switch itself. And one that
//! cannot be told, which is counted.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{Icmpv4Type, Icmpv6Type, PacketBuilder};
use weir::assemble::{Assembly, assemble};
use weir::config::Config;
use weir::history::Gap;
use weir::pisa::{DropReason, PortId};
use weir::program::Before;
use weir::program::chamelemon::decoder::Delta;
use weir::program::chamelemon::network::{NetworkEpoch, Reported};
use weir::program::chamelemon::{Analysis, Sketches};
use weir::switch::{Burst, TxBursts};
use weir::wire::{Flow, Frame, HeapFrame};

use crate::frames::{address, host_mac, mend, own, port, udp};
use crate::records::Records;
use crate::vxlan;

const NOW: u64 = 1_790_000_000_000_000_000;
const PROGRAM: &str = "[[program]]\nname = \"chamelemon\"\nhh_threshold = 3\n";

/// A port of a switch: both by number.
type End = (usize, PortId);

/// Switches and the links between their fabric ports.
struct Net {
    switches: Vec<Assembly>,
    runs: Vec<Records>,
    links: BTreeMap<End, End>,
    /// The next packet that a link takes is lost.
    loses: bool,
    /// The next packet that leaves by this port is lost.
    loses_at: Option<End>,
}

impl Net {
    fn new(configs: &[String], links: &[(End, End)]) -> Self {
        let assembly = |toml: &String| {
            let config = Config::parse(toml).unwrap();
            let mut assembly = assemble(&config, None, 1).unwrap();
            let run = Records::of(&mut assembly.collector);
            (assembly, run)
        };
        let links = links.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        let (switches, runs) = configs.iter().map(assembly).unzip();
        Self { switches, runs, links, loses: false, loses_at: None }
    }

    /// A host sends a frame; gives what hosts get.
    fn send(&mut self, at: End, frame: &[u8]) -> Vec<(End, Vec<u8>)> {
        let mut arrived = Vec::new();
        let mut on_wire = vec![(at, HeapFrame::new(frame))];
        while let Some(((switch, port), frame)) = on_wire.pop() {
            let assembly = &mut self.switches[switch];
            let mut out = TxBursts::new(assembly.ports.len());
            let mut burst = Burst::from_iter([frame]);
            assembly.switches[0].process(port, &mut burst, NOW, &mut out);
            if let Some(learning) = &mut assembly.learning {
                learning.serve(NOW);
            }
            for (id, queue) in out.queues() {
                match self.links.get(&(switch, id)) {
                    None => arrived.extend(queue.drain(..).map(|frame| ((switch, id), frame.bytes().to_vec()))),
                    Some(_) if std::mem::take(&mut self.loses) => queue.clear(),
                    Some(&far) => {
                        if self.loses_at.take_if(|at| *at == (switch, id)).is_some() {
                            queue.pop();
                        }
                        on_wire.extend(queue.drain(..).map(|frame| (far, HeapFrame::new(frame.bytes()))));
                    }
                }
            }
        }
        arrived
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        let switches = self.switches.iter().flat_map(|assembly| &assembly.switches);
        switches.map(|switch| switch.stats().ports().map(|port| port.dropped(reason)).sum::<u64>()).sum()
    }

    /// The records of the switches that measure.
    fn records(&mut self) -> Vec<Sketches> {
        let mut records = Vec::new();
        for (Assembly { switches, collector, .. }, run) in self.switches.iter_mut().zip(&self.runs) {
            switches[0].finish();
            collector.finish();
            records.extend(run.sum::<Sketches>());
        }
        records
    }
}

/// What a controller makes of the records.
fn network(records: Vec<Sketches>) -> NetworkEpoch {
    let (epoch, parameters) = (NOW / 50_000_000, records[0].parameters);
    let reported = |(number, sketches): (usize, Sketches)| Reported {
        switch: format!("s{number}").into(),
        record: Ok(Box::new(sketches)),
        before: Before::Nothing,
    };
    NetworkEpoch::analyse(epoch, parameters, records.into_iter().enumerate().map(reported).collect())
}

/// What the switches together miss: no more and no less than these packets.
fn assert_lost(records: Vec<Sketches>, lost: &[(Flow, u64)]) {
    let mut expected: Vec<_> = lost.iter().map(|(flow, packets)| (records[0].id(flow).unwrap(), *packets)).collect();
    let analyses: Vec<_> = records.into_iter().map(Analysis::new).collect();
    let mut delta = Delta::entered(&analyses[0]).unwrap();
    analyses[1..].iter().for_each(|analysis| delta.enter(analysis).unwrap());
    for analysis in &analyses {
        delta.left(analysis.sketches(), analysis.sketches().bit).unwrap();
    }
    let losses = delta.decode();
    assert!(losses.decoded);
    expected.sort_unstable();
    let mut found: Vec<_> = losses.flows.iter().map(|loss| (loss.id, loss.lost)).collect();
    found.sort_unstable();
    assert_eq!(found, expected);
}

fn flow(from: u8, to: u8, dport: u16) -> Flow {
    let ip = |n| Some(IpAddr::V4(address(n)));
    Flow { src: ip(from), dst: ip(to), sport: Some(4000), dport: Some(dport), proto: Some(17) }
}

/// Three edge switches with some hosts each, around one in the middle.
fn star(hosts: usize, core_measures: bool, telemetry_header: &str) -> Net {
    let edge = |_| {
        let hosts: String = (0..hosts).map(|n| port(&format!("h{n}"), "host", 1500, "")).collect();
        format!(
            "[switch]\ntelemetry_header = \"{telemetry_header}\"\nreproducible = 1\n{hosts}{}{PROGRAM}",
            port("up", "fabric", 1600, "")
        )
    };
    let core: String = (0..3).map(|n| port(&format!("e{n}"), "fabric", 1600, "")).collect();
    let core = format!(
        "[switch]\ntelemetry_header = \"{telemetry_header}\"\nreproducible = 1\n{core}{}",
        if core_measures { PROGRAM } else { "" }
    );
    let configs: Vec<_> = (0..3).map(edge).chain([core]).collect();
    let links: Vec<_> = (0..3).map(|n| ((n, hosts as PortId), (3, n as PortId))).collect();
    Net::new(&configs, &links)
}

/// What is flooded becomes several packets, and still neither hides a loss nor makes one.
#[test]
fn floods_leave_losses_alone() {
    let nets = [
        (1, false, "shim"),
        (1, true, "shim"),
        (2, false, "shim"),
        (2, true, "shim"),
        (1, false, "dscp"),
        (2, true, "dscp"),
    ];
    for (hosts, core_measures, telemetry_header) in nets {
        let mut net = star(hosts, core_measures, telemetry_header);
        let group = [1, 0, 0x5e, 0, 0, 0xfb];
        let heard = (3 * hosts - 1) * 100;
        let mut groups = || (0..100).map(|_| net.send((0, 0), &udp(0, 9, group, 5353, 40)).len()).sum::<usize>();
        assert_eq!(groups(), heard);
        // No switch knows this address, so that everybody gets what is for it.
        let unknown: usize = (0..20).map(|_| net.send((1, 0), &udp(1, 8, host_mac(8), 80, 40)).len()).sum();
        assert_eq!(unknown, (3 * hosts - 1) * 20);
        for n in 0..3 {
            net.send((n, 0), &udp(n as u8, 9, [0xff; 6], 67, 40));
        }
        for number in 0..50 {
            net.loses = number % 10 == 3;
            let arrived = net.send((0, 0), &udp(0, 2, host_mac(2), 443, 40));
            assert_eq!(arrived.len(), usize::from(number % 10 != 3));
            assert!(arrived.iter().all(|(end, frame)| *end == (2, 0) && *frame == udp(0, 2, host_mac(2), 443, 40)));
        }
        let records = net.records();
        // Behind the switch that makes copies of them nobody follows them. If it measures, they end
        // there. If not, each copy counts where it leaves, and all of them seem lost.
        let unfollowed: u64 = records.iter().map(|sketches| sketches.unfollowed).sum();
        let mut lost = vec![(flow(0, 2, 443), 5)];
        if hosts > 1 || core_measures {
            assert_eq!(unfollowed, 100 + 20 + 3, "{hosts} {core_measures} {telemetry_header}");
        } else {
            assert_eq!(unfollowed, 2 * (100 + 20 + 3), "{telemetry_header}");
            lost.extend([(flow(0, 9, 5353), 100), (flow(1, 8, 80), 20)]);
            lost.extend((0..3).map(|n| (flow(n, 9, 67), 1)));
        }
        assert_lost(records, &lost);
    }
}

/// A host behind a port that is not the switch's to bridge: what its neighbours say to each other
/// is no loss.
#[test]
fn what_stays_behind_its_port_is_no_loss() {
    let mut net = star(2, true, "shim");
    net.send((0, 0), &udp(4, 9, [0xff; 6], 67, 40));
    assert_eq!(net.send((0, 0), &udp(0, 4, host_mac(4), 80, 40)), []);
    assert_eq!(net.dropped(DropReason::SamePort), 1);
    assert_lost(net.records(), &[]);
}

/// Packets that do not take a shim are not seen where they leave: that is counted.
#[test]
fn packets_without_a_shim_are_counted() {
    let fabric = port("up", "fabric", 1500, "");
    let edge = format!("[switch]\nreproducible = 1\n{}{fabric}{PROGRAM}", port("h", "host", 1500, ""));
    let mut net = Net::new(&[edge.clone(), edge], &[((0, 1), (1, 1))]);
    for n in 0..5 {
        assert_eq!(net.send((0, 0), &udp(0, 1, host_mac(1), 80, 1472)).len(), 1);
        assert_eq!(net.send((0, 0), &udp(0, 1, host_mac(1), 81, 100 + n)).len(), 1);
    }
    let records = net.records();
    assert_eq!(records.iter().map(|sketches| sketches.unmarked).collect::<Vec<_>>(), [5, 0]);
    assert_lost(records, &[(flow(0, 1, 80), 5)]);
}

/// A packet that an operator stops within the network came in and did not leave: a loss. At the
/// edge of the network it is none.
#[test]
fn what_is_stopped_at_a_fabric_port_is_lost() {
    let edge = |fabric: &str, more: &str| {
        let ports = port("h", "host", 1500, "") + &port("up", "fabric", 1600, fabric);
        format!("[switch]\nforward = \"xconnect\"\nreproducible = 1\n{ports}{PROGRAM}{more}")
    };
    let list = "[[acl]]\naction = \"deny\"\ndport = 23\n";
    // A limit of 1000 packets a second lets 64 pass at once.
    for (sends, receives, reason) in
        [("tx_limit = \"1kpps\"", "", DropReason::TxLimit), ("", "rx_limit = \"1kpps\"", DropReason::RxLimit)]
    {
        let mut net = Net::new(&[edge(sends, ""), edge(receives, list)], &[((0, 1), (1, 1))]);
        for _ in 0..70 {
            net.send((0, 0), &udp(0, 1, host_mac(1), 80, 40));
        }
        assert_eq!(net.dropped(reason), 6);
        assert_lost(net.records(), &[(flow(0, 1, 80), 6)]);
    }
    let mut net = Net::new(&[edge("", ""), edge("", list)], &[((0, 1), (1, 1))]);
    for _ in 0..5 {
        assert_eq!(net.send((0, 0), &udp(0, 1, host_mac(1), 23, 40)), [], "denied at a fabric port");
    }
    for _ in 0..7 {
        assert_eq!(net.send((1, 0), &udp(1, 0, host_mac(0), 23, 40)), [], "denied at a host port");
    }
    assert_eq!(net.dropped(DropReason::AclDeny), 12);
    assert_lost(net.records(), &[(flow(0, 1, 23), 5)]);
}

/// A copy for a mirror is not a packet of the network, also where its port leads to another switch.
#[test]
fn copies_for_mirrors_are_not_measured() {
    for telemetry_header in ["shim", "dscp"] {
        mirrored(telemetry_header);
    }
}

fn mirrored(telemetry_header: &str) {
    let ports = |pairs: &str, more: &str| {
        let ports = port("h", "host", 1500, "") + &port("up", "fabric", 1600, "") + more;
        format!(
            "[switch]\ntelemetry_header = \"{telemetry_header}\"\nforward = \"xconnect\"\npairs = [{pairs}]\nreproducible = 1\n{ports}{PROGRAM}"
        )
    };
    let pair = "[\"h\", \"up\"]";
    let mirrors =
        "[[mirror]]\nfrom = \"up\"\nto = \"probe\"\n[[mirror]]\nfrom = \"h\"\nto = \"probe\"\ndirection = \"tx\"\n";
    let mirroring = ports(pair, &(port("probe", "fabric", 1600, "") + mirrors));
    let links = [((0, 1), (1, 1)), ((1, 2), (2, 1))];
    let mut net = Net::new(&[ports(pair, ""), mirroring, ports(pair, "")], &links);
    for _ in 0..10 {
        let sent = udp(0, 1, host_mac(1), 80, 40);
        let mut arrived = net.send((0, 0), &sent);
        arrived.sort_unstable();
        assert_eq!(arrived, [((1, 0), sent.clone()), ((2, 0), sent.clone()), ((2, 0), sent)]);
    }
    assert_lost(net.records(), &[]);
}

/// A router with hosts at ports 0 and 1 and a narrow link at port 2, behind which is another switch
/// with a host.
fn routed(telemetry_header: &str) -> Net {
    let host = |n: u8| {
        let addresses = format!("addresses = [\"10.0.{n}.1/24\", \"fd00:{n}::1/64\"]");
        port(&format!("p{n}"), if n == 2 { "fabric" } else { "host" }, if n == 2 { 1400 } else { 1500 }, &addresses)
    };
    let neighbour =
        |n: u8| format!("[[neighbour]]\naddress = \"10.0.{n}.10\"\nport = \"p{n}\"\nmac = \"02:01:00:00:00:0{n}\"\n");
    let ports: String = (0..3).map(host).collect();
    let neighbours: String = (0..3).map(neighbour).collect();
    let router = format!(
        "[switch]\ntelemetry_header = \"{telemetry_header}\"\nforward = \"route\"\nreproducible = 1\n{ports}{neighbours}{PROGRAM}"
    );
    let far = format!(
        "[switch]\ntelemetry_header = \"{telemetry_header}\"\nforward = \"xconnect\"\nreproducible = 1\n{}{}{PROGRAM}",
        port("h", "host", 1500, ""),
        port("up", "fabric", 1500, "")
    );
    Net::new(&[router, far], &[((0, 2), (1, 1))])
}

/// ICMPv6 from host 0 to an address, in a frame to a group or to the router.
fn icmp6(dst_mac: [u8; 6], to: &str, kind: Icmpv6Type) -> Vec<u8> {
    let octets = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(host_mac(0), dst_mac).ipv6(octets("fd00:0::10"), octets(to), 255);
    builder.icmpv6(kind).write(&mut frame, &[0; 16]).unwrap();
    frame
}

#[test]
fn what_a_router_takes_itself_is_no_loss() {
    for telemetry_header in ["shim", "dscp"] {
        route(routed(telemetry_header));
    }
}

fn route(mut net: Net) {
    let group = [0x33, 0x33, 0, 0, 0, 2];
    let icmp4 = |to: Ipv4Addr, mac| {
        let mut frame = Vec::new();
        let echo = etherparse::IcmpEchoHeader { id: 1, seq: 1 };
        let builder = PacketBuilder::ethernet2(host_mac(0), mac).ipv4(address(0).octets(), to.octets(), 64);
        builder.icmpv4(Icmpv4Type::EchoRequest(echo)).write(&mut frame, &[1; 20]).unwrap();
        frame
    };
    let unknown = |kind| Icmpv6Type::Unknown { type_u8: kind, code_u8: 0, bytes5to8: [0; 4] };
    let mut port_unreachable = udp(0, 0, own(0), 33434, 40);
    port_unreachable[30..34].copy_from_slice(&[10, 0, 0, 1]);
    mend(&mut port_unreachable);
    let answered = [icmp4(Ipv4Addr::new(10, 0, 0, 1), own(0)), port_unreachable];
    let silent = [
        icmp6(group, "ff02::2", unknown(133)),
        icmp6(group, "ff02::16", unknown(143)),
        icmp6(group, "ff02::1:ff00:1", unknown(135)),
        icmp6(own(0), "fd00:0::1", unknown(136)),
        udp(0, 9, [1, 0, 0x5e, 0, 0, 0xfb], 5353, 40),
        udp(0, 1, host_mac(7), 80, 40),
    ];
    for _ in 0..20 {
        for frame in &answered {
            assert_eq!(net.send((0, 0), frame).iter().map(|(end, _)| *end).collect::<Vec<_>>(), [(0, 0)]);
        }
        for frame in &silent {
            assert_eq!(net.send((0, 0), frame), []);
        }
        assert_eq!(net.send((0, 0), &udp(0, 1, own(0), 80, 40)).len(), 1);
        assert_eq!(net.send((0, 0), &udp(0, 2, own(0), 80, 40)).len(), 1);
    }
    for _ in 0..4 {
        // Nobody has this address.
        net.send((0, 0), &udp(0, 77, own(0), 80, 40));
        // Each becomes two packets on the narrow link.
        let mut long = udp(0, 2, own(0), 81, 1450);
        long[20] = 0;
        mend(&mut long);
        assert_eq!(net.send((0, 0), &long).len(), 2);
    }
    net.loses = true;
    assert_eq!(net.send((0, 0), &udp(0, 2, own(0), 80, 40)), []);
    assert_lost(net.records(), &[(flow(0, 77, 80), 4), (flow(0, 2, 80), 1)]);
}

/// Two edge switches with a host each, and a router between them that measures nothing. Its second
/// link is narrow.
fn routed_between(telemetry_header: &str) -> Net {
    let switch = format!("[switch]\ntelemetry_header = \"{telemetry_header}\"\nreproducible = 1\n");
    let edge = port("h", "host", 1500, "") + &port("up", "fabric", 1600, "");
    let edge = format!("{switch}forward = \"xconnect\"\n{edge}{PROGRAM}");
    let end = |n: u8, mtu| port(&format!("p{n}"), "fabric", mtu, &format!("addresses = [\"10.0.{n}.1/24\"]"));
    let neighbour =
        |n: u8| format!("[[neighbour]]\naddress = \"10.0.{n}.10\"\nport = \"p{n}\"\nmac = \"02:01:00:00:00:0{n}\"\n");
    let router = end(0, 1600) + &end(1, 1400) + &neighbour(0) + &neighbour(1);
    let router = format!("{switch}forward = \"route\"\n{router}");
    Net::new(&[edge.clone(), edge, router], &[((0, 1), (2, 0)), ((1, 1), (2, 1))])
}

/// Where a router that measures nothing fragments packets, nobody can tell whether all fragments of
/// one arrived. The fragments that arrive make the answer incomplete, so that none hides a lost
/// one.
#[test]
fn lost_fragments_are_in_no_complete_answer() {
    for (telemetry_header, lost) in [("shim", 0), ("shim", 1), ("dscp", 0), ("dscp", 1)] {
        let mut net = routed_between(telemetry_header);
        let mut long = udp(0, 1, own(0), 80, 1450);
        long[20] = 0;
        mend(&mut long);
        for n in 0..5 {
            assert_eq!(net.send((0, 0), &udp(0, 1, own(0), 443, 40)).len(), 1);
            if n < lost {
                net.loses_at = Some((2, 1));
            }
            assert_eq!(net.send((0, 0), &long).len(), if n < lost { 1 } else { 2 }, "{telemetry_header}");
        }
        let epoch = network(net.records()[..2].to_vec());
        let gaps: Vec<_> = epoch.gaps.iter().map(|gap| gap.gap).collect();
        assert_eq!(gaps, [Gap::Unfollowed { packets: 10 - lost }], "{telemetry_header}");
        assert!(!epoch.losses_lack().is_empty());
        let told: Vec<_> = epoch.losses.iter().flat_map(|losses| &losses.flows).map(|loss| loss.lost).collect();
        assert_eq!(told, [5], "{telemetry_header}: as many as the gap counts, at most");
    }
}

/// Without a shim, in the DSCP: full packets have room, a host's own low bits there are the price
/// and counted, and nothing else changes.
#[test]
fn three_bits_of_the_dscp_carry_what_the_shim_does() {
    let edge = port("a", "host", 1500, "") + &port("b", "host", 1500, "") + &port("up", "fabric", 1500, "");
    let edge = edge.replace("role = \"host\"", "role = \"host\"\nvlan = 5");
    let edge = format!("[switch]\ntelemetry_header = \"dscp\"\nreproducible = 1\n{edge}{PROGRAM}");
    let mut net = Net::new(&[edge.clone(), edge], &[((0, 2), (1, 2))]);
    let with_tos = |mut frame: Vec<u8>, tos: u8| {
        frame[15] = tos;
        mend(&mut frame);
        frame
    };
    for (end, n) in [((0, 0), 0), ((0, 1), 1), ((1, 0), 2)] {
        net.send(end, &udp(n, 9, [0xff; 6], 67, 40));
    }
    // Expedited forwarding with ECN becomes the class selector of the same precedence.
    for (tos, arrives) in [(0, 0), (3, 3), (0xa1, 0xa1), (0xb9, 0xa1), (0xfe, 0xe2)] {
        let sent = with_tos(udp(0, 2, host_mac(2), 80, 1472), tos);
        assert_eq!(net.send((0, 0), &sent), [((1, 0), with_tos(sent.clone(), arrives))]);
        let near = with_tos(udp(0, 1, host_mac(1), 80, 1472), tos);
        assert_eq!(net.send((0, 0), &near), [((0, 1), near)], "it stays within the switch");
    }
    net.loses = true;
    net.send((0, 0), &udp(0, 2, host_mac(2), 80, 10));
    let stats = net.switches[0].switches[0].stats().clone();
    assert_eq!((stats.port(0).remarked.get(), stats.port(0).without_shim.get()), (2, 0));
    // A switch of the other kind.
    let mut foreign = udp(0, 2, host_mac(2), 80, 10);
    foreign.splice(12..12, [0x88, 0xb5, 4, 0x82, 0, 0]);
    let mut out = TxBursts::new(3);
    net.switches[1].switches[0].process(2, &mut Burst::from_iter([HeapFrame::new(&foreign)]), NOW, &mut out);
    assert_eq!(net.dropped(DropReason::BadShim), 1);
    let records = net.records();
    assert!(records.iter().all(|sketches| sketches.unmarked == 0));
    assert_lost(records, &[(flow(0, 2, 80), 1)]);
}

/// What a customer sent crosses the network byte for byte, whatever its tags and however many, and
/// is measured where it enters and where it leaves, or at neither end.
#[test]
fn tags_make_no_loss() {
    let kinds = [(0, ""), (1, "trunk = [7]"), (0, "qinq = 200"), (0, "vlan = 7")];
    for (header, (least, vlans)) in ["shim", "dscp"].into_iter().flat_map(|header| kinds.map(|kind| (header, kind))) {
        let host = |name| port(name, "host", 1500, "").replace("role = \"host\"", &format!("role = \"host\"\n{vlans}"));
        let edge = host("a") + &host("b") + &port("up", "fabric", 1600, "");
        let edge = format!("[switch]\ntelemetry_header = \"{header}\"\nreproducible = 1\n{edge}{PROGRAM}");
        let mut net = Net::new(&[edge.clone(), edge], &[((0, 2), (1, 2))]);
        let around = usize::from(vlans.starts_with("qinq"));
        let most = if vlans.starts_with("vlan") { 0 } else { 7 };
        let mut too_many = 0;
        for kind in [0x8100u16, 0x88a8, 0x9100] {
            let tagged = |mut frame: Vec<u8>, tags: usize| {
                // The innermost tag last: it goes in first, and the outermost one is of VLAN 7.
                for tag in (0..tags as u16).rev() {
                    frame.splice(12..12, [kind.to_be_bytes(), (0x2007 + tag).to_be_bytes()].concat());
                }
                frame
            };
            for tags in least..=most {
                net.send((0, 0), &tagged(udp(0, 9, [0xff; 6], 67, 40), tags));
                net.send((1, 0), &tagged(udp(2, 9, [0xff; 6], 67, 40), tags));
                for length in [40, 1380] {
                    let frame = tagged(udp(0, 2, host_mac(2), 80, length), tags);
                    for to in [1, 2] {
                        let frame =
                            if to == 2 { frame.clone() } else { tagged(udp(0, 1, host_mac(1), 80, length), tags) };
                        let arrived = net.send((0, 0), &frame);
                        assert!(!arrived.is_empty(), "{header} {vlans} {tags}: it arrives");
                        assert!(arrived.iter().all(|(_, bytes)| *bytes == frame), "{header} {vlans} {tags}");
                        too_many += u64::from(tags + around > 4);
                    }
                }
                too_many += u64::from(tags + around > 4);
            }
        }
        let stats = net.switches[0].switches[0].stats().clone();
        // Of the other side's broadcast as well.
        let expected = too_many + if most > 0 { 3 * (most + around - 4) as u64 } else { 0 };
        assert_eq!((stats.too_many_tags.get(), stats.unmeasured.get()), (expected, expected), "{header} {vlans}");
        assert_lost(net.records(), &[]);
    }
}

/// A frame without IP that a provider's tag makes too deep is counted where it gets that tag, as one
/// with IP is; a shallower one is not.
#[test]
fn a_frame_is_too_deep_from_its_last_tag_on() {
    let host = |name| port(name, "host", 1500, "").replace("role = \"host\"", "role = \"host\"\nqinq = 200");
    let edge = host("a") + &host("b") + &port("up", "fabric", 1600, "");
    let edge = format!("[switch]\nreproducible = 1\n{edge}{PROGRAM}");
    let mut net = Net::new(&[edge.clone(), edge], &[((0, 2), (1, 2))]);
    net.send((1, 0), &udp(2, 9, [0xff; 6], 67, 40));
    let mut frame = udp(0, 2, host_mac(2), 80, 40);
    frame[12..14].copy_from_slice(&0x88b6u16.to_be_bytes());
    for (tags, too_deep) in [(0, 0), (3, 0), (4, 1), (5, 2)] {
        let mut tagged = frame.clone();
        (0..tags).for_each(|_| drop(tagged.splice(12..12, [0x81, 0, 0x20, 7])));
        assert_eq!(net.send((0, 0), &tagged), [((1, 0), tagged.clone())]);
        for switch in &net.switches {
            assert_eq!(switch.switches[0].stats().too_many_tags.get(), too_deep, "{tags} tags");
        }
    }
    // The broadcast of the beginning is IP.
    assert_eq!(net.switches[0].switches[0].stats().unmeasured.get(), 4);
}

/// Edges whose programs see the flows inside tunnels.
fn inner_edges(header: &str) -> Net {
    let edge = port("a", "host", 1500, "") + &port("b", "host", 1500, "") + &port("up", "fabric", 1600, "");
    let edge = format!("[switch]\ntelemetry_header = \"{header}\"\nkey = \"inner\"\nreproducible = 1\n{edge}{PROGRAM}");
    let mut net = Net::new(&[edge.clone(), edge], &[((0, 2), (1, 2))]);
    // Each switch hears the other's hosts.
    net.send((0, 0), &udp(0, 9, [0xff; 6], 67, 40));
    net.send((1, 0), &udp(2, 9, [0xff; 6], 67, 40));
    net
}

/// A tunnel's flows are 20 at both ends, with losses of their own, whatever carries the class.
#[test]
fn losses_inside_tunnels_are_exact() {
    for header in ["shim", "dscp"] {
        let mut net = inner_edges(header);
        let packet = |sport| vxlan::packet([host_mac(0), host_mac(2)], [0, 2].map(|n| address(n).octets()), sport);
        for sport in 0..20 {
            for n in 0..=sport {
                net.loses = sport % 3 == 0 && n < 2;
                let lost = net.loses;
                let arrived = net.send((0, 0), &packet(sport));
                assert_eq!(arrived, if lost { vec![] } else { vec![((1, 0), packet(sport))] }, "{header} {sport}");
            }
        }
        let read = net.switches.iter().map(|assembly| assembly.switches[0].stats().tunnels.read.get());
        assert_eq!(read.collect::<Vec<_>>(), [210, 210 - 13], "{header}");
        let lost = (0..20).step_by(3).map(|sport| (vxlan::flow(sport), if sport == 0 { 1 } else { 2 }));
        assert_lost(net.records(), &lost.collect::<Vec<_>>());
    }
}

/// Packets behind MPLS labels alone have no outer flow. They are measured at both ends where a shim carries their
/// class, and at none where the DSCP would.
#[test]
fn labels_on_ethernet_are_measured_where_a_shim_is() {
    for (header, measured) in [("shim", 10), ("dscp", 0)] {
        let mut net = inner_edges(header);
        let inner = udp(5, 6, host_mac(2), 80, 40);
        let frame = [&inner[..12], &[0x88, 0x47, 0, 1, 0x10, 64, 0, 2, 0x11, 64], &inner[14..]].concat();
        for n in 0..10 {
            net.loses = n == 4;
            assert_eq!(net.send((0, 0), &frame).len(), usize::from(n != 4), "{header}");
        }
        let stats = net.switches[0].switches[0].stats();
        assert_eq!((stats.tunnels.read.get(), stats.unmeasured.get()), (measured, 10 - measured), "{header}");
        let lost = [(flow(5, 6, 80), 1)];
        assert_lost(net.records(), if measured > 0 { &lost } else { &[] });
    }
}
