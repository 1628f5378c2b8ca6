//! Access control, limits, mirrors and VLANs in the switch: every packet is accounted for, whatever
//! is set and changed.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use serde_json::{Value, json};
use weir::assemble::{Assembly, assemble};
use weir::config::Config;
use weir::pisa::{DropReason, PortId};
use weir::program::chamelemon::{Analysis, Sketches};
use weir::switch::{BURST, Burst, TxBursts};
use weir::tables::{Change, Op, Table};
use weir::wire::{Flow, Frame, HeapFrame};

#[path = "common/records.rs"]
#[allow(dead_code, reason = "some of it is for other tests")]
mod records;

use records::Records;

const NOW: u64 = 1_790_000_000_000_000_000;

/// One switch with its tables.
struct Bench {
    assembly: Assembly,
    run: Records,
    now: u64,
    received: u64,
    queued: u64,
}

impl Bench {
    fn new(toml: &str) -> Self {
        let config = Config::parse(toml).unwrap();
        let mut assembly = assemble(&config, None, 1).unwrap();
        let run = Records::of(&mut assembly.collector);
        Self { assembly, run, now: NOW, received: 0, queued: 0 }
    }

    fn table(&mut self, name: &str) -> &mut dyn Table {
        self.assembly.tables.iter_mut().find(|table| table.name() == name).unwrap().as_mut()
    }

    fn change(&mut self, table: &str, op: Op, entry: Value) -> Result<(), String> {
        self.table(table).change(&[Change { op, entry }])
    }

    /// What leaves by each port.
    fn burst(&mut self, ingress: PortId, frames: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
        let ports = self.assembly.ports.len();
        let mut burst: Burst<_> = frames.iter().map(|bytes| HeapFrame::new(bytes)).collect();
        let mut out = TxBursts::new(ports);
        self.assembly.switches[0].process(ingress, &mut burst, self.now, &mut out);
        self.received += frames.len() as u64;
        let mut left = vec![Vec::new(); ports];
        for (id, queue) in out.queues() {
            assert!(self.assembly.ports[usize::from(id)].up.load(Relaxed), "nothing leaves by a port that is down");
            left[usize::from(id)].extend(queue.drain(..).map(|frame| frame.bytes().to_vec()));
        }
        self.queued += left.iter().map(Vec::len).sum::<usize>() as u64;
        if let Some(learning) = &mut self.assembly.learning {
            learning.serve(self.now);
        }
        self.balance();
        left
    }

    fn sum(&self, count: impl Fn(&weir::stats::PortStats) -> u64) -> u64 {
        self.assembly.switches[0].stats().ports().map(count).sum()
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.sum(|port| port.dropped(reason))
    }

    fn balance(&self) {
        let drops = DropReason::ALL.iter().map(|reason| self.dropped(*reason)).sum::<u64>();
        assert_eq!(self.sum(|port| port.rx_packets.get()), self.received);
        assert_eq!(self.received + self.sum(|port| port.copies.get()), self.queued + drops);
    }

    fn up(&self, port: usize, up: bool) {
        self.assembly.ports[port].up.store(up, Relaxed);
    }
}

fn ports(keys: &[&str]) -> String {
    let port = |(name, keys): (&str, &&str)| format!("[[port]]\nname = \"{name}\"\ndev = \"memory\"\n{keys}\n");
    ["a", "b", "c", "d"].into_iter().zip(keys).map(port).collect()
}

/// Ethernet with tags, IPv4, TCP with flags.
fn frame(to: u8, from: u8, tags: &[u16], dport: u16, flags: u8, length: usize) -> Vec<u8> {
    let mut bytes = [[2, 0, 0, 0, 0, to], [2, 0, 0, 0, 0, from]].concat();
    if to == 9 {
        bytes[..6].fill(0xff);
    }
    tags.iter().for_each(|vid| bytes.extend([&[0x81, 0][..], &vid.to_be_bytes()].concat()));
    bytes.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, to, 0x30, 0x39]);
    bytes.extend(dport.to_be_bytes());
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    bytes.resize(bytes.len().max(length), 0);
    bytes
}

const SYN: u8 = 2;

/// Joined in pairs, the switch moves bursts whole, but not past a rule.
#[test]
fn pairs_do_not_bypass_the_list() {
    let rules = "[[acl]]\nname = \"web\"\naction = \"deny\"\ndport = 80\n[[acl]]\naction = \"count\"\ntcp_flags = \"syn,!ack\"\n";
    let mut bench = Bench::new(&format!("[switch]\nforward = \"xconnect\"\n{}{rules}", ports(&["", ""])));
    let packets = [frame(1, 2, &[], 80, SYN, 64), frame(1, 2, &[], 81, SYN, 64), frame(1, 2, &[], 82, 0x12, 64)];
    assert_eq!(bench.burst(0, &packets)[1], packets[1..]);
    assert_eq!(bench.dropped(DropReason::AclDeny), 1);
    let hits =
        |bench: &mut Bench| bench.table("acl").rows().iter().map(|row| row["hit_packets"].as_u64()).collect::<Vec<_>>();
    assert_eq!(hits(&mut bench), [Some(1), Some(1)]);
    assert_eq!(bench.table("acl").default_row().unwrap()["hit_packets"], 2);
    // Counters survive what happens to other rules, and a new rule begins at 0.
    bench.change("acl", Op::Remove, json!({"name": "rule2"})).unwrap();
    bench.change("acl", Op::Add, json!({"name": "first", "action": "permit", "src": "10.0.0.2", "at": 1})).unwrap();
    assert_eq!(hits(&mut bench), [Some(0), Some(1)]);
    assert_eq!(bench.burst(0, &packets)[1].len(), 3);
    assert_eq!(hits(&mut bench), [Some(3), Some(1)]);
    for name in ["first", "web"] {
        bench.change("acl", Op::Remove, json!({ "name": name })).unwrap();
    }
    // A runt shows that nothing is looked into any more.
    assert_eq!(bench.burst(0, &[vec![1; 5]])[1], [vec![1; 5]]);
}

#[test]
fn rows_can_be_given_back_and_mistakes_change_nothing() {
    let rules = "[[acl]]\naction = \"deny\"\ndport = \"80-90\"\nport = \"a,b\"\n";
    let mut bench = Bench::new(&format!("{}{rules}", ports(&["", ""])));
    let rows = bench.table("acl").rows();
    bench.change("acl", Op::Set, rows[0].clone()).unwrap();
    assert_eq!(bench.table("acl").rows(), rows);
    for (entry, says) in [
        (json!({"name": "rule1", "action": "deny"}), "there is such a rule already"),
        (json!({"action": "deny", "at": 9}), "at = 9: a place from 1 to 2"),
        (json!({"action": "deny", "at": "x"}), "at = \"x\": a place from 1 on"),
        (json!({"action": "deny", "sport": "1-65534", "dport": "1-65534"}), "at most 512 TCAM rows"),
        (json!({"action": "deny", "dport": 70000}), "dport = 70000: numbers from 0 to 65535"),
    ] {
        let error = bench.change("acl", Op::Add, entry).unwrap_err();
        assert!(error.starts_with("change 1, add {") && error.contains(says), "{error}");
        assert_eq!(bench.table("acl").rows(), rows);
    }
    for (table, entry, says) in [
        ("limits", json!({"port": "z", "direction": "rx", "limit": "1Gbps"}), "port = z: a port's name (a, b)"),
        ("limits", json!({"port": "a", "direction": "in", "limit": "1Gbps"}), "direction = in: rx or tx"),
        ("limits", json!({"port": "a", "direction": "rx"}), "limit = (missing): a rate such as"),
        ("limits", json!({"port": "a", "direction": "rx", "limit": "9"}), "9: a rate such as 1Gbps"),
        ("mirrors", json!({"from": "a", "to": "a"}), "to = a: another port than from"),
        ("mirrors", json!({"from": "a"}), "to = (missing)"),
        ("vlans", json!({"port": "a"}), "vlan = (missing): vlan, trunk or qinq"),
        ("vlans", json!({"port": "a", "vlan": 7, "qinq": 8}), "qinq = 8: without vlan and trunk"),
    ] {
        let error = bench.change(table, Op::Set, entry).unwrap_err();
        assert!(error.contains(says), "{error}");
        assert!(bench.table(table).rows().is_empty());
    }
}

#[test]
fn a_list_can_be_full() {
    let mut bench = Bench::new(&ports(&["", ""]));
    let add = |n: u16| Change { op: Op::Add, entry: json!({"name": format!("r{n}"), "action": "deny", "dport": n}) };
    let all: Vec<_> = (0..512).map(add).collect();
    bench.table("acl").change(&all).unwrap();
    assert!(bench.table("acl").change(&[add(512)]).unwrap_err().contains("at most 512 rules"));
    assert!(bench.burst(0, &[frame(1, 2, &[], 511, 0, 64), frame(1, 2, &[], 512, 0, 64)])[1].len() == 1);
    // Each rule is taken out and put back many times: counters do not run out.
    for n in 0..3000 {
        let change = |op| Change { op, ..add(n % 512) };
        bench.table("acl").change(&[change(Op::Remove), change(Op::Add)]).unwrap();
    }
    assert!(bench.table("acl").rows().iter().all(|row| row["hit_packets"] == 0));
}

/// A rule that counts does not decide, so each of them is work for every packet.
#[test]
fn rules_that_count_are_few() {
    let mut bench = Bench::new(&ports(&["", ""]));
    let add = |n: usize| Change { op: Op::Add, entry: json!({"name": format!("c{n}"), "action": "count"}) };
    let all: Vec<_> = (0..16).map(add).collect();
    bench.table("acl").change(&all).unwrap();
    assert!(bench.table("acl").change(&[add(16)]).unwrap_err().contains("at most 16 rules that count"));
    bench.burst(0, &[frame(1, 2, &[], 80, 0, 64)]);
    let rows = bench.table("acl").rows();
    assert!(rows.len() == 16 && rows.iter().all(|row| row["hit_packets"] == 1), "{rows:?}");
}

#[test]
fn a_mirror_never_costs_the_original() {
    let mirrors = "[[mirror]]\nfrom = \"a\"\nto = \"c\"\ndirection = \"rx\"\n[[mirror]]\nfrom = \"b\"\nto = \"c\"\ndirection = \"tx\"\n";
    let toml = format!("[switch]\nforward = \"xconnect\"\npairs = [[\"a\", \"b\"]]\n{}{mirrors}", ports(&["", "", ""]));
    let mut bench = Bench::new(&toml);
    let packets = vec![frame(1, 2, &[], 80, 0, 64); 40];
    let left = bench.burst(0, &packets);
    // Both mirrors copy 40, and a burst for port c holds 64.
    assert_eq!((left[1].len(), left[2].len(), bench.dropped(DropReason::Mirror)), (40, BURST, 80 - BURST as u64));
    bench.up(2, false);
    let left = bench.burst(0, &packets);
    assert_eq!((left[1].len(), left[2].len()), (40, 0));
    assert_eq!(bench.dropped(DropReason::Mirror), 80 - BURST as u64 + 80);
    bench.up(2, true);
    // What the list denies is not sent, but its copy is.
    bench.change("mirrors", Op::Remove, json!({"from": "a"})).unwrap();
    bench.change("acl", Op::Add, json!({"action": "deny", "mirror": "c"})).unwrap();
    let left = bench.burst(0, &packets[..3]);
    assert_eq!((left[1].len(), left[2].clone()), (0, packets[..3].to_vec()));
    assert_eq!(bench.table("mirrors").rows()[0]["copied_packets"], 80);
}

#[test]
fn limits_hold_by_port() {
    let keys = ["rx_limit = \"8Mbps,burst=10KB\"", "tx_limit = \"1kpps\""];
    let mut bench = Bench::new(&format!("[switch]\nforward = \"xconnect\"\n{}", ports(&keys)));
    let packets = vec![frame(1, 2, &[], 80, 0, 1000); 20];
    assert_eq!(bench.burst(0, &packets)[1].len(), 10);
    bench.now += 5_000_000;
    assert_eq!(bench.burst(0, &packets)[1].len(), 5, "5 ms of a megabyte a second");
    assert_eq!(bench.dropped(DropReason::RxLimit), 25);
    bench.change("limits", Op::Remove, json!({"port": "a", "direction": "rx"})).unwrap();
    let passed: usize = (0..10).map(|_| bench.burst(0, &packets)[1].len()).sum();
    assert_eq!(passed as u64, 54, "64 packets less those from before, and five in 5 ms");
    assert_eq!(bench.assembly.switches[0].stats().port(1).dropped(DropReason::TxLimit), 146);
    // A limit that stays keeps its bucket and its counts.
    bench.change("limits", Op::Add, json!({"port": "b", "direction": "rx", "limit": "1Gbps"})).unwrap();
    assert_eq!(bench.burst(0, &packets)[1].len(), 0);
    assert_eq!(bench.table("limits").rows()[0]["passed_packets"], 69);
}

/// Programs see what the list and the limit let in. What a limit holds back on the way out has left
/// by then and is no loss; what finds no port that is up is one.
#[test]
fn programs_measure_what_is_let_in_and_miss_what_does_not_leave() {
    let list = "[[acl]]\naction = \"deny\"\ndport = 80\n[[program]]\nname = \"chamelemon\"\nhh_threshold = 1\n";
    let keys = ["rx_limit = \"8Mbps,burst=10KB\"", "tx_limit = \"1kpps\""];
    let mut bench = Bench::new(&format!("[switch]\nforward = \"xconnect\"\n{}{list}", ports(&keys)));
    let packets = |dport, number| vec![frame(1, 2, &[], dport, 0, 1000); number];
    assert_eq!(bench.burst(0, &[packets(80, 7), packets(81, 20)].concat())[1].len(), 10);
    bench.change("limits", Op::Remove, json!({"port": "a", "direction": "rx"})).unwrap();
    assert_eq!(bench.burst(0, &packets(82, 60))[1].len(), 54);
    bench.up(1, false);
    assert_eq!(bench.burst(0, &packets(83, 2))[1].len(), 0);
    assert_eq!(
        [DropReason::AclDeny, DropReason::RxLimit, DropReason::TxLimit, DropReason::PortDown]
            .map(|reason| bench.dropped(reason)),
        [7, 10, 6, 2]
    );

    let Assembly { mut switches, mut collector, .. } = bench.assembly;
    switches[0].finish();
    collector.finish();
    let sketches = bench.run.sum::<Sketches>().expect("a record");
    let id = |dport| {
        let ip = |last| Some(std::net::Ipv4Addr::new(10, 0, 0, last).into());
        let flow = Flow { src: ip(2), dst: ip(1), sport: Some(0x3039), dport: Some(dport), proto: Some(6) };
        sketches.id(&flow).unwrap()
    };
    let analysis = Analysis::new(sketches.clone());
    assert!(analysis.hh().complete);
    assert_eq!(analysis.hh().flows, [(id(81), 10), (id(82), 60), (id(83), 2)].into_iter().collect());
    let losses = analysis.losses();
    assert!(losses.decoded);
    assert_eq!(losses.flows.iter().map(|loss| (loss.id, loss.lost)).collect::<Vec<_>>(), [(id(83), 2)]);
}

#[test]
fn floods_stay_within_the_vlan() {
    let mut bench = Bench::new(&ports(&["vlan = 10", "vlan = 10", "vlan = 20", "trunk = [10, 20]"]));
    let left = bench.burst(0, &[frame(9, 1, &[], 80, 0, 64)]);
    assert_eq!(left[1], [frame(9, 1, &[], 80, 0, 64)]);
    assert_eq!(left[3], [frame(9, 1, &[10], 80, 0, 68)]);
    assert!(left[2].is_empty());
    let left =
        bench.burst(3, &[frame(1, 3, &[10], 80, 0, 68), frame(1, 3, &[20], 80, 0, 68), frame(1, 3, &[30], 80, 0, 68)]);
    assert_eq!((left[0].len(), left[2].len()), (1, 1), "known in one VLAN, flooded in the other");
    assert_eq!(left[0], [frame(1, 3, &[], 80, 0, 64)]);
    assert_eq!(bench.dropped(DropReason::WrongVlan), 1);
    assert!(bench.burst(0, &[frame(1, 5, &[10], 80, 0, 64)]).iter().all(Vec::is_empty), "tagged, on an access port");
}

/// A flood without another member of its VLAN has nowhere to go, whatever other ports do; with one
/// that is down it has.
#[test]
fn a_flood_without_another_member_has_no_route() {
    let mut bench = Bench::new(&ports(&["vlan = 10", "vlan = 20", "vlan = 20"]));
    bench.burst(0, &[frame(9, 1, &[], 80, 0, 64)]);
    assert_eq!([DropReason::NoRoute, DropReason::PortDown].map(|reason| bench.dropped(reason)), [1, 0]);
    bench.up(2, false);
    bench.burst(0, &[frame(9, 1, &[], 80, 0, 64)]);
    assert_eq!([DropReason::NoRoute, DropReason::PortDown].map(|reason| bench.dropped(reason)), [2, 0]);
    bench.burst(1, &[frame(9, 2, &[], 80, 0, 64)]);
    assert_eq!([DropReason::NoRoute, DropReason::PortDown].map(|reason| bench.dropped(reason)), [2, 1]);
}

fn keys() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "",
        "vlan = 1",
        "vlan = 2",
        "trunk = [1, 2]",
        "vlan = 1\ntrunk = 2",
        "qinq = 2",
        "rx_limit = \"1Mbps,burst=10KB\"",
        "tx_limit = \"100pps\"",
        "role = \"fabric\"",
        "mtu = 500",
    ])
}

fn change() -> impl Strategy<Value = (&'static str, Op, Value)> {
    let acl = vec![
        json!({"name": "x", "action": "deny", "dport": "80-90", "mirror": "d"}),
        json!({"name": "x", "action": "permit", "vlan": "1-2", "mirror": "a"}),
        json!({"name": "y", "action": "count", "tcp_flags": "syn,!ack"}),
        json!({"name": "z", "action": "deny", "port": "b", "src": "10.0.0.0/30", "at": 1}),
    ];
    let limits = vec![
        json!({"port": "a", "direction": "rx", "limit": "10kpps"}),
        json!({"port": "b", "direction": "tx", "limit": "1Mbps,burst=10KB"}),
    ];
    let mirrors = vec![
        json!({"from": "a", "to": "d"}),
        json!({"from": "d", "to": "a"}),
        json!({"from": "b", "to": "a", "direction": "tx"}),
    ];
    let vlans =
        vec![json!({"port": "a", "vlan": 1}), json!({"port": "b", "trunk": "1,2"}), json!({"port": "c", "qinq": 2})];
    let tables = [("acl", acl), ("limits", limits), ("mirrors", mirrors), ("vlans", vlans)];
    let entries: Vec<_> =
        tables.into_iter().flat_map(|(table, rows)| rows.into_iter().map(move |row| (table, row))).collect();
    (prop::sample::select(entries), prop::sample::select(vec![Op::Add, Op::Set, Op::Set, Op::Remove]))
        .prop_map(|((table, entry), op)| (table, op, entry))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_is_accounted_for(
        keys in prop::collection::vec(keys(), 4),
        learn in any::<bool>(),
        program in any::<bool>(),
        steps in prop::collection::vec(
            (
                prop::option::of(change()),
                0..4u16,
                any::<u8>(),
                prop::collection::vec(
                    (0..10u8, 0..5u8, prop::collection::vec(0..4u16, 0..3), 75..95u16, any::<u8>(), 0..1600usize, 0..200usize),
                    0..BURST,
                ),
            ),
            1..12,
        ),
    ) {
        let forward = if learn { "learn" } else { "xconnect" };
        let program = if program { "[[program]]\nname = \"hashpipe\"\nslots = 8\nstages = 2\n" } else { "" };
        let mut bench = Bench::new(&format!("[switch]\nforward = \"{forward}\"\n{}{program}", ports(&keys)));
        for (change, ingress, up, frames) in steps {
            if let Some((table, op, entry)) = change {
                let _ = bench.change(table, op, entry);
            }
            (0..4).for_each(|port| bench.up(port, up >> port & 1 == 1 || up > 200));
            let frames: Vec<_> = frames.into_iter().map(|(to, from, tags, dport, flags, length, cut)| {
                let mut bytes = frame(to, from, &tags, dport, flags, length);
                if cut < 60 {
                    bytes.truncate(cut);
                }
                bytes
            }).collect();
            bench.now += 100_000;
            bench.burst(ingress, &frames);
        }
        bench.assembly.switches[0].finish();
        bench.balance();
    }
}
