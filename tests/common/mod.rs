//! Switch and hosts in network namespaces, for tests of the real binary.
//!
//! A namespace lives as long as a process of ours stays in it, so nothing is left behind in
//! /run/netns however a test ends. As root the namespaces are plain ones; otherwise the switch's
//! namespace comes with a user namespace in which the test is root, and the hosts' are made inside
//! that.

pub mod capture;
mod controller;
pub mod http;
mod iperf;
mod lab;
mod listener;
mod namespace;
pub mod pcap;
mod skip;
mod testpmd;
mod weir;

pub use controller::Controller;
pub use iperf::{Iperf, Protocol};
pub use lab::{Host, Lab, Link};
pub use listener::Listener;
pub use namespace::{Namespace, is_root};
pub use skip::{Lack, skip};
pub use testpmd::Testpmd;
pub use weir::{BINARY, Totals, Weir};

use std::io::Read;
use std::process::{Child, ExitStatus};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Tries until it succeeds, and says after a minute, which is long on a loaded machine too, what
/// was waited for. What is broken on purpose (`make mutants`) is not waited for as long.
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let timeout = Duration::from_secs(if std::env::var_os("WEIR_MUTANT").is_some() { 15 } else { 60 });
    let end = Instant::now() + timeout;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < end, "waited {timeout:?} for {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Reads whatever a process prints, so that it never waits for a reader.
fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for a process to end; `None` when it does not.
fn finish(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + timeout;
    loop {
        match child.try_wait().expect("a child of ours") {
            None if Instant::now() < end => thread::sleep(Duration::from_millis(20)),
            ended => return ended,
        }
    }
}
