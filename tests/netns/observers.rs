//! Captures and traces of a running switch.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use weir::trace::CaptureReader;

use crate::common::capture::{Seen, packets, start as capture, stop};
use crate::common::{Host, Iperf, Lab, Link, Protocol, eventually};

fn pair(hosts: &[Host]) -> (&Host, &Host) {
    let [a, b] = hosts else { unreachable!("two hosts") };
    (a, b)
}

#[test]
fn capture_of_a_ping() {
    for link in [Link::Veth, Link::Tap] {
        let Some(lab) = Lab::new("capture_of_a_ping") else { return };
        let (weir, hosts) = lab.start(link, 2, "");
        let (a, b) = pair(&hosts);
        a.reaches(b);
        let file = lab.path("ping.pcapng");
        let mut all = capture(&weir, "--filter icmp --count 8", &file);
        let one = lab.path("one.pcapng");
        let mut one_way = capture(&weir, "--port port2 --direction rx --filter icmp --count 2 --snaplen 40", &one);
        assert!(a.ping(b, "-c 2"));
        assert!(all.wait().expect("ends").success() && one_way.wait().expect("ends").success());

        let seen = packets(&mut CaptureReader::open(&file).unwrap());
        let count = |port: &str, direction: &str, kind: u8| {
            let is = |seen: &&Seen| (&*seen.0, &*seen.1, seen.2[34]) == (port, direction, kind);
            seen.iter().filter(is).count()
        };
        let (request, reply) = (8, 0);
        for (way, kind) in [(["port1", "port2"], request), (["port2", "port1"], reply)] {
            assert_eq!((count(way[0], "rx", kind), count(way[1], "tx", kind)), (2, 2), "{seen:?}");
        }
        assert_eq!(seen.len(), 8, "nothing but ICMP");
        let seen = packets(&mut CaptureReader::open(&one).unwrap());
        assert_eq!(seen.len(), 2);
        assert!(
            seen.iter().all(|(port, direction, bytes)| (&**port, &**direction, bytes.len()) == ("port2", "rx", 40))
        );
        weir.stop();
    }
}

/// A question comes in and goes out in one round of the worker: the capture says so, in its text and
/// in its file.
#[test]
fn times_of_a_ping_are_those_of_bursts() {
    let Some(lab) = Lab::new("times_of_a_ping_are_those_of_bursts") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "");
    let (a, b) = pair(&hosts);
    a.reaches(b);
    let file = lab.path("ping.pcapng");
    let mut command = weir.command(&format!("capture --filter icmp --count 2 --json -w {}", file.display()));
    let mut capture = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    while capture.try_wait().expect("ours").is_none() {
        a.ping(b, "-c 1 -W 1");
    }
    let ended = capture.wait_with_output().expect("ends");
    let totals: Value = serde_json::from_slice(&ended.stdout).expect("one document");
    assert_eq!((&totals["packets"], &totals["same_time_packets"]), (&2.into(), &1.into()), "{totals}");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.ends_with("\n1 has the time of the packet before it: times are those of bursts\n"), "{said}");
    let bytes = std::fs::read(&file).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("Times are those of bursts"));
    weir.stop();
}

#[test]
fn lines_of_what_is_dropped() {
    let Some(lab) = Lab::new("lines_of_what_is_dropped") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "--forward xconnect");
    let (a, b) = pair(&hosts);
    a.reaches(b);
    lab.switch.run("ip link set p2 down");
    // Until the switch has seen it, packets end at the port that they are for.
    let down = || weir.ask("show ports")["ports"][1]["link_up"] == false;
    eventually("the switch to see that the link is down", || down().then_some(()));
    let mut command = weir.command("capture --direction drop --filter icmp --count 1 --json");
    let mut capture = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    while capture.try_wait().expect("ours").is_none() {
        a.ping(b, "-c 1 -W 1");
    }
    let ended = capture.wait_with_output().expect("ends");
    let line: Value = serde_json::from_slice(&ended.stdout).expect("one document");
    assert_eq!(
        (&line["port"], &line["direction"], &line["reason"]),
        (&"port1".into(), &"drop".into(), &"port_down".into())
    );
    assert_eq!((&line["headers"]["src"], &line["headers"]["proto"]), (&a.address().into(), &1.into()), "{line:#}");
    assert!(line["summary"].as_str().expect("text").contains("echo request"), "{line:#}");
    assert!(String::from_utf8_lossy(&ended.stderr).starts_with("1 packet captured, 0 missed"));
    weir.stop();
}

/// A reader that does not read: the switch goes on, what finds no room is counted, and the count is
/// in the file.
#[test]
fn a_slow_reader_loses_packets_and_nothing_else() {
    let Some(lab) = Lab::new("a_slow_reader_loses_packets_and_nothing_else") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "--program hashpipe");
    let (a, b) = pair(&hosts);
    a.reaches(b);
    let mut command = weir.command("capture --direction all --duration 4s -w -");
    let mut capture = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
    let iperf = Iperf::serve(b);
    let before = weir.ask("show ports")["packets"].clone();
    let received = iperf.run(a, Protocol::Tcp, "--time 2");
    assert!(received.bits_per_second > 10e6, "{received:?}");
    drop(iperf);
    let after = weir.ask("show ports")["packets"].clone();
    let of = |key: &str| after[key].as_u64().unwrap() - before[key].as_u64().unwrap();
    let passed = of("rx_packets") + of("tx_packets") + of("dropped_packets");

    let mut reader = CaptureReader::new(capture.stdout.take().expect("piped")).unwrap();
    let kept = packets(&mut reader).len() as u64;
    assert!(capture.wait().expect("ends").success());
    assert!(reader.missed() > 0, "{kept} of {passed} kept");
    assert!(kept + reader.missed() >= passed * 9 / 10, "{kept} kept and {} missed of {passed}", reader.missed());
    let totals = weir.stop();
    assert!(
        kept + reader.missed() <= totals.rx() + totals.tx() + totals.0["packets"]["dropped_packets"].as_u64().unwrap()
    );
}

/// The error says which file could not be written and what is in it, and that can be read.
#[test]
fn a_full_disk_is_named_and_leaves_a_capture() {
    let Some(lab) = Lab::new("a_full_disk_is_named_and_leaves_a_capture") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "");
    let (a, b) = pair(&hosts);
    a.reaches(b);
    let full = weir.command("capture --filter icmp -w /dev/full").output().expect("runs");
    let error = String::from_utf8_lossy(&full.stderr).into_owned();
    assert_eq!(full.status.code(), Some(1), "{error}");
    assert!(error.contains("/dev/full: No space left on device") && error.contains("0 packets"), "{error}");

    let disk = lab.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = |words: &str| {
        let status = Command::new("sh").args(["-c", &format!("{words} {}", disk.display())]).status();
        assert!(status.expect("sh runs").success(), "{words}");
    };
    mount("mount -t tmpfs -o size=16k none");
    let file = disk.join("t.pcapng");
    let mut command = weir.command(&format!("capture --filter icmp -w {}", file.display()));
    let capture = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    eventually("the capture to begin", || file.metadata().is_ok_and(|file| file.len() > 0).then_some(()));
    assert!(a.ping(b, "-c 20 -i 0.01 -s 1000"));
    let ended = capture.wait_with_output().expect("ends");
    let kept = packets(&mut CaptureReader::open(&file).unwrap()).len();
    let (bytes, error) = (file.metadata().unwrap().len(), String::from_utf8_lossy(&ended.stderr).into_owned());
    mount("umount");
    assert_eq!(ended.status.code(), Some(1), "{error}");
    assert!((5..16).contains(&kept) && bytes > 5000, "{kept} packets, {bytes} bytes");
    let number = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>().parse::<u64>().unwrap();
    let (_, said) = error.split_once("t.pcapng: No space left on device (os error 28); it has ").expect("is named");
    let (said_packets, said_bytes) = said.split_once(" packets, ").expect("both counts");
    assert_eq!((number(said_packets), number(said_bytes)), (kept as u64, bytes), "{error}");
    weir.stop();
}

/// As many as are allowed; one whose client has gone makes room.
#[test]
fn captures_are_bounded_and_end_with_their_clients() {
    let Some(lab) = Lab::new("captures_are_bounded_and_end_with_their_clients") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "");
    let (a, b) = pair(&hosts);
    a.reaches(b);
    let files: Vec<_> = (0..4).map(|n| lab.path(&format!("{n}.pcapng"))).collect();
    let mut captures: Vec<_> = files.iter().map(|file| capture(&weir, "", file)).collect();
    let refused = weir.try_ask("capture --count 1");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("4 captures run already"));

    let mut gone = captures.pop().expect("four");
    gone.kill().and_then(|()| gone.wait()).expect("ours");
    eventually("room for another capture", || weir.try_ask("capture --duration 1ms").status.success().then_some(()));

    assert!(a.ping(b, "-c 3"));
    // SIGTERM ends the others, with their files whole.
    for (capture, file) in captures.into_iter().zip(files) {
        stop(capture);
        let mut reader = CaptureReader::new(File::open(file).unwrap()).unwrap();
        assert!(packets(&mut reader).len() >= 12);
        assert_eq!(reader.missed(), 0);
    }
    weir.stop();
}

#[test]
fn refusals() {
    let Some(lab) = Lab::new("observers::refusals") else { return };
    let (weir, _hosts) = lab.start(Link::Veth, 2, "");
    for (line, code, said) in [
        ("capture --port nonesuch", 2, "there is no port nonesuch; the ports are port1, port2"),
        ("capture --snaplen 3", 2, "snaplen_bytes = 3"),
        ("trace --next arp --port nonesuch", 2, "there is no port nonesuch"),
        ("trace --next greater --timeout 1s", 2, "a number of bytes"),
        ("trace --next port-9 --timeout 1s", 2, "not a word of filters"),
    ] {
        let ended = weir.try_ask(line);
        let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(code), "weir {line}: {stderr}");
        assert!(stderr.contains(said), "weir {line}: {stderr}");
    }
    let ended = weir.command("trace --timeout 100ms --next").arg("vlan 4000 and tcp").output().expect("runs");
    assert_eq!(ended.status.code(), Some(2), "--next takes the word behind it, which is --socket's");
    let ended = weir.command("trace --timeout 100ms").args(["--next", "vlan 4000 and tcp"]).output().expect("runs");
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("no packet matched within 100ms"));
    weir.stop();
}

/// The traced packet is measured and forwarded like all others: the counts after it say so.
#[test]
fn the_next_packet() {
    for link in [Link::Veth, Link::Tap] {
        let Some(lab) = Lab::new("the_next_packet") else { return };
        let (weir, hosts) = lab.start(link, 2, "--program hashpipe:stages=3,slots=256");
        let (a, b) = pair(&hosts);
        a.reaches(b);
        let mut command = weir.command("trace --port port2 --json --next icmp --timeout 20s");
        let trace = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        assert!(a.ping(b, "-c 10 -i 0.1"), "every ping is answered, the traced one too");
        let ended = trace.wait_with_output().expect("ends");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{said}");
        let packet: Value = serde_json::from_slice(&ended.stdout).expect("a document");
        assert_eq!((&packet["port"], &packet["egress"]), (&"port2".into(), &"port1".into()), "{packet:#}");
        assert_eq!((&packet["headers"]["src"], &packet["headers"]["dst"]), (&b.address().into(), &a.address().into()));
        let program = &packet["programs"][0];
        let stages = program["stages"].as_array().expect("stages");
        assert_eq!((&program["program"], stages.len()), (&"hashpipe".into(), 3), "{packet:#}");
        let after = stages[0][0]["cell"]["after"].as_str().expect("the first stage is always touched");
        let estimate = program["flow_estimate"].as_u64().expect("a count");
        assert!(after.starts_with(&format!("{} → {} icmp, ", b.address(), a.address())), "{after}");
        assert!(after.ends_with(&format!(", {estimate}")), "{after}");
        let lookups = packet["lookups"].as_array().expect("lookups");
        assert_eq!(lookups.len(), 2, "{packet:#}");
        assert_eq!((&lookups[1]["port"], &lookups[1]["action"]), (&"port1".into(), &"to its port".into()));
        assert_eq!(packet["outputs"].as_array().map(Vec::len), Some(1));
        std::thread::sleep(Duration::from_millis(200));
        weir.stop();
    }
}
