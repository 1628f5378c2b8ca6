//! The main job: a running switch names the flows of the hosts that talk through it.

use crate::common::{Iperf, Lab, Link, Protocol, eventually};

fn names_the_flow(test: &str, link: Link) {
    let Some(lab) = Lab::new(test) else { return };
    let (weir, hosts) = lab.start(link, 2, "--program hashpipe:stages=6,slots=512");
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    let iperf = Iperf::serve(b);
    let running = iperf.start(a, Protocol::Tcp, "--time 4");

    let flow = eventually("iperf3's flow to be named", || {
        let answer = weir.ask("show heavy --top 5 --last 10s");
        let heavy = answer["heavy"].as_array()?.clone();
        heavy.into_iter().find(|one| {
            let flow = &one["flow"];
            let (src, dst) = (flow["src"] == a.address(), flow["dst"] == b.address());
            src && dst && flow["dport"] == 5201 && flow["proto"] == 6 && one["packets"].as_u64() > Some(100)
        })
    });
    assert!(flow["flow"]["sport"].as_u64() > Some(1023), "{flow}");
    assert!(running.finish().bits_per_second > 0.0);

    let answer = weir.ask("show heavy --top 1 --last 10s");
    let top = &answer["heavy"][0]["flow"];
    assert!(
        top["dport"] == 5201 || top["sport"] == 5201,
        "the heaviest flow is iperf3's or its acknowledgements: {answer:#}"
    );
    let ports = weir.ask("show ports");
    assert_eq!(ports["ports"].as_array().map(Vec::len), Some(2), "{ports:#}");
    weir.ask("show drops");
    weir.stop();
}

#[test]
fn tap() {
    names_the_flow("heavy::tap", Link::Tap);
}

#[test]
fn veth() {
    names_the_flow("heavy::veth", Link::Veth);
}
