//! What an operator sees of a running switch: rates, metrics, resets, logs.

use crate::common::{Lab, Link, eventually, http};

#[test]
fn rates_and_a_reset() {
    let Some(lab) = Lab::new("rates_and_a_reset") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "--program hashpipe");
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);

    let before = weir.ask("show ports");
    assert!(before["packets"]["rx_packets"].as_u64() > Some(0));
    weir.ask("stats reset");
    let since = weir.ask("show ports --since-reset");
    assert_eq!(since["reset"], true);
    assert!(since["packets"]["rx_packets"].as_u64() < before["packets"]["rx_packets"].as_u64(), "{since:#}");
    assert!(since["total_packets"]["rx_packets"].as_u64() >= before["packets"]["rx_packets"].as_u64(), "{since:#}");
    assert!(a.ping(b, "-c 5"));
    let since = weir.ask("show ports --since-reset");
    assert!(since["ports"][0]["rx_packets"].as_u64() >= Some(5), "{since:#}");
    let after = weir.ask("show ports");
    assert!(after["packets"]["rx_packets"].as_u64() >= before["packets"]["rx_packets"].as_u64(), "totals go on");
    let metrics = String::from_utf8(weir.try_ask("metrics").stdout).expect("text");
    let total = metrics.lines().find_map(|line| line.strip_prefix("weir_port_receive_packets_total{port=\"port1\"} "));
    assert!(total.expect("the metric").parse::<u64>().ok() >= after["ports"][0]["rx_packets"].as_u64(), "{metrics}");

    let pings = std::thread::scope(|scope| {
        let pings = scope.spawn(|| a.ping(b, "-c 10"));
        let rates = eventually("top to see the pings", || {
            let rates = weir.ask("top --interval 500ms");
            (rates["ports"][0]["rx_packets_per_second"].as_f64() > Some(1.0)).then_some(rates)
        });
        assert!(rates["seconds"].as_f64() >= Some(0.5), "{rates:#}");
        assert!(rates["cores"][0]["polls_per_second"].as_f64() > Some(0.0), "{rates:#}");
        assert_eq!(rates["programs"][0]["program"], "hashpipe");
        pings.join()
    });
    assert!(pings.expect("joins"));
    weir.stop();
}

#[test]
fn metrics_over_tcp() {
    let Some(lab) = Lab::new("metrics_over_tcp") else { return };
    // On the loopback of the switch's namespace.
    let port = http::free_port();
    let (weir, _hosts) = lab.start(Link::Veth, 1, &format!("--metrics 127.0.0.1:{port}"));
    let answer = http::get(&lab.switch, port, "/metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("weir_port_enabled{port=\"port1\"} 1"), "{answer}");
    weir.stop();
}

#[test]
fn a_page_of_a_switch() {
    let Some(lab) = Lab::new("a_page_of_a_switch") else { return };
    let port = http::free_port();
    let (weir, hosts) = lab.start(Link::Veth, 2, &format!("--program hashpipe --page 127.0.0.1:{port}"));
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    eventually("the flow to be on the page", || {
        a.reaches(b);
        let page = http::get(&lab.switch, port, "/");
        assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
        assert!(["port1", "port2"].iter().all(|port| page.contains(&format!("data-node=\"{port}\""))), "{page}");
        let (_, heavy) = page.split_once("<section id=\"heavy\"").expect("heavy flows");
        (heavy.contains(&a.address()) && heavy.contains(&b.address())).then_some(())
    });
    weir.stop();
}

#[test]
fn links_are_logged_with_their_fields() {
    let Some(lab) = Lab::new("links_are_logged_with_their_fields") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "--log-format json");
    let events = |weir: &crate::common::Weir| -> Vec<serde_json::Value> {
        weir.log().lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    };
    let find = |event: &str, port: &str| {
        eventually(event, || events(&weir).into_iter().find(|line| line["event"] == event && line["port"] == port))
    };
    // Other tests' switches may poll the same core.
    let ready = events(&weir).into_iter().find(|line| line["event"] != "core_shared").expect("it has started");
    assert_eq!((&ready["event"], &ready["switch"]), (&"ready".into(), &"switch".into()));
    // A link that goes down before the switch has seen it up is no change.
    eventually("the link to be seen", || (weir.ask("show ports")["ports"][0]["link_up"] == true).then_some(()));
    hosts[0].space.run(&format!("ip link set {} down", hosts[0]));
    assert_eq!(find("link_down", "port1")["level"], "WARN");
    weir.ask("port down port2");
    find("port_disabled", "port2");
    hosts[0].space.run(&format!("ip link set {} up", hosts[0]));
    assert!(find("link_up", "port1")["changes"].as_u64() >= Some(1));
    weir.stop();
}
