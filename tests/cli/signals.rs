//! Signals that end commands: the answer until then, and a terminal as it was.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Ended, Files};

const SIGHUP: u32 = 1;
const SIGINT: u32 = 2;
const SIGTERM: u32 = 15;

const DEADLINE: Duration = Duration::from_secs(60);

/// Calls `look` until it gives something.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal to a process, once it handles SIGINT.
fn signal(process: u32, signal: u32) {
    until("it takes signals", || {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        (u64::from_str_radix(mask.trim(), 16).ok()? >> (SIGINT - 1) & 1 == 1).then_some(())
    });
    let kill = Command::new("kill").args([format!("-{signal}"), process.to_string()]).status();
    assert!(kill.unwrap().success());
}

/// `weir replay` of `file` in the directory, on its way.
fn replay(files: &Files, file: &str, more: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(files.path("")).env_remove("RUST_LOG").args(["replay", file]).args(more.split_whitespace());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A pipe with a name.
fn named_pipe(files: &Files) {
    assert!(Command::new("mkfifo").arg(files.path("pipe")).status().unwrap().success());
}

/// The capture ends with the signal, at a packet's end, though its pipe is still open. The answer is
/// that of the packets which were in the pipe.
#[test]
fn a_capture_on_its_way_ends_with_an_answer() {
    let files = Files::new();
    files.capture("t.pcap", "isp/burst,flows=40,packets=300");
    let (bytes, words) = (fs::read(files.path("t.pcap")).unwrap(), "--reproducible 1 --program hashpipe");
    let whole = files.weir(&format!("replay t.pcap --json {words}")).json();
    for (number, part) in [(SIGINT, 0), (SIGINT, 20), (SIGTERM, 20)] {
        let mut child = replay(&files, "-", &format!("--json {words}"));
        let mut pipe = child.stdin.take().unwrap();
        // The next packet has begun.
        pipe.write_all(&[&bytes, &bytes[24..24 + part]].concat()).unwrap();
        signal(child.id(), number);
        let ended = Ended::of(child.wait_with_output().unwrap());
        let document = ended.json();
        assert_eq!((&document["interrupted"], &document["packets"]), (&Value::Bool(true), &300.into()));
        assert_eq!(document["programs"], whole["programs"]);
        assert_eq!((document.get("error"), ended.stderr.as_str()), (None, ""));
    }
    assert_eq!(whole["interrupted"], false);
}

#[test]
fn a_capture_that_never_began_is_an_answer_too() {
    let files = Files::new();
    let mut child = replay(&files, "-", "");
    let pipe = child.stdin.take();
    signal(child.id(), SIGINT);
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert!(ended.stdout.starts_with("0 packets") && ended.stdout.contains("\ninterrupted"), "{}", ended.stdout);
    drop(pipe);
}

/// A file of which a part was not read is an error, with a report of what was read.
#[test]
fn files_are_ended_as_well() {
    let files = Files::new();
    // More than a pipe holds: what is written was read in part.
    files.capture("t.pcap", "isp/burst,flows=40,packets=3000");
    named_pipe(&files);
    let child = replay(&files, "pipe", "--json");
    let mut pipe = File::options().write(true).open(files.path("pipe")).unwrap();
    let bytes = fs::read(files.path("t.pcap")).unwrap();
    pipe.write_all(&bytes).unwrap();
    signal(child.id(), SIGTERM);
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("pipe: interrupted; the report covers what came before"), "{}", ended.stderr);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["interrupted"], true);
}

/// The first signal waits for somebody who opens the pipe, a later one for nothing.
#[test]
fn a_second_signal_ends_at_once() {
    let files = Files::new();
    named_pipe(&files);
    let mut child = replay(&files, "pipe", "");
    let mut sent = 0;
    let status = until("it ends", || {
        signal(child.id(), SIGINT);
        sent += 1;
        std::thread::sleep(Duration::from_millis(200));
        child.try_wait().unwrap()
    });
    assert!(sent > 1 && status.code() == Some(1), "{sent} signals, {status}");
}

/// What a command left in a terminal: `words` are run there, and `act` is called with the process
/// once the terminal shows `sign`. `None` where no terminal can be made.
fn in_terminal(directory: &Path, words: &str, sign: &str, act: impl FnOnce(u32)) -> Option<(String, bool)> {
    let weir = env!("CARGO_BIN_EXE_weir");
    let shell = format!(
        "cd {}; rm -f process; stty cols 100 rows 30; stty -g > before; \
         sh -c 'echo $$ > process; exec {weir} {words}'; stty -g > after",
        directory.display()
    );
    let mut script = Command::new("script");
    script.args(["-qec", &shell, "/dev/null"]).env("TERM", "xterm-256color").env("SHELL", "/bin/sh");
    let child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: there is no `script`, which makes a terminal");
        return None;
    };
    let keys = child.stdin.take();
    let (mut from, mut text, mut part, mut act) = (child.stdout.take().unwrap(), Vec::new(), [0; 4096], Some(act));
    while let Ok(len @ 1..) = from.read(&mut part) {
        text.extend_from_slice(&part[..len]);
        if text.windows(sign.len()).any(|seen| seen == sign.as_bytes())
            && let Some(act) = act.take()
        {
            act(fs::read_to_string(directory.join("process")).unwrap().trim().parse().unwrap());
        }
    }
    child.wait().unwrap();
    drop(keys);
    let [before, after] = ["before", "after"].map(|name| fs::read_to_string(directory.join(name)).unwrap());
    assert!(act.is_none(), "it never showed {sign:?}: {:?}", String::from_utf8_lossy(&text));
    Some((String::from_utf8_lossy(&text).into_owned(), before == after))
}

#[test]
fn a_progress_bar_is_cleared() {
    let files = Files::new();
    for number in [SIGINT, SIGTERM, SIGHUP] {
        let words = "sim --topology line:2 --epochs 100000 --workload isp,flows=10,packets=100";
        let end = |process| signal(process, number);
        let Some((text, is_same)) = in_terminal(&files.path(""), words, "epochs,", end) else { return };
        let (_, last) = text.rsplit_once("to go").expect("a bar");
        assert!(is_same && last.contains("\r\x1b[K"), "signal {number}: {last:?}");
    }
}

/// A screen, the cursor and the terminal's modes, after each signal that ends it.
#[cfg(feature = "control")]
#[test]
fn a_full_screen_is_given_back() {
    let files = Files::new();
    let controller = "controller --name c --switch s1 --state state --socket c.sock --switch-socket s.sock";
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(files.path("")).args(controller.split(' ')).stderr(Stdio::null());
    let mut controller = command.spawn().unwrap();
    until("the controller listens", || files.path("c.sock").exists().then_some(()));
    for number in [SIGINT, SIGTERM, SIGHUP] {
        let end = |process| signal(process, number);
        let Some((text, is_same)) = in_terminal(&files.path(""), "top --socket c.sock", "\x1b[?1049h", end) else {
            break;
        };
        let (_, after) = text.rsplit_once("\x1b[?1049l").expect("the end of the screen");
        assert!(is_same && after.contains("\x1b[?25h"), "signal {number}: {after:?}");
    }
    signal(controller.id(), SIGTERM);
    controller.wait().unwrap();
}
