//! IPFIX as Debian's nfcapd collects it from a running switch and a controller.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use etherparse::PacketBuilder;
use serde_json::Value;

use crate::common::{Controller, Lab, Lack, Weir, eventually, pcap, skip};

/// A program of nfdump's: installed, or as `scripts/setup.sh` unpacked it.
fn program(name: &str) -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/nfdump/usr/bin").join(name);
    let runs = |program: &PathBuf| Command::new(program).arg("-V").output().is_ok_and(|output| output.status.success());
    [unpacked, name.into()].into_iter().find(runs)
}

/// nfcapd, which writes what it collects to a directory. Killed when dropped.
struct Collector {
    child: Child,
    nfdump: PathBuf,
    files: PathBuf,
}

impl Collector {
    /// Listens at port 4739 of this address. `None` where there is no nfdump.
    fn start(test: &str, lab: &Lab, address: &str) -> Option<Self> {
        let (Some(nfcapd), Some(nfdump)) = (program("nfcapd"), program("nfdump")) else {
            skip(test, Lack::Machine, "there is no nfdump; make setup unpacks it");
            return None;
        };
        let files = lab.path("flows");
        std::fs::create_dir(&files).unwrap();
        let mut command = lab.switch.command(&nfcapd.to_string_lossy());
        command.args(["-b", address, "-p", "4739", "-t", "3600", "-w"]).arg(&files);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        eventually("nfcapd to listen", || lab.switch.run("ss -Huln").contains(":4739").then_some(()));
        Some(Self { child, nfdump, files })
    }

    /// Ends it, so that it writes what it has. Returns what nfdump prints of the flows with these options: each flow
    /// with its packets.
    fn stop(mut self, options: &[&str]) -> Vec<(String, u64)> {
        // What is on its way to nfcapd arrives.
        std::thread::sleep(Duration::from_millis(200));
        let killed = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(killed.expect("kill runs").success());
        self.child.wait().expect("a child of ours");
        let mut command = Command::new(&self.nfdump);
        command.arg("-R").arg(&self.files).args(["-q", "-6", "-N", "-o", "fmt:%sa,%sp,%da,%dp,%pr,%pkt"]);
        let output = command.args(options).output().expect("runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let parse = |line: &str| {
            let fields: Vec<_> = line.split(',').map(str::trim).collect();
            let (packets, name) = fields.split_last().expect("fields");
            (name.join(","), packets.parse::<u64>().unwrap_or_else(|_| panic!("{line}")))
        };
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|line| !line.trim().is_empty()).map(parse).collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const FLOWS: u16 = 60;

/// The packets of a flow: as many as its number.
fn frames(flow: u16) -> Vec<Vec<u8>> {
    let [low, _] = flow.to_le_bytes();
    let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let mut frame = Vec::new();
    let written = match flow % 3 {
        0 => ethernet.ipv6([0xfd; 16], [low; 16], 64).udp(flow, 53).write(&mut frame, &[0; 20]),
        1 => ethernet.ipv4([10, 0, 0, low], [10, 0, 1, 1], 64).udp(1000 + flow, 53).write(&mut frame, &[0; 20]),
        _ => {
            let ip = ethernet.ipv4([10, 0, 0, low], [10, 0, 1, 1], 64);
            ip.tcp(40_000 + flow, 443, 1, 100).write(&mut frame, &[])
        }
    };
    written.unwrap();
    vec![frame; usize::from(flow)]
}

fn write_capture(lab: &Lab, name: &str, flows: RangeInclusive<u16>) {
    pcap::write(&lab.path(name), &flows.flat_map(frames).collect::<Vec<_>>());
}

/// The flows as nfdump prints them, and their packets.
fn expected(flows: RangeInclusive<u16>) -> BTreeMap<String, u64> {
    let name = |flow: u16| match flow % 3 {
        0 => {
            let (src, dst) = (std::net::Ipv6Addr::from([0xfd; 16]), std::net::Ipv6Addr::from([flow as u8; 16]));
            format!("{src},{flow},{dst},53,17")
        }
        1 => format!("10.0.0.{flow},{},10.0.1.1,53,17", 1000 + flow),
        _ => format!("10.0.0.{flow},{},10.0.1.1,443,6", 40_000 + flow),
    };
    flows.map(|flow| (name(flow), u64::from(flow))).collect()
}

/// A switch's file: these lines and tables, an idle wire, and wires that carry the packets of these captures.
fn write_switch(lab: &Lab, tables: &str, captures: &[&str]) {
    let wire = |number: usize, capture: &str| {
        format!(
            "[[port]]\nname = \"in{number}\"\ndev = \"pcap:{capture}\"\nfault = \"inside:drop=10%\"\n\
             [[port]]\nname = \"out{number}\"\ndev = \"null:rx=0\"\n"
        )
    };
    let idle = "[[port]]\nname = \"a\"\ndev = \"null:rx=0\"\n[[port]]\nname = \"b\"\ndev = \"null:rx=0\"\n";
    let wires: String = captures.iter().enumerate().map(|(number, capture)| wire(number, capture)).collect();
    let text = format!("[switch]\nforward = \"xconnect\"\n{tables}\n{idle}{wires}");
    std::fs::write(lab.path("weir.toml"), text).unwrap();
}

/// Each flow that the switch counted is in the collector's files with its packets, also those after a reload with
/// another port and another size of the program, which begins anew.
#[test]
fn nfcapd_has_the_flows_and_their_packets() {
    let test = "ipfix::nfcapd_has_the_flows_and_their_packets";
    let Some(lab) = Lab::new(test) else { return };
    let Some(collector) = Collector::start(test, &lab, "127.0.0.1") else { return };
    write_capture(&lab, "flows.pcap", 1..=FLOWS);
    write_capture(&lab, "more.pcap", FLOWS + 1..=2 * FLOWS);
    let program = |slots: u32| {
        format!("[ipfix]\ncollector = \"127.0.0.1:4739\"\n[[program]]\nname = \"hashpipe\"\nslots = {slots}")
    };
    write_switch(&lab, &program(4096), &["flows.pcap"]);
    let weir = Weir::start(&lab, &lab.switch, "switch", "-c weir.toml");
    let exports = |flows: u16| {
        eventually("all flows to be exported", || {
            let exported = weir.ask("show ipfix");
            (exported["flow_records"].as_u64() >= Some(u64::from(flows))).then_some(exported)
        })
    };
    exports(FLOWS);
    for captures in [&["flows.pcap"][..], &["flows.pcap", "more.pcap"]] {
        write_switch(&lab, &program(2048), captures);
        weir.ask("reload");
    }
    let exported = exports(2 * FLOWS);
    assert_eq!((&exported["collector"], &exported["unsent_messages"]), (&"127.0.0.1:4739".into(), &0.into()));
    let metrics = weir.command("metrics").output().expect("runs");
    assert!(String::from_utf8_lossy(&metrics.stdout).contains("weir_ipfix_flow_records_total"));
    weir.stop();
    assert_eq!(collector.stop(&["-a"]).into_iter().collect::<BTreeMap<_, _>>(), expected(1..=2 * FLOWS));
}

/// A collector at an IPv6 address has what a controller says of its network: each flow with its packets, and once
/// more, without packets, those that lost some. A reload of the switch brings the traffic.
#[test]
fn nfcapd_has_what_a_controller_knows() {
    const SWITCH: &str = "epoch = \"250ms\"\ntransit = \"60ms\"\n";
    let test = "ipfix::nfcapd_has_what_a_controller_knows";
    let Some(lab) = Lab::new(test) else { return };
    let Some(collector) = Collector::start(test, &lab, "::1") else { return };
    let arguments = "--program chamelemon --switch switch --epoch 250ms --transit 60ms --record-timeout 2s \
                     --ipfix [::1]:4739";
    let controller = Controller::start(&lab, arguments);
    let at = Controller::switch_socket(&lab);
    let tables = format!("{SWITCH}[controller]\nat = {at:?}\n[[program]]\nname = \"chamelemon\"");
    let mut captures = Vec::new();
    write_switch(&lab, &tables, &captures);
    let weir = Weir::start(&lab, &lab.switch, "switch", "-c weir.toml");
    // On a busy machine an epoch may be unknown: then other flows follow.
    let rounds = ["0.pcap", "1.pcap", "2.pcap", "3.pcap"];
    let known = (1..).step_by(usize::from(FLOWS)).zip(rounds).find_map(|(first, capture)| {
        eventually("epochs to be known", || {
            (controller.ask("show losses --last 500ms")["complete"] == true).then_some(())
        });
        let flows = first..=first + FLOWS - 1;
        write_capture(&lab, capture, flows.clone());
        captures.push(capture);
        write_switch(&lab, &tables, &captures);
        weir.ask("reload");
        std::thread::sleep(Duration::from_secs(2));
        let [heavy, losses] =
            ["heavy", "losses"].map(|what| controller.ask(&format!("show {what} --last 3s --top 1000")));
        let found = heavy["heavy"].as_array().unwrap().len();
        let lost: BTreeSet<_> = losses["losses"].as_array().unwrap().iter().map(name_of).collect();
        let has_all = found == usize::from(FLOWS) && losses["lost_packets"].as_u64() > Some(20);
        (has_all && losses["unknown_epochs"] == 0).then_some((flows, lost))
    });
    let (flows, lost) = known.expect("a round whose epochs are known");
    eventually("all of it to be exported", || {
        let exported = controller.ask("show ipfix");
        assert_eq!((&exported["collector"], &exported["unsent_messages"]), (&"[::1]:4739".into(), &0.into()));
        (exported["flow_records"].as_u64() >= Some(u64::from(FLOWS) + lost.len() as u64)).then_some(())
    });
    weir.stop();
    controller.stop();
    let mut counted = BTreeMap::<String, u64>::new();
    let mut losing = BTreeSet::new();
    for (flow, packets) in collector.stop(&[]) {
        if packets == 0 {
            losing.insert(flow.clone());
        }
        *counted.entry(flow).or_default() += packets;
    }
    let expected = expected(flows);
    counted.retain(|flow, _| expected.contains_key(flow));
    losing.retain(|flow| expected.contains_key(flow));
    assert_eq!((counted, losing), (expected, lost));
}

/// A flow of a document as nfdump prints it.
fn name_of(victim: &Value) -> String {
    let flow = &victim["flow"];
    let text = |key: &str| flow[key].as_str().map_or_else(|| flow[key].to_string(), str::to_owned);
    let proto = text("proto").replace("udp", "17").replace("tcp", "6");
    format!("{},{},{},{},{proto}", text("src"), text("sport"), text("dst"), text("dport"))
}
