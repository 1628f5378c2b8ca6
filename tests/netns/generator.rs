//! pktgen → weir → pktgen: what was sent is what came back and what weir says that it lost.

use std::path::PathBuf;

use serde_json::Value;

use crate::common::{BINARY, Lab, Lack, Link, Namespace, Totals, Weir, skip};
use crate::talk;

/// The generator, which cargo builds beside the switch.
fn binary(test: &str) -> Option<PathBuf> {
    let path = PathBuf::from(BINARY).with_file_name("pktgen");
    if !path.is_file() {
        skip(test, Lack::Machine, &format!("no {} (cargo build --package pktgen)", path.display()));
        return None;
    }
    Some(path)
}

/// A switch with two ports, whose other ends are in a namespace of the generator's.
struct Bench {
    lab: Lab,
    generator: Namespace,
    binary: PathBuf,
}

impl Bench {
    fn new(test: &str) -> Option<Self> {
        let binary = binary(test)?;
        let lab = Lab::new(test)?;
        let generator = lab.switch.sibling();
        Some(Self { lab, generator, binary })
    }

    fn start(&self, link: Link, arguments: &str) -> Weir {
        let id = self.generator.id();
        let ports = [1, 2].map(|n| match link {
            Link::Tap => format!("--port port{n}=tap:h{n}"),
            _ => {
                self.lab.switch.run(&format!("ip link add p{n} type veth peer name h{n} netns {id}"));
                self.lab.switch.run(&format!("ip link set p{n} addrgenmode none up"));
                format!("--port port{n}=veth:p{n}")
            }
        });
        let arguments = format!("--forward xconnect {} {arguments}", ports.join(" "));
        let weir = Weir::start(&self.lab, &self.lab.switch, "switch", &arguments);
        for n in [1, 2] {
            if link == Link::Tap {
                self.lab.switch.run(&format!("ip link set h{n} netns {id}"));
            }
            // The kernel beside the generator says nothing by itself.
            self.generator.run(&format!("ip link set h{n} addrgenmode none up"));
        }
        weir
    }

    /// What the generator reports.
    fn run(&self, arguments: &str) -> Value {
        let line = format!("{} run --tx veth:h1 --rx veth:h2 --json --drain 1s {arguments}", self.binary.display());
        serde_json::from_str(&self.generator.run(&line)).expect("JSON")
    }
}

fn count(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {report:#}"))
}

/// Packets that the switch, its devices and the generator's say that they lost.
fn lost(totals: &Totals, report: &Value) -> u64 {
    let sum = |losses: &Value| losses.as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum::<u64>();
    let ports = totals.0["ports"].as_array().expect("ports").iter();
    let switch: u64 = ports.map(|port| sum(&port["drops"]) + sum(&port["device"])).sum();
    let own = report["ports"].as_object().expect("ports").values().map(|port| sum(&port["lost"]));
    switch + own.sum::<u64>()
}

/// To the packet, through veth and tap ports, with and without faults that lose some.
#[test]
fn every_packet_is_found_again() {
    for (link, faults) in
        [(Link::Veth, ""), (Link::Tap, ""), (Link::Veth, "--fault port1=rx:every=50,burst=3 --fault port2=tx:every=70")]
    {
        let Some(bench) = Bench::new("generator::every_packet_is_found_again") else { return };
        let weir = bench.start(link, faults);
        let report =
            bench.run("--workload isp-scaled,flows=1k,packets=20k,ipv6=0.2 --size imix --packets 30k --rate 20kpps");
        let totals = weir.stop();
        let (sent, received) = (count(&report, "/sent/packets"), count(&report, "/received/packets"));
        assert_eq!(sent, 30_000);
        // The kernel may say something on an interface that is new, and that may be lost too.
        let ports = totals.0["ports"].as_array().expect("ports").iter();
        let others = ports.map(|port| count(port, "/rx_packets")).sum::<u64>().saturating_sub(sent);
        let found = received + lost(&totals, &report);
        assert!((sent..=sent + others).contains(&found), "{link:?} {faults}: {report:#}\n{:#}", totals.0);
        for none in ["duplicate_packets", "uncertain_packets", "reordered_packets"] {
            assert_eq!(count(&report, &format!("/received/{none}")), 0, "{none}: {report:#}");
        }
        if !faults.is_empty() {
            // Three of each fifty, and of those that are left one of each seventy.
            let left = 30_000 - 1800;
            assert!(count(&report, "/received/lost_packets") >= 1800 + left / 70, "{report:#}");
        }
    }
}

#[test]
fn a_delay_of_the_switch_is_measured() {
    let Some(bench) = Bench::new("generator::a_delay_of_the_switch_is_measured") else { return };
    let weir = bench.start(Link::Veth, "--fault port2=tx:delay=20ms");
    let report = bench.run("--packets 2000 --rate 2kpps");
    weir.stop();
    assert!((20_000_000..60_000_000).contains(&count(&report, "/latency/min_ns")), "{report:#}");
}

/// Packets that a rate limit of the switch refused are named as such beside the loss.
#[test]
fn limits_are_told_from_losses() {
    let Some(bench) = Bench::new("generator::limits_are_told_from_losses") else { return };
    let weir = bench.start(Link::Veth, "--program hashpipe --epoch 200ms");
    // Less than is sent, in bursts of ten frames at most.
    weir.ask("table set limits port=port1 direction=rx limit=1Mbps,burst=10KB");
    let score = format!("--score-socket {}", bench.lab.path("switch.sock").display());
    let report = bench.run(&format!("--packets 2000 --rate 2kpps --size 1000 {score}"));
    let totals = weir.stop();
    let drops = &report["switch_drops"];
    assert_eq!(count(drops, "/rx_limit"), totals.dropped("rx_limit"), "{report:#}");
    assert!(count(drops, "/rx_limit") > 1000, "{report:#}");
    assert!(count(&report, "/received/lost_packets") >= count(drops, "/rx_limit"), "{report:#}");
    assert!(count(&report, "/sent/largest_burst_packets") >= 1, "{report:#}");
}

/// The switch's answers are held against what was sent while it is sent: it tells every packet that
/// is too long for its port, and of which flow.
#[test]
fn a_switch_is_scored_while_it_runs() {
    let Some(bench) = Bench::new("generator::a_switch_is_scored_while_it_runs") else { return };
    let weir = bench.start(Link::Veth, "--program chamelemon --epoch 200ms");
    weir.ask("port mtu port2 576");
    let socket = bench.lab.path("switch.sock");
    let traffic = "--flows 200 --size 64:9,1000:1 --rate 5kpps --duration 4s --score-top 20 --epoch-pause 20ms";
    let report = bench.run(&format!("{traffic} --score-socket {}", socket.display()));
    let totals = weir.stop();
    let score = &report["score"];
    assert!(count(score, "/heavy_epochs") >= 10 && count(score, "/loss_epochs") >= 10, "{report:#}");
    assert_eq!(count(score, "/true_lost_packets"), count(&report, "/received/lost_packets"), "{report:#}");
    assert!(totals.dropped("too_long") > 1000, "{:#}", totals.0);
    assert_eq!(count(&report, "/sent/packets"), count(&report, "/received/packets") + lost(&totals, &report));
    assert!(score["mean_recall"].as_f64() > Some(0.9), "{report:#}");
    assert!(2 * count(score, "/exact_loss_epochs") >= count(score, "/loss_epochs"), "{report:#}");
}

/// Conversations through a switch that loses a part of the packets of both directions: all end, with all of
/// their bytes, and each packet is accounted for.
#[test]
fn conversations_end_through_a_lossy_switch() {
    let Some(bench) = Bench::new("generator::conversations_end_through_a_lossy_switch") else { return };
    let weir = bench.start(Link::Veth, "--fault port1=rx:drop=1% --fault port2=rx:drop=1%");
    let capture = bench.lab.path("talk.pcap");
    talk::write(&capture);
    let (binary, capture) = (bench.binary.display(), capture.display());
    let traffic = "--rate 200/s --conversations 200 --timeout 50ms --json --no-huge-pages";
    let line = format!("{binary} conversations --pcap {capture} --client veth:h1 --server veth:h2 {traffic}");
    let report: Value = serde_json::from_str(&bench.generator.run(&line)).expect("JSON");
    let totals = weir.stop();
    assert_eq!(["started", "finished"].map(|key| count(&report, &format!("/conversations/{key}"))), [200; 2]);
    let [client, server] = ["client", "server"].map(|end| count(&report, &format!("/{end}/received_payload_bytes")));
    assert_eq!(client + server, 100 * talk::BYTES.iter().sum::<u64>(), "{report:#}");
    let sent = count(&report, "/client/sent_packets") + count(&report, "/server/sent_packets");
    let came = ["client", "server"].iter().map(|port| count(&report, &format!("/ports/{port}/rx_packets")));
    let found = came.sum::<u64>() + lost(&totals, &report);
    let others = totals.rx().saturating_sub(sent);
    assert!((sent..=sent + others).contains(&found), "{report:#}\n{:#}", totals.0);
    let again = count(&report, "/client/retransmitted_packets") + count(&report, "/server/retransmitted_packets");
    assert!(again > 10, "{report:#}");
}
