//! A live switch that is changed under traffic, on ports in memory: no root, no huge pages. EAL starts once in a process, so
//! all tests share one switch and take turns.
#![cfg(feature = "dpdk")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use weir::config::{AclDefault, Config, ForwardMode, Length, OrderConfig, PortConfig};
use weir::control::api::{HeavyQuery, NewPort, Service};
use weir::control::tables::{Change, Op};
use weir::control::view;
use weir::live::Live;
use weir::port::MemoryHandle;
use weir::switch::Role;

/// What a reload reads in place of a file.
static FILE: Mutex<Option<Config>> = Mutex::new(None);

fn file(config: Config) {
    *FILE.lock().unwrap_or_else(PoisonError::into_inner) = Some(config);
}

fn port(name: &str, dev: &str) -> PortConfig {
    PortConfig::new(name, dev.parse().unwrap())
}

/// Two ports that stay through all changes, and a program.
fn base() -> Config {
    let mut config = Config { ports: vec![port("a", "memory"), port("b", "memory")], ..Config::default() };
    config.switch.name = format!("live-changes-{}", std::process::id());
    config.switch.cores = cores();
    config.switch.huge_pages = Some(false);
    config.switch.epoch = Length(Duration::from_millis(20));
    config.programs = vec!["hashpipe:stages=3,slots=512".parse().unwrap()];
    config
}

/// Two workers where the machine has two cores for us.
fn cores() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<usize>().unwrap()..=last.parse().unwrap()
    };
    list.trim().split(',').flat_map(range).take(2).collect()
}

/// The switch as [`base`] has it, for the test that holds it.
fn switch() -> MutexGuard<'static, Live> {
    static LIVE: OnceLock<(Mutex<Live>, tempfile::TempDir)> = OnceLock::new();
    let (live, _) = LIVE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let reread = || FILE.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(|| "no file".to_owned());
        let socket = directory.path().join("weir.sock");
        let live = Live::start(base(), Some(Box::new(reread)), Vec::new(), Some(socket));
        (Mutex::new(live.expect("a switch in memory starts anywhere")), directory)
    });
    let live = live.lock().unwrap_or_else(PoisonError::into_inner);
    file(base());
    live.service().reload().unwrap();
    live
}

/// An IPv4 packet of flow number `flow`.
fn frame(from: u8, to: u8, flow: u16) -> Vec<u8> {
    let mut frame = [[2, 0, 0, 0, 0, to], [2, 0, 0, 0, 0, from]].concat();
    frame.extend([0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    frame.extend([flow.to_be_bytes(), 53u16.to_be_bytes(), 26u16.to_be_bytes(), [0, 0]].concat());
    frame.resize(60, 0);
    frame
}

fn eventually(what: &str, live: &Live, done: impl Fn(&view::Ports) -> bool) -> view::Ports {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let ports = live.ports();
        if done(&ports) {
            return ports;
        }
        assert!(Instant::now() < end, "waited for {what}: {ports:#?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Every packet that came in has gone out or been dropped for a reason.
fn balanced(live: &Live) -> view::Ports {
    eventually("the books to balance", live, |ports| ports.packets.unaccounted() == 0)
}

/// Packets from `a` to `b` and back without pause, through whatever is done to the switch.
struct Traffic {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Traffic {
    fn start(live: &Live) -> Self {
        let ends: Vec<MemoryHandle> = ["a", "b"].iter().map(|name| live.memory(name).unwrap()).collect();
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), sent.clone());
        let thread = std::thread::spawn(move || {
            let frames = [frame(1, 2, 1000), frame(2, 1, 2000)];
            while !stopped.load(Relaxed) {
                for (end, frame) in ends.iter().zip(&frames) {
                    counted.fetch_add(u64::from(end.inject(frame)), Relaxed);
                    while end.collect().is_some() {}
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        while sent.load(Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        Self { stop, sent, thread }
    }

    fn stop(self) -> u64 {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap();
        self.sent.load(Relaxed)
    }
}

fn new_port(name: &str, dev: &str) -> NewPort {
    NewPort { name: name.into(), dev: dev.parse().unwrap(), role: Role::Host, mtu_bytes: 1500, pair: None }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, bool),
    Remove(u8),
    Link(u8, bool),
    Packets(u8, u8, u16),
    Reload { extra: Vec<u8>, xconnect: bool, program: u8, mac_table: u32, stage_major: bool, fabric: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let reload =
        (prop::collection::btree_set(0..5u8, 0..4), any::<bool>(), 0..3u8, 8..11u32, any::<bool>(), any::<bool>());
    prop_oneof![
        3 => (0..5u8, any::<bool>()).prop_map(|(n, ring)| Step::Add(n, ring)),
        3 => (0..5u8).prop_map(Step::Remove),
        1 => (0..5u8, any::<bool>()).prop_map(|(n, up)| Step::Link(n, up)),
        4 => (0..5u8, 0..9u8, 1..200u16).prop_map(|(n, to, count)| Step::Packets(n, to, count)),
        3 => reload.prop_map(|(extra, xconnect, program, mac_table, stage_major, fabric)| Step::Reload {
            extra: extra.into_iter().collect(), xconnect, program, mac_table, stage_major, fabric,
        }),
    ]
}

/// What the switch should be, kept by hand.
struct Model<'a> {
    live: &'a Live,
    /// Ports beside `a` and `b`: name, whether it is a memory port, whether it is up.
    extra: Vec<(String, bool, bool)>,
    injected: u64,
}

impl Model<'_> {
    fn step(&mut self, step: &Step) {
        let service = self.live.service();
        let name = |n: &u8| format!("x{n}");
        let there = |name: &str, extra: &[(String, bool, bool)]| extra.iter().position(|(other, ..)| other == name);
        match step {
            Step::Add(n, ring) => {
                let dev = if *ring { format!("ring:r{n}") } else { "memory".into() };
                let added = service.add_port(&new_port(&name(n), &dev));
                assert_eq!(added.is_ok(), there(&name(n), &self.extra).is_none(), "{added:?}");
                if added.is_ok() {
                    self.extra.push((name(n), !ring, true));
                }
            }
            Step::Remove(n) => {
                let removed = service.remove_port(&name(n));
                let at = there(&name(n), &self.extra);
                assert_eq!(removed.is_ok(), at.is_some(), "{removed:?}");
                at.map(|at| self.extra.remove(at));
            }
            Step::Link(n, up) => {
                let at = there(&name(n), &self.extra);
                assert_eq!(service.set_link(&name(n), *up).is_ok(), at.is_some());
                if let Some(at) = at {
                    self.extra[at].2 = *up;
                }
            }
            Step::Packets(n, to, count) => self.packets(&name(n), *to, *count),
            Step::Reload { extra, xconnect, program, mac_table, stage_major, fabric } => {
                let mut config = base();
                config.ports.extend(extra.iter().map(|n| port(&name(n), "memory")));
                if let Some(last) = config.ports.last_mut().filter(|port| *fabric && port.name.starts_with('x')) {
                    last.role = Role::Fabric;
                }
                config.switch.forward = if *xconnect { ForwardMode::Xconnect } else { ForwardMode::Learn };
                config.switch.mac_table = 1 << mac_table;
                config.switch.order = if *stage_major { OrderConfig::Stage } else { OrderConfig::Packet };
                match program {
                    0 => config.programs.clear(),
                    1 => config.programs = vec!["hashpipe:stages=2,slots=64,key=pair".parse().unwrap()],
                    _ => {}
                }
                file(config);
                service.reload().unwrap();
                let kept = |n: &u8| self.extra.iter().find(|(other, memory, _)| *other == name(n) && *memory);
                self.extra = extra.iter().map(|n| (name(n), true, kept(n).is_none_or(|port| port.2))).collect();
            }
        }
        let names: Vec<_> = self.live.ports().ports.iter().map(|port| port.name.clone()).collect();
        let mut wanted: Vec<_> = self.extra.iter().map(|port| port.0.clone()).chain(["a".into(), "b".into()]).collect();
        wanted.sort();
        assert_eq!(
            names.iter().cloned().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>(),
            wanted
        );
    }

    /// Lets packets in, and waits until the switch has seen them: what a device still holds when it goes is no part of
    /// the balance.
    fn packets(&mut self, name: &str, to: u8, count: u16) {
        let Some((_, true, true)) = self.extra.iter().find(|(other, ..)| other == name) else { return };
        let handle = self.live.memory(name).unwrap();
        let received = |ports: &view::Ports| {
            ports.ports.iter().find(|port| port.name == name).map_or(0, |port| port.counts.rx_packets)
        };
        let before = received(&self.live.ports());
        let taken = (0..count).filter(|flow| handle.inject(&frame(10 + name.as_bytes()[1], to, *flow))).count() as u64;
        eventually("packets to come in", self.live, |ports| received(ports) == before + taken);
        while handle.collect().is_some() {}
        self.injected += taken;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_books_balance_through_all_changes(steps in prop::collection::vec(step(), 1..25)) {
        let live = switch();
        let before = balanced(&live);
        let traffic = Traffic::start(&live);
        let mut model = Model { live: &live, extra: Vec::new(), injected: 0 };
        steps.iter().for_each(|step| model.step(step));
        let injected = model.injected;
        let sent = traffic.stop();
        file(base());
        live.service().reload().unwrap();
        let rings = steps.iter().any(|step| matches!(step, Step::Add(_, true)));
        let came_in = |ports: &view::Ports| ports.packets.rx_packets - before.packets.rx_packets;
        // What a ring got comes in once more.
        let all = eventually("all packets to come in", &live, |ports| {
            came_in(ports) == sent + injected || rings && came_in(ports) > sent + injected
        });
        let after = balanced(&live);
        prop_assert!(after.removed.removed_ports >= before.removed.removed_ports);
        prop_assert_eq!(after.measurement.lost_epochs, before.measurement.lost_epochs);
        prop_assert_eq!(all.ports.len(), 2);
    }
}

/// The registers carry on when ports come and go, and every packet of a flow is in the epochs' records.
#[test]
fn measurement_goes_on_while_ports_come_and_go() {
    let live = switch();
    let service = live.service();
    let forgotten = live.ports().measurement.forgotten_epochs;
    let a = live.memory("a").unwrap();
    let mut sent = 0;
    for round in 0..20 {
        let packets = (0..50).filter(|_| a.inject(&frame(1, 2, 4242))).count() as u64;
        sent += packets;
        if round % 2 == 0 {
            service.add_port(&new_port("m", "memory")).unwrap();
        } else {
            service.remove_port("m").unwrap();
        }
    }
    let query = HeavyQuery { top: 5, threshold: 1, seconds: 60.0, after: None };
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let heavy = service.heavy(&query).unwrap();
        let counted = heavy.heavy.iter().find(|flow| flow.flow.sport == Some(4242)).map_or(0, |flow| flow.count());
        if counted == sent {
            break;
        }
        assert!(Instant::now() < end, "{counted} of {sent} packets measured");
        std::thread::sleep(Duration::from_millis(10));
    }
    let measurement = live.ports().measurement;
    assert_eq!((measurement.forgotten_epochs, measurement.lost_epochs), (forgotten, 0));
    balanced(&live);
}

/// Other programs start a new history, and what it forgot is counted.
#[test]
fn other_programs_start_a_new_history() {
    let live = switch();
    let service = live.service();
    let a = live.memory("a").unwrap();
    let mut config = base();
    config.programs = vec!["hashpipe:count=bytes".parse().unwrap()];
    std::thread::sleep(Duration::from_millis(100));
    let before = live.ports().measurement.forgotten_epochs;
    file(config);
    assert_eq!(service.reload().unwrap().changes, ["programs hashpipe"]);
    assert!(live.ports().measurement.forgotten_epochs > before);
    assert!(a.inject(&frame(1, 2, 7)));
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let heavy = service.heavy(&HeavyQuery::default()).unwrap();
        if let [flow] = &heavy.heavy[..] {
            assert_eq!((flow.bytes, flow.flow.sport), (Some(60), Some(7)));
            break;
        }
        assert!(Instant::now() < end, "{heavy:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn stations_behind_a_port_that_goes_are_forgotten_and_others_stay() {
    let mut live = switch();
    let service = live.service();
    service.add_port(&new_port("c", "memory")).unwrap();
    let (a, c) = (live.memory("a").unwrap(), live.memory("c").unwrap());
    assert!(a.inject(&frame(1, 99, 1)) && c.inject(&frame(3, 99, 1)));
    let ports = || service.stations().stations.iter().map(|station| station.port.clone()).collect::<Vec<_>>();
    let mut knows = |wanted: &[&str]| {
        let end = Instant::now() + Duration::from_secs(10);
        while ports() != wanted {
            assert!(Instant::now() < end, "{:?} instead of {wanted:?}", ports());
            live.round();
        }
    };
    knows(&["a", "c"]);
    let mut config = base();
    config.ports.push(port("c", "memory"));
    config.switch.mac_table = 100;
    file(config);
    service.reload().unwrap();
    knows(&["a", "c"]);
    service.remove_port("c").unwrap();
    knows(&["a"]);
    // A new port in the same slot has no stations yet.
    service.add_port(&new_port("d", "memory")).unwrap();
    knows(&["a"]);
    service.set_link("a", false).unwrap();
    knows(&[]);
    service.set_link("a", true).unwrap();
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let live = switch();
    let service = live.service();
    let before = live.ports().ports.iter().map(|port| (port.name.clone(), port.mtu_bytes)).collect::<Vec<_>>();
    let refused = |new: NewPort| service.add_port(&new).unwrap_err();
    assert!(refused(new_port("a", "null")).starts_with("port a: there is one of this name; the ports are "));
    assert!(refused(new_port("no way", "null")).contains("port[2].name"));
    let missing = refused(new_port("v", "veth:nonesuch0"));
    assert!(missing.starts_with("port v (veth:nonesuch0): ") && missing.contains("if_nametoindex"), "{missing}");
    let large = refused(NewPort { mtu_bytes: 9000, ..new_port("j", "memory") });
    assert!(large.starts_with("port j: its MTU of 9000 bytes does not fit the packet buffers"), "{large}");
    let pair = refused(NewPort { pair: Some("a".into()), ..new_port("p", "null") });
    assert!(pair.contains("only switch.forward = xconnect"), "{pair}");
    assert!(service.remove_port("z").unwrap_err().starts_with("there is no port z; the ports are "));

    let reload = |change: &dyn Fn(&mut Config)| {
        let mut config = base();
        change(&mut config);
        file(config);
        service.reload().unwrap_err()
    };
    let name = reload(&|config| config.switch.name = "other".into());
    assert!(name.starts_with("switch.name = \"other\": it is \"live-changes-"), "{name}");
    assert_eq!(
        reload(&|config| config.switch.buffers = Some(512)),
        "switch.buffers = 512: it is (not set), and to change it takes a restart"
    );
    let fits = reload(&|config| config.switch.target = "tofino".into());
    assert!(fits.contains("tofino"), "{fits}");
    // The second device cannot be opened, so the first is closed again.
    let half = reload(&|config| config.ports.extend([port("n", "null"), port("v", "veth:nonesuch0")]));
    assert!(half.contains("veth:nonesuch0"), "{half}");
    let after = live.ports().ports.iter().map(|port| (port.name.clone(), port.mtu_bytes)).collect::<Vec<_>>();
    assert_eq!(after, before);
    *FILE.lock().unwrap() = None;
    assert_eq!(service.reload().unwrap_err(), "no file");
}

#[test]
fn an_mtu_is_changed_under_traffic_and_by_a_reload() {
    let live = switch();
    let service = live.service();
    let traffic = Traffic::start(&live);
    let before = live.ports();
    let mtu = |name: &str| live.ports().ports.iter().find(|port| port.name == name).unwrap().mtu_bytes;
    // A frame of 1014 bytes: it fits the one MTU, not the other.
    let long = |live: &Live| {
        let (from, mut frame) = (live.memory("a").unwrap(), frame(1, 2, 7));
        frame.resize(1014, 0);
        let dropped =
            |ports: &view::Ports| ports.ports.iter().filter_map(|port| port.counts.drops.get("too_long")).sum::<u64>();
        let (before, received) = (dropped(&live.ports()), live.ports().ports[0].counts.rx_packets);
        while !from.inject(&frame) {}
        eventually("the long frame", live, |ports| ports.ports[0].counts.rx_packets > received);
        std::thread::sleep(Duration::from_millis(50));
        dropped(&live.ports()) - before
    };
    assert_eq!(long(&live), 0);
    service.set_mtu("b", 900).unwrap();
    assert_eq!((mtu("a"), mtu("b")), (1500, 900));
    assert_eq!(long(&live), 1);
    service.set_mtu("b", 1000).unwrap();
    assert_eq!(long(&live), 0);
    let large = service.set_mtu("b", 9000).unwrap_err();
    assert!(large.starts_with("port b: its MTU of 9000 bytes does not fit the packet buffers"), "{large}");
    assert!(service.set_mtu("b", 12).unwrap_err().contains("port[1].mtu = 12: 68 to 9216"));
    assert!(service.set_mtu("z", 1000).unwrap_err().starts_with("there is no port z; the ports are a, b"));
    service.set_promiscuous("a", false).unwrap();
    assert!(service.set_promiscuous("z", false).unwrap_err().starts_with("there is no port z"));
    assert_eq!(mtu("b"), 1000, "what was refused changed nothing");

    let changes = service.reload().unwrap().changes;
    assert_eq!(changes, ["port a: promiscuous = true, was false", "port b: mtu = 1500, was 1000"]);
    assert_eq!(long(&live), 0);
    let sent = traffic.stop();
    let after = balanced(&live);
    assert!(after.packets.rx_packets - before.packets.rx_packets <= sent + 4);
}

fn rows(live: &Live, table: &str) -> Vec<serde_json::Value> {
    live.tables().show(table).unwrap().rows
}

fn add(live: &Live, table: &str, entry: serde_json::Value) {
    let change = Change { op: Op::Add, entry };
    live.tables().change(table, &[change]).unwrap();
}

#[test]
fn a_reload_sets_what_is_set_on_ports_all_or_nothing() {
    let live = switch();
    let service = live.service();
    let rule = |text: &str| toml::from_str(text).unwrap();
    let mut config = base();
    config.acl = vec![rule("name = 'web'\naction = 'deny'\ndport = 53"), rule("action = 'count'")];
    config.mirrors = vec![toml::from_str("from = 'a'\nto = 'b'\ndirection = 'rx'").unwrap()];
    config.ports[0].rx_limit = Some("1Mpps".parse().unwrap());
    config.ports[1].vlan = Some(7);
    config.ports.push(PortConfig { vlan: Some(8), ..port("c", "memory") });
    file(config.clone());
    let changes = service.reload().unwrap().changes;
    let tables: Vec<_> = changes.iter().filter(|change| change.starts_with("table ")).cloned().collect();
    assert_eq!(tables, ["acl", "limits", "mirrors", "vlans"].map(|name| format!("table {name} as in the file")));
    assert_eq!(service.reload().unwrap().changes, Vec::<String>::new());

    // The rule decides, and goes on counting when it stays as others come and go.
    let denied = |ports: &view::Ports| ports.ports[0].counts.drops.get("acl_deny").copied().unwrap_or_default();
    let before = denied(&live.ports());
    assert!(live.memory("a").unwrap().inject(&frame(1, 2, 9)));
    eventually("the rule to deny", &live, |ports| denied(ports) == before + 1);
    assert_eq!(rows(&live, "acl")[0]["hit_packets"], 1);
    add(&live, "acl", serde_json::json!({"name": "more", "action": "permit", "at": 1}));
    add(&live, "limits", serde_json::json!({"port": "b", "direction": "tx", "limit": "5kpps"}));
    add(&live, "vlans", serde_json::json!({"port": "a", "vlan": 9}));
    config.acl.insert(0, rule("name = 'first'\naction = 'permit'\ndport = 1"));
    config.ports.pop();
    file(config.clone());
    let changes = service.reload().unwrap().changes;
    assert!(changes.contains(&"port c = memory removed".into()), "{changes:?}");
    let acl = rows(&live, "acl");
    let counted = acl.iter().map(|row| (row["name"].as_str().unwrap(), row["hit_packets"].as_u64().unwrap()));
    assert_eq!(counted.collect::<Vec<_>>(), [("first", 0), ("web", 1), ("rule3", 0)]);
    assert_eq!((rows(&live, "limits").len(), rows(&live, "vlans").len()), (1, 1), "as the file says");

    // Wrong in one place: nothing is taken over.
    let mut wrong = config.clone();
    wrong.switch.acl_default = AclDefault::Deny;
    wrong.ports.push(port("v", "veth:nonesuch0"));
    file(wrong);
    assert!(service.reload().unwrap_err().contains("veth:nonesuch0"));
    assert_eq!(live.tables().show("acl").unwrap().default.unwrap()["action"], "permit");
    config.switch.acl_default = AclDefault::Deny;
    file(config);
    service.reload().unwrap();
    assert_eq!(live.tables().show("acl").unwrap().default.unwrap()["action"], "deny");
    file(base());
    service.reload().unwrap();
    assert!(["acl", "limits", "mirrors", "vlans"].iter().all(|table| rows(&live, table).is_empty()));
    balanced(&live);
}

#[test]
fn pairs_stay_when_others_come_and_go() {
    let live = switch();
    let service = live.service();
    let mut config = base();
    config.switch.forward = ForwardMode::Xconnect;
    file(config);
    service.reload().unwrap();
    let crosses = |from: &str, to: &str| {
        let (from, to) = (live.memory(from).unwrap(), live.memory(to).unwrap());
        assert!(from.inject(&frame(1, 2, 1)));
        balanced(&live);
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end {
            if to.collect().is_some() {
                return true;
            }
        }
        false
    };
    assert!(crosses("a", "b"));
    let pair =
        |name: &str, peer: &str| service.add_port(&NewPort { pair: Some(peer.into()), ..new_port(name, "memory") });
    assert!(pair("c", "a").unwrap_err().contains("it is joined with b"));
    assert!(pair("c", "z").unwrap_err().contains("there is no such port; the ports are "));
    assert!(pair("c", "c").unwrap_err().contains("not joined with itself"));
    service.add_port(&new_port("c", "memory")).unwrap();
    pair("d", "c").unwrap();
    assert!(crosses("d", "c") && crosses("a", "b") && !crosses("a", "c"));
    service.remove_port("a").unwrap();
    assert!(crosses("c", "d") && !crosses("b", "c"), "b has no peer any more");
    pair("e", "b").unwrap();
    assert!(crosses("b", "e") && crosses("d", "c"));
}
