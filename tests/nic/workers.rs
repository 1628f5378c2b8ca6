//! Cards with two queues, each polled by a worker of its own.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::common::{Host, Lab, Link, Totals, eventually};
use crate::guest::{Guest, Machine, text};

const ECHO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nic/echo.py");
/// Datagrams of a flow, each with its answer.
const DATAGRAMS: u64 = 50;
/// Flows of each IP version: with their answers as many as the end of a run lists. The card's key
/// and the flows are the same in each run, and so is the worker of each flow.
const FLOWS: u16 = 5;
const FIRST_PORT: u16 = 40_000;

/// Answers datagrams to a host's addresses until dropped.
struct Echo(Vec<Child>);

impl Echo {
    fn serve(host: &Host) -> Self {
        let serve = |address: String| {
            let mut command = host.space.command("/usr/bin/python3");
            command.args([ECHO, "serve", &address]).stdin(Stdio::null()).spawn().expect("starts")
        };
        Self([host.address(), host.address6()].map(serve).into())
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        for server in &mut self.0 {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// One flow and its answers, all of which come.
fn ask(from: &Host, address: &str, port: u16) {
    from.space.run(&format!("/usr/bin/python3 {ECHO} ask {address} {port} {DATAGRAMS}"));
}

/// Packets that each worker has taken in.
fn packets(guest: &mut Guest) -> Vec<u64> {
    let metrics = guest.run("/busybox wget -q -O - http://127.0.0.1:9900/metrics");
    let counts = metrics.lines().filter(|line| line.starts_with("weir_worker_packets_total{"));
    counts.map(|line| line.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a count")).collect()
}

/// Runs the same flows through a switch with these cores, and calls `seen` with the packets of each
/// worker after each flow. Returns the flows of the run.
fn run(guest: &mut Guest, hosts: &[Host], cores: &str, mut seen: impl FnMut(Vec<u64>)) -> BTreeMap<String, u64> {
    let [a, b] = hosts else { unreachable!("two hosts") };
    let ports = guest.ports();
    guest.start(&format!("{ports} {cores} --program hashpipe --metrics 127.0.0.1:9900"));
    a.reaches(b);
    eventually("the way by IPv6", || a.ping6(b, "-c 1 -W 1").then_some(()));
    let mut before = packets(guest);
    for address in [b.address(), b.address6()] {
        for flow in 0..FLOWS {
            ask(a, &address, FIRST_PORT + flow);
            let after = packets(guest);
            seen(after.iter().zip(&before).map(|(after, before)| after - before).collect());
            before = after;
        }
    }
    flows(&guest.stop())
}

/// The UDP flows of a run.
fn flows(totals: &Totals) -> BTreeMap<String, u64> {
    let flows = totals.0["heavy"]["heavy"].as_array().expect("flows").iter();
    let udp = flows.filter(|one| one["flow"]["proto"] == 17);
    udp.map(|one| (name(&one["flow"]), one["packets"].as_u64().expect("a count"))).collect()
}

fn name(flow: &Value) -> String {
    let end = |address: &str, port: &str| format!("{} {}", text(&flow[address]), flow[port]);
    format!("{} to {}", end("src", "sport"), end("dst", "dport"))
}

/// Toeplitz with a key that repeats every 16 bits is the same for both directions of a flow.
#[test]
#[ignore = "make test-nic"]
fn a_flow_and_its_answers_are_on_one_worker() {
    let test = "workers::a_flow_and_its_answers_are_on_one_worker";
    let Some(lab) = Lab::new(test) else { return };
    let ports = lab.ports(Link::Tap, 2);
    let Some(mut guest) = Guest::boot(test, &lab, &Machine::default()) else { return };
    let hosts = ports.connect();
    guest.bind();
    let _echo = Echo::serve(&hosts[1]);

    let mut taken = [0, 0];
    let two = run(&mut guest, &hosts, "--core 1 --core 2", |packets| {
        let mine = usize::from(packets[1] > packets[0]);
        // The other one may get what kernels say to each other.
        assert!(packets[mine] >= 2 * DATAGRAMS && packets[1 - mine] < DATAGRAMS / 2, "{packets:?}");
        taken[mine] += 1;
    });
    eprintln!("flows of each worker: {taken:?}");
    assert!(taken.iter().all(|flows| *flows > 0), "both workers have some: {taken:?}");
    let one = run(&mut guest, &hosts, "--core 1", |packets| assert_eq!(packets.len(), 1));
    assert_eq!(two, one, "the registers of two workers add up to those of one");
    assert_eq!(two.len(), 4 * usize::from(FLOWS), "{two:#?}");
    assert!(two.values().all(|packets| *packets == DATAGRAMS), "{two:#?}");
}

/// CPUs that the kernel leaves alone are in no process's affinity mask.
#[test]
#[ignore = "make test-nic"]
fn isolated_cores_poll() {
    let test = "workers::isolated_cores_poll";
    let Some(lab) = Lab::new(test) else { return };
    let ports = lab.ports(Link::Tap, 2);
    let kernel = "intel_iommu=on iommu=pt isolcpus=1,2 nohz_full=1,2 rcu_nocbs=1,2";
    let Some(mut guest) = Guest::boot(test, &lab, &Machine { kernel, ..Machine::default() }) else { return };
    let hosts = ports.connect();
    guest.bind();
    let checks = guest.doctor();
    let found = |name: &str| {
        let check = checks.iter().find(|check| check["name"] == name).expect("a check");
        (text(&check["status"]).to_owned(), text(&check["found"]).to_owned())
    };
    assert_eq!(found("cores"), ("ok".into(), "3".into()));
    assert_eq!(found("isolation").1, "isolcpus=1-2, nohz_full=1-2: weir run --core N, of 1,2");
    let ports = guest.ports();
    guest.start(&format!("{ports} --core 1 --core 2"));
    hosts[0].reaches(&hosts[1]);
    let pid = "$(cat /tmp/weir.pid)";
    let affinities = guest.run(&format!("grep -h Cpus_allowed_list /proc/{pid}/task/*/status"));
    for core in [1, 2] {
        assert!(affinities.lines().any(|line| line.ends_with(&format!("\t{core}"))), "{affinities}");
    }
    guest.stop();
    let (code, output) = guest.try_run("weir run --port a=null --core 3");
    assert!(code == 2 && output.contains("this process may use cores [0, 1, 2]"), "{code}: {output}");
}
