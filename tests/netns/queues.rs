//! Five switches in a row: packets that wait for a port show as its switch's queue, and at no other
//! switch.

use serde_json::Value;

use super::paths::{EPOCH, Line, TRANSIT};
use crate::common::{Controller, Host, eventually};

/// A packet carries the path, and the queue of a hop or the longest one of its way.
const QUERIES: &str = "path:bits=8+queue:bits=8:frequency=1/2+queue:bits=8:flow=dst:frequency=1/2\
                       +queue:bits=8:aggregation=max:frequency=1/2";

/// What is said of the hops of the pings from one host to another.
fn hops<'a>(answer: &'a Value, from: &Host, to: &Host) -> Option<&'a Vec<Value>> {
    let of = |one: &&Value| {
        let flow = &one["flow"];
        flow["src"] == from.address() && flow["dst"] == to.address() && flow["proto"] == 1
    };
    answer["values"][0]["told"].as_array()?.iter().find(of)?["told"].as_array()
}

#[test]
fn a_queue_shows_at_its_hop() {
    let Some(line) = Line::new("a_queue_shows_at_its_hop") else { return };
    let expected: String = ["s1", "s2", "middle", "s4", "s5"].map(|name| format!("--switch {name} ")).concat();
    let times = format!("--epoch {EPOCH} --transit {TRANSIT} --record-timeout 2s -vv");
    let controller = Controller::start(&line.lab, &format!("{expected}--program pint:queries={QUERIES} {times}"));
    // What leaves by that port to the first host waits for 300 ms: 150 packets at 500 a second.
    let switches = line.switches(&format!("queries = \"{QUERIES}\"\n"), "tx:delay=300ms");
    let [host1, host2] = &line.hosts[..] else { unreachable!("two hosts") };
    host1.reaches(host2);
    let found = eventually("the queues of all hops, both ways", || {
        host1.space.try_run(&format!("ping -n -q -i 0.002 -W 1 -c 1000 {}", host2.address()));
        let answer = controller.ask("show values --last 60s --top 1000");
        assert_eq!(answer["values"][0]["unit"], "packets", "{answer}");
        let both = [(host1, host2), (host2, host1)].map(|(from, to)| hops(&answer, from, to).cloned());
        let is_told = |hops: &Option<Vec<Value>>| {
            let told = |hop: &Value| hop["switch"].is_string() && hop["samples"].as_u64() >= Some(40);
            hops.as_ref().is_some_and(|hops| hops.len() == 5 && hops.iter().all(told))
        };
        both.iter().all(is_told).then_some(both.map(Option::unwrap))
    });
    // A busy machine sends fewer pings a second, and switches take several at once.
    let median = |hop: &Value| hop["p50"].as_f64().unwrap();
    let longest = median(&found[1][2]);
    assert!(found[1][2]["switch"] == "middle" && longest >= 8.0, "{found:?}");
    let others = found[0].iter().chain(found[1].iter().filter(|hop| hop["switch"] != "middle"));
    assert!(others.map(median).all(|other| other <= longest / 3.0), "{found:?}");
    // So does the longest queue of a way, and what waits of all that is sent to the first host. An
    // epoch without pings may have come since.
    eventually("the queue of the way, and by host", || {
        let answer = controller.ask("show values --last 60s --top 1000");
        let [hops, of_host, of_way] = &answer["values"].as_array()?[..] else { panic!("{answer}") };
        let asked = [hops, of_host, of_way].map(|of| (of["aggregation"].as_str(), of["flow_definition"].as_str()));
        assert_eq!(asked, [(Some("quantiles"), None), (Some("quantiles"), Some("dst")), (Some("max"), None)]);
        let of = |from: Option<&Host>, to: &Host, one: &&Value| {
            let src = from.map_or(Value::Null, |from| from.address().into());
            one["flow"]["src"] == src && one["flow"]["dst"] == to.address()
        };
        let told = |value: &Value, from: Option<&Host>, to: &Host| {
            let flow = value["told"].as_array()?.iter().find(|one| of(from, to, one))?;
            flow["told"].as_array().cloned()
        };
        let at_host = told(of_host, None, host1)?;
        let slow = at_host.len() == 5 && at_host[2]["max"].as_f64()? >= 8.0;
        let max = |from, to| told(of_way, Some(from), to)?[0]["max"].as_f64();
        (slow && max(host2, host1)? >= 8.0 && max(host1, host2)? < max(host2, host1)?).then_some(())
    });
    switches.into_iter().for_each(|weir| _ = weir.stop());
    controller.stop();
}
