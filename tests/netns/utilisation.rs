//! Five switches in a row: a stream of a known rate shows as the utilisation of the links that it
//! crosses, and a faster one as more.

use serde_json::Value;

use super::paths::{EPOCH, Line, TRANSIT};
use crate::common::{Controller, Host, Iperf, Protocol, eventually};

/// The bandwidth that links are said to have. A veth has none of its own.
const RATE: f64 = 40e6;
const QUERIES: &str = "path:bits=8+utilisation:bits=8:frequency=1/2:rate=40Mbps:period=100ms";

/// What is said of the UDP packets from one host to another.
fn stream<'a>(answer: &'a Value, from: &Host, to: &Host) -> Option<&'a Value> {
    let of = |one: &&Value| {
        let flow = &one["flow"];
        flow["src"] == from.address() && flow["dst"] == to.address() && flow["proto"] == 17
    };
    answer["utilisations"].as_array()?.iter().filter(of).max_by_key(|one| one["packets"].as_u64())
}

#[test]
fn a_stream_shows_as_much_as_it_sends() {
    let Some(line) = Line::new("a_stream_shows_as_much_as_it_sends") else { return };
    let expected: String = ["s1", "s2", "middle", "s4", "s5"].map(|name| format!("--switch {name} ")).concat();
    let times = format!("--epoch {EPOCH} --transit {TRANSIT} --record-timeout 2s -vv");
    let controller = Controller::start(&line.lab, &format!("{expected}--program pint:queries={QUERIES} {times}"));
    let switches = line.switches(&format!("queries = \"{QUERIES}\"\n"), "");
    let [host1, host2] = &line.hosts[..] else { unreachable!("two hosts") };
    host1.reaches(host2);
    let mut medians = Vec::new();
    for bits_per_second in [3e6, 12e6] {
        let iperf = Iperf::serve(host2);
        let running = iperf.start(host1, Protocol::Udp, &format!("--time 80 --bitrate {bits_per_second}"));
        // A frame has 42 bytes of headers, and 6 of the shim between switches.
        let load = bits_per_second * (1200.0 + 48.0) / 1200.0 / RATE;
        let near = |median: f64| (load / 1.25..load * 1.25).contains(&median);
        // In three epochs running, so that it does not pass by on its way elsewhere.
        let mut held = Vec::new();
        medians.push(eventually("the stream's share of the links", || {
            let answer = controller.ask("show utilisation --last 250ms --top 1000");
            let (epoch, found) = (answer["last_epoch"].as_u64()?, stream(&answer, host1, host2)?);
            let (median, max) = (found["median_utilisation"].as_f64()?, found["max_utilisation"].as_f64()?);
            assert!(max >= median && found["sink"] == "s5", "{found}");
            if !near(median) {
                held.clear();
            } else if held.last() != Some(&epoch) {
                held.push(epoch);
            }
            (held.len() == 3).then_some(median)
        }));
        drop(running);
    }
    let times = medians[1] / medians[0];
    assert!((2.5..6.5).contains(&times), "four times the load: {medians:?}");
    switches.into_iter().for_each(|weir| _ = weir.stop());
    controller.stop();
}
