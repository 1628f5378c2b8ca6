//! What a run shows of itself while it goes on: metrics, and a full screen.
#![cfg(feature = "dpdk")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const RING: &str = "run --tx ring:a --rx ring:a --no-huge-pages";

/// A run, and where its metrics are.
fn measured(line: &str) -> (Child, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.args(format!("{RING} --metrics 0 {line}").split_ascii_whitespace());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = lines.find_map(|line| {
        let line = line.ok()?;
        let (_, rest) = line.split_once("metrics at http://")?;
        Some(rest.strip_suffix("/metrics")?.parse().expect("an address"))
    });
    (child, address.expect("says where its metrics are"))
}

fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: pktgen\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn value(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
}

#[test]
fn metrics_follow_the_run() {
    let (child, address) = measured("--rate 20kpps --duration 4s --fault tx:every=100 --json --quiet");
    let end = Instant::now() + Duration::from_secs(20);
    let metrics = || loop {
        let text = get(address, "/metrics").expect("is served while the run goes on");
        if value(&text, "pktgen_sent_packets_total") > 2000.0 {
            break text;
        }
        assert!(Instant::now() < end, "{text}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let first = metrics();
    assert!(first.starts_with("HTTP/1.1 200") && first.contains("content-type: text/plain; version=0.0.4"), "{first}");
    assert_eq!(value(&first, "pktgen_asked_packets_per_second"), 20_000.0);
    let sent = value(&first, "pktgen_sent_packets_total");
    // A core may count a burst's packets and not yet its bytes.
    let bytes = value(&first, "pktgen_sent_bytes_total");
    assert!((bytes / 60.0 - sent).abs() <= 64.0, "{first}");
    let received = value(&first, "pktgen_received_packets_total");
    // One of a hundred is lost, and others are on their way.
    assert!(received > 0.0 && received <= 0.99 * sent + 1.0, "{first}");
    assert!(value(&first, "pktgen_missing_packets") >= (sent / 100.0).floor() - 1.0, "{first}");
    assert!(value(&first, "pktgen_reached_packets_per_second") > 0.0);
    for none in ["reordered", "duplicate", "uncertain", "foreign"] {
        assert_eq!(value(&first, &format!("pktgen_{none}_packets_total")), 0.0);
    }
    let counted = value(&first, "pktgen_latency_seconds_count");
    assert_eq!(value(&first, "pktgen_latency_seconds_bucket{le=\"+Inf\"}"), counted);
    assert!(counted > 0.0 && value(&first, "pktgen_latency_seconds_sum") > 0.0);
    assert!(value(&first, "pktgen_lateness_seconds_count") > 0.0);
    std::thread::sleep(Duration::from_millis(100));
    let second = metrics();
    assert!(value(&second, "pktgen_sent_packets_total") > sent, "{second}");
    assert_eq!(first.lines().count(), second.lines().count(), "the text does not grow");
    for other in ["/", "/v1/ports"] {
        assert!(get(address, other).is_some_and(|answer| answer.starts_with("HTTP/1.1 404")), "{other}");
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["sent"]["packets"], 80_000, "{report:#}");
    assert!(get(address, "/metrics").is_none(), "nothing is left");
}

/// The end of the screen, as long as the run was not told to end.
const FOOT: &str = "q end";

/// A run in a terminal of its own, to which `keys` are typed once it has drawn its screen. Gives what the terminal
/// got, and the exit code. `None` where no terminal can be made.
fn in_terminal(line: &str, keys: &[u8]) -> Option<(String, Option<i32>)> {
    let pktgen = env!("CARGO_BIN_EXE_pktgen");
    // Where the run is over, nobody reads them.
    in_terminal_by(&format!("{pktgen} {RING} --live {line}"), |to| drop(to.write_all(keys)))
}

/// The same for a command of the shell, and for what is done once the screen is drawn.
fn in_terminal_by(command: &str, act: impl FnOnce(&mut ChildStdin)) -> Option<(String, Option<i32>)> {
    let shell = format!("stty cols 100 rows 30; {command}");
    let mut script = Command::new("script");
    script.args(["-qec", &shell, "/dev/null"]).env("TERM", "xterm-256color").env("SHELL", "/bin/sh");
    let child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: there is no `script`, which makes a terminal");
        return None;
    };
    let mut from = child.stdout.take().unwrap();
    let (drawn, is_drawn) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let (mut text, mut part) = (Vec::new(), [0; 4096]);
        while let Ok(len @ 1..) = from.read(&mut part) {
            text.extend_from_slice(&part[..len]);
            if text.windows(FOOT.len()).any(|end| end == FOOT.as_bytes()) {
                let _ = drawn.send(());
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut to = child.stdin.take().unwrap();
    // Keys that come before the screen is there would be signals. A run that fails has no screen.
    let _ = is_drawn.recv_timeout(Duration::from_secs(60));
    act(&mut to);
    let end = Instant::now() + Duration::from_secs(60);
    let status = loop {
        match child.try_wait().unwrap() {
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(50)),
            None => child.kill().unwrap(),
            Some(status) => break status,
        }
    };
    Some((reader.join().unwrap(), status.code()))
}

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// The terminal is given back before the report, after the end as after Ctrl-C.
#[test]
fn a_screen_leaves_the_terminal_whole() {
    for (line, keys) in [("--rate 10kpps --duration 1s", &b""[..]), ("--rate 10kpps --duration 100s", b"\x03")] {
        let Some((text, code)) = in_terminal(line, keys) else { return };
        assert_eq!(code, Some(0), "{line}: {text:?}");
        let (_, screen) = text.split_once(ENTER).unwrap_or_else(|| panic!("no screen: {text:?}"));
        let (screen, after) = screen.split_once(LEAVE).unwrap_or_else(|| panic!("no end of the screen: {text:?}"));
        assert!(screen.contains("reached") && screen.contains(FOOT), "{screen:?}");
        assert!(after.contains("received"), "{after:?}");
        assert!(!after.contains(ENTER), "{after:?}");
    }
}

/// Ctrl-C twice ends the run at once, whatever is on its way.
#[test]
fn ctrl_c_twice_leaves_the_terminal_whole() {
    let Some((text, code)) = in_terminal("--rate 1kpps --fault tx:every=2 --drain 20s", b"\x03\x03") else { return };
    assert_eq!(code, Some(1), "{text:?}");
    let after = text.rsplit_once(LEAVE).map(|(_, after)| after).unwrap_or_else(|| panic!("{text:?}"));
    assert!(after.contains("\x1b[?25h"), "the cursor is hidden: {after:?}");
}

/// A signal that ends the run at once finds the terminal whole as well.
#[test]
fn signals_leave_the_terminal_whole() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("process");
    for signal in ["HUP", "QUIT"] {
        let pktgen = env!("CARGO_BIN_EXE_pktgen");
        let run = format!(
            "sh -c 'echo $$ > {}; exec env --default-signal=HUP,QUIT {pktgen} {RING} --live --rate 1kpps --duration 100s'",
            file.display()
        );
        let kill = || {
            let process = std::fs::read_to_string(&file).unwrap();
            Command::new("kill").args(["-s", signal, process.trim()]).status().unwrap();
        };
        let Some((text, _)) = in_terminal_by(&format!("{run}; stty -a"), |_| kill()) else { return };
        let after = text.rsplit_once(LEAVE).map(|(_, after)| after).unwrap_or_else(|| panic!("{text:?}"));
        assert!(after.contains("\x1b[?25h"), "the cursor is hidden: {after:?}");
        assert!(after.contains(" icanon") && after.contains(" echo "), "raw: {after:?}");
    }
}

/// An error after the screen was opened leaves no screen behind.
#[test]
fn an_error_leaves_the_terminal_whole() {
    let Some((text, code)) = in_terminal("--rate 10kpps --duration 1s --truth /dev/full --epoch 5ms", b"") else {
        return;
    };
    assert_eq!(code, Some(1), "{text:?}");
    let after = text.rsplit_once(LEAVE).map(|(_, after)| after).unwrap_or_else(|| panic!("{text:?}"));
    assert!(after.contains("No space left on device"), "{after:?}");
}

/// A run whose terminal goes away goes on without a screen, and ends.
#[test]
fn a_run_outlives_its_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let ended = directory.path().join("ended");
    let pktgen = env!("CARGO_BIN_EXE_pktgen");
    // As under nohup: the terminal's end is no signal.
    let run = format!("{pktgen} {RING} --live --rate 10kpps --duration 2s");
    let shell = format!("trap '' HUP; stty cols 100 rows 30; {run}; echo over > {}", ended.display());
    let mut script = Command::new("script");
    script.args(["-qec", &shell, "/dev/null"]).env("TERM", "xterm-256color").env("SHELL", "/bin/sh");
    let child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = child else { return eprintln!("skipped: there is no `script`, which makes a terminal") };
    let mut screen = child.stdout.take().unwrap();
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    while !text.windows(FOOT.len()).any(|end| end == FOOT.as_bytes()) {
        let len = screen.read(&mut part).unwrap();
        assert!(len > 0, "no screen: {:?}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&part[..len]);
    }
    assert!(!ended.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while !ended.exists() {
        assert!(Instant::now() < end, "it goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Without a terminal there is no screen, and with --json there is a document.
#[test]
fn no_terminal_no_screen() {
    for line in ["--live", "--live --json"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
        let output = command
            .args(format!("{RING} --rate 10kpps --duration 200ms {line}").split_ascii_whitespace())
            .output()
            .expect("runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && !text.contains('\x1b') && text.contains("packets"), "{text}");
    }
}
