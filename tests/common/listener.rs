//! Which frames come by an interface: what a host sees of what switches tell each other.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use super::Namespace;

/// Counts the frames at an interface by EtherType and length, until its input ends; and, as
/// `changed`, the IPv4 packets that are longer or shorter than they say, and those with another type
/// of service than 0, which hosts give to their ICMP errors alone.
const LISTENER: &str = r#"
import json, select, socket, sys
frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
frames.bind((sys.argv[1], 0))
print("ready", flush=True)
seen, changed = {}, 0
while frames in select.select([frames, sys.stdin], [], [])[0]:
    frame = frames.recv(65535)
    kind = frame[12:14].hex()
    seen.setdefault(kind, {}).setdefault(len(frame), 0)
    seen[kind][len(frame)] += 1
    if kind == "0800":
        changed += (frame[15] != 0 and frame[23] != 1) or int.from_bytes(frame[16:18], "big") != len(frame) - 14
print(json.dumps({"frames": seen, "changed": changed}))
"#;

/// Listens at an interface, such as a host's.
pub struct Listener {
    python: Child,
    said: BufReader<ChildStdout>,
}

impl Listener {
    pub fn start(space: &Namespace, interface: &str) -> Self {
        let mut python = space.command("python3");
        python.args(["-c", LISTENER, interface]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut python = python.spawn().expect("python3 starts");
        let mut listener = Self { said: BufReader::new(python.stdout.take().expect("piped")), python };
        assert_eq!(listener.line(), "ready\n");
        listener
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("it says something");
        line
    }

    /// The number of frames, by EtherType in hexadecimal and length in bytes.
    ///
    /// # Panics
    /// If any frame shows that it crossed a switch that measures: there are none but IPv4, ARP and
    /// IPv6, and the IPv4 packets are as hosts send them.
    pub fn stop(mut self) -> Value {
        drop(self.python.stdin.take());
        let seen: Value = serde_json::from_str(&self.line()).expect("JSON");
        self.python.wait().expect("it ends");
        let frames = seen["frames"].as_object().expect("an object");
        assert!(frames.keys().all(|kind| ["0800", "0806", "86dd"].contains(&kind.as_str())), "{seen}");
        assert!(frames.contains_key("0800") && seen["changed"] == 0, "{seen}");
        seen["frames"].clone()
    }
}
