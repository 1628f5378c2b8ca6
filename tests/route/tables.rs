//! Tables that are read and changed while packets flow, and what the configuration may say.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use weir::config::Config;
use weir::pisa::DropReason;
use weir::tables::{Change, Op, Routed, Table};

use crate::bench::{Bench, config, host_mac, udp4};

fn table(bench: &Bench, name: &str) -> Box<dyn Table> {
    Routed::all(&Arc::new(Mutex::new(Some(bench.routing.clone()))))
        .into_iter()
        .find(|table| table.name() == name)
        .unwrap()
}

fn row(bench: &Bench, name: &str, key: &str, value: &str) -> Value {
    let rows = table(bench, name).rows();
    rows.into_iter().find(|row| row[key] == value).unwrap_or_else(|| panic!("no {value}"))
}

fn change(op: Op, entry: Value) -> Change {
    Change { op, entry }
}

#[test]
fn a_route_comes_counts_moves_and_goes() {
    let mut bench = Bench::new(&config());
    let packet = udp4(0, [10, 77, 0, 1], 64, b"hello");
    bench.one(0, &packet);
    assert_eq!(bench.dropped(DropReason::NoRoute), 1);

    let mut routes = table(&bench, "routes");
    let route = |via: &str| json!({ "prefix": "10.77.0.0/16", "via": [via] });
    routes.change(&[change(Op::Add, route("10.0.2.10"))]).unwrap();
    for _ in 0..5 {
        assert_eq!(bench.one(0, &packet).unwrap().1[..6], host_mac(2, 10));
    }
    let shown = row(&bench, "routes", "prefix", "10.77.0.0/16");
    let bytes = 5 * packet.len();
    assert_eq!(
        shown,
        json!({ "prefix": "10.77.0.0/16", "via": ["10.0.2.10"], "origin": "static", "packets": 5, "bytes": bytes })
    );

    assert!(routes.change(&[change(Op::Add, route("10.0.3.10"))]).unwrap_err().contains("there is one"));
    // A row as it was shown can be put back.
    let mut moved = shown.clone();
    moved["via"] = json!(["10.0.3.10"]);
    routes.change(&[change(Op::Set, moved)]).unwrap();
    assert_eq!(bench.one(0, &packet).unwrap().0, 2);
    assert_eq!(row(&bench, "routes", "prefix", "10.77.0.0/16")["packets"], 6, "the counters go on");

    routes.change(&[change(Op::Remove, json!({ "prefix": "10.77.0.0/16" }))]).unwrap();
    assert!(routes.change(&[change(Op::Remove, json!({ "prefix": "10.77.0.0/16" }))]).is_err());
    bench.one(0, &packet);
    assert_eq!(bench.dropped(DropReason::NoRoute), 2);
    // The next route counts from nothing, wherever it counts.
    routes.change(&[change(Op::Add, json!({ "prefix": "10.77.0.0/24", "drop": true }))]).unwrap();
    assert_eq!(row(&bench, "routes", "prefix", "10.77.0.0/24")["packets"], 0);
}

#[test]
fn all_changes_or_none() {
    let bench = Bench::new(&config());
    let mut routes = table(&bench, "routes");
    let before = routes.rows();
    let good = change(Op::Add, json!({ "prefix": "10.88.0.0/16", "via": ["10.0.2.10"] }));
    for (wrong, why) in [
        (
            json!({ "prefix": "10.89.0.1/16", "via": ["10.0.2.10"] }),
            "prefix = 10.89.0.1/16: 10.89.0.0/16, without host bits",
        ),
        (json!({ "prefix": "10.89.0.0/16", "via": ["10.7.2.10"] }), "via = 10.7.2.10: another host's address"),
        (json!({ "prefix": "10.89.0.0/16", "port": "px" }), "port = px: a port's name"),
        (json!({ "prefix": "10.89.0.0/16" }), "exactly one of via, port and drop"),
        (json!({ "prefix": "10.89.0.0/16", "vie": [] }), "unknown field `vie`"),
        (json!({ "prefix": "10.89.0.0" }), "write 10.0.1.1/24"),
        (json!(7), "invalid type"),
    ] {
        let error = routes.change(&[good.clone(), change(Op::Add, wrong)]).unwrap_err();
        assert!(error.starts_with("change 2: ") && error.contains(why), "{error}");
        assert_eq!(routes.rows(), before);
    }
}

#[test]
fn neighbours_and_addresses() {
    let mut bench = Bench::new(&config());
    let packet = udp4(0, [10, 0, 2, 99], 64, b"hello");
    let mut neighbours = table(&bench, "neighbours");
    let entry = json!({ "address": "10.0.2.99", "port": "p2", "mac": "02:01:00:00:02:63" });
    neighbours.change(&[change(Op::Add, entry.clone())]).unwrap();
    assert_eq!(bench.one(0, &packet).unwrap().1[..6], host_mac(2, 99));
    neighbours.change(&[change(Op::Remove, json!({ "address": "10.0.2.99" }))]).unwrap();
    assert_eq!(bench.one(0, &packet).unwrap().1[12..14], [8, 6], "it is asked for");
    let elsewhere = json!({ "address": "10.0.2.99", "port": "p1", "mac": "02:01:00:00:02:63" });
    assert!(neighbours.change(&[change(Op::Add, elsewhere)]).unwrap_err().contains("on a network of its port"));

    let mut addresses = table(&bench, "addresses");
    assert_eq!(addresses.rows().len(), 6);
    assert_eq!(addresses.rows()[0], json!({ "port": "p1", "address": "10.0.1.1/24", "mac": "02:00:00:00:00:00" }));
    let own = json!({ "port": "p2", "address": "10.70.0.1/24" });
    addresses.change(&[change(Op::Add, own.clone())]).unwrap();
    assert_eq!(bench.one(0, &udp4(0, [10, 70, 0, 9], 64, b"")).unwrap().0, 1, "asked for on its network");
    addresses.change(&[change(Op::Remove, own)]).unwrap();
    let needed = json!({ "port": "p2", "address": "10.0.2.1/24" });
    assert!(addresses.change(&[change(Op::Remove, needed)]).unwrap_err().contains("still has its way"));
}

#[test]
fn the_table_has_its_size() {
    let small = config().replace("reproducible = 1", "reproducible = 1\nroute_table = 35");
    let bench = Bench::new(&small);
    let mut routes = table(&bench, "routes");
    let drop = |n: u8| change(Op::Add, json!({ "prefix": format!("10.90.{n}.0/24"), "drop": true }));
    // Six addresses take 24, nine routes the rest but two.
    routes.change(&[drop(1), drop(2)]).unwrap();
    assert!(routes.change(&[drop(3)]).unwrap_err().contains("at most 35 routes"));
    let room =
        |routing| Routed::all(&Arc::new(Mutex::new(routing))).iter().map(|table| table.capacity()).collect::<Vec<_>>();
    assert_eq!(room(Some(bench.routing.clone()))[..2], [Some(35), Some(4096)]);
    let routed = Routed::all(&Arc::new(Mutex::new(Some(bench.routing.clone()))));
    assert!(routed[0].usage().is_some_and(|usage| usage.tcam_bits > 0), "both families'");
    assert_eq!(room(None)[..2], [Some(0), Some(0)], "a switch that does not route has no room");
    let error = Config::parse(&small.replace("= 35", "= 32")).unwrap_err().to_string();
    assert!(error.contains("switch.route_table") && error.contains("33"), "{error}");
}

#[test]
fn the_file_is_checked() {
    let base = config();
    for (more, says) in [
        ("[[route]]\nprefix = \"10.2.0.0/16\"\ndrop = true\n", "route[9].prefix = 10.2.0.0/16: each prefix once"),
        (
            "[[route]]\nprefix = \"10.66.0.0/16\"\nvia = [\"10.6.0.1\"]\n",
            "route[9].via = 10.6.0.1: another host's address",
        ),
        ("[[route]]\nprefix = \"10.66.0.0/16\"\nport = \"px\"\n", "route[9].port = px: a port's name"),
        (
            "[[neighbour]]\naddress = \"10.0.1.9\"\nport = \"p1\"\nmac = \"ff:ff:ff:ff:ff:ff\"\n",
            "neighbour[24].mac = ff:ff:ff:ff:ff:ff: the address of one",
        ),
        (
            "[[port]]\nname = \"p4\"\ndev = \"memory\"\naddresses = [\"10.0.1.9/25\"]\n",
            "port[3].addresses[0] = 10.0.1.9/25: a network that does not overlap",
        ),
    ] {
        let error = Config::parse(&format!("{base}{more}")).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let elsewhere = base.replace("forward = \"route\"", "forward = \"learn\"");
    let error = Config::parse(&elsewhere).unwrap_err().to_string();
    assert!(error.contains("port[0].addresses = 10.0.1.1/24: nothing, unless switch.forward = \"route\""), "{error}");
}
