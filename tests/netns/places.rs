//! Five switches whose controller says where packets were lost: on one link, inside one switch, and on a
//! host's link, where nobody counts.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::common::{Controller, Weir, eventually, http};
use crate::fabric::Fabric;

const SPINES: usize = 3;
const PROGRAMS: &str = "[[program]]\nname = \"chamelemon\"\n[[program]]\nname = \"hopcounters\"\n";
/// Time after which epochs have closed and have final answers.
const CLOSED: Duration = Duration::from_millis(1500);

/// The controller's file: a link from each leaf to each spine.
fn links() -> String {
    let link = |leaf: usize, spine: usize| {
        format!("[[link]]\nports = [\"leaf{leaf}:tospine{spine}\", \"spine{spine}:toleaf{leaf}\"]\n")
    };
    (1..=2).flat_map(|leaf| (1..=SPINES).map(move |spine| link(leaf, spine))).collect()
}

fn places(controller: &Controller) -> Value {
    controller.ask("show losses --where --last 5m --top 1000")
}

/// Packets that a place has lost so far for no reason that a switch knows: of a link by the port that it begins
/// at, of a switch without one. A busy machine drops packets of other flows for known reasons.
fn lost(answer: &Value, switch: &str, port: Option<&str>) -> u64 {
    let is_place = |place: &&Value| place["switch"] == switch && place["port"].as_str() == port;
    let place = answer["places"].as_array().expect("places").iter().find(is_place);
    place.map_or(0, |place| place["unexplained_packets"].as_u64().unwrap())
}

/// The address on the link of what is routed there, which is not the port's own.
fn mac(weir: &Weir, port: &str) -> String {
    let addresses = weir.ask("table show addresses");
    let row = addresses["rows"].as_array().unwrap().iter().find(|row| row["port"] == port).expect("a port");
    row["mac"].as_str().unwrap().to_owned()
}

/// A neighbour that is not asked for.
fn add_neighbour(weir: &Weir, port: &str, address: &str, mac: &str) {
    weir.ask(&format!("table add neighbours address={address} port={port} mac={mac}"));
}

/// Packets that faults of a port have dropped, or those inside the switch.
fn dropped(weir: &Weir, port: &str) -> [u64; 2] {
    let ports = weir.ask("show ports");
    let port = ports["ports"].as_array().unwrap().iter().find(|found| found["name"] == port).expect("a port");
    [&port["device"]["fault_drop"], &port["drops"]["fault"]].map(|count| count.as_u64().unwrap_or(0))
}

/// Packets that the rate limit of a port has dropped.
fn beyond_limit(weir: &Weir, port: &str) -> u64 {
    let ports = weir.ask("show ports");
    let port = ports["ports"].as_array().unwrap().iter().find(|found| found["name"] == port).expect("a port");
    port["drops"]["tx_limit"].as_u64().unwrap()
}

/// Sends until the place has lost what the fault has dropped, and is called failed, with the flows.
fn is_named(fabric: &Fabric, controller: &Controller, (switch, port): (&str, Option<&str>), truth: impl Fn() -> u64) {
    eventually(&format!("{switch} {port:?} to be named"), || {
        fabric.send();
        thread::sleep(CLOSED);
        let (answer, truth) = (places(controller), truth());
        let is_place = |place: &&Value| place["switch"] == switch && place["port"].as_str() == port;
        let place = answer["places"].as_array().unwrap().iter().find(is_place)?;
        let victims = place["victims"].as_array().unwrap();
        let sent = victims.iter().filter(|victim| victim["flow"]["src"] == "10.0.1.9");
        let named: u64 = sent.map(|victim| victim["packets"].as_u64().unwrap()).sum();
        // On a busy machine an epoch may be unknown.
        let is_right = lost(&answer, switch, port) == truth && truth >= 20 && 10 * named >= 9 * truth;
        (place["failed"] == true && is_right).then_some(())
    });
}

fn failed(answer: &Value) -> Vec<String> {
    let failed = answer["places"].as_array().unwrap().iter().filter(|place| place["failed"] == true);
    failed.map(|place| format!("{} {}", place["switch"], place["port"])).collect()
}

#[test]
fn the_link_and_the_switch_that_lose_packets_are_named() {
    let Some(fabric) = Fabric::new("the_link_and_the_switch_that_lose_packets_are_named", SPINES) else { return };
    let switches = fabric.switches_with(|_| PROGRAMS.into());
    fs::write(fabric.lab.path("network.toml"), links()).unwrap();
    let port = http::free_port();
    let page = format!("--config network.toml --page 127.0.0.1:{port}");
    let controller = fabric.controller("chamelemon hopcounters", &page);
    let [leaf1, leaf2, _, spine2, _] = &switches[..] else { panic!("five switches") };
    // A fault inside a switch also drops what belongs to no flow: between these two ports there is nothing of it.
    add_neighbour(leaf1, "tospine2", "10.1.2.2", &mac(spine2, "toleaf1"));
    add_neighbour(spine2, "toleaf1", "10.1.2.1", &mac(leaf1, "tospine2"));
    fabric.lab.switch.run("sysctl -qw net.ipv6.conf.tospine2.disable_ipv6=1");
    fabric.is_connected();

    // Without a fault nothing is called failed, and all links and switches are compared.
    let quiet = eventually("all places to be compared", || {
        fabric.send();
        thread::sleep(CLOSED);
        let answer = places(&controller);
        (answer["compared_links"] == 12 && answer["compared_switches"] == 5).then_some(answer)
    });
    assert_eq!(failed(&quiet), [""; 0], "{quiet}");
    assert_eq!(quiet["unlinked_ports"].as_array().unwrap().len(), 0, "{quiet}");

    leaf1.ask("port fault tospine1 tx:drop=20%,proto=udp,src=10.0.1.9");
    let link = ("leaf1", Some("tospine1"));
    is_named(&fabric, &controller, link, || dropped(leaf1, "tospine1")[0]);
    eventually("the link to be on the page", || {
        let page = http::get(&fabric.lab.switch, port, "/");
        let link = page.split("<g id=\"link-").find(|of| of.contains("leaf1:tospine1 → spine1:toleaf1: failed"))?;
        link.contains("class=\"l4 failed\"").then_some(())
    });
    leaf1.ask("port fault tospine1 none");

    spine2.ask("port fault toleaf1 inside:drop=20%");
    is_named(&fabric, &controller, ("spine2", None), || dropped(spine2, "toleaf1")[1]);
    spine2.ask("port fault toleaf1 none");

    // What a port's rate limit holds back behind the counters is told as that, and the link has not failed.
    leaf1.ask("table set limits port=tospine3 direction=tx limit=100pps");
    eventually("packets beyond a rate limit to be told", || {
        fabric.send();
        thread::sleep(CLOSED);
        let answer = places(&controller);
        let is_link = |place: &&Value| place["switch"] == "leaf1" && place["port"] == "tospine3";
        let link = answer["places"].as_array().unwrap().iter().find(is_link)?;
        let limited = link["reasons"].as_array().unwrap().iter().find(|known| known["reason"] == "tx_limit")?;
        let limited = limited["packets"].as_u64().unwrap();
        assert_eq!(link["failed"], false, "{answer}");
        (limited >= 20 && limited == beyond_limit(leaf1, "tospine3")).then_some(())
    });
    leaf1.ask("table remove limits port=tospine3 direction=tx");

    // A host's link has one end that counts: what it loses is in no answer, and nothing else is blamed.
    let before = places(&controller);
    leaf2.ask("port fault host tx:drop=20%,proto=udp,src=10.0.1.9");
    fabric.send();
    thread::sleep(CLOSED);
    let answer = places(&controller);
    assert!(dropped(leaf2, "host")[0] > 50);
    assert_eq!(failed(&answer).len(), failed(&before).len(), "{answer}");

    // A switch that stands still for a moment delays packets, and loses none.
    fabric.send();
    spine2.signal("STOP");
    thread::sleep(Duration::from_millis(100));
    spine2.signal("CONT");
    fabric.send();
    thread::sleep(CLOSED);
    let answer = places(&controller);
    assert_eq!(failed(&answer).len(), 2, "{answer}");
    assert_eq!(lost(&answer, "spine2", None), dropped(spine2, "toleaf1")[1], "{answer}");

    switches.into_iter().for_each(|weir| _ = weir.stop());
    controller.stop();
}
