//! Faults that the user asks for, between real hosts: their counts are what the hosts see.

use crate::common::{Host, Lab, Link, Weir};

/// What ping says: packets received, and the shortest round trip in milliseconds.
fn ping(from: &Host, to: &Host, options: &str) -> (u64, f64) {
    let output = from.space.try_run(&format!("ping -n -q -W 1 {options} {}", to.address()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let received = text.split(" received").next().and_then(|before| before.rsplit(' ').next()?.parse().ok());
    let shortest = text.split("= ").nth(1).and_then(|after| after.split('/').next()?.parse().ok());
    (received.unwrap_or_else(|| panic!("no count in {text}")), shortest.unwrap_or(f64::MAX))
}

fn reaches6(from: &Host, to: &Host) {
    crate::common::eventually("IPv6", || from.ping6(to, "-c 1 -W 1").then_some(()));
}

#[test]
fn what_ping_loses_is_what_the_fault_drops() {
    let Some(lab) = Lab::new("what_ping_loses_is_what_the_fault_drops") else { return };
    // Echo requests come in by the first port; what else comes there is left alone.
    let fault = "--fault port1=rx:every=5,proto=icmp,src=10.0.0.1 --fault port2=tx:delay=20ms,proto=icmp";
    let (weir, hosts) = lab.start(Link::Veth, 2, fault);
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    reaches6(a, b);
    let (received, shortest) = ping(a, b, "-c 50 -i 0.02");
    assert_eq!(received, 40);
    assert!(shortest >= 20.0, "{shortest} ms through 20 ms");
    let totals = weir.stop();
    assert_eq!(totals.port("port1")["device"]["fault_drop"], 10, "{}", totals.0);
    assert_eq!(totals.port("port2")["fault_effects"]["delayed_packets"], 40, "{}", totals.0);
    assert_eq!(totals.port("port2")["device"]["fault_overflow"], 0, "{}", totals.0);
}

/// While the switch runs a fault is set, changed and cleared: at each step the hosts lose what the
/// port counts, and no more.
#[test]
fn faults_are_set_and_cleared_while_it_runs() {
    let Some(lab) = Lab::new("faults_are_set_and_cleared_while_it_runs") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "");
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    reaches6(a, b);
    let port = |key: &str| weir.ask("show ports")["ports"][0][key].clone();
    let dropped = || port("device")["fault_drop"].as_u64().expect("a count");
    assert!(port("fault").is_null() && ping(a, b, "-c 20 -i 0.02").0 == 20);

    let set = weir.ask("port fault port1 rx:every=5,proto=icmp,src=10.0.0.1");
    assert_eq!(set["fault"], "rx:every=5,src=10.0.0.1,proto=1");
    assert_eq!(port("fault"), set["fault"]);
    assert_eq!((ping(a, b, "-c 50 -i 0.02").0, dropped()), (40, 10));
    weir.ask("port fault port1 rx:drop=100%,proto=icmp,src=10.0.0.1");
    assert_eq!((ping(a, b, "-c 5 -i 0.02").0, dropped()), (0, 15));

    // What is wrong changes nothing.
    for (words, why) in [
        ("port fault port1 rx:lose=1%", "lose: no such setting"),
        ("port fault port9 none", "there is no port port9; the ports are port1, port2"),
    ] {
        let refused = weir.try_ask(words);
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && error.contains(why), "{words}: {error}");
    }
    assert_eq!(port("fault"), "rx:drop=100%,src=10.0.0.1,proto=1");

    // What is held back when the fault ends leaves in its time.
    weir.ask("port fault port1 rx:delay=1s,proto=icmp,src=10.0.0.1");
    let (received, shortest) = std::thread::scope(|scope| {
        let waits = scope.spawn(|| ping(a, b, "-c 1 -W 5"));
        let held = || (port("fault_effects")["delayed_packets"] == 1).then_some(());
        crate::common::eventually("the fault to hold it", held);
        assert!(weir.ask("port fault port1 none")["fault"].is_null());
        waits.join().expect("ping ends")
    });
    assert!(received == 1 && shortest >= 1000.0, "{received} in {shortest} ms");
    assert!(port("fault").is_null());
    assert_eq!((ping(a, b, "-c 50 -i 0.02").0, dropped()), (50, 15));
    // What the host has sent has come in, or the device has lost it by name.
    let lost = |port: &serde_json::Value| {
        port["device"].as_object().expect("losses").values().filter_map(serde_json::Value::as_u64).sum::<u64>()
    };
    crate::common::eventually("the host's count and the port's to agree", || {
        let port = &weir.ask("show ports")["ports"][0];
        (port["rx_packets"].as_u64().expect("a count") + lost(port) == a.counts()[0]).then_some(())
    });
    let totals = weir.stop();
    let lost = ["fault_overflow", "fault_held"].map(|why| totals.port("port1")["device"][why].as_u64());
    assert_eq!(lost, [Some(0); 2], "{}", totals.0);
}

#[test]
fn a_duplicate_is_seen_and_counted() {
    let Some(lab) = Lab::new("a_duplicate_is_seen_and_counted") else { return };
    let (weir, hosts) = lab.start(Link::Tap, 2, "--fault port2=tx:duplicate=100%,proto=icmp;tx:drop=100%,ecn=1");
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    reaches6(a, b);
    let output = a.space.try_run(&format!("ping -n -q -W 1 -c 10 -i 0.05 {}", b.address()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The last copy's answer may come after ping has ended.
    let duplicates = text.split("received, +").nth(1).and_then(|after| after.split(' ').next()?.parse::<u64>().ok());
    assert!(matches!(duplicates, Some(9 | 10)), "{text}");
    // ECT(1) is dropped, all else passes.
    assert_eq!(ping(a, b, "-c 5 -i 0.05 -Q 1 -w 2").0, 0);
    assert_eq!(ping(a, b, "-c 5 -i 0.05 -Q 2").0, 5);
    let totals = weir.stop();
    assert_eq!(totals.port("port2")["fault_effects"]["duplicated_packets"].as_u64().map(|n| n >= 20), Some(true));
    assert!(totals.port("port2")["device"]["fault_drop"].as_u64() >= Some(5), "{}", totals.0);
}

/// Two switches on one interface would both forward each of its packets. A switch that was killed
/// holds nothing.
#[test]
fn an_interface_is_for_one_switch() {
    let Some(lab) = Lab::new("an_interface_is_for_one_switch") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "");
    hosts[0].reaches(&hosts[1]);
    let mut second = lab.switch.command(env!("CARGO_BIN_EXE_weir"));
    second.args(["run", "--duration", "1s", "--port", "x=veth:p1", "--socket"]).arg(lab.path("second.sock"));
    let refused = second.output().expect("runs");
    let error = String::from_utf8_lossy(&refused.stderr);
    let says = format!("p1 is a port of another weir already (process {})", weir.id());
    assert!(refused.status.code() == Some(1) && error.contains(&says), "{says}: {error}");
    let refused = weir.try_ask("port add x=xdp:p1");
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && error.contains("port port1 has veth:p1"), "{error}");
    // The interface of the same number in another network namespace is another.
    assert!(hosts[0].ping(&hosts[1], "-c 2"));
    // Killed.
    drop(weir);
    let third = Weir::start(&lab, &lab.switch, "third", "--port x=veth:p1 --port y=veth:p2");
    hosts[0].reaches(&hosts[1]);
    third.stop();
}

/// A port that cannot be added while the switch runs tells the client why, in the driver's words.
#[test]
fn a_port_that_cannot_be_added_tells_the_cause() {
    let Some(lab) = Lab::new("a_port_that_cannot_be_added_tells_the_cause") else { return };
    let (weir, _hosts) = lab.start(Link::Veth, 1, "");
    lab.switch.run("ip link add taken type veth peer name other");
    let refused = weir.try_ask("port add late=tap:taken");
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("TUNSETIFF") && !error.contains("on primary process"), "{error}");
    weir.stop();
}
