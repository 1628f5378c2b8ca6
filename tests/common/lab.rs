//! A switch with hosts around it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

use super::{Lack, Namespace, Weir, eventually, skip};

/// How hosts are joined to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Tap,
    Veth,
    /// A veth as well, but weir takes it by AF_XDP.
    Xdp,
}

/// A switch polls a core: there are no more labs at a time than cores. Most of a test is waiting, so
/// two on two cores leave each other time enough.
struct Turn;

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

impl Turn {
    fn take() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = ENDED.wait_while(running, |running| *running >= cores);
        *waited.unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}

pub struct Lab {
    pub switch: Namespace,
    directory: tempfile::TempDir,
    _turn: Turn,
}

impl Lab {
    /// `None`, and the reason on stderr, where the machine forbids it.
    pub fn new(test: &str) -> Option<Self> {
        let turn = Turn::take();
        match Namespace::new() {
            Ok(switch) => Some(Self { switch, directory: tempfile::tempdir().expect("a directory"), _turn: turn }),
            Err(reason) => {
                skip(test, Lack::Machine, &reason);
                None
            }
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The ports of a switch with `hosts` hosts, before it runs.
    pub fn ports(&self, link: Link, hosts: usize) -> Ports<'_> {
        let ports =
            Ports { lab: self, link, hosts: (1..=hosts).map(|n| Host { n, space: self.switch.sibling() }).collect() };
        if link != Link::Tap {
            for host in &ports.hosts {
                let (inside, outside) = (format!("p{}", host.n), host.interface());
                self.switch
                    .run(&format!("ip link add {inside} type veth peer name {outside} netns {}", host.space.id()));
                // The kernel under the switch is no host: it says nothing by itself there.
                self.switch.run(&format!("ip link set {inside} addrgenmode none up"));
            }
        }
        ports
    }

    /// Starts a switch with a port `port1`, `port2`, … for each host, and gives the hosts
    /// addresses.
    pub fn start(&self, link: Link, hosts: usize, arguments: &str) -> (Weir, Vec<Host>) {
        let ports = self.ports(link, hosts);
        let weir = Weir::start(self, &self.switch, "switch", &format!("{} {arguments}", ports.arguments()));
        (weir, ports.connect())
    }
}

/// Hosts that are to be joined to a switch.
pub struct Ports<'a> {
    lab: &'a Lab,
    link: Link,
    hosts: Vec<Host>,
}

impl Ports<'_> {
    /// What `weir run` must be given.
    pub fn arguments(&self) -> String {
        let argument = |host: &Host| match self.link {
            Link::Tap => format!("--port port{n}=tap:{}", host.interface(), n = host.n),
            Link::Veth => format!("--port port{n}=veth:p{n}", n = host.n),
            Link::Xdp => format!("--port port{n}=xdp:p{n}", n = host.n),
        };
        self.hosts.iter().map(argument).collect::<Vec<_>>().join(" ")
    }

    /// Gives the running switch's hosts their interfaces and addresses, with the kernel's offloads
    /// as they are.
    pub fn connect(self) -> Vec<Host> {
        for host in &self.hosts {
            if self.link == Link::Tap {
                self.lab.switch.run(&format!("ip link set {} netns {}", host.interface(), host.space.id()));
            }
            host.configure();
        }
        self.hosts
    }
}

pub struct Host {
    n: usize,
    pub space: Namespace,
}

impl Host {
    /// That of its port, from 1.
    pub fn number(&self) -> usize {
        self.n
    }

    pub fn interface(&self) -> String {
        format!("h{}", self.n)
    }

    pub fn address(&self) -> String {
        format!("10.0.0.{}", self.n)
    }

    pub fn address6(&self) -> String {
        format!("fd00::{}", self.n)
    }

    /// Takes the host's interface, and the switch's end with it, away; at a tap port the interface
    /// alone.
    pub fn unplug(&self) {
        self.space.run(&format!("ip link del {self}"));
    }

    /// A veth pair in place of one that was taken away, with the same names.
    pub fn plug_in(&self, switch: &Namespace) {
        let id = self.space.id();
        switch.run(&format!("ip link add p{n} up type veth peer name {self} netns {id}", n = self.n));
        self.configure();
    }

    /// Takes a tap interface over that the switch has made.
    pub fn take_tap(&self, switch: &Namespace) {
        eventually("the switch to make the interface", || {
            switch.succeeds(&format!("ip link show {self}")).then_some(())
        });
        switch.run(&format!("ip link set {self} netns {}", self.space.id()));
        self.configure();
    }

    /// Addresses that went with the interface.
    pub fn configure_again(&self) {
        self.space.try_run(&format!("ip addr flush dev {self}"));
        self.configure();
    }

    fn configure(&self) {
        let interface = self.interface();
        self.space.run(&format!("ip addr add {}/24 dev {interface}", self.address()));
        self.space.run(&format!("ip addr add {}/64 dev {interface} nodad", self.address6()));
        self.space.run(&format!("ip link set {interface} up"));
    }

    pub fn ping(&self, to: &Host, options: &str) -> bool {
        self.pings(&to.address(), options)
    }

    pub fn ping6(&self, to: &Host, options: &str) -> bool {
        self.pings(&to.address6(), options)
    }

    fn pings(&self, address: &str, options: &str) -> bool {
        self.space.succeeds(&format!("ping -n -q -i 0.2 -W 2 {options} {address}"))
    }

    /// Packets that its kernel has sent and received by its interface. What it could not hand over
    /// was sent.
    pub fn counts(&self) -> [u64; 2] {
        let links = self.space.run(&format!("ip -json -s link show dev {self}"));
        let links: serde_json::Value = serde_json::from_str(&links).expect("JSON");
        let count = |way: &str, what: &str| links[0]["stats64"][way][what].as_u64().expect("a count");
        [count("tx", "packets") + count("tx", "dropped"), count("rx", "packets")]
    }

    /// Waits until the way to a host is there.
    pub fn reaches(&self, to: &Host) {
        eventually(&format!("{self} to reach {to}"), || self.ping(to, "-c 1 -W 1").then_some(()));
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.interface())
    }
}
