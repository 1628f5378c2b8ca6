//! What a running switch may still do: the control thread little, every other thread nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{BINARY, Lab, Link, Weir, eventually};

/// CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK and CAP_BPF.
const CHANGING_PORTS: u64 = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 39;

/// A thread's name and what its status says.
struct Thread {
    id: u32,
    name: String,
    status: String,
}

impl Thread {
    fn all(process: u32) -> Vec<Self> {
        let read = |task: std::io::Result<fs::DirEntry>| {
            let id = task.ok()?.file_name().to_str()?.parse().ok()?;
            let status = fs::read_to_string(format!("/proc/{process}/task/{id}/status")).ok()?;
            let name = field(&status, "Name:").to_owned();
            Some(Self { id, name, status })
        };
        fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().filter_map(read).collect()
    }

    fn set(&self, key: &str) -> u64 {
        u64::from_str_radix(field(&self.status, key), 16).unwrap()
    }
}

fn field<'a>(status: &'a str, key: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim()
}

/// Only the first thread, which is the control thread, holds something, and no more than `kept`.
fn check(weir: &Weir, kept: u64) {
    let threads = Thread::all(weir.process());
    for name in ["weir-api", "weir-collector"] {
        assert!(threads.iter().any(|thread| thread.name == name), "no thread {name}");
    }
    assert!(threads.len() >= 4, "control, worker, collector, API");
    for thread in threads {
        let may = if thread.id == weir.process() { kept } else { 0 };
        for key in ["CapEff:", "CapPrm:"] {
            assert_eq!(thread.set(key) & !may, 0, "{key} of {}", thread.name);
        }
        let never = ["CapInh:", "CapAmb:"].map(|key| thread.set(key));
        assert_eq!((never, field(&thread.status, "NoNewPrivs:")), ([0; 2], "1"), "{}", thread.name);
        if field(&thread.status, "Uid:").starts_with("0\t0") {
            assert_eq!(thread.set("CapBnd:"), 0, "{} can gain something", thread.name);
        }
    }
}

/// Links can still be set, because the control thread does it, and a TAP port's driver needs
/// nothing more.
#[test]
fn only_the_control_thread_keeps_capabilities() {
    for link in [Link::Veth, Link::Tap] {
        let Some(lab) = Lab::new("only_the_control_thread_keeps_capabilities") else { return };
        let (weir, hosts) = lab.start(link, 2, "--program hashpipe:stages=2,slots=64");
        check(&weir, CHANGING_PORTS);
        hosts[0].reaches(&hosts[1]);
        weir.ask("port down port2");
        assert!(!hosts[0].ping(&hosts[1], "-c 1 -W 1"));
        weir.ask("port up port2");
        hosts[0].reaches(&hosts[1]);
        check(&weir, CHANGING_PORTS);
        weir.stop();
    }
}

/// With `runtime_ports = false` nothing is left; a link that only a right could change is refused
/// and stays as it is.
#[test]
fn nothing_is_kept_when_ports_never_change() {
    let Some(lab) = Lab::new("nothing_is_kept_when_ports_never_change") else { return };
    fs::write(lab.path("weir.toml"), "[switch]\nruntime_ports = false\n").unwrap();
    let (weir, hosts) = lab.start(Link::Veth, 2, "--config weir.toml");
    check(&weir, 0);
    hosts[0].reaches(&hosts[1]);
    let refused = weir.try_ask("port down port2");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("SIOCSIFFLAGS"), "{refused:?}");
    assert!(hosts[0].ping(&hosts[1], "-c 1"), "the link is as it was");
    weir.stop();
}

/// The kernel delivers no signal by which the other threads would give up their rights. The switch
/// does not start, and nothing that reads packets or requests has started before.
#[test]
fn rights_that_stay_end_the_start() {
    let Some(lab) = Lab::new("rights_that_stay_end_the_start") else { return };
    let mut command = lab.switch.command("prlimit");
    command.args(["--sigpending=0:0", BINARY, "run", "--forward", "xconnect", "--port", "a=null:rx=0", "--port"]);
    command.args(["b=null:rx=0", "--socket"]).arg(lab.path("never.sock")).current_dir(lab.directory());
    let mut weir = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut started = BTreeSet::new();
    let end = Instant::now() + Duration::from_secs(60);
    let status = loop {
        let names = Thread::all(weir.id()).into_iter().map(|thread| thread.name);
        started.extend(names.filter(|name| name.starts_with("weir-")));
        match weir.try_wait().expect("ours") {
            Some(status) => break Some(status),
            None if Instant::now() > end => break None,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let _ = weir.kill();
    let mut said = String::new();
    weir.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert_eq!(status.and_then(|status| status.code()), Some(1), "{said}");
    // DPDK's thread for interrupts, whose name goes by its version.
    let kept = said.split_once("threads keep the rights that they were started with: ").map(|(_, names)| names.trim());
    assert!(matches!(kept, Some("eal-intr-thread" | "dpdk-intr")), "{said}");
    assert!(started.is_empty(), "{started:?}");
}

/// All threads become the user, the socket is the user's, and links can still be set.
#[test]
fn another_user() {
    let Some(lab) = Lab::new("another_user") else { return };
    if !fs::read_to_string("/proc/self/status").is_ok_and(|status| field(&status, "Uid:").starts_with("0\t0")) {
        return crate::common::skip("another_user", crate::common::Lack::Machine, "only root can become another user");
    }
    fs::write(lab.path("weir.toml"), "[switch]\nuser = \"nobody\"\n").unwrap();
    let (weir, hosts) = lab.start(Link::Veth, 2, "--config weir.toml");
    check(&weir, CHANGING_PORTS);
    for thread in Thread::all(weir.process()) {
        let ids = field(&thread.status, "Uid:").split_whitespace().collect::<Vec<_>>();
        assert!(ids.iter().all(|id| *id != "0"), "{} runs as {ids:?}", thread.name);
    }
    // Threads that were started before the rights were given up would have kept it: only another
    // user's may be emptied no more.
    for thread in Thread::all(weir.process()).iter().filter(|thread| thread.name.starts_with("weir")) {
        assert_eq!(thread.set("CapBnd:"), 0, "{}", thread.name);
    }
    hosts[0].reaches(&hosts[1]);
    weir.ask("port down port2");
    weir.ask("port up port2");
    eventually("the link", || hosts[0].ping(&hosts[1], "-c 1 -W 1").then_some(()));
    weir.stop();
}

/// What the control thread keeps is enough for ports that come and go, and no thread that they
/// bring has any of it.
#[test]
fn ports_come_and_go() {
    let Some(lab) = Lab::new("privileges::ports_come_and_go") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "");
    lab.switch.run("ip link add late type veth peer name later");
    for dev in ["veth:late", "tap:wtrust0"] {
        weir.ask(&format!("port add extra={dev}"));
        check(&weir, CHANGING_PORTS);
        weir.ask("port down extra");
        weir.ask("port up extra");
        weir.ask("port remove extra");
        check(&weir, CHANGING_PORTS);
    }
    hosts[0].reaches(&hosts[1]);
    weir.stop();
}
