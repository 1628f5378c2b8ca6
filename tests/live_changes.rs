//! A live switch that is changed under traffic, on ports in memory: no root, no huge pages. EAL
//! starts once in a process, so all tests share one switch and take turns.
#![cfg(feature = "dpdk")]

#[path = "live_changes/lab.rs"]
mod lab;
#[path = "live_changes/model.rs"]
mod model;
#[path = "live_changes/time.rs"]
mod time;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use weir::api::view;
use weir::api::{NewPort, Service};
use weir::config::{AclDefault, Config, ForwardMode, OtlpHeader, PortConfig};
use weir::live::Live;
use weir::port::MemoryHandle;
use weir::tables::{Change, Op};

use lab::{FILE, Traffic, balanced, base, eventually, file, frame, new_port, port, switch};
use model::{Model, Step, step};

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_books_balance_through_all_changes(steps in prop::collection::vec(step(), 1..25)) {
        let live = switch();
        let before = balanced(&live);
        let traffic = Traffic::start(&live);
        let mut model = Model { live: &live, extra: Vec::new(), faults: BTreeMap::new(), injected: 0 };
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

/// A fault that holds a packet back keeps a worker busy without a packet to process; epochs end all
/// the same.
#[test]
fn epochs_end_while_a_fault_holds_a_packet_back() {
    let live = switch();
    let newest = || live.heavy().unwrap().claim.last_epoch.unwrap_or_default();
    let ends = ["a", "b"].map(|name| live.memory(name).unwrap());
    let clear = || ends.iter().for_each(|end| while end.collect().is_some() {});
    for way in ["tx", "rx"] {
        let before = balanced(&live);
        let mut faulty = base();
        faulty.ports.iter_mut().for_each(|port| port.fault = Some(format!("{way}:delay=2s").parse().unwrap()));
        file(faulty);
        live.service().reload().unwrap();
        clear();
        // Each worker polls one of the ports, and holds what came in there.
        ends.iter().zip([frame(1, 2, 7), frame(2, 1, 7)]).for_each(|(end, frame)| assert!(end.inject(&frame)));
        let delayed = |port: &view::Port| port.fault_effects.get("delayed_packets").copied().unwrap_or_default();
        let were = before.ports.iter().map(delayed).collect::<Vec<_>>();
        let held = |ports: &view::Ports| ports.ports.iter().zip(&were).all(|(port, were)| delayed(port) > *were);
        eventually("both faults to hold a packet", &live, held);
        let first = newest();
        // The collector goes on without a worker that does not report, after two epochs; but it
        // would take none of its records.
        eventually("five epochs to end", &live, |_| newest() >= first + 5);
        assert!(ends.iter().all(|end| end.collect().is_none()), "too slow: the packets are held no more");
        file(base());
        live.service().reload().unwrap();
        ends.iter().for_each(|end| drop(eventually("the packet to leave", &live, |_| end.collect().is_some())));
        clear();
    }
    // Other tests count the MAC addresses.
    forget_macs(&live);
}

/// The registers stay in use when ports come and go, and every packet of a flow is in the epochs'
/// records.
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
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let heavy = live.heavy().unwrap();
        let counted = heavy
            .heavy
            .iter()
            .find(|flow| flow.name.flow().unwrap().sport == Some(4242))
            .map_or(0, |flow| flow.count());
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
        let heavy = live.heavy().unwrap();
        if let [flow] = &heavy.heavy[..] {
            assert_eq!((flow.bytes, flow.name.flow().unwrap().sport), (Some(60), Some(7)));
            break;
        }
        assert!(Instant::now() < end, "{heavy:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The switch forgets what it learned from other tests.
fn forget_macs(live: &Live) {
    for name in ["a", "b"] {
        live.service().set_link(name, false).unwrap();
        live.service().set_link(name, true).unwrap();
    }
}

#[test]
fn macs_behind_a_port_that_goes_are_forgotten_and_others_stay() {
    let mut live = switch();
    forget_macs(&live);
    let service = live.service();
    service.add_port(&new_port("c", "memory")).unwrap();
    let (a, c) = (live.memory("a").unwrap(), live.memory("c").unwrap());
    assert!(a.inject(&frame(1, 99, 1)) && c.inject(&frame(3, 99, 1)));
    let ports = || service.macs().macs.iter().map(|entry| entry.port.clone()).collect::<Vec<_>>();
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
    // A new port in the same slot has no MAC addresses yet.
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
    assert!(
        missing.starts_with("port v (veth:nonesuch0): ") && missing.contains("there is no interface nonesuch0 here"),
        "{missing}"
    );
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
    let to = reload(&|config| config.otlp.to = Some("http://192.0.2.1:4317".into()));
    assert_eq!(to, "otlp.to = \"http://192.0.2.1:4317\": it is (not set), and to change it takes a restart");
    // The values of headers are secrets.
    let header = ("authorization".into(), OtlpHeader("Bearer secret".into()));
    let headers = reload(&|config| config.otlp.headers.extend([header.clone()]));
    assert!(headers.starts_with("otlp.headers = ") && !headers.contains("secret"), "{headers}");
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

fn named<'a>(ports: &'a view::Ports, name: &str) -> &'a view::Port {
    ports.ports.iter().find(|port| port.name == name).unwrap()
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

/// What is set on a port holds for all that comes in by it, until it has gone.
#[test]
fn a_port_that_goes_keeps_its_rules_to_the_end() {
    let live = switch();
    let ends = ["a", "b"].map(|name| live.memory(name).unwrap());
    ends.iter().for_each(|end| while end.collect().is_some() {});
    for _ in 0..20 {
        let mut config = base();
        config.acl = vec![toml::from_str("name = 'c'\naction = 'deny'\nsport = 777").unwrap()];
        config.ports.push(port("c", "memory"));
        file(config);
        live.service().reload().unwrap();
        let (from, stop) = (live.memory("c").unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let sender = std::thread::spawn(move || {
            while !stopped.load(Relaxed) {
                from.inject(&frame(3, 1, 777));
            }
        });
        eventually("the rule to deny", &live, |ports| named(ports, "c").counts.drops["acl_deny"] > 100);
        file(base());
        live.service().reload().unwrap();
        stop.store(true, Relaxed);
        sender.join().unwrap();
        balanced(&live);
        let passed = ends.iter().filter_map(MemoryHandle::collect).count();
        assert_eq!(passed, 0, "packets that the rule denies");
    }
}

/// Packets that a fault held back when their port went are among what removed ports lost.
#[test]
fn what_a_fault_held_is_counted_when_its_port_goes() {
    let live = switch();
    let held = |ports: &view::Ports| ports.removed.counts.device.get("fault_held").copied().unwrap_or_default();
    let before = held(&live.ports());
    let mut config = base();
    config.ports.push(PortConfig { fault: Some("rx:delay=60s".parse().unwrap()), ..port("c", "memory") });
    file(config);
    live.service().reload().unwrap();
    let handle = live.memory("c").unwrap();
    (0..5).for_each(|flow| assert!(handle.inject(&frame(3, 1, flow))));
    let delayed = |ports: &view::Ports| named(ports, "c").fault_effects.get("delayed_packets") == Some(&5);
    eventually("the fault to hold them", &live, delayed);
    file(base());
    live.service().reload().unwrap();
    assert_eq!(held(&live.ports()), before + 5);
    balanced(&live);
}

/// The control loop looks at links every tenth round of ten milliseconds, and workers follow with
/// their next burst.
#[test]
fn a_link_is_looked_at_every_ten_rounds() {
    let mut live = switch();
    let (a, b) = (live.memory("a").unwrap(), live.memory("b").unwrap());
    let dropped = |ports: &view::Ports| named(ports, "a").counts.drops["port_down"];
    let mut rounds = Vec::new();
    for plugged in [false, true] {
        b.plug(plugged);
        assert_ne!(named(&live.ports(), "b").link_up, plugged, "nobody has looked yet");
        for _ in 0..10 {
            let start = Instant::now();
            live.round();
            rounds.push(start.elapsed());
        }
        let before = live.ports();
        assert_eq!(named(&before, "b").link_up, plugged);
        assert!(a.inject(&frame(1, 2, 1)));
        eventually("the packet", &live, |ports| ports.packets.rx_packets > before.packets.rx_packets);
        let after = balanced(&live);
        assert_eq!(dropped(&after) - dropped(&before), u64::from(!plugged));
    }
    // A loaded machine makes some of them longer.
    let shortest = rounds.into_iter().min().unwrap();
    assert!((Duration::from_millis(10)..Duration::from_millis(15)).contains(&shortest), "{shortest:?}");
    balanced(&live);
}

/// What finds no room is the switch's to count; what is counted as sent is at the other end.
#[test]
fn what_a_full_queue_refuses_is_counted() {
    let live = switch();
    let (a, b) = (live.memory("a").unwrap(), live.memory("b").unwrap());
    let before = balanced(&live);
    while b.collect().is_some() {}
    let frames = 6000;
    for flow in 0..frames {
        while !a.inject(&frame(1, 2, flow)) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let received = before.packets.rx_packets + u64::from(frames);
    eventually("all packets", &live, |ports| ports.packets.rx_packets == received);
    let after = balanced(&live);
    let counts = named(&after, "b").counts.since(&named(&before, "b").counts);
    let full = counts.drops["tx_full"];
    assert_eq!((counts.tx_packets + full, counts.drops.values().sum::<u64>()), (frames.into(), full));
    assert!(full > 0 && counts.tx_packets > 0, "{counts:#?}");
    assert_eq!(std::iter::from_fn(|| b.collect()).count() as u64, counts.tx_packets);
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
