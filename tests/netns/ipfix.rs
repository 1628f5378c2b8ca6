//! IPFIX as Debian's nfcapd collects it from a running switch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use etherparse::PacketBuilder;

use crate::common::{Lab, Lack, Weir, eventually, pcap, skip};

/// A program of nfdump's: installed, or as `scripts/setup.sh` unpacked it.
fn program(name: &str) -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/nfdump/usr/bin").join(name);
    let runs = |program: &PathBuf| Command::new(program).arg("-V").output().is_ok_and(|output| output.status.success());
    [unpacked, name.into()].into_iter().find(runs)
}

/// nfcapd, which writes what it collects to a directory. Killed when dropped.
struct Collector(Child);

impl Collector {
    fn start(lab: &Lab, nfcapd: &Path) -> Self {
        std::fs::create_dir(lab.path("flows")).unwrap();
        let mut command = lab.switch.command(&nfcapd.to_string_lossy());
        command.args(["-b", "127.0.0.1", "-p", "4739", "-t", "3600", "-w"]).arg(lab.path("flows"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        eventually("nfcapd to listen", || lab.switch.run("ss -Huln").contains("127.0.0.1:4739").then_some(()));
        Self(child)
    }

    /// Ends, so that it writes what it has.
    fn stop(mut self) {
        let killed = Command::new("kill").arg(self.0.id().to_string()).status();
        assert!(killed.expect("kill runs").success());
        self.0.wait().expect("a child of ours");
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
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

/// The flows as nfdump prints them, and their packets.
fn expected() -> BTreeMap<String, u64> {
    let name = |flow: u16| match flow % 3 {
        0 => {
            let (src, dst) = (std::net::Ipv6Addr::from([0xfd; 16]), std::net::Ipv6Addr::from([flow as u8; 16]));
            format!("{src},{flow},{dst},53,17")
        }
        1 => format!("10.0.0.{flow},{},10.0.1.1,53,17", 1000 + flow),
        _ => format!("10.0.0.{flow},{},10.0.1.1,443,6", 40_000 + flow),
    };
    (1..=FLOWS).map(|flow| (name(flow), u64::from(flow))).collect()
}

/// Each flow that the switch counted is in the collector's files with its packets.
#[test]
fn nfcapd_has_the_flows_and_their_packets() {
    let test = "ipfix::nfcapd_has_the_flows_and_their_packets";
    let (Some(nfcapd), Some(nfdump)) = (program("nfcapd"), program("nfdump")) else {
        return skip(test, Lack::Machine, "there is no nfdump; make setup unpacks it");
    };
    let Some(lab) = Lab::new(test) else { return };
    let collector = Collector::start(&lab, &nfcapd);
    pcap::write(&lab.path("flows.pcap"), &(1..=FLOWS).flat_map(frames).collect::<Vec<_>>());
    let arguments = "--forward xconnect --port in=pcap:flows.pcap --port out=pcap:,out.pcap --program hashpipe \
                     --ipfix 127.0.0.1:4739";
    let weir = Weir::start(&lab, &lab.switch, "switch", arguments);
    let exported = eventually("all flows to be exported", || {
        let exported = weir.ask("show ipfix");
        (exported["flow_records"].as_u64() >= Some(u64::from(FLOWS))).then_some(exported)
    });
    assert_eq!((&exported["collector"], &exported["unsent_messages"]), (&"127.0.0.1:4739".into(), &0.into()));
    let metrics = weir.command("metrics").output().expect("runs");
    assert!(String::from_utf8_lossy(&metrics.stdout).contains("weir_ipfix_flow_records_total"));
    weir.stop();
    // What is on its way to nfcapd arrives, and is written when it ends.
    std::thread::sleep(Duration::from_millis(200));
    collector.stop();

    let format = "fmt:%sa,%sp,%da,%dp,%pr,%pkt";
    let read = |arguments: &[&str]| {
        let output = Command::new(&nfdump).arg("-R").arg(lab.path("flows")).args(arguments).output().expect("runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let flows = read(&["-q", "-6", "-N", "-a", "-o", format]);
    let parse = |line: &str| {
        let fields: Vec<_> = line.split(',').map(str::trim).collect();
        let (packets, name) = fields.split_last().expect("fields");
        (name.join(","), packets.parse::<u64>().unwrap_or_else(|_| panic!("{line}")))
    };
    let flows: BTreeMap<_, _> = flows.lines().filter(|line| !line.trim().is_empty()).map(parse).collect();
    assert_eq!(flows, expected());
}
