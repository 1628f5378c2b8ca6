//! HTTP by hand, within a namespace.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use super::Namespace;

/// A port of the loopback that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// The answer to a request for `path` at a port of the namespace's loopback, with its head.
pub fn get(space: &Namespace, port: u16, path: &str) -> String {
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&0 >&3; cat <&3");
    let mut bash = space.command("bash");
    let mut bash = bash.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash runs");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    bash.stdin.take().expect("piped").write_all(request.as_bytes()).expect("asks");
    let mut answer = String::new();
    bash.stdout.take().expect("piped").read_to_string(&mut answer).expect("answers");
    bash.wait().expect("ends");
    answer
}
