//! Switch and hosts in network namespaces, for tests of the real binary.
//!
//! A namespace lives as long as a process of ours stays in it, so nothing is left behind in /run/netns however a test
//! ends. As root the namespaces are plain ones; otherwise the switch's namespace comes with a user namespace in which
//! the test is root, and the hosts' are made inside that.

mod iperf;
mod lab;
mod namespace;
pub mod pcap;
mod weir;

pub use iperf::{Iperf, Protocol};
pub use lab::{Host, Lab, Link, skip};
pub use namespace::Namespace;
pub use weir::{Totals, Weir};

use std::time::{Duration, Instant};

/// Tries until it succeeds, and says after ten seconds what was waited for.
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < end, "waited ten seconds for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
